"""Notebooks run from outside, one at a time, with checked parameters.

papermill warns of an unknown parameter and goes on; here nothing starts with one. What a notebook does is its own.
Lists of runs are `lib.sweeps`.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path

from lib import paths
from lib.params import assigned_names, check_type, unknown
from lib.redact import without_known_keys


def notebook_path(name: str) -> Path:
    """`20-judge` or `notebooks/20-judge.ipynb` to its file. Raises ValueError with the names there are."""
    path = paths.NOTEBOOKS / f"{Path(name).name.removesuffix('.ipynb')}.ipynb"
    if not path.exists():
        raise ValueError(f"no notebook {name!r}; there are {', '.join(p.stem for p in notebooks())}")
    return path


def notebooks() -> list[Path]:
    """The notebooks in the order in which they run."""
    return sorted(paths.NOTEBOOKS.glob("[0-9][0-9]-*.ipynb"))


def declared_parameters(path: Path) -> dict[str, object]:
    """Names and defaults in the notebook's cell tagged `parameters`. Raises ValueError if it has none."""
    import nbformat

    for cell in nbformat.read(path, as_version=4).cells:
        if "parameters" in cell.metadata.get("tags", []):
            return assigned_names(cell.source)
    raise ValueError(f"{paths.shown(path)} has no cell tagged parameters")


def check_parameters(path: Path, values: Mapping[str, object]) -> None:
    """Raise ValueError for a name that the notebook does not declare, or a type other than its default's."""
    declared = declared_parameters(path)
    for name, value in values.items():
        if name not in declared:
            raise ValueError(unknown(name, set(declared), f"{path.stem}: "))
        default = declared[name]
        check_type(name, value, list[str] if isinstance(default, list) else type(default))


def run_notebook(name: str, out: Path, values: Mapping[str, object]) -> Path:
    """Execute a notebook with these parameters to `out`, put in place whole; returns `out`.

    Raises ValueError for a parameter that it does not have, before it starts, and papermill's error with
    the failed notebook kept as `<out>.failed.ipynb`.
    """
    import papermill

    path = notebook_path(name)
    check_parameters(path, values)
    out.parent.mkdir(parents=True, exist_ok=True)
    part, failed = out.with_suffix(f".part{os.getpid()}.ipynb"), out.with_suffix(".failed.ipynb")
    try:
        papermill.execute_notebook(
            str(path),
            str(part),
            dict(values),
            kernel_name="python3",
            cwd=str(paths.ROOT),
            progress_bar=False,
            # The notebook's progress bars reach the terminal.
            stderr_file=sys.stderr,
            # Or each kernel begins with a warning about its loopback socket, and some end with an error: papermill
            # interrupts them when they are done. What fails in a cell stands in the notebook.
            extra_arguments=["--log-level=CRITICAL"],
        )
    except Exception:
        if part.exists():
            _without_machine(part).replace(failed)
        raise
    failed.unlink(missing_ok=True)
    return _without_machine(part).replace(out)


def _without_machine(path: Path) -> Path:
    """Take this machine's folders and every known key out of an executed notebook, metadata and tracebacks too."""
    text = without_known_keys(path.read_text(encoding="utf-8"))
    for folder in (paths.OUT, paths.ROOT, Path.home()):
        text = text.replace(json.dumps(str(folder))[1:-1] + "/", "")
    path.write_text(text, encoding="utf-8")
    return path


_REPORT = "application/vnd.judge-designs.run+json"


def report(**facts: object) -> None:
    """Show facts of a run as the output of a cell, for people and for `report_of`."""
    from IPython.display import display

    said = ", ".join(f"{name} {value}" for name, value in facts.items())
    display({"text/plain": said, _REPORT: facts}, raw=True)


def report_of(path: Path) -> dict[str, object]:
    """The facts that an executed notebook reports, {} if it reports none."""
    import nbformat

    for cell in nbformat.read(path, as_version=4).cells:
        for output in cell.get("outputs", []):
            if _REPORT in output.get("data", {}):
                return dict(output["data"][_REPORT])
    return {}
