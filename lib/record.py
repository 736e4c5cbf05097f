"""Ask the embedded judges about the sample data and write their replies to `data/recorded` (`make record`).

A maintainer's command: some 2,000 calls, over two hours on two cores. It goes through the store, so it can be stopped
and goes on from there; what is recorded already is not asked again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pandas as pd

from lib import paths
from lib.conditions import apply, find
from lib.generate import Answers, rows_by
from lib.judges import load_judge
from lib.labels import build_rows
from lib.plan import Plan
from lib.recorded import read_recorded, write_recorded
from lib.results import PRIMARY
from lib.run import execute
from lib.sources import DATASETS, load_questions
from lib.store import Store

# The generators whose answers to the sample's ASQA questions are recorded, and how these are judged.
GENERATORS = ("smollm2-free", "smollm2-warm")
GENERATED = ("C.v1", "H.v1", "R.v1")


def recorded_plans(store: Store) -> Iterator[tuple[str, Plan | Answers]]:
    """The files of `data/recorded` with the calls of each. One that needs the replies of another comes after it.

    The free form costs more and says little, and so small a model says little under any condition: a slice is enough.
    """
    yield "smollm2", construction_plan("smollm2", None, PRIMARY, "primary")
    yield "smollm2-free", construction_plan("smollm2-free", 5, PRIMARY, "primary")
    yield "smollm2-conditions", construction_plan("smollm2", 4, ("C.v1", "H.v1"), "all")
    questions = load_questions("asqa")
    for name in GENERATORS:
        yield f"answers-{name}", Answers(questions, load_judge(name))
    yield "smollm2-generated", Plan(rows_by(GENERATORS, questions, store), GENERATED, load_judge("smollm2"))


def construction_plan(judge: str, n: int | None, prompts: tuple[str, ...], conditions: str) -> Plan:
    """The calls of one judge on the first n sample questions of each dataset."""
    rows = build_rows(pd.concat([load_questions(dataset, n=n) for dataset in DATASETS], ignore_index=True))
    return apply(find(conditions), rows, prompts, load_judge(judge), seed=0).plan


def main() -> None:
    written: set[str] = set()
    store = Store()
    for name, plan in recorded_plans(store):
        path = paths.RECORDED / f"{name}.jsonl.gz"
        old = read_recorded(path) if path.exists() else []
        # A call that an earlier file holds is not written again.
        wanted = {call.key for call in plan} - written
        written |= wanted
        outcome = asyncio.run(execute(plan, store))
        # The recorded reply stays where there is one: a second recording changes nothing.
        calls = store.get(wanted) | {call.key: call for call in old}
        write_recorded(path, [call for key, call in calls.items() if key in wanted])
        print(f"{paths.shown(path)}: {len(wanted)} calls, {outcome.answered} asked now, {outcome.missing} missing")
    store.close()


if __name__ == "__main__":
    main()
