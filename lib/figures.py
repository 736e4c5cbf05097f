"""Judgments to figures: one style for a two-column paper, the same bytes each time.

A colour is a design, in every figure: `DESIGN_COLORS`, of different lightness, so that they stay apart in grey and
for colour-blind readers. A line's dash (`DASHES`) or a bar's hatch (`HATCHES`) says it again. A marker is a judge, in
every figure: `MARKERS` in the order of the table's judges, which have a panel each where designs are lines. Greys are
what is neither: judges' lines, kinds of reply, shares.

Each function returns a matplotlib Figure, `WIDTH` inches wide for two columns; those that take `width` stack their
panels in one `COLUMN`. What is NaN is not drawn. No statistic is computed here that `lib.stats` or `lib.tables` does
not give.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from itertools import product
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.transforms import Bbox

from lib import paths, tables
from lib.labels import LABELS
from lib.paper_figures import (
    COLUMN,
    DESIGN_COLORS,
    GREYS,
    HATCHES,
    INKS,
    STYLE,
    WIDTH,
    by_design,
    designs_of,
    dots,
    judge_handles,
    judges_of,
    legend,
    lines,
    offset,
    panels,
    settle,
    span,
)
from lib.results import write_bytes

# Kinds of reply or of verdict, the last for what is unjudged: colour and hatch.
SHADES = (("0.88", ""), ("0.62", ""), ("0.3", ""), ("white", "/////"))
_SHORT = {"supported": "sup.", "partially_supported": "part.", "unsupported": "unsup.", "unjudged": "unj."}
_SPOTS = [
    (radius * np.cos(turn), radius * np.sin(turn))
    for radius, turn in product((9, 12, 15, 19, 24, 30), np.radians((45, -45, 135, -135, 0, 180, 90, -90)))
]
# No date and no program version: the same figure is the same file. Notebooks show the last one.
_NO_METADATA = {
    "pdf": {"CreationDate": None, "ModDate": None, "Creator": None, "Producer": None},
    "svg": {"Date": None, "Creator": None},
    "png": {"Software": None},
}


def save(figure: Figure, run: str, name: str) -> list[Path]:
    """Write a figure as `figures/<run>/<name>.pdf`, `.svg` and `.png` (200 dots an inch); returns these paths."""
    written = []
    with mpl.rc_context(STYLE):
        settle(figure)
        for kind, metadata in _NO_METADATA.items():
            data = io.BytesIO()
            figure.savefig(data, format=kind, metadata=metadata)
            written.append(write_bytes(paths.FIGURES / run / f"{name}.{kind}", data.getvalue()))
    return written


def accuracy(table: pd.DataFrame, width: float = WIDTH) -> Figure:
    """Accuracy by design with 95 percent intervals, one panel a dataset, one marker a judge.

    `table` is that of `lib.tables.accuracy_table`.
    """
    return by_design(table, width, "accuracy")


def accuracy_tokens(table: pd.DataFrame, width: float = WIDTH) -> Figure:
    """Accuracy against mean tokens a call, one panel a dataset; judges that report no tokens are left out.

    `table` is that of `lib.tables.accuracy_table`. Each point carries its design's letter, and the step line of a
    judge is its `frontier`, drawn on to its dearest design.
    """
    judges, known = judges_of(table), table.dropna(subset=["tokens", "accuracy"]).astype({"tokens": float})
    with mpl.rc_context(STYLE):
        figure, parts = panels(known, 2.2, width, label="accuracy")
        for axis, part in parts:
            for judge, mine in part.groupby("judge", sort=False):
                number, best = judges.index(judge), mine.iloc[frontier(mine["tokens"], mine["accuracy"])]
                steps = [*best["tokens"], mine["tokens"].max()], [*best["accuracy"], best["accuracy"].iloc[-1]]
                axis.step(*steps, where="post", color=GREYS[number % len(GREYS)], lw=0.9, zorder=1.5)
                colors = mine["design"].map(DESIGN_COLORS)
                dots(axis, mine["tokens"], mine["accuracy"], mine, colors, number, upright=True, label=judge)
            axis.set(ylim=span(known), xmargin=0.12)
            axis.yaxis.set_major_formatter("{x:.0%}")
            axis.xaxis.set_major_locator(mpl.ticker.MaxNLocator(4, integer=True))
        handles = [each for each in judge_handles(judges) if each.get_label() in set(known["judge"])]
        legend(figure, handles, "mean tokens a call (line: highest accuracy up to there)")
        settle(figure)  # letters are placed in points, which needs the panels' final places
        for axis, part in parts:
            _letter(axis, part.sort_values(["tokens", "accuracy"], kind="stable"))
    return figure


def frontier(tokens: Sequence[float], accuracy: Sequence[float]) -> list[int]:
    """Positions of the points that no other beats, by their tokens; equal points stay, those with a NaN never do.

    A point beats another if it has no more tokens and no less accuracy, and is better in one of them.
    """
    both = enumerate(zip(tokens, accuracy, strict=True))
    points = sorted(
        (float(cost), -float(right), at) for at, (cost, right) in both if pd.notna(cost) and pd.notna(right)
    )
    return [at for *own, at in points if not any(o <= own[0] and r <= own[1] and [o, r] != own for o, r, _ in points)]


def _letter(axis: Axes, table: pd.DataFrame) -> None:
    """Write the design beside each point, at the first spot clear of letters, markers, intervals and the frame.

    Spots that are nearer to another point come last, and have a line to their own.
    """
    places = (table[["tokens", name]].to_numpy() for name in ("accuracy", "low", "high"))
    points, *ends = (axis.transData.transform(each) * 72 / axis.figure.dpi for each in places)
    taken = [Bbox([each - 2.5, each + 2.5]) for each in points]
    taken += [Bbox([low - 0.5, high + 0.5]) for low, high in zip(*ends, strict=True)]
    frame = axis.bbox.get_points() * 72 / axis.figure.dpi
    for line, point in zip(table.itertuples(), points, strict=True):
        boxes = {spot: Bbox([point + spot - 3.5, point + spot + 3.5]) for spot in _SPOTS}
        away = {spot: np.hypot(*(points - point - spot).T).min() < np.hypot(*spot) - 0.01 for spot in _SPOTS}
        inside = [spot for spot, box in boxes.items() if (box.min > frame[0]).all() and (box.max < frame[1]).all()]
        free = (spot for spot in sorted(inside, key=away.get) if not boxes[spot].count_overlaps(taken))
        spot = next(free, _SPOTS[0])
        taken.append(boxes[spot])
        leader = {"arrowstyle": "-", "color": "0.4", "lw": 0.5 * (away[spot] or np.hypot(*spot) > 11), "shrinkB": 2}
        look = {"ha": "center", "va": "center", "fontsize": 7, "textcoords": "offset points", "zorder": 5}
        look |= {"color": INKS[line.design], "bbox": {"fc": "white", "ec": "none", "pad": 0}}
        axis.annotate(line.design, (line.tokens, line.accuracy), spot, arrowprops=leader | {"shrinkA": 0}, **look)


def confusion(judgments: pd.DataFrame) -> Figure:
    """Verdicts against labels as shares of each label's rows, one panel a judge x design, all datasets together."""
    judges, designs = judges_of(judgments), designs_of(judgments)
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(WIDTH, 1.1 * len(judges) + 0.7))
        axes = figure.subplots(len(judges), len(designs), squeeze=False, sharex=True, sharey=True)
        for (judge, design), axis in zip(product(judges, designs), axes.flat, strict=True):
            mine = judgments[(judgments["judge"] == judge) & (judgments["design"] == design)]
            counts = pd.crosstab(mine["label"], mine["verdict"].fillna("unjudged"))
            counts = counts.reindex(index=list(LABELS), columns=list(_SHORT), fill_value=0)
            heat(axis, counts.div(counts.sum(axis=1).where(lambda n: n > 0), axis=0), 1, annot=counts, fmt="d")
            axis.set_title(f"{judge}, {design}" if len(mine) else f"{judge}, {design}: not asked")
            axis.set_xticklabels(_SHORT.values())
            axis.set_yticklabels([_SHORT[name] for name in LABELS])
        figure.supxlabel(
            "verdict, unj.: unjudged (numbers: rows; shade: their share of the label's rows)", fontsize=8
        )
        figure.supylabel("label", fontsize=8)
    return figure


