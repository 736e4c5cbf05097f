"""Generated answers: what is noise in such a set, how judges do on it, and whether one prefers its own model's.

The labels are nominal: a full answer is called supported and its first half partially supported, whatever the
generator said. So what is computed here is a noisy stress test. Making the rows is `lib.generate`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import pandas as pd

from lib import stats
from lib.exact import sign_test
from lib.judges import load_judge
from lib.labels import SUPPORTED
from lib.plan import Plan
from lib.resampling import Interval, cluster_bootstrap
from lib.results import cell_path, command

_QUESTION = ["dataset", "question_id"]
_LEVEL = {"unsupported": 0, "partially_supported": 1, "supported": 2}
WHOLE, APART, DEGENERATE = "all rows", "without degenerate", "degenerate alone"


def read_generated(run: str, p, judges: Sequence[str], rows: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    """The judgments of `rows`, made of answers by `lib.generate.answer_rows`, and a note for a judge that lacks some.

    `p` has datasets, designs, generators and what selects the questions. Columns are those of `lib.plan.judgments`
    with generator, cut, degenerate and `same_model`: whether the judge and the generator are one model of one
    provider. A cell that was made from other answers or settings is not read. No judgment at all: an empty frame.
    """
    found, notes = [], []
    for judge in judges:
        entry, missing = load_judge(judge), []
        own = {name: _model(name) == _model(judge) for name in p.generators}
        for dataset in p.datasets:
            mine = rows[rows["dataset"] == dataset].set_index("row_id", drop=False)
            for prompt in p.designs:
                path = cell_path(run, judge, "primary", dataset, prompt)
                judged = pd.read_parquet(path) if path.exists() and len(mine) else None
                keys = [call.key for call in Plan(mine, (prompt,), entry)]
                expected = dict(zip(mine["row_id"], keys, strict=True))
                if judged is None or dict(zip(judged["row_id"], judged["key"], strict=True)) != expected:
                    missing.append(("primary", dataset, prompt))
                else:
                    makers = mine["generator"][judged["row_id"]]
                    found.append(judged.assign(same_model=makers.map(own).to_numpy(dtype=bool)))
        if missing:
            notes.append(f"{len(missing)} cells by {judge} are not there: {command(p, judge, missing)}")
    if not found:
        return pd.DataFrame(), notes
    about = rows[["row_id", "generator", "cut", "degenerate"]]
    return pd.concat(found, ignore_index=True).merge(about, on="row_id", validate="many_to_one"), notes


def _model(name: str) -> tuple[str, str]:
    entry = load_judge(name)
    return entry.provider, entry.model


def noise(answers: pd.DataFrame, rows: pd.DataFrame) -> pd.DataFrame:
    """What is noise in a set, one line a generator.

    `answers` is that of `lib.generate.answers`, `rows` that of `answer_rows`. Columns: generator, questions, answers,
    `none` (empty or refused), cut, `one_sentence`, `degenerate` (answers whose partial has all words of the full
    one), their `share` with low, high, note (bootstrap over questions), and words_median of an answer.
    """
    lines = []
    full = rows[rows["kind"] == "full"]
    for generator, part in answers.groupby("generator", sort=False):
        mine = full[full["generator"] == generator]
        found = cluster_bootstrap(mine["degenerate"].astype(float), mine.groupby(_QUESTION).ngroup(), bounds=(0, 1))
        lines.append(
            {"generator": generator, "questions": len(part), "answers": len(mine), "none": len(part) - len(mine)}
            | {"cut": int(mine["cut"].sum()), "one_sentence": int((part["sentences"] == 1).sum())}
            | {"degenerate": int(mine["degenerate"].sum())}
            | {"share": found.estimate, "low": found.low, "high": found.high, "note": found.note}
            | {"words_median": mine["candidate"].str.split().str.len().median()}
        )
    return pd.DataFrame(lines)


def accuracy(judged: pd.DataFrame, by: Sequence[str] = ("judge",)) -> pd.DataFrame:
    """Tables 11 and 12: rows right against the nominal labels, by `set` x `by` x design.

    The sets: all rows, those of answers that are not degenerate, and the degenerate ones alone. Columns: set, `by`,
    design and those of `lib.stats.slice_accuracy`; a set without rows has no line.
    """
    sets = {WHOLE: judged, APART: judged[~judged["degenerate"]], DEGENERATE: judged[judged["degenerate"]]}
    return pd.concat([stats.accuracy(part, [*by, "design"]).assign(set=name) for name, part in sets.items()])[
        ["set", *by, *(name for name in stats.accuracy(judged, ["design"]))]
    ].reset_index(drop=True)


def paired(judged: pd.DataFrame) -> pd.DataFrame:
    """Designs in pairs, degenerate answers left out: columns of `lib.stats.compare_all`, Holm's p by judge."""
    return stats.with_holm(stats.compare_all(judged[~judged["degenerate"]], ["judge"]))


