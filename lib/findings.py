"""Sentences made from tables: what a table says, and that it cannot tell where it cannot.

A notebook prints these instead of typed numbers, so that they stay true when it is run on other data.
"""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from lib import stats
from lib.conditions import CONDITIONS
from lib.power import smallest_difference
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


def tells(table: pd.DataFrame) -> str:
    """What each condition does to accuracy, or that the slice cannot tell, and what it would have found.

    `table` is that of `lib.effects.effects`. An effect is told only if the exact test (after Holm over the table)
    and the interval agree.
    """
    lines = []
    keys = [name for name in ("judge", "condition", "dataset") if name in table]
    for key, part in table.groupby(keys, sort=False):
        told = (part["p_holm"] < stats.ALPHA) & ((part["low"] > 0) | (part["high"] < 0))
        sentences = []
        for word, moved in (("falls", told & (part["difference"] < 0)), ("rises", told & (part["difference"] > 0))):
            if moved.any():
                named = [f"{line.prompt} ({points(line.difference)})" for line in part[moved].itertuples()]
                sentences.append(f"accuracy {word} in {', '.join(named)}")
        if not told.all():
            sentences.append(_cannot(part[~told]))
        lines.append(f"- {', '.join(key)}: {'; '.join(sentences)}.")
    return "\n".join(lines)


def _cannot(part: pd.DataFrame) -> str:
    return f"cannot tell for {', '.join(part['prompt'])}: {_found(part)}"


def steady(table: pd.DataFrame) -> str:
    """Which changes that should not move a verdict moved one, by judge. `table` is that of `lib.effects.effects`."""
    lines = []
    for judge, part in table.groupby("judge", sort=False):
        moved = part[part["flips"] > 0].sort_values("flip_rate", ascending=False, kind="stable")
        still = len(part) - len(moved)
        bound = part.loc[part["flips"] == 0, "flip_high"].max()
        text = f"no flip in {still} of {len(part)} lines"
        text += f", which still leaves room for up to {percent(bound)} %" if still and pd.notna(bound) else ""
        if len(moved):
            most = [f"{x.condition} in {x.prompt} ({x.flips} of {x.n_both})" for x in moved.head(4).itertuples()]
            text += f"; most flips under {', '.join(most)}"
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


def _found(part: pd.DataFrame) -> str:
    n, least = part["n_questions"], part["smallest"]
    questions = _ends(n / 100, "{:.0f}")
    if least.isna().any():
        return f"no net change of {questions} questions would be found with power 0.8"
    return f"{questions} questions find a net change of {_ends(least)} % of them, or more (power 0.8)"


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
        lines.append(f"- {judge}, {condition}: {text}. Of such moves, {_found(part)}.")
    return "\n".join(lines)


def variants(table: pd.DataFrame) -> str:
    """Whether every version of H beats every version of C, by dataset and judge: holds, fails, or cannot tell."""
    lines = []
    for (dataset, judge), part in table.groupby(["dataset", "judge"], sort=False):
        above = (part["p_holm"] < stats.ALPHA) & (part["low"] > 0)
        below = (part["p_holm"] < stats.ALPHA) & (part["high"] < 0)
        verdict = "holds" if above.all() else "fails" if below.any() else "cannot tell"
        signs = f"{(part['difference'] > 0).sum()} of {len(part)} differences are above 0, {above.sum()} for sure"
        lines.append(f"- {dataset}, {judge}: {verdict}; {signs}.")
    return "\n".join(lines)


def noise(table: pd.DataFrame) -> str:
    """What repeats of the same call leave to chance, by judge. `table` is that of `lib.effects.retest`."""
    lines = []
    for judge, part in table.groupby("judge", sort=False):
        least, most = percent(part["disagreement"].min()), percent(part["disagreement"].max())
        span = f"{least} %" if least == most else f"{least} to {most} %"
        text = f"two repeats give another verdict in {span} of the pairs; a flip rate no higher than that is noise"
        if part["disagreement"].max() == 0:
            text = f"all {part['repeats'].iloc[0]} repeats agree on every row, so no flip above is chance"
        lines.append(f"- {judge}: {text}.")
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
