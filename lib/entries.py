"""An entry of `judges.yaml` checked, field by field, before anything is made of it."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Mapping
from datetime import date

from lib.redact import looks_like_key

_NEEDS = {"local": {"model", "sha256"}, "lexical": {"model"}, "openai": {"model"}}
_NEEDS |= {"anthropic": {"model"}, "google": {"model"}}
STRUCTURED = ("none", "json_object", "json_schema")
_MADE = {"model", "messages", "stream", "response_format", "system", "contents", "system_instruction"}
_PRICES = ("input", "cached_input", "output", "batch_input", "batch_cached_input", "batch_output")
_TYPES = {"str": str, "int": int, "dict": dict}


def checked(where: str, name: object, entry: object, kinds: Mapping[str, tuple[str, object]]) -> dict[str, object]:
    """The fields of an entry. `kinds` has the type and the default of each field that there may be.

    Raises ValueError that begins with `where` and names the field, for anything malformed.
    """
    if not isinstance(name, str) or not re.fullmatch(r"[\w.-]+", name) or not isinstance(entry, dict):
        raise ValueError(f"{where}: an entry is a name (letters, digits, . and -) with its fields below it")
    if looks_like_key(entry) or not re.fullmatch(r"[A-Z][A-Z0-9_]*|", str(entry.get("key_env", ""))):
        raise ValueError(f"{where}: a key stands in no file; key_env is the NAME of the variable that holds it")
    for key, value in entry.items():
        if key not in kinds:
            near = difflib.get_close_matches(str(key), kinds, n=1)
            hint = f"; did you mean {near[0]}?" if near else f"; it may have {', '.join(kinds)}"
            raise ValueError(f"{where}: unknown field {key!r}{hint}")
        kind, default = _TYPES[kinds[key][0]], kinds[key][1]
        if not isinstance(value, kind) or isinstance(value, bool):
            raise ValueError(f"{where}: {key} must be {kind.__name__}, not {value!r}")
        # A field whose default is 0 may be left out by setting it to 0.
        least = min(1, default) if kind is int else 0
        if kind is int and value < least:
            raise ValueError(f"{where}: {key} must be at least {least}, not {value}")
    if entry.get("provider") not in _NEEDS:
        raise ValueError(f"{where}: provider must be one of {', '.join(_NEEDS)}")
    missing = _NEEDS[entry["provider"]] - set(entry)
    if missing:
        raise ValueError(f"{where}: {', '.join(sorted(missing))} is missing")
    if entry.get("structured", "none") not in STRUCTURED:
        raise ValueError(f"{where}: structured must be {' or '.join(STRUCTURED)}, not {entry['structured']!r}")
    if entry.get("structured") == "json_object" and entry["provider"] == "anthropic":
        raise ValueError(f"{where}: the provider has no JSON mode; set structured to none or json_schema")
    try:
        json.dumps([entry.get("send", {}), entry.get("schema_bounds", {})], allow_nan=False)
    except (TypeError, ValueError):
        raise ValueError(f"{where}: send holds something that is no JSON, such as a date; put it in quotes") from None
    if taken := _MADE & set(entry.get("send", {})):
        raise ValueError(f"{where}: send cannot hold {', '.join(sorted(taken))}; they are made for each call")
    if extra := set(entry.get("schema_bounds", {})) - {"list_items", "text_chars"}:
        raise ValueError(f"{where}: schema_bounds has list_items and text_chars, not {', '.join(map(str, extra))}")
    if re.search(r"@|\?", entry.get("base_url", "")):
        raise ValueError(f"{where}: base_url cannot hold a user or a query, where keys would stand")
    caps = "open_cap" in entry, "max_tokens" in entry.get("send", {})
    if caps[0] and entry["provider"] != "anthropic":
        raise ValueError(f"{where}: open_cap is for a provider that requires a cap (anthropic); leave it out")
    if entry["provider"] == "anthropic" and not any(caps):
        raise ValueError(f"{where}: the provider requires an output cap; set open_cap to one that does not bind")
    return {**entry, "price": _price(where, entry["price"])} if entry.get("price") else entry


def _price(where: str, price: dict) -> dict:
    """The price of an entry: its date as text, and numbers from 0 on."""
    read = price.get("read")
    try:
        read = read if isinstance(read, date) else date.fromisoformat(str(read))
    except ValueError:
        raise ValueError(f"{where}: price.read must be the date on which it was read, as 2026-11-30") from None
    numbers = {name: value for name, value in price.items() if name != "read"}
    if unknown := set(numbers) - set(_PRICES):
        raise ValueError(f"{where}: price has read, {', '.join(_PRICES)}, not {', '.join(map(str, unknown))}")
    if missing := {"input", "output"} - set(numbers):
        raise ValueError(f"{where}: price.{', price.'.join(sorted(missing))} is missing, in dollars a million tokens")
    for name, value in numbers.items():
        if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value < 1e6:
            raise ValueError(f"{where}: price.{name} must be dollars a million tokens, not {value!r}")
    return {"read": read.isoformat(), **numbers}
