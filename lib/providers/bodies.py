"""What adapters share when they read bodies: parts of unknown type, and errors to what is to be done about them.

The one error policy: fatal where every further call would fail the same way (key, model, a setting, quota), transient
where the same call may succeed later, row where it is this row's text.
"""

from __future__ import annotations

import email.utils
import json
import re
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress

import aiohttp
import httpx2

from lib.providers import CallError, Reply
from lib.redact import redact, without_keys

# What is wrong with one row's text, and not with what every call sends.
_CONTENT = re.compile(
    r"context[ _](?:length|window|size|limit)|prompt is too long|input is too long|too many (?:input )?tokens"
    r"|input token count|input length|maximum context|string too long|request too large|could not finish the message"
    r"|content[ _](?:policy|filter|management)|moderation|flagged|safety system",
    re.I,
)
_CONTENT_PARTS = {"messages", "contents", "content", "input", "prompt", "system", "system_instruction"}
_CONTENT_PARTS |= {"input_tokens", "prompt_tokens"}
# Nothing left to spend, or no account to spend it from; and a limit that lasts longer than any wait of ours.
_QUOTA = re.compile(
    r"insufficient_quota|billing_hard_limit|billing_not_active|billing_error|credit balance|usage limits?\b"
    r"|spend(?:ing)? (?:cap|limit)|credits? (?:are |is |have been )?(?:depleted|exhausted)|prepay"
    r"|(?:organization|account)\b[^\n]{0,60}\b(?:disabled|restricted|suspended|deactivated)",
    re.I,
)
_DAILY = re.compile(r"per[_ ]?day\b|PerDay|\blimit\"?: ?0\b", re.I)
_SETTINGS = ("max_tokens", "max_completion_tokens", "max_output_tokens", "temperature", "top_p", "top_k", "seed", "n")
_SETTINGS += ("response_format", "output_config", "thinking", "reasoning_effort", "reasoning", "stop", "logprobs")
_UNKNOWN = re.compile(
    r"unrecognized|\bparameters?\b|unsupported value|extra inputs|unknown (?:name|field)|(?:does not|not) support",
    re.I,
)
_MODEL = re.compile(
    r"\bmodels?\b[^\n]{0,80}\b(?:not|unknown|invalid|unsupported|no longer|deprecated)"
    r"|(?:unknown|invalid|unsupported|no such) model",
    re.I,
)
_KEY = re.compile(r"api[ _]key", re.I)
_DELAY = re.compile(r'"retryDelay":\s*"([\d.]+)s"')
CHECK = "check base_url and model of its entry in judges.yaml"


def load(raw: str) -> dict:
    """The JSON object in a body. Raises CallError (transient: a proxy's page comes and goes) for anything else."""
    try:
        # A number of thousands of digits is no count, but the reply around it is paid for.
        body = json.loads(raw.lstrip("\ufeff"), parse_int=lambda digits: int(digits) if len(digits) < 20 else None)
    except (ValueError, RecursionError):
        body = None
    if not isinstance(body, dict):
        said = f"the server answered no JSON object: {redact(raw)[:120]!r}; {CHECK}"
        raise CallError(said, "transient", maybe_paid=True)
    return body


def wire_id(given: object) -> str:
    """The id that a provider gave a batch. Raises CallError where it gave none: the batch may be there all along."""
    if isinstance(given, str) and given:
        return without_keys(given)
    raise CallError("the provider answered without an id for the batch", "transient")


def read_lines(
    text: str, read: Callable[[str], tuple[str, Reply | CallError]]
) -> list[tuple[str, Reply | CallError]]:
    """The lines of a batch's results, each by `read`. One that cannot be read has no id, and is not dropped."""
    found = []
    # Not `splitlines`: a reply may hold characters that it takes for ends of lines.
    for line in text.split("\n"):
        try:
            found += [read(line)] if line.strip() else []
        except CallError as error:
            found.append(("", error))
    return found


def reply_of(wire: str, read: Callable[[str], Reply], body: object) -> tuple[str, Reply | CallError]:
    """A batch line's wire id with the reply that `read` finds in its body, or with why there is none."""
    try:
        return wire, read(without_keys(json.dumps(body, ensure_ascii=False)))
    except CallError as unread:
        return wire, unread


def no_answer(url: str, error: BaseException) -> CallError:
    """A network's failure. Where no connection was made nothing was asked; else an answer may have been charged."""
    unasked = isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout | aiohttp.ClientConnectorError)
    message = redact(f"{url} gave no answer: {type(error).__name__} {error}")
    return CallError(message, "transient", maybe_paid=not unasked)


def split_system(request: dict) -> tuple[str, list[dict]]:
    """A request's messages as the system text and the rest, for APIs that take the system text apart."""
    system = "\n\n".join(each["content"] for each in request["messages"] if each["role"] == "system")
    return system, [each for each in request["messages"] if each["role"] != "system"]


def as_dict(value: object) -> dict:
    return value if isinstance(value, dict) else {}


def as_list(value: object) -> list:
    return value if isinstance(value, list) else []


def as_text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def as_count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**53 else None


def added(*counts: int | None) -> int | None:
    """The sum of the counts that are known; None if none is."""
    known = [count for count in counts if count is not None]
    return sum(known) if known else None


