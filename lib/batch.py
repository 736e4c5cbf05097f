"""The calls of a plan through the provider's batch API: at its batch price, within a day, durable across processes.

A run collects what has ended, sends what is missing, and returns. Collecting is running it again, in any process.
Results are joined by id. A reply has the same key here as one that was asked live.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import Any

from tqdm import tqdm

from lib import ledger
from lib.attempts import again
from lib.budget import Budget, check_budget
from lib.cost import lowest
from lib.expected import Expected
from lib.judges import open_provider
from lib.landing import land
from lib.ledger import Batch
from lib.owners import start_owner
from lib.plan import Call, Plan, missing_keys
from lib.providers import BatchProvider, BatchState, CallError
from lib.redact import redact
from lib.spilled import take_in
from lib.store import Store, unlocked

# A provider may list a new batch a moment late; only after so long is one that is not found held for never taken.
SETTLE_S = 120.0
POLL_S = 30.0


@dataclass(frozen=True)
class BatchOutcome:
    """What a run did: calls `answered` and `failed` in batches that it collected, and calls `sent` in new ones.

    `in_batches` of the plan's calls are under way; `missing` have no reply, those included. `dollars_sent` is what
    the new batches will likely cost, None where the price is unknown. `stopped` says why not all that is missing
    was sent, "" where it was.
    """

    answered: int
    failed: int
    sent: int
    in_batches: int
    missing: int
    dollars_sent: float | None = 0.0
    stopped: str = ""


async def execute_batches(
    plan: Plan,
    store: Store,
    provider: BatchProvider | None = None,
    max_usd: float | None = None,
    wait_s: float = 0.0,
) -> BatchOutcome:
    """Collect the batches that have ended, send the calls that are missing, and wait at most `wait_s` for results.

    Raises ValueError for a judge without a batch API and for a budget as `lib.run.execute` does; CallError where
    the provider refuses a batch, where the lines of one do not match its calls (after all that match are stored,
    with the list), and where a line says that a setting, the model or the key is refused.
    """
    if not plan.judge.has_batches:
        raise ValueError(f"judge {plan.judge.name}: {plan.judge.provider} has no batch API; use mode live")
    take_in(store)
    missing = missing_keys(plan, store)
    waiting = store.in_batches(missing)
    if max_usd is not None:
        unsent = not missing <= waiting
        foreseen = (lambda: lowest(plan, store, "batch")) if unsent else (lambda: None)
        max_usd = check_budget(plan.judge, max_usd, foreseen, batch=True)
    if not missing and not ledger.batches(store, plan.judge):
        return BatchOutcome(0, 0, 0, 0, 0)
    opened = provider or open_provider(plan.judge)
    sender = _Batches(plan, store, opened, max_usd)
    try:
        await sender.run(wait_s)
    except CallError as error:
        raise CallError(f"judge {plan.judge.name}: {error}", error.kind, error.retry_after) from None
    finally:
        store.release(sender.owner)
        if provider is None:
            await opened.close()
    missing = missing_keys(plan, store)
    waiting = len(store.in_batches(missing))
    return BatchOutcome(
        sender.answered, sender.failed, sender.sent, waiting, len(missing), sender.dollars, sender.stopped
    )


class _Batches:
    def __init__(self, plan: Plan, store: Store, provider: BatchProvider, max_usd: float | None):
        self._plan, self._store, self._provider, self._max = plan, store, provider, max_usd
        self._expected = Expected(plan.judge, store)
        self._tried: set[str] = set()
        self.owner = start_owner()
        self.answered = self.failed = self.sent = 0
        self.dollars: float | None = 0.0
        self.stopped = ""

    async def run(self, wait_s: float) -> None:
        until = time.monotonic() + wait_s
        await self._look()
        await self._send()
        if not wait_s:
            return
        with tqdm(desc=f"{self._plan.judge.name} batches", unit="call") as bar:
            while ledger.batches(self._store, self._plan.judge) and (left := until - time.monotonic()) > 0:
                await asyncio.sleep(min(POLL_S, left))
                try:
                    await self._look(bar)
                except CallError as error:
                    # A network that is away for a while ends no night's wait.
                    if error.kind != "transient":
                        raise

    async def _look(self, bar: tqdm | None = None) -> None:
        """Find what was cut off, and fetch what has ended. A fault in one batch keeps no other from landing."""
        faults: list[CallError] = []
        for batch in ledger.batches(self._store, self._plan.judge, ("submitting",)):
            if ledger.lost(batch):
                await self._spare(self._find, batch, faults)
        done, under_way = 0, ledger.batches(self._store, self._plan.judge, ("open",))
        for batch in under_way:
            done += await self._spare(self._collect, batch, faults) or 0
        if bar is not None:
            bar.total, bar.n = sum(batch.n for batch in under_way), done
            bar.refresh()
        if faults:
            raise next((fault for fault in faults if fault.kind == "fatal"), faults[0])

    async def _spare(self, work: Callable[[Batch], Awaitable[Any]], batch: Batch, faults: list[CallError]) -> Any:
        try:
            return await work(batch)
        except Exception as error:
            name = batch.wire or batch.id
            gone = (
                f"; if it is gone for good: lib.ledger.give_up(store, {name!r})" if "HTTP 404" in str(error) else ""
            )
            faults.append(CallError(f"{error}{gone}", getattr(error, "kind", "fatal")))

    async def _find(self, batch: Batch) -> None:
        """A batch whose sending was cut off: ask the provider whether it has it."""
        ids = set(ledger.calls_of(self._store, batch))
        wire = await again(self._provider.find, batch.id, ids, batch.since, ledger.known_wires(self._store))
        if wire:
            await unlocked(ledger.accepted, self._store, batch, wire)
        elif wire is None and time.time() - batch.since > SETTLE_S:
            await unlocked(ledger.never_arrived, self._store, batch, "the provider does not have it")

    async def _collect(self, batch: Batch) -> int:
        """Fetch the results of a batch that has ended; returns how many of its lines are done."""
        state = await again(self._provider.poll, batch.wire)
        if state.state != "running":
            await self._land(batch, state)
        return state.done

    async def _land(self, batch: Batch, state: BatchState) -> None:
        requests = ledger.calls_of(self._store, batch)
        lines = await again(self._provider.lines, batch.wire) if state.state == "ended" else []
        landed = land(batch, requests, lines, state, self._provider.sdk)
        had = self._store.where(requests).keys()
        facts = landed.state, landed.replies, landed.failures, state.note
        if not await unlocked(ledger.finish, self._store, batch, *facts):
            return
        self.answered += len({reply.key for reply in landed.replies} - had)
        self.failed += len(landed.failures.keys() & requests.keys())
        # What failed now is asked again by the next run, not by this one.
        self._tried |= landed.failures.keys()
        if landed.complaint:
            raise CallError(redact(f"batch {batch.wire}: {landed.complaint}"), "fatal")

    async def _send(self) -> None:
        missing = missing_keys(self._plan, self._store) - self._tried
        missing -= self._store.in_batches(missing)
        for part in self._parts(missing):
            mine = await unlocked(self._store.claim, [call.key for call in part], self.owner)
            calls = [call for call in part if call.key in mine]
            if calls:
                await self._submit(calls)

    async def _submit(self, calls: list[Call]) -> None:
        batch = await unlocked(ledger.begin, self._store, self._plan.judge, calls)
        try:
            wire = await self._provider.submit(batch.id, [(call.key, call.request) for call in calls])
            await unlocked(ledger.accepted, self._store, batch, wire)
        except CallError as error:
            if error.kind != "transient":
                await unlocked(ledger.never_arrived, self._store, batch, str(error))
                raise
            message = (
                f"sending a batch broke off, and the provider may have taken it ({error}); run again in two minutes"
            )
            raise CallError(f"{message}: it is looked for before anything is sent anew", "fatal") from None
        finally:
            ledger.let_go(batch)
        self.sent += len(calls)
        costs = [self._expected.likely(call, batch=True) for call in calls]
        self.dollars = None if None in (self.dollars, *costs) else round(self.dollars + sum(costs), 6)

    def _parts(self, missing: set[str]) -> Iterator[list[Call]]:
        """The missing calls in batches within the provider's limits and the judge's, as far as the budget goes."""
        most = min(self._plan.judge.batch_calls, self._provider.most_calls)
        budget, spent = Budget(self._plan.judge, self._expected, self._max), 0.0
        part, size, seen = [], 0, set()
        for call in self._plan:
            if call.key not in missing or call.key in seen:
                continue
            seen.add(call.key)
            spent += budget.most(call, batch=True)
            if self._max is not None and spent > self._max:
                self.stopped = "the next call may not fit into max_usd any more"
                break
            # A line has the request and some wrapping of it.
            length = len(call.text) + 500
            if part and (len(part) >= most or size + length > self._provider.most_bytes):
                yield part
                part, size = [], 0
            part.append(call)
            size += length
        if part:
            yield part
