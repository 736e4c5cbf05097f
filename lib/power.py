"""What a paired slice can find at all: the power of the exact sign test, and the smallest difference it detects."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from lib.resampling import ALPHA

POWER = 0.8
# How finely the smallest difference is told, as a share of the questions.
_STEP = 1e-4


def sign_test_power(n_questions: int, better: float, worse: float) -> float:
    """The probability that the exact two-sided sign test finds p below 0.05 in the direction of `better`.

    Of `n_questions` each turns out better with probability `better` and worse with probability `worse`; the others
    tie. Exact: the sum over the number of questions without a tie (Dixon & Mood 1946 for the test itself).
    ValueError for shares that are none, or add up to more than 1.
    """
    if not (0 <= worse <= 1 and 0 <= better <= 1 and better + worse <= 1 + 1e-12) or n_questions < 0:
        raise ValueError(f"power: better {better!r} and worse {worse!r} must be shares of {n_questions!r} questions")
    if better == 0:
        return 0.0
    from scipy.stats import binom

    untied = np.arange(n_questions + 1)
    # The fewest wins among so many untied questions that the test rejects: more than the fair coin's upper quantile.
    needed = binom.isf(ALPHA / 2, untied, 0.5) + 1
    # At a tail of exactly 0.025 the quantile is one too low or too high; p must be below 0.05.
    needed -= 2 * binom.sf(needed - 2, untied, 0.5) < ALPHA
    needed += 2 * binom.sf(needed - 1, untied, 0.5) >= ALPHA
    wins = binom.sf(needed - 1, untied, better / (better + worse))
    return float(np.sum(binom.pmf(untied, n_questions, min(1.0, better + worse)) * wins))


@lru_cache(maxsize=4096)
def smallest_difference(n_questions: int, worse: float = 0.0) -> float:
    """The smallest share of questions, better minus worse, that `n_questions` detect with power 0.8.

    `worse` is the share that goes the other way. NaN where even all the other questions better would not do: below
    six questions no sign test can reject.
    """
    low, high = 0.0, 1.0 - worse
    if n_questions == 0 or sign_test_power(n_questions, high, worse) < POWER:
        return math.nan
    # Power grows with the share that turns out better.
    while high - low > _STEP:
        middle = (low + high) / 2
        low, high = (low, middle) if sign_test_power(n_questions, middle, worse) >= POWER else (middle, high)
    return high - worse


def questions_needed(better: float, worse: float = 0.0, most: int = 100_000) -> float:
    """How many questions the sign test needs to find, with power 0.8, that this share turns out better than worse.

    NaN where more than `most` would be needed, or `better` is not the larger share. ValueError as `sign_test_power`.
    """
    if not worse < better or sign_test_power(most, better, worse) < POWER:
        return math.nan
    low, high = 0, most
    # Power grows with the number of questions, but for small steps where the test's threshold moves.
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if sign_test_power(middle, better, worse) >= POWER else (middle, high)
    return float(high)
