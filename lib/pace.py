"""How many calls go to one judge at a time: its own limits, and fewer when the provider says that it is too much.

A ceiling that halves on a 429 and rises by one for each round of answered calls, as congestion is avoided on networks
(additive increase, multiplicative decrease: Chiu and Jain, 1989). Requests and tokens a minute are leaky buckets.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from contextlib import asynccontextmanager

from aiolimiter import AsyncLimiter

from lib.judges import Judge

# Tokens may come in bursts of so many seconds' worth.
_BURST_S = 5.0


class Pace:
    """Turns for the calls to one judge. `limit` is the ceiling now, at most the judge's `in_flight`."""

    def __init__(self, judge: Judge):
        self.limit = float(judge.in_flight)
        self._top, self._busy, self._waiting = judge.in_flight, 0, deque()
        self._not_before, self._slowed = 0.0, 0.0
        # One request at a time of the bucket: a minute's worth at once would be two minutes' worth within one.
        self._requests = AsyncLimiter(1, 60 / judge.requests_per_minute) if judge.requests_per_minute else None
        burst = max(1.0, judge.tokens_per_minute * _BURST_S / 60)
        self._tokens = AsyncLimiter(burst, _BURST_S) if judge.tokens_per_minute else None

    @asynccontextmanager
    async def turn(self, tokens: float):
        """A place for one attempt that will use about so many tokens; yields the moment at which it began."""
        await self._enter()
        try:
            while (wait := self._not_before - time.monotonic()) > 0:
                await asyncio.sleep(wait)
            if self._requests:
                await self._requests.acquire()
            while self._tokens and tokens > 0:
                await self._tokens.acquire(min(tokens, self._tokens.max_rate))
                tokens -= self._tokens.max_rate
            yield time.monotonic()
        finally:
            self._leave()

    def answered(self) -> None:
        """A call was answered: the ceiling rises."""
        if self.limit < self._top:
            self.limit = min(self._top, self.limit + 1 / self.limit)
            self._wake()

    def too_much(self, began: float, wait: float | None) -> None:
        """The provider asked a call that began then for fewer: the ceiling halves, and nobody asks for `wait` s."""
        # Those that were under way at the last cut say nothing about the new ceiling.
        if began >= self._slowed:
            self.limit, self._slowed = max(1.0, self.limit / 2), time.monotonic()
        if wait:
            self._not_before = max(self._not_before, time.monotonic() + wait)

    async def _enter(self) -> None:
        while self._busy >= int(self.limit):
            place = asyncio.get_running_loop().create_future()
            self._waiting.append(place)
            try:
                await place
            finally:
                if place in self._waiting:
                    self._waiting.remove(place)
        self._busy += 1

    def _leave(self) -> None:
        self._busy -= 1
        self._wake()

    def _wake(self) -> None:
        # As many as there are places: each looks again whether one is free.
        for _ in range(int(self.limit) - self._busy):
            if not self._waiting:
                return
            place = self._waiting.popleft()
            if not place.done():
                place.set_result(None)
