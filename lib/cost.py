"""What calls use and cost: prices to dollars, estimates before a run, and what was used after it.

Unknown usage and unknown prices stay unknown. A call that costs no money costs 0.0 dollars.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean, quantiles, stdev

import pandas as pd

from lib.judges import Judge
from lib.plan import Call, Plan, chunks
from lib.prompts import load_prompt
from lib.recorded import COLUMNS, Stored
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
    """What a call of this judge will use: from stored calls of the same model and prompt, else from its length.

    The store is read once, at the first question, so what a run adds does not change its own estimate.
    """

    def __init__(self, judge: Judge, store: Store):
        self._judge, self._store = judge, store

    @cached_property
    def _known(self) -> tuple[tuple[float, float, float], dict[str, tuple]]:
        """Tokens a character (likely, fewest, most), and what calls used by their system message; read once."""
        density, by_prompt = [], {}
        for call in _latest(self._store, self._judge):
            texts = [message["content"] for message in json.loads(call.request)["messages"]]
            if call.tokens_in and any(texts):
                density.append(call.tokens_in / sum(map(len, texts)))
            if call.tokens_out is not None:
                by_prompt.setdefault(texts[0], []).append(call)
        densities = tuple(1 / each for each in _CHARS)
        if len(density) >= ENOUGH:
            ends = quantiles(density, n=20, method="inclusive")
            densities = fmean(density), ends[0], ends[-1]
        return densities, {text: _summary(calls) for text, calls in by_prompt.items() if len(calls) >= ENOUGH}

    def usage(self, call: Call) -> Usage:
        """The tokens and the seconds of one call."""
        densities, stored = self._known
        texts = [message["content"] for message in call.request["messages"]]
        characters = sum(map(len, texts))
        tokens_in = tuple(characters * each for each in densities)
        if texts[0] not in stored:
            return self._guessed(call, tokens_in)
        tokens_out, most, seconds, n = stored[texts[0]]
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


_AMOUNTS = tuple(f"{mode}{end}" for mode in ("live", "batch") for end in ("", "_low", "_high"))


def estimate(plan: Plan, store: Store, expected: Expected | None = None) -> pd.DataFrame:
    """What a plan will use before it runs, one line a prompt. Asks nothing.

    Columns: `prompt`, distinct `calls`, those with a reply in `store` or `recorded`, `in_batches` under way, and
    `missing`; for the missing ones `tokens_in, tokens_out` with their `_low, _high`, dollars `live, batch` with
    theirs (missing where the price is unknown), `seconds` live at the judge's calls in flight and limits, and
    `basis`: what it rests on.
    """
    expected, seen = expected or Expected(plan.judge, store), set()
    lines = {prompt: _line(prompt) for prompt in plan.prompts}
    for chunk in chunks(plan):
        fresh = {call.key: call for call in chunk if call.key not in seen}
        where, sent = store.where(fresh), store.in_batches(fresh)
        seen |= fresh.keys()
        for key, call in fresh.items():
            place = where.get(key, "in_batches" if key in sent else "missing")
            lines[call.prompt_id]["calls"] += 1
            lines[call.prompt_id][place] += 1
            if place == "missing":
                _add(lines[call.prompt_id], plan.judge, expected.usage(call))
    frame = pd.DataFrame([{**line, "basis": ", ".join(sorted(line["basis"]))} for line in lines.values()])
    if not plan.judge.has_batches:
        frame[["batch", "batch_low", "batch_high"]] = None
    return frame.astype(dict.fromkeys(_AMOUNTS, "Float64"))


def lowest(plan: Plan, store: Store, mode: str) -> float | None:
    """The low end in dollars of what a plan's missing calls will cost, None where the price is unknown."""
    low = estimate(plan, store)[f"{mode}_low"]
    return None if low.isna().any() else float(low.sum())


def _line(prompt: str) -> dict:
    tokens = [f"tokens_{kind}{end}" for kind in ("in", "out") for end in ("", "_low", "_high")]
    counts = dict.fromkeys(("calls", "store", "recorded", "in_batches", "missing"), 0)
    return {"prompt": prompt, **counts, **dict.fromkeys((*tokens, *_AMOUNTS, "seconds"), 0.0), "basis": set()}


