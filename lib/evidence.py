"""What the paper's claims are decided from: the tables that they share, and when a difference or a range is told.

How each is decided stands in `lib.decisions`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import NormalDist

import pandas as pd

from lib import diagnosis, effects, standards, stats, tables
from lib.label_files import CONSTRUCTION
from lib.material import Material, designs_of
from lib.paper_tables import VERSION_PAIRS
from lib.plan import PRIMARY_RUN
from lib.reproduced import AUTHOR
from lib.study import study_judges
from lib.tables import interval, percent, points

HOLDS, FAILS, CANNOT_TELL, NOT_RUN = "holds", "fails", "cannot tell", "not run"
Found = tuple[str, str]
_PAIRS = [("H", "C"), ("R", "C"), ("B", "C"), ("R", "H"), ("B", "H"), ("R", "B")]
NOTHING = pd.DataFrame({"judge": pd.Series(dtype=str)})


@dataclass(frozen=True)
class Evidence:
    """A material with the tables that several claims share, each made once."""

    m: Material

    @cached_property
    def study(self) -> list[str]:
        """The judges that count as the study's."""
        return list(study_judges(self.m).values())

    def strict(self, judge: str) -> float:
        """The level at which a claim fails for one judge: for the study it fails if it does for any of its judges."""
        return stats.ALPHA / (len(self.study) if judge in self.study else 1)

    @cached_property
    def pairs(self) -> pd.DataFrame:
        """The primary designs in pairs by dataset and judge; Holm's p over a judge's lines."""
        return holm(tables.paired_table(self.m.judged, _PAIRS)) if len(self.m.judged) else NOTHING

    @cached_property
    def versions(self) -> pd.DataFrame:
        """Versions of H against versions of C."""
        rows = diagnosis.primary_and(self.m.conditions, "prompt")
        rows = rows[rows["condition"] != PRIMARY_RUN] if len(rows) else rows
        return diagnosis.prompt_pairs(rows, VERSION_PAIRS, ["dataset", "judge"]) if len(rows) else NOTHING

    @cached_property
    def schema(self) -> pd.DataFrame:
        """The schema-matched control against H."""
        rows = self.m.conditions
        rows = rows[rows["condition"] == "schema-matched"] if len(rows) else rows
        return diagnosis.prompt_pairs(rows, [("H.v1", "S.v1")], ["dataset", "judge"]) if len(rows) else NOTHING

    @cached_property
    def moved(self) -> pd.DataFrame:
        """Flips under a swapped reference, by judge, dataset and prompt."""
        paired = effects.pairs(self.m.conditions)
        swapped = paired[paired["condition"] == "reference-swapped"]
        return effects.effects(swapped, ["judge", "dataset", "prompt"]) if len(swapped) else NOTHING

    @cached_property
    def under(self) -> pd.DataFrame:
        """The judgments under construction and the author's labels, or the first reader's where these are missing."""
        readers = {name: labels for name, labels in self.m.standards.items() if name != CONSTRUCTION}
        if not readers or self.m.judged.empty or self.m.labels.empty:
            return NOTHING
        reader = AUTHOR if AUTHOR in readers else next(iter(readers))
        pair = {CONSTRUCTION: self.m.standards[CONSTRUCTION], reader: readers[reader]}
        try:
            return standards.judged_under(self.m.judged, pair)
        except ValueError:
            # No labelled row was judged in every design.
            return NOTHING


def holm(table: pd.DataFrame) -> pd.DataFrame:
    """Holm's p over the lines of each judge (`lib.stats.with_holm`), also of no line."""
    return stats.with_holm(table) if len(table) else table


def lines(table: pd.DataFrame, judge: str, **where: str) -> pd.DataFrame:
    """The lines of a judge with these values, from a table that may be empty."""
    mine = table[table["judge"] == judge] if len(table) else NOTHING
    for name, value in where.items():
        mine = mine[mine[name] == value] if len(mine) else mine
    return mine


def sides(table: pd.DataFrame, strict: float = stats.ALPHA) -> tuple[pd.Series, pd.Series]:
    """Which lines of a paired table tell that a is above b, and which, at the strict level, that it is below."""
    above = (table["p_holm"] < stats.ALPHA) & (table["low"] > 0)
    return above, (table["p_holm"] < strict) & (table["high"] < 0)


def size(line) -> str:
    """A difference in points with its interval."""
    ends = interval(line.low, line.high, line.note)
    return f"{line.a} − {line.b} {points(line.difference)} {ends}, Holm p {stats.format_p(line.p_holm)}"


def turned(mine: pd.DataFrame, a: str, b: str) -> pd.DataFrame:
    """The line of a against b, turned round where the table has b against a."""
    straight = mine[(mine["a"] == a) & (mine["b"] == b)]
    if len(straight):
        return straight
    back = mine[(mine["a"] == b) & (mine["b"] == a)]
    # 0 minus a zero has no sign.
    ends = {"difference": 0.0 - back["difference"], "low": 0.0 - back["high"], "high": 0.0 - back["low"]}
    return back.assign(a=a, b=b, **ends)


def ranged(mine: pd.DataFrame, names: Sequence[str], bounds: tuple[float, float], level: float) -> Found:
    """Whether shares lie in a range: all whole 95 percent intervals, or one wholly outside.

    The second is asked of every line, so each interval is widened for it to `level` divided by the lines (Bonferroni;
    half its width times a ratio of normal quantiles).
    """
    value, low, high = (mine[name] for name in names)
    wider = NormalDist().inv_cdf(1 - level / len(mine) / 2) / NormalDist().inv_cdf(1 - stats.ALPHA / 2)
    outside = (value + wider * (high - value) < bounds[0]) | (value - wider * (value - low) > bounds[1])
    inside = (low >= bounds[0]) & (high <= bounds[1])
    found = FAILS if outside.any() else HOLDS if inside.all() else CANNOT_TELL
    seen = f"{percent(value.min())} to {percent(value.max())} %"
    return found, f"{seen}, intervals from {percent(low.min())} to {percent(high.max())}"


def lacks(e: Evidence, judge: str, there: set, datasets: Sequence[str]) -> str:
    """Which designs of a judge are missing in which datasets, in words, or ""."""
    wanted = [(dataset, prompt[0]) for dataset in datasets for prompt in designs_of(e.m.p, judge)]
    lacking = [f"{design} on {dataset}" for dataset, design in wanted if (dataset, design) not in there]
    return f"missing: {', '.join(lacking)}" if lacking else ""
