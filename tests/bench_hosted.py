"""The part of `make bench` on hosted judges: the three SDKs, the store, and runs that are killed."""

from __future__ import annotations

import asyncio
import random
import re
import resource
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from lib.judges import Judge, open_provider
from lib.plan import Plan
from lib.run import execute
from lib.store import Store
from tests.fakes import Fakes

IN_FLIGHT, DELAY_S, CALLS, KILLS = 100, 0.05, 4_000, 20
PROMPTS = ("C.v1", "H.v1", "R.v1", "B.v1")
PROVIDERS = ("openai", "anthropic", "google")


def peak_mb() -> float:
    """The peak memory of this process. Not by getrusage alone: a child starts with its parent's."""
    status = Path("/proc/self/status")
    if status.exists():
        return int(re.search(r"VmHWM:\s+(\d+) kB", status.read_text())[1]) / 1e3
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1e6 if sys.platform == "darwin" else 1e3)


@contextmanager
def server() -> Iterator[str]:
    """The root address of a server that answers after `DELAY_S`, in a process of its own."""
    command = [sys.executable, "-m", "tests.fakes", str(DELAY_S)]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        yield f"http://127.0.0.1:{child.stdout.readline().strip()}"
    finally:
        child.kill()


def judge_at(root: str, provider: str, in_flight: int = IN_FLIGHT) -> Judge:
    url = f"{root}/v1" if provider == "openai" else root
    return Judge("bench", provider, "m", base_url=url, in_flight=in_flight, open_cap=500 * (provider == "anthropic"))


async def bare(url: str, bodies: list[dict]) -> float:
    """Calls a second of a bare aiohttp loop with as many in flight."""
    import aiohttp

    waiting = iter(bodies)

    async def worker(session):
        for body in waiting:
            async with session.post(f"{url}/v1/chat/completions", json=body) as response:
                await response.json()

    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=IN_FLIGHT)) as session:
        started = time.perf_counter()
        await asyncio.gather(*(worker(session) for _ in range(IN_FLIGHT)))
    return len(bodies) / (time.perf_counter() - started)


async def adapter(plan: Plan) -> float:
    """Calls a second of the adapter alone: the SDK, without runner and store."""
    provider, waiting = open_provider(plan.judge), iter(list(plan))

    async def worker():
        for call in waiting:
            await provider.ask(call.request)

    await provider.ask(next(iter(plan)).request)  # the first call loads what the SDK loads late
    started = time.perf_counter()
    await asyncio.gather(*(worker() for _ in range(IN_FLIGHT)))
    rate = len(plan) / (time.perf_counter() - started)
    await provider.close()
    return rate


def where_the_time_goes(plan: Plan) -> str:
    """The share of the Gemini adapter's time that is spent on turning a request into the API's form."""
    import cProfile
    import pstats

    profile = cProfile.Profile()
    profile.runcall(asyncio.run, adapter(replace(plan, rows=plan.rows[:150])))
    spent = {name[2]: numbers[3] for name, numbers in pstats.Stats(profile).stats.items()}
    share = spent["_GenerateContentParameters_to_mldev"] / spent["generate_content"]
    return f"{100 * share:.0f} % of the SDK's call is its conversion of the request (profiled)"


