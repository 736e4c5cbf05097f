"""The paper's look, which every figure shares, and the figures that only the paper has.

The look: colour is design, marker is judge; `lib.figures` says it in full, draws all other figures and writes them.
The diagram reads from the prompts what stands in them, so that it cannot drift.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import product

import matplotlib as mpl
import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.patches import FancyArrowPatch, Rectangle

from lib import tables
from lib.parsing import VERDICTS
from lib.prompts import Prompt, load_prompt

STYLE = sns.axes_style("whitegrid") | sns.plotting_context("paper")
STYLE |= dict.fromkeys(("font.size", "xtick.labelsize", "ytick.labelsize", "legend.fontsize"), 7.5)
STYLE |= dict.fromkeys(("axes.labelsize", "legend.title_fontsize"), 8) | {"axes.titlesize": 8.5, "axes.titlepad": 4}
STYLE |= dict.fromkeys(("axes.linewidth", "grid.linewidth", "hatch.linewidth"), 0.6) | {"grid.color": "0.88"}
STYLE |= {"axes.edgecolor": "0.5", "figure.constrained_layout.use": True, "figure.dpi": 200, "legend.frameon": False}
STYLE |= {"font.family": "DejaVu Sans", "pdf.fonttype": 42, "svg.fonttype": "path", "svg.hashsalt": "judge-designs"}
STYLE |= {"text.parse_math": False}  # a name with a dollar is a name
STYLE |= dict.fromkeys(("xtick.major.pad", "ytick.major.pad"), 2)
WIDTH, COLUMN = 7.0, 3.35
DESIGN_COLORS = dict(zip(tables.DESIGNS, ("#1f3f94", "#e69f00", "#009e73", "#b5360f", "#3d1152"), strict=True))
# The same darker, for letters on white.
INKS = {name: tuple(0.65 * np.array(mpl.colors.to_rgb(color))) for name, color in DESIGN_COLORS.items()}
HATCHES = dict(zip(tables.DESIGNS, ("", "////", "....", "xxxx", "----"), strict=True))
DASHES = dict(zip(tables.DESIGNS, ("-", (0, (4, 1.5)), (0, (5, 1, 1, 1)), (0, (1, 1)), (0, (8, 2))), strict=True))
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "p")
GREYS = ("0.1", "0.4", "0.55", "0.68")  # lines of judges


def partial_rows(table: pd.DataFrame, width: float = WIDTH) -> Figure:
    """Recall of partial rows by design with 95 percent intervals, one panel a dataset that has any.

    `table` is that of `lib.tables.kind_table`. Raises ValueError if it has no partial rows.
    """
    partial = table[table["kind"] == "partial"]
    if partial.empty:
        raise ValueError("the table has no partial rows; give one of a dataset that has them")
    return by_design(partial, width, "partial rows judged right")


def complexity(table: pd.DataFrame, width: float = WIDTH) -> Figure:
    """The difference of two designs in points with 95 percent intervals, by bin of complexity, one panel a dataset.

    `table` is that of `lib.tables.complexity_table`. Below each bin stand its questions.
    """
    judges = judges_of(table)
    with mpl.rc_context(STYLE):
        pair = " and ".join(dict.fromkeys(table["a"] + " − " + table["b"]))
        figure, parts = panels(table, 1.9, width, label=f"{pair} in points")
        for axis, part in parts:
            bins = sorted(set(part["complexity_bin"]), key=lambda name: int(name.split("-")[0]))
            for number, judge in enumerate(judges):
                mine = part[(part["judge"] == judge) & part["difference"].notna()]
                at = [bins.index(name) + offset(number, len(judges), 0.6) for name in mine["complexity_bin"]]
                grey = [GREYS[number % len(GREYS)]] * len(mine)
                dots(axis, at, mine["difference"], mine, grey, number, upright=True, label=judge)
            counts = part.groupby("complexity_bin")["n_questions"].agg(lambda n: "–".join(map(str, sorted(set(n)))))
            axis.set_xticks(range(len(bins)), [f"{name}\nn {counts[name]}" for name in bins])
            axis.set_xlim(-0.5, len(bins) - 0.5)
            axis.axhline(0, color="0.3", lw=0.8, zorder=1)
            axis.grid(axis="x", visible=False)
            axis.yaxis.set_major_formatter(lambda value, _: f"{100 * value:+.0f}" if value else "0")
        legend(figure, judge_handles(judges), "complexity (n: questions)")
    return figure


_PANEL = 1.69, 2.86  # inches, which are also the units within a panel of the diagram
_SIDES = {"R": (0.04, "Reference"), "C": (1.0, "Candidate")}  # who splits it, where it stands
_SPLITS = {"C": "C", "H": "", "R": "R", "B": "RC"}


def designs_diagram() -> Figure:
    """Figure 1: what each of the four designs asks for in its one call, and the keys of its reply."""
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(WIDTH, _PANEL[1]))
        figure.set_layout_engine("none")
        for number, (design, split) in enumerate(_SPLITS.items()):
            left = number * (WIDTH - _PANEL[0]) / (len(_SPLITS) - 1)
            axis = figure.add_axes((left / WIDTH, 0, _PANEL[0] / WIDTH, 1), xlim=(0, _PANEL[0]), ylim=(0, _PANEL[1]))
            axis.set_axis_off()
            _design(axis, load_prompt(f"{design}.v1"), split)
    return figure


def _design(axis: Axes, prompt: Prompt, split: str) -> None:
    """One panel: the inputs, what is split into claims and looked up where, the reply."""
    axis.text(0.04, 2.73, prompt.design, size=11, weight="bold", color=DESIGN_COLORS[prompt.design], va="center")
    axis.text(0.24, 2.73, prompt.note.split(";")[0], size=8, va="center")
    _box(axis, 0.04, 2.38, 1.61, 0.2, "Question")
    for side, (x, name) in _SIDES.items():
        if side in split or not split:
            _box(axis, x, 2.06, 0.65, 0.22, name)
            _arrow(axis, (x + 0.325, 2.06), (x + 0.325, 1.9))
        else:
            _box(axis, x, 1.36, 0.65, 0.92)
            axis.text(x + 0.325, 2.17, name, ha="center", va="center")
            asked = "supports\neach claim?" if split == "C" else "covers\neach claim?"
            axis.text(x + 0.325, 1.87, asked, size=6.5, style="italic", ha="center", va="center")
    for side in split:
        _claims(axis, side, split)
    if not split:
        points = re.findall(r"^ +- ([A-Z][a-z ]+):", prompt.system, re.MULTILINE)
        _box(axis, 0.04, 1.36, 1.61, 0.54, "\n".join(f"{point}?" for point in points), DESIGN_COLORS["H"])
        _arrow(axis, (0.845, 1.36), (0.845, 1.18))
    if split == "R":
        _box(axis, 1.0, 1.36, 0.65, 0.27, "the rest:\nnot asked", "0.5", size=6.5)
    _reply(axis, prompt)


def _claims(axis: Axes, side: str, split: str) -> None:
    """The claims of one side, each looked up in the other text, and the arrow to the reply."""
    x, color = _SIDES[side][0], DESIGN_COLORS[side]
    near, far = (1.0, 0.69) if side == "C" else (0.69, 1.0)
    for number in range(3):
        y = 1.83 - 0.2 * number
        _box(axis, x, y - 0.07, 0.65, 0.14, f"claim {number + 1}" if number < 2 else "claim …", color, size=6.5)
        if len(split) == 1:
            _arrow(axis, (near, y), (far, y + 0.14 if side == "R" else y), color)
    if len(split) == 2:
        _arrow(axis, (near, 1.83), (far + 0.12 * (far - near) / 0.31, 2.06), color)
    _arrow(axis, (x + 0.325, 1.36), (x + 0.325, 1.18))


def _reply(axis: Axes, prompt: Prompt) -> None:
    _box(axis, 0.04, 0.03, 1.61, 1.15, "", DESIGN_COLORS[prompt.design])
    first, second, third = VERDICTS
    axis.text(0.845, 1.09, f"one {prompt.keys[0]}", weight="bold", ha="center", va="center")
    axis.text(0.845, 0.935, f"{first}, {second}\nor {third}", size=6.5, ha="center", va="center")
    for number, key in enumerate(prompt.lists):
        own = [side for side in "CR" if key in load_prompt(f"{side}.v1").lists]
        color = INKS[own[0] if own else prompt.design]
        axis.text(0.845, 0.735 - 0.106 * number, key, size=6.5, color=color, ha="center", va="center")
    rest = [key for key in prompt.keys if key not in (prompt.keys[0], *prompt.lists)]
    axis.text(0.845, 0.095, ", ".join(rest), size=6.5, color="0.35", ha="center", va="center")


def _box(axis: Axes, x: float, y: float, width: float, height: float, text: str = "", edge="0.4", size=7.5) -> None:
    axis.add_patch(Rectangle((x, y), width, height, facecolor="white", edgecolor=edge, lw=0.9))
    axis.text(x + width / 2, y + height / 2, text, size=size, ha="center", va="center", linespacing=1.1)


def _arrow(axis: Axes, start: tuple[float, float], end: tuple[float, float], color="0.4") -> None:
    look = {"arrowstyle": "-|>", "mutation_scale": 6, "shrinkA": 0, "shrinkB": 0, "color": color, "lw": 0.9}
    axis.add_patch(FancyArrowPatch(start, end, zorder=3, **look))


def by_design(table: pd.DataFrame, width: float, label: str) -> Figure:
    """Shares with their intervals by design, one panel a dataset, one marker a judge."""
    judges, designs = judges_of(table), designs_of(table)
    with mpl.rc_context(STYLE):
        figure, parts = panels(table, len(designs) * (0.16 + 0.1 * len(judges)) + 0.3, width)
        for (axis, part), (number, judge) in product(parts, enumerate(judges)):
            mine = part[(part["judge"] == judge) & part["accuracy"].notna()]
            places = [designs.index(design) + offset(number, len(judges)) for design in mine["design"]]
            dots(axis, mine["accuracy"], places, mine, mine["design"].map(DESIGN_COLORS), number, label=judge)
            axis.set_xlim(span(table))
            axis.xaxis.set_major_formatter("{x:.0%}")
            lines(axis, designs)
        legend(figure, judge_handles(judges), label)
    return figure


def panels(
    table: pd.DataFrame, height: float, width: float, by: str = "dataset", label: str = ""
) -> tuple[Figure, list[tuple]]:
    """A figure and its (axes, part of the table), a panel a dataset; below each other in a column's width."""
    parts = list(table.groupby(by, sort=False))
    shape = (1, len(parts)) if width > COLUMN else (len(parts), 1)
    figure = Figure(figsize=(width, height * max(1, shape[0]) + (0.55 if width > COLUMN else 0.7)))
    axes = figure.subplots(*shape, sharey=True, squeeze=False).ravel() if parts else []
    for axis in axes:
        axis.set_ylabel(label if axis.get_subplotspec().is_first_col() else "")
    return figure, [(axis, part) for axis, (name, part) in zip(axes, parts, strict=True) if axis.set_title(name)]


