"""What a call will use: from stored calls of the same model and prompt, else from the length of its texts."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean, quantiles, stdev

from lib.judges import Judge, cap_of
from lib.plan import Call
from lib.prices import dollars
from lib.recorded import COLUMNS, Stored
from lib.store import Store

# Fewer stored calls than these say too little about the next ones.
ENOUGH = 3
# Without stored calls: characters of a token (likely, fewest, most), and how many of the two texts a reply repeats
# in its claims, in tokens beside a fixed part. Guesses of ours, so the range is wide.
_CHARS = (4.0, 5.0, 3.0)
_REPLY_FIXED, _REPEATS = 120, {"C": 1, "R": 1, "B": 2}
_OUT_RANGE = (0.4, 2.5)
_SECONDS, _TOKENS_A_SECOND = 1.5, 60.0
# In place of a system message: calls of whatever prompt.
_ANY = ""


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one call: likely, and the ends of the range of the mean. `most_out` is for one call, not a mean."""

    tokens_in: tuple[float, float, float]
    tokens_out: tuple[float, float, float]
    most_out: float
    seconds: float
    basis: str


class Expected:
    """What a call of this judge will use: from stored calls of the same model and prompt, else from its length.

    The store is read once, at the first question, so what a run adds does not change its own estimate.
    """

    def __init__(self, judge: Judge, store: Store):
        self._judge, self._store = judge, store

    @cached_property
    def _known(self) -> tuple[tuple[float, float, float], dict[str, tuple]]:
        """Tokens a character (likely, fewest, most), and what calls used by their system message; read once."""
        density, by_prompt, every = [], {}, []
        own = self._judge.output_cap or self._judge.open_cap or None
        for call in _latest(self._store, self._judge):
            request = json.loads(call.request)
            texts = [message["content"] for message in request["messages"]]
            # A reply that another cap cut, or left whole, says nothing about this judge's.
            if cap_of(request["params"]) != own:
                continue
            if call.tokens_in and any(texts):
                density.append(call.tokens_in / sum(map(len, texts)))
            if call.tokens_out is not None:
                by_prompt.setdefault(texts[0], []).append((call, len(texts[-1])))
                every.append((call, len(texts[-1])))
        densities = tuple(1 / each for each in _CHARS)
        if len(density) >= ENOUGH:
            ends = quantiles(density, n=20, method="inclusive")
            densities = fmean(density), ends[0], ends[-1]
        known = {text: calls for text, calls in {**by_prompt, _ANY: every}.items() if len(calls) >= ENOUGH}
        return densities, {text: _summary(calls) for text, calls in known.items()}

    def usage(self, call: Call) -> Usage:
        """The tokens and the seconds of one call."""
        densities, stored = self._known
        texts = [message["content"] for message in call.request["messages"]]
        characters = sum(map(len, texts))
        tokens_in = tuple(characters * each for each in densities)
        own = texts[0] in stored
        found = stored.get(texts[0] if own else _ANY)
        if found is None:
            return self._guessed(call, tokens_in)
        # Another length of the texts may change a reply's in proportion, or not at all.
        ratio, spread = len(texts[-1]) / found.length, 1.0 if own else 2.0
        low, high = found.low * min(1.0, ratio) / spread, found.high * max(1.0, ratio) * spread
        cap = self._cap(call.request["params"]) or math.inf
        tokens_out = tuple(min(each, cap) for each in (found.mean * ratio**0.5, low, high))
        basis = f"{found.n} stored calls of {call.prompt_id if own else 'other prompts'}"
        return Usage(tokens_in, tokens_out, min(max(found.most, high), cap), found.seconds, basis)

    def likely(self, call: Call, batch: bool = False) -> float | None:
        """Dollars that one call will likely cost, None where the price is unknown."""
        usage = self.usage(call)
        return dollars(self._judge, usage.tokens_in[0], usage.tokens_out[0], batch=batch)

    def _cap(self, params: dict) -> int | None:
        """The cap that may cut a reply: not the one that a provider requires and that is not meant to bind."""
        cap = cap_of(params)
        return None if cap == self._judge.open_cap else cap

    def _guessed(self, call: Call, tokens_in: tuple[float, float, float]) -> Usage:
        # What a reply repeats stands in the user message; a half of it stands for either text.
        repeats = _REPEATS.get(call.prompt_id.split(".")[0], 0)
        user = len(call.request["messages"][-1]["content"]) / _CHARS[0]
        written = _REPLY_FIXED + user * repeats / 2
        cap = self._cap(call.request["params"])
        thinks = self._judge.thinking_tokens
        out = [
            min(each, cap or each) for each in (written + thinks, *(each * (written + thinks) for each in _OUT_RANGE))
        ]
        return Usage(tokens_in, tuple(out), cap or 2 * out[2], _SECONDS + out[0] / _TOKENS_A_SECOND, "characters")


def _latest(store: Store, judge: Judge) -> list[Stored]:
    """The newest replies of the judge's model, at most 2,000, of the newest 20,000 in the store."""
    columns = ", ".join(COLUMNS[:-1])
    query = f"""SELECT * FROM (SELECT {columns} FROM calls ORDER BY rowid DESC LIMIT 20000)
        WHERE json_extract(request, '$.model') = ? AND json_extract(request, '$.provider') = ? LIMIT 2000"""
    return [Stored(*row) for row in store.execute(query, (judge.model, judge.provider))]


@dataclass(frozen=True, slots=True)
class _Summary:
    """Output tokens of stored calls: their mean, its range by two standard errors, and 1.25 of the largest.

    Beside them seconds a call, characters of a user message, and the number of calls.
    """

    mean: float
    low: float
    high: float
    most: float
    seconds: float
    length: float
    n: int


def _summary(calls: list[tuple[Stored, int]]) -> _Summary:
    outs = [call.tokens_out for call, _ in calls]
    mean = fmean(outs)
    wide = max(2 * stdev(outs) / len(outs) ** 0.5, 0.05 * mean)
    waits = [call.latency_s for call, _ in calls if call.latency_s]
    seconds = fmean(waits) if waits else _SECONDS + mean / _TOKENS_A_SECOND
    length = max(1.0, fmean(each for _, each in calls))
    return _Summary(mean, max(mean - wide, 0.0), mean + wide, 1.25 * max(outs), seconds, length, len(outs))
