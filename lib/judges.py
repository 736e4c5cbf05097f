"""The registry of judges: `judges.yaml` read and checked, requests built, providers opened.

A request is everything that can change a reply. What is not in it (a key, a port) cannot.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path

import yaml

from lib import paths
from lib.params import looks_like_key
from lib.prompts import Prompt, render, reply_schema
from lib.providers import Provider

OPENAI = "https://api.openai.com/v1"
_NEEDS = {"local": {"model", "sha256"}, "lexical": {"model"}, "openai": {"model"}}


@dataclass(frozen=True)
class Judge:
    """One entry of `judges.yaml`.

    `send` holds the parameters that go with each call; `structured` is `none` or `json_schema`, with
    `schema_bounds` for its lists and strings. `in_flight` bounds the calls under way. `key_env` names the
    environment variable that holds the key. `servers`, `context` (tokens) and `sha256` are the embedded
    model's, `base_url` that of an OpenAI-compatible server.
    """

    name: str
    provider: str
    model: str
    about: str = ""
    base_url: str = OPENAI
    key_env: str = ""
    sha256: str = ""
    servers: int = 1
    context: int = 8192
    in_flight: int = 4
    structured: str = "none"
    schema_bounds: dict = field(default_factory=dict)
    send: dict = field(default_factory=dict)

    @property
    def endpoint(self) -> str:
        """Where the call goes, as it stands in the call's key: no port and no machine for the embedded one."""
        if self.provider == "local":
            return f"embedded, 1 slot, 1 thread, context {self.context}, weights {self.sha256[:16]}"
        return self.base_url.rstrip("/") if self.provider == "openai" else "in process"

    @property
    def free(self) -> bool:
        """True where a call costs nothing and a repeat gives the same reply: asking it twice wastes nothing."""
        return self.provider == "lexical"

    @property
    def runs_here(self) -> bool:
        """True for a judge in this process: its calls cost no money."""
        return self.provider in ("local", "lexical")

    def request(self, prompt: Prompt, row: Mapping[str, object], repeat: int = 0) -> dict:
        """The request that asks this judge `prompt` about `row`, the `repeat`-th time. JSON types only."""
        params = dict(self.send)
        if self.provider == "lexical":
            params["design"] = prompt.design
        if self.structured == "json_schema":
            schema = reply_schema(prompt, **self.schema_bounds)
            params["response_format"] = {
                "type": "json_schema",
                "json_schema": {"name": "judgment", "strict": True, "schema": schema},
            }
        return {
            "provider": self.provider,
            "endpoint": self.endpoint,
            "model": self.model,
            "params": params,
            "messages": render(prompt, row),
            "repeat": repeat,
        }

    def settings(self) -> dict[str, str]:
        """What a reader should know of how this judge is asked, for a table."""
        sent = ", ".join(f"{name} {value}" for name, value in self.send.items()) or "nothing beyond the messages"
        bounds = ", ".join(f"{name} {value}" for name, value in self.schema_bounds.items())
        schema = "none" if self.structured == "none" else self.structured + (f" ({bounds})" if bounds else "")
        return {
            "judge": self.name,
            "provider": self.provider,
            "model": self.model,
            "endpoint": self.endpoint,
            "sent": sent,
            "structured output": schema,
        }


def load_judges(path: Path = paths.JUDGES) -> dict[str, Judge]:
    """All entries by name. Raises ValueError that names file, entry and field for anything malformed."""
    shown = paths.shown(path)
    try:
        entries = yaml.safe_load(path.read_text(encoding="utf-8"))
    except yaml.YAMLError as error:
        raise ValueError(f"{shown} is no YAML: {' '.join(str(error).split())}") from None
    if not isinstance(entries, dict):
        raise ValueError(f"{shown}: expected one entry a judge, by name")
    return {name: _judge(shown, name, entry) for name, entry in entries.items()}


def load_judge(name: str, path: Path = paths.JUDGES) -> Judge:
    """One entry. Raises ValueError for a name without one, with the names there are."""
    judges = load_judges(path)
    if name not in judges:
        raise ValueError(f"{paths.shown(path)} has no judge {name!r}; it has {', '.join(judges)}")
    return judges[name]


def open_provider(judge: Judge) -> Provider:
    """The adapter that answers this judge's requests. Raises CallError where it cannot be had here.

    Raises ValueError where the entry's key is not in the environment.
    """
    if judge.provider == "lexical":
        from lib.providers.lexical import Lexical

        return Lexical()
    if judge.provider == "local":
        from lib.providers.local import Embedded

        return Embedded(judge.model, judge.sha256, judge.servers, judge.context)
    from lib.providers.openai import OpenAIChat

    key = os.environ.get(judge.key_env, "") if judge.key_env else "none"
    if not key:
        raise ValueError(f"judge {judge.name}: set the environment variable {judge.key_env} to your key")
    return OpenAIChat(judge.base_url, key)


def _judge(shown: str, name: object, entry: object) -> Judge:
    where = f"{shown}, judge {name}"
    if not isinstance(name, str) or not re.fullmatch(r"[\w.-]+", name) or not isinstance(entry, dict):
        raise ValueError(f"{where}: an entry is a name (letters, digits, . and -) with its fields below it")
    if looks_like_key(entry) or not re.fullmatch(r"[A-Z][A-Z0-9_]*|", str(entry.get("key_env", ""))):
        raise ValueError(f"{where}: a key stands in no file; key_env is the NAME of the variable that holds it")
    known = {f.name: f.type for f in fields(Judge)}
    for key, value in entry.items():
        if key not in known or key == "name":
            near = difflib.get_close_matches(str(key), known, n=1)
            hint = f"; did you mean {near[0]}?" if near else f"; it may have {', '.join(list(known)[1:])}"
            raise ValueError(f"{where}: unknown field {key!r}{hint}")
        kind = {"str": str, "int": int, "dict": dict}[known[key]]
        if not isinstance(value, kind) or isinstance(value, bool):
            raise ValueError(f"{where}: {key} must be {kind.__name__}, not {value!r}")
        if kind is int and value < 1:
            raise ValueError(f"{where}: {key} must be at least 1, not {value}")
    if entry.get("provider") not in _NEEDS:
        raise ValueError(f"{where}: provider must be one of {', '.join(_NEEDS)}")
    missing = _NEEDS[entry["provider"]] - set(entry)
    if missing:
        raise ValueError(f"{where}: {', '.join(sorted(missing))} is missing")
    if entry.get("structured", "none") not in ("none", "json_schema"):
        raise ValueError(f"{where}: structured must be none or json_schema, not {entry['structured']!r}")
    if taken := {"model", "messages", "stream", "response_format"} & set(entry.get("send", {})):
        raise ValueError(f"{where}: send cannot hold {', '.join(sorted(taken))}; they are made for each call")
    if extra := set(entry.get("schema_bounds", {})) - {"list_items", "text_chars"}:
        raise ValueError(f"{where}: schema_bounds has list_items and text_chars, not {', '.join(map(str, extra))}")
    if re.search(r"@|\?", entry.get("base_url", "")):
        raise ValueError(f"{where}: base_url cannot hold a user or a query, where keys would stand")
    return Judge(name=name, **entry)
