"""Ask the calls of a plan that have no reply, and commit each reply as it arrives.

The unit is a call. The engine knows keys and requests, not rows, so a design of several calls a row can join.
A reply counts once it is committed; stopping at any moment loses none, and running again asks only the rest.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from lib.budget import check_budget
from lib.cost import lowest
from lib.engine import Engine
from lib.judges import open_provider
from lib.plan import Plan, missing_keys
from lib.providers import Provider
from lib.spilled import take_in
from lib.store import Store


@dataclass(frozen=True)
class Outcome:
    """What a run did: calls `answered` and `failed` now, still `missing` afterwards, and `seconds`.

    `in_batches` are among the missing: a provider has them in a batch, so they were not asked. `dollars` were spent,
    None where a price or a reply's usage is unknown; under a limit what is unknown, and an attempt that broke off,
    counts at the most that it may have cost. `stopped` says why it ended early, "" where it did not.
    """

    answered: int
    failed: int
    missing: int
    seconds: float
    in_batches: int = 0
    dollars: float | None = 0.0
    stopped: str = ""


async def execute(
    plan: Plan,
    store: Store,
    provider: Provider | None = None,
    limit: int | None = None,
    max_usd: float | None = None,
) -> Outcome:
    """Ask every call of the plan that has no reply, and commit each reply as it arrives.

    `provider` defaults to the one that the judge's entry opens, only if something is missing. `limit` is the most
    calls to ask now, `max_usd` the most dollars to spend now, both without bound by default. A call that another
    process is asking is waited for, not asked again; one that is in a batch is left to `lib.batch`. Raises
    ValueError for a limit below 0 and a budget below the estimate or without a price, CallError at the first fatal
    failure, after the replies under way are committed; a call that fails alone is kept in the store's failures.
    """
    if limit is not None and limit < 0:
        raise ValueError(f"limit must be 0 or more calls, not {limit}")
    take_in(store)
    missing = missing_keys(plan, store)
    in_batches = store.in_batches(missing)
    missing -= in_batches
    if max_usd is not None:
        foreseen = missing and limit is None
        max_usd = check_budget(plan.judge, max_usd, lambda: lowest(plan, store, "live") if foreseen else None)
    if not missing:
        return Outcome(0, 0, len(in_batches), 0.0, len(in_batches))
    started = time.monotonic()
    opened = provider or open_provider(plan.judge)
    engine = Engine(plan, store, opened, set(missing), limit, max_usd)
    try:
        await engine.run()
    finally:
        store.release(engine.owner)
        if provider is None:
            await opened.close()
    left = missing - store.where(missing).keys() | in_batches
    seconds, spent = time.monotonic() - started, engine.budget.spent
    return Outcome(
        engine.answered,
        engine.failed,
        len(left),
        seconds,
        len(store.in_batches(left)),
        None if spent is None else round(spent, 6),
        engine.stopped,
    )
