"""The batches that were sent to providers, in the same file as the replies: which calls are in which, and how far.

A batch is written down with its calls before it is sent, so that no moment exists in which a provider has paid work
of ours that the store does not know.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from lib.judges import Judge
from lib.owners import alive, here
from lib.plan import Call
from lib.recorded import Stored
from lib.store import OPEN, Store


@dataclass(frozen=True, slots=True)
class Batch:
    """A batch. `id` is ours and goes along as its mark, `wire` is the provider's id, None until it is known.

    `state` is `submitting` (sent, or about to be), `open` (the provider has it), `collected`, or `failed` (it never
    arrived, or holds nothing). `since` is the Unix time at which it was written down, `n` its number of calls.
    """

    id: str
    judge: str
    provider: str
    endpoint: str
    wire: str | None
    state: str
    n: int
    owner: str
    since: float
    note: str | None


# On another machine a batch that was written down so long ago is not being sent any more, in seconds.
SENDING_S = 7200.0
# The batches that this process is sending right now.
_sending: set[str] = set()


def begin(store: Store, judge: Judge, calls: Sequence[Call]) -> Batch:
    """Write down a batch of calls that this process has claimed; the claims end, the batch holds them now."""
    facts = {"judge": judge.name, "provider": judge.provider, "endpoint": judge.endpoint, "owner": store.owner}
    batch = Batch(
        f"jd-{uuid.uuid4().hex}", wire=None, state="submitting", n=len(calls), since=time.time(), note=None, **facts
    )
    values = [getattr(batch, name) for name in Batch.__slots__]
    with store.transaction():
        store.execute(f"INSERT INTO batches ({', '.join(Batch.__slots__)}) VALUES ({', '.join('?' * 10)})", values)
        for call in calls:
            store.execute("INSERT INTO batch_calls VALUES (?, ?, ?)", (batch.id, call.key, call.text))
            store.execute("DELETE FROM claims WHERE key = ?", (call.key,))
    _sending.add(batch.id)
    return batch


def accepted(store: Store, batch: Batch, wire: str) -> None:
    """The provider has the batch, under this id, whatever another process took it for in the meantime."""
    store.execute(
        "UPDATE batches SET wire = ?, state = 'open', note = NULL WHERE id = ? AND state IN ('submitting', 'failed')",
        (wire, batch.id),
    )


def let_go(batch: Batch) -> None:
    """This process no longer sends the batch: whoever comes next may look whether it arrived."""
    _sending.discard(batch.id)


def never_arrived(store: Store, batch: Batch, note: str) -> None:
    """The provider does not have the batch: its calls are free to be asked again."""
    store.execute(
        "UPDATE batches SET state = 'failed', note = ? WHERE id = ? AND state = 'submitting'", (note, batch.id)
    )


def give_up(store: Store, batch: str) -> None:
    """Forget a batch by the provider's id or ours, say one that was deleted there: its calls may be asked again."""
    store.execute(
        f"UPDATE batches SET state = 'failed', note = 'given up' WHERE (wire = ? OR id = ?) AND state IN {OPEN}",
        (batch, batch),
    )


def finish(
    store: Store,
    batch: Batch,
    state: str,
    replies: Sequence[Stored],
    failures: Mapping[str, tuple[str, str, str]],
    note: str,
) -> bool:
    """Commit what a batch brought, all at once: replies, and failures as key to (request, error, kind).

    `state` is `open` where more is to be fetched. Returns False, with nothing written, if another process was first.
    """
    with store.transaction():
        done = store.execute(
            "UPDATE batches SET state = ?, note = ? WHERE id = ? AND state = 'open'", (state, note, batch.id)
        )
        if not done.rowcount:
            return False
        store.add(replies)
        for key, (request, error, kind) in failures.items():
            store.add_failure(key, request, error, kind)
    return True


def calls_of(store: Store, batch: Batch) -> dict[str, str]:
    """The calls of a batch: key to the request's canonical JSON."""
    return dict(store.execute("SELECT key, request FROM batch_calls WHERE batch = ?", (batch.id,)).fetchall())


def known_wires(store: Store) -> set[str]:
    """The providers' ids of all batches that are written down."""
    return {row[0] for row in store.execute("SELECT wire FROM batches WHERE wire IS NOT NULL")}


def batches(store: Store, judge: Judge, states: Iterable[str] = OPEN) -> list[Batch]:
    """The batches at this judge's provider and endpoint in these states, oldest first."""
    states = tuple(states)
    marks = ", ".join("?" * len(states))
    query = f"""SELECT {", ".join(Batch.__slots__)} FROM batches
        WHERE provider = ? AND endpoint = ? AND state IN ({marks}) ORDER BY since"""
    return [Batch(*row) for row in store.execute(query, (judge.provider, judge.endpoint, *states))]


def lost(batch: Batch) -> bool:
    """Whether nobody is sending this batch any more, so that it must be looked for."""
    if batch.state != "submitting":
        return False
    return batch.id not in _sending if here(batch.owner) else not alive(batch.owner, batch.since, SENDING_S)


def batch_table(store: Store, judge: Judge, n: int = 10) -> pd.DataFrame:
    """The batches under way at this judge's provider, and the last `n` that this judge sent, oldest first.

    Columns: `batch` (the provider's id), `judge`, `calls`, `state`, `sent` (UTC), `note`.
    """
    every = batches(store, judge, (*OPEN, "collected", "failed"))
    own = {each.id for each in [each for each in every if each.judge == judge.name][-n:]}
    lines = [
        {
            "batch": each.wire or "not known yet",
            "judge": each.judge,
            "calls": each.n,
            "state": each.state,
            "sent": time.strftime("%Y-%m-%d %H:%M", time.gmtime(each.since)),
            "note": (each.note or "")[:120],
        }
        for each in every
        if each.state in OPEN or each.id in own
    ]
    return pd.DataFrame(lines, columns=["batch", "judge", "calls", "state", "sent", "note"])
