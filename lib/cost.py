"""What calls use and cost: prices to dollars, estimates before a run, and what was used after it.

Unknown usage and unknown prices stay unknown. A call that costs no money costs 0.0 dollars.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import fmean, quantiles, stdev

import pandas as pd

from lib.judges import Judge
from lib.plan import Call, Plan, chunks
from lib.prompts import load_prompt
from lib.recorded import Stored
from lib.store import Store

# Fewer stored calls than these say too little about the next ones.
ENOUGH = 5
# Without stored calls: characters of a token (likely, fewest, most), and the share of the texts that a reply
# repeats in its claims, in tokens beside a fixed part. Guesses of ours, so the range is wide.
_CHARS = (4.0, 5.0, 3.0)
_REPLY_FIXED, _REPEATS = 120, {"C": ("candidate",), "R": ("reference",), "B": ("candidate", "reference")}
_OUT_RANGE = (0.4, 2.5)
_SECONDS, _TOKENS_A_SECOND = 1.5, 60.0


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one call: likely, and the ends of the range of the mean. `most_out` is for one call, not a mean."""

    tokens_in: tuple[float, float, float]
    tokens_out: tuple[float, float, float]
    most_out: float
    seconds: float
    basis: str


def dollars(
    judge: Judge, tokens_in: float | None, tokens_out: float | None, cached: float = 0.0, batch: bool = False
):
    """Dollars of so many tokens, None where tokens or prices are unknown, 0.0 for a judge that costs nothing.

    `tokens_in` includes `cached` ones, which have their own price if the entry gives one.
    """
    if judge.costs_nothing and not judge.price:
        return 0.0
    prefix = "batch_" if batch else ""
    price_in, price_out = judge.price.get(f"{prefix}input"), judge.price.get(f"{prefix}output")
    if None in (price_in, price_out, tokens_in, tokens_out):
        return None
    cached = min(cached or 0.0, tokens_in)
    price_cached = judge.price.get(f"{prefix}cached_input", price_in)
    return ((tokens_in - cached) * price_in + cached * price_cached + tokens_out * price_out) / 1e6


def reply_dollars(judge: Judge, reply: Stored) -> float | None:
    """Dollars of a stored reply, at the batch price if it came in one."""
    cached = reply.tokens_cached or 0
    return dollars(judge, reply.tokens_in, reply.tokens_out, cached, batch=reply.batch is not None)


class Expected:
    """What a call of this judge will use: from stored calls of the same model and prompt, else from its length."""

    def __init__(self, judge: Judge, store: Store):
        self._judge = judge
        density, by_prompt = [], {}
        for call in store.latest(judge.provider, judge.model):
            texts = [message["content"] for message in json.loads(call.request)["messages"]]
            if call.tokens_in and any(texts):
                density.append(call.tokens_in / sum(map(len, texts)))
            if call.tokens_out is not None:
                by_prompt.setdefault(texts[0], []).append(call)
        self._density = tuple(1 / each for each in _CHARS)
        if len(density) >= ENOUGH:
            ends = quantiles(density, n=20, method="inclusive")
            self._density = fmean(density), ends[0], ends[-1]
        self._stored = {text: _summary(calls) for text, calls in by_prompt.items() if len(calls) >= ENOUGH}

    def usage(self, call: Call) -> Usage:
        """The tokens and the seconds of one call."""
        texts = [message["content"] for message in call.request["messages"]]
        characters = sum(map(len, texts))
        tokens_in = tuple(characters * each for each in self._density)
        if texts[0] not in self._stored:
            return self._guessed(call, tokens_in)
        tokens_out, most, seconds, n = self._stored[texts[0]]
        return Usage(tokens_in, tokens_out, most, seconds, f"{n} stored calls of {call.prompt_id}")

    def _guessed(self, call: Call, tokens_in: tuple[float, float, float]) -> Usage:
        # What a reply repeats stands in the user message; a half of it stands for either text.
        parts = _REPEATS.get(load_prompt(call.prompt_id).design, ())
        user = len(call.request["messages"][-1]["content"]) / _CHARS[0]
        written = _REPLY_FIXED + user * len(parts) / 2
        cap = self._judge.output_cap
        thinks = self._judge.thinking_tokens
        out = [
            min(each, cap or each) for each in (written + thinks, *(each * (written + thinks) for each in _OUT_RANGE))
        ]
        return Usage(tokens_in, tuple(out), cap or 2 * out[2], _SECONDS + out[0] / _TOKENS_A_SECOND, "characters")


