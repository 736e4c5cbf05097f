"""Ask the calls of a plan that have no reply, and commit each reply as it arrives.

The unit is a call. The engine knows keys and requests, not rows, so a design of several calls a row can join.
A reply counts once it is committed; stopping at any moment loses none, and running again asks only the rest.
"""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass

import tenacity
from tqdm import tqdm

from lib.judges import open_provider
from lib.plan import Call, Plan, chunks, missing_keys
from lib.providers import CallError, Provider, Reply
from lib.recorded import Stored
from lib.store import Store, now

ATTEMPTS = 5
# So many calls in a row without one reply: the server is gone, and the rest would only wait for nothing.
GIVE_UP = 8
# One attempt, and the longest wait that a provider may ask for before the run stops to be resumed; seconds.
ATTEMPT_S = 330.0
LONGEST_WAIT_S = 120.0
_RENEW_S = 15.0
# Between two looks at what another process holds.
_HELD_S = 1.0


@dataclass(frozen=True)
class Outcome:
    """What `execute` did: calls `answered` and `failed` now, still `missing` afterwards, and `seconds`."""

    answered: int
    failed: int
    missing: int
    seconds: float


async def execute(plan: Plan, store: Store, provider: Provider | None = None, limit: int | None = None) -> Outcome:
    """Ask every call of the plan that has no reply, and commit each reply as it arrives.

    `provider` defaults to the one that the judge's entry opens, only if something is missing. `limit` is the most
    calls to ask now, all by default. A call that another process is asking is waited for, not asked again. Raises
    CallError at the first fatal one, after the replies under way are committed; a call that fails alone is kept
    in the store's failures.
    """
    if limit is not None and limit < 0:
        raise ValueError(f"limit must be 0 or more calls, not {limit}")
    missing = missing_keys(plan, store)
    if not missing:
        return Outcome(0, 0, 0, 0.0)
    started = time.monotonic()
    opened = provider or open_provider(plan.judge)
    engine = _Engine(plan, store, opened, missing, limit)
    try:
        await engine.run()
    finally:
        if provider is None:
            await opened.close()
        store.release()
    left = len(missing) - len(store.where(missing))
    return Outcome(engine.answered, engine.failed, left, time.monotonic() - started)


