"""What a plan will use and cost before it runs, and what was used after it.

Unknown usage and unknown prices stay unknown. A call that costs no money costs 0.0 dollars.
"""

from __future__ import annotations

from collections.abc import Iterable

import pandas as pd

from lib.expected import Expected, Usage
from lib.judges import Judge
from lib.plan import Plan, chunks
from lib.prices import dollars, reply_dollars
from lib.store import Store

_AMOUNTS = tuple(f"{mode}{end}" for mode in ("live", "batch") for end in ("", "_low", "_high"))


def estimate(
    plan: Plan, store: Store, expected: Expected | None = None, seen: set[str] | None = None
) -> pd.DataFrame:
    """What a plan will use before it runs, one line a prompt. Asks nothing.

    Calls whose keys are in `seen` are left out, and those that are counted are added to it.
    Columns: `prompt`, distinct `calls`, those with a reply in `store` or `recorded`, `in_batches` under way, and
    those `to_ask`; for these `tokens_in, tokens_out` with their `_low, _high`, dollars `live, batch` with
    theirs (missing where the price is unknown), `seconds` live at the judge's calls in flight and limits, and
    `basis`: what it rests on.
    """
    expected, seen = expected or Expected(plan.judge, store), set() if seen is None else seen
    lines = {prompt: _line(prompt) for prompt in plan.asked_prompts()}
    for chunk in chunks(plan):
        fresh = {call.key: call for call in chunk if call.key not in seen}
        where, sent = store.where(fresh), store.in_batches(fresh)
        seen.update(fresh)
        for key, call in fresh.items():
            place = where.get(key, "in_batches" if key in sent else "to_ask")
            lines[call.prompt_id]["calls"] += 1
            lines[call.prompt_id][place] += 1
            if place == "to_ask":
                _add(lines[call.prompt_id], plan.judge, expected.usage(call))
    frame = pd.DataFrame([{**line, "basis": ", ".join(sorted(line["basis"]))} for line in lines.values()])
    if not plan.judge.has_batches:
        frame[["batch", "batch_low", "batch_high"]] = None
    return frame.astype(dict.fromkeys(_AMOUNTS, "Float64"))


def lowest(plan: Plan, store: Store, mode: str) -> float | None:
    """The low end in dollars of what a plan's calls to ask will cost, None where the price is unknown."""
    low = estimate(plan, store)[f"{mode}_low"]
    return None if low.isna().any() else float(low.sum())


def _line(prompt: str) -> dict:
    tokens = [f"tokens_{kind}{end}" for kind in ("in", "out") for end in ("", "_low", "_high")]
    counts = dict.fromkeys(("calls", "store", "recorded", "in_batches", "to_ask"), 0)
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
    columns `what, estimated, low, high, actual`. `expected` is from before the run. `actual` is missing where a
    reply does not say it, or a price is unknown.
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
        # A sum that leaves some out would be too small.
        lines.append({"what": what, **ends, "actual": None if None in values else sum(values)})
    lines.append({"what": "replayed, at no cost", "actual": replayed})
    types = dict.fromkeys(("estimated", "low", "high", "actual"), "Float64")
    return pd.DataFrame(lines, columns=["what", *types]).astype(types)
