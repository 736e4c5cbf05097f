"""Ask the embedded judges about the sample data and write their replies to `data/recorded` (`make record`).

A maintainer's command: 1,080 calls, over an hour on two cores. It goes through the store, so it can be stopped and
goes on from there; what is recorded already is not asked again.
"""

from __future__ import annotations

import asyncio

import pandas as pd

from lib import paths
from lib.judges import load_judge
from lib.labels import build_rows
from lib.plan import Plan
from lib.recorded import read_recorded, write_recorded
from lib.results import PRIMARY
from lib.run import execute
from lib.sources import DATASETS, load_questions
from lib.store import Store

# Judge and questions a dataset: the free form costs more and says little, so a slice is enough.
RECORDED = (("smollm2", None), ("smollm2-free", 5))


def recorded_plan(judge: str, n: int | None) -> Plan:
    """The calls that `data/recorded/<judge>.jsonl.gz` holds."""
    questions = [load_questions(dataset, n=n) for dataset in DATASETS]
    return Plan(pd.concat([build_rows(each) for each in questions], ignore_index=True), PRIMARY, load_judge(judge))


def main() -> None:
    for judge, n in RECORDED:
        plan = recorded_plan(judge, n)
        path = paths.RECORDED / f"{judge}.jsonl.gz"
        old = read_recorded(path) if path.exists() else []
        store = Store(recorded=[path] if old else [])
        outcome = asyncio.run(execute(plan, store))
        # The recorded reply stays where there is one: a second recording changes nothing.
        calls = store.get(call.key for call in plan) | {call.key: call for call in old}
        wanted = {call.key for call in plan}
        write_recorded(path, [call for key, call in calls.items() if key in wanted])
        print(f"{paths.shown(path)}: {len(wanted)} calls, {outcome.answered} asked now, {outcome.missing} missing")
        store.close()


if __name__ == "__main__":
    main()
