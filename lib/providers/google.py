"""Gemini through Google's SDK, live and in batches. A pure translation.

The SDK retries nothing here, neither by its options nor by itself: `lib.run` holds the one retry policy.
"""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from contextlib import contextmanager

import aiohttp
import httpx2
import pydantic
from google import genai
from google.genai import errors, types

from lib.providers import TIMEOUT_S, BatchState, CallError, Reply
from lib.providers.bodies import (
    added,
    as_count,
    as_dict,
    as_list,
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
from lib.redact import redact, without_keys

_WORDS = {"STOP": "stop", "MAX_TOKENS": "length"}
# Reasons by which Google withholds an answer, or a part of it.
_BLOCKED = {"SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "MODEL_ARMOR", "JAILBREAK", "LANGUAGE"}
# Only these end a batch. Whatever else a poll says, it is taken to be under way: it is paid for.
_ENDED = {"SUCCEEDED", "PARTIALLY_SUCCEEDED", "FAILED", "CANCELLED", "EXPIRED"}
_NETWORK = (aiohttp.ClientError, httpx2.HTTPError, TimeoutError, OSError)


class Gemini:
    """Generated content at `base_url`. `api_key` goes to the SDK, and is taken out of all that comes back."""

    sdk = f"google-genai {genai.__version__}"
    # A batch's file may have 2 GB; smaller ones come back sooner and lose less.
    most_calls, most_bytes = 50_000, 400_000_000

    def __init__(self, base_url: str, api_key: str):
        self._url, self._configs = base_url, {}
        self._client = genai.Client(
            api_key=api_key,
            enterprise=False,
            http_options=types.HttpOptions(
                base_url=base_url,
                timeout=int(TIMEOUT_S * 1000),
                # One attempt, said so: without options the SDK asks once more by itself when a connection breaks,
                # and a call whose answer was lost on the way would be paid twice.
                retry_options=types.HttpRetryOptions(attempts=1),
                # Or the key would go along to whatever host the server names.
                async_client_args={"allow_redirects": False},
            ),
        )

    async def ask(self, request: dict) -> Reply:
        """One generated content. Raises CallError."""
        system, rest = split_system(request)
        with self._errors(request["params"]):
            answer = await self._client.aio.models.generate_content(
                model=request["model"],
                contents=[
                    types.Content(role=each["role"], parts=[types.Part(text=each["content"])]) for each in rest
                ],
                config=self._config(system, request["params"]),
            )
        return read_content(without_keys(answer.sdk_http_response.body or ""))

    def _config(self, system: str, params: dict) -> types.GenerateContentConfig:
        """The SDK's form of a call's settings: checked once for each design, not for each call."""
        key = json.dumps([system, params])
        if key not in self._configs:
            self._configs[key] = types.GenerateContentConfig(
                system_instruction=system,
                # The body as it came, read here; continuations would be further paid calls.
                should_return_http_response=True,
                automatic_continuation=False,
                automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=True),
                **params,
            )
        return self._configs[key]

    async def close(self) -> None:
        await self._client.aio.aclose()

    async def submit(self, tag: str, calls: Sequence[tuple[str, dict]]) -> str:
        """One batch from a file: inline requests come back without their ids and not always in order."""
        lines = [json.dumps({"key": wire, "request": _body(request)}) for wire, request in calls]
        with self._errors(calls[0][1]["params"]):
            try:
                file = await self._client.aio.files.upload(
                    file=io.BytesIO("\n".join(lines).encode()),
                    config=types.UploadFileConfig(display_name=tag, mime_type="application/jsonl"),
                )
            except (*_NETWORK, errors.ServerError, KeyError) as error:
                # Without its file there is no batch that could have been taken.
                raise CallError(f"the batch's file was not taken: {redact(str(error))}", "row") from None
            batch = await self._client.aio.batches.create(
                model=calls[0][1]["model"], src=file.name, config=types.CreateBatchJobConfig(display_name=tag)
            )
        return wire_id(batch.name)

    async def find(self, tag: str, ids: set[str], since: float, known: set[str]) -> str | None:
        """The batch whose display name is the tag."""
        with self._errors():
            async for batch in await self._client.aio.batches.list(config=types.ListBatchJobsConfig(page_size=100)):
                if batch.display_name == tag:
                    return batch.name
        return None

    async def poll(self, batch: str) -> BatchState:
        """Where a batch stands."""
        with self._errors():
            found = await self._client.aio.batches.get(name=batch)
        # The SDK passes on neither counts nor reasons of this API's batches.
        state = str(getattr(found.state, "value", found.state)).removeprefix("JOB_STATE_")
        if state not in _ENDED:
            return BatchState("running", note=state.lower())
        if found.dest and found.dest.file_name:
            return BatchState("ended", 0, state == "SUCCEEDED", state.lower())
        return BatchState("failed", 0, False, f"{state.lower()} without a file of results")

    async def lines(self, batch: str) -> list[tuple[str, Reply | CallError]]:
        """The lines of the batch's results file."""
        with self._errors():
            found = await self._client.aio.batches.get(name=batch)
            data = await self._client.aio.files.download(file=found.dest.file_name)
        return read_lines(data.decode("utf-8", "replace"), read_line)

    @contextmanager
    def _errors(self, params: dict | None = None):
        """The SDK's errors as CallError."""
        try:
            yield
        except errors.APIError as error:
            headers = getattr(error.response, "headers", None) or {}
            body = json.dumps(error.details, ensure_ascii=False)
            raise status_error(error.code or 500, body, headers, params or ()) from None
        except pydantic.ValidationError as error:
            wrong = "; ".join(f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors())
            message = f"the SDK does not take these settings: {wrong}; check send of its entry in judges.yaml"
            raise CallError(redact(message), "fatal") from None
        except _NETWORK as error:
            raise no_answer(self._url, error) from None


def read_content(raw: str) -> Reply:
    """The reply in the body of generated content: the text parts that are no thoughts.

    Raises CallError where the body is none at all.
    """
    body = load(raw)
    if not {"candidates", "promptFeedback", "usageMetadata"} & set(body):
        raise no_reply(raw, "generated content", ())
    usage, candidates = as_dict(body.get("usageMetadata")), as_list(body.get("candidates"))
    candidate = as_dict(candidates[0]) if candidates else {}
    parts = [as_dict(part) for part in as_list(as_dict(candidate.get("content")).get("parts"))]
    text = "".join(filter(None, (as_text(part.get("text")) for part in parts if not part.get("thought")))) or None
    why = as_text(as_dict(body.get("promptFeedback")).get("blockReason"))
    finish = as_text(candidate.get("finishReason"))
    finish = f"blocked:{finish}" if finish in _BLOCKED else _WORDS.get(finish, finish)
    written, thought = as_count(usage.get("candidatesTokenCount")), as_count(usage.get("thoughtsTokenCount"))
    return Reply(
        text=text,
        finish_reason=f"blocked:{why}" if why else finish if candidates else "no candidates",
        model=as_text(body.get("modelVersion")) or "",
        tokens_in=as_count(usage.get("promptTokenCount")),
        # The API counts thoughts apart; what was written is unknown, not 0, where a text has no count.
        tokens_out=None if written is None and text else added(written, thought),
        tokens_reasoning=thought,
        tokens_cached=as_count(usage.get("cachedContentTokenCount")),
        raw=raw,
    )


def read_line(line: str) -> tuple[str, Reply | CallError]:
    """One line of a batch's results: its wire id, and the content or the error."""
    found = load(line)
    wire = as_text(found.get("key")) or ""
    error = as_dict(found.get("error")) or as_dict(found.get("status"))
    if error and not found.get("response"):
        code = as_count(error.get("code")) or 500
        # Batches give gRPC's codes, or HTTP's.
        code = code if code >= 400 else {3: 400, 4: 504, 5: 404, 7: 403, 8: 429, 16: 401}.get(code, 500)
        return wire, status_error(code, json.dumps({"error": error}), {}, ())
    return reply_of(wire, read_content, found.get("response"))


def _body(request: dict) -> dict:
    """The request as the REST API takes it, for a batch's file."""
    system, rest = split_system(request)
    config = types.GenerationConfig(**request["params"]).model_dump(mode="json", by_alias=True, exclude_none=True)
    body = {
        "contents": [{"role": each["role"], "parts": [{"text": each["content"]}]} for each in rest],
        "systemInstruction": {"role": "user", "parts": [{"text": system}]},
    }
    return body | ({"generationConfig": config} if config else {})
