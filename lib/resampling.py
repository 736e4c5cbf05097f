"""Intervals of a mean by resampling whole clusters, the same on every machine.

A cluster is a question with its rows. Nothing here knows designs or labels: that is `lib.stats`.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pandas as pd

ALPHA = 0.05
NOTE_EMPTY = "empty"
NOTE_ONE_CLUSTER = "one cluster gives no interval"
NOTE_NO_VARIATION = "no variation between questions: exact bound"
# The same in one word, where tables name kinds of intervals.
EXACT_BOUND = "exact bound"
NOTE_NO_BOUND = "no variation between questions, and no bounds to tell how far it could be"

_NO_BOUNDS = (math.nan, math.nan)
_KEPT_BYTES = 16_000_000  # one kept matrix of counts: 600 questions by 10,000 resamples fit
_BLOCK_CELLS = 2_000_000  # draws held at a time


@dataclass(frozen=True)
class Interval:
    """A mean with its 95 percent interval of `n` values in `n_clusters` clusters; `note` is a NOTE_ or ''."""

    estimate: float
    low: float
    high: float
    n: int
    n_clusters: int
    note: str


def cluster_bootstrap(
    values: Sequence[float],
    clusters: Sequence[Hashable],
    n_resamples: int = 10_000,
    seed: int = 0,
    *,
    bounds: tuple[float, float] | None = None,
) -> Interval:
    """Percentile 95 percent interval of the mean of `values`, resampling whole clusters with replacement.

    Efron 1979 (bootstrap); Davison & Hinkley 1997, section 3.8 (whole clusters). A cluster drawn twice counts
    twice: each resample is the ratio of sums over the drawn clusters. Draws are int64 integers of numpy's
    Generator(PCG64(seed)), the same on every machine; the order of rows and the labels change nothing.

    Where every cluster has the same mean v the bootstrap has no width. Instead: with k of k clusters at v, at
    least the share L = 0.025 ** (1 / k) is at v (Clopper & Pearson 1934), and the others lie in `bounds`, so
    the mean is in [v*L + lo*(1-L), v*L + hi*(1-L)]. This is exact for clusters of equal size. `bounds` defaults
    to (0, 1), or (-1, 1) if a value is negative; values beyond have no such bound unless it is given.

    No values, one cluster, or no variation without bounds: NaN and a note. ValueError: NaN or infinite values,
    values outside given `bounds`, clusters that are missing or of another length.
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
        bounds = bounds or _usual_bounds(values)
        at_least = (ALPHA / 2) ** (1 / k)
        low, high = (estimate * at_least + end * (1 - at_least) for end in bounds)
        note = NOTE_NO_VARIATION if bounds is not _NO_BOUNDS else NOTE_NO_BOUND
    else:
        sums, sizes = _resampled(parts, n_resamples, seed)
        low, high = np.quantile(sums / sizes, [ALPHA / 2, 1 - ALPHA / 2])
        note = ""
    return Interval(estimate, float(low), float(high), int(n), k, note)


def _usual_bounds(values: np.ndarray) -> tuple[float, float]:
    low, high = values.min(), values.max()
    return (0, 1) if 0 <= low <= high <= 1 else (-1, 1) if -1 <= low <= high <= 1 else _NO_BOUNDS


def _check_values(values: np.ndarray, codes: np.ndarray, bounds: tuple[float, float] | None) -> None:
    lowest, highest = bounds or (-math.inf, math.inf)
    if values.ndim != 1 or len(values) != len(codes):
        raise ValueError(f"cluster_bootstrap: {values.size} values but {len(codes)} clusters; give one a value")
    for bad, line in (
        (~np.isfinite(values), "values are NaN or infinite; settle them before"),
        (codes < 0, "cluster labels are missing; name each cluster"),
        ((values < lowest) | (values > highest), f"values lie outside {bounds}; pass the right `bounds`"),
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


@lru_cache(maxsize=8)
def _kept_counts(k: int, n_resamples: int, seed: int) -> np.ndarray:
    """How often each cluster is drawn, (n_resamples, k); kept, for most slices have as many questions."""
    kept = []
    for drawn in _draws(k, n_resamples, seed):
        lines = np.arange(len(drawn))[:, None]
        counts = np.bincount((drawn + k * lines).ravel(), minlength=k * len(drawn))
        kept.append(counts.reshape(len(drawn), k).astype(np.min_scalar_type(k)))
    return np.concatenate(kept)


def _resampled(parts: np.ndarray, n_resamples: int, seed: int) -> np.ndarray:
    """The sum of values and the size of each resample, (2, n_resamples)."""
    k = len(parts)
    if k * n_resamples * np.min_scalar_type(k).itemsize <= _KEPT_BYTES:
        return (_kept_counts(k, n_resamples, seed) @ parts).T
    columns = parts.T.copy()
    return np.hstack([[c.take(drawn).sum(axis=1) for c in columns] for drawn in _draws(k, n_resamples, seed)])
