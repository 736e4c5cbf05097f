"""The diagnostics of one judge on one slice: which judgments there should be, which are there, and what is missing.

The conditions are applied again to the slice's rows, and a judgment counts only if its call's key is the one that
follows from them: a cell made from other texts or settings is named, not read. No call is made.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace

import pandas as pd

from lib.conditions import CONDITIONS, Applied, apply, find, reasons
from lib.judges import load_judge
from lib.params import run_name
from lib.plan import PRIMARY_RUN
from lib.results import PRIMARY, cell_path, command, read_rows

_PLACE = {name: place for place, name in enumerate(CONDITIONS)}


@dataclass(frozen=True)
class Slice:
    """One judge's diagnostics.

    `rows` are the slice's, `applied` every condition applied to them, `judged` the judgments that are there (columns
    of `lib.plan.judgments`), `notes` what is not there and the commands that make it.
    """

    judge: str
    run: str
    rows: pd.DataFrame = field(repr=False)
    applied: Applied | None = field(repr=False)
    judged: pd.DataFrame = field(repr=False)
    notes: list[str]


def read_slice(p, judge: str, n_questions: int, conditions: str = "all") -> Slice:
    """The diagnostics of `judge` on `n_questions` questions a dataset.

    `p` has source, files, datasets, seed and designs. Prompts are those of `designs` with a primary run on the
    slice. Raises ValueError for a judge without an entry and a slice that is no number.
    """
    if not isinstance(n_questions, int) or isinstance(n_questions, bool):
        raise ValueError(f"slices: {judge} must have a number of questions a dataset, not {n_questions!r}")
    q = SimpleNamespace(**{**vars(p), "n_questions": n_questions})
    run, entry = run_name(q), load_judge(judge)
    rows = read_rows(run, p.datasets)
    cells = [(PRIMARY_RUN, dataset, prompt) for dataset in p.datasets for prompt in p.designs]
    there = [cell for cell in cells if cell_path(run, judge, *cell).exists() and len(rows)]
    prompts = [prompt for prompt in p.designs if any(cell[2] == prompt for cell in there)]
    notes = _absent(q, judge, [cell for cell in cells if cell not in there], "not asked")
    if not prompts:
        return Slice(judge, run, rows, None, pd.DataFrame(), notes)
    applied = apply(find(conditions), rows, prompts, entry, p.seed)
    expected: dict[tuple[str, str, str], list[str]] = {}
    named, datasets = (applied.plan.rows[name].tolist() for name in ("condition", "dataset"))
    for call in applied.plan:
        expected.setdefault((named[call.row], datasets[call.row], call.prompt_id), []).append(call.key)
    found, absent, stale = [], [], []
    for cell, keys in expected.items():
        path = cell_path(run, judge, *cell)
        if not path.exists():
            absent.append(cell)
            continue
        judged = pd.read_parquet(path)
        (found if judged["key"].tolist() == keys else stale).append(
            judged if judged["key"].tolist() == keys else cell
        )
    absent = [cell for cell in absent if cell not in cells]
    notes += _absent(q, judge, absent, "not asked") + _absent(q, judge, stale, "made from other texts or settings")
    return Slice(judge, run, rows, applied, pd.concat(found, ignore_index=True) if found else pd.DataFrame(), notes)


def _absent(q, judge: str, cells: Sequence[tuple[str, str, str]], why: str) -> list[str]:
    if not cells:
        return []
    names = ", ".join(dict.fromkeys(condition for condition, _, _ in cells))
    # A condition with prompts of its own brings them along: they are no designs of the run.
    asked = [
        (condition, dataset, prompt)
        for condition, dataset, own in cells
        for prompt in ([own] if not CONDITIONS[condition].prompts else q.designs)
    ]
    return [f"{judge}, {len(cells)} cells {why} ({names}): {command(q, judge, asked)}"]


def folder(slices: Sequence[Slice], p) -> str:
    """The name under which the diagnostics of these slices are written: other judges or rows never overwrite it."""
    designs = "" if tuple(p.designs) == PRIMARY else "--" + "+".join(p.designs)
    return "diagnostics--" + "+".join(f"{each.judge}--{each.run}" for each in slices) + designs


def skipped_table(slices: Sequence[Slice]) -> pd.DataFrame:
    """What conditions say nothing about: condition, dataset, reason, and `rows` for each judge."""
    parts = [reasons(each.applied.skipped).assign(judge=each.judge) for each in slices if each.applied]
    table = pd.concat(parts, ignore_index=True)
    keys = ["condition", "dataset", "reason"]
    wide = table.pivot(index=keys, columns="judge", values="rows").fillna(0).astype(int)
    order = table[keys].drop_duplicates().sort_values("condition", key=lambda names: names.map(_PLACE), kind="stable")
    return wide.loc[list(order.itertuples(index=False, name=None))].reset_index()