def halves(judged: pd.DataFrame) -> pd.DataFrame:
    """Whether a judge sees that a half is missing: its verdict on the partial beside that on the full answer.

    Degenerate answers are left out: there nothing is missing. Columns: judge, design, n_questions, `answers` judged
    on both sides, unjudged, `lower`, `same`, `higher` (verdict on the partial), `share` lower with low, high, note
    (bootstrap over questions), p_value of the exact sign test over questions (lower against higher on balance), and
    p_holm over the lines of a judge.
    """
    lines = []
    for (judge, design), part in judged[~judged["degenerate"]].groupby(["judge", "design"], sort=False):
        levels = part.assign(level=part["verdict"].map(_LEVEL)).pivot(
            index=[*_QUESTION, "generator"], columns="kind", values="level"
        )
        both = levels.dropna().reset_index()
        moved = both["partial"] - both["full"]
        questions = both.groupby(_QUESTION).ngroup()
        found = cluster_bootstrap((moved < 0).astype(float), questions, bounds=(0, 1))
        balance = (moved.clip(-1, 1)).groupby(questions).sum()
        test = sign_test(int((balance < 0).sum()), int((balance > 0).sum()))
        lines.append(
            {"judge": judge, "design": design, "n_questions": found.n_clusters, "answers": len(both)}
            | {"unjudged": len(levels) - len(both), "lower": int((moved < 0).sum())}
            | {"same": int((moved == 0).sum()), "higher": int((moved > 0).sum())}
            | {"share": found.estimate, "low": found.low, "high": found.high, "note": found.note}
            | {"p_value": test.p_value if len(both) else math.nan}
        )
    names = ["judge", "design", "n_questions", "answers", "unjudged", "lower", "same", "higher"]
    return stats.with_holm(pd.DataFrame(lines, columns=[*names, "share", "low", "high", "note", "p_value"]))


def self_preference(judged: pd.DataFrame) -> pd.DataFrame:
    """How much more often a judge calls its own model's answers supported than others', by judge x design.

    On questions that both its own model and another answered, full answers only, `difference` is the share of its own
    called supported minus that of the others. Its own may be better, so `excess` takes off the same difference as
    other judges see it: those of no generator's model, if there are any. The term is Panickssery et al.'s (2024); the
    estimate is a difference of differences. Both with _low, _high, _note (bootstrap over questions), p_value of the
    exact sign test over questions of the excess, or of the difference where there is no other judge, and p_holm over
    the lines of a judge. Columns: judge, design, n_questions, own, others (shares), these, `beside` (the other
    judges), and `note`: why there is no number, or what it does not hold apart. Unjudged rows are left out.
    """
    full = judged[judged["kind"] == "full"]
    own_of = {
        judge: set(rows.loc[rows["same_model"], "generator"]) for judge, rows in full.groupby("judge", sort=False)
    }
    full = full[full["verdict"].notna()].assign(supported=lambda rows: (rows["verdict"] == SUPPORTED).astype(float))
    lines = [
        {"judge": judge, "design": design, **_preference(judge, rows, full[full["design"] == design], own_of)}
        for (judge, design), rows in full.groupby(["judge", "design"], sort=False)
    ]
    ends = [f"{name}{end}" for name in ("difference", "excess") for end in ("", "_low", "_high", "_note")]
    names = ["judge", "design", "n_questions", "own", "others", *ends, "p_value", "beside", "note"]
    return stats.with_holm(pd.DataFrame(lines, columns=names))


def _preference(judge: str, rows: pd.DataFrame, full: pd.DataFrame, own_of: dict[str, set[str]]) -> dict:
    own = own_of[judge]
    if not own or own >= set(rows["generator"]):
        why = "no answer is by its own model" if not own else "every judged answer is by its own model"
        return {"n_questions": 0, "note": why}
    mine = _by_question(rows, own)
    if mine.empty:
        return {"n_questions": 0, "note": "no question has judged answers of its own model and of another"}
    # Another entry of the same model is no other judge.
    there = set(full["judge"])
    rest = [name for name, makers in own_of.items() if name != judge and makers != own and name in there]
    beside = [name for name in rest if not own_of[name]] or rest
    # Pairs of the same rows: what only one of two judges judged would be taken for a preference.
    parts = [_beyond(rows, full[full["judge"] == name], own) for name in beside]
    excess = pd.concat(parts, axis=1).mean(axis=1) if parts else pd.Series(dtype=float)
    note = "" if len(excess) else "no other judge judged these: better answers would look the same"
    if len(excess) and all(own_of[name] for name in beside):
        note = "the other judge is the other generator: both preferences together"
    tested = excess if len(excess) else mine["difference"]
    test = sign_test(int((tested > 1e-12).sum()), int((tested < -1e-12).sum()))
    line = {"n_questions": len(mine), "own": mine["own"].mean(), "others": mine["others"].mean()}
    line |= _ends("difference", _interval(mine["difference"], 1))
    line |= _ends("excess", _interval(excess, 2)) if len(excess) else {}
    return line | {"p_value": test.p_value, "beside": ", ".join(beside), "note": note}


def _beyond(rows: pd.DataFrame, other: pd.DataFrame, own: set[str]) -> pd.Series:
    """By question the difference of one judge beyond that of another, on the rows that both judged."""
    common = set(rows["row_id"]) & set(other["row_id"])
    sides = [_by_question(part[part["row_id"].isin(common)], own)["difference"] for part in (rows, other)]
    return (sides[0] - sides[1]).dropna()


def _by_question(rows: pd.DataFrame, own: set[str]) -> pd.DataFrame:
    """The shares called supported of own and of other answers, for questions that have both."""
    sides = rows.assign(side=rows["generator"].isin(own).map({True: "own", False: "others"}))
    shares = sides.pivot_table(index=_QUESTION, columns="side", values="supported", aggfunc="mean")
    shares = shares.reindex(columns=["own", "others"]).dropna()
    return shares.assign(difference=shares["own"] - shares["others"])


def _interval(values: pd.Series, most: int) -> Interval:
    return cluster_bootstrap(values.to_numpy(), range(len(values)), bounds=(-most, most))


def _ends(name: str, found: Interval) -> dict:
    return {name: found.estimate, f"{name}_low": found.low, f"{name}_high": found.high, f"{name}_note": found.note}
