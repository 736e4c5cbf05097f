"""Tokens to dollars, by the price in a judge's entry. Unknown usage and unknown prices stay unknown."""

from __future__ import annotations

from lib.judges import Judge
from lib.recorded import Stored


def dollars(
    judge: Judge, tokens_in: float | None, tokens_out: float | None, cached: float = 0.0, batch: bool = False
):
    """Dollars of so many tokens, None where tokens or prices are unknown, 0.0 for a judge that costs nothing.

    `tokens_in` includes `cached` ones, which have their own price if the entry gives one.
    """
    if judge.costs_nothing and not judge.price:
        return 0.0
    prefix = "batch_" if batch else ""
    price_in, price_out = judge.price.get(f"{prefix}input"), judge.price.get(f"{prefix}output")
    if None in (price_in, price_out, tokens_in, tokens_out):
        return None
    cached = min(cached or 0.0, tokens_in)
    price_cached = judge.price.get(f"{prefix}cached_input", price_in)
    return ((tokens_in - cached) * price_in + cached * price_cached + tokens_out * price_out) / 1e6


def reply_dollars(judge: Judge, reply: Stored) -> float | None:
    """Dollars of a stored reply, at the batch price if it came in one."""
    cached = reply.tokens_cached or 0
    return dollars(judge, reply.tokens_in, reply.tokens_out, cached, batch=reply.batch is not None)
