"""How the paper's claims in words are decided for one judge: holds, fails, or cannot tell.

Nothing is decided by a point estimate: a comparison is told if the exact test after Holm and the interval agree, and
a range if the whole interval lies in it. Which claims there are stands in `lib.claims`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import pandas as pd

from lib import diagnosis, effects, paper_stats, standards, stats, tables
from lib.compared import AUTHOR
from lib.label_files import CONSTRUCTION
from lib.material import Material
from lib.paper_tables import VERSION_PAIRS
from lib.plan import PRIMARY_RUN
from lib.standards import REVERSES
from lib.tables import interval, percent, points

HOLDS, FAILS, CANNOT_TELL, NOT_RUN = "holds", "fails", "cannot tell", "not run"
Found = tuple[str, str]
_PAIRS = [("H", "C"), ("R", "C"), ("B", "C"), ("R", "H"), ("B", "H"), ("R", "B")]
_NONE = pd.DataFrame({"judge": pd.Series(dtype=str)})


@dataclass(frozen=True)
class Evidence:
    """A material with the tables that several claims share, each made once."""

    m: Material

    @cached_property
    def pairs(self) -> pd.DataFrame:
        """The primary designs in pairs by dataset and judge; Holm's p over a judge's lines."""
        return _holm(tables.paired_table(self.m.judged, _PAIRS)) if len(self.m.judged) else _NONE

    @cached_property
    def versions(self) -> pd.DataFrame:
        """Versions of H against versions of C."""
        rows = diagnosis.primary_and(self.m.conditions, "prompt")
        rows = rows[rows["condition"] != PRIMARY_RUN] if len(rows) else rows
        return diagnosis.prompt_pairs(rows, VERSION_PAIRS, ["dataset", "judge"]) if len(rows) else _NONE

    @cached_property
    def schema(self) -> pd.DataFrame:
        """The schema-matched control against H."""
        rows = self.m.conditions
        rows = rows[rows["condition"] == "schema-matched"] if len(rows) else rows
        return diagnosis.prompt_pairs(rows, [("H.v1", "S.v1")], ["dataset", "judge"]) if len(rows) else _NONE

    @cached_property
    def moved(self) -> pd.DataFrame:
        """Flips under a swapped reference, by judge, dataset and prompt."""
        paired = effects.pairs(self.m.conditions)
        swapped = paired[paired["condition"] == "reference-swapped"]
        return effects.effects(swapped, ["judge", "dataset", "prompt"]) if len(swapped) else _NONE

    @cached_property
    def under(self) -> pd.DataFrame:
        """The judgments under construction and the author's labels, or the first reader's where these are missing."""
        readers = {name: labels for name, labels in self.m.standards.items() if name != CONSTRUCTION}
        if not readers or self.m.judged.empty or self.m.labels.empty:
            return _NONE
        reader = AUTHOR if AUTHOR in readers else next(iter(readers))
        pair = {CONSTRUCTION: self.m.standards[CONSTRUCTION], reader: readers[reader]}
        try:
            return standards.judged_under(self.m.judged, pair)
        except ValueError:
            # No labelled row was judged in every design.
            return _NONE


def _holm(table: pd.DataFrame) -> pd.DataFrame:
    return stats.with_holm(table) if len(table) else table


def _lines(table: pd.DataFrame, judge: str, **where: str) -> pd.DataFrame:
    mine = table[table["judge"] == judge] if len(table) else _NONE
    for name, value in where.items():
        mine = mine[mine[name] == value] if len(mine) else mine
    return mine


def _sides(table: pd.DataFrame) -> tuple[pd.Series, pd.Series]:
    """Which lines of a paired table tell that a is above b, and which that it is below."""
    told = table["p_holm"] < stats.ALPHA
    return told & (table["low"] > 0), told & (table["high"] < 0)


def _size(line) -> str:
    return f"{line.a} − {line.b} {points(line.difference)} {interval(line.low, line.high, line.note)}"


def above(dataset: str, *pairs: tuple[str, str], of: str = "pairs") -> Callable[[Evidence, str], Found | None]:
    """The first of each pair is above the second: holds if all are told, fails if one is told the other way."""

    def decide(e: Evidence, judge: str) -> Found | None:
        mine = _lines(getattr(e, of), judge, dataset=dataset)
        if mine.empty:
            return None
        parts = [_turned(mine, a, b) for a, b in pairs]
        if any(part.empty for part in parts):
            return None
        table = pd.concat(parts)
        up, down = _sides(table)
        found = FAILS if down.any() else HOLDS if up.all() else CANNOT_TELL
        return found, ", ".join(_size(line) for line in table.itertuples())

    return decide


def _turned(mine: pd.DataFrame, a: str, b: str) -> pd.DataFrame:
    """The line of a against b, turned round where the table has b against a."""
    straight = mine[(mine["a"] == a) & (mine["b"] == b)]
    if len(straight):
        return straight
    back = mine[(mine["a"] == b) & (mine["b"] == a)]
    # 0 minus a zero has no sign.
    ends = {"difference": 0.0 - back["difference"], "low": 0.0 - back["high"], "high": 0.0 - back["low"]}
    return back.assign(a=a, b=b, **ends)


def versions(e: Evidence, judge: str) -> Found | None:
    """Every version of H is above every version of C on ASQA."""
    mine = _lines(e.versions, judge, dataset="asqa")
    if mine.empty:
        return None
    up, down = _sides(mine)
    found = FAILS if down.any() else HOLDS if up.all() and len(mine) == len(VERSION_PAIRS) else CANNOT_TELL
    return found, f"{(mine['difference'] > 0).sum()} of {len(VERSION_PAIRS)} differences above 0, {up.sum()} told"


def flips(dataset: str, low: float, high: float) -> Callable[[Evidence, str], Found | None]:
    """The share of verdicts that flip lies in a range, in each design."""

    def decide(e: Evidence, judge: str) -> Found | None:
        mine = _lines(e.moved, judge, dataset=dataset)
        mine = mine[mine["flip_rate"].notna()] if len(mine) else mine
        return _ranged(mine, ("flip_rate", "flip_low", "flip_high"), low, high) if len(mine) else None

    return decide


def _ranged(mine: pd.DataFrame, names: Sequence[str], low: float, high: float) -> Found:
    value, ends = mine[names[0]], (mine[names[1]], mine[names[2]])
    outside = (ends[1] < low) | (ends[0] > high)
    inside = (ends[0] >= low) & (ends[1] <= high)
    found = FAILS if outside.any() else HOLDS if inside.all() else CANNOT_TELL
    seen = f"{percent(value.min())} to {percent(value.max())} %"
    return found, f"{seen}, intervals from {percent(ends[0].min())} to {percent(ends[1].max())}"


def full_rows(e: Evidence, judge: str) -> Found | None:
    """Every design calls 94 to 100 percent of the full rows right."""
    rows = _lines(e.m.judged, judge, kind="full")
    if rows.empty:
        return None
    return _ranged(stats.accuracy(rows, ["dataset", "design"]), ("accuracy", "low", "high"), 0.94, 1.0)


def cheaper(dataset: str) -> Callable[[Evidence, str], Found | None]:
    """H takes fewer tokens a call than C."""

    def decide(e: Evidence, judge: str) -> Found | None:
        rows = _lines(e.m.judged, judge, dataset=dataset)
        table = paper_stats.token_table(rows, "C") if len(rows) else rows
        mine = table[(table["design"] == "H") & table["more"].notna()] if len(table) else table
        if mine.empty:
            return None
        x = mine.iloc[0]
        found = HOLDS if x["high"] < 0 else FAILS if x["low"] > 0 else CANNOT_TELL
        return found, f"H − C {x['more']:+.0f} tokens a call [{x['low']:.0f}, {x['high']:.0f}]"

    return decide


def bins(e: Evidence, judge: str) -> Found | None:
    """H is above C in every complexity bin of ASQA and QAMPARI."""
    rows = _lines(e.m.judged, judge)
    rows = rows[rows["dataset"].isin(["asqa", "qampari"])] if len(rows) else rows
    if rows.empty or not {"C", "H"} <= set(rows["design"]):
        return None
    table = _holm(tables.complexity_table(rows, n_bins=e.m.p.complexity_bins))
    up, down = _sides(table)
    found = FAILS if down.any() else HOLDS if up.all() else CANNOT_TELL
    over, under = ((table["difference"] > 0).sum(), (table["difference"] < 0).sum())
    return found, f"{over} of {len(table)} bins above 0, {up.sum()} told; {under} below, {down.sum()} told"


def no_trend(e: Evidence, judge: str) -> Found | None:
    """H minus C does not go with complexity on ASQA, by Spearman's rank correlation over questions.

    A trend can be found, and then the claim fails; that there is none cannot be shown.
    """
    from scipy.stats import spearmanr

    rows = _lines(e.m.judged, judge, dataset="asqa")
    if rows.empty or not {"C", "H"} <= set(rows["design"]):
        return None
    right = rows.pivot_table(index=["question_id", "complexity"], columns="design", values="correct", aggfunc="mean")
    both = right[["H", "C"]].astype(float).dropna()
    difference, complexity = both["H"] - both["C"], both.index.get_level_values("complexity")
    if difference.nunique() < 2 or complexity.nunique() < 2:
        return CANNOT_TELL, "no variation over the questions"
    found = spearmanr(complexity, difference)
    word = FAILS if found.pvalue < stats.ALPHA else CANNOT_TELL
    return word, f"rank correlation {found.statistic:+.2f}, p {stats.format_p(found.pvalue)}, {len(both)} questions"


def order_reverses(e: Evidence, judge: str) -> Found | None:
    """H is above C under construction and C above H under people's labels."""
    rows = _lines(e.under, judge)
    if rows.empty or not {"C", "H"} <= set(rows["design"]):
        return None
    x = standards.reversals(rows, ["C", "H"]).iloc[0]
    sides = f"C − H {points(x['before'])} under {x['first']}, {points(x['after'])} under {x['second']}"
    pairs = standards.paired(rows)
    c_above, h_above = _sides(pairs)
    against = (c_above & (pairs["standard"] == x["first"])) | (h_above & (pairs["standard"] == x["second"]))
    found = HOLDS if x["finding"] == REVERSES and x["before"] < 0 else FAILS if against.any() else CANNOT_TELL
    return found, sides


def r_last(e: Evidence, judge: str) -> Found | None:
    """Every other design is above R under people's labels."""
    rows = _lines(e.under, judge)
    rows = rows[rows["standard"] != CONSTRUCTION] if len(rows) else rows
    if rows.empty or "R" not in set(rows["design"]):
        return None
    table = standards.paired(rows)
    beside = pd.concat([_turned(table, other, "R") for other in ("C", "H", "B")])
    up, down = _sides(beside)
    found = FAILS if down.any() else HOLDS if up.all() and len(beside) == 3 else CANNOT_TELL
    return found, ", ".join(_size(line) for line in beside.itertuples())


def generated(e: Evidence, judge: str) -> Found | None:
    """H is above C on generated answers."""
    rows = _lines(e.m.generated, judge)
    if rows.empty or not {"C", "H"} <= set(rows["design"]):
        return None
    table = _holm(stats.compare_all(rows, ["judge"], [("H", "C")]))
    up, down = _sides(table)
    return (HOLDS if up.all() else FAILS if down.any() else CANNOT_TELL), _size(next(table.itertuples()))