def estimate(plan: Plan, store: Store) -> pd.DataFrame:
    """What a plan will use before it runs, one line a prompt.

    Columns: `prompt`, distinct `calls`, `have` (with a reply, or in a batch under way), `missing`; for the missing
    ones `tokens_in, tokens_out`, dollars `live, live_low, live_high, batch, batch_low, batch_high` (missing where the
    price is unknown), `seconds` live at the judge's calls in flight and limits, and `basis`: what it rests on.
    """
    expected, seen, lines = Expected(plan.judge, store), set(), {}
    for prompt in plan.prompts:
        lines[prompt] = {"prompt": prompt, "calls": 0, "have": 0, "missing": 0, "seconds": 0.0, "basis": set()}
    for chunk in chunks(plan):
        fresh = {call.key: call for call in chunk if call.key not in seen}
        have = store.where(fresh).keys() | store.in_batches(fresh)
        seen |= fresh.keys()
        for key, call in fresh.items():
            line = lines[call.prompt_id]
            line["calls"] += 1
            line["have" if key in have else "missing"] += 1
            if key not in have:
                _add(line, plan.judge, expected.usage(call))
    frame = pd.DataFrame([{**line, "basis": ", ".join(sorted(line["basis"]))} for line in lines.values()])
    amounts = [f"{mode}{end}" for mode in ("live", "batch") for end in ("", "_low", "_high")]
    for name in ("tokens_in", "tokens_out", *amounts):
        values = frame[name] if name in frame else pd.Series(pd.NA, index=frame.index)
        frame[name] = values.astype("Float64").mask(frame["missing"] == 0, 0.0)
    return frame[["prompt", "calls", "have", "missing", "tokens_in", "tokens_out", *amounts, "seconds", "basis"]]


def _add(line: dict, judge: Judge, usage: Usage) -> None:
    for mode in ("live", "batch"):
        for end, place in (("", 0), ("_low", 1), ("_high", 2)):
            part = dollars(judge, usage.tokens_in[place], usage.tokens_out[place], batch=mode == "batch")
            line[f"{mode}{end}"] = None if part is None else line.get(f"{mode}{end}", 0.0) + part
    line["tokens_in"] = line.get("tokens_in", 0) + usage.tokens_in[0]
    line["tokens_out"] = line.get("tokens_out", 0) + usage.tokens_out[0]
    rates = [
        judge.requests_per_minute / 60,
        judge.tokens_per_minute / 60 / (usage.tokens_in[0] + usage.tokens_out[0]),
    ]
    line["seconds"] += max(usage.seconds / judge.in_flight, *(1 / rate for rate in rates if rate), 0)
    line["basis"].add(usage.basis)


def used(plan: Plan, store: Store, keys: Iterable[str]) -> dict[str, object]:
    """What the replies of a run used: those among the plan's calls whose key is in `keys`, the ones asked for now.

    `replies`, `tokens_in`, `tokens_out` (of those that say it), `unknown` (replies without usage), `dollars` (None
    where the price or every usage is unknown), and `replayed`: the plan's other replies, which cost nothing now.
    """
    keys, seen, replies, replayed = set(keys), set(), [], 0
    for chunk in chunks(plan):
        found = store.get({call.key for call in chunk} - seen)
        seen |= found.keys()
        replies += [reply for key, reply in found.items() if key in keys]
        replayed += sum(key not in keys for key in found)
    costs = [cost for cost in (reply_dollars(plan.judge, reply) for reply in replies) if cost is not None]
    return {
        "replies": len(replies),
        "tokens_in": sum(reply.tokens_in or 0 for reply in replies),
        "tokens_out": sum(reply.tokens_out or 0 for reply in replies),
        "unknown": sum(None in (reply.tokens_in, reply.tokens_out) for reply in replies),
        "dollars": sum(costs) if costs or not replies else None,
        "replayed": replayed,
    }


def _summary(calls: list[Stored]) -> tuple[tuple[float, float, float], float, float, int]:
    """Output tokens of a call (mean, and its range by two standard errors), the most of one, seconds, and n."""
    outs = [each.tokens_out for each in calls]
    mean = fmean(outs)
    wide = max(2 * stdev(outs) / len(outs) ** 0.5, 0.05 * mean)
    waits = [each.latency_s for each in calls if each.latency_s]
    seconds = fmean(waits) if waits else _SECONDS + mean / _TOKENS_A_SECOND
    return (mean, max(mean - wide, 0.0), mean + wide), 1.25 * max(outs), seconds, len(outs)
