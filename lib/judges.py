"""The registry of judges: `judges.yaml` read and checked, requests built, providers opened.

A request is everything that can change a reply. What is not in it (a key, a port) cannot. What calls cost is
`lib.cost`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import urlsplit

import yaml

from lib import paths
from lib.entries import STRUCTURED, checked
from lib.params import read_yaml
from lib.prompts import Prompt, render, reply_schema
from lib.providers import Provider
from lib.redact import guard_logs, remember

# The output cap under each provider's own name. Other servers of OpenAI's kind know the older name alone.
_CAPS = {"openai": "max_completion_tokens", "google": "max_output_tokens"}
_CAP_NAMES = ("max_tokens", "max_completion_tokens", "max_output_tokens")
# The forms of reply that a provider can hold a model to. Others have all three.
_FORMATS = {"anthropic": ("none", "json_schema"), "lexical": ("none",)}
_BASE_URL = {
    "openai": "https://api.openai.com/v1",
    "anthropic": "https://api.anthropic.com",
    "google": "https://generativelanguage.googleapis.com",
}


@dataclass(frozen=True)
class Judge:
    """One entry of `judges.yaml`.

    `send` holds the parameters that go with each call; `structured` is `none`, `json_object` (JSON mode) or
    `json_schema`, with `schema_bounds` for its lists and strings. `in_flight` bounds the calls under way. `key_env`
    names the environment variable that holds the key. `base_url` is that of another server than the provider's own.
    `servers`, `context` (tokens) and `sha256` are the embedded model's. `open_cap` is the output cap in tokens
    that is sent where a provider requires one and `send` has none. `requests_per_minute` and `tokens_per_minute`
    are kept below, 0 for no limit; `batch_calls` is the most calls in one batch. `price` holds dollars a million
    tokens and the date on which they were read. `thinking_tokens` is what a call is thought to spend on reasoning,
    for estimates only, until stored calls say it.
    """

    name: str
    provider: str
    model: str
    about: str = ""
    base_url: str = ""
    key_env: str = ""
    sha256: str = ""
    servers: int = 1
    context: int = 8192
    in_flight: int = 4
    structured: str = "none"
    schema_bounds: dict = field(default_factory=dict)
    send: dict = field(default_factory=dict)
    open_cap: int = 0
    requests_per_minute: int = 0
    tokens_per_minute: int = 0
    batch_calls: int = 2000
    price: dict = field(default_factory=dict)
    thinking_tokens: int = 0

    @property
    def endpoint(self) -> str:
        """Where the call goes, as it stands in the call's key: no port and no machine for the embedded one."""
        if self.provider == "local":
            return f"embedded, 1 slot, 1 thread, context {self.context}, weights {self.sha256[:16]}"
        return (self.base_url or _BASE_URL.get(self.provider, "in process")).rstrip("/")

    @property
    def free(self) -> bool:
        """True where a call costs nothing and a repeat gives the same reply: asking it twice wastes nothing."""
        return self.provider == "lexical"

    @property
    def runs_here(self) -> bool:
        """True for a judge in this process."""
        return self.provider in ("local", "lexical")

    @property
    def costs_nothing(self) -> bool:
        """True for a judge on this machine, in this process or behind a loopback address."""
        host = urlsplit(self.base_url).hostname or ""
        try:
            return self.runs_here or host == "localhost" or ip_address(host).is_loopback
        except ValueError:
            return False

    @property
    def has_batches(self) -> bool:
        """Whether the provider takes batches."""
        return self.provider in _BASE_URL

    @property
    def output_cap(self) -> int | None:
        """The output cap in tokens that `send` sets, None where the provider's default or `open_cap` holds."""
        return cap_of(self.send)

    @property
    def formats(self) -> tuple[str, ...]:
        """The values of `structured` that the provider has."""
        return _FORMATS.get(self.provider, STRUCTURED)

    def with_cap(self, tokens: int) -> Judge:
        """The same judge with an output cap of so many tokens, sent under the provider's name for it."""
        rest = {name: value for name, value in self.send.items() if name not in _CAP_NAMES}
        own = _CAPS.get(self.provider, "max_tokens")
        if self.provider == "openai" and self.base_url:
            own = "max_tokens"
        name = next((name for name in _CAP_NAMES if name in self.send), own)
        return replace(self, send={**rest, name: tokens})

    def request(self, prompt: Prompt, row: Mapping[str, object], repeat: int = 0) -> dict:
        """The request that asks this judge `prompt` about `row`, the `repeat`-th time. JSON types only."""
        form = {"design": prompt.design} if self.provider == "lexical" else _form(self, prompt)
        return self.call(render(prompt, row), form, repeat)

    def call(self, messages: list[dict[str, str]], params: Mapping[str, object], repeat: int = 0) -> dict:
        """The request that sends `messages`, with what the entry sends and with `params`."""
        sent = dict(self.send)
        if self.open_cap:
            sent.setdefault("max_tokens", self.open_cap)
        return {
            "provider": self.provider,
            "endpoint": self.endpoint,
            "model": self.model,
            "params": {**sent, **params},
            "messages": messages,
            "repeat": repeat,
        }

    def settings(self) -> dict[str, str]:
        """What a reader should know of how this judge is asked, for a table."""
        sent = [f"{name} {value}" for name, value in self.send.items()]
        if self.open_cap and self.output_cap is None:
            sent.append(f"max_tokens {self.open_cap} (the provider requires a cap; this one is not meant to bind)")
        bounds = ", ".join(f"{name} {value}" for name, value in self.schema_bounds.items())
        schema = self.structured + (f" ({bounds})" if bounds and self.structured == "json_schema" else "")
        return {
            "judge": self.name,
            "provider": self.provider,
            "model": self.model,
            "endpoint": self.endpoint,
            "sent": ", ".join(sent) or "nothing beyond the messages",
            "structured output": schema,
        }


