"""OpenAI, and any server that speaks its chat completions (vLLM, Ollama, llama.cpp), through the official SDK.

A pure translation, live and in batches. The SDK's own retries are off: `lib.run` holds the one retry policy.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import contextmanager

import openai

from lib.providers import CLOCKS_S, TIMEOUT_S, BatchState, CallError, Reply
from lib.providers.bodies import (
    as_count,
    as_dict,
    as_list,
    as_text,
    load,
    no_answer,
    no_reply,
    read_lines,
    status_error,
    wire_id,
)
from lib.redact import redact, without_keys

_WHY = {"content_filter": "blocked:content_filter"}
# Only these end a batch. Whatever else a poll says, it is taken to be under way: it is paid for.
_ENDED = {"completed", "failed", "expired", "cancelled"}


class OpenAIChat:
    """Chat completions at `base_url`. `api_key` goes to the SDK, and is taken out of all that comes back."""

    sdk = f"openai {openai.__version__}"
    # The API takes 50,000 lines and 200 MB a batch.
    most_calls, most_bytes = 50_000, 190_000_000

    def __init__(self, base_url: str, api_key: str):
        self._url = base_url
        self._client = openai.AsyncOpenAI(
            base_url=base_url,
            api_key=api_key,
            max_retries=0,
            timeout=TIMEOUT_S,
            # The SDK's aiohttp transport: with 100 calls in flight the default one is several times slower.
            http_client=openai.DefaultAioHttpClient(timeout=TIMEOUT_S),
        )

    async def ask(self, request: dict) -> Reply:
        """One chat completion. Raises CallError."""
        with self._errors(request["params"]):
            # The SDK's own method for bodies that it does not model: what is stored as sent is what was sent, and
            # the body comes back as it came. Its typed method would spend most of a call's time on conversions.
            raw = await self._client.post("/chat/completions", body=_body(request), cast_to=str)
        return read_completion(without_keys(raw))

    async def close(self) -> None:
        await self._client.close()

    async def submit(self, tag: str, calls: Sequence[tuple[str, dict]]) -> str:
        """One batch of chat completions: a file, then the batch that names it."""
        lines = [
            json.dumps({"custom_id": wire, "method": "POST", "url": "/v1/chat/completions", "body": _body(request)})
            for wire, request in calls
        ]
        with self._errors(calls[0][1]["params"]):
            try:
                file = await self._client.files.create(
                    file=(f"{tag}.jsonl", "\n".join(lines).encode()), purpose="batch"
                )
            except (openai.APIConnectionError, openai.InternalServerError) as error:
                # Without its file there is no batch that could have been taken.
                raise CallError(f"the batch's file was not taken: {redact(str(error))}", "row") from None
            batch = await self._client.batches.create(
                input_file_id=file.id,
                endpoint="/v1/chat/completions",
                completion_window="24h",
                metadata={"judge_designs": tag},
            )
        return wire_id(batch.id)

    async def find(self, tag: str, ids: set[str], since: float, known: set[str]) -> str | None:
        """The batch whose metadata holds the tag."""
        with self._errors():
            async for batch in self._client.batches.list(limit=100):
                if (batch.metadata or {}).get("judge_designs") == tag:
                    return batch.id
                # Newest first.
                if (batch.created_at or 0) < since - CLOCKS_S:
                    return None
        return None

    async def poll(self, batch: str) -> BatchState:
        """Where a batch stands."""
        with self._errors():
            found = await self._client.batches.retrieve(batch)
        counts = found.request_counts
        done = (counts.completed + counts.failed) if counts else 0
        errors = (found.errors.data if found.errors else None) or []
        note = redact("; ".join(filter(None, (f"{each.code}: {each.message}" for each in errors))))
        if str(found.status).lower() not in _ENDED:
            return BatchState("running", done, note=str(found.status))
        if found.output_file_id or found.error_file_id or found.status == "completed":
            return BatchState("ended", done, found.status == "completed", note or found.status)
        return BatchState("failed", done, False, note or f"{found.status} without an output or an error file")

    async def lines(self, batch: str) -> list[tuple[str, Reply | CallError]]:
        """The lines of the output file and of the error file."""
        with self._errors():
            found = await self._client.batches.retrieve(batch)
            files = filter(None, (found.output_file_id, found.error_file_id))
            texts = [(await self._client.files.content(file)).text for file in files]
        return [line for text in texts for line in read_lines(text, read_line)]

    @contextmanager
    def _errors(self, params: dict | None = None):
        """The SDK's errors as CallError."""
        try:
            yield
        except openai.APIStatusError as error:
            raise status_error(error.status_code, error.response.text, error.response.headers, params or ()) from None
        except openai.APIConnectionError as error:
            raise no_answer(self._url, error.__cause__ or error) from None


def read_completion(raw: str) -> Reply:
    """The reply in the body of a chat completion, whatever shape its parts have.

    Raises CallError where the body is no completion at all. A part of the wrong type is unknown, not an error:
    the call was answered, and its body is kept.
    """
    body = load(raw)
    if "choices" not in body:
        raise no_reply(raw, "chat completion", ())
    choices, usage = as_list(body["choices"]), as_dict(body.get("usage"))
    choice = as_dict(choices[0]) if choices else {}
    message, finish = as_dict(choice.get("message")), as_text(choice.get("finish_reason"))
    finish = "refused" if message.get("refusal") else _WHY.get(finish, finish)
    return Reply(
        text=_content(message.get("content")),
        finish_reason=finish if choices else "no choices",
        model=as_text(body.get("model")) or "",
        tokens_in=as_count(usage.get("prompt_tokens")),
        tokens_out=as_count(usage.get("completion_tokens")),
        tokens_reasoning=as_count(as_dict(usage.get("completion_tokens_details")).get("reasoning_tokens")),
        tokens_cached=as_count(as_dict(usage.get("prompt_tokens_details")).get("cached_tokens")),
        raw=raw,
    )


def read_line(line: str) -> tuple[str, Reply | CallError]:
    """One line of a batch's files: its wire id, and the reply or the error, also where `error` is null."""
    found = load(line)
    wire, error = as_text(found.get("custom_id")) or "", as_dict(found.get("error"))
    response = as_dict(found.get("response"))
    body, status = response.get("body"), as_count(response.get("status_code"))
    raw = without_keys(body if isinstance(body, str) else json.dumps(body, ensure_ascii=False))
    # A completion is a paid reply, whatever else its line lacks.
    if "choices" in as_dict(body) and (status or 200) < 400:
        return wire, read_completion(raw)
    if any(value is not None for value in error.values()):
        gone = error.get("code") in ("batch_expired", "batch_cancelled")
        said = f"{error.get('code')}: {error.get('message')}"
        return wire, CallError(redact(f"batch line: {said}"), "transient" if gone else "row")
    return wire, status_error(status if status and status >= 400 else 500, raw, {}, ())


def _body(request: dict) -> dict:
    return {"model": request["model"], "messages": request["messages"], **request["params"]}


def _content(value: object) -> str | None:
    """The text of a message: a string, or the text parts of a list joined."""
    if isinstance(value, list):
        parts = [as_text(as_dict(part).get("text")) for part in value if as_dict(part).get("type") == "text"]
        return "".join(filter(None, parts)) or None
    return as_text(value)
