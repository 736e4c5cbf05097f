"""Paired statistics of the designs: exact sign tests, cluster bootstrap intervals, accuracy with its counts.

The unit of every test and of the bootstrap is the question (`dataset`, `question_id`), not the row: the two
rows of a question are not independent. Judgments come as a DataFrame, one line a judgment; designs are opaque
strings (`C`, `C.v1`). Nothing here reads files, calls judges, decides what is correct, or renders percent.
"""

from __future__ import annotations

import math
import operator
import sys
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from functools import lru_cache
from itertools import combinations

import numpy as np
import pandas as pd

ALPHA = 0.05
NOTE_EMPTY = "empty"
NOTE_ONE_CLUSTER = "one cluster gives no interval"
NOTE_NO_VARIATION = "no variation between questions: exact bound"
NOTE_NO_COMMON_ROWS = "no common rows"
_PAIR = ["question_id", "row_id", "design", "correct"]
_SLICE = ["question_id", "correct", "verdict"]

_EXACT_N = 10_000  # up to here integer arithmetic takes milliseconds
_KEPT_BYTES = 16_000_000  # one kept matrix of counts: 600 questions by 10,000 resamples fit
_BLOCK_CELLS = 2_000_000  # draws held at a time


@dataclass(frozen=True)
class SignTest:
    """Questions won by each side, and the exact two-sided p in (0, 1] with its base-10 logarithm."""

    wins_a: int
    wins_b: int
    p_value: float
    log10_p: float


@dataclass(frozen=True)
class Interval:
    """A mean with its 95 percent interval of `n` values in `n_clusters` clusters; `note` is a NOTE_ or ''."""

    estimate: float
    low: float
    high: float
    n: int
    n_clusters: int
    note: str


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


def sign_test(wins_a: int, wins_b: int) -> SignTest:
    """Exact two-sided binomial sign test, p = min(1, 2 * tail); ties are left out by the caller.

    Dixon & Mood 1946, "The statistical sign test". Exact in integers up to 10,000 wins, beyond that by scipy
    (in log space where the tail is too small for a float). `p_value` is never 0: below the float range it is
    the smallest positive float, and `log10_p` stays right. ValueError for anything but whole numbers >= 0.
    """
    wins_a, wins_b = _whole(wins_a, "wins_a"), _whole(wins_b, "wins_b")
    k, n = min(wins_a, wins_b), wins_a + wins_b
    if wins_a == wins_b:
        p, log10_p = 1.0, 0.0
    elif n <= _EXACT_N:
        twice = 2 * _integer_tail(k, n)
        p, log10_p = min(1.0, twice / 2**n), math.log10(twice) - n * math.log10(2)
    else:
        log_p = math.log(2) + _log_tail(k, n)
        p, log10_p = min(1.0, math.exp(log_p)), log_p / math.log(10)
    if p >= sys.float_info.min:
        log10_p = math.log10(p)
    return SignTest(wins_a, wins_b, max(p, math.ulp(0.0)), log10_p)


def _whole(value: int, name: str) -> int:
    try:
        whole = operator.index(value)
    except TypeError:
        whole = -1
    if whole < 0 or isinstance(value, bool | np.bool_):
        raise ValueError(f"sign_test: {name} is {value!r}; pass a count, a whole number of 0 or more")
    return whole


def _integer_tail(k: int, n: int) -> int:
    """The number of outcomes of n fair coins with at most k heads."""
    term = total = 1
    for i in range(k):
        term = term * (n - i) // (i + 1)
        total += term
    return total


def _log_tail(k: int, n: int) -> float:
    """The natural logarithm of P(at most k heads of n fair coins)."""
    from scipy.special import logsumexp
    from scipy.stats import binom

    tail = binom.cdf(k, n, 0.5)
    if tail > 1e-290:
        return math.log(tail)
    # So far out each term is at most `ratio` of the next one up: what is left out is below e**-40 of the sum.
    ratio = k / (n - k + 1)
    terms = math.ceil(-40 / math.log(ratio)) if k else 0
    return float(logsumexp(binom.logpmf(np.arange(max(0, k - terms), k + 1), n, 0.5)))


