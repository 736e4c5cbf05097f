"""What a condition does to verdicts: each judgment beside its primary one, on the same row by the same judge.

The unit of tests and intervals is the question. Nothing here reads files or renders.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations

import pandas as pd

from lib import stats
from lib.changes import target
from lib.conditions import CONDITIONS
from lib.exact import sign_test
from lib.plan import PRIMARY_RUN
from lib.power import smallest_difference
from lib.resampling import EXACT_BOUND, NOTE_NO_VARIATION, cluster_bootstrap

_QUESTION = ["dataset", "question_id"]
_SIDE = ["verdict", "correct", "status", "label"]
# A prompt that is no design's first version has no primary run of its own: what it is compared with.
_BASES = {"S": "C.v1", "C": "C.v1", "H": "H.v1"}
_LEVEL = {"unsupported": 0, "partially_supported": 1, "supported": 2}


def pairs(judged: pd.DataFrame) -> pd.DataFrame:
    """Each judgment under a condition beside the primary one of the same judge on the same row.

    `judged` has the columns of `lib.plan.judgments`, the primary run among its conditions. Columns: judge, group,
    condition, prompt, `base` (the prompt of the primary judgment: its own, or C.v1 or H.v1 for another version and
    for S), dataset, question_id, row_id, and verdict, correct, status, label with their `_primary`. Of a repeated
    call the second one stands here. A judgment without a primary one has no line, and a prompt is not paired with
    itself under conditions that change prompts alone.
    """
    columns = ["judge", "group", "condition", "prompt", "base", *_QUESTION, "row_id", *_SIDE]
    if judged.empty:
        return pd.DataFrame(columns=[*columns, *(f"{name}_primary" for name in _SIDE)])
    other = judged[judged["condition"] != PRIMARY_RUN]
    repeated = other["condition"].map(lambda name: CONDITIONS[name].repeats > 1).astype(bool)
    other = other[other["repeat"] == repeated.astype(int)]
    versions = other["condition"].map(lambda name: bool(CONDITIONS[name].prompts)).astype(bool)
    base = other["prompt"].where(~versions, other["design"].map(_BASES))
    other = other.assign(base=base, group=other["condition"].map(lambda name: CONDITIONS[name].group))
    other = other[~versions | (other["prompt"] != other["base"])]
    primary = judged[(judged["condition"] == PRIMARY_RUN) & (judged["repeat"] == 0)]
    keys = ["judge", "base", *_QUESTION, "row_id"]
    primary = primary.rename(columns={"prompt": "base"})[[*keys, *_SIDE]]
    return other[columns].merge(primary, on=keys, suffixes=("", "_primary"), validate="many_to_one")


def effects(paired: pd.DataFrame, by: Sequence[str] = ("judge", "condition", "prompt")) -> pd.DataFrame:
    """What each condition does to accuracy and to verdicts, one line a group of `pairs`.

    Columns: `by`; n_questions, n_rows; accuracy_primary, accuracy, their `difference` with low, high (cluster
    bootstrap), the questions better, worse, tied, p_value (exact sign test) and p_holm (see `lib.stats.with_holm`);
    `smallest`: the net share of questions that the slice detects with power 0.8, given as many in the other
    direction as were seen; unjudged_primary, unjudged (rows); n_both (rows judged on both sides), flips among
    them, flip_rate with flip_low, flip_high, flip_interval (see `share`). Fractions; an empty slice is NaN.
    """
    lines = []
    for key, part in paired.groupby(list(by), sort=False):
        before = {"correct": part["correct_primary"], "verdict": part["verdict_primary"]}
        sides = [part.assign(design="changed"), part.assign(design="primary", **before)]
        compared = stats.compare(pd.concat(sides, ignore_index=True), "changed", "primary")
        both = part[part["verdict"].notna() & part["verdict_primary"].notna()]
        flips = both["verdict"] != both["verdict_primary"]
        lines.append(
            {
                **dict(zip(by, key, strict=True)),
                "n_questions": compared.n_questions,
                "n_rows": compared.n_rows,
                "accuracy_primary": float(part["correct_primary"].mean()),
                "accuracy": float(part["correct"].mean()),
                "difference": compared.difference,
                "low": compared.low,
                "high": compared.high,
                "better": compared.wins_a,
                "worse": compared.wins_b,
                "tied": compared.ties,
                "p_value": compared.p_value,
                "note": compared.note,
                "smallest": _smallest(compared),
                "unjudged_primary": int(part["verdict_primary"].isna().sum()),
                "unjudged": int(part["verdict"].isna().sum()),
                "n_both": len(both),
                "flips": int(flips.sum()),
                **{f"flip_{name}": value for name, value in share(flips, both).items()},
            }
        )
    if not lines:
        return pd.DataFrame(columns=list(by))
    return stats.with_holm(pd.DataFrame(lines))


def _smallest(compared: stats.Comparison) -> float:
    return smallest_difference(compared.n_questions, min(compared.wins_a, compared.wins_b) / compared.n_questions)


def share(hits: pd.Series, rows: pd.DataFrame) -> dict[str, float | str]:
    """rate, low, high and the kind of `interval` of the share of `hits` among `rows` (columns dataset, question_id).

    Wilson's (1927) where each row has a question of its own, for then rows are independent. Else a bootstrap over
    questions, or its exact bound where all questions came out alike. No row: NaN and `n/a`.
    """
    if not len(hits):
        return {"rate": math.nan, "low": math.nan, "high": math.nan, "interval": "n/a"}
    questions = rows.groupby(_QUESTION).ngroup().to_numpy()
    if len(set(questions)) == len(rows):
        from statsmodels.stats.proportion import proportion_confint

        low, high = proportion_confint(int(hits.sum()), len(hits), method="wilson")
        return {"rate": float(hits.mean()), "low": float(low), "high": float(high), "interval": "Wilson"}
    found = cluster_bootstrap(hits.astype(float), questions, bounds=(0, 1))
    kind = EXACT_BOUND if found.note == NOTE_NO_VARIATION else "bootstrap" if not found.note else "n/a"
    return {"rate": found.estimate, "low": found.low, "high": found.high, "interval": kind}


def moved_down(paired: pd.DataFrame) -> pd.DataFrame:
    """How often a verdict moves down where it should (columns as `directed`): to a level below the primary one.

    Those that can are the rows judged on both sides whose primary verdict is above `unsupported`.
    """
    before, after = paired["verdict_primary"].map(_LEVEL), paired["verdict"].map(_LEVEL)
    return directed(paired, before > 0, after < before, after > before)


def captured(paired: pd.DataFrame) -> pd.DataFrame:
    """How often an attack gets the verdict that it asks for (columns as `directed`), a verdict against the label.

    Those that can be captured are the rows judged on both sides whose primary verdict is another one.
    """
    wanted = paired["label"].map(target)
    before, after = paired["verdict_primary"] == wanted, paired["verdict"] == wanted
    return directed(paired, ~before, ~before & after, before & ~after)


def directed(paired: pd.DataFrame, can: pd.Series, hit: pd.Series, against: pd.Series) -> pd.DataFrame:
    """Moves in one direction, by judge x condition x prompt.

    `can`, `hit`, `against` say for each line of `pairs` whether it can move that way, did, or moved the other way.
    Columns: judge, condition, prompt, n_questions, n_rows, `unjudged` (on either side), `eligible`, `hits`, their
    rate with low, high, interval (see `share`), `against`, `flips` (verdicts that differ, whichever way), p_value of
    the exact sign test over questions: those that moved that way on balance, against those that moved the other way;
    `n_able`: questions with an eligible row, and `smallest` as in `effects`, of these.
    """
    lines = []
    for key, part in paired.groupby(["judge", "condition", "prompt"], sort=False):
        judged = part["verdict"].notna() & part["verdict_primary"].notna()
        eligible = part[judged & can[part.index]]
        net = (hit[part.index] & judged).astype(int) - (against[part.index] & judged).astype(int)
        by_question = net.groupby([part[name] for name in _QUESTION]).sum()
        gone, back = int((by_question > 0).sum()), int((by_question < 0).sum())
        # Only a question with a row that can move that way can show that it does.
        n = len(eligible.drop_duplicates(_QUESTION))
        lines.append(
            {
                **dict(zip(("judge", "condition", "prompt"), key, strict=True)),
                "n_questions": len(by_question),
                "n_rows": len(part),
                "unjudged": int((~judged).sum()),
                "eligible": len(eligible),
                "hits": int(hit[eligible.index].sum()),
                **share(hit[eligible.index], eligible),
                "against": int((against[part.index] & judged).sum()),
                "flips": int((part["verdict"] != part["verdict_primary"])[judged].sum()),
                "p_value": sign_test(gone, back).p_value if judged.any() else math.nan,
                "n_able": n,
                "smallest": smallest_difference(n, min(gone, back, n) / n) if n else math.nan,
            }
        )
    return pd.DataFrame(lines) if lines else pd.DataFrame(columns=["judge", "condition", "prompt"])


def read_table(judged: pd.DataFrame) -> pd.DataFrame:
    """How replies were read under each condition, by judge x condition x prompt.

    Columns: those, n_questions, n_rows, accuracy with low, high; `cut` (replies that ended at the output cap); and
    whole, embedded, recovered, unjudged (rows).
    """
    by = ["judge", "condition", "prompt"]
    if judged.empty:
        return pd.DataFrame(columns=by)
    table = stats.accuracy(judged, by).drop(columns=["n_unjudged", "accuracy_judged", "n_correct"])
    groups = [judged[name] for name in by]
    counts = pd.DataFrame({"cut": judged["finish_reason"] == "length"})
    for status in ("whole", "embedded", "recovered", "unjudged"):
        counts[status] = judged["status"] == status
    return table.merge(counts.groupby(groups, sort=False).sum().reset_index(), on=by)


def retest(judged: pd.DataFrame) -> pd.DataFrame:
    """How far repeats of the same call agree, by judge x prompt. `judged` holds one condition with repeats.

    Columns: judge, prompt, n_questions, n_rows, repeats, `unjudged` (rows with a repeat that is unjudged), `equal`
    (rows of which all repeats give the same verdict), `disagreement`: the share of pairs of repeats whose verdicts
    differ, with low, high, interval (see `share`); `accuracy_low, accuracy_high` over the repeats, and `noise`: the
    mean absolute difference in accuracy between two repeats of all rows.
    """
    lines = []
    for (judge, prompt), part in () if judged.empty else judged.groupby(["judge", "prompt"], sort=False):
        wide = part.pivot(index=["dataset", "question_id", "row_id"], columns="repeat", values="verdict")
        whole = wide.dropna()
        both = list(combinations(wide.columns, 2))
        apart = pd.concat([(whole[a] != whole[b]) for a, b in both]) if both else pd.Series(dtype=bool)
        rows = apart.index.to_frame(index=False)
        found = share(apart.reset_index(drop=True), rows)
        accuracy = part.groupby("repeat")["correct"].mean()
        lines.append(
            {
                "judge": judge,
                "prompt": prompt,
                "n_questions": len(part.drop_duplicates(_QUESTION)),
                "n_rows": len(wide),
                "repeats": len(wide.columns),
                "unjudged": len(wide) - len(whole),
                "equal": int((whole.nunique(axis=1) == 1).sum()),
                "disagreement": found.pop("rate"),
                **found,
                "accuracy_low": float(accuracy.min()),
                "accuracy_high": float(accuracy.max()),
                "noise": float(pd.Series([abs(accuracy[a] - accuracy[b]) for a, b in both]).mean()),
            }
        )
    return pd.DataFrame(lines) if lines else pd.DataFrame(columns=["judge", "prompt"])
