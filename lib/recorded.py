"""A call with its reply as one record, its key, and files of recorded ones.

The key is the sha256 of everything that can change the reply. Keeping records in a database is `lib.store`.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from lib import paths
from lib.providers import Reply


@dataclass(frozen=True, slots=True)
class Stored:
    """A reply with its request. `request` is canonical JSON, `latency_s` seconds, `at` UTC in ISO form.

    `batch` is the provider's id of the batch that it came in, None if it was asked live.
    """

    key: str
    request: str
    text: str | None
    finish_reason: str | None
    model: str | None
    tokens_in: int | None
    tokens_out: int | None
    tokens_reasoning: int | None
    tokens_cached: int | None
    latency_s: float | None
    attempts: int | None
    sdk: str | None
    at: str | None
    batch: str | None = None
    raw: str | None = None


def stored(key: str, request: str, reply: Reply, **how: object) -> Stored:
    """A reply to be stored under its call. `how` has latency_s, attempts, sdk and at, and batch if it came in one."""
    return Stored(key=key, request=request, **asdict(reply), **how)


COLUMNS = tuple(field.name for field in fields(Stored))


def now() -> str:
    """UTC in ISO form, to the second."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def canonical(request: dict) -> str:
    """The one JSON text of a request: sorted keys, no blanks, ASCII."""
    return json.dumps(request, sort_keys=True, separators=(",", ":"), allow_nan=False)


def call_key(request: dict | str) -> str:
    """The key of a call: sha256 of its request's canonical JSON, given as such or as a dict."""
    text = request if isinstance(request, str) else canonical(request)
    return hashlib.sha256(text.encode()).hexdigest()


def read_recorded(path: Path) -> list[Stored]:
    """The calls of a recorded file. Raises ValueError that names the line that cannot be read.

    A line whose key is not that of its request is refused: it would be served for another question.
    """
    calls, number = [], 0
    try:
        with gzip.open(path, "rt", encoding="utf-8") as file:
            for line in file:
                number += 1
                call = Stored(**json.loads(line))
                if call_key(call.request) != call.key or not isinstance(call.text, str | None):
                    raise ValueError("its key is not that of its request, or its text is no text")
                calls.append(call)
    except (ValueError, TypeError, AttributeError, OSError, EOFError) as error:
        raise ValueError(f"{paths.shown(path)}, line {number}: no recorded call ({error})") from None
    return calls


def write_recorded(path: Path, calls: Iterable[Stored], whole: bool = False) -> None:
    """Write calls as a recorded file: sorted by key, the same bytes for the same calls, put in place whole.

    Their bodies and batches go along only if `whole`.
    """
    names = COLUMNS if whole else [name for name in COLUMNS if name not in ("raw", "batch")]
    lines = []
    for call in sorted(calls, key=lambda call: call.key):
        line = json.dumps({name: getattr(call, name) for name in names}, ensure_ascii=False) + "\n"
        # A lone surrogate, which JSON can carry and a file cannot, keeps its escape.
        lines.append(line.encode("utf-8", "backslashreplace"))
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(f".part{os.getpid()}")
    part.write_bytes(gzip.compress(b"".join(lines), 9, mtime=0))
    part.replace(path)