def format_p(test_or_p: SignTest | float | None) -> str:
    """A p for tables: `0.125`, `4.88e-04` below 1e-3, `<1e-300`, `1`, `n/a` for NaN or None; never `0`."""
    p = test_or_p.p_value if isinstance(test_or_p, SignTest) else test_or_p
    if pd.isna(p):
        return "n/a"
    if not 0 <= p <= 1:
        raise ValueError(f"format_p: {p!r} is no p; pass a number from 0 to 1")
    if p < 1e-300:
        return "<1e-300"
    if p < 1e-3:
        return f"{p:.2e}"
    return "1" if p == 1 else f"{p:#.3g}"


def cluster_bootstrap(
    values: Sequence[float],
    clusters: Sequence[Hashable],
    n_resamples: int = 10_000,
    seed: int = 0,
    *,
    bounds: tuple[float, float] = (0, 1),
) -> Interval:
    """Percentile 95 percent interval of the mean of `values`, resampling whole clusters with replacement.

    Efron 1979 (bootstrap); Davison & Hinkley 1997, section 3.8 (whole clusters). A cluster drawn twice counts
    twice: each resample is the ratio of sums over the drawn clusters. Draws are int64 integers of numpy's
    Generator(PCG64(seed)), the same on every machine; the order of rows and the labels change nothing.

    Where every cluster has the same mean v the bootstrap has no width. Instead: with k of k clusters at v, at
    least the share L = 0.025 ** (1 / k) is at v (Clopper & Pearson 1934), and the others lie in `bounds`, so
    the mean is in [v*L + lo*(1-L), v*L + hi*(1-L)]. This is exact for clusters of equal size.

    No values, or one cluster: NaN and a note. ValueError: NaN or infinite values, values outside `bounds`
    ((-1, 1) for paired differences), clusters that are missing or of another length.
    """
    values = np.asarray(values, dtype=float)
    codes = pd.factorize(pd.Series(clusters, dtype=object))[0]
    if n_resamples < 1:
        raise ValueError(f"cluster_bootstrap: n_resamples is {n_resamples}; ask for 1 or more")
    _check_values(values, codes, bounds)
    if not len(values):
        return Interval(math.nan, math.nan, math.nan, 0, 0, NOTE_EMPTY)
    parts = _cluster_parts(values, codes)
    k, (total, n) = len(parts), parts.sum(axis=0)
    means, estimate = parts[:, 0] / parts[:, 1], float(total / n)
    if k == 1:
        low, high, note = math.nan, math.nan, NOTE_ONE_CLUSTER
    elif np.allclose(means, means[0], rtol=1e-12, atol=1e-12):
        at_least = (ALPHA / 2) ** (1 / k)
        low, high = (estimate * at_least + end * (1 - at_least) for end in bounds)
        note = NOTE_NO_VARIATION
    else:
        sums, sizes = _resampled(parts, n_resamples, seed)
        low, high = np.quantile(sums / sizes, [ALPHA / 2, 1 - ALPHA / 2])
        note = ""
    return Interval(estimate, float(low), float(high), int(n), k, note)


def _check_values(values: np.ndarray, codes: np.ndarray, bounds: tuple[float, float]) -> None:
    if values.ndim != 1 or len(values) != len(codes):
        raise ValueError(f"cluster_bootstrap: {values.size} values but {len(codes)} clusters; give one a value")
    for bad, line in (
        (~np.isfinite(values), "values are NaN or infinite; settle them before"),
        (codes < 0, "cluster labels are missing; name each cluster"),
        (
            (values < bounds[0]) | (values > bounds[1]),
            f"values lie outside {bounds}; pass the right `bounds`",
        ),
    ):
        if bad.any():
            raise ValueError(f"cluster_bootstrap: {bad.sum()} of {len(values)} {line}")


