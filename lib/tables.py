"""Judgments to the study's tables: long frames for machines, Markdown for people.

Numbers are fractions until they are rendered, and an empty slice is `n/a`. The statistics are `lib.stats`'s.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter

import pandas as pd

from lib import stats
from lib.labels import complexity_bins
from lib.resampling import EXACT_BOUND, NOTE_NO_VARIATION

DESIGNS = ("C", "H", "R", "B", "S")
STAGES = ("whole", "embedded", "recovered", "unjudged")
_CELL = ["dataset", "judge", "design"]


def accuracy_table(judgments: pd.DataFrame) -> pd.DataFrame:
    """Table 2: accuracy by dataset x judge x design, with its interval and the mean tokens of a call.

    Columns: dataset, judge, design, those of `lib.stats.slice_accuracy`, and `tokens`: the mean of input plus
    output tokens a call, missing where a provider reports none. Raises ValueError for two versions of a design.
    """
    one_version(judgments)
    tokens = (judgments["tokens_in"] + judgments["tokens_out"]).astype("Float64")
    means = tokens.groupby([judgments[name] for name in _CELL], sort=False).mean()
    return stats.accuracy(judgments, _CELL).merge(means.rename("tokens").reset_index(), on=_CELL)


def one_version(judgments: pd.DataFrame) -> None:
    """Raise ValueError if a design stands in more than one prompt version: its rows would count twice."""
    versions = judgments.groupby("design")["prompt"].unique()
    for design, prompts in versions.items():
        if len(prompts) > 1:
            raise ValueError(f"design {design} comes as {', '.join(prompts)}; choose one version of it")


def kind_table(judgments: pd.DataFrame) -> pd.DataFrame:
    """Table 15: accuracy on supported rows and on the others, by dataset x judge x design. Columns as table 2
    without tokens, and `kind`."""
    return stats.accuracy(judgments, ["dataset", "kind", "judge", "design"])


def paired_table(judgments: pd.DataFrame, pairs: Sequence[tuple[str, str]] | None = None) -> pd.DataFrame:
    """Tables 3, 16, 17: designs compared in pairs within dataset x judge. Columns of `lib.stats.compare_all`."""
    one_version(judgments)
    return stats.compare_all(judgments, ["dataset", "judge"], pairs)


def complexity_table(judgments: pd.DataFrame, a: str = "H", b: str = "C", n_bins: int = 4) -> pd.DataFrame:
    """Table 19: designs a and b compared within bins of complexity, by dataset x judge.

    Columns of `lib.stats.compare_all` with `complexity_bin`. Bins are those of `lib.labels.complexity_bins`.
    """
    binned = judgments.assign(complexity_bin=complexity_bins(judgments, n_bins).astype(str))
    by = ["dataset", "judge"]
    groups = list(judgments[by].drop_duplicates().itertuples(index=False, name=None))
    order = binned.sort_values("complexity", kind="stable")
    table = stats.compare_all(order, [*by, "complexity_bin"], [(a, b)])
    place = [groups.index(key) for key in table[by].itertuples(index=False, name=None)]
    return table.iloc[pd.Series(place).argsort(kind="stable")].reset_index(drop=True)


def parse_table(judgments: pd.DataFrame) -> pd.DataFrame:
    """Table 20: how verdicts were read, by judge x design: a count for each stage, and `asked`, their sum."""
    counts = judgments.groupby(["judge", "design", "status"], sort=False).size().unstack(fill_value=0)
    counts = counts.reindex(columns=list(STAGES), fill_value=0).rename_axis(columns=None)
    return counts.assign(asked=counts.sum(axis=1)).reset_index()


def reason_table(judgments: pd.DataFrame) -> pd.DataFrame:
    """Why judgments are unjudged, by judge x design x reason: `rows`. Empty if none is."""
    unjudged = judgments[judgments["status"] == "unjudged"]
    return unjudged.groupby(["judge", "design", "reason"], sort=False).size().rename("rows").reset_index()


def percent(fraction: float) -> str:
    """`97.5`, or `n/a` for what has no value."""
    return "n/a" if pd.isna(fraction) else f"{100 * fraction:.1f}"


def interval(low: float, high: float, note: str = "") -> str:
    """`[95.0, 99.2]` in percent or points, or `[n/a]`; with a dagger if `note` says that it is an exact bound."""
    if pd.isna(low) or pd.isna(high):
        return "[n/a]"
    # Two kinds of interval stand in one table: the mark keeps them apart.
    return f"[{percent(low)}, {percent(high)}]" + ("†" if note in (NOTE_NO_VARIATION, EXACT_BOUND) else "")


def _interval(line) -> str:
    return interval(line.low, line.high, line.note)


def points(difference: float) -> str:
    """A difference in percentage points with its sign: `+7.2`, or `n/a`."""
    return "n/a" if pd.isna(difference) else f"{100 * difference:+.1f}"


def markdown(table: pd.DataFrame) -> str:
    """A table of texts as Markdown: nothing is turned into a number on the way, and what is missing stays empty.

    A cell stays one cell, and text stays text: bars, line ends and tags are written so that they show as they are.
    """
    texts = table.astype(object).where(table.notna(), "").astype(str).map(_cell)
    texts.columns = [_cell(str(name)) for name in texts.columns]
    return texts.to_markdown(index=False, disable_numparse=True)


def _cell(text: str) -> str:
    return " ".join(text.splitlines()).replace("|", "\\|").replace("<", "&lt;")


def estimate_markdown(estimate: pd.DataFrame) -> str:
    """What a plan will use, for people: one line a prompt and their sum, ranges in brackets.

    `estimate` is that of `lib.cost.estimate`. An unknown price is `n/a`.
    """
    numbers = estimate.select_dtypes("number").columns
    total = {"prompt": "all", "basis": "", **{name: estimate[name].sum(skipna=False) for name in numbers}}
    lines = [
        {
            "prompt": line["prompt"],
            "calls": line["calls"],
            "have a reply": line["store"] + line["recorded"],
            "in batches": line["in_batches"],
            "to ask": line["to_ask"],
            "tokens in": f"{line['tokens_in']:,.0f}",
            "tokens out": "{tokens_out:,.0f} [{tokens_out_low:,.0f}, {tokens_out_high:,.0f}]".format(**line),
            "live": money(line["live"], line["live_low"], line["live_high"]),
            "batch": money(line["batch"], line["batch_low"], line["batch_high"]),
            "live minutes": f"{line['seconds'] / 60:,.1f}",
            "rests on": line["basis"],
        }
        for line in [*estimate.to_dict("records"), total]
    ]
    return markdown(pd.DataFrame(lines))


def used_markdown(used: pd.DataFrame) -> str:
    """Estimate against actual, for people. `used` is that of `lib.cost.used`."""
    rows = []
    for line in used.to_dict("records"):
        shown = money if line["what"] == "dollars" else lambda value: "n/a" if pd.isna(value) else f"{value:,.0f}"
        ends = "" if pd.isna(line["low"]) else f"[{shown(line['low'])}, {shown(line['high'])}]"
        foreseen = "" if line["what"].startswith("replayed") else shown(line["estimated"])
        rows.append({"": line["what"], "estimated": foreseen, "range": ends, "actual": shown(line["actual"])})
    return markdown(pd.DataFrame(rows))


def money(dollars: float, low: float | None = None, high: float | None = None) -> str:
    """`$1.20 [0.80, 2.10]`, or `n/a` where the price is unknown; four digits below a cent."""
    if pd.isna(dollars):
        return "n/a"
    digits = 4 if 0 < dollars < 0.01 else 2
    ends = "" if low is None or dollars == 0 else f" [{low:,.{digits}f}, {high:,.{digits}f}]"
    return f"${dollars:,.{digits}f}{ends}"


def accuracy_markdown(table: pd.DataFrame) -> str:
    """`accuracy_shown` as Markdown."""
    return markdown(accuracy_shown(table))


def accuracy_shown(table: pd.DataFrame) -> pd.DataFrame:
    """Table 2 for people: one line a dataset x judge, one column a design, the best in bold unless all are equal.

    A cell is accuracy in percent, its 95 percent interval, the mean tokens a call, and the unjudged rows if any. A
    dagger marks an interval that is the exact bound, since all questions came out alike.
    """
    groups = table.groupby(["dataset", "judge"])["accuracy"]
    best = (table["accuracy"] == groups.transform("max")) & (table["accuracy"] > groups.transform("min"))
    texts = table.assign(text=[_accuracy_cell(*each) for each in zip(table.itertuples(), best, strict=True)])
    return by_design(texts, ["dataset", "judge"])


def kind_markdown(table: pd.DataFrame) -> str:
    """`kind_shown` as Markdown."""
    return markdown(kind_shown(table))


def kind_shown(table: pd.DataFrame) -> pd.DataFrame:
    """Table 15 for people: one line a dataset x kind x judge, one column a design."""
    texts = [f"{percent(line.accuracy)} {_interval(line)}" for line in table.itertuples()]
    return by_design(table.assign(text=texts), ["dataset", "kind", "judge"])


def paired_markdown(table: pd.DataFrame) -> str:
    """`paired_shown` as Markdown."""
    return markdown(paired_shown(table))


def paired_shown(table: pd.DataFrame) -> pd.DataFrame:
    """A paired table for people: the difference in points, its interval, questions won, exact p and Holm's.

    `table` is that of `lib.stats.compare_all`, with its groups first. A star marks a line where the unadjusted test
    and the interval disagree, a dagger an exact bound.
    """
    groups = table.columns[: list(table.columns).index("a")]
    columns: dict[str, Callable] = {
        **{"complexity" if name == "complexity_bin" else name: attrgetter(name) for name in groups},
        "pair": lambda line: f"{line.a} − {line.b}",
        "questions": lambda line: line.n_questions,
        "points": lambda line: points(line.difference),
        "95 % interval": _interval,
        "won : lost : tied": lambda line: f"{line.wins_a} : {line.wins_b} : {line.ties}",
        "exact p": lambda line: stats.format_p(line.p_value) + ("" if line.agree else " *"),
        "Holm p": lambda line: stats.format_p(line.p_holm),
    }
    lines = [{name: render(line) for name, render in columns.items()} for line in table.itertuples()]
    return pd.DataFrame(lines, columns=list(columns))


def _accuracy_cell(line, best: bool) -> str:
    accuracy = f"**{percent(line.accuracy)}**" if best else percent(line.accuracy)
    tokens = "" if pd.isna(line.tokens) else f", {line.tokens:.0f} tok"
    unjudged = f", {line.n_unjudged} unjudged" if line.n_unjudged else ""
    return f"{accuracy} {_interval(line)}{tokens}{unjudged}"


def by_design(texts: pd.DataFrame, index: list[str]) -> pd.DataFrame:
    """A long table with the column `text` as a wide one: a line for each of `index`, a column a design."""
    wide = texts.pivot(index=index, columns="design", values="text")
    order = texts[index].drop_duplicates()
    columns = [design for design in DESIGNS if design in wide]
    return wide.loc[list(order.itertuples(index=False, name=None)), columns].fillna("not run").reset_index()
