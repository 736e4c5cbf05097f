"""Figures of the diagnostics, in the style of `lib.figures`, which writes them.

Each function returns a matplotlib Figure. What is drawn was computed in `lib.effects`.
"""

from __future__ import annotations

import matplotlib as mpl
import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure

from lib.figures import COLORS, MARKERS, STYLE, WIDTH
from lib.plan import PRIMARY_RUN
from lib.tables import DESIGNS


def effects(table: pd.DataFrame) -> Figure:
    """Differences in accuracy from the primary run with 95 percent intervals, one panel a judge, a line a condition.

    `table` is that of `lib.diagnosis.overview`. Hollow marks have intervals that include 0.
    """
    judges, shown, bases = (list(dict.fromkeys(table[name])) for name in ("judge", "shown", "base"))
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(WIDTH, 0.27 * len(shown) + 1.2))
        axes = figure.subplots(1, len(judges), sharey=True, squeeze=False)[0]
        for axis, judge in zip(axes, judges, strict=True):
            for number, base in enumerate(bases):
                mine = table[(table["judge"] == judge) & (table["base"] == base)]
                step = 0.7 * ((number + 0.5) / len(bases) - 0.5)
                places = [shown.index(name) + step for name in mine["shown"]]
                errors = [mine["difference"] - mine["low"], mine["high"] - mine["difference"]]
                color, marker = _look(base, bases)
                axis.errorbar(mine["difference"], places, xerr=errors, fmt="none", ecolor=color, elinewidth=0.9)
                sure = ((mine["low"] > 0) | (mine["high"] < 0)).to_numpy()
                fills = [color if each else "white" for each in sure]
                marks = {"s": 13, "marker": marker, "linewidths": 0.8, "zorder": 3, "edgecolors": [color] * len(mine)}
                axis.scatter(mine["difference"], places, c=fills, **marks)
            axis.axvline(0, color="0.3", lw=0.8)
            axis.set(title=judge, xlabel="accuracy minus primary, points")
            axis.xaxis.set_major_formatter(lambda value, _: f"{100 * value:+.0f}" if value else "0")
            for place in range(len(shown)):
                axis.axhspan(place - 0.5, place + 0.5, color="0.95" if place % 2 else "white", zorder=0, lw=0)
            axis.grid(axis="y", visible=False)
            axis.set_yticks(range(len(shown)), shown)
            axis.set_ylim(len(shown) - 0.5, -0.5)
        looks = [dict(zip(("color", "marker"), _look(base, bases), strict=True)) for base in bases]
        handles = [
            mpl.lines.Line2D([], [], ls="", markersize=4, label=base, **look)
            for base, look in zip(bases, looks, strict=True)
        ]
        figure.legend(handles=handles, loc="outside lower center", ncols=len(bases), title="prompt")
    return figure


def _look(base: str, bases: list[str]) -> tuple:
    """A prompt's colour and mark: those of its design, and others where a design comes twice."""
    own = DESIGNS.index(base[0])
    twice = [each for each in bases if each[0] == base[0]].index(base)
    place = own if not twice else len(DESIGNS) + own + twice - 1
    return COLORS[place % len(COLORS)], MARKERS[place % len(MARKERS)]


def caps(table: pd.DataFrame) -> Figure:
    """Accuracy, and the share of replies that were cut, by output cap, one column a judge.

    `table` is that of `lib.effects.read_table` over the caps and the primary run, which stands at the right.
    """
    judges = list(dict.fromkeys(table["judge"]))
    names = sorted({name for name in table["condition"] if name != PRIMARY_RUN}, key=lambda name: int(name[4:]))
    places = {name: place for place, name in enumerate([*names, PRIMARY_RUN])}
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(WIDTH, 4.2))
        axes = figure.subplots(2, len(judges), sharex=True, sharey="row", squeeze=False)
        for column, judge in zip(axes.T, judges, strict=True):
            for prompt, part in table[table["judge"] == judge].groupby("prompt", sort=False):
                number = DESIGNS.index(prompt[0])
                part = part.sort_values("condition", key=lambda names: names.map(places))
                at = [places[name] + 0.06 * (number - 1.5) for name in part["condition"]]
                look = {"color": COLORS[number], "marker": MARKERS[number], "markersize": 4, "lw": 1}
                errors = [part["accuracy"] - part["low"], part["high"] - part["accuracy"]]
                column[0].errorbar(at, part["accuracy"], yerr=errors, label=prompt, elinewidth=0.9, **look)
                column[1].plot(at, part["cut"] / part["n_rows"], **look)
            column[0].set_title(judge)
            column[1].set_xticks(range(len(places)), [name.removeprefix("cap-") for name in places])
            column[1].set_xlabel("output cap in tokens")
        for axis, label in zip(axes[:, 0], ("accuracy", "replies cut at the cap"), strict=True):
            axis.set(ylabel=label, ylim=(-0.04, 1.04))
            axis.yaxis.set_major_formatter(mpl.ticker.PercentFormatter(1.0))
        handles = {}
        for axis in axes[0]:
            handles |= dict(zip(*reversed(axis.get_legend_handles_labels()), strict=True))
        figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=len(handles))
    return figure


def flips(table: pd.DataFrame) -> Figure:
    """Flips in percent of the rows judged on both sides, by condition and prompt, one panel a judge.

    `table` is that of `lib.diagnosis.overview`; a prompt that is compared with another stands in its column. Cells
    that were not asked, or have no row judged on both sides, are grey.
    """
    judges, shown, bases = (list(dict.fromkeys(table[name])) for name in ("judge", "shown", "base"))
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(WIDTH, 0.24 * len(shown) + 1.0))
        axes = figure.subplots(1, len(judges), sharey=True, squeeze=False)[0]
        for axis, judge in zip(axes, judges, strict=True):
            wide = table[table["judge"] == judge].pivot(index="shown", columns="base", values="flip_rate")
            look = {"cmap": "Blues", "vmin": 0, "vmax": 100, "cbar": False, "linewidths": 0.5}
            rates = 100 * wide.reindex(index=shown, columns=bases)
            sns.heatmap(rates, ax=axis, annot=True, fmt=".0f", annot_kws={"fontsize": 7}, **look)
            axis.set(title=judge, xlabel="", ylabel="", facecolor="0.93")
            axis.grid(visible=False)
            axis.tick_params(rotation=0)
        figure.supxlabel("verdicts that flip, percent of rows judged on both sides (grey: none)", fontsize=8)
    return figure
