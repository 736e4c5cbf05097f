"""The diagnostics for people: one row before and after a change, and tables by design.

Statistics are those of `lib.effects`, sentences on them those of `lib.findings`.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

import pandas as pd

from lib import stats
from lib.conditions import CONDITIONS
from lib.effects import effects
from lib.plan import PRIMARY_RUN
from lib.prompts import load_prompt
from lib.slices import Slice
from lib.tables import interval, markdown, percent, points

NOTHING_YET = "No judgments are here yet."
_SHOWN = 420  # characters of a text that are shown


def example(slices: Sequence[Slice], condition: str) -> str:
    """What a condition changes, as Markdown: its sentence, and one row, the settings of a call, or its prompts."""
    entry = CONDITIONS[condition]
    head = f"**{condition}.** {entry.about}"
    if entry.prompts:
        notes = [{"prompt": name, "what": load_prompt(name).note} for name in entry.prompts]
        return f"{head}\n\n{markdown(pd.DataFrame(notes))}"
    for each in slices:
        if each.applied is None or condition not in each.applied.plan.settings:
            continue
        if entry.settings:
            return f"{head} As {each.judge} is asked:\n\n{_settings(each, condition)}"
        if entry.change and (shown := _row(each, condition)):
            return f"{head} {shown}"
    return head if entry.change is None and entry.settings is None else f"{head} It applies to no row here."


def _row(each: Slice, condition: str) -> str:
    changed = each.applied.plan.rows.query("condition == @condition")
    # The longest text that still fits shows most.
    lengths = changed["candidate"].str.len() + changed["reference"].str.len()
    if changed.empty:
        return ""
    fits = lengths[lengths <= _SHOWN]
    after = changed.loc[fits.idxmax() if len(fits) else lengths.idxmin()]
    before = each.rows.set_index("row_id").loc[after["row_id"]]
    name = "reference" if before["reference"] != after["reference"] else "candidate"
    start = next(
        (n for n, pair in enumerate(zip(before[name], after[name], strict=False)) if len(set(pair)) > 1), None
    )
    start = min(len(before[name]), len(after[name])) if start is None else start
    texts = [_window(text, start) or "(empty)" for text in (before[name], after[name])]
    return f"The {name} of `{after['row_id']}` before:\n\n{_block(texts[0])}\n\nand after:\n\n{_block(texts[1])}"


def _window(text: str, start: int) -> str:
    begin = max(0, min(start - _SHOWN // 3, len(text) - _SHOWN))
    cut = text[begin : begin + _SHOWN]
    return "… " * (begin > 0) + cut + " …" * (begin + _SHOWN < len(text))


def _block(text: str) -> str:
    lines = [
        wrapped
        for line in text.split("\n")
        for wrapped in textwrap.wrap(line, 100, replace_whitespace=False, drop_whitespace=False) or [""]
    ]
    return "````\n" + "\n".join(lines) + "\n````"


def _settings(each: Slice, condition: str) -> str:
    judges = each.applied.plan.judge, each.applied.plan.settings[condition].judge
    lines = [
        {"": name, "sent": judge.settings()["sent"], "structured output": judge.settings()["structured output"]}
        for name, judge in zip((PRIMARY_RUN, condition), judges, strict=True)
    ]
    return markdown(pd.DataFrame(lines))


def by_design(table: pd.DataFrame, cell, index: Sequence[str] = ("judge", "condition")) -> str:
    """`by_design_shown` as Markdown."""
    return NOTHING_YET if table.empty else markdown(by_design_shown(table, cell, index))


def by_design_shown(table: pd.DataFrame, cell, index: Sequence[str] = ("judge", "condition")) -> pd.DataFrame:
    """A table with a column a prompt for people: one line for each of `index`, questions and rows beside.

    `cell` makes a line's text from a row of `table`. A prompt that was not asked is `not run`.
    """
    index = list(index)
    texts = table.assign(text=[cell(line) for line in table.itertuples()])
    wide = texts.pivot(index=index, columns="prompt", values="text")
    order = pd.MultiIndex.from_frame(texts[index].drop_duplicates())
    # A prompt that lacks a dataset has fewer rows than the others.
    sizes = texts.groupby(index, sort=False)[["n_questions", "n_rows"]].agg(_span)
    wide = sizes.join(wide[list(dict.fromkeys(texts["prompt"]))]).loc[order].fillna("not run").reset_index()
    return wide.rename(columns={"n_questions": "questions", "n_rows": "rows"})


def _span(counts: pd.Series) -> str:
    return " to ".join(map(str, sorted({counts.min(), counts.max()})))


def effect_cell(line) -> str:
    """Accuracy, its difference from the primary run in points with the interval, the exact p and Holm's."""
    text = f"{percent(line.accuracy)} ({points(line.difference)} {interval(line.low, line.high, line.note)}"
    before = f" ({line.unjudged_primary} in the primary run)" if line.unjudged_primary else ""
    unjudged = f", {line.unjudged} unjudged{before}" if line.unjudged or before else ""
    return f"{text}, p {stats.format_p(line.p_value)}, Holm {stats.format_p(line.p_holm)}){unjudged}"