def wins(table: pd.DataFrame, width: float = WIDTH) -> Figure:
    """Questions won by each of a pair of designs, one panel a dataset; a judge's marker stands at the difference.

    `table` is that of `lib.tables.paired_table`. A pair without common questions is not drawn.
    """
    judges, designs = judges_of(table), designs_of(pd.concat([table["a"], table["b"]]).to_frame("design"))
    names = table["a"] + " − " + table["b"]
    pairs, height = list(dict.fromkeys(names)), 0.78 / max(1, len(judges))
    with mpl.rc_context(STYLE):
        figure, parts = panels(table, len(pairs) * (0.12 + 0.07 * len(judges)) + 0.3, width)
        for axis, part in parts:
            axis.use_sticky_edges = False
            for number, judge in enumerate(judges):
                mine = part[(part["judge"] == judge) & (part["n_questions"] > 0)]
                places = [pairs.index(name) + offset(number, len(judges), 0.84) for name in names[mine.index]]
                for side, sign in (("a", 1), ("b", -1)):
                    look = {"color": mine[side].map(DESIGN_COLORS), "hatch": list(mine[side].map(HATCHES))}
                    axis.barh(places, sign * mine[f"wins_{side}"], height, hatchcolor="white", lw=0, **look)
                dots(
                    axis,
                    mine["wins_a"] - mine["wins_b"],
                    places,
                    None,
                    ["0.1"] * len(mine),
                    number,
                    ["w"] * len(mine),
                )
            axis.axvline(0, color="0.3", lw=0.8)
            axis.xaxis.set_major_locator(mpl.ticker.MaxNLocator(5, integer=True))
            axis.xaxis.set_major_formatter(lambda value, _: f"{abs(value):.0f}")
            if not part[["wins_a", "wins_b"]].to_numpy().any():
                axis.set(xlim=(-1, 1), xticks=[0, 1])
                axis.text(0.75, 0.5, "all tied", transform=axis.transAxes, ha="center", va="center")
            lines(axis, pairs)
        looks = [{"facecolor": DESIGN_COLORS[name], "hatch": HATCHES[name], "label": name} for name in designs]
        handles = [mpl.patches.Patch(hatchcolor="white", **look) for look in looks] + judge_handles(judges, "white")
        title = "questions won by the first design (right){}and by the second (left); markers: the difference"
        legend(figure, handles, title.format("\n" if width <= COLUMN else " "))
    return figure