class _Engine:
    """Workers that ask, and one writer that commits what has arrived, many replies to one transaction."""

    def __init__(self, plan: Plan, store: Store, provider: Provider, missing: set[str], limit: int | None):
        self._plan, self._store, self._provider, self._missing = plan, store, provider, missing
        self._limit = len(missing) if limit is None else min(limit, len(missing))
        self._batch = 2 * plan.judge.in_flight
        self._ready: asyncio.Queue[Call | None] = asyncio.Queue(maxsize=plan.judge.in_flight)
        self._arrived: list[Stored] = []
        self._wake, self._committed = asyncio.Event(), asyncio.Event()
        self._fatal: CallError | None = None
        self.answered = self.failed = self._in_a_row = 0
        self._bar = tqdm(total=self._limit, desc=f"{plan.judge.name} {plan.condition}", unit="call")

    async def run(self) -> None:
        tasks = [asyncio.create_task(step) for step in (self._ask_all(), self._write(), self._renew())]
        try:
            # The writer and the renewal never end: the first to end is the work done, or one that broke.
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            # A stop between arrival and commit must not lose what has arrived.
            self._commit()
            self._bar.close()
        if self._fatal:
            raise self._fatal

    async def _ask_all(self) -> None:
        async with asyncio.TaskGroup() as group:
            for _ in range(self._plan.judge.in_flight):
                group.create_task(self._work())
            await self._feed()
            for _ in range(self._plan.judge.in_flight):
                await self._ready.put(None)

    async def _feed(self) -> None:
        """Claim missing calls and hand them to the workers; go back for those that another process held."""
        given: set[str] = set()
        held = [call async for call in self._hand_out(chunks(self._plan), given)]
        while held and len(given) < self._limit and not self._fatal:
            await asyncio.sleep(_HELD_S)
            self._missing -= self._store.where(call.key for call in held).keys()
            held = [call async for call in self._hand_out(chunks(held), given)]

    async def _hand_out(self, parts: Iterator[list[Call]], given: set[str]) -> AsyncIterator[Call]:
        """Put what can be claimed before the workers; yield the calls that another process holds."""
        for part in parts:
            open_calls = {call.key: call for call in part if call.key in self._missing and call.key not in given}
            wanted = list(open_calls.values())
            # Few at a time, so that a second process finds work too.
            for start in range(0, len(wanted), self._batch):
                batch = wanted[start : start + self._batch][: self._limit - len(given)]
                mine = self._claim([call.key for call in batch])
                given |= mine
                for call in batch:
                    if self._fatal:
                        return
                    if call.key in mine:
                        await self._ready.put(call)
                    else:
                        yield call

    def _claim(self, keys: list[str]) -> set[str]:
        return set(keys) if self._plan.judge.free else self._store.claim(keys)

    async def _work(self) -> None:
        while (call := await self._ready.get()) is not None:
            if self._fatal:
                continue
            try:
                stored = await self._ask(call)
            except CallError as error:
                self._fail(call, error)
                continue
            except Exception as error:  # a fault of an adapter is one call's failure: the others are paid for
                self._fail(call, CallError(f"{type(error).__name__}: {error}", "row"))
                continue
            self._arrived.append(stored)
            self._wake.set()
            # Under way until it is on the disk: so a kill loses no more than the calls that may be in flight.
            await self._committed.wait()

    def _fail(self, call: Call, error: CallError) -> None:
        self._store.put_failure(call.key, call.text, str(error), error.kind)
        self.failed += 1
        self._bar.update()
        self._in_a_row += 1
        if self._in_a_row >= GIVE_UP:
            error = CallError(f"the last {GIVE_UP} calls failed; the last of them: {error}", "fatal")
        if error.kind == "fatal":
            self._fatal = self._fatal or error

    async def _ask(self, call: Call) -> Stored:
        attempts = 0
        started = time.monotonic()
        async for attempt in tenacity.AsyncRetrying(
            retry=tenacity.retry_if_exception(lambda error: getattr(error, "kind", "") == "transient"),
            wait=_wait,
            stop=tenacity.stop_after_attempt(ATTEMPTS),
            reraise=True,
        ):
            with attempt:
                attempts += 1
                reply = await self._ask_once(call.request)
        return Stored(
            key=call.key,
            request=call.text,
            text=reply.text,
            finish_reason=reply.finish_reason,
            model=reply.model,
            tokens_in=reply.tokens_in,
            tokens_out=reply.tokens_out,
            tokens_reasoning=reply.tokens_reasoning,
            tokens_cached=reply.tokens_cached,
            latency_s=round(time.monotonic() - started, 4),
            attempts=attempts,
            sdk=self._provider.sdk,
            at=now(),
            raw=reply.raw,
        )

    async def _ask_once(self, request: dict) -> Reply:
        try:
            async with asyncio.timeout(ATTEMPT_S):
                return await self._provider.ask(request)
        except TimeoutError:
            raise CallError(f"no whole answer within {ATTEMPT_S:.0f} s", "transient") from None
        except CallError as error:
            if (error.retry_after or 0) > LONGEST_WAIT_S:
                message = f"the provider asks to wait {error.retry_after:.0f} s; run again then ({error})"
                raise CallError(message, "fatal") from None
            raise

    async def _write(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            try:
                self._commit()
            except sqlite3.OperationalError as error:
                if "locked" not in str(error):
                    raise
                # Another program holds the file. What has arrived stays here until it lets go.
                tqdm.write(f"the store is locked by another program; waiting to write {len(self._arrived)} replies")
                await asyncio.sleep(_HELD_S)
                self._wake.set()

    def _commit(self) -> None:
        """Commit all that has arrived. In the loop: beside it, a thread would wait for its turn at every row."""
        batch, waiting = self._arrived, self._committed
        self._store.put(batch)
        self._arrived, self._committed = [], asyncio.Event()
        waiting.set()
        self.answered += len(batch)
        self._in_a_row = 0 if batch else self._in_a_row
        self._bar.update(len(batch))

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(_RENEW_S)
            self._store.renew()


_backoff = tenacity.wait_random_exponential(multiplier=0.5, max=30)


def _wait(state: tenacity.RetryCallState) -> float:
    error = state.outcome.exception()
    return max(_backoff(state), getattr(error, "retry_after", None) or 0.0)
