"""All that the paper's tables and figures are made from: judgments, rows, answers and labels, gathered once.

What is missing is kept as cells, so that each table can say what it lacks and which command makes it. Nothing is
computed or drawn here. `lib.editions` writes a material down and reads it back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace

import pandas as pd

from lib import generated, label_files, paths
from lib.conditions import CONDITIONS
from lib.generate import answer_rows
from lib.judges import load_judge
from lib.params import run_name, source_name
from lib.plan import PRIMARY_RUN
from lib.reported import reported
from lib.results import cell_path, command, command_of, read_answers, read_rows
from lib.slices import read_slices

# The parts of a material that runs of 20-judge fill.
PRIMARY, CONDITION, GENERATED = "primary", "condition", "generated"
_ABSENT = ["part", "judge", "condition", "dataset", "prompt", "n_questions"]
FRAMES = ("about", "rows", "judged", "conditions", "answers", "generated_rows", "generated", "labels", "absent")
FRAMES += ("reported",)


@dataclass(frozen=True)
class Material:
    """What tables and figures are made from. `p` are the parameters, each frame is empty where nothing is there.

    `about`: the paper's table 1 as 10-labels wrote it (texts). `rows`: `lib.labels.build_rows`. `judged`: primary
    judgments (`lib.plan.judgments`), `conditions`: those of the slices, their primary ones among them. `answers`,
    `generated_rows`, `generated`: `lib.generate.answers`, `answer_rows` and `lib.generated.read_generated`. `labels`:
    `lib.label_files.gather`. `absent`: cells without judgments: part, judge, condition, dataset, prompt, n_questions.
    `reported`: the paper's own numbers (`lib.reported`).
    """

    p: SimpleNamespace
    about: pd.DataFrame = field(repr=False)
    rows: pd.DataFrame = field(repr=False)
    judged: pd.DataFrame = field(repr=False)
    conditions: pd.DataFrame = field(repr=False)
    answers: pd.DataFrame = field(repr=False)
    generated_rows: pd.DataFrame = field(repr=False)
    generated: pd.DataFrame = field(repr=False)
    labels: pd.DataFrame = field(repr=False)
    absent: pd.DataFrame = field(repr=False)
    reported: pd.DataFrame = field(repr=False)

    @property
    def standards(self) -> dict[str, pd.Series]:
        """The label standards of the rows, construction first (`lib.label_files.standards`)."""
        none = pd.DataFrame({"annotator": [], "row_id": [], "label": []}, dtype=str)
        return label_files.standards(self.rows, self.labels if len(self.labels) else none) if len(self.rows) else {}


def gather(p) -> Material:
    """Read what runs left for the parameters of `70-paper`. No call is made.

    Raises ValueError for parameters that select nothing, a judge without an entry, and labels that cannot be read.
    """
    p = SimpleNamespace(**vars(p))
    own = own_parameters(p)
    run = run_name(own)
    if unknown := set(p.only) - set(p.judges):
        raise ValueError(f"only names {', '.join(sorted(unknown))}, which is not among judges")
    about = paths.FIGURES / run / "table-01-rows.csv"
    rows = read_rows(run, p.datasets)
    judged, absent = _primary(run, p)
    # Slices of judges that are not compared are left out.
    own.slices = {judge: n for judge, n in p.slices.items() if judge in p.judges}
    slices = read_slices(own) if own.slices else []
    absent += [
        (CONDITION, each.judge, *cell, p.slices[each.judge])
        for each in slices
        for cell in each.absent
        if CONDITIONS[cell[0]].prompts or cell[2] in designs_of(p, each.judge)
    ]
    answers, generated_rows, made, more = _generated(p)
    return Material(
        p,
        pd.read_csv(about, dtype=str, keep_default_na=False) if about.exists() else pd.DataFrame(),
        rows,
        judged,
        _all([each.judged for each in slices]),
        answers,
        generated_rows,
        made,
        label_files.gather(rows, p.annotators, source_name(p)) if len(rows) else pd.DataFrame(),
        pd.DataFrame(absent + more, columns=_ABSENT),
        reported(),
    )


def labels_command(p) -> str:
    """The command by which 10-labels describes these rows."""
    values = {name: getattr(p, name) for name in ("source", "files", "datasets", "n_questions", "seed")}
    return command_of("10-labels", values)


def designs_of(p, judge: str) -> tuple[str, ...]:
    """The prompts that a judge was to be asked: those of `only` for it, else `designs`."""
    return tuple(p.only.get(judge, p.designs))


def missing(m: Material, part: str, keep=lambda cell: True) -> list[str]:
    """What is missing in a part, one line a judge: how many cells and the command that makes them.

    `keep` says of a line of `absent` whether it matters. Cells of other numbers of questions are told apart.
    """
    cells = m.absent[m.absent["part"] == part] if len(m.absent) else m.absent
    cells = cells[pd.Series([keep(cell) for cell in cells.itertuples()], index=cells.index, dtype=bool)]
    lines = []
    for (judge, n_questions), mine in cells.groupby(["judge", "n_questions"], sort=False):
        named = list(mine[["condition", "dataset", "prompt"]].itertuples(index=False, name=None))
        lines.append(f"{len(named)} cells by {judge}: {command(_asked(m.p, part, int(n_questions)), judge, named)}")
    return lines


def _asked(p, part: str, n_questions: int) -> SimpleNamespace:
    q = SimpleNamespace(**{**vars(p), "n_questions": n_questions})
    q.generators = p.generators if part == GENERATED else []
    q.files = {name: file for name, file in p.files.items() if part != GENERATED or name == generated_dataset(p)}
    return q


def own_parameters(p) -> SimpleNamespace:
    """The parameters of the benchmarks' own rows: those that generators made are a run of their own."""
    return _asked(p, PRIMARY, p.n_questions)


