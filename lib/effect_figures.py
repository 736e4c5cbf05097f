"""Figures of the diagnostics, in the style of `lib.figures`, which writes them.

Each function returns a matplotlib Figure. What is drawn was computed in `lib.effects`. Panels are judges, with their
markers; colours are designs, and a second version of a design has a lighter one.
"""

from __future__ import annotations

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.colors import to_hex, to_rgb
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from lib.figures import heat
from lib.paper_figures import DASHES, DESIGN_COLORS, MARKERS, STYLE, WIDTH, dots, legend, lines, offset
from lib.plan import PRIMARY_RUN


def effects(table: pd.DataFrame) -> Figure:
    """Differences in accuracy from the primary run with 95 percent intervals, one panel a judge, a line a condition.

    `table` is that of `lib.diagnosis.overview`. Hollow marks have intervals that include 0.
    """
    judges, shown, bases = (list(dict.fromkeys(table[name])) for name in ("judge", "shown", "base"))
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(WIDTH, max(0.22, 0.055 * len(bases)) * len(shown) + 1.1))
        axes = figure.subplots(1, len(judges), sharey=True, squeeze=False)[0]
        for number, (axis, judge) in enumerate(zip(axes, judges, strict=True)):
            mine = table[(table["judge"] == judge) & table["difference"].notna()]
            steps = [offset(bases.index(base), len(bases), 0.72) for base in mine["base"]]
            places = [shown.index(name) + step for name, step in zip(mine["shown"], steps, strict=True)]
            colors = [_look(base, bases)[0] for base in mine["base"]]
            sure = (mine["low"] > 0) | (mine["high"] < 0)
            fills = [color if each else "white" for color, each in zip(colors, sure, strict=True)]
            for place in range(1, len(shown), 2):
                axis.axhspan(place - 0.5, place + 0.5, color="0.95", zorder=0, lw=0)
            axis.axvline(0, color="0.3", lw=0.8, zorder=1)
            dots(axis, mine["difference"], places, mine, colors, number, fills=fills)
            axis.set_title(judge)
            axis.xaxis.set_major_locator(mpl.ticker.MaxNLocator(4, steps=[1, 2, 5, 10]))
            axis.xaxis.set_major_formatter(lambda value, _: f"{100 * value:+.0f}" if value else "0")
            lines(axis, shown)
        title = "accuracy minus primary, points (hollow: the interval includes 0); prompts from top to bottom:"
        legend(figure, _handles(bases, lw=3, ls="-"), title)
    return figure


def _look(base: str, bases: list[str]) -> tuple:
    """A prompt's colour and dash: those of its design, and paler the later its version comes."""
    twice = [each for each in bases if each[0] == base[0]].index(base)
    color = 1 - (1 - np.array(to_rgb(DESIGN_COLORS[base[0]]))) * 0.6**twice
    return to_hex(color), DASHES[base[0]]


def _handles(bases: list[str], **options) -> list[Line2D]:
    looks = [dict(zip(("color", "ls"), _look(base, bases), strict=True)) for base in bases]
    return [Line2D([], [], label=base, **look | options) for base, look in zip(bases, looks, strict=True)]


def caps(table: pd.DataFrame) -> Figure:
    """Accuracy, and the share of replies that were cut, by output cap, one column a judge.

    `table` is that of `lib.effects.read_table` over the caps and the primary run, which stands at the right.
    """
    judges, prompts = (list(dict.fromkeys(table[name])) for name in ("judge", "prompt"))
    names = sorted({name for name in table["condition"] if name != PRIMARY_RUN}, key=lambda name: int(name[4:]))
    places = {name: place for place, name in enumerate([*names, PRIMARY_RUN])}
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(WIDTH, 3.6))
        axes = figure.subplots(2, len(judges), sharex=True, sharey="row", squeeze=False)
        for number, (column, judge) in enumerate(zip(axes.T, judges, strict=True)):
            for prompt, part in table[table["judge"] == judge].groupby("prompt", sort=False):
                part = part.sort_values("condition", key=lambda names: names.map(places))
                at = [places[name] + offset(prompts.index(prompt), len(prompts), 0.42) for name in part["condition"]]
                color, dash = _look(prompt, prompts)
                for axis, values in zip(column, (part["accuracy"], part["cut"] / part["n_rows"]), strict=True):
                    axis.plot(at, values, color=color, ls=dash, lw=1.1)
                dots(column[0], at, part["accuracy"], part, [color] * len(part), number, upright=True)
                column[1].scatter(at, part["cut"] / part["n_rows"], s=14, c=color, marker=MARKERS[number], zorder=3)
            column[0].set_title(judge)
            column[1].set_xticks(range(len(places)), [name.removeprefix("cap-") for name in places])
            column[1].set_xlim(-0.35, len(places) - 0.65)
        for axis, label in zip(axes[:, 0], ("accuracy", "replies cut at the cap"), strict=True):
            axis.set(ylabel=label, ylim=(-0.04, 1.04))
            axis.yaxis.set_major_formatter(mpl.ticker.PercentFormatter(1.0))
        legend(figure, _handles(prompts, lw=1.1), "output cap in tokens")
    return figure


def flips(table: pd.DataFrame) -> Figure:
    """Flips in percent of the rows judged on both sides, by condition and prompt, one panel a judge.

    `table` is that of `lib.diagnosis.overview`; a prompt that is compared with another stands in its column. Cells
    that were not asked, or have no row judged on both sides, have a dash.
    """
    judges, shown, bases = (list(dict.fromkeys(table[name])) for name in ("judge", "shown", "base"))
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(WIDTH, 0.19 * len(shown) + 0.7))
        axes = figure.subplots(1, len(judges), sharey=True, squeeze=False)[0]
        for axis, judge in zip(axes, judges, strict=True):
            wide = table[table["judge"] == judge].pivot(index="shown", columns="base", values="flip_rate")
            rates = 100 * wide.reindex(index=shown, columns=bases)
            heat(axis, rates, 100, annot=True, fmt=".0f")
            axis.set_title(judge)
            for row, column in np.argwhere(rates.isna().to_numpy()):
                axis.plot([column + 0.3, column + 0.7], [row + 0.5] * 2, color="0.7", lw=0.8)
        figure.supxlabel("verdicts that flip, percent of rows judged on both sides (a dash: none)", fontsize=8)
    return figure