def _cluster_parts(values: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """(sum, size) of each cluster, in an order that neither row order nor labels can change."""
    order = np.lexsort((values, codes))  # float sums depend on the order of their terms
    sums, sizes = np.bincount(codes[order], weights=values[order]), np.bincount(codes)
    order = np.lexsort((sums, sizes))
    return np.column_stack([sums, sizes])[order]


def _draws(k: int, n_resamples: int, seed: int) -> Iterator[np.ndarray]:
    """Drawn clusters, one line a resample, in blocks that bound the memory; block size changes no draw."""
    rng = np.random.Generator(np.random.PCG64(seed))
    step = max(1, _BLOCK_CELLS // k)
    for start in range(0, n_resamples, step):
        yield rng.integers(0, k, size=(min(step, n_resamples - start), k), dtype=np.int64)


@lru_cache(maxsize=4)
def _kept_counts(k: int, n_resamples: int, seed: int) -> np.ndarray:
    """How often each cluster is drawn, (n_resamples, k); kept, for most slices have as many questions."""
    counts = (np.apply_along_axis(np.bincount, 1, drawn, minlength=k) for drawn in _draws(k, n_resamples, seed))
    return np.concatenate([block.astype(np.min_scalar_type(k)) for block in counts])


def _resampled(parts: np.ndarray, n_resamples: int, seed: int) -> np.ndarray:
    """The sum of values and the size of each resample, (2, n_resamples)."""
    k = len(parts)
    if k * n_resamples * np.min_scalar_type(k).itemsize <= _KEPT_BYTES:
        return (_kept_counts(k, n_resamples, seed) @ parts).T
    columns = parts.T.copy()
    return np.hstack([[c.take(drawn).sum(axis=1) for c in columns] for drawn in _draws(k, n_resamples, seed)])


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
        designs = sorted(rows["design"].unique())
        for a, b in combinations(designs, 2) if pairs is None else pairs:
            if a in designs and b in designs:
                lines.append(key | asdict(_comparison(_paired(rows, a, b), a, b)))
    table = pd.DataFrame(lines, columns=[*by, *(field.name for field in fields(Comparison))])
    return table.assign(p_holm=_holm(table["p_value"].to_numpy(dtype=float)))


def _holm(p: np.ndarray) -> np.ndarray:
    from statsmodels.stats.multitest import multipletests

    adjusted, tested = np.full(len(p), math.nan), ~np.isnan(p)
    if tested.any():
        adjusted[tested] = multipletests(p[tested], method="holm")[1]
    return adjusted


def accuracy(judgments: pd.DataFrame, by: str | Sequence[str]) -> pd.DataFrame:
    """One line per group, in order of first appearance: columns `by` and those of `slice_accuracy`."""
    by = _listed(by)
    lines = [key | slice_accuracy(rows) for key, rows in _groups(judgments, by, _SLICE)]
    return pd.DataFrame(lines, columns=[*by, *slice_accuracy(pd.DataFrame())])


def slice_accuracy(judgments: pd.DataFrame) -> dict[str, float | int | str]:
    """n_questions, n_rows, n_correct, n_unjudged, accuracy, low, high, accuracy_judged, note of one slice.

    Columns: `question_id`, `correct`, `verdict` (NaN: unjudged), `dataset` where ids repeat. Fractions;
    low and high by cluster_bootstrap over questions. An unjudged row is not correct; accuracy_judged is among
    judged rows. An empty slice, or one with none judged, is NaN there, never 0. ValueError: a missing column
    or value, `correct` that is no bool, a row that is correct and unjudged.
    """
    rows = _checked(judgments, _SLICE) if len(judgments) else pd.DataFrame(columns=_SLICE)
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
    paired = _paired(judgments, a, b)
    designs = sorted(judgments["design"].unique())
    for design in (a, b):
        if design not in designs:
            raise ValueError(f"judgments: `design` is never {design!r}; name one of {designs}")
    if paired.empty:
        raise ValueError(f"judgments: {a!r} and {b!r} have no common rows; judge the same rows with both")
    return paired


def _paired(judgments: pd.DataFrame, a: str, b: str) -> pd.DataFrame:
    """One line per row common to both designs: question (a number), a and b (1 where correct)."""
    rows = _checked(judgments, _PAIR)
    key = [*_question(rows), "row_id"]
    sides = []
    for design in (a, b):
        side = rows.loc[rows["design"] == design, [*key, "correct"]]
        if (twice := side.duplicated(key)).any():
            raise ValueError(
                f"judgments: row {side.loc[twice, 'row_id'].iloc[0]} has more than one judgment of design"
                f" {design!r}; filter to one judge and one condition"
            )
        sides.append(side)
    both = sides[0].merge(sides[1], on=key, suffixes=("_a", "_b"))
    question = both.groupby(_question(both)).ngroup()
    return pd.DataFrame(
        {"question": question, "a": both["correct_a"].astype(int), "b": both["correct_b"].astype(int)}
    )


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
