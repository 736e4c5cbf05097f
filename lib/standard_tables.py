"""Label standards for people: tables of agreement and ranks, the slope chart, and what the order comes to in words.

Statistics are those of `lib.standards` and `lib.agreement`.
"""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib as mpl
import pandas as pd
from matplotlib.figure import Figure

from lib import stats
from lib.figures import COLORS, MARKERS, STYLE, WIDTH
from lib.power import questions_needed
from lib.standards import CHANGES, REVERSES
from lib.tables import DESIGNS, by_design, interval, markdown, percent, points


def agreement_markdown(table: pd.DataFrame) -> str:
    """Tables 13 and 14 for people. `table` is that of `lib.agreement.pairwise`, with its groups."""
    groups = [name for name in table.columns[: list(table.columns).index("n_questions")] if name not in ("a", "b")]
    lines = [
        {"standards": f"{line.a}, {line.b}"}
        | {name: getattr(line, name) for name in groups}
        | {
            "questions": line.n_questions,
            "rows": line.n_rows,
            "equal": line.equal,
            "percent equal": f"{percent(line.share)} {interval(line.low, line.high, line.note)}",
            "Cohen's kappa": f"undefined: {line.undefined}" if line.undefined else f"{line.kappa:.2f}",
        }
        for line in table.itertuples()
    ]
    return markdown(pd.DataFrame(lines)) if lines else "There is one standard alone, so nothing can agree."


def ranking_markdown(table: pd.DataFrame) -> str:
    """Table 4 for people: rows right and rank, one line a judge x standard, one column a design.

    `table` is that of `lib.standards.ranking`.
    """
    texts = [
        f"{line.n_correct} of {line.n_rows}, rank {line.rank}"
        + (f", {line.n_unjudged} unjudged" if line.n_unjudged else "")
        for line in table.itertuples()
    ]
    return markdown(by_design(table.assign(text=texts), ["judge", "standard"]))


def reversals_markdown(table: pd.DataFrame) -> str:
    """The differences under both standards for people, their change with interval and exact p, and what it comes to.

    `table` is that of `lib.standards.reversals`. A star marks a line where the unadjusted test and the interval
    disagree.
    """
    by_pair = table.groupby(["first", "second"], sort=False) if len(table) else []
    return "\n\n".join(markdown(pd.DataFrame(_reversal_lines(part))) for _, part in by_pair)


def _reversal_lines(table: pd.DataFrame) -> list[dict]:
    return [
        {
            "judge": line.judge,
            "pair": f"{line.a} − {line.b}",
            line.first: f"{points(line.before)} {interval(line.before_low, line.before_high, line.before_note)}",
            line.second: f"{points(line.after)} {interval(line.after_low, line.after_high, line.after_note)}",
            "change in points": f"{points(line.change)} {interval(line.low, line.high, line.note)}",
            "questions moved": f"{line.towards_a} to {line.a}, {line.towards_b} to {line.b}",
            "exact p": stats.format_p(line.p_value) + " *" * _apart(line),
            "Holm p": stats.format_p(line.p_holm),
            "the order": line.finding,
        }
        for line in table.itertuples()
    ]


def _apart(line) -> bool:
    return (line.p_value < stats.ALPHA) != (line.low > 0 or line.high < 0)


def fits(ranks: pd.DataFrame, pairs: pd.DataFrame, changes: pd.DataFrame) -> str:
    """Which design fits which standard and whether the order reverses, one paragraph a judge.

    The tables are those of `lib.standards.ranking`, `paired` and `reversals`. A design fits a standard if no other
    one is better for sure: exact test, after Holm, and interval agree.
    """
    paragraphs = []
    for judge, mine in ranks.groupby("judge", sort=False):
        sentences = [
            f"Under {standard}, {_fit(part, pairs[(pairs['judge'] == judge) & (pairs['standard'] == standard)])}."
            for standard, part in mine.groupby("standard", sort=False)
        ]
        sentences += [
            f"From {first} to {second}, {_turn(part)}."
            for (first, second), part in changes[changes["judge"] == judge].groupby(["first", "second"], sort=False)
        ]
        paragraphs.append(f"**{judge}.** {' '.join(sentences)}")
    return "\n\n".join(paragraphs)


def _fit(ranks: pd.DataFrame, pairs: pd.DataFrame) -> str:
    right = dict(zip(ranks["design"], ranks["n_correct"], strict=True))
    n = ranks["n_rows"].iloc[0]
    told = pairs[(pairs["p_holm"] < stats.ALPHA) & ((pairs["low"] > 0) | (pairs["high"] < 0))]
    losers = {line.b if line.difference > 0 else line.a for line in told.itertuples()}
    best = sorted(set(right) - losers, key=lambda design: (-right[design], DESIGNS.index(design)))
    counts = ", ".join(f"{design} {right[design]}" for design in sorted(right, key=lambda name: -right[name]))
    if len(right) == 1:
        return f"{best[0]} stands alone ({right[best[0]]} of {n} rows right), so nothing is compared"
    if not losers:
        return f"these {n} rows cannot tell {_listed(best)} apart (rows right: {counts})"
    end = f"{_listed(sorted(losers))} {'is' if len(losers) == 1 else 'are'} surely worse than another design"
    if len(best) == 1:
        return f"{best[0]} fits best, and {end} (rows right of {n}: {counts})"
    return f"{_listed(best)} fit and cannot be told apart, and {end} (rows right of {n}: {counts})"


