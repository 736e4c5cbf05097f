"""Verdicts against several label standards on the same rows: ranks, paired tests, and whether the order reverses.

A standard is one column of labels. Rows without a label under one of them are left out of all, so that nothing but
the standard differs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import combinations

import pandas as pd

from lib import stats
from lib.exact import sign_test
from lib.resampling import cluster_bootstrap
from lib.tables import one_version

_QUESTION = ["dataset", "question_id"]
# What the data say of two designs under two standards; see `reversals`.
REVERSES, CHANGES, CANNOT_TELL = "reverses", "changes", "cannot tell"


def judged_under(judged: pd.DataFrame, standards: Mapping[str, pd.Series]) -> pd.DataFrame:
    """The judgments of the rows that every standard labels, once for each: `standard`, its `label`, and `correct`.

    `judged` has the columns of `lib.plan.judgments`; a standard maps row ids to labels, missing where it has none. Of
    a judge only rows count that it was asked about in all its designs, so that counts compare. Raises ValueError for
    two versions of a design, and where no row is left.
    """
    one_version(judged)
    common = set.intersection(*(set(labels.dropna().index) for labels in standards.values()))
    rows = judged[judged["row_id"].isin(common)]
    designs = rows.groupby("judge")["design"].transform("nunique")
    rows = rows[rows.groupby(["judge", "row_id"])["design"].transform("nunique") == designs]
    if rows.empty:
        raise ValueError(
            f"no row has a label under each of {', '.join(standards)} and a judgment in every design; readers who "
            "share no row are compared one by one: name one of them in annotators"
        )
    parts = [rows.assign(standard=name, label=rows["row_id"].map(labels)) for name, labels in standards.items()]
    table = pd.concat(parts, ignore_index=True)
    return table.assign(correct=(table["verdict"] == table["label"]).fillna(False).astype(bool))


def left_out(judged: pd.DataFrame, under: pd.DataFrame) -> list[str]:
    """A line for each judge of whom `judged_under` kept no row, or not every labelled row."""
    labelled, lines = set(under["row_id"]), []
    for judge, rows in judged.groupby("judge", sort=False):
        kept = set(under.loc[under["judge"] == judge, "row_id"])
        if len(kept) < len(labelled):
            missing = f"{len(labelled) - len(kept)} of {len(labelled)} labelled rows"
            designs = ", ".join(dict.fromkeys(rows["design"]))
            lines.append(f"{judge}: {missing} are left out, for not every design ({designs}) judged them.")
    return lines


def ranking(under: pd.DataFrame) -> pd.DataFrame:
    """Table 4, by judge x standard x design: columns of `lib.stats.slice_accuracy`, and `rank` (ties share it)."""
    table = stats.accuracy(under, ["judge", "standard", "design"])
    ranks = table.groupby(["judge", "standard"])["n_correct"].rank(ascending=False, method="min")
    return table.assign(rank=ranks.astype(int))


def paired(under: pd.DataFrame) -> pd.DataFrame:
    """Designs in pairs within judge x standard: the columns of `lib.stats.compare_all`, Holm's p by judge."""
    return stats.with_holm(stats.compare_all(under, ["judge", "standard"]))


def reversals(under: pd.DataFrame, designs: Sequence[str]) -> pd.DataFrame:
    """How the difference between two designs changes from one standard to another, on the same rows.

    One line a judge x pair of standards x pair of `designs`. Columns: judge, `first`, `second` (standards), `a`, `b`
    (designs), n_questions, n_rows; `before`, `after`: accuracy of a minus b under each, with _low, _high, _note;
    `change`: after minus before, with low, high (bootstrap over questions of each row's difference of differences)
    and `note`; `towards_a`, `towards_b`: questions whose balance moved that way, p_value of the exact sign test over
    them, p_holm over the lines of a judge; and `finding`. The change is told if p_holm and the interval agree:

    - `reverses`: it is told, and so is the difference on either side, with opposite signs: exact test after Holm over
      the judge's lines of `paired`, and interval. All three must hold, which keeps the level (Berger 1982,
      intersection-union).
    - `changes`: it is told, and the order is not sure to be another one.
    - `cannot tell`: else.
    """
    lines = []
    names = list(dict.fromkeys(under["standard"]))
    for judge, rows in under.groupby("judge", sort=False):
        wide = rows.assign(correct=rows["correct"].astype(float)).pivot(
            index=[*_QUESTION, "row_id"], columns=["standard", "design"], values="correct"
        )
        there = [design for design in designs if design in set(rows["design"])]
        for first, second in combinations(names, 2):
            for a, b in combinations(there, 2):
                key = {"judge": judge, "first": first, "second": second, "a": a, "b": b}
                lines.append(key | _change(wide, key))
    if not lines:
        return pd.DataFrame(columns=["judge", "first", "second", "a", "b", "finding"])
    table = stats.with_holm(pd.DataFrame(lines))
    told = (table["p_holm"] < stats.ALPHA) & _excludes(table["low"], table["high"])
    found = paired(under)
    both = _told(table, found, "first", "before") & _told(table, found, "second", "after")
    opposite = told & both & (table["before"] * table["after"] < 0)
    finding = pd.Series(CANNOT_TELL, index=table.index).mask(told, CHANGES).mask(opposite, REVERSES)
    return table.assign(finding=finding)


def _told(table: pd.DataFrame, found: pd.DataFrame, standard: str, side: str) -> pd.Series:
    """Whether the difference under one of the two standards is told; `found` is that of `paired`."""
    p = {(x.judge, x.standard, frozenset((x.a, x.b))): x.p_holm for x in found.itertuples()}
    keys = zip(table["judge"], table[standard], map(frozenset, zip(table["a"], table["b"], strict=True)), strict=True)
    adjusted = pd.Series([p[key] for key in keys], index=table.index)
    return (adjusted < stats.ALPHA) & _excludes(table[f"{side}_low"], table[f"{side}_high"])


def _excludes(low: pd.Series, high: pd.Series) -> pd.Series:
    return (low > 0) | (high < 0)


def _change(wide: pd.DataFrame, key: Mapping[str, str]) -> dict:
    sides = [wide[(key[name], key["a"])] - wide[(key[name], key["b"])] for name in ("first", "second")]
    questions = wide.index.to_frame(index=False).groupby(_QUESTION).ngroup().to_numpy()
    before, after = (cluster_bootstrap(side, questions, bounds=(-1, 1)) for side in sides)
    change = (sides[1] - sides[0]).reset_index(drop=True)
    found = cluster_bootstrap(change, questions, bounds=(-2, 2))
    balance = change.groupby(questions).sum()
    towards_a, towards_b = int((balance > 0).sum()), int((balance < 0).sum())
    return {
        "n_questions": found.n_clusters,
        "n_rows": found.n,
        "before": before.estimate,
        "before_low": before.low,
        "before_high": before.high,
        "before_note": before.note,
        "after": after.estimate,
        "after_low": after.low,
        "after_high": after.high,
        "after_note": after.note,
        "change": found.estimate,
        "low": found.low,
        "high": found.high,
        "note": found.note,
        "towards_a": towards_a,
        "towards_b": towards_b,
        "p_value": sign_test(towards_a, towards_b).p_value if found.n else math.nan,
    }
