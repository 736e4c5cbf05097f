"""Lists of notebook runs: the steps of `make reproduce`, a sweep over a grid, the stored notebooks.

One run after another; a run that fails keeps its notebook and the others go on.
"""

from __future__ import annotations

import hashlib
import itertools
import re
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import yaml

from lib import paths
from lib.conditions import find
from lib.judges import load_judge
from lib.notebooks import check_parameters, declared_parameters, notebook_path, notebooks, report_of, run_notebook
from lib.params import local_file, read_parameters, read_yaml, unknown
from lib.results import write_bytes


@dataclass(frozen=True)
class SweepRun:
    """One point of a grid: its name, made of the swept values, and all its parameters."""

    name: str
    notebook: str
    values: dict[str, object]


def read_grid(path: Path) -> list[SweepRun]:
    """The runs of a sweep file: `notebook`, `fixed` parameters, and lists under `grid`, all combinations.

    `exclude` lists partial points that are left out. Raises ValueError for an unknown key or parameter, a
    wrong type, a judge without an entry, an unknown condition, an empty list, or two points of one name, before
    anything runs.
    """
    spec, shown = read_parameters(path), paths.shown(path)
    if set(spec) - {"notebook", "fixed", "grid", "exclude"} or not {"notebook", "grid"} <= set(spec):
        raise ValueError(f"{shown}: a sweep has notebook and grid, and may have fixed and exclude")
    grid, fixed, excluded = spec["grid"], spec.get("fixed") or {}, spec.get("exclude") or []
    if not isinstance(grid, dict) or not isinstance(fixed, dict) or not isinstance(excluded, list):
        raise ValueError(f"{shown}: grid and fixed hold `name: value`, exclude is a list of such parts")
    for name, choices in grid.items():
        if not isinstance(choices, list) or not choices:
            raise ValueError(f"{shown}: grid.{name} must be a list with at least one value")
        if name in fixed:
            raise ValueError(f"{shown}: {name} is both fixed and in the grid; keep one")
    points = [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]
    for part in excluded:
        if not isinstance(part, dict) or not any(_matches(point, part) for point in points):
            raise ValueError(f"{shown}: exclude {part} matches no point of the grid; mend it or leave it out")
    points = [point for point in points if not any(_matches(point, part) for part in excluded)]
    runs = [SweepRun(_point_name(point), str(spec["notebook"]), {**fixed, **point}) for point in points]
    if len({run.name for run in runs}) < len(runs):
        raise ValueError(f"{shown}: two points of the grid have the same name")
    for run in runs:
        check_parameters(notebook_path(run.notebook), run.values)
        named = [name for key in ("judges", "generators") for name in run.values.get(key, [])]
        for judge in [*named, *filter(None, [run.values.get("judge")])]:
            load_judge(judge)
        if "condition" in run.values:
            find(str(run.values["condition"]))
    return runs


def _matches(point: Mapping, part: Mapping) -> bool:
    return all(point.get(name) == value for name, value in part.items())


def _point_name(point: Mapping[str, object]) -> str:
    texts = ["+".join(map(str, value)) if isinstance(value, list) else str(value) for value in point.values()]
    name = re.sub(r"[^\w.+-]", "_", "--".join(filter(None, texts)))
    # A file's name has its limit, and two long ones must stay two.
    return name if len(name) <= 120 else f"{name[:100]}-{hashlib.sha256(name.encode()).hexdigest()[:16]}"


def sweep(grid: Path) -> list[dict[str, object]]:
    """Run every point of a grid, one after another; a point that is done under the same parameters is not rerun.

    Returns one dict a run: run, status (`done`, `already done`, `incomplete`, `failed`), minutes, the replies and
    dollars of this time, notebook. A failed run keeps its notebook with the traceback and the sweep goes on. One
    that still misses replies, as while a batch is under way, is incomplete and run again the next time.
    """
    from tqdm import tqdm

    folder, lines = paths.SWEEPS / grid.stem, []
    for run in tqdm(read_grid(grid), desc=grid.stem, unit="run"):
        out = folder / f"{run.name}.ipynb"
        stamp = out.with_suffix(".params.yaml")
        wanted = yaml.safe_dump({**asdict(run), "made with": _inputs(run.notebook)}, sort_keys=True)
        started, status, said = time.monotonic(), "already done", {}
        if not (out.exists() and stamp.exists() and stamp.read_text(encoding="utf-8") == wanted):
            try:
                run_notebook(run.notebook, out, run.values)
                said = report_of(out)
                status = "done"
                if missing := said.get("missing"):
                    status = f"incomplete: {missing} calls have no reply ({said.get('in_batches', 0)} in batches)"
                else:
                    stamp.write_text(wanted, encoding="utf-8")
            except Exception as error:  # whatever ended this run, the others go on
                kind = getattr(error, "ename", type(error).__name__)
                first = (str(getattr(error, "evalue", error)).strip().splitlines() or [""])[0]
                status = f"failed: {kind}: {first}".replace(f"{paths.ROOT}/", "")
                out = out.with_suffix(".failed.ipynb")
        minutes = round((time.monotonic() - started) / 60, 2)
        now = {"replies": said.get("replies", 0), "dollars": said.get("dollars", 0.0)}
        lines.append({"run": run.name, "status": status, "minutes": minutes, **now, "notebook": paths.shown(out)})
    return lines


