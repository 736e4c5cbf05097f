"""The exact sign test, Holm's adjustment of several, and how a p is written.

It counts wins; who won what is decided in `lib.stats`.
"""

from __future__ import annotations

import math
import operator
import sys
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

_EXACT_N = 10_000  # up to here integer arithmetic takes milliseconds


@dataclass(frozen=True)
class SignTest:
    """Questions won by each side, and the exact two-sided p in (0, 1] with its base-10 logarithm."""

    wins_a: int
    wins_b: int
    p_value: float
    log10_p: float


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


def holm(p_values: Sequence[float]) -> np.ndarray:
    """Holm's 1979 adjustment over all of `p_values` that are no NaN; those stay NaN.

    As statsmodels' multipletests, which collects garbage at each call: in a paper's tables that is seconds.
    """
    p = np.asarray(p_values, dtype=float)
    adjusted, tested = np.full(len(p), math.nan), np.flatnonzero(~np.isnan(p))
    order = tested[np.argsort(p[tested], kind="stable")]
    steps = p[order] * np.arange(len(order), 0, -1)
    adjusted[order] = np.minimum(np.maximum.accumulate(steps), 1.0)
    return adjusted


def with_holm(table: pd.DataFrame) -> pd.DataFrame:
    """The table with `p_holm`: Holm's adjustment (1979) over the lines of each judge.

    One judge's conclusions do not depend on which others stand beside it.
    """
    adjusted = table.groupby("judge", sort=False)["p_value"].transform(lambda p: holm(p))
    return table.assign(p_holm=adjusted)


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
