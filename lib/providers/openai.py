"""Any server that speaks OpenAI's chat completions, through the official SDK: vLLM, Ollama, llama.cpp, OpenAI.

A pure translation. The SDK's own retries are off: `lib.run` holds the one retry policy.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable

import openai

from lib.providers import CallError, Reply

# One attempt. `lib.run` bounds all the attempts of a call together.
TIMEOUT_S = 300.0
# A finish reason that says the provider withheld the answer.
_WITHHELD = {"content_filter": "refused"}


class OpenAIChat:
    """Chat completions at `base_url`. `api_key` goes to the SDK, and is taken out of all that comes back."""

    sdk = f"openai {openai.__version__}"

    def __init__(self, base_url: str, api_key: str):
        self._url, self._clean = base_url, _cleaner(api_key)
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
            raise self._status_error(error) from None
        except openai.APIConnectionError as error:
            cause = error.__cause__ or error
            message = f"{self._url} gave no answer: {type(cause).__name__} {cause}"
            raise CallError(self._clean(message), "transient") from None
        return read_completion(self._clean(raw))

    async def close(self) -> None:
        await self._client.close()

    def _status_error(self, error: openai.APIStatusError) -> CallError:
        status, text = error.status_code, self._clean(str(error))
        message = f"HTTP {status}: {text[:500]}"
        if status in (408, 409, 429) or status >= 500:
            return CallError(message, "transient", _seconds(error.response.headers.get("retry-after", "")))
        if status in (400, 413, 422) and not _NAMES_A_SETTING.search(text):
            return CallError(message, "row")
        return CallError(message, "fatal")


def _cleaner(key: str) -> Callable[[str], str]:
    """Takes the key out of a text: a server may echo the header that carries it."""
    return lambda text: text.replace(key, "[key]") if len(key) > 7 else text


# A 400 about a parameter or the model will be the same for every row; one about this row's text will not.
_NAMES_A_SETTING = re.compile(
    r"param(?!': None|\": null)|model\b|unrecognized|unsupported value|api key", re.IGNORECASE
)


def _seconds(text: str) -> float | None:
    try:
        return max(0.0, float(text))
    except ValueError:
        return None


def read_completion(raw: str) -> Reply:
    """The reply in the body of a chat completion, whatever shape its parts have.

    Raises CallError where the body is no completion at all. A part of the wrong type is unknown, not an error:
    the call was answered, and its body is kept.
    """
    try:
        body = json.loads(raw)
    except (ValueError, RecursionError):
        raise CallError(f"the server answered no JSON: {raw[:80]!r}", "transient") from None
    if not isinstance(body, dict) or not isinstance(body.get("choices"), list):
        raise CallError(f"the server answered no chat completion: {raw[:200]!r}", "transient")
    choices, usage = body["choices"], _dict(body.get("usage"))
    choice = _dict(choices[0]) if choices else {}
    message, finish = _dict(choice.get("message")), _text(choice.get("finish_reason"))
    return Reply(
        text=_content(message.get("content")),
        finish_reason="refused"
        if message.get("refusal")
        else _WITHHELD.get(finish, finish)
        if choices
        else "no choices",
        model=_text(body.get("model")) or "",
        tokens_in=_count(usage.get("prompt_tokens")),
        tokens_out=_count(usage.get("completion_tokens")),
        tokens_reasoning=_count(_dict(usage.get("completion_tokens_details")).get("reasoning_tokens")),
        tokens_cached=_count(_dict(usage.get("prompt_tokens_details")).get("cached_tokens")),
        raw=raw,
    )


def _dict(value: object) -> dict:
    return value if isinstance(value, dict) else {}


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _content(value: object) -> str | None:
    """The text of a message: a string, or the text parts of a list joined."""
    if isinstance(value, list):
        parts = [_text(_dict(part).get("text")) for part in value if _dict(part).get("type") == "text"]
        return "".join(filter(None, parts)) or None
    return _text(value)


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**53 else None
