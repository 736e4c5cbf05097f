"""The report of a run as a static site that opens from the disk, without a network (`make report`).

Executed notebooks, figures, tables and judgments become pages as they stand; nothing is run, judged or computed
here. The templates are `lib/pages`, the judgments' files `lib.browse`.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import quote

import nbformat
from tqdm import tqdm

from lib import paths
from lib.browse import read_judgments, script, write_judgments
from lib.headlines import headline, held, read_texts
from lib.notebooks import notebooks
from lib.pages import notebook_html, write_assets, write_page
from lib.params import as_frozen, assigned_names, read_parameters, run_name
from lib.results import provenance, remove_left, write_bytes
from lib.store import Store
from lib.sweeps import read_steps

REPORT = "report"
# Of a figure in several forms, the first that a browser shows.
IMAGES = (".svg", ".png")
FORMS = (*IMAGES, ".pdf")


@dataclass(frozen=True)
class Step:
    """One run of a notebook: its number and name, its page, and its parameters that differ from the defaults.

    `title` and `end` are the notebook's H1 and what its reader knows at the end. `content` is None if it was not run,
    and `all_parameters` are then the values of the list of steps alone.
    """

    notebook: str
    page: str
    title: str
    end: str
    values: dict[str, object]
    all_parameters: dict[str, object]
    content: nbformat.NotebookNode | None = None

    @property
    def shown_values(self) -> str:
        """The parameters as a line. Of local files the names: a path tells whose machine it was."""
        texts = {name: _shown(value) for name, value in sorted(self.values.items())}
        return "; ".join(f"{name} = {text}" for name, text in texts.items()) or "defaults"


def _shown(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {Path(str(file)).name}" for name, file in value.items())
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def read_executed(steps: Path) -> list[Step]:
    """The runs of a list of steps, as they were executed. Raises ValueError for a bad list, and if none was run."""
    found = [_step(notebook, out, values) for notebook, out, values in read_steps(steps, {})]
    if not any(step.content for step in found):
        shown = paths.shown(paths.EXECUTED)
        raise ValueError(f"no notebook of {paths.shown(steps)} stands in {shown}; run make reproduce first")
    return found


def _step(notebook: Path, out: Path, values: dict[str, object]) -> Step:
    content = _read(out) if out.exists() else None
    title, end = about(content or nbformat.read(notebook, as_version=4))
    declared = {}
    if content:
        # What was run may have had parameters that the list does not name.
        values = dict(content.metadata.get("papermill", {}).get("parameters", values))
        tagged = [cell.source for cell in content.cells if "parameters" in cell.metadata.get("tags", [])]
        declared = assigned_names(tagged[0]) if tagged else {}
    return Step(notebook.stem, f"{out.stem}.html", title, end, values, declared | values, content)


def _read(path: Path) -> nbformat.NotebookNode:
    try:
        return nbformat.read(path, as_version=4)
    except Exception as error:  # nbformat raises of many kinds for what is no notebook
        raise ValueError(f"{paths.shown(path)} cannot be read as a notebook ({type(error).__name__})") from None


def about(notebook: nbformat.NotebookNode) -> tuple[str, str]:
    """A notebook's title and the first sentence of what its reader knows at the end, as plain text."""
    text = re.sub(r"[*`]", "", notebook.cells[0].source if notebook.cells else "")
    title = re.search(r"(?m)^# (.+)$", text)
    end = re.search(r"(?m)^At the end .*?[.!?](?=\s|\Z)", text, re.S)
    return title[1].strip() if title else "", " ".join(end[0].split()) if end else ""


def judged_runs(steps: Sequence[Step]) -> list[str]:
    """The runs that the executed judging wrote, each once."""
    judging = [step for step in steps if step.content and step.notebook == "20-judge"]
    return list(dict.fromkeys(run_name(as_frozen(step.all_parameters)) for step in judging))


def _last(steps: Sequence[Step], notebook: str) -> SimpleNamespace | None:
    """The parameters of the last run of a notebook, None if it was not run."""
    ran = [step for step in steps if step.content and step.notebook == notebook]
    return as_frozen(ran[-1].all_parameters) if ran else None


def written_folders(steps: Sequence[Step]) -> set[str]:
    """The folders of figures that the executed notebooks name: what other runs left belongs to another report."""
    texts = [str(cell.get("outputs", "")) for step in steps if step.content for cell in step.content.cells]
    return {name for text in texts for name in re.findall(r"figures/([^/\s|'\"\\]+)/", text)} - {REPORT}


def result_files(folders: Iterable[str], endings: Sequence[str]) -> list[Path]:
    """The files in these folders of figures with one of these endings, by folder and name."""
    files = (path for folder in folders for path in (paths.FIGURES / folder).glob("*"))
    return sorted(path for path in files if path.suffix in endings)


