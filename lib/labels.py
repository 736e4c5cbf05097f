"""Questions to labelled rows, complexity bins, and the table that describes them.

The label of a row follows from how its candidate was made (the construction label); no candidate is read to
decide it. This module chooses no questions (`lib.sources`) and calls no judge.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd

from lib.parsing import VERDICTS
from lib.sources import ANSWER_SEPARATOR, normalised

LABELS = VERDICTS
SUPPORTED, PARTIAL, UNSUPPORTED = LABELS

# Ours: the paper says half and not how an odd number is halved. Rounded down, at least one.
PARTIAL_SHARE = 0.5
# Ours: the paper gives no separators for ASQA's partial answers. One pair a line.
PAIR_INNER_SEPARATOR = " "
PAIR_SEPARATOR = "\n"

_QUESTION = ["dataset", "question_id"]
_TEXTS = ("row_id", "dataset", "question_id", "kind", "question", "reference", "candidate", "label")
_DTYPES = {**dict.fromkeys(_TEXTS, "str"), "complexity": "int64"}


def build_rows(questions: pd.DataFrame) -> pd.DataFrame:
    """Two rows a question, in the order of the questions: `full`, then `incorrect` or `partial`.

    `questions` is a frame of `lib.sources.load_questions`, or several of them one under the other.
    Columns: row_id (dataset/question_id/kind), dataset, question_id, kind, question, reference, candidate,
    label (all str), complexity (int64). An empty frame gives an empty one.
    Raises ValueError if a question comes twice, a dataset is unknown, or a second candidate says what the
    reference says.
    """
    twice = questions.duplicated(_QUESTION) if len(questions) else pd.Series(dtype=bool)
    if twice.any():
        dataset, question_id = questions.loc[twice, _QUESTION].iloc[0]
        raise ValueError(f"question {dataset}/{question_id} comes twice; give every question once")
    rows = [row for question in questions.itertuples(index=False) for row in _rows(question)]
    return pd.DataFrame(rows, columns=list(_DTYPES)).astype(_DTYPES)


def complexity_bins(rows: pd.DataFrame, n_bins: int = 4) -> pd.Series:
    """The complexity bin of every row: quantile bins of the questions of its dataset.

    Edges are the quantiles of the questions (not of the rows), equal edges merged, as `pandas.qcut` does with
    duplicates="drop"; a bin without a question joins the next one. Returns an ordered categorical column
    aligned with `rows`, with texts like `2`, `3-4`, `5-9`: both ends belong to the bin, and the bins of a
    dataset leave no gap. Categories are in the order of their ends.
    Raises ValueError if n_bins is not a whole number of at least 1.
    """
    if not isinstance(n_bins, int) or isinstance(n_bins, bool) or n_bins < 1:
        raise ValueError(f"n_bins is {n_bins!r}; give a whole number of at least 1")
    questions = rows.drop_duplicates(_QUESTION).groupby("dataset")["complexity"]
    ends = {dataset: _bins(values.to_numpy(), n_bins) for dataset, values in questions}
    both = zip(rows["dataset"], rows["complexity"], strict=True)
    bins = [next(b for b in ends[dataset] if value <= b[1]) for dataset, value in both]
    names = {b: str(b[0]) if b[0] == b[1] else f"{b[0]}-{b[1]}" for b in sorted(set(bins))}
    kind = pd.CategoricalDtype(list(names.values()), ordered=True)
    return pd.Series([names[b] for b in bins], index=rows.index, dtype=kind, name="complexity_bin")


def summary(rows: pd.DataFrame, exclusions: Mapping[str, Mapping[str, int]]) -> pd.DataFrame:
    """What the rows are (the paper's Table 1), one line a dataset in order of appearance.

    `exclusions`: {dataset: {reason: questions}}, from `frame.attrs["exclusions"]` of each dataset.
    Columns: dataset (str); questions, rows, supported, partially_supported, unsupported (counts);
    reference_words_median, _min, _max over the questions; candidate_words_median, _min, _max over the rows
    other than `full`, whose candidate is the reference; excluded (count); exclusions (text, reason: count).
    Words are what blanks separate. Raises ValueError if a dataset has no entry in `exclusions`.
    """
    lines = []
    for dataset, group in rows.groupby("dataset", sort=False):
        if dataset not in exclusions:
            raise ValueError(f"no exclusions of {dataset} given; give an empty mapping if there are none")
        full = group["kind"] == "full"
        reasons = exclusions[dataset]
        lines.append(
            {"dataset": dataset, "questions": group["question_id"].nunique(), "rows": len(group)}
            | {label: int((group["label"] == label).sum()) for label in LABELS}
            | _words("reference", group.drop_duplicates(_QUESTION)["reference"])
            | _words("candidate", group.loc[~full, "candidate"])
            | {
                "excluded": sum(reasons.values()),
                "exclusions": "; ".join(f"{reason}: {count}" for reason, count in reasons.items()),
            }
        )
    return pd.DataFrame(lines)


def _rows(question: Any) -> Iterator[tuple[Any, ...]]:
    if question.dataset not in _SECOND:
        raise ValueError(f"unknown dataset {question.dataset!r}; use one of {', '.join(_SECOND)}")
    kind, label, candidate_of = _SECOND[question.dataset]
    candidate = candidate_of(question.parts)
    key = f"{question.dataset}/{question.question_id}"
    if normalised(candidate) == normalised(question.reference):
        raise ValueError(f"{key}/{kind}: the candidate says what the reference says; leave the question out")
    for row_kind, text, row_label in (("full", question.reference, SUPPORTED), (kind, candidate, label)):
        yield (
            f"{key}/{row_kind}",
            question.dataset,
            question.question_id,
            row_kind,
            question.question,
            question.reference,
            text,
            row_label,
            question.complexity,
        )


def _first_part(parts: list[Any]) -> list[Any]:
    """The parts of a partial candidate: the earlier `PARTIAL_SHARE` of them, rounded down, at least one."""
    return parts[: max(1, math.floor(PARTIAL_SHARE * len(parts)))]


def _incorrect(parts: list[str]) -> str:
    return parts[0]


def _partial_pairs(parts: list[tuple[str, str]]) -> str:
    return PAIR_SEPARATOR.join(PAIR_INNER_SEPARATOR.join(pair) for pair in _first_part(parts))


def _partial_answers(parts: list[str]) -> str:
    return ANSWER_SEPARATOR.join(_first_part(parts))


_SECOND: dict[str, tuple[str, str, Callable[[list[Any]], str]]] = {
    "truthfulqa": ("incorrect", UNSUPPORTED, _incorrect),
    "asqa": ("partial", PARTIAL, _partial_pairs),
    "qampari": ("partial", PARTIAL, _partial_answers),
}


def _bins(values: np.ndarray, n_bins: int) -> list[tuple[int, int]]:
    """Both ends of each bin. A whole number is at most an edge when it is at most the edge rounded down."""
    # Rounded first, so that 6.999999999 counts as the 7 that it stands for.
    edges = np.unique(np.quantile(values, np.linspace(0, 1, n_bins + 1)).round(9))
    uppers = np.floor(edges[1:] if len(edges) > 1 else edges).astype(int)
    bins, lower = [], int(values.min())
    for upper in uppers.tolist():
        if ((values >= lower) & (values <= upper)).any():
            bins.append((lower, upper))
            lower = upper + 1
    return bins


def _words(name: str, texts: pd.Series) -> dict[str, float | int]:
    counts = texts.str.split().str.len()
    measures = {"median": counts.median(), "min": counts.min(), "max": counts.max()}
    return {f"{name}_words_{measure}": value for measure, value in measures.items()}
