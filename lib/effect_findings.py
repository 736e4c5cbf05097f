"""Sentences made from the tables of `lib.effects`: what a slice tells, and what it could have found."""

from __future__ import annotations

import pandas as pd

from lib import stats
from lib.conditions import CONDITIONS
from lib.power import smallest_difference
from lib.tables import percent, points


def tells(table: pd.DataFrame) -> str:
    """What each condition does to accuracy, or that the slice cannot tell, and what it would have found.

    `table` is that of `lib.effects.effects`. An effect is told only if the exact test (after Holm over the table)
    and the interval agree.
    """
    lines: dict[tuple[str, str], list[str]] = {}
    keys = [name for name in ("judge", "condition", "dataset") if name in table]
    for (judge, *slice_of), part in table.groupby(keys, sort=False):
        told = (part["p_holm"] < stats.ALPHA) & ((part["low"] > 0) | (part["high"] < 0))
        sentences = []
        for word, moved in (("falls", told & (part["difference"] < 0)), ("rises", told & (part["difference"] > 0))):
            if moved.any():
                named = [f"{line.prompt} ({points(line.difference)})" for line in part[moved].itertuples()]
                sentences.append(f"accuracy {word} in {', '.join(named)}")
        if not told.all():
            sentences.append(_cannot(part[~told]))
        # What is said of several slices in the same words is said once.
        lines.setdefault((judge, "; ".join(sentences)), []).append(", ".join(slice_of))
    return "\n".join(f"- {judge}, {'; '.join(slices)}: {text}." for (judge, text), slices in lines.items())


def _cannot(part: pd.DataFrame) -> str:
    return f"cannot tell for {', '.join(part['prompt'])}: {_found(part)}"


def steady(table: pd.DataFrame) -> str:
    """Which changes that should not move a verdict moved one, by judge. `table` is that of `lib.effects.effects`."""
    lines = []
    for judge, part in table.groupby("judge", sort=False):
        seen = part[part["n_both"] > 0]
        moved = seen[seen["flips"] > 0].sort_values("flip_rate", ascending=False, kind="stable")
        still = len(seen) - len(moved)
        bound = seen.loc[seen["flips"] == 0, "flip_high"].max()
        text = f"no flip in {still} of {len(seen)} cells" if len(seen) else "no verdict was read on both sides"
        text += f", which still leaves room for up to {percent(bound)} %" if still and pd.notna(bound) else ""
        if len(moved):
            most = [f"{x.condition} in {x.prompt} ({x.flips} of {x.n_both})" for x in moved.head(4).itertuples()]
            text += f"; most flips under {', '.join(most)}"
        if 0 < len(seen) < len(part):
            text += f"; {len(part) - len(seen)} more cells have no verdict on both sides"
        lines.append(f"- {judge}: {text}. In accuracy, {_found(part)}.")
    return "\n".join(lines)


def swapped(table: pd.DataFrame) -> str:
    """How many verdicts follow another reference, by judge and dataset. `table` is that of `lib.effects.effects`."""
    lines = []
    for (judge, dataset), part in table.groupby(["judge", "dataset"], sort=False):
        known = part[part["flip_rate"].notna()]
        rates = [f"{line.prompt} {percent(line.flip_rate)} %" for line in known.itertuples()]
        flips = f"verdicts that flip: {', '.join(rates)}" if rates else "no verdict was read on both sides"
        lines.append(f"- {judge}, {dataset}: {flips}. In accuracy, {_found(part)}.")
    return "\n".join(lines)


def _found(part: pd.DataFrame, sizes: str = "n_questions") -> str:
    """What lines of a table could have found, from their numbers of questions and `smallest`."""
    some, none = part[part["smallest"].notna()], part[part["smallest"].isna()]
    texts = []
    if len(some):
        least = f"a net change of {_ends(some['smallest'])} % of them or more"
        texts.append(f"{_ends(some[sizes] / 100, '{:.0f}')} questions would show {least} (power 0.8)")
    if len(none):
        which = f" in {len(none)} of {len(part)} cells" if len(some) else ""
        texts.append(f"{_ends(none[sizes] / 100, '{:.0f}')} questions are too few to show any (power 0.8){which}")
    return "; ".join(texts)


