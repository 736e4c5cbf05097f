"""Speed and memory as ratios to a yardstick measured in the same run: `make bench`.

Nothing here passes or fails: a busy machine is slow, and a ratio says more than a second.
"""

from __future__ import annotations

import asyncio
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd

import lib.providers.openai  # noqa: F401  (its import takes a second, once; it is not what is measured)
from lib.judges import Judge
from lib.parsing import parse_reply
from lib.plan import Plan, judged_chunks
from lib.run import execute
from lib.stats import cluster_bootstrap, question_wins
from lib.store import Store
from tests.loopback import completion

IN_FLIGHT, DELAY_S, CALLS = 100, 0.05, 4_000
PROMPTS = ("C.v1", "H.v1", "R.v1", "B.v1")


def rows(n: int) -> pd.DataFrame:
    """n rows of the sample's length and shape, all with their own text."""
    number = np.arange(n)
    full = number % 2 == 0
    text = [f"Which metals does shelf {i // 2} hold, and since when?" for i in number]
    reference = [
        f"Shelf {i // 2} holds iron, copper and zinc. It has held them since {1900 + i % 99}." for i in number
    ]
    candidate = [r if f else f"Shelf {i // 2} holds iron." for i, r, f in zip(number, reference, full, strict=True)]
    frame = pd.DataFrame({"question_id": (number // 2).astype(str), "question": text, "reference": reference})
    frame["candidate"], frame["dataset"], frame["complexity"] = candidate, "asqa", 2
    frame["kind"] = np.where(full, "full", "partial")
    frame["label"] = np.where(full, "supported", "partially_supported")
    return frame.assign(row_id="asqa/" + frame["question_id"] + "/" + frame["kind"])


def line(what: str, value: str, ratio: str = "") -> None:
    print(f"| {what} | {value} | {ratio} |", flush=True)


async def bare(url: str, bodies: list[dict]) -> float:
    """Calls a second of a bare aiohttp loop with as many in flight."""
    import aiohttp

    waiting = iter(bodies)

    async def worker(session):
        for body in waiting:
            async with session.post(f"{url}/chat/completions", json=body) as response:
                await response.json()

    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=IN_FLIGHT)) as session:
        started = time.perf_counter()
        await asyncio.gather(*(worker(session) for _ in range(IN_FLIGHT)))
    return len(bodies) / (time.perf_counter() - started)


def live(folder: Path) -> None:
    command = [sys.executable, "-m", "tests.loopback", str(DELAY_S)]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        url = f"http://127.0.0.1:{server.stdout.readline().strip()}/v1"
        judge = Judge("bench", "openai", "m", base_url=url, in_flight=IN_FLIGHT)
        plan = Plan(rows(CALLS // 4), PROMPTS, judge)
        bodies = [{"model": "m", "messages": call.request["messages"]} for call in plan]
        yardstick = asyncio.run(bare(url, bodies))
        line(f"bare aiohttp, {IN_FLIGHT} in flight, {DELAY_S * 1000:.0f} ms", f"{yardstick:,.0f} calls/s", "1.00")
        store = Store(folder / "live.sqlite", recorded=())
        outcome = asyncio.run(execute(plan, store))
        rate = outcome.answered / outcome.seconds
        line("runner with store, through the SDK", f"{rate:,.0f} calls/s", f"{rate / yardstick:.2f} of bare aiohttp")
        replay(plan, store)
    finally:
        server.kill()


def replay(plan: Plan, store: Store) -> None:
    started = time.perf_counter()
    for chunk in judged_chunks(plan, store):
        assert chunk["verdict"].notna().all()
    rate = len(plan) / (time.perf_counter() - started)
    texts = [json.dumps(completion())] * 20_000
    started = time.perf_counter()
    for text in texts:
        json.loads(text)
    bare_rate = len(texts) / (time.perf_counter() - started)
    line(
        "replay: render, key, look up, parse",
        f"{rate:,.0f} judgments/s",
        f"{rate / bare_rate:.3f} of bare json.loads",
    )


def parser() -> None:
    reply = json.dumps({"verdict": "supported", "rationale": "x" * 1_000_000})
    started = time.perf_counter()
    json.loads(reply)
    yardstick = time.perf_counter() - started
    traps = {
        "1 MB whole reply": reply,
        "1 MB of {": "{" * 1_000_000,
        '1 MB of {"a":': '{"a":' * 200_000,
        "1 MB of objects": '{"verdict":"supported"} ' * 41_666,
        "1 MB of prose": "The verdict: is not clear. " * 37_037,
    }
    for name, text in traps.items():
        started = time.perf_counter()
        parse_reply(text)
        seconds = time.perf_counter() - started
        line(f"parser, {name}", f"{seconds:.2f} s", f"{seconds / yardstick:,.0f} x json.loads of 1 MB")


def statistics() -> None:
    rng = np.random.default_rng(0)
    clusters, slices = np.repeat(np.arange(200), 2), rng.integers(-1, 2, size=(110, 400))
    one = slices[0].astype(float)
    started = time.perf_counter()
    for _ in range(100):
        one.take(rng.integers(0, 400, 400)).mean()
    yardstick = (time.perf_counter() - started) * 100
    started = time.perf_counter()
    for values in slices:
        cluster_bootstrap(values, clusters)
    seconds = time.perf_counter() - started
    each = seconds / len(slices)
    line(
        "bootstraps of the whole study (110 x 10,000 resamples)",
        f"{seconds:.2f} s",
        f"{each / yardstick:.3f} of a loop",
    )
    judged = rows(50_000)
    frame = pd.concat([judged.assign(design=name, correct=judged["kind"] == "full") for name in ("C", "H")])
    started = time.perf_counter()
    question_wins(frame, "C", "H")
    line("question_wins, 100,000 rows", f"{time.perf_counter() - started:.2f} s")


_LEXICAL = """
import asyncio, resource, sys, time
from dataclasses import replace
from lib.judges import load_judge
from lib.plan import Plan, judged_chunks
from lib.run import execute
from lib.store import Store
from tests.bench import PROMPTS, rows
n, path = int(sys.argv[1]), sys.argv[2]
plan = Plan(rows(n // 4), PROMPTS, load_judge("lexical"))
store = Store(path, recorded=())
started = time.perf_counter()
asyncio.run(execute(plan, store))
judged = sum(chunk["verdict"].notna().sum() for chunk in judged_chunks(plan, store))
print(judged, time.perf_counter() - started, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def lexical(folder: Path) -> None:
    first = None
    for n in (10_000, 100_000):
        command = [sys.executable, "-c", _LEXICAL, str(n), str(folder / f"lexical-{n}.sqlite")]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        judged, seconds, peak = done.stdout.split()
        assert int(judged) == n
        each = float(seconds) / n
        first = first or each
        growth = f"{each / first:.2f} of the cost a row at 10,000"
        line(
            f"lexical, {n:,} judgments, stored and read back",
            f"{float(seconds):.1f} s, peak {int(peak) / 1e3:.0f} MB",
            growth,
        )


def main() -> None:
    print("| what | measured | ratio |\n|---|---|---|")
    with tempfile.TemporaryDirectory() as name:
        live(Path(name))
        parser()
        statistics()
        lexical(Path(name))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    line("peak memory of this process", f"{peak:.0f} MB")


if __name__ == "__main__":
    main()
