"""Label standards for people: tables of agreement and ranks, the slope chart, and what the order comes to in words.

Statistics are those of `lib.standards` and `lib.agreement`.
"""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib as mpl
import pandas as pd
from matplotlib.figure import Figure

from lib import stats
from lib.paper_figures import DASHES, DESIGN_COLORS, MARKERS, STYLE, WIDTH, designs_of, legend, panels
from lib.power import questions_needed
from lib.standards import CHANGES, REVERSES
from lib.tables import DESIGNS, by_design, interval, markdown, percent, points


def agreement_markdown(table: pd.DataFrame) -> str:
    """`agreement_shown` as Markdown."""
    return markdown(agreement_shown(table)) if len(table) else "There is one standard alone, so nothing can agree."


def agreement_shown(table: pd.DataFrame) -> pd.DataFrame:
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
    return pd.DataFrame(lines)


def ranking_markdown(table: pd.DataFrame) -> str:
    """`ranking_shown` as Markdown."""
    return markdown(ranking_shown(table))


def ranking_shown(table: pd.DataFrame) -> pd.DataFrame:
    """Table 4 for people: rows right and rank, one line a judge x standard, one column a design.

    `table` is that of `lib.standards.ranking`.
    """
    texts = [
        f"{line.n_correct} of {line.n_rows}, rank {line.rank}"
        + (f", {line.n_unjudged} unjudged" if line.n_unjudged else "")
        for line in table.itertuples()
    ]
    return by_design(table.assign(text=texts), ["judge", "standard"])


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


def slopes(table: pd.DataFrame, width: float = WIDTH) -> Figure:
    """Ranks of the designs from standard to standard with the rows right, one panel a judge; 1 is best.

    `table` is that of `lib.standards.ranking`. Designs that share a rank stand side by side around it.
    """
    standards, designs = list(dict.fromkeys(table["standard"])), designs_of(table)
    tied = table.groupby(["judge", "standard", "rank"])["design"]
    places = table["rank"] + 0.24 * (tied.cumcount() - (tied.transform("size") - 1) / 2)
    with mpl.rc_context(STYLE):
        figure, parts = panels(table, 0.48 * len(designs) + 0.4, width, "judge", "rank (numbers: rows right)")
        for (axis, part), marker in zip(parts, MARKERS, strict=False):
            for design, mine in part.groupby("design", sort=False):
                at, ranks = [standards.index(name) for name in mine["standard"]], places[mine.index]
                look = {"marker": marker, "ls": DASHES[design], "color": DESIGN_COLORS[design], "label": design}
                axis.plot(at, ranks, markersize=4, lw=1.4, **look)
                for x, y, right in zip(at, ranks, mine["n_correct"], strict=True):
                    side, text = (-1, f"{design}  {right}") if x == 0 else (1, f"{right}  {design}")
                    look = {"va": "center", "ha": "right" if x == 0 else "left", "fontsize": 7, "zorder": 4}
                    look |= {"textcoords": "offset points", "bbox": {"fc": "white", "ec": "none", "pad": 0.4}}
                    axis.annotate(text, (x, y), (6 * side, 0), **look)
            axis.set_xticks(range(len(standards)), standards)
            axis.set_xlim(-0.45, len(standards) - 0.55)
            axis.set_ylim(len(designs) + 0.6, 0.4)
            axis.set_yticks(range(1, len(designs) + 1))
            axis.grid(axis="x", visible=False)
        looks = [{"ls": DASHES[name], "color": DESIGN_COLORS[name], "label": name} for name in designs]
        legend(figure, [mpl.lines.Line2D([], [], lw=1.4, **look) for look in looks])
    return figure