def flip_cell(line) -> str:
    """Flips among the rows judged on both sides, their share with its interval, and the exact p of accuracy."""
    ends = interval(line.flip_low, line.flip_high, line.flip_interval)
    text = f"{line.flips}/{line.n_both}: {percent(line.flip_rate)} {ends}"
    return f"{text}, accuracy p {stats.format_p(line.p_value)}{_unjudged(line.n_rows - line.n_both)}"


def directed_cell(line) -> str:
    """Hits among the rows that could move, their share with its interval, and the exact p of the direction."""
    text = f"{line.hits}/{line.eligible}: {percent(line.rate)} {interval(line.low, line.high, line.interval)}"
    text += f", {line.against} the other way" if line.against else ""
    elsewhere = line.flips - line.hits - line.against
    text += f", {elsewhere} elsewhere" if elsewhere else ""
    return f"{text}, direction p {stats.format_p(line.p_value)}{_unjudged(line.unjudged)}"


def read_cell(line) -> str:
    """Accuracy with its interval; replies cut at the cap and verdicts recovered or not read, where there are some."""
    text = f"{percent(line.accuracy)} {interval(line.low, line.high, line.note)}"
    counts = [f", {getattr(line, name)} {name}" for name in ("cut", "recovered") if getattr(line, name)]
    return text + "".join(counts) + _unjudged(line.unjudged)


def _unjudged(rows: int) -> str:
    return f", {rows} unjudged" if rows else ""


def retest_markdown(table: pd.DataFrame) -> str:
    """The table of `lib.effects.retest` for people."""
    if table.empty:
        return NOTHING_YET
    lines = [
        {
            "judge": line.judge,
            "prompt": line.prompt,
            "questions": line.n_questions,
            "rows": line.n_rows,
            "all repeats equal": f"{line.equal} of {line.n_rows - line.unjudged}{_unjudged(line.unjudged)}",
            "pairs that differ": f"{percent(line.disagreement)} {interval(line.low, line.high, line.interval)}",
            "accuracy over repeats": f"{percent(line.accuracy_low)} to {percent(line.accuracy_high)}",
            "noise in points": f"{100 * line.noise:.1f}",
        }
        for line in table.itertuples()
    ]
    return markdown(pd.DataFrame(lines))


def prompt_pairs(judged: pd.DataFrame, pairs: Sequence[tuple[str, str]], by: Sequence[str]) -> pd.DataFrame:
    """Prompts compared in pairs within `by`: columns of `lib.stats.compare_all`, and `dataset` "all" if not in it.

    Unlike in the tables of `lib.tables`, versions of one design stand side by side, and `p_holm` is by judge.
    """
    table = stats.compare_all(judged.assign(design=judged["prompt"]) if len(judged) else judged, by, pairs)
    table = stats.with_holm(table) if len(table) else table
    return table if "dataset" in table else table.assign(dataset="all")


def grid_markdown(table: pd.DataFrame) -> str:
    """`grid_shown` as Markdown."""
    return NOTHING_YET if table.empty else markdown(grid_shown(table))


def grid_shown(table: pd.DataFrame) -> pd.DataFrame:
    """Every version of H against every version of C: differences in points with intervals and Holm's p.

    `table` is that of `prompt_pairs` by dataset and judge.
    """
    lines = table.assign(
        text=[
            f"{points(line.difference)} {interval(line.low, line.high, line.note)}, {stats.format_p(line.p_holm)}"
            for line in table.itertuples()
        ],
        pair=[f"− {b}" for b in table["b"]],
    )
    keys = ["dataset", "judge", "n_questions", "a"]
    wide = lines.pivot(index=keys, columns="pair", values="text")
    order = list(lines[keys].drop_duplicates().itertuples(index=False, name=None))
    return wide.loc[order].reset_index().rename(columns={"n_questions": "questions", "a": ""})


def primary_and(judged: pd.DataFrame, group: str) -> pd.DataFrame:
    """The judgments of a group of conditions and those of the primary run on the same rows."""
    if judged.empty:
        return judged
    mine = judged[judged["condition"].map(lambda name: CONDITIONS[name].group == group).astype(bool)]
    keys = ["judge", "dataset", "row_id"]
    same_rows = pd.MultiIndex.from_frame(judged[keys]).isin(pd.MultiIndex.from_frame(mine[keys]))
    primary = judged[(judged["condition"] == PRIMARY_RUN) & same_rows]
    both, judges = pd.concat([primary, mine]), list(dict.fromkeys(judged["judge"]))
    return both.sort_values("judge", key=lambda names: names.map(judges.index), kind="stable", ignore_index=True)


def overview(paired: pd.DataFrame) -> pd.DataFrame:
    """The effects of all conditions by judge and `base`, and a `shown` name: both prompts where they are compared."""
    table = effects(paired, ("judge", "condition", "prompt", "base"))
    if table.empty:
        return table
    # In the order in which conditions are defined: not every judge has them all.
    places = {name: place for place, name in enumerate(CONDITIONS)}
    table = table.sort_values("condition", key=lambda names: names.map(places), kind="stable", ignore_index=True)
    own = table["prompt"] != table["base"]
    return table.assign(shown=table["condition"].where(~own, table["prompt"] + " for " + table["base"]))