def no_reply(raw: str, what: str, sent: Iterable[str]) -> CallError:
    """The error in a body that came with status 200 and is no `what`: its own, if it holds one."""
    error = as_dict(load(raw).get("error"))
    if error:
        code = as_count(error.get("code")) or 0
        return status_error(402 if _QUOTA.search(raw) else code if 400 <= code < 600 else 500, raw, {}, sent)
    said = f"the server answered no {what}: {redact(raw)[:200]!r}; {CHECK}"
    return CallError(said, "transient", maybe_paid=True)


def status_error(status: int, body: str, headers: Mapping[str, str], sent: Iterable[str]) -> CallError:
    """An HTTP error to what is to be done about it. `sent` names the settings that went with the call."""
    said, code, setting = _read(body)
    message = f"HTTP {status}: {redact(said)[:500]}"
    spent = status in (400, 403, 429) and _QUOTA.search(f"{code} {said}")
    # For 429 alone the whole body: other errors may echo a row's text, which may speak of days.
    if status == 402 or spent or (status == 429 and _DAILY.search(body)):
        return CallError(f"{message}; the account has no quota left: add to it or wait, then run again", "fatal")
    if status in (403, 429) and _CONTENT.search(said):
        return CallError(message, "row")
    if status in (408, 409, 425, 429, 499) or status >= 500:
        return CallError(message, "transient", _retry_after(headers, body), slow=status in (429, 503, 529))
    if status in (400, 413, 422):
        return _bad_request(message, said, code, setting, set(sent))
    if status in (401, 403):
        return CallError(f"{message}; check the key in the variable that key_env names, and what it may do", "fatal")
    return CallError(f"{message}; {CHECK}", "fatal")


def _bad_request(message: str, said: str, code: str, setting: str, sent: set[str]) -> CallError:
    # A setting or the model will be refused for every row; this row's text will not.
    part = re.split(r"[.\[]", re.sub(r"^generation_?[cC]onfig\.", "", setting))[0]
    if part in _CONTENT_PARTS or _CONTENT.search(f"{code} {said}"):
        return CallError(message, "row")
    if _KEY.search(f"{code} {said}"):
        return CallError(f"{message}; check the key in the variable that key_env names", "fatal")
    named = part or next((name for name in (*sorted(sent), *_SETTINGS) if _names(said, name)), "")
    if named and named != "model":
        return CallError(f"{message}; change {named} under send of its entry in judges.yaml", "fatal")
    if named or _MODEL.search(said) or "model_not_found" in code:
        return CallError(f"{message}; check model of its entry in judges.yaml", "fatal")
    if _UNKNOWN.search(said):
        return CallError(f"{message}; check what its entry in judges.yaml sends", "fatal")
    return CallError(message, "row", unsure=True)


def _names(said: str, setting: str) -> bool:
    """Whether a message names a setting: as a word of its own, and one-letter ones or common words in quotes only."""
    name = re.escape(setting)
    if len(setting) < 3 or setting in ("stop", "seed", "thinking", "reasoning"):
        return re.search(rf"[`'\"]{name}[`'\"]|^{name}:", said) is not None
    camel = re.escape(re.sub(r"_(\w)", lambda mark: mark[1].upper(), setting))
    return re.search(rf"(?<![\w]){name}(?![\w])|(?<![\w]){camel}(?![\w])", said) is not None


def _read(body: str) -> tuple[str, str, str]:
    """What an error's body says: its message, its codes joined, and the setting that it names itself."""
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        return body.strip() or "no message", "", ""
    found = as_dict(found[0] if isinstance(found, list) and found else found)
    error = found.get("error", found)
    if isinstance(error, str):
        return error, "", ""
    error = as_dict(error)
    said = as_text(error.get("message")) or as_text(found.get("detail")) or body
    words = [error.get(name) for name in ("code", "type", "status")]
    violations = [as_dict(each) for detail in as_list(error.get("details"))
                  for each in as_list(as_dict(detail).get("fieldViolations"))]  # fmt: skip
    setting = as_text(error.get("param")) or next((as_text(each.get("field")) or "" for each in violations), "")
    # Anthropic begins the message with the place of the fault.
    begins = re.match(r"([a-z_]+)(?:\.[\w.]+)?: ", said)
    placed = begins[1] if begins and begins[1] in {*_SETTINGS, *_CONTENT_PARTS, "model"} else ""
    return said, " ".join(str(word) for word in words if word is not None), setting or placed


def _retry_after(headers: Mapping[str, str], body: str) -> float | None:
    """Seconds that the provider asks to wait: a number, a date, milliseconds, or Google's own detail."""
    if (given := _seconds(headers.get("retry-after-ms", ""), 1000)) is not None:
        return given
    text = headers.get("retry-after", "")
    if (given := _seconds(text, 1)) is not None:
        return given
    with suppress(ValueError, OverflowError, TypeError):
        if text and (date := email.utils.parsedate_tz(text)):
            return max(0.0, email.utils.mktime_tz(date) - time.time())
    delay = _DELAY.search(body)
    return float(delay[1]) if delay else None


def _seconds(text: str, divisor: int) -> float | None:
    try:
        return max(0.0, float(text)) / divisor
    except ValueError:
        return None