def direction(table: pd.DataFrame, verb: str) -> str:
    """How many of the verdicts that could move did, by judge and condition, and which prompts do not ask for it.

    `table` is that of `lib.effects.moved_down` or `captured`.
    """
    lines = []
    for (judge, condition), part in table.groupby(["judge", "condition"], sort=False):
        asked = part[~part["prompt"].isin(CONDITIONS[condition].unasked)]
        text = f"{asked['hits'].sum()} of {asked['eligible'].sum()} verdicts {verb}"
        if asked["eligible"].sum() == 0:
            text = "no verdict could move that way, so this says nothing"
        if others := [name for name in part["prompt"] if name not in set(asked["prompt"])]:
            mine = part[part["prompt"].isin(others)]
            text += f"; {', '.join(others)} is not asked to see it: {mine['hits'].sum()} of {mine['eligible'].sum()}"
        flips, moves = part["flips"].sum(), (part["hits"] + part["against"]).sum()
        text += (
            f"; {flips} of {(part['n_rows'] - part['unjudged']).sum()} flip, whichever way" if flips > moves else ""
        )
        could = f" Of such moves, {_found(part, 'n_able')}." if part["eligible"].sum() else ""
        lines.append(f"- {judge}, {condition}: {text}.{could}")
    return "\n".join(lines)


def variants(table: pd.DataFrame) -> str:
    """Whether every version of H beats every version of C, by dataset and judge: holds, fails, or cannot tell.

    It fails where one is surely worse, and holds where all are surely better and none is missing.
    """
    versions = CONDITIONS["prompt-versions"].prompts
    asked = len([name for name in versions if name[0] == "H"]) * len([name for name in versions if name[0] == "C"])
    lines = []
    for (dataset, judge), part in table.groupby(["dataset", "judge"], sort=False):
        above = (part["p_holm"] < stats.ALPHA) & (part["low"] > 0)
        below = (part["p_holm"] < stats.ALPHA) & (part["high"] < 0)
        verdict = "fails" if below.any() else "holds" if above.all() and len(part) == asked else "cannot tell"
        signs = f"{(part['difference'] > 0).sum()} of {len(part)} differences are above 0, {above.sum()} for sure"
        signs += f", {below.sum()} are below 0 for sure" if below.any() else ""
        outside = ((part["low"] > 0) | (part["high"] < 0)).sum()
        signs += f" ({outside} intervals leave out 0)" if outside > above.sum() + below.sum() else ""
        signs += f"; {asked - len(part)} pairs are missing" if len(part) < asked else ""
        lines.append(f"- {dataset}, {judge}: {verdict}; {signs}.")
    return "\n".join(lines)


def noise(table: pd.DataFrame) -> str:
    """What repeats of the same call leave to chance, by judge. `table` is that of `lib.effects.retest`."""
    lines = []
    for judge, part in table.groupby("judge", sort=False):
        known, unknown = part[part["disagreement"].notna()], part.loc[part["disagreement"].isna(), "prompt"]
        texts = []
        if len(known) and known["disagreement"].max() == 0:
            named = "" if unknown.empty else f" of {', '.join(known['prompt'])}"
            texts.append(
                f"all {known['repeats'].iloc[0]} repeats{named} agree on every row, so no flip above is chance"
            )
        elif len(known):
            again = f"two repeats give another verdict in {_ends(known['disagreement'])} % of the pairs"
            texts.append(f"{again}; a flip rate no higher than that is noise")
        if len(unknown):
            texts.append(f"no row of {', '.join(unknown)} has a verdict in every repeat, which tells nothing")
        lines.append(f"- {judge}: {'; '.join(texts)}.")
    return "\n".join(lines)


def detectable(table: pd.DataFrame) -> str:
    """What paired comparisons could have found, by judge. `table` is that of `lib.stats.compare_all`."""
    other_way = table[["wins_a", "wins_b"]].min(axis=1) / table["n_questions"]
    sizes = zip(table["n_questions"], other_way, strict=True)
    table = table.assign(smallest=[smallest_difference(*each) for each in sizes])
    return "\n".join(f"- {judge}: {_found(part)}." for judge, part in table.groupby("judge", sort=False))


def _ends(shares: pd.Series, form: str = "{:.1f}") -> str:
    ends = sorted({form.format(100 * shares.min()), form.format(100 * shares.max())}, key=float)
    return " to ".join(ends)