def figures(folders: Iterable[str]) -> list[dict[str, object]]:
    """Every figure: `name` (folder/name), `image` (what a browser shows, or ""), and its `forms` by ending."""
    forms: dict[str, dict[str, str]] = {}
    for path in result_files(folders, FORMS):
        name = f"{path.parent.name}/{path.stem}"
        forms.setdefault(name, {})[path.suffix] = f"figures/{quote(name)}{path.suffix}"
    return [
        {
            "name": name,
            "folder": name.split("/")[0],
            "image": next((found[end] for end in IMAGES if end in found), ""),
            "forms": {ending[1:].upper(): found[ending] for ending in FORMS if ending in found},
        }
        for name, found in sorted(forms.items())
    ]


def tables(folders: Iterable[str]) -> list[dict[str, object]]:
    """Every CSV table: `name` (folder/name), its `columns` and its `rows`, all as text."""
    found = []
    for path in result_files(folders, [".csv"]):
        table, name = read_texts(path), f"{path.parent.name}/{path.stem}"
        rows = table.to_numpy().tolist()
        found.append({"name": name, "folder": path.parent.name, "columns": list(table.columns), "rows": rows})
    return found


def judges(lines: Sequence[Mapping]) -> list[dict[str, object]]:
    """The judges of these judgments: `name`, how many `judgments`, and what judges.yaml says `about` each."""
    entries, counts = read_parameters(paths.JUDGES), Counter(line["judge"] for line in lines)
    said = {name: (entries.get(name) or {}).get("about", "not in judges.yaml") for name in counts}
    return [{"name": name, "judgments": counts[name], "about": said[name]} for name in sorted(counts)]


def _notebook_pages(folder: Path, steps: Sequence[Step]) -> None:
    ran = [step for step in steps if step.content]
    for number, step in enumerate(tqdm(ran, desc="notebooks", unit="page")):
        body = notebook_html(step.content)
        beside = {"before": ran[number - 1] if number else None, "after": (ran[number + 1 :] or [None])[0]}
        write_page(folder / "notebooks" / step.page, "notebook.html", "../", step=step, body=body, **beside)


def write_site(folder: Path, steps: Sequence[Step]) -> dict[str, int]:
    """Write every page to `folder`; returns how many notebooks, tables, figures and judgments there are."""
    folders = written_folders(steps)
    shown, listed, runs = figures(folders), tables(folders), judged_runs(steps)
    lines = read_judgments(runs)
    write_assets(folder / "assets")
    _notebook_pages(folder, steps)
    for path in result_files(folders, FORMS):
        write_bytes(folder / "figures" / path.parent.name / path.name, path.read_bytes())
    write_bytes(folder / "data" / "tables.js", script("window.TABLES=", listed, ";"))
    # A report changes no store, and makes none.
    store = Store(paths.CALLS, read_only=True) if paths.CALLS.exists() else Store(":memory:")
    try:
        for _ in tqdm(write_judgments(folder / "data", lines, store), desc="judgments", unit="file"):
            pass
    finally:
        store.close()
    ran = [step for step in steps if step.content]
    counts = {"notebooks": len(ran), "tables": len(listed), "figures": len(shown), "judgments": len(lines)}
    write_page(folder / "tables.html", "tables.html", tables=listed)
    write_page(folder / "judgments.html", "judgments.html")
    names = sorted({step.notebook for step in steps})
    index: dict[str, object] = {"counts": counts, "figures": shown, "runs": runs, "headline": None, "held": None}
    if p := _last(steps, "30-designs"):
        index["headline"] = headline(p, shown)
    if p := _last(steps, "70-paper"):
        index["held"] = held(p)
    index["notebooks"] = [(name, [step for step in steps if step.notebook == name]) for name in names]
    index["others"] = [path.stem for path in notebooks() if path.stem not in names]
    write_page(folder / "index.html", "index.html", judges=judges(lines), provenance=provenance(), **index)
    return counts


def build(steps: Path) -> dict[str, int]:
    """Build the report of a list of steps; returns the counts of `write_site`. Raises ValueError as `read_executed`.

    It is put in place whole: a build that ends before its time leaves the old report as it was.
    """
    executed = read_executed(steps)
    target = paths.FIGURES / REPORT
    for name in ("part", "old"):
        remove_left(paths.FIGURES, f".{REPORT}.{name}")
    part, old = (paths.FIGURES / f".{REPORT}.{name}{os.getpid()}" for name in ("part", "old"))
    try:
        counts = write_site(part, executed)
        if target.exists():
            target.rename(old)
        try:
            part.rename(target)
        except BaseException:
            if old.exists():
                old.rename(target)
            raise
        return counts
    finally:
        for folder in (part, old):
            shutil.rmtree(folder, ignore_errors=True)


def main(arguments: Sequence[str]) -> int:
    """`python -m lib.site [STEPS]` builds the report of `params/reproduce.yaml`, or of another list of steps."""
    if len(arguments) > 1:
        print("usage: python -m lib.site [STEPS]", file=sys.stderr)
        return 2
    try:
        counts = build(Path(arguments[0]) if arguments else paths.PARAMS / "reproduce.yaml")
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(", ".join(f"{number:,} {name}" for name, number in counts.items()))
    print(f"Open {paths.shown(paths.FIGURES / REPORT / 'index.html')} in a browser.")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
