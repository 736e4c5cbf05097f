"""What runs write and read back: judgments by cell, tables, and where they came from.

A cell is the judgments of one judge, condition, dataset and prompt on the rows of one run, in one Parquet file.
Every file is put in place whole, so one that stands there is complete.
"""

from __future__ import annotations

import csv
import hashlib
import json
import os
import platform
import shlex
import shutil
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import version
from itertools import product
from pathlib import Path

import pandas as pd
import yaml

from lib import paths

PACKAGES = (
    "anthropic",
    "datasets",
    "google-genai",
    "matplotlib",
    "numpy",
    "openai",
    "pandas",
    "papermill",
    "pyarrow",
)
PACKAGES += ("scipy", "statsmodels")
PRIMARY = ("C.v1", "H.v1", "R.v1", "B.v1")
_CELL = ["judge", "condition", "dataset", "prompt"]


def cell_path(run: str, judge: str, condition: str, dataset: str, prompt: str) -> Path:
    """Where the judgments of one cell stand."""
    return paths.JUDGMENTS / run / f"{judge}.{condition}.{dataset}.{prompt}.parquet"


def write_cells(run: str, judgments: pd.DataFrame, facts: Mapping[str, object]) -> list[Path]:
    """Write judgments, one file a cell, and beside each a JSON file that says what made it.

    A cell with calls that were not asked yet is not written: its share of correct rows would be a wrong number.

    It holds `facts`, the `models that answered`, and the provenance; in a file of its own, so that the judgments
    are the same bytes at every commit. Returns the judgments' files in the order of the cells' first lines.
    """
    written, made_with = [], provenance()
    for key, cell in judgments.groupby(_CELL, sort=False):
        if (cell["reason"] == "not_asked").any():
            continue
        path = write_table(cell_path(run, *key), cell.reset_index(drop=True))
        answered = sorted(cell["model"].dropna().unique())
        made = {**facts, "models that answered": answered, "provenance": made_with}
        text = json.dumps(made, indent=1, sort_keys=True, default=str)
        write_bytes(path.with_suffix(".json"), (text + "\n").encode())
        written.append(path)
    return written


def read_cells(run: str, p, judges: Sequence[str]) -> tuple[pd.DataFrame, list[str]]:
    """The primary judgments of all these cells that exist, and for each judge that lacks some, what makes them.

    `p` has the parameters that select the rows, and `datasets` and `designs`. No cell at all gives an empty frame.
    """
    found, missing = [], {}
    for judge, dataset, prompt in product(judges, p.datasets, p.designs):
        path = cell_path(run, judge, "primary", dataset, prompt)
        if path.exists():
            found.append(pd.read_parquet(path))
        else:
            missing.setdefault(judge, []).append(("primary", dataset, prompt))
    commands = [f"{len(cells)} cells by {judge}: {command(p, judge, cells)}" for judge, cells in missing.items()]
    return pd.concat(found, ignore_index=True) if found else pd.DataFrame(), commands


def command(p, judge: str, cells: Sequence[tuple[str, str, str]]) -> str:
    """The command that makes these cells (condition, dataset, prompt) of one judge on the rows of `p`."""
    values = {name: getattr(p, name) for name in ("source", "files", "n_questions", "seed")}
    conditions, datasets, designs = (list(dict.fromkeys(names)) for names in zip(*cells, strict=True))
    values |= {"judge": judge, "datasets": datasets, "designs": designs}
    if getattr(p, "generators", ()):
        values["generators"] = list(p.generators)
    if conditions != ["primary"]:
        values["condition"] = "+".join(conditions)
    return command_of("20-judge", values)


def command_of(notebook: str, values: Mapping[str, object]) -> str:
    """The command that runs a notebook with these parameters."""
    plain = {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}
    text = yaml.safe_dump(plain, default_flow_style=True, width=10_000, sort_keys=False).strip()
    return f".venv/bin/papermill notebooks/{notebook}.ipynb out.ipynb -y {shlex.quote(text)}"


def write_rows(run: str, rows: pd.DataFrame) -> list[Path]:
    """Write the rows of a run, one file a dataset, so that an analysis has their texts without their source."""
    return [
        write_table(_rows_path(run, dataset), part.reset_index(drop=True))
        for dataset, part in rows.groupby("dataset", sort=False)
    ]


