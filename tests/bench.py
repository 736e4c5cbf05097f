"""Speed and memory as ratios to a yardstick measured in the same run: `make bench`.

Nothing here passes or fails: a busy machine is slow, and a ratio says more than a second.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd

from lib.conditions import CONDITIONS, apply, find
from lib.judges import load_judge
from lib.labels import build_rows
from lib.paper import FIGURES, draw, write_comparisons, write_tables
from lib.paper_tables import paper_tables
from lib.parsing import parse_reply
from lib.plan import Plan, judged_chunks
from lib.sources import DATASETS, load_questions
from lib.stats import cluster_bootstrap, question_wins
from lib.store import Store
from lib.texts import content_words
from tests import bench_hosted, papers
from tests.loopback import completion


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


def conditions() -> None:
    """Every condition over the sample's rows, copied to 100,000 with ids of their own."""
    sample = build_rows(pd.concat([load_questions(name) for name in DATASETS], ignore_index=True))
    copies = [sample.assign(question_id=sample["question_id"] + f"-{n}") for n in range(-(-100_000 // len(sample)))]
    many = pd.concat(copies, ignore_index=True)[:100_000]
    many["row_id"] = many["dataset"] + "/" + many["question_id"] + "/" + many["kind"]
    started = time.perf_counter()
    for reference, candidate in zip(many["reference"], many["candidate"], strict=True):
        content_words(reference), content_words(candidate)
    yardstick, seconds = time.perf_counter() - started, {}
    for name in CONDITIONS:
        started = time.perf_counter()
        # Beside the primary run, which changes nothing: some settings are this judge's own, and leave nothing to ask.
        apply(find(f"primary+{name}"), many, ("C.v1",), load_judge("smollm2"), 0)
        seconds[name] = time.perf_counter() - started
    slowest = max(seconds, key=seconds.get)
    all_of_them = {f"the slowest ({slowest})": seconds[slowest], f"all {len(seconds)}": sum(seconds.values())}
    for what, each in all_of_them.items():
        line(
            f"conditions, 100,000 rows: {what}", f"{each:.1f} s", f"{each / yardstick:.1f} x the words of both texts"
        )


def paper() -> None:
    """All tables, figures and comparisons of a paper of the study's size, from planted judgments."""
    m = papers.material()
    started = time.perf_counter()
    m.judged.groupby(["dataset", "judge", "design"])["correct"].mean()
    yardstick, seconds = time.perf_counter() - started, {}
    with tempfile.TemporaryDirectory() as name:
        started = time.perf_counter()
        made = paper_tables(m)
        write_tables(made, Path(name))
        seconds["twenty tables, four forms each"] = time.perf_counter() - started
        started = time.perf_counter()
        for each in FIGURES:
            draw(each.name, m, made, Path(name))
        seconds[f"{len(FIGURES)} figures, three forms each"] = time.perf_counter() - started
        started = time.perf_counter()
        write_comparisons(m, Path(name))
        seconds["reported beside reproduced, claims, arithmetic"] = time.perf_counter() - started
    seconds["all of it"] = sum(seconds.values())
    for what, each in seconds.items():
        line(f"paper, {len(m.judged):,} judgments: {what}", f"{each:.1f} s", f"{each / yardstick:,.0f} x their mean")


_LEXICAL = """
import asyncio, sys, time
from lib.judges import load_judge
from lib.plan import Plan, judged_chunks
from lib.run import execute
from lib.store import Store
from tests.bench import rows
from tests.bench_hosted import PROMPTS, peak_mb
n, path = int(sys.argv[1]), sys.argv[2]
plan = Plan(rows(n // 4), PROMPTS, load_judge("lexical"))
store = Store(path, recorded=())
started = time.perf_counter()
asyncio.run(execute(plan, store))
judged = sum(chunk["verdict"].notna().sum() for chunk in judged_chunks(plan, store))
print(judged, time.perf_counter() - started, peak_mb())
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
            f"{float(seconds):.1f} s, peak {float(peak):.0f} MB",
            growth,
        )


def main() -> None:
    print("| what | measured | ratio |\n|---|---|---|")
    with tempfile.TemporaryDirectory() as name:
        plan, store = bench_hosted.live(Path(name), rows, line)
        bench_hosted.store_overhead(Path(name), store, plan, line)
        replay(plan, store)
        bench_hosted.memory(Path(name), line)
        bench_hosted.killed(Path(name), rows, line)
        parser()
        statistics()
        conditions()
        paper()
        lexical(Path(name))
    line("peak memory of this process", f"{bench_hosted.peak_mb():.0f} MB")


if __name__ == "__main__":
    main()
