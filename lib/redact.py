"""Keys and home folders out of texts: the one redactor, for every stored error, every log line and every body.

It knows keys by their value (those that adapters were opened with, and those in the environment) and by their shape.
It changes nothing else.
"""

from __future__ import annotations

import json
import logging
import os
import re
from pathlib import Path
from urllib.parse import quote

HIDDEN = "[key]"
# What a key of the providers looks like, whole or masked as servers echo it.
_SHAPE = r"\b(?:sk-|AIza|xai-|gsk_|hf_)"
_WHOLE = re.compile(_SHAPE + r"[\w-]{12,}")
_MASKED = re.compile(_SHAPE + r"[\w*…-]{6,}(?:\.{3}[\w-]+)?")
# Where a key stands in a header or an address, whatever its shape.
_PLACED = re.compile(
    r"""((?:authorization|x-goog-api-key|x-api-key|api-key)["']?\s*[:=]\s*["']?(?:bearer\s+|basic\s+)?|\bbearer\s+
    |[?&](?:key|api_?key|access_token|token)=)(?!\[key\])[^\s"'&,;})\]]{4,}""",
    re.I | re.X,
)
_NAMED = re.compile(r"(?:KEY|TOKEN|SECRET|PASSWORD)$")
_used: set[str] = set()


def remember(key: str) -> None:
    """Have this key taken out of every text from now on. Anything under 8 characters is no key."""
    _used.update(_forms(key))


def without_keys(text: str) -> str:
    """The text without the keys that adapters were opened with. For bodies: nothing that only looks like a key."""
    return _without(text, _used)


def without_known_keys(text: str) -> str:
    """The text without the keys in use and those of the environment. For files that other programs wrote."""
    return _without(text, _used.union(*(_forms(value) for name, value in os.environ.items() if _NAMED.search(name))))


def redact(text: str) -> str:
    """The text without keys, known or by their looks, and without this machine's home folder. For errors and logs."""
    text = _PLACED.sub(rf"\1{HIDDEN}", without_known_keys(text))
    home = str(Path.home())
    return _MASKED.sub(HIDDEN, text).replace(home + "/", "~/" if len(home) > 1 else "/")


def _forms(key: str) -> set[str]:
    """A key as it may stand in texts: as it is, in an address, in JSON. Headers lose the blanks around it."""
    key = key.strip()
    return {key, quote(key, safe=""), json.dumps(key)[1:-1]} if len(key) >= 8 else set()


def _without(text: str, keys: set[str]) -> str:
    # The longest first: one key may begin another.
    for key in sorted(keys, key=len, reverse=True):
        text = text.replace(key, HIDDEN)
    return text


def looks_like_key(value: object) -> bool:
    """Whether a text of this value, however deep in lists and dicts, is a key in use or has the shape of one."""
    if isinstance(value, dict):
        return any(map(looks_like_key, [*value, *value.values()]))
    if isinstance(value, list | tuple):
        return any(map(looks_like_key, value))
    if not isinstance(value, str):
        return False
    held = (known for name, known in os.environ.items() if name.endswith("_API_KEY") and len(known) >= 8)
    return _WHOLE.search(value) is not None or any(key in value for key in held)


def guard_logs() -> None:
    """Redact every log record of this process from now on, whichever library writes it."""
    make = logging.getLogRecordFactory()
    if getattr(make, "redacts", False):
        return

    def record(*args, **kwargs):
        made = make(*args, **kwargs)
        try:
            said = made.getMessage()
        except Exception:  # a record with the wrong arguments: logging itself reports it
            return made
        made.msg, made.args = redact(said), ()
        if made.exc_info:
            # Formatters take this text where it is set.
            made.exc_text = redact(logging.Formatter().formatException(made.exc_info))
        return made

    record.redacts = True
    logging.setLogRecordFactory(record)