def generated_dataset(p) -> str:
    """The dataset whose questions the generators answered: the study took ASQA."""
    return "asqa" if "asqa" in p.datasets else p.datasets[0]


def generated_parameters(p) -> SimpleNamespace:
    """The parameters under which answers were generated and judged."""
    q = _asked(p, GENERATED, p.generated_questions)
    q.datasets, q.designs = [generated_dataset(p)], [name for name in p.designs if name[0] in "CHR"]
    return q


def _primary(run: str, p) -> tuple[pd.DataFrame, list[tuple]]:
    found, absent = [], []
    for judge in p.judges:
        load_judge(judge)
        for dataset in p.datasets:
            for prompt in designs_of(p, judge):
                path = cell_path(run, judge, PRIMARY_RUN, dataset, prompt)
                if path.exists():
                    found.append(pd.read_parquet(path))
                else:
                    absent.append((PRIMARY, judge, PRIMARY_RUN, dataset, prompt, p.n_questions))
    return _all(found), absent


def _generated(p) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame, list[tuple]]:
    nothing = pd.DataFrame()
    if not p.generators:
        return nothing, nothing, nothing, []
    q = generated_parameters(p)
    run, judges = run_name(q), [name for name in p.judges if set("CHR") <= {each[0] for each in designs_of(p, name)}]
    cells = [
        (GENERATED, judge, PRIMARY_RUN, dataset, prompt, q.n_questions)
        for judge in judges
        for dataset in q.datasets
        for prompt in q.designs
    ]
    try:
        answers = read_answers(run, q.generators, q.datasets)
    except ValueError:
        # 11-generate was not run: no judgment can be there either.
        return nothing, nothing, nothing, cells
    rows = answer_rows(answers)
    made, _ = generated.read_generated(run, q, judges, rows)
    there = set() if made.empty else set(made[["judge", "dataset", "prompt"]].itertuples(index=False, name=None))
    return answers, rows, made, [cell for cell in cells if (cell[1], cell[3], cell[4]) not in there]


def _all(parts: Sequence[pd.DataFrame]) -> pd.DataFrame:
    parts = [part for part in parts if len(part)]
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()