def _turn(part: pd.DataFrame) -> str:
    named = {
        finding: [f"{line.a} and {line.b}" for line in rows.itertuples()] for finding, rows in part.groupby("finding")
    }
    found = []
    if pairs := named.get(REVERSES):
        found.append(f"the order of {_listed(pairs, '; ')} reverses")
    if pairs := named.get(CHANGES):
        found.append(f"the difference between {_listed(pairs, '; ')} changes, without a sure reversal")
    if found:
        return " and ".join(found)
    most = int((part["towards_a"] + part["towards_b"]).max())
    turned = part[(part["before"] * part["after"]) < 0]
    seen = f"; {len(turned)} of {len(part)} pairs stand in another order, which may be chance" if len(turned) else ""
    if not most:
        return "no question moved in any pair of designs"
    few = f": at most {most} questions moved in any pair, and the exact test needs six that move the same way"
    few += ", and more after Holm"
    return f"no change of a difference is sure{few if most < 6 else ''}{seen}"


def needed(changes: pd.DataFrame) -> str:
    """For each judge the pair of designs that moved most, and how many questions its change would take to be told.

    `changes` is that of `lib.standards.reversals`. The rate at which questions moved is taken as it was seen.
    """
    lines = []
    for judge, part in changes.groupby("judge", sort=False):
        most = part.loc[part["change"].abs().idxmax()]
        name = f"{most['a']} and {most['b']}, {most['first']} to {most['second']}"
        n, moved = most["n_questions"], sorted((most["towards_a"], most["towards_b"]))
        if not moved[1]:
            lines.append(f"- {judge}: no question moved in any pair of designs, so there is no rate to reckon with.")
            continue
        enough = questions_needed(moved[1] / n, moved[0] / n)
        end = "more than 100,000 questions" if pd.isna(enough) else f"about {enough:,.0f} questions"
        lines.append(
            f"- {judge}: {name}: {most['towards_a']} of {n} questions moved towards {most['a']} and "
            f"{most['towards_b']} towards {most['b']}. At that rate the exact test alone, before Holm, finds it with "
            f"power 0.8 in {end}."
        )
    return "\n".join(lines)


def _listed(names: Sequence[str], between: str = ", ") -> str:
    return between.join(names[:-1]) + " and " * (len(names) > 1) + names[-1] if names else ""


def slopes(table: pd.DataFrame) -> Figure:
    """Ranks of the designs from standard to standard with the rows right, one panel a judge; 1 is best.

    `table` is that of `lib.standards.ranking`. Designs that share a rank stand side by side around it.
    """
    judges, standards = (list(dict.fromkeys(table[name])) for name in ("judge", "standard"))
    designs = [design for design in DESIGNS if design in set(table["design"])]
    tied = table.groupby(["judge", "standard", "rank"])["design"]
    places = table["rank"] + 0.2 * (tied.cumcount() - (tied.transform("size") - 1) / 2)
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(WIDTH, 0.6 * len(designs) + 1.3))
        axes = figure.subplots(1, len(judges), sharey=True, squeeze=False)[0]
        for axis, judge in zip(axes, judges, strict=True):
            for design in designs:
                mine = table[(table["judge"] == judge) & (table["design"] == design)]
                at, ranks = [standards.index(name) for name in mine["standard"]], places[mine.index]
                place = DESIGNS.index(design)
                axis.plot(at, ranks, color=COLORS[place], marker=MARKERS[place], markersize=4, lw=1.5, label=design)
                for x, y, right in zip(at, ranks, mine["n_correct"], strict=True):
                    side = {"xytext": (-7, 0), "ha": "right"} if x == 0 else {"xytext": (7, 0), "ha": "left"}
                    look = {"va": "center", "fontsize": 7, "bbox": {"fc": "white", "ec": "none", "pad": 0.6}}
                    axis.annotate(right, (x, y), textcoords="offset points", **side, **look)
            axis.set_xticks(range(len(standards)), standards)
            axis.set_xlim(-0.35, len(standards) - 0.65)
            axis.set(title=judge, ylim=(len(designs) + 0.5, 0.5))
            axis.set_yticks(range(1, len(designs) + 1))
            axis.grid(axis="x", visible=False)
        axes[0].set_ylabel("rank")
        handles, labels = axes[0].get_legend_handles_labels()
        title = "design (numbers: rows right)"
        figure.legend(handles, labels, loc="outside lower center", ncols=len(designs), title=title)
    return figure
