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
from lib.results import cell_path, command, read_rows

_QUESTION = ["dataset", "question_id"]
_LEVEL = {"unsupported": 0, "partially_supported": 1, "supported": 2}
WHOLE, APART, DEGENERATE = "all rows", "without degenerate", "degenerate alone"


def read_generated(run: str, p, judges: Sequence[str]) -> tuple[pd.DataFrame, list[str]]:
    """The judgments of the rows that were made of answers, and a note for each judge that lacks some.

    `p` has datasets, designs, generators and what selects the questions. Columns are those of `lib.plan.judgments`
    with generator, cut, degenerate and `same_model`: whether the judge and the generator are one model of one
    provider. A cell that was made from other answers or settings is not read. No judgment at all: an empty frame.
    """
    rows, found, notes = read_rows(run, p.datasets), [], []
    for judge in judges:
        entry, missing = load_judge(judge), []
        own = {name: _model(name) == _model(judge) for name in p.generators}
        for dataset in p.datasets:
            mine = rows[rows["dataset"] == dataset] if len(rows) else rows
            for prompt in p.designs:
                path = cell_path(run, judge, "primary", dataset, prompt)
                judged = pd.read_parquet(path) if path.exists() and len(mine) else None
                keys = [] if judged is None else [call.key for call in Plan(mine, (prompt,), entry)]
                if judged is None or judged["key"].tolist() != keys:
                    missing.append(("primary", dataset, prompt))
                else:
                    found.append(judged.assign(same_model=mine["generator"].map(own).to_numpy(dtype=bool)))
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
    full = judged[(judged["kind"] == "full") & judged["verdict"].notna()]
    full = full.assign(supported=(full["verdict"] == SUPPORTED).astype(float))
    own_of = {
        judge: set(rows.loc[rows["same_model"], "generator"]) for judge, rows in full.groupby("judge", sort=False)
    }
    lines = []
    for (judge, design), rows in full.groupby(["judge", "design"], sort=False):
        line = {"judge": judge, "design": design}
        own, there = own_of[judge], set(rows["generator"])
        if not own or own == there:
            why = "no answer is by its own model" if not own else "every answer is by its own model"
            lines.append(line | {"n_questions": 0, "note": why})
            continue
        mine = _by_question(rows, own)
        # Another entry of the same model is no other judge.
        rest = [name for name, makers in own_of.items() if name != judge and makers != own]
        third = [name for name in rest if not own_of[name]] or rest
        same = full[(full["design"] == design) & full["judge"].isin(third)]
        beside = [_by_question(part, own)["difference"] for _, part in same.groupby("judge", sort=False)]
        excess = (mine["difference"] - pd.concat(beside, axis=1).mean(axis=1)).dropna() if beside else None
        note = "no other judge: better answers would look the same" if excess is None else ""
        if third and all(own_of[name] for name in third):
            note = "the other judge is the other generator: both preferences together"
        tested = mine["difference"] if excess is None else excess
        line |= {"n_questions": len(mine), "own": mine["own"].mean(), "others": mine["others"].mean()}
        line |= _ends("difference", _interval(mine["difference"], 1))
        line |= _ends("excess", None if excess is None else _interval(excess, 2))
        test = sign_test(int((tested > 1e-12).sum()), int((tested < -1e-12).sum()))
        lines.append(
            line | {"p_value": test.p_value if len(tested) else math.nan, "beside": ", ".join(third), "note": note}
        )
    ends = [f"{name}{end}" for name in ("difference", "excess") for end in ("", "_low", "_high", "_note")]
    names = ["judge", "design", "n_questions", "own", "others", *ends, "p_value", "beside", "note"]
    return stats.with_holm(pd.DataFrame(lines, columns=names))


def _by_question(rows: pd.DataFrame, own: set[str]) -> pd.DataFrame:
    """The shares called supported of own and of other answers, for questions that have both."""
    sides = rows.assign(side=rows["generator"].isin(own).map({True: "own", False: "others"}))
    shares = sides.pivot_table(index=_QUESTION, columns="side", values="supported", aggfunc="mean")
    shares = shares.reindex(columns=["own", "others"]).dropna()
    return shares.assign(difference=shares["own"] - shares["others"])


def _interval(values: pd.Series, most: int) -> Interval:
    return cluster_bootstrap(values.to_numpy(), range(len(values)), bounds=(-most, most))


def _ends(name: str, found: Interval | None) -> dict:
    if found is None:
        return {}
    return {name: found.estimate, f"{name}_low": found.low, f"{name}_high": found.high, f"{name}_note": found.note}
