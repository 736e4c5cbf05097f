"""Tables 1 to 20 in the paper's numbering, each from a material, with what it lacks.

The source that this repository works from does not say what stands in tables 6 and 18: partial rows and tokens are
our choice for them. Statistics are those of the modules below; files are written by `lib.table_files`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import product

import pandas as pd

from lib import agreement, diagnosis, effects, generated, generated_tables, paper_stats, standard_tables, standards
from lib import tables as t
from lib.conditions import CONDITIONS
from lib.exact import with_holm
from lib.material import CONDITION, GENERATED, PRIMARY, Material, labels_command, missing
from lib.plan import PRIMARY_RUN

_BY = ["judge", "condition", "dataset"]
VERSION_PAIRS = tuple(product(("H.v1", "H.v2", "H.v3"), ("C.v1", "C.v2", "C.v3")))


@dataclass(frozen=True)
class Table:
    """One table of the paper: `data` for machines, `shown` (texts) for people, `missing`: cells and their commands.

    Both frames are empty where nothing was run: then the table is not drawn.
    """

    number: int
    name: str
    title: str
    data: pd.DataFrame = field(repr=False)
    shown: pd.DataFrame = field(repr=False)
    missing: list[str] = field(repr=False)

    @property
    def stem(self) -> str:
        """The name of its files."""
        return f"table-{self.number:02d}-{self.name}"


@dataclass(frozen=True)
class _Entry:
    number: int
    name: str
    title: str
    part: str
    build: Callable[[Material], tuple[pd.DataFrame, pd.DataFrame]]
    # Of a part's missing cells, those that this table needs: designs, or the group of a condition.
    designs: str = "CHRB"
    group: str = ""


def paper_tables(m: Material) -> list[Table]:
    """All twenty tables in order."""
    return [_table(entry, m) for entry in _ENTRIES]


def _table(entry: _Entry, m: Material) -> Table:
    lacks = _lacking(entry, m)
    there = {
        PRIMARY: m.judged,
        CONDITION: m.conditions,
        GENERATED: m.generated,
        "about": m.about,
        "labels": m.labels,
    }
    data = shown = pd.DataFrame()
    if len(there[entry.part]) and (entry.number != 4 or len(m.judged)):
        data, shown = entry.build(m)
        # Without a line of data there is nothing to show, whatever the columns.
        data, shown = (data, shown) if len(data) else (pd.DataFrame(), pd.DataFrame())
    if data.empty and not lacks:
        lacks = [_NOTHING_ASKED[entry.part]]
    return Table(entry.number, entry.name, entry.title, data, shown, lacks)


# Why a table is empty where no cell of its part is missing: nothing of it was asked for.
_NOTHING_ASKED = {
    PRIMARY: "the judges and datasets that are named have nothing for it",
    CONDITION: "slices names no judge that was asked for this",
    GENERATED: "generators names none, or no judge was asked in C, H and R",
    "labels": "the people's labels are of other rows than those judged in every design",
}


def _lacking(entry: _Entry, m: Material) -> list[str]:
    if entry.part == "about":
        return [] if len(m.about) else [f"what 10-labels writes: {labels_command(m.p)}"]
    if entry.part == "labels":
        none = [] if len(m.labels) else ["labels by people; name files of data/labels in annotators"]
        return none + (missing(m, PRIMARY) if entry.number == 4 else [])
    return missing(m, entry.part, lambda cell: _matters(entry, cell))


def _matters(entry: _Entry, cell) -> bool:
    if entry.part == CONDITION:
        groups = (entry.group, PRIMARY_RUN) if entry.group in ("cap",) else (entry.group,)
        return CONDITIONS[cell.condition].group in groups
    return cell.prompt[0] in entry.designs


def _about(m: Material) -> tuple[pd.DataFrame, pd.DataFrame]:
    names = {name: name.replace("_", " ") for name in m.about.columns}
    turned = m.about.rename(columns=names).set_index("dataset").T
    return m.about, turned.rename_axis(index="", columns=None).reset_index()


def _accuracy(m: Material) -> tuple[pd.DataFrame, pd.DataFrame]:
    table = t.accuracy_table(m.judged)
    return table, t.accuracy_shown(table)


def _pairs(pairs: list[tuple[str, str]], dataset: str = "") -> Callable:
    def build(m: Material) -> tuple[pd.DataFrame, pd.DataFrame]:
        rows = m.judged[m.judged["dataset"] == dataset] if dataset else m.judged
        # What is told of one judge does not depend on which others stand beside it.
        table = with_holm(t.paired_table(rows, pairs)) if len(rows) else rows
        return table, t.paired_shown(table) if len(table) else table

    return build


def _standards(m: Material) -> tuple[pd.DataFrame, pd.DataFrame]:
    try:
        under = standards.judged_under(m.judged, m.standards)
    except ValueError:
        # No labelled row was judged in every design.
        return pd.DataFrame(), pd.DataFrame()
    table = standards.ranking(under)
    return table, standard_tables.ranking_shown(table)


def _agreement(*by: str) -> Callable:
    def build(m: Material) -> tuple[pd.DataFrame, pd.DataFrame]:
        table = agreement.pairwise(m.rows, m.standards, by)
        return table, standard_tables.agreement_shown(table)

    return build


def _effects(group: str, cell: Callable) -> Callable:
    def build(m: Material) -> tuple[pd.DataFrame, pd.DataFrame]:
        paired = effects.pairs(m.conditions)
        table = effects.effects(paired[paired["group"] == group], [*_BY, "prompt"])
        return table, diagnosis.by_design_shown(table, cell, _BY) if len(table) else table

    return build


def _read(group: str, with_primary: bool) -> Callable:
    def build(m: Material) -> tuple[pd.DataFrame, pd.DataFrame]:
        mine = diagnosis.primary_and(m.conditions, group)
        table = effects.read_table(mine if with_primary else mine[mine["condition"] != PRIMARY_RUN])
        return table, diagnosis.by_design_shown(table, diagnosis.read_cell) if len(table) else table

    return build


def _versions(m: Material) -> tuple[pd.DataFrame, pd.DataFrame]:
    mine = diagnosis.primary_and(m.conditions, "prompt").query("condition != @PRIMARY_RUN")
    table = diagnosis.prompt_pairs(mine, VERSION_PAIRS, ["dataset", "judge"])
    return table, diagnosis.grid_shown(table) if len(table) else table


def _kinds(kind: str = "") -> Callable:
    def build(m: Material) -> tuple[pd.DataFrame, pd.DataFrame]:
        table = t.kind_table(m.judged)
        table = table[table["kind"] == kind] if kind else table
        return table, t.kind_shown(table) if len(table) else table

    return build


def _generated(*by: str) -> Callable:
    def build(m: Material) -> tuple[pd.DataFrame, pd.DataFrame]:
        table = generated.accuracy(m.generated, by)
        return table, generated_tables.accuracy_shown(table)

    return build


def _tokens(m: Material) -> tuple[pd.DataFrame, pd.DataFrame]:
    table = paper_stats.token_table(m.judged)
    return table, paper_stats.token_shown(table)


def _complexity(m: Material) -> tuple[pd.DataFrame, pd.DataFrame]:
    table = with_holm(t.complexity_table(m.judged, n_bins=m.p.complexity_bins))
    return table, t.paired_shown(table)


def _parsing(m: Material) -> tuple[pd.DataFrame, pd.DataFrame]:
    table = t.parse_table(m.judged)
    return table, table.astype(str)


_ALL = [("H", "C"), ("R", "C"), ("B", "C"), ("R", "H"), ("B", "H"), ("B", "R")]
_R_AND_B = [("R", "H"), ("B", "H"), ("B", "R")]
_ENTRIES = (
    _Entry(1, "rows", "Rows, labels and lengths", "about", _about),
    _Entry(2, "accuracy", "Accuracy by dataset, judge and design", PRIMARY, _accuracy),
    _Entry(3, "h-minus-c", "C against H", PRIMARY, _pairs([("H", "C")]), "CH"),
    _Entry(4, "standards", "Rows right and rank under each label standard", "labels", _standards),
    _Entry(
        5,
        "swap",
        "Verdicts that flip with another question's reference",
        CONDITION,
        _effects("swap", diagnosis.flip_cell),
        group="swap",
    ),
    _Entry(6, "partial-rows", "Partial rows called right (numbering ours)", PRIMARY, _kinds("partial")),
    _Entry(7, "prompts", "Versions of H against versions of C", CONDITION, _versions, group="prompt"),
    _Entry(
        8, "schema", "The schema-matched control beside C and H", CONDITION, _read("schema", False), group="schema"
    ),
    _Entry(9, "caps", "Accuracy and parsing by output cap", CONDITION, _read("cap", True), group="cap"),
    _Entry(
        10,
        "reference",
        "Accuracy with a worse reference",
        CONDITION,
        _effects("reference", diagnosis.effect_cell),
        group="reference",
    ),
    _Entry(11, "generated", "Generated answers: rows right", GENERATED, _generated("judge")),
    _Entry(12, "generated-by-kind", "Generated answers by kind", GENERATED, _generated("kind", "judge")),
    _Entry(13, "agreement", "Agreement of label standards by dataset", "labels", _agreement("dataset")),
    _Entry(14, "agreement-by-kind", "Agreement by dataset and kind", "labels", _agreement("dataset", "kind")),
    _Entry(15, "kinds", "Accuracy on supported and on other rows", PRIMARY, _kinds()),
    _Entry(16, "qampari", "Paired tests on QAMPARI", PRIMARY, _pairs(_ALL, "qampari")),
    _Entry(17, "r-and-b", "R and B against H and each other", PRIMARY, _pairs(_R_AND_B), "HRB"),
    _Entry(18, "tokens", "Tokens a call, and how many more than H (numbering ours)", PRIMARY, _tokens),
    _Entry(19, "complexity", "H minus C by complexity", PRIMARY, _complexity, "CH"),
    _Entry(20, "parsing", "How verdicts were read", PRIMARY, _parsing),
)
