"""The diagnostics of one judge on one slice: which judgments there should be, which are there, and what is missing.

The conditions are applied again to the slice's rows, and a judgment counts only if its call's key is the one that
follows from them: a cell made from other texts or settings is named, not read. No call is made.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import product
from types import SimpleNamespace

import pandas as pd

from lib.conditions import ALL, CONDITIONS, Applied, apply, find, reasons
from lib.judges import load_judge
from lib.params import run_name
from lib.plan import PRIMARY_RUN
from lib.results import PRIMARY, cell_path, command, read_rows

_PLACE = {name: place for place, name in enumerate(CONDITIONS)}


@dataclass(frozen=True)
class Slice:
    """One judge's diagnostics.

    `rows` are the slice's, `applied` every condition applied to them, `judged` the judgments that are there (columns
    of `lib.plan.judgments`), `absent` the cells (condition, dataset, prompt) that are not there or were made
    otherwise, a prompt that was never asked under every condition; `notes` says so with the commands that make them.
    """

    judge: str
    run: str
    rows: pd.DataFrame = field(repr=False)
    applied: Applied | None = field(repr=False)
    judged: pd.DataFrame = field(repr=False)
    absent: list[tuple[str, str, str]] = field(repr=False)
    notes: list[str]


def read_slices(p) -> list[Slice]:
    """The diagnostics of every judge that `p.slices` names, with its number of questions a dataset.

    Raises ValueError for no judge, one without an entry, and a slice that is no number.
    """
    if not p.slices:
        raise ValueError("slices must name at least one judge, with its questions a dataset: {lexical: 20}")
    return [read_slice(p, judge, n) for judge, n in p.slices.items()]


def read_slice(p, judge: str, n_questions: int) -> Slice:
    """The diagnostics of `judge` on `n_questions` questions a dataset.

    `p` has source, files, datasets, seed and designs. Prompts are those of `designs` with a primary run on the
    slice. Raises ValueError as `read_slices`.
    """
    if not isinstance(n_questions, int) or isinstance(n_questions, bool):
        raise ValueError(f"slices: {judge} must have a number of questions a dataset, not {n_questions!r}")
    q = SimpleNamespace(**{**vars(p), "n_questions": n_questions})
    run, entry = run_name(q), load_judge(judge)
    rows = read_rows(run, p.datasets)
    known = set(rows["dataset"]) if len(rows) else set()
    cells = [(PRIMARY_RUN, dataset, prompt) for dataset in p.datasets for prompt in p.designs]
    there = [cell for cell in cells if cell[1] in known and cell_path(run, judge, *cell).exists()]
    prompts = [prompt for prompt in p.designs if any(cell[2] == prompt for cell in there)]
    never = [prompt for prompt in p.designs if prompt not in prompts]
    notes = _absent(q, judge, [cell for cell in cells if cell not in there and cell[2] in prompts], "not asked")
    if never:
        every = command(q, judge, [(ALL, *cell) for cell in product(p.datasets, never)])
        notes.append(f"{judge} was not asked in {', '.join(never)}, so it is left out there. To ask it: {every}")
    # A condition with prompts of its own is not the designs' that were never asked.
    others = [name for name, each in CONDITIONS.items() if not (prompts and each.prompts)]
    unasked = [(condition, *cell) for condition in others for cell in product(p.datasets, never)]
    if not prompts:
        return Slice(judge, run, rows, None, pd.DataFrame(), unasked, notes)
    applied = apply(find(ALL), rows, prompts, entry, p.seed)
    found, absent, stale = [], [], []
    for cell, expected in _expected(applied).items():
        path = cell_path(run, judge, *cell)
        judged = pd.read_parquet(path) if path.exists() else None
        if judged is None:
            absent.append(cell)
        elif list(zip(judged["key"], judged["label"], strict=True)) == expected:
            found.append(judged)
        else:
            stale.append(cell)
    absent = [cell for cell in absent if cell not in cells]
    if len(found) + len(stale) == len(there) == len(p.datasets) * len(prompts):
        every = command(q, judge, [(ALL, *cell[1:]) for cell in there])
        notes.append(f"{judge} was asked under no condition. To ask it: {every}")
    else:
        notes += _absent(q, judge, absent, "not asked")
    notes += _absent(q, judge, stale, "made from other texts, labels or settings")
    judged = pd.concat(found, ignore_index=True) if found else pd.DataFrame()
    unasked += [cell for cell in cells if cell not in there and cell[2] in prompts] + absent + stale
    return Slice(judge, run, rows, applied, judged, unasked, notes)


def _expected(applied: Applied) -> dict[tuple[str, str, str], list[tuple[str, str]]]:
    """The key and the label of every judgment that there should be, by condition, dataset and prompt."""
    found: dict[tuple[str, str, str], list[tuple[str, str]]] = {}
    conditions, datasets, labels = (applied.plan.rows[name].tolist() for name in ("condition", "dataset", "label"))
    for call in applied.plan:
        cell = (conditions[call.row], datasets[call.row], call.prompt_id)
        found.setdefault(cell, []).append((call.key, labels[call.row]))
    return found


def _absent(q, judge: str, cells: Sequence[tuple[str, str, str]], why: str) -> list[str]:
    """One note, with one command, for all cells that are missing in the same datasets and prompts."""
    needs: dict[str, dict[str, list[str]]] = {}
    for condition, dataset, prompt in cells:
        needs.setdefault(condition, {}).setdefault(dataset, []).append(prompt)
    asked: dict[tuple, list[str]] = {}
    for condition, by_dataset in needs.items():
        for prompts in dict.fromkeys(map(tuple, by_dataset.values())):
            datasets = tuple(name for name, missing in by_dataset.items() if tuple(missing) == prompts)
            # A condition with prompts of its own brings them along: they are no designs of the run.
            own = (q.designs[0],) if CONDITIONS[condition].prompts else prompts
            asked.setdefault((datasets, own, len(prompts)), []).append(condition)
    notes = []
    for (datasets, prompts, count), conditions in asked.items():
        run = [(condition, *cell) for condition in conditions for cell in product(datasets, prompts)]
        number = len(conditions) * len(datasets) * count
        notes.append(f"{judge}, {number} cells {why} ({', '.join(conditions)}): {command(q, judge, run)}")
    return notes


def folder(slices: Sequence[Slice], p) -> str:
    """The name under which the diagnostics of these slices are written: other judges or rows never overwrite it."""
    designs = "" if tuple(p.designs) == PRIMARY else "--" + "+".join(p.designs)
    return "diagnostics--" + "+".join(f"{each.judge}--{each.run}" for each in slices) + designs


def skipped_table(slices: Sequence[Slice]) -> pd.DataFrame:
    """What conditions say nothing about: condition, dataset, reason, and `rows` for each judge."""
    parts = [reasons(each.applied.skipped).assign(judge=each.judge) for each in slices if each.applied]
    keys = ["condition", "dataset", "reason"]
    if not parts:
        return pd.DataFrame(columns=keys)
    table = pd.concat(parts, ignore_index=True)
    wide = table.pivot(index=keys, columns="judge", values="rows").fillna(0).astype(int)
    order = table[keys].drop_duplicates().sort_values("condition", key=lambda names: names.map(_PLACE), kind="stable")
    return wide.loc[list(order.itertuples(index=False, name=None))].reset_index()


def own_references(slices: Sequence[Slice]) -> int:
    """How many rows got a reference of their own question for another's: none should."""
    count = 0
    for each in slices:
        if each.applied:
            own = each.rows.groupby(["dataset", "question_id"])["reference"].agg(set)
            swapped = each.applied.plan.rows.query("condition == 'reference-swapped'")
            keys = zip(swapped["dataset"], swapped["question_id"], swapped["reference"], strict=True)
            count += sum(reference in own[dataset, question] for dataset, question, reference in keys)
    return count