def live(folder: Path, rows, line: Callable[..., None]) -> tuple[Plan, Store]:
    """Calls a second through each SDK. Returns the OpenAI plan with its store, for the replay."""
    with server() as root:
        plans = {name: Plan(rows(CALLS // 4), PROMPTS, judge_at(root, name)) for name in PROVIDERS}
        bodies = [{"model": "m", "messages": call.request["messages"]} for call in plans["openai"]]
        yardstick = asyncio.run(bare(root, bodies))
        line(f"bare aiohttp, {IN_FLIGHT} in flight, {DELAY_S * 1000:.0f} ms", f"{yardstick:,.0f} calls/s", "1.00")
        for name, plan in plans.items():
            alone = asyncio.run(adapter(plan))
            line(f"{name}: the adapter alone", f"{alone:,.0f} calls/s", f"{alone / yardstick:.2f} of bare aiohttp")
            store = Store(folder / f"{name}.sqlite", recorded=())
            outcome = asyncio.run(execute(plan, store))
            rate = outcome.answered / outcome.seconds
            line(f"{name}: runner with store", f"{rate:,.0f} calls/s", f"{rate / yardstick:.2f} of bare aiohttp")
        line("google: where the time goes", where_the_time_goes(plans["google"]))
        return plans["openai"], Store(folder / "openai.sqlite", recorded=())


def store_overhead(folder: Path, filled: Store, plan: Plan, line: Callable[..., None]) -> None:
    """Milliseconds that a reply costs in the store, committed as a run commits them, beside bare SQLite."""
    calls, size = list(filled.get(call.key for call in plan).values())[:2_000], 2 * IN_FLIGHT
    store = Store(folder / "overhead.sqlite", recorded=())
    started = time.perf_counter()
    for start in range(0, len(calls), size):
        store.claim([call.key for call in calls[start : start + size]])
        store.put(calls[start : start + size])
    each = (time.perf_counter() - started) / len(calls)
    db = sqlite3.connect(folder / "bare.sqlite", isolation_level=None)
    db.execute("PRAGMA journal_mode=WAL")
    db.execute("PRAGMA synchronous=FULL")
    db.execute("CREATE TABLE calls (key TEXT PRIMARY KEY, request TEXT, text TEXT)")
    started = time.perf_counter()
    for start in range(0, len(calls), size):
        db.execute("BEGIN")
        part = [(call.key, call.request, call.text) for call in calls[start : start + size]]
        db.executemany("INSERT INTO calls VALUES (?, ?, ?)", part)
        db.execute("COMMIT")
    alone = (time.perf_counter() - started) / len(calls)
    line("store: claim and commit a reply", f"{1000 * each:.3f} ms", f"{each / alone:.1f} x a bare insert")


_KEPT = """
import sys
from lib.cost import estimate
from lib.judges import Judge
from lib.plan import Plan, judged_chunks
from lib.recorded import stored
from lib.providers import Reply
from lib.store import Store
from tests.bench import rows
from tests.bench_hosted import peak_mb
from tests.loopback import REPLY
n, path = int(sys.argv[1]), sys.argv[2]
plan = Plan(rows(n // 4), ("C.v1", "H.v1", "R.v1", "B.v1"), Judge("bench", "openai", "m"))
store, part = Store(path, recorded=()), []
how = {"latency_s": 1.0, "attempts": 1, "sdk": "bench", "at": "2026-11-30T00:00:00Z"}
for call in plan:
    part.append(stored(call.key, call.text, Reply(REPLY, "stop", "m", 500, 100, raw=REPLY), **how))
    if len(part) == 500:
        store.put(part); part = []
store.put(part)
assert estimate(plan, store)["to_ask"].sum() == 0
assert sum(len(chunk) for chunk in judged_chunks(plan, store)) == n
print(peak_mb())
"""


def memory(folder: Path, line: Callable[..., None]) -> None:
    first = 0.0
    for n in (1_000, 100_000):
        command = [sys.executable, "-c", _KEPT, str(n), str(folder / f"kept-{n}.sqlite")]
        peak = float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
        first = first or peak
        what = f"{n:,} stored replies: surveyed, estimated, read back"
        line(what, f"peak {peak:.0f} MB", f"{peak / first:.2f} of the peak at 1,000")


_KILLED = """
import asyncio, sys
from lib.plan import Plan
from lib.run import execute
from lib.store import Store
from tests.bench import rows
from tests.bench_hosted import PROMPTS, judge_at
plan = Plan(rows(50), PROMPTS, judge_at(sys.argv[1], sys.argv[2], in_flight=8))
asyncio.run(execute(plan, Store(sys.argv[3], recorded=())))
"""


def killed(folder: Path, rows, line: Callable[..., None]) -> None:
    """Runs that are killed at random moments and then finished: what the server answered and the store lacks."""
    rng, lost, repeated, cut = random.Random(0), 0, 0, 0
    for number in range(KILLS):
        provider, path = PROVIDERS[number % 3], folder / f"killed-{number}.sqlite"
        with Fakes(delay=0.02) as fake:
            root = fake.base_url.removesuffix("/v1")
            plan = Plan(rows(50), PROMPTS, judge_at(root, provider, in_flight=8))
            child = subprocess.Popen([sys.executable, "-c", _KILLED, root, provider, str(path)])
            threading.Event().wait(rng.uniform(1.5, 4.0))
            child.send_signal(signal.SIGKILL)
            child.wait()
            # What the server was asked and the disk does not hold were calls under way, at most 8.
            held = Store(path, recorded=())
            under_way = len(fake.requests) - len(held)
            lost += max(0, under_way - 8)
            before = set(held.where(call.key for call in plan))
            asyncio.run(execute(plan, held))
            lost += len(before - set(held.where(before))) + len(plan) - len(held)
            repeated += len(fake.requests) - len(plan) - under_way
            cut += under_way
    said = f"{lost} replies lost, {repeated} calls repeated"
    line(f"kill -9 in {KILLS} runs of 200 calls", said, f"{cut} calls under way when killed, asked again")
