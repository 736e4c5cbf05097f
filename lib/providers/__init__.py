"""What every provider gives back, and how it says that a call failed.

An adapter translates one request to one reply over its own SDK, and lists of requests to batches, and decides
nothing else: it neither stores, retries nor parses. `lib.judges` opens it, `lib.run` and `lib.batch` call it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

# One attempt of a call, in seconds. `lib.run` bounds all the attempts together.
TIMEOUT_S = 300.0
# How far a provider's clock and ours may differ when a batch is looked for, in seconds.
CLOCKS_S = 86_400.0


@dataclass(frozen=True, slots=True)
class Reply:
    """One reply as it came.

    `text` is the answer's own text, without thinking, None where there was none. `finish_reason` is `stop`,
    `length`, `refused`, `blocked:<why>`, or as the provider gave it. `model` is the name that answered. Tokens are
    counts, None where the provider did not say; `tokens_in` includes cached ones, `tokens_out` those spent on
    reasoning. `raw` is the body, None if it has none.
    """

    text: str | None
    finish_reason: str | None
    model: str
    tokens_in: int | None = None
    tokens_out: int | None = None
    tokens_reasoning: int | None = None
    tokens_cached: int | None = None
    raw: str | None = None


class CallError(Exception):
    """A call without a reply.

    `kind` says what to do: `transient` (ask again), `row` (this request cannot be answered, go on with the
    others), `fatal` (no request will be, stop the run). `retry_after` is in seconds, None if not said. `slow` is
    True where the provider asks for fewer calls at a time, `maybe_paid` where an answer may have been made and
    charged although none arrived. `unsure` is True for a `row` that may as well be something every row would get.
    """

    def __init__(
        self,
        message: str,
        kind: str,
        retry_after: float | None = None,
        slow: bool = False,
        maybe_paid: bool = False,
        unsure: bool = False,
    ):
        super().__init__(message)
        self.maybe_paid, self.unsure = maybe_paid, unsure
        self.kind = kind
        self.retry_after = retry_after
        self.slow = slow


class Provider(Protocol):
    """What `lib.run` needs of an adapter. `sdk` names the client library and its version."""

    sdk: str

    async def ask(self, request: dict) -> Reply:
        """The reply to one request as `lib.judges` builds it. Raises CallError."""
        ...

    async def close(self) -> None:
        """Let go of connections and servers."""
        ...


@dataclass(frozen=True, slots=True)
class BatchState:
    """Where a batch stands: `running`, `ended` (its lines can be fetched) or `failed` (it has none, see `note`).

    A word that is not known is `running`. `complete` is True where the provider says that it worked through every
    line: then each must be there. A batch that expired or was cancelled may lack some. `done` counts ready lines.
    """

    state: str
    done: int = 0
    complete: bool = True
    note: str = ""


class BatchProvider(Provider, Protocol):
    """What `lib.batch` needs of an adapter beside. `most_calls` and `most_bytes` bound one batch."""

    most_calls: int
    most_bytes: int

    async def submit(self, tag: str, calls: Sequence[tuple[str, dict]]) -> str:
        """Send (wire id, request) pairs as one batch marked with `tag`; returns the provider's id.

        Raises CallError: `transient` where the provider may have taken the batch all the same.
        """
        ...

    async def find(self, tag: str, ids: set[str], since: float, known: set[str]) -> str | None:
        """The provider's id of the batch that was sent as `tag` with these wire ids at Unix time `since`.

        It is none of the `known` ids. "" where that cannot be told yet, None if there is none. Raises CallError.
        """
        ...

    async def poll(self, batch: str) -> BatchState:
        """Where a batch stands. Raises CallError."""
        ...

    async def lines(self, batch: str) -> list[tuple[str, Reply | CallError]]:
        """What an ended batch holds, as (wire id, reply or error) in whatever order it came. Raises CallError."""
        ...
