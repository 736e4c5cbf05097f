"""Claude through Anthropic's Messages API and its SDK, live and in message batches. A pure translation.

The SDK's own retries are off: `lib.run` holds the one retry policy.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import contextmanager

import anthropic

from lib.providers import CLOCKS_S, TIMEOUT_S, BatchState, CallError, Reply
from lib.providers.bodies import (
    added,
    as_count,
    as_dict,
    as_text,
    load,
    no_answer,
    no_reply,
    read_lines,
    reply_of,
    split_system,
    status_error,
    wire_id,
)
from lib.redact import without_keys

_WORDS = {"end_turn": "stop", "stop_sequence": "stop", "max_tokens": "length", "refusal": "refused"}
# The HTTP status of an error that comes inside a batch's line, by its type.
_STATUS = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "timeout_error": 504,
    "overloaded_error": 529,
}


class AnthropicMessages:
    """Messages at `base_url`. `api_key` goes to the SDK, and is taken out of all that comes back."""

    sdk = f"anthropic {anthropic.__version__}"
    # The API takes 100,000 requests and 256 MB a batch.
    most_calls, most_bytes = 100_000, 240_000_000

    def __init__(self, base_url: str, api_key: str):
        self._url = base_url
        self._client = anthropic.AsyncAnthropic(
            base_url=base_url,
            api_key=api_key,
            # Or a token of the environment would go along to whatever server this is.
            auth_token=None,
            max_retries=0,
            timeout=TIMEOUT_S,
            http_client=anthropic.DefaultAioHttpClient(timeout=TIMEOUT_S),
        )

    async def ask(self, request: dict) -> Reply:
        """One message. Raises CallError."""
        with self._errors(request["params"]):
            # Not `messages.create`: it has no `temperature`, and would spend most of a call's time on conversions.
            raw = await self._client.post("/v1/messages", body=_body(request), cast_to=str)
        return read_message(without_keys(raw))

    async def close(self) -> None:
        await self._client.close()

    async def submit(self, tag: str, calls: Sequence[tuple[str, dict]]) -> str:
        """One message batch. The API takes no mark, so `find` looks at the ids."""
        requests = [{"custom_id": wire, "params": _body(request)} for wire, request in calls]
        with self._errors(calls[0][1]["params"]):
            return wire_id((await self._client.messages.batches.create(requests=requests)).id)

    async def find(self, tag: str, ids: set[str], since: float, known: set[str]) -> str | None:
        """The batch that holds these ids: known for sure once it has ended, "" while one of its size is under way."""
        perhaps = None
        with self._errors():
            async for batch in self._client.messages.batches.list(limit=100):
                # Newest first.
                if batch.created_at.timestamp() < since - CLOCKS_S:
                    break
                counts = batch.request_counts
                of = counts.processing + counts.succeeded + counts.errored + counts.canceled + counts.expired
                if batch.id in known or of != len(ids):
                    continue
                if batch.processing_status != "ended":
                    perhaps = ""
                # The ids are hashes of our calls: no other batch has one of them.
                elif batch.results_url and ids & {wire for wire, _ in await self._lines(batch.id)}:
                    return batch.id
        return perhaps

    async def poll(self, batch: str) -> BatchState:
        """Where a batch stands."""
        with self._errors():
            found = await self._client.messages.batches.retrieve(batch)
        counts = found.request_counts
        done = counts.succeeded + counts.errored + counts.canceled + counts.expired
        if found.processing_status != "ended":
            return BatchState("running", done)
        if not found.results_url:
            return BatchState("failed", done, False, "ended without results; they are kept for 29 days")
        return BatchState("ended", done)

    async def lines(self, batch: str) -> list[tuple[str, Reply | CallError]]:
        """The lines of the results."""
        with self._errors():
            return await self._lines(batch)

    async def _lines(self, batch: str) -> list[tuple[str, Reply | CallError]]:
        # Not the address that the batch names: the key goes to base_url alone.
        return read_lines(await self._client.get(f"/v1/messages/batches/{batch}/results", cast_to=str), read_line)

    @contextmanager
    def _errors(self, params: dict | None = None):
        """The SDK's errors as CallError."""
        try:
            yield
        except anthropic.APIStatusError as error:
            raise status_error(error.status_code, error.response.text, error.response.headers, params or ()) from None
        except anthropic.APIConnectionError as error:
            raise no_answer(self._url, error.__cause__ or error) from None


def read_message(raw: str) -> Reply:
    """The reply in the body of a message: its text blocks alone. Raises CallError where the body is no message."""
    body = load(raw)
    if not isinstance(body.get("content"), list):
        raise no_reply(raw, "message", ())
    usage, finish = as_dict(body.get("usage")), as_text(body.get("stop_reason"))
    blocks = [as_dict(block) for block in body["content"]]
    texts = [as_text(block.get("text")) for block in blocks if block.get("type") == "text"]
    fresh, read = as_count(usage.get("input_tokens")), as_count(usage.get("cache_read_input_tokens"))
    written = as_count(usage.get("cache_creation_input_tokens"))
    return Reply(
        text="".join(filter(None, texts)) or None,
        finish_reason=_WORDS.get(finish, finish),
        model=as_text(body.get("model")) or "",
        # The API counts what was read from and written to its cache apart from the rest.
        tokens_in=None if fresh is None else added(fresh, read, written),
        tokens_out=as_count(usage.get("output_tokens")),
        tokens_reasoning=as_count(as_dict(usage.get("output_tokens_details")).get("thinking_tokens")),
        tokens_cached=read,
        raw=raw,
    )


def read_line(line: str) -> tuple[str, Reply | CallError]:
    """One line of a batch's results: its wire id, and the message or why there is none."""
    found = load(line)
    wire, result = as_text(found.get("custom_id")) or "", as_dict(found.get("result"))
    kind = as_text(result.get("type"))
    if kind in ("expired", "canceled"):
        return wire, CallError(f"batch line: {kind} before it was asked", "transient")
    if kind == "errored":
        error = as_dict(result.get("error"))
        name = as_text(as_dict(error.get("error")).get("type")) or as_text(error.get("type"))
        return wire, status_error(_STATUS.get(name, 500), json.dumps(error), {}, ())
    return reply_of(wire, read_message, result.get("message"))


def _body(request: dict) -> dict:
    system, rest = split_system(request)
    return {"model": request["model"], "system": system, "messages": rest, **request["params"]}