def cap_of(params: Mapping[str, object]) -> int | None:
    """The output cap in tokens among a call's parameters, None if there is none."""
    caps = [params[name] for name in _CAP_NAMES if isinstance(params.get(name), int)]
    # Some servers take -1 for no cap.
    return caps[0] if caps and caps[0] > 0 else None


def _form(judge: Judge, prompt: Prompt) -> dict:
    """The parameters that hold a reply to the judge's form: none, JSON of whatever kind, or the prompt's schema."""
    if judge.structured == "none":
        return {}
    if judge.structured == "json_object":
        if judge.provider == "google":
            return {"response_mime_type": "application/json"}
        return {"response_format": {"type": "json_object"}}
    schema = reply_schema(prompt, **judge.schema_bounds)
    if judge.provider == "anthropic":
        return {"output_config": {"format": {"type": "json_schema", "schema": schema}}}
    if judge.provider == "google":
        return {"response_mime_type": "application/json", "response_json_schema": schema}
    form = {"name": "judgment", "strict": True, "schema": schema}
    return {"response_format": {"type": "json_schema", "json_schema": form}}


def load_judges(path: Path = paths.JUDGES) -> dict[str, Judge]:
    """All entries by name. Raises ValueError that names file, entry and field for anything malformed."""
    return {name: _judge(path, name, entry) for name, entry in _entries(path).items()}


def load_judge(name: str, path: Path = paths.JUDGES) -> Judge:
    """One entry; a fault in another one is not looked at.

    Raises ValueError as `load_judges`, and for a name without an entry, with the names there are.
    """
    entries = _entries(path)
    if name not in entries:
        raise ValueError(f"{paths.shown(path)} has no judge {name!r}; it has {', '.join(map(str, entries))}")
    return _judge(path, name, entries[name])


def _entries(path: Path) -> dict:
    shown = paths.shown(path)
    try:
        entries = read_yaml(path)
    except yaml.YAMLError as error:
        raise ValueError(f"{shown} is no YAML: {' '.join(str(error).split())}") from None
    if not isinstance(entries, dict):
        raise ValueError(f"{shown}: expected one entry a judge, by name")
    return entries


def _judge(path: Path, name: str, entry: object) -> Judge:
    kinds = {each.name: (each.type, each.default) for each in fields(Judge) if each.name != "name"}
    return Judge(name=name, **checked(f"{paths.shown(path)}, judge {name}", name, entry, kinds))


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
    key = os.environ.get(judge.key_env, "").strip() if judge.key_env else "none"
    where = f"its entry in {paths.shown(paths.JUDGES)} names it as key_env"
    if not key:
        raise ValueError(f"judge {judge.name}: set the environment variable {judge.key_env} to your key ({where})")
    if not re.fullmatch(r"[!-~]+", key):
        raise ValueError(
            f"judge {judge.name}: {judge.key_env} holds more than a key: blanks or letters of no key ({where})"
        )
    remember(key)
    guard_logs()
    if judge.provider == "anthropic":
        from lib.providers.anthropic import AnthropicMessages

        return AnthropicMessages(judge.endpoint, key)
    if judge.provider == "google":
        from lib.providers.google import Gemini

        return Gemini(judge.endpoint, key)
    from lib.providers.openai import OpenAIChat

    return OpenAIChat(judge.endpoint, key)