def dots(axis: Axes, x, y, ends: pd.DataFrame | None, colors, number: int, fills=None, upright=False, label=None):
    """Points with the marker of judge `number`, and the intervals `low` to `high` of `ends`."""
    if ends is not None and len(ends):
        value, name = (y, "yerr") if upright else (x, "xerr")
        errors = [(value - ends["low"]).clip(lower=0), (ends["high"] - value).clip(lower=0)]
        axis.errorbar(x, y, **{name: errors}, fmt="none", ecolor=list(colors), elinewidth=0.9, zorder=2)
    look = {"facecolors": list(colors if fills is None else fills), "edgecolors": list(colors), "linewidths": 0.7}
    axis.scatter(x, y, s=13, marker=MARKERS[number % len(MARKERS)], label=label, zorder=3, **look)


def lines(axis: Axes, names: Sequence[str]) -> None:
    """A line for each name, the first on top."""
    axis.set_yticks(range(len(names)), names)
    axis.set_ylim(len(names) - 0.5, -0.5)
    axis.grid(axis="y", visible=False)


def settle(figure: Figure) -> None:
    """Lay a figure out, once: it costs more than the drawing, and what is placed by the layout must not move."""
    if isinstance(figure.get_layout_engine(), ConstrainedLayoutEngine):
        figure.draw_without_rendering()
        figure.set_layout_engine("none")


