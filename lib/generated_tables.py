"""Generated answers for people: the tables of `lib.generated`, what they come to in words, and the picture."""

from __future__ import annotations

import matplotlib as mpl
import pandas as pd
from matplotlib.figure import Figure

from lib import stats
from lib.figures import stacked
from lib.labels import LABELS
from lib.paper_figures import STYLE, WIDTH, legend
from lib.tables import by_design, interval, markdown, percent, points

# Where every answer is degenerate, or none was judged.
NOTHING = "n/a: there is no such answer."
_VERDICTS = [*LABELS, "unjudged"]


def noise_markdown(table: pd.DataFrame) -> str:
    """The table of `lib.generated.noise` for people."""
    lines = [
        {
            "generator": line.generator,
            "questions": line.questions,
            "answers": line.answers,
            "none": line.none,
            "cut": line.cut,
            "one sentence": line.one_sentence,
            "degenerate": f"{line.degenerate} of {line.answers}",
            "percent": f"{percent(line.share)} {interval(line.low, line.high, line.note)}",
            "median words": f"{line.words_median:.0f}" if pd.notna(line.words_median) else "n/a",
        }
        for line in table.itertuples()
    ]
    return markdown(pd.DataFrame(lines)) or NOTHING


def accuracy_markdown(table: pd.DataFrame) -> str:
    """`accuracy_shown` as Markdown."""
    return NOTHING if table.empty else markdown(accuracy_shown(table))


def accuracy_shown(table: pd.DataFrame) -> pd.DataFrame:
    """Tables 11 and 12 for people: rows right and percent, a column a design. `table`: `lib.generated.accuracy`."""
    texts = [
        f"{line.n_correct} of {line.n_rows}, {percent(line.accuracy)} {interval(line.low, line.high, line.note)}"
        + (f", {line.n_unjudged} unjudged" if line.n_unjudged else "")
        for line in table.itertuples()
    ]
    groups = list(table.columns[: list(table.columns).index("design")])
    shown = by_design(table.assign(text=texts), groups)
    if "same_model" in shown:
        shown["same_model"] = shown["same_model"].map({True: "yes", False: "no"})
    return shown.rename(columns={"same_model": "same model"})


def halves_markdown(table: pd.DataFrame) -> str:
    """The table of `lib.generated.halves` for people."""
    lines = [
        {
            "judge": line.judge,
            "design": line.design,
            "answers": line.answers,
            "lower on the half": line.lower,
            "same": line.same,
            "higher": line.higher,
            "percent lower": f"{percent(line.share)} {interval(line.low, line.high, line.note)}",
            "exact p": stats.format_p(line.p_value),
            "Holm p": stats.format_p(line.p_holm),
            "unjudged": line.unjudged,
        }
        for line in table.itertuples()
    ]
    return markdown(pd.DataFrame(lines)) or NOTHING


def self_preference_markdown(table: pd.DataFrame) -> str:
    """The table of `lib.generated.self_preference` for people; `n/a` with the reason where there is no number."""
    lines = [
        {
            "judge": line.judge,
            "design": line.design,
            "questions": line.n_questions,
            "own called supported": percent(line.own),
            "others": percent(line.others),
            "difference": _points(line, "difference"),
            "beyond what others see": _points(line, "excess"),
            "exact p": stats.format_p(line.p_value),
            "Holm p": stats.format_p(line.p_holm),
            "beside": line.beside if isinstance(line.beside, str) else "",
            "note": line.note,
        }
        for line in table.itertuples()
    ]
    return markdown(pd.DataFrame(lines)) or NOTHING


def _points(line, name: str) -> str:
    low, high, note = (getattr(line, f"{name}_{end}") for end in ("low", "high", "note"))
    return f"{points(getattr(line, name))} {interval(low, high, note)}"


def findings(noise: pd.DataFrame, halves: pd.DataFrame) -> str:
    """How much of the set can say anything, and which judges see that a half is missing, in sentences.

    A judge is sure to see it if the exact test, after Holm over the judge's designs, and the interval agree.
    """
    answers, degenerate = noise["answers"].sum(), noise["degenerate"].sum()
    lines = [
        f"- {degenerate} of {answers} partials say what the full answer says. Whatever a judge calls both, it counts "
        "as wrong about at least one."
    ]
    for judge, part in halves.groupby("judge", sort=False):
        seen = [f"{x.design} {x.lower} of {x.answers} (higher {x.higher})" for x in part.itertuples() if x.answers]
        told = [x.design for x in part.itertuples() if x.p_holm < stats.ALPHA and x.low > 0 and x.lower > x.higher]
        end = f"sure for {', '.join(told)}" if told else "sure for none"
        lines.append(
            f"- {judge} gives the half a lower verdict for {', '.join(seen)}: {end}."
            if seen
            else f"- {judge}: no answer that is not degenerate has a verdict on both sides."
        )
    return "\n".join(lines)


def verdicts(judged: pd.DataFrame) -> Figure:
    """Shares of verdicts on full answers and on their halves, one panel a judge x design; degenerate ones left out.

    `judged` is that of `lib.generated.read_generated`.
    """
    judged = judged[~judged["degenerate"]]
    judges, designs = (list(dict.fromkeys(judged[name])) for name in ("judge", "design"))
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(WIDTH, 0.62 * len(judges) + 0.75))
        axes = figure.subplots(len(judges), len(designs), sharex=True, sharey=True, squeeze=False)
        for line, judge in zip(axes, judges, strict=True):
            for axis, design in zip(line, designs, strict=True):
                mine = judged[(judged["judge"] == judge) & (judged["design"] == design)]
                counts = pd.crosstab(mine["kind"], mine["verdict"].fillna("unjudged"))
                counts = counts.reindex(index=["full", "partial"], columns=_VERDICTS, fill_value=0)
                stacked(axis, counts.div(counts.sum(axis=1), axis=0))
                axis.set_title(f"{judge}, {design}")
                axis.set_yticks([0, 1], ["full", "half"])
                axis.grid(axis="y", visible=False)
                axis.xaxis.set_major_locator(mpl.ticker.MultipleLocator(0.5))
        # The full answer stands above its half.
        axes[0][0].set_ylim(1.5, -0.5)
        legend(figure, axes[0][0].get_legend_handles_labels()[0], "verdict, share of answers")
    return figure
