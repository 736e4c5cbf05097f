"""Sentences made from tables: what a table says, and that it cannot tell where it cannot.

A notebook prints these instead of typed numbers, so that they stay true when it is run on other data.
"""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from lib import stats
from lib.tables import interval, percent, points


def best_and_weakest(table: pd.DataFrame) -> str:
    """One line a dataset x judge: which designs have the highest and the lowest accuracy.

    `table` is that of `lib.tables.accuracy_table`.
    """
    lines = []
    for (dataset, judge), part in table.groupby(["dataset", "judge"], sort=False):
        top, bottom = part["accuracy"].max(), part["accuracy"].min()
        if pd.isna(top):
            lines.append(f"- {dataset}, {judge}: n/a.")
            continue
        best, weakest = (", ".join(part.loc[part["accuracy"] == value, "design"]) for value in (top, bottom))
        ends = f"highest {best} ({percent(top)} %), lowest {weakest} ({percent(bottom)} %)"
        lines.append(f"- {dataset}, {judge}: {ends if top > bottom else f'all designs {percent(top)} %'}.")
    return "\n".join(lines)


def one_verdict(judgments: pd.DataFrame) -> str:
    """Which judges give every row of a design the same verdict: their accuracy is the share of that label.

    `judgments` as from `lib.plan.judgments`.
    """
    lines = []
    for judge, rows in judgments.groupby("judge", sort=False):
        verdicts = {
            design: set(part["verdict"].fillna("none")) for design, part in rows.groupby("design", sort=False)
        }
        for verdict in sorted({given.copy().pop() for given in verdicts.values() if len(given) == 1}):
            designs = ", ".join(design for design, given in verdicts.items() if given == {verdict})
            lines.append(
                f"- {judge} calls every row {verdict.replace('_', ' ')} in {designs}: its accuracy there is that "
                "label's share, and says nothing about the design."
            )
    return "\n".join(lines) or "Every judge gives more than one verdict in every design."


def differences(table: pd.DataFrame) -> str:
    """One line a comparison: which design is better, or that these questions cannot tell.

    `table` is that of `lib.tables.paired_table`. Better means that the exact test, after Holm, and the interval
    agree; where only one of them speaks, or neither, the line says so.
    """
    return "\n".join(
        f"- {line.dataset}, {line.judge}: {_verdict(line)} ({_numbers(line)})." for line in table.itertuples()
    )


def pairs(table: pd.DataFrame) -> str:
    """One line a dataset x judge: what each pair of designs comes to, in the words of `differences`."""
    lines = []
    for (dataset, judge), part in table.groupby(["dataset", "judge"], sort=False):
        verdicts = [_verdict(line) for line in part.itertuples()]
        open_ones = [verdict for verdict in verdicts if verdict.startswith("cannot tell")]
        if len(open_ones) == len(verdicts):
            verdicts = [f"cannot tell any two of the designs apart ({len(verdicts)} pairs)"]
        lines.append(f"- {dataset}, {judge}: {'; '.join(verdicts)}.")
    return "\n".join(lines)


def _verdict(line) -> str:
    tested = line.p_holm < stats.ALPHA
    excluded = line.low > 0 or line.high < 0
    better, worse = (line.a, line.b) if line.difference > 0 else (line.b, line.a)
    if tested and excluded:
        return f"{better} is better than {worse}"
    if tested or excluded:
        return f"only the {'test' if tested else 'interval'} sets {better} above {worse}"
    return f"cannot tell {line.a} from {line.b}"


def _numbers(line) -> str:
    sizes = f"{line.a} − {line.b}: {points(line.difference)} points {interval(line.low, line.high)}"
    p = f"exact p {stats.format_p(line.p_value)}, Holm {stats.format_p(line.p_holm)}"
    return f"{sizes}; {p}; {line.ties} of {line.n_questions} questions tied"


def disagreements(table: pd.DataFrame) -> str:
    """Where the unadjusted test and the interval disagree in a table of `lib.tables.paired_table`."""
    apart = table[~table["agree"]]
    if apart.empty:
        return f"The unadjusted test and the interval agree in all {len(table)} comparisons."
    named = "; ".join(f"{line.dataset}, {line.judge}, {line.a} − {line.b}" for line in apart.itertuples())
    return f"The unadjusted test and the interval disagree in {len(apart)} of {len(table)} comparisons: {named}."


def parsing(table: pd.DataFrame) -> str:
    """How much of what was asked became a verdict, by judge. `table` is that of `lib.tables.parse_table`."""
    lines = []
    for judge, part in table.groupby("judge", sort=False):
        asked, unjudged = part["asked"].sum(), part["unjudged"].sum()
        lines.append(f"- {judge}: {asked - unjudged} of {asked} judgments have a verdict, {unjudged} are unjudged.")
    return "\n".join(lines)


def answered_by(judgments: pd.DataFrame, asked: Mapping[str, str]) -> str:
    """Which models gave the replies, by judge, beside the one that was `asked`: a provider may let another answer."""
    lines = []
    for judge, rows in judgments.groupby("judge", sort=False):
        models = rows["model"].dropna().value_counts()
        others = models[[name for name in models.index if name.removeprefix("models/") != asked[judge]]]
        named = ", ".join(f"{n} by {name or 'a model without a name'}" for name, n in others.items())
        if models.empty:
            lines.append(f"- {judge}: no reply yet.")
        elif others.empty:
            lines.append(f"- {judge}: all {models.sum()} replies came from {asked[judge]}, the model that was asked.")
        else:
            other = f"{others.sum()} of {models.sum()} replies name another model: {named}"
            lines.append(f"- {judge}: {asked[judge]} was asked, but {other}. Its numbers are that model's.")
    return "\n".join(lines)
