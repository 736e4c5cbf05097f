"""The paper as files: its twenty tables and its figures from one material, always the same bytes.

A folder is named below `figures/`, or given in full.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure

from lib import diagnosis, effect_figures, effects, figures, paper_figures, paths, standard_tables, tables
from lib.arithmetic import arithmetic
from lib.claims import check
from lib.compared import compare
from lib.material import Material, own_parameters
from lib.paper_tables import Table, paper_tables
from lib.params import run_name
from lib.recorded import canonical
from lib.results import comparison, write_table
from lib.table_files import write_forms

PAIRS = [("H", "C"), ("R", "C"), ("B", "C"), ("R", "H"), ("B", "H"), ("B", "R")]


@dataclass(frozen=True)
class Drawn:
    """A figure of the paper: its file's name, what it shows, the table without which it is not drawn, and how."""

    name: str
    title: str
    table: int | None
    build: Callable[[Material, pd.DataFrame], Figure | None]


def _tokens(_: Material, table: pd.DataFrame) -> Figure | None:
    return figures.accuracy_tokens(table) if table["tokens"].notna().any() else None


def _wins(m: Material, _: pd.DataFrame) -> Figure | None:
    pairs = tables.paired_table(m.judged, PAIRS)
    return figures.wins(pairs) if len(pairs) else None


def _flips(m: Material, _: pd.DataFrame) -> Figure:
    return effect_figures.flips(diagnosis.overview(effects.pairs(m.conditions)))


FIGURES = (
    Drawn("figure-1-designs", "Four designs of a judge", None, lambda m, _: paper_figures.designs_diagram()),
    Drawn("accuracy", "Accuracy by design", 2, lambda m, table: figures.accuracy(table)),
    Drawn("accuracy-tokens", "Accuracy against tokens, with the frontier", 2, _tokens),
    Drawn("wins", "Questions won and lost", 2, _wins),
    Drawn("partial-rows", "Partial rows called right", 6, lambda m, table: paper_figures.partial_rows(table)),
    Drawn("complexity", "H minus C by complexity", 19, lambda m, table: paper_figures.complexity(table)),
    Drawn("flips", "Verdicts that flip by condition", 5, _flips),
    Drawn("ranks-by-standard", "Ranks under each label standard", 4, lambda m, table: standard_tables.slopes(table)),
    Drawn("parse-status", "How verdicts were read", 20, lambda m, table: figures.parse_status(table)),
)


def folder_name(p) -> str:
    """The name of the folder of a paper made with these parameters: other ones never overwrite it."""
    if p.frozen:
        return f"paper--frozen-{p.frozen}"
    own = own_parameters(p)
    rest = {name: value for name, value in vars(p).items() if name not in ("files", "frozen")}
    digest = hashlib.sha256(canonical({name: _plain(value) for name, value in rest.items()}).encode()).hexdigest()[:8]
    return f"paper--{comparison(run_name(own), own)}--{digest}"


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return {name: _plain(each) for name, each in value.items()}
    return list(value) if isinstance(value, tuple) else value


def write_tables(made: Sequence[Table], folder: str | Path) -> list[Path]:
    """Write every table that holds something in its four forms below `figures/<folder>`; returns the paths."""
    files: list[Path] = []
    for each in made:
        if len(each.data):
            files += write_forms(paths.FIGURES / folder, each.stem, each.number, each.title, each.data, each.shown)
    return files


def draw(name: str, m: Material, made: Sequence[Table], folder: str | Path) -> list[Path]:
    """Draw one figure and write it as PDF, SVG and PNG (the last path); no path where its runs are not there."""
    entry = next(each for each in FIGURES if each.name == name)
    table = made[entry.table - 1].data if entry.table else pd.DataFrame()
    figure = entry.build(m, table) if entry.table is None or len(table) else None
    return figures.save(figure, folder, name) if figure else []


def write_comparisons(m: Material, folder: str | Path) -> list[Path]:
    """Write what is set beside the paper: reported against reproduced, the claims, and its arithmetic, as CSV."""
    named = {"reported-reproduced": compare(m), "claims": check(m), "arithmetic": arithmetic(m.reported)}
    return [write_table(paths.FIGURES / folder / f"{name}.csv", table) for name, table in named.items()]


def write_paper(m: Material, folder: str | Path) -> list[Path]:
    """All tables, figures and comparisons of a material."""
    made = paper_tables(m)
    files = write_tables(made, folder)
    for each in FIGURES:
        files += draw(each.name, m, made, folder)
    return files + write_comparisons(m, folder)
