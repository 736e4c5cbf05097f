"""How far two or more label standards agree on the same rows. What is undefined is said, not shown as 0 or 1."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import combinations

import pandas as pd

from lib.labels import LABELS
from lib.resampling import cluster_bootstrap

_QUESTION = ["dataset", "question_id"]


def pairwise(rows: pd.DataFrame, standards: Mapping[str, pd.Series], by: Sequence[str] = ()) -> pd.DataFrame:
    """Every pair of standards compared, one line a group of `by` (all rows in one if none is given).

    `rows` has the columns of `lib.labels.build_rows`; a standard maps row ids to labels, missing where it has none.
    Columns: `a`, `b`, `by`, n_questions, n_rows (labelled by both), `equal`, their `share` with low, high (bootstrap
    over questions) and `note` of `lib.resampling`, and `kappa`, `undefined` of `cohen_kappa`.
    """
    lines = []
    for a, b in combinations(standards, 2):
        both = joined(rows, {"a": standards[a], "b": standards[b]}).dropna(subset=["a", "b"])
        for key, part in both.groupby(list(by), sort=False) if by else [((), both)]:
            equal = part["a"] == part["b"]
            found = cluster_bootstrap(equal.astype(float), part.groupby(_QUESTION).ngroup(), bounds=(0, 1))
            kappa, undefined = cohen_kappa(part["a"], part["b"])
            lines.append(
                {"a": a, "b": b, **dict(zip(by, key, strict=True))}
                | {"n_questions": found.n_clusters, "n_rows": found.n, "equal": int(equal.sum())}
                | {"share": found.estimate, "low": found.low, "high": found.high, "note": found.note}
                | {"kappa": kappa, "undefined": undefined}
            )
    sizes = ["n_questions", "n_rows", "equal", "share", "low", "high", "note", "kappa", "undefined"]
    return pd.DataFrame(lines, columns=["a", "b", *by, *sizes])


def joined(rows: pd.DataFrame, standards: Mapping[str, pd.Series]) -> pd.DataFrame:
    """The rows with one column a standard beside their own columns."""
    return rows.assign(**{name: rows["row_id"].map(labels) for name, labels in standards.items()})


def cohen_kappa(a: Sequence[str], b: Sequence[str]) -> tuple[float, str]:
    """Cohen's kappa (1960) of two readers' labels of the same rows; NaN and why, where it is undefined."""
    if not len(a):
        return math.nan, "no rows"
    if len({*a, *b}) == 1:
        return math.nan, "both give one label only"
    from statsmodels.stats.inter_rater import cohens_kappa

    labels = sorted({*a, *b})
    table = pd.crosstab(pd.Series(list(a)), pd.Series(list(b))).reindex(index=labels, columns=labels, fill_value=0)
    return float(cohens_kappa(table.to_numpy(), return_results=False)), ""


def krippendorff_alpha(labels: pd.DataFrame) -> tuple[float, str]:
    """Krippendorff's alpha (2019, nominal labels) of several readers; NaN and why, where it is undefined.

    `labels` has one column a reader and one line a row, missing where a reader gave no label.
    """
    counts = pd.DataFrame({label: (labels == label).sum(axis=1) for label in pd.unique(labels.stack())})
    counts = counts[counts.sum(axis=1) > 1] if len(counts.columns) else counts
    if counts.empty:
        return math.nan, "no row has two labels"
    if (counts.sum() > 0).sum() < 2:
        return math.nan, "all give one label only"
    from krippendorff import alpha

    return float(alpha(value_counts=counts.to_numpy(), level_of_measurement="nominal")), ""


def confusion(rows: pd.DataFrame, standards: Mapping[str, pd.Series], a: str, b: str) -> pd.DataFrame:
    """Rows by their label under `a` (lines) and under `b` (columns), all three labels."""
    both = joined(rows, standards)
    table = pd.crosstab(both[a], both[b])
    return table.reindex(index=list(LABELS), columns=list(LABELS), fill_value=0).rename_axis(index=a, columns=b)


def disagreements(rows: pd.DataFrame, standards: Mapping[str, pd.Series], given: pd.DataFrame) -> pd.DataFrame:
    """The rows on which two standards differ: all labels, the notes of `given` (`lib.label_files.gather`), texts."""
    both, names = joined(rows, standards), list(standards)
    apart = both[both[names].nunique(axis=1) > 1]
    written = given[given["note"] != ""]
    notes = (written["annotator"] + ": " + written["note"]).groupby(written["row_id"]).agg("; ".join)
    texts = apart[["row_id", *names]].fillna("").assign(note=apart["row_id"].map(notes).fillna(""))
    return texts.join(apart[["question", "reference", "candidate"]]).reset_index(drop=True)
