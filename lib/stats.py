"""Paired statistics of the designs: exact sign tests, cluster bootstrap intervals, accuracy with its counts.

The unit of every test and of the bootstrap is the question (`dataset`, `question_id`), not the row: the two
rows of a question are not independent. Judgments come as a DataFrame, one line a judgment; designs are opaque
strings (`C`, `C.v1`). Nothing here reads files, calls judges, decides what is correct, or renders percent.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from itertools import combinations

import numpy as np
import pandas as pd

from lib.exact import SignTest, format_p, holm, sign_test, with_holm
from lib.resampling import ALPHA, Interval, cluster_bootstrap

__all__ = [
    "ALPHA",
    "Comparison",
    "Interval",
    "SignTest",
    "accuracy",
    "cluster_bootstrap",
    "compare",
    "compare_all",
    "format_p",
    "holm",
    "question_wins",
    "sign_test",
    "slice_accuracy",
    "with_holm",
]

NOTE_NO_COMMON_ROWS = "no common rows"
_PAIR = ["question_id", "row_id", "design", "correct"]
_SLICE = ["question_id", "correct", "verdict"]


@dataclass(frozen=True)
class Comparison:
    """Designs a and b on their common rows; `difference` is accuracy of a minus b, a fraction in [-1, 1]."""

    a: str
    b: str
    n_questions: int
    n_rows: int
    wins_a: int
    wins_b: int
    ties: int
    p_value: float
    log10_p: float
    difference: float
    low: float
    high: float
    agree: bool
    note: str


def question_wins(judgments: pd.DataFrame, a: str, b: str) -> tuple[int, int, int]:
    """(wins_a, wins_b, ties): the questions of which a, or b, has more rows right, on rows common to both.

    Columns: `question_id`, `row_id`, `design`, `correct`, and `dataset` where ids repeat across datasets.
    ValueError: a missing column or value, `correct` that is no bool, a row judged twice by a design, a design
    that is absent, a and b the same, no common rows.
    """
    return _wins(_common(judgments, a, b))


def compare(judgments: pd.DataFrame, a: str, b: str) -> Comparison:
    """Sign test by question, and the cluster bootstrap interval of the paired row differences.

    Columns and errors as `question_wins`. `agree` is False where only one of the two speaks: p below 0.05, or
    an interval that excludes 0 (one that does not exist excludes nothing).
    """
    return _comparison(_common(judgments, a, b), a, b)


def compare_all(
    judgments: pd.DataFrame,
    by: str | Sequence[str] = ("dataset", "judge"),
    pairs: Iterable[tuple[str, str]] | None = None,
) -> pd.DataFrame:
    """One line per group and pair: columns `by`, those of Comparison, and `p_holm`.

    `p_holm` is Holm's 1979 adjustment; its family is all lines of the frame returned. `pairs` None: all pairs
    of the designs in a group, sorted. A pair with a design absent from a group has no line; a pair without
    common rows has NaN and a note, and is outside the family. Errors as `question_wins`.
    """
    by, pairs, lines = _listed(by), pairs and list(pairs), []
    for key, rows in _groups(judgments, by, _PAIR):
        designs, coded = sorted(rows["design"].unique()), _coded(rows)
        for a, b in combinations(designs, 2) if pairs is None else pairs:
            if a in designs and b in designs:
                lines.append(key | asdict(_comparison(_paired(coded, a, b), a, b)))
    table = pd.DataFrame(lines, columns=[*by, *(field.name for field in fields(Comparison))])
    return table.assign(p_holm=holm(table["p_value"]))


def accuracy(judgments: pd.DataFrame, by: str | Sequence[str]) -> pd.DataFrame:
    """One line per group, in order of first appearance: columns `by` and those of `slice_accuracy`."""
    by = _listed(by)
    lines = [key | _slice_accuracy(rows) for key, rows in _groups(judgments, by, _SLICE)]
    return pd.DataFrame(lines, columns=[*by, *slice_accuracy(pd.DataFrame())])


def slice_accuracy(judgments: pd.DataFrame) -> dict[str, float | int | str]:
    """n_questions, n_rows, n_correct, n_unjudged, accuracy, low, high, accuracy_judged, note of one slice.

    Columns: `question_id`, `correct`, `verdict` (NaN: unjudged), `dataset` where ids repeat. Fractions;
    low and high by cluster_bootstrap over questions. An unjudged row is not correct; accuracy_judged is among
    judged rows. An empty slice, or one with none judged, is NaN there, never 0. ValueError: a missing column
    or value, `correct` that is no bool, a row that is correct and unjudged.
    """
    return _slice_accuracy(_checked(judgments, _SLICE) if len(judgments) else pd.DataFrame(columns=_SLICE))


def _slice_accuracy(rows: pd.DataFrame) -> dict[str, float | int | str]:
    correct, judged = rows["correct"].astype(bool), rows["verdict"].notna()
    interval = cluster_bootstrap(correct, rows.groupby(_question(rows)).ngroup())
    return {
        "n_questions": interval.n_clusters,
        "n_rows": interval.n,
        "n_correct": int(correct.sum()),
        "n_unjudged": int((~judged).sum()),
        "accuracy": interval.estimate,
        "low": interval.low,
        "high": interval.high,
        "accuracy_judged": float(correct[judged].mean()),
        "note": interval.note,
    }


def _common(judgments: pd.DataFrame, a: str, b: str) -> pd.DataFrame:
    if a == b:
        raise ValueError(f"compare: both designs are {a!r}; name two designs")
    paired = _paired(_coded(_checked(judgments, _PAIR)), a, b)
    designs = sorted(judgments["design"].unique())
    for design in (a, b):
        if design not in designs:
            raise ValueError(f"judgments: `design` is never {design!r}; name one of {designs}")
    if paired.empty:
        raise ValueError(f"judgments: {a!r} and {b!r} have no common rows; judge the same rows with both")
    return paired


@dataclass(frozen=True)
class _Coded:
    """Checked judgments as arrays, numbers for questions and rows: pairs are made of them many times."""

    design: np.ndarray
    question: np.ndarray
    row: np.ndarray
    correct: np.ndarray
    row_id: np.ndarray

    def side(self, design: str) -> tuple[np.ndarray, np.ndarray]:
        """The rows that a design judged, in order, and where their judgments stand."""
        at = np.flatnonzero(self.design == design)
        rows, first, counts = np.unique(self.row[at], return_index=True, return_counts=True)
        if (counts > 1).any():
            raise ValueError(
                f"judgments: row {self.row_id[at[first[counts > 1].min()]]} has more than one judgment of design"
                f" {design!r}; filter to one judge and one condition"
            )
        return rows, at[first]


def _coded(rows: pd.DataFrame) -> _Coded:
    question = rows.groupby(_question(rows)).ngroup()
    row = rows.groupby([*_question(rows), "row_id"]).ngroup()
    arrays = (rows["design"], question, row, rows["correct"].astype(int), rows["row_id"])
    return _Coded(*(each.to_numpy() for each in arrays))


def _paired(coded: _Coded, a: str, b: str) -> pd.DataFrame:
    """One line per row common to both designs: question (a number), a and b (1 where correct)."""
    (rows_a, at_a), (rows_b, at_b) = coded.side(a), coded.side(b)
    _, in_a, in_b = np.intersect1d(rows_a, rows_b, assume_unique=True, return_indices=True)
    at_a, at_b = at_a[in_a], at_b[in_b]
    return pd.DataFrame({"question": coded.question[at_a], "a": coded.correct[at_a], "b": coded.correct[at_b]})


def _wins(paired: pd.DataFrame) -> tuple[int, int, int]:
    margin = (paired["a"] - paired["b"]).groupby(paired["question"]).sum()
    return int((margin > 0).sum()), int((margin < 0).sum()), int((margin == 0).sum())


def _comparison(paired: pd.DataFrame, a: str, b: str) -> Comparison:
    wins_a, wins_b, ties = _wins(paired)
    test = sign_test(wins_a, wins_b)
    p, log10_p = (test.p_value, test.log10_p) if len(paired) else (math.nan, math.nan)
    i = cluster_bootstrap(paired["a"] - paired["b"], paired["question"], bounds=(-1, 1))
    agree = (p < ALPHA) == (i.low > 0 or i.high < 0)
    note = i.note if len(paired) else NOTE_NO_COMMON_ROWS
    return Comparison(
        a, b, i.n_clusters, i.n, wins_a, wins_b, ties, p, log10_p, i.estimate, i.low, i.high, agree, note
    )


def _listed(by: str | Sequence[str]) -> list[str]:
    return [by] if isinstance(by, str) else list(by)


def _question(rows: pd.DataFrame) -> list[str]:
    return ["dataset", "question_id"] if "dataset" in rows else ["question_id"]


def _groups(judgments: pd.DataFrame, by: list[str], columns: Sequence[str]) -> Iterator[tuple[dict, pd.DataFrame]]:
    if len(judgments):
        rows = _checked(judgments, columns, by)
        # A missing value in `by` is a group of its own, so that no row is lost.
        for key, group in rows.groupby(by, sort=False, observed=True, dropna=False):
            yield dict(zip(by, key, strict=True)), group


def _checked(judgments: pd.DataFrame, columns: Sequence[str], by: Sequence[str] = ()) -> pd.DataFrame:
    """The same frame, sure to have the columns and nothing that a group or a mean would drop or misread."""
    filled = [*columns, *_question(judgments)]
    for column in [*filled, *by]:
        if column not in judgments:
            raise ValueError(f"judgments: no column `{column}`, only {list(judgments.columns)}; add it")
    for column in filled:
        if column != "verdict":
            _refuse(judgments, judgments[column].isna(), f"`{column}` is missing; fill it or filter the row out")
    correct = judgments["correct"]
    _refuse(judgments, ~correct.isin([True, False]), "`correct` is no bool; set it to verdict == label")
    if "verdict" in judgments:
        verdict = judgments["verdict"]
        _refuse(judgments, verdict.eq(""), "`verdict` is an empty text; set an unjudged one to NaN")
        _refuse(judgments, verdict.isna() & correct.astype(bool), "unjudged but `correct`; set it to False")
    return judgments


def _refuse(judgments: pd.DataFrame, bad: pd.Series, line: str) -> None:
    if bad.any():
        named = [column for column in ("row_id", "question_id", "design") if column in judgments]
        first = judgments.loc[bad, named].iloc[0].to_dict()
        raise ValueError(f"judgments: {bad.sum()} of {len(judgments)} rows, first {first}: {line}")
