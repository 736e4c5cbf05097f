"""Dollars that one run may spend, and what it has spent."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from lib.expected import Expected
from lib.judges import Judge
from lib.plan import Call
from lib.prices import dollars, reply_dollars
from lib.recorded import Stored


class Budget:
    """Dollars that one run may spend: a call starts only if what it may cost fits beside those under way.

    What a call may cost is the high end of its estimate, or of what was seen in this run. A reply longer than all
    that ends the run, with the overshoot of the calls that were under way.
    """

    def __init__(self, judge: Judge, expected: Expected, max_usd: float | None):
        self._judge, self._expected, self._max = judge, expected, max_usd
        self._settled = asyncio.Condition()
        self._reserved, self._longest = 0.0, 0
        self._spent, self._known = 0.0, True

    @property
    def spent(self) -> float | None:
        """Dollars spent, None where a reply without a known cost is among them and nothing was set aside for it."""
        return self._spent if self._known else None

    def most(self, call: Call, batch: bool = False) -> float:
        """The most that a call is expected to cost, in dollars; 0 without a limit."""
        if self._max is None:
            return 0.0
        usage = self._expected.usage(call)
        return dollars(self._judge, usage.tokens_in[2], max(usage.most_out, self._longest), batch=batch)

    async def reserve(self, call: Call) -> float | None:
        """Set aside what the call may cost, waiting for calls under way; None if it will not fit any more."""
        if self._max is None:
            return 0.0
        amount = self.most(call)
        async with self._settled:
            while self._spent + self._reserved + amount > self._max:
                if self._reserved <= 1e-12:
                    return None
                await self._settled.wait()
            self._reserved += amount
        return amount

    def lose(self, amount: float) -> bool:
        """An attempt broke off: it counts as paid. Returns whether another attempt of that cost still fits."""
        self._spent += amount
        return self._max is None or self._spent + self._reserved <= self._max

    async def settle(self, amount: float, reply: Stored | None) -> None:
        """Give back what was set aside; a reply's own cost is spent, or all of it where that is unknown."""
        cost = 0.0 if reply is None else reply_dollars(self._judge, reply)
        async with self._settled:
            self._reserved -= amount
            self._known = self._known and (cost is not None or self._max is not None)
            self._spent += amount if cost is None else cost
            self._longest = max(self._longest, (reply.tokens_out or 0) if reply else 0)
            self._settled.notify_all()


def check_budget(
    judge: Judge, max_usd: float, lowest: Callable[[], float | None], batch: bool = False
) -> float | None:
    """The limit of a run, None where the judge costs nothing.

    Raises ValueError for a negative limit, one that cannot be kept because the price is unknown, and one below
    the low end of the estimate, which `lowest` gives.
    """
    if not max_usd >= 0:
        raise ValueError(f"max_usd must be 0 or more dollars, not {max_usd}")
    if judge.costs_nothing and not judge.price:
        return None
    if not judge.price:
        raise ValueError(
            f"judge {judge.name} has no price, so max_usd cannot be kept; add price to its entry in judges.yaml "
            "(input and output 0 for a server that costs nothing)"
        )
    if batch and not {"batch_input", "batch_output"} <= judge.price.keys():
        raise ValueError(
            f"judge {judge.name} has no batch price, so max_usd cannot be kept; add batch_input and batch_output to "
            "the price of its entry in judges.yaml"
        )
    low = lowest()
    if low is not None and low > max_usd:
        raise ValueError(
            f"judge {judge.name}: this run would cost at least ${low:,.2f} by the estimate, and max_usd is "
            f"{max_usd:,.2f}; raise max_usd, or ask fewer questions"
        )
    return max_usd
