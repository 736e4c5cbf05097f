"""Any server that speaks OpenAI's chat completions, through the official SDK: vLLM, Ollama, llama.cpp, OpenAI.

A pure translation. The SDK's own retries are off: `lib.run` holds the one retry policy.
"""

from __future__ import annotations

import json

import openai

from lib.providers import CallError, Reply

# One attempt. `lib.run` bounds all the attempts of a call together.
TIMEOUT_S = 300.0
# A finish reason that says the provider withheld the answer.
_WITHHELD = {"content_filter": "refused"}


class OpenAIChat:
    """Chat completions at `base_url`. `api_key` goes to the SDK and nowhere else."""

    sdk = f"openai {openai.__version__}"

    def __init__(self, base_url: str, api_key: str):
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
        body = {"model": request["model"], "messages": request["messages"], **request["params"]}
        try:
            # The SDK's own method for bodies that it does not model: what is stored as sent is what was sent, and
            # the body comes back as it came. Its typed method would spend most of a call's time on conversions.
            raw = await self._client.post("/chat/completions", body=body, cast_to=str)
        except openai.APIStatusError as error:
            raise _status_error(error) from None
        except openai.APIConnectionError as error:
            raise CallError(f"{type(error).__name__}: {error}", "transient") from None
        return read_completion(raw)

    async def close(self) -> None:
        await self._client.close()


def read_completion(raw: str) -> Reply:
    """The reply in the body of a chat completion. Raises CallError where the body is none."""
    try:
        body = json.loads(raw)
    except ValueError:
        raise CallError(f"the server answered no JSON: {raw[:80]!r}", "transient") from None
    if not isinstance(body, dict) or not isinstance(body.get("choices"), list):
        raise CallError(f"the server answered no chat completion: {raw[:200]!r}", "transient")
    usage = body.get("usage") or {}
    choice = body["choices"][0] if body["choices"] else {}
    message = choice.get("message") or {}
    finish = choice.get("finish_reason") if choice else "no choices"
    return Reply(
        text=message.get("content"),
        finish_reason="refused" if message.get("refusal") else _WITHHELD.get(finish, finish),
        model=body.get("model") or "",
        tokens_in=usage.get("prompt_tokens"),
        tokens_out=usage.get("completion_tokens"),
        tokens_reasoning=(usage.get("completion_tokens_details") or {}).get("reasoning_tokens"),
        tokens_cached=(usage.get("prompt_tokens_details") or {}).get("cached_tokens"),
        raw=raw,
    )


def _status_error(error: openai.APIStatusError) -> CallError:
    status, text = error.status_code, str(error)
    message = f"HTTP {status}: {text[:500]}"
    if status in (408, 409, 429) or status >= 500:
        after = error.response.headers.get("retry-after", "")
        return CallError(message, "transient", float(after) if after.replace(".", "", 1).isdigit() else None)
    if status in (400, 413) and "context" in text.lower():
        return CallError(message, "row")
    return CallError(message, "fatal")