def legend(figure: Figure, handles: Sequence, title: str | None = None) -> None:
    """A legend below the panels in as few lines as fit; its title, which is the label of the x axes, stands above."""
    names, room = [handle.get_label() for handle in handles], figure.get_figwidth()
    needed = {
        n: sum(0.4 + 0.063 * max(map(len, part)) for part in np.array_split(names, n))
        for n in range(1, len(names) + 1)
    }
    columns = max((n for n, width in needed.items() if width < room), default=1)
    figure.legend(
        handles=handles, loc="outside lower center", ncols=columns, title=title, columnspacing=1, handlelength=1.6
    )


def judge_handles(judges: Sequence[str], fill: str = "0.3") -> list:
    """The legend's marks of judges, grey since no colour is theirs."""
    looks = [{"marker": marker, "label": judge} for judge, marker in zip(judges, MARKERS, strict=False)]
    return [mpl.lines.Line2D([], [], ls="", ms=4, mfc=fill, mec="0.1", mew=0.7, **look) for look in looks]


def offset(number: int, count: int, spread: float = 0.66) -> float:
    """Where mark `number` of `count` stands around its line."""
    return spread * ((number + 0.5) / count - 0.5)


def span(table: pd.DataFrame) -> tuple[float, float]:
    """The limits of an axis of accuracy: whole tenths around all intervals, with some room."""
    ends = table[["accuracy", "low", "high"]].stack()
    return (np.floor(10 * ends.min()) / 10 - 0.03, np.ceil(10 * ends.max()) / 10 + 0.03) if len(ends) else (0.0, 1.0)


def judges_of(table: pd.DataFrame) -> list[str]:
    return list(dict.fromkeys(table["judge"]))


def designs_of(table: pd.DataFrame) -> list[str]:
    return [design for design in tables.DESIGNS if design in set(table["design"])]
