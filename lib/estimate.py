"""What a sweep of `20-judge` would use and cost, before anything is asked and without a key (`make estimate`).

Rows that cannot be had here are stood in for by the sample's, and the table says so.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import pandas as pd

from lib.conditions import GROUPS, NothingToAsk, apply, find
from lib.cost import estimate
from lib.expected import Expected
from lib.generate import rows_by
from lib.judges import load_judge
from lib.labels import build_rows
from lib.notebooks import declared_parameters, notebook_path
from lib.params import source_of
from lib.plan import PRIMARY_RUN
from lib.sources import load_questions
from lib.store import Store
from lib.sweeps import read_grid
from lib.tables import markdown, money


def estimate_sweep(grid: Path, store: Store) -> pd.DataFrame:
    """The estimates of `lib.cost.estimate` for every judge x dataset x prompt of a grid of `20-judge`.

    A call that several points share is counted at the first. Adds the columns `judge`, `condition` (as the grid names
    it), `dataset`, and `lengths`: `rows`, or that the sample's texts stand in for them. Raises ValueError for a bad
    grid.
    """
    # What the hub's client says of each of its tries would bury the table; why it failed is printed once.
    os.environ.setdefault("HF_HUB_VERBOSITY", "error")
    parts, known, unreached, seen = [], {}, set(), set()
    expected: dict[str, Expected] = {}
    defaults = declared_parameters(notebook_path("20-judge"))
    for run in read_grid(grid):
        p = SimpleNamespace(**{**defaults, **run.values})
        for dataset in p.datasets:
            rows = (dataset, str(source_of_text(dataset, p)), p.n_questions, p.seed, tuple(p.generators))
            if rows not in known:
                known[rows] = _rows(dataset, p, store, unreached)
            frame, lengths = known[rows]
            judge, conditions = load_judge(p.judge), find(p.condition)
            with suppress(NothingToAsk):
                plan = apply(conditions, frame, p.designs, judge, p.seed).plan
                part = estimate(plan, store, expected.setdefault(p.judge, Expected(judge, store)), seen)
                parts.append(part.assign(judge=p.judge, condition=p.condition, dataset=dataset, lengths=lengths))
    return pd.concat(parts, ignore_index=True)


def estimate_groups(rows: pd.DataFrame, prompts: Sequence[str], judges: Sequence[str], seed: int) -> pd.DataFrame:
    """What each group of conditions would use on `rows`, by judge, before anything is stored.

    Columns of `lib.cost.estimate` and judge, group. A call that an earlier group makes too is not counted again.
    """
    parts, empty = [], Store(":memory:", recorded=())
    for name in judges:
        judge, seen = load_judge(name), set()
        expected = Expected(judge, empty)
        for group in GROUPS:
            with suppress(NothingToAsk):
                plan = apply(find(group), rows, prompts, judge, seed).plan
                parts.append(estimate(plan, empty, expected, seen).assign(judge=name, group=group))
    return pd.concat(parts, ignore_index=True)


def groups_markdown(estimates: pd.DataFrame) -> str:
    """The table of `estimate_groups` for people: a line a group, a column a judge with calls and dollars live."""
    lines = []
    for group in [*dict.fromkeys(estimates["group"]), "all"]:
        line = {"group": group}
        for judge, mine in estimates.groupby("judge", sort=False):
            part = mine if group == "all" else mine[mine["group"] == group]
            sums = part[["calls", "live", "live_low", "live_high"]].sum(skipna=False)
            line[judge] = f"{sums['calls']:,.0f} calls, {money(sums['live'], sums['live_low'], sums['live_high'])}"
        lines.append(line)
    return markdown(pd.DataFrame(lines))


def source_of_text(dataset: str, p) -> str:
    """Where a dataset's rows come from, as text, whether or not it is there."""
    return str(p.files.get(dataset, p.source))


def _rows(dataset: str, p, store: Store, unreached: set[str]) -> tuple[pd.DataFrame, str]:
    questions = None
    try:
        if dataset not in p.files and p.source in unreached:
            raise ValueError(f"the {p.source} could not be reached for another dataset, and is not tried again")
        questions = load_questions(dataset, source_of(dataset, p), p.n_questions, p.seed)
        return rows_by(p.generators, questions, store), "rows"
    except Exception as error:  # no network, no file, no answers yet: whatever it is, an estimate can still be made
        print(f"{dataset}: {' '.join(str(error).split())[:300]}", file=sys.stderr)
        if questions is None and dataset not in p.files:
            unreached.add(p.source)
    sample = build_rows(load_questions(dataset))
    n_rows = 2 * p.n_questions * max(1, len(p.generators))
    copies = -(-n_rows // len(sample))
    many = [
        sample.assign(row_id=sample["row_id"] + f"-{n}", question=sample["question"] + f" {n}") for n in range(copies)
    ]
    return pd.concat(many, ignore_index=True)[:n_rows], "sample's texts"


def summary(estimates: pd.DataFrame) -> str:
    """The estimates by judge and prompt (by judge and condition, if there is another than the primary run), and their
    sum, as Markdown."""
    shown = []
    by = "prompt" if (estimates["condition"] == PRIMARY_RUN).all() else "condition"
    groups = [*estimates.groupby(["judge", by], sort=False), (("all", ""), estimates)]
    for (judge, name), part in groups:
        numbers = part.select_dtypes("number").sum(skipna=False)
        price = load_judge(judge).price.get("read", "") if judge != "all" else ""
        shown.append(
            {
                "judge": judge,
                by: name,
                "calls": f"{numbers['calls']:,.0f}",
                "in batches": f"{numbers['in_batches']:,.0f}",
                "to ask": f"{numbers['to_ask']:,.0f}",
                "tokens in": f"{numbers['tokens_in']:,.0f}",
                "tokens out": f"{numbers['tokens_out']:,.0f}",
                "live": money(numbers["live"], numbers["live_low"], numbers["live_high"]),
                "batch": money(numbers["batch"], numbers["batch_low"], numbers["batch_high"]),
                "price read": price,
            }
        )
    return markdown(pd.DataFrame(shown))


def main(arguments: list[str]) -> int:
    """`python -m lib.estimate GRID` prints the table."""
    try:
        estimates = estimate_sweep(Path(arguments[0]), Store())
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(f"\n{summary(estimates)}\n")
    rest = sorted({basis for text in estimates["basis"] for basis in text.split(", ") if basis})
    print(f"Tokens rest on: {', '.join(rest) or 'nothing, for all is there'}.")
    print("Brackets hold the range. Prices are those of judges.yaml; replies that are stored cost nothing again.")
    for lengths, part in estimates.groupby("lengths"):
        if lengths != "rows":
            names = ", ".join(part["dataset"].unique())
            print(f"The rows of {names} could not be loaded here: the sample's shorter texts stand in for them.")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
