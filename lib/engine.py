"""The workers of a run, and the one writer that commits what arrives. `lib.run` decides what is asked.

A reply counts once it is committed. How one call is tried is `lib.attempts`.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from itertools import islice

from tqdm import tqdm

from lib.attempts import Tried, ask
from lib.budget import Budget
from lib.expected import Expected
from lib.owners import start_owner
from lib.pace import Pace
from lib.plan import CHUNK, Call, Plan, chunks
from lib.providers import CallError, Provider
from lib.recorded import Stored, now, stored
from lib.spilled import place, spill
from lib.store import Store, unlocked

# So many calls in a row without one reply: the server is gone, and the rest would only wait for nothing.
GIVE_UP = 8
_RENEW_S = 15.0
# Between two looks at what another process holds, in seconds.
_HELD_S = 1.0


class Engine:
    """Workers that ask, and one writer that commits what has arrived, many replies to one transaction."""

    def __init__(
        self,
        plan: Plan,
        store: Store,
        provider: Provider,
        missing: set[str],
        limit: int | None,
        max_usd: float | None,
    ):
        self._plan, self._store, self._provider, self._missing = plan, store, provider, missing
        self._limit = len(missing) if limit is None else min(limit, len(missing))
        self._batch = 2 * plan.judge.in_flight
        self._ready: asyncio.Queue[Call | None] = asyncio.Queue(maxsize=plan.judge.in_flight)
        self._arrived: list[Stored] = []
        self._failures: list[tuple] = []
        self._wake, self._committed = asyncio.Event(), asyncio.Event()
        self._fatal: BaseException | None = None
        self._expected = Expected(plan.judge, store)
        self._pace = Pace(plan.judge)
        self.budget = Budget(plan.judge, self._expected, max_usd)
        self.owner = start_owner()
        # Once something of the plan was answered, what is refused is taken to be refused for its own text.
        self._answers = bool(store.where(call.key for call in islice(plan, CHUNK)))
        self.answered = self.failed = self._in_a_row = 0
        self.stopped = ""
        self._lacking: Counter[str] = Counter()
        self._bar = tqdm(total=self._limit, desc=plan.judge.name, unit="call")

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
            # A stop between arrival and commit must not lose what has arrived, nor may a second stop here.
            try:
                self._commit()
            except BaseException as error:
                self._spill(error)
                if not isinstance(error, Exception):
                    raise
            finally:
                self._bar.close()
        if self._fatal:
            raise self._fatal

    @property
    def _ending(self) -> bool:
        return self._fatal is not None or bool(self.stopped)

    async def _ask_all(self) -> None:
        async with asyncio.TaskGroup() as group:
            for _ in range(self._plan.judge.in_flight):
                group.create_task(self._work())
            try:
                await self._feed()
            except (sqlite3.Error, OSError) as error:
                # Ask nothing more; the calls under way are paid for, and arrive.
                self._fatal = self._fatal or error
            for _ in range(self._plan.judge.in_flight):
                await self._ready.put(None)

    async def _feed(self) -> None:
        """Claim missing calls and hand them to the workers; go back for those that another process held."""
        given: set[str] = set()
        held = [call async for call in self._hand_out(chunks(self._plan), given)]
        while held and len(given) < self._limit and not self._ending:
            await asyncio.sleep(_HELD_S)
            keys = [call.key for call in held]
            self._missing -= self._store.where(keys).keys() | self._store.in_batches(keys)
            held = [call async for call in self._hand_out(chunks(held), given)]

    async def _hand_out(self, parts: Iterator[list[Call]], given: set[str]) -> AsyncIterator[Call]:
        """Put what can be claimed before the workers; yield the calls that another process holds."""
        for part in parts:
            open_calls = {call.key: call for call in part if call.key in self._missing and call.key not in given}
            wanted = list(open_calls.values())
            # Few at a time, so that a second process finds work too.
            while wanted and len(given) < self._limit:
                size = min(self._batch, self._limit - len(given))
                batch, wanted = wanted[:size], wanted[size:]
                mine = await self._claim([call.key for call in batch])
                given |= mine
                for call in batch:
                    if self._ending:
                        return
                    if call.key in mine:
                        await self._ready.put(call)
                    else:
                        yield call

    async def _claim(self, keys: list[str]) -> set[str]:
        if self._plan.judge.free:
            return set(keys)
        return await unlocked(self._store.claim, keys, self.owner)

    async def _work(self) -> None:
        while (call := await self._ready.get()) is not None:
            if self._ending:
                continue
            amount = await self.budget.reserve(call)
            if amount is None:
                self.stopped = self.stopped or "the next call may not fit into max_usd any more"
                continue
            if self._ending:
                await self.budget.settle(amount, None)
                continue
            reply = await self._ask(call, amount)
            await self.budget.settle(amount, reply)
            if reply is not None:
                self._arrived.append(reply)
                self._wake.set()
                # Under way until it is on the disk: so a kill loses no more than the calls that may be in flight.
                await self._committed.wait()

    async def _ask(self, call: Call, amount: float) -> Stored | None:
        """The reply to a call that may cost `amount`, or None where it failed and its failure is kept."""
        tried = Tried(lambda: self.budget.lose(amount))
        usage = self._expected.usage(call) if self._plan.judge.tokens_per_minute else None
        tokens = usage.tokens_in[0] + usage.tokens_out[0] if usage else 0.0
        try:
            reply = await ask(self._provider, call.request, self._pace, tokens, tried)
        except CallError as error:
            return self._fail(call, error, tried)
        except Exception as error:  # a fault of an adapter is one call's failure: the others are paid for
            return self._fail(call, CallError(f"{type(error).__name__}: {error}", "row", unsure=True), tried)
        how = {
            "latency_s": round(tried.seconds, 4),
            "attempts": tried.attempts,
            "sdk": self._provider.sdk,
            "at": now(),
        }
        return stored(call.key, call.text, reply, **how)

    def _fail(self, call: Call, error: CallError, tried: Tried) -> None:
        self.failed += 1
        self._lacking["failed"] += 1
        self._bar.update()
        self._failures.append((call.key, call.text, str(error), error.kind, tried.attempts))
        self._wake.set()
        self._in_a_row += error.kind != "row" or (error.unsure and not self._answers)
        if self._in_a_row >= GIVE_UP:
            error = CallError(f"the last {GIVE_UP} calls failed; the last of them: {error}", "fatal")
        if error.kind == "fatal":
            self._fatal = self._fatal or CallError(f"judge {self._plan.judge.name}: {error}", "fatal")

    async def _write(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            try:
                self._commit()
            except sqlite3.OperationalError as error:
                if "locked" not in str(error):
                    self._give_up_writing(error)
                    continue
                # Another program holds the file. What has arrived stays here until it lets go.
                tqdm.write(f"the store is locked by another program; waiting to write {len(self._arrived)} replies")
                await asyncio.sleep(_HELD_S)
                self._wake.set()
            except (sqlite3.Error, OSError) as error:
                self._give_up_writing(error)

    def _give_up_writing(self, error: Exception) -> None:
        """Ask nothing more, and let the calls under way arrive: they are paid for."""
        self._fatal = self._fatal or error
        self._committed.set()

    def _spill(self, error: BaseException) -> None:
        """What could not be committed goes to a file, and the next run takes it in from there."""
        self._fatal = self._fatal or error
        if not self._arrived:
            return
        path = spill(self._store, self._arrived)
        said = f"{len(self._arrived)} replies could not be stored; they stand in {place(path)}. "
        said += f"From {place(self._store.path.parent)} the next run takes them in by itself."
        self._fatal.add_note(said)
        # Whatever error or stop is seen in the end, this is.
        tqdm.write(said)

    def _commit(self) -> None:
        """Commit all that has arrived. In the loop: beside it, a thread would wait for its turn at every row."""
        batch, waiting = self._arrived, self._committed
        self._store.put(batch, self._failures)
        self._arrived, self._failures, self._committed = [], [], asyncio.Event()
        waiting.set()
        self.answered += len(batch)
        if batch:
            self._in_a_row, self._answers = 0, True
        if not self._bar.disable:
            self._lacking.update(filter(None, map(self._plan.lacks, batch)))
            lacking = " ".join(f"{name}={n}" for name, n in sorted(self._lacking.items())) or "0"
            spent = self.budget.spent
            cost = "cost unknown" if spent is None else f"${spent:.2f}"
            self._bar.set_postfix_str(f"{self._plan.lacking} {lacking}, {cost}", refresh=False)
        self._bar.update(len(batch))

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(_RENEW_S)
            # A locked store is no reason to stop: on this machine a claim holds as long as its process runs.
            with suppress(sqlite3.OperationalError):
                self._store.renew(self.owner)