def parse_status(table: pd.DataFrame, width: float = WIDTH) -> Figure:
    """How verdicts were read, as shares of the calls asked, one bar a judge x design.

    `table` is that of `lib.tables.parse_table`.
    """
    names = [f"{judge}, {design}" for judge, design in zip(table["judge"], table["design"], strict=True)]
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(width, 0.16 * len(names) + 0.8))
        axis = figure.subplots()
        stacked(axis, table[list(tables.STAGES)].div(table["asked"], axis=0))
        lines(axis, names)
        legend(figure, axis.get_legend_handles_labels()[0], "share of calls")
    return figure


def stacked(axis: Axes, shares: pd.DataFrame) -> None:
    """A bar a row, a shade a column, the columns' names without underscores as labels."""
    left = shares.cumsum(axis=1) - shares
    for name, (color, hatch) in zip(shares, SHADES, strict=True):
        look = {"color": color, "hatch": hatch, "edgecolor": "0.3", "lw": 0.5, "label": name.replace("_", " ")}
        axis.barh(range(len(shares)), shares[name], left=left[name], **look)
    axis.set_xlim(0, 1)
    axis.xaxis.set_major_formatter("{x:.0%}")


def heat(axis: Axes, values: pd.DataFrame, full: float, **options) -> None:
    """Numbers on greys, with those that are `full` still light enough for print; what is missing stays empty."""
    look = {"cmap": "Greys", "vmin": 0, "vmax": 1.4 * full, "cbar": False, "linewidths": 0.5}
    sns.heatmap(values, ax=axis, annot_kws={"fontsize": 7}, **look, **options)
    axis.set(xlabel="", ylabel="")
    axis.tick_params(rotation=0)
    axis.grid(visible=False)