def read_rows(run: str, datasets: Sequence[str]) -> pd.DataFrame:
    """The rows of a run in the order of `datasets`; those of a dataset that was not written are not there."""
    files = [path for path in (_rows_path(run, dataset) for dataset in datasets) if path.exists()]
    return pd.concat(map(pd.read_parquet, files), ignore_index=True) if files else pd.DataFrame()


def write_answers(run: str, answers: pd.DataFrame) -> list[Path]:
    """Write generated answers (`lib.generate.answers`), one file a generator and dataset."""
    return [
        write_table(_answers_path(run, *key), part.reset_index(drop=True))
        for key, part in answers.groupby(["generator", "dataset"], sort=False)
    ]


def read_answers(run: str, generators: Sequence[str], datasets: Sequence[str]) -> pd.DataFrame:
    """The answers of a run. Raises ValueError for no generator, and for answers that were not written."""
    if not generators:
        raise ValueError("generators must name at least one entry of judges.yaml")
    files = [_answers_path(run, *key) for key in product(generators, datasets)]
    if absent := [path.stem for path in files if not path.exists()]:
        raise ValueError(
            f"there are no answers of {', '.join(absent)} for {run}; run 11-generate with these parameters"
        )
    return pd.concat(map(pd.read_parquet, files), ignore_index=True)


def _answers_path(run: str, generator: str, dataset: str) -> Path:
    return paths.JUDGMENTS / run / "answers" / f"{generator}.{dataset}.parquet"


def _rows_path(run: str, dataset: str) -> Path:
    return paths.JUDGMENTS / run / "rows" / f"{dataset}.parquet"


def comparison(run: str, p) -> str:
    """The name under which a comparison of `p.judges` is written: other judges never overwrite it.

    Designs enter it where they are not the study's four.
    """
    designs = "" if tuple(p.designs) == PRIMARY else "--" + "+".join(p.designs)
    return f"{run}--{'+'.join(p.judges)}{designs}"


def write_table(path: Path, table: pd.DataFrame) -> Path:
    """Write a table as Parquet (for machines) or CSV (for people), by the file's ending; returns the path."""
    if path.suffix == ".parquet":
        return write_bytes(path, table.to_parquet(index=False))
    text = table.to_csv(index=False, lineterminator="\n")
    if "\r" in text:
        # pandas leaves a lone carriage return without quotes, and readers take it for the end of a line.
        text = table.to_csv(index=False, lineterminator="\n", quoting=csv.QUOTE_ALL)
    return write_bytes(path, text.encode())


def write_bytes(path: Path, data: bytes) -> Path:
    """Put a file in place whole; returns the path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.part{os.getpid()}")
    try:
        part.write_bytes(data)
        return part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def remove_left(folder: Path, start: str) -> None:
    """Remove folders `<start><process id>` in `folder` that processes which ended half way left behind."""
    import psutil

    for path in folder.glob(f"{start}*"):
        process = path.name.removeprefix(start)
        if process.isdecimal() and not psutil.pid_exists(int(process)):
            shutil.rmtree(path, ignore_errors=True)


def written(files: Iterable[Path]) -> pd.DataFrame:
    """What was written: `file`, `rows` (missing where it is no table), `sha256` (the first 16 hex digits)."""
    lines = []
    for path in files:
        rows = len(pd.read_parquet(path)) if path.suffix == ".parquet" else pd.NA
        rows = len(pd.read_csv(path, dtype=str, keep_default_na=False)) if path.suffix == ".csv" else rows
        digest = hashlib.sha256(path.read_bytes()).hexdigest()[:16]
        lines.append({"file": paths.shown(path), "rows": rows, "sha256": digest})
    return pd.DataFrame(lines, columns=["file", "rows", "sha256"]).astype({"rows": "Int64"})


def provenance() -> dict[str, str]:
    """The git commit (with `+changes` if files differ from it), Python and package versions of this process."""
    facts = {"git commit": _git_commit(), "python": platform.python_version()}
    return facts | {name: version(name) for name in PACKAGES}


def _git_commit() -> str:
    try:
        commit = _git("rev-parse", "HEAD")
        return commit + ("+changes" if _git("status", "--porcelain", "--untracked-files=no") else "")
    except (OSError, subprocess.CalledProcessError):
        return "unknown (not a git checkout)"


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", "-C", str(paths.ROOT), *arguments], capture_output=True, text=True, check=True)
    return done.stdout.strip()
