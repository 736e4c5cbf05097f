"""How each of the paper's claims in words is decided for one judge: holds, fails, or cannot tell.

Nothing is decided by a point estimate: a comparison is told if the exact test after Holm and the interval agree, a
range if the whole interval lies in it, and neither while cells are missing. Which claims there are stands in
`lib.claims`.
"""

from __future__ import annotations

from collections.abc import Callable

import pandas as pd

from lib import paper_stats, standards, stats, tables
from lib.evidence import (
    CANNOT_TELL,
    FAILS,
    HOLDS,
    Evidence,
    Found,
    holm,
    lacks,
    lines,
    ranged,
    sides,
    size,
    turned,
)
from lib.label_files import CONSTRUCTION
from lib.paper_tables import VERSION_PAIRS
from lib.standards import REVERSES
from lib.study import DATASETS
from lib.tables import points


def above(dataset: str, *pairs: tuple[str, str], of: str = "pairs") -> Callable[[Evidence, str], Found | None]:
    """The first of each pair is above the second: holds if all are told, fails if one is told the other way."""

    def decide(e: Evidence, judge: str) -> Found | None:
        mine = lines(getattr(e, of), judge, dataset=dataset)
        if mine.empty:
            return None
        parts = [turned(mine, a, b) for a, b in pairs]
        if any(part.empty for part in parts):
            return None
        table = pd.concat(parts)
        up, down = sides(table, e.strict(judge))
        found = FAILS if down.any() else HOLDS if up.all() else CANNOT_TELL
        return found, ", ".join(size(line) for line in table.itertuples())

    return decide


def versions(e: Evidence, judge: str) -> Found | None:
    """Every version of H is above every version of C on ASQA."""
    mine = lines(e.versions, judge, dataset="asqa")
    if mine.empty:
        return None
    up, down = sides(mine, e.strict(judge))
    found = FAILS if down.any() else HOLDS if up.all() and len(mine) == len(VERSION_PAIRS) else CANNOT_TELL
    return found, f"{(mine['difference'] > 0).sum()} of {len(VERSION_PAIRS)} differences above 0, {up.sum()} told"


def flips(dataset: str, low: float, high: float) -> Callable[[Evidence, str], Found | None]:
    """The share of verdicts that flip lies in a range, in each design."""

    def decide(e: Evidence, judge: str) -> Found | None:
        mine = lines(e.moved, judge, dataset=dataset)
        mine = mine[mine["flip_rate"].notna()] if len(mine) else mine
        if mine.empty:
            return None
        absent = lacks(e, judge, {(dataset, prompt[0]) for prompt in mine["prompt"]}, [dataset])
        found = ranged(mine, ("flip_rate", "flip_low", "flip_high"), (low, high), e.strict(judge))
        return (CANNOT_TELL, absent) if absent else found

    return decide


def full_rows(e: Evidence, judge: str) -> Found | None:
    """Every design calls 94 to 100 percent of the full rows right."""
    rows = lines(e.m.judged, judge, kind="full")
    if rows.empty:
        return None
    table = stats.accuracy(rows, ["dataset", "design"])
    absent = lacks(e, judge, set(zip(table["dataset"], table["design"], strict=True)), DATASETS)
    found = ranged(table, ("accuracy", "low", "high"), (0.94, 1.0), e.strict(judge))
    return (CANNOT_TELL, absent) if absent else found


def cheaper(dataset: str) -> Callable[[Evidence, str], Found | None]:
    """H takes fewer tokens a call than C."""

    def decide(e: Evidence, judge: str) -> Found | None:
        rows = lines(e.m.judged, judge, dataset=dataset)
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
    rows = lines(e.m.judged, judge)
    rows = rows[rows["dataset"].isin(["asqa", "qampari"])] if len(rows) else rows
    if rows.empty or not {"C", "H"} <= set(rows["design"]):
        return None
    table = holm(tables.complexity_table(rows, n_bins=e.m.p.complexity_bins))
    up, down = sides(table, e.strict(judge))
    found = FAILS if down.any() else HOLDS if up.all() else CANNOT_TELL
    if table["dataset"].nunique() < 2:
        return CANNOT_TELL, f"only {table['dataset'].iloc[0]} was run"
    over, under = ((table["difference"] > 0).sum(), (table["difference"] < 0).sum())
    return found, f"{over} of {len(table)} bins above 0, {up.sum()} told; {under} below, {down.sum()} told"


def no_trend(e: Evidence, judge: str) -> Found | None:
    """H minus C does not go with complexity on ASQA, by Spearman's rank correlation over questions.

    A trend can be found, and then the claim fails; that there is none cannot be shown.
    """
    from scipy.stats import spearmanr

    rows = lines(e.m.judged, judge, dataset="asqa")
    if rows.empty or not {"C", "H"} <= set(rows["design"]):
        return None
    right = rows.pivot_table(index=["question_id", "complexity"], columns="design", values="correct", aggfunc="mean")
    both = right[["H", "C"]].astype(float).dropna()
    difference, complexity = both["H"] - both["C"], both.index.get_level_values("complexity")
    if difference.nunique() < 2 or complexity.nunique() < 2:
        return CANNOT_TELL, "no variation over the questions"
    found = spearmanr(complexity, difference)
    word = FAILS if found.pvalue < e.strict(judge) else CANNOT_TELL
    return word, f"rank correlation {found.statistic:+.2f}, p {stats.format_p(found.pvalue)}, {len(both)} questions"


def order_reverses(e: Evidence, judge: str) -> Found | None:
    """H is above C under construction and C above H under people's labels."""
    rows = lines(e.under, judge)
    if rows.empty or not {"C", "H"} <= set(rows["design"]):
        return None
    x = standards.reversals(rows, ["C", "H"]).iloc[0]
    both = f"C − H {points(x['before'])} under {x['first']}, {points(x['after'])} under {x['second']}"
    pairs = standards.paired(rows)
    h_above = sides(pairs, e.strict(judge))[1]
    c_above = sides(turned(pairs, "H", "C"), e.strict(judge))[1]
    against = (c_above & (pairs["standard"] == x["first"])) | (h_above & (pairs["standard"] == x["second"]))
    found = HOLDS if x["finding"] == REVERSES and x["before"] < 0 else FAILS if against.any() else CANNOT_TELL
    return found, both


def r_last(e: Evidence, judge: str) -> Found | None:
    """Every other design is above R under people's labels."""
    rows = lines(e.under, judge)
    rows = rows[rows["standard"] != CONSTRUCTION] if len(rows) else rows
    if rows.empty or "R" not in set(rows["design"]):
        return None
    table = standards.paired(rows)
    beside = pd.concat([turned(table, other, "R") for other in ("C", "H", "B")])
    up, down = sides(beside, e.strict(judge))
    found = FAILS if down.any() else HOLDS if up.all() and len(beside) == 3 else CANNOT_TELL
    return found, ", ".join(size(line) for line in beside.itertuples())


def generated(e: Evidence, judge: str) -> Found | None:
    """H is above C on generated answers."""
    rows = lines(e.m.generated, judge)
    if rows.empty or not {"C", "H"} <= set(rows["design"]):
        return None
    table = holm(stats.compare_all(rows, ["judge"], [("H", "C")]))
    up, down = sides(table, e.strict(judge))
    return (HOLDS if up.all() else FAILS if down.any() else CANNOT_TELL), size(next(table.itertuples()))