def _add(line: dict, judge: Judge, usage: Usage) -> None:
    for end, place in (("", 0), ("_low", 1), ("_high", 2)):
        line[f"tokens_in{end}"] += usage.tokens_in[place]
        line[f"tokens_out{end}"] += usage.tokens_out[place]
        for mode in ("live", "batch"):
            batch = mode == "batch"
            priced = judge.has_batches or not batch
            part = dollars(judge, usage.tokens_in[place], usage.tokens_out[place], batch=batch) if priced else None
            so_far = line[f"{mode}{end}"]
            line[f"{mode}{end}"] = None if part is None or so_far is None else so_far + part
    rates = [
        judge.requests_per_minute / 60,
        judge.tokens_per_minute / 60 / (usage.tokens_in[0] + usage.tokens_out[0]),
    ]
    line["seconds"] += max(usage.seconds / judge.in_flight, *(1 / rate for rate in rates if rate), 0)
    line["basis"].add(usage.basis)


def used(plan: Plan, store: Store, keys: Iterable[str], expected: Expected) -> pd.DataFrame:
    """The estimate beside what was used, for the plan's calls in `keys` that have a reply: those asked for just now.

    One line for `replies`, `tokens in`, `tokens out`, `dollars`, and the plan's other replies, which were replayed;
    columns `what, estimated, low, high, actual`. `expected` is from before the run. `actual` is missing where no
    reply says it, or a price is unknown.
    """
    keys, seen, replies, replayed, total = set(keys), set(), [], 0, _line("")
    for chunk in chunks(plan):
        calls = {call.key: call for call in chunk if call.key not in seen}
        found = store.get(calls)
        seen |= calls.keys()
        replies += [reply for key, reply in found.items() if key in keys]
        replayed += sum(key not in keys for key in found)
        for key in found.keys() & keys:
            _add(total, plan.judge, expected.usage(calls[key]))
    mode = "batch" if any(reply.batch for reply in replies) else "live"
    costs = [reply_dollars(plan.judge, reply) for reply in replies]
    actual = {
        "tokens in": [reply.tokens_in for reply in replies],
        "tokens out": [reply.tokens_out for reply in replies],
        "dollars": costs,
    }
    lines = [{"what": "replies", "estimated": len(replies), "actual": len(replies)}]
    for (what, values), name in zip(actual.items(), ("tokens_in", "tokens_out", mode), strict=True):
        ends = {
            end: total[f"{name}{suffix}"] for end, suffix in (("estimated", ""), ("low", "_low"), ("high", "_high"))
        }
        known = [value for value in values if value is not None]
        lines.append({"what": what, **ends, "actual": sum(known) if known or not values else None})
    lines.append({"what": "replayed, at no cost", "actual": replayed})
    types = dict.fromkeys(("estimated", "low", "high", "actual"), "Float64")
    return pd.DataFrame(lines, columns=["what", *types]).astype(types)


def _latest(store: Store, judge: Judge) -> list[Stored]:
    """The newest replies of the judge's model, at most 2,000, of the newest 20,000 in the store."""
    columns = ", ".join(COLUMNS[:-1])
    query = f"""SELECT * FROM (SELECT {columns} FROM calls ORDER BY rowid DESC LIMIT 20000)
        WHERE json_extract(request, '$.model') = ? AND json_extract(request, '$.provider') = ? LIMIT 2000"""
    return [Stored(*row) for row in store.execute(query, (judge.model, judge.provider))]


def _summary(calls: list[Stored]) -> tuple[tuple[float, float, float], float, float, int]:
    """Output tokens of a call (mean, and its range by two standard errors), the most of one, seconds, and n."""
    outs = [each.tokens_out for each in calls]
    mean = fmean(outs)
    wide = max(2 * stdev(outs) / len(outs) ** 0.5, 0.05 * mean)
    waits = [each.latency_s for each in calls if each.latency_s]
    seconds = fmean(waits) if waits else _SECONDS + mean / _TOKENS_A_SECOND
    return (mean, max(mean - wide, 0.0), mean + wide), 1.25 * max(outs), seconds, len(outs)