def _inputs(notebook: str) -> dict[str, str]:
    """What a done run depends on beside its parameters: if one changes, it is run again (and replies are not)."""
    code = [paths.ROOT / "lib" / f"{name}.py" for name in ("conditions", "changes", "donors", "generate", "texts")]
    files = (notebook_path(notebook), paths.JUDGES, paths.PROMPTS / "LOCK.json", *code)
    return {paths.shown(file): hashlib.sha256(file.read_bytes()).hexdigest()[:16] for file in files}


def read_steps(path: Path, common: Mapping[str, object]) -> list[tuple[Path, Path, dict[str, object]]]:
    """The steps of a list such as `params/reproduce.yaml`: notebook, where it is executed to, and parameters.

    A step is a `notebook` with the parameters that differ from its defaults. `common` are parameters for every
    notebook that declares them; a step's own win. Raises ValueError for a name that no notebook declares, a
    wrong type, or two steps that would be executed to one place, before anything runs.
    """
    shown = paths.shown(path)
    try:
        steps = read_yaml(path)
    except (OSError, yaml.YAMLError) as error:
        raise ValueError(f"{shown} cannot be read as steps: {getattr(error, 'strerror', None) or error}") from None
    if not isinstance(steps, list) or not all(isinstance(step, dict) and "notebook" in step for step in steps):
        raise ValueError(f"{shown} must be a list of steps, each with a notebook and its parameters")
    found = []
    for step in steps:
        own = {name: value for name, value in step.items() if name != "notebook"}
        notebook = notebook_path(step["notebook"])
        declared = declared_parameters(notebook)
        shared = {name: common[name] for name in declared if name in common}
        if isinstance(shared.get("files"), dict):
            # A dataset's file is for the notebooks that take the dataset.
            datasets = {**declared, **shared, **own}.get("datasets", [])
            shared["files"] = {name: file for name, file in shared["files"].items() if name in datasets}
        check_parameters(notebook, shared | own)
        for file in (shared | own).get("files", {}).values():
            local_file(file)
        out = paths.EXECUTED / f"{notebook.stem}{'.' * bool(own)}{_point_name(own)}.ipynb"
        found.append((notebook, out, shared | own))
    known = {name for path in notebooks() for name in declared_parameters(path)}
    for name in set(common) - known:
        raise ValueError(unknown(name, known, f"{shown}: "))
    if len({out for _, out, _ in found}) < len(found):
        raise ValueError(f"{shown}: two steps are the same")
    return found


def reproduce(steps: Path, common: Mapping[str, object]) -> list[Path]:
    """Run the steps of a list in order, with `common` parameters (see `read_steps`); returns the executed ones."""
    executed = []
    for notebook, out, values in read_steps(steps, common):
        started = time.monotonic()
        print(f"{out.stem} ...", flush=True)
        executed.append(run_notebook(notebook.stem, out, values))
        print(f"{out.stem} done in {time.monotonic() - started:.0f} s: {paths.shown(out)}", flush=True)
    return executed


def print_results(since: float) -> None:
    """Print the primary table, and all tables and figures written after `since` (Unix seconds) with their forms."""
    fresh = sorted(path for path in paths.FIGURES.glob("*/*") if path.stat().st_mtime >= since)
    for table in [path for path in fresh if path.name == "table-02-accuracy.md"]:
        print(f"\nAccuracy in percent, 95 % interval, tokens a call ({table.parent.name}):\n")
        print(table.read_text(encoding="utf-8"))
    forms: dict[str, list[str]] = {}
    for path in fresh:
        forms.setdefault(paths.shown(path.with_suffix("")), []).append(path.suffix[1:])
    print("Tables and figures:", *[f"  {name}: {', '.join(ends)}" for name, ends in forms.items()], sep="\n")


def store(steps: Path) -> list[Path]:
    """Run the steps, then every notebook with its defaults, and keep its outputs in `notebooks/` (maintainers).

    What differs from run to run is left out of the metadata. Returns the notebooks.
    """
    import nbformat

    reproduce(steps, {})
    for path in notebooks():
        executed = run_notebook(path.stem, paths.EXECUTED / f"{path.stem}.stored.ipynb", {})
        notebook = nbformat.read(executed, as_version=4)
        notebook.metadata.pop("papermill")
        notebook.metadata["language_info"] = {"name": "python"}
        for cell in notebook.cells:
            cell.metadata = {"tags": cell.metadata["tags"]} if cell.metadata.get("tags") else {}
        write_bytes(path, (nbformat.writes(notebook) + "\n").encode())
    return notebooks()


def main(arguments: list[str]) -> int:
    """`reproduce STEPS [PARAMETERS]` runs a list of notebooks, `sweep GRID` a grid, `store STEPS` keeps outputs."""
    from tabulate import tabulate

    try:
        if len(arguments) == 2 and arguments[0] == "sweep":
            lines = sweep(Path(arguments[1]))
            print(tabulate(lines, headers="keys", tablefmt="github"))
            return int(any(str(line["status"]).startswith("failed") for line in lines))
        if arguments[:1] == ["reproduce"] and len(arguments) in (2, 3):
            since = time.time()
            reproduce(Path(arguments[1]), read_parameters(Path(arguments[2])) if len(arguments) == 3 else {})
            print_results(since)
            return 0
        if len(arguments) == 2 and arguments[0] == "store":
            store(Path(arguments[1]))
            return 0
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print("usage: python -m lib.sweeps reproduce STEPS [PARAMETERS] | sweep GRID | store STEPS", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
