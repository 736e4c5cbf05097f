"""What every provider gives back, and how it says that a call failed.

An adapter translates one request to one reply over its own SDK and decides nothing else: it neither
stores, retries nor parses. `lib.judges` opens it, `lib.run` calls it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Reply:
    """One reply as it came.

    `text` is the answer's own text, without thinking, None where there was none. `finish_reason` is `stop`,
    `length`, `refused`, or as the provider gave it. `model` is the name that answered. Tokens are counts, None
    where the provider did not say; `tokens_in` includes cached ones. `raw` is the body, None if it has none.
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
    others), `fatal` (no request will be, stop the run). `retry_after` is in seconds, None if not said.
    """

    def __init__(self, message: str, kind: str, retry_after: float | None = None):
        super().__init__(message)
        self.kind = kind
        self.retry_after = retry_after


class Provider(Protocol):
    """What `lib.run` needs of an adapter. `sdk` names the client library and its version."""

    sdk: str

    async def ask(self, request: dict) -> Reply:
        """The reply to one request as `lib.judges` builds it. Raises CallError."""
        ...

    async def close(self) -> None:
        """Let go of connections and servers."""
        ...
