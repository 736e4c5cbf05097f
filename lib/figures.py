"""Judgments to figures: one style, one palette that colour-blind readers can tell apart, the same bytes each time.

Each function returns a matplotlib Figure; `save` writes it as PDF and PNG. No statistic is computed here that
`lib.stats` or `lib.tables` does not give.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from lib import paths, tables
from lib.labels import LABELS
from lib.results import write_bytes

STYLE = {
    **sns.axes_style("whitegrid"),
    **sns.plotting_context("paper", font_scale=1.0),
    "axes.edgecolor": "0.5",
    "axes.titlesize": 9,
    "figure.constrained_layout.use": True,
    "font.family": "DejaVu Sans",
    "legend.frameon": False,
    "pdf.fonttype": 42,
    "svg.hashsalt": "judge-designs",
}
WIDTH = 7.0
COLORS = sns.color_palette("colorblind")
MARKERS = ("o", "s", "^", "D", "v", "P")
# The stages from best to worst; unjudged stands apart from the blues.
STAGE_COLORS = dict(zip(tables.STAGES, [*sns.color_palette("Blues_r", 4)[:3], COLORS[3]], strict=True))
_SHORT = {"supported": "sup.", "partially_supported": "part.", "unsupported": "unsup.", "unjudged": "unjudged"}
# No date and no program version: the same figure is the same file.
_NO_METADATA = {
    "pdf": {"CreationDate": None, "ModDate": None, "Creator": None, "Producer": None},
    "png": {"Software": None},
}


def save(figure: Figure, run: str, name: str) -> list[Path]:
    """Write a figure as `figures/<run>/<name>.pdf` and `.png` (200 dots an inch); returns both paths."""
    written = []
    for kind, metadata in _NO_METADATA.items():
        data = io.BytesIO()
        with mpl.rc_context(STYLE):
            figure.savefig(data, format=kind, dpi=200, metadata=metadata)
        written.append(write_bytes(paths.FIGURES / run / f"{name}.{kind}", data.getvalue()))
    return written


def accuracy(table: pd.DataFrame) -> Figure:
    """Accuracy by design with 95 percent intervals, one panel a dataset, one marker a judge.

    `table` is that of `lib.tables.accuracy_table`.
    """
    judges, designs = _judges(table), _designs(table)
    with mpl.rc_context(STYLE):
        figure, axes = _panels(table, 0.45 * len(designs) * max(1, len(judges) / 2) + 1.0)
        for axis, (dataset, part) in zip(axes, table.groupby("dataset", sort=False), strict=True):
            for number, judge in enumerate(judges):
                mine = part[part["judge"] == judge]
                places = [designs.index(design) + _offset(number, len(judges)) for design in mine["design"]]
                _dots(axis, mine, places, number, judge)
            _accuracy_axis(axis, dataset)
            axis.set_yticks(range(len(designs)), designs)
            axis.set_ylim(len(designs) - 0.5, -0.5)
            axis.grid(axis="y", visible=False)
        axes[0].set_ylabel("design")
        _legend(figure, axes[0], len(judges))
    return figure


def accuracy_tokens(table: pd.DataFrame) -> Figure:
    """Accuracy against mean tokens a call, one panel a dataset; judges that report no tokens are left out.

    `table` is that of `lib.tables.accuracy_table`. Each point carries its design's letter.
    """
    known = table[table["tokens"].notna()]
    judges = _judges(known)
    with mpl.rc_context(STYLE):
        figure, axes = _panels(known, 2.6)
        for axis, (dataset, part) in zip(axes, known.groupby("dataset", sort=False), strict=True):
            for number, judge in enumerate(judges):
                mine = part[part["judge"] == judge]
                errors = [mine["accuracy"] - mine["low"], mine["high"] - mine["accuracy"]]
                style = {"fmt": MARKERS[number], "color": COLORS[number], "markersize": 4, "elinewidth": 1}
                axis.errorbar(mine["tokens"], mine["accuracy"], yerr=errors, label=judge, **style)
                for rank, line in enumerate(mine.sort_values("tokens").itertuples()):
                    # Above and below by turns: designs of equal cost would cover each other's letters.
                    place = {"xytext": (4, -10 if rank % 2 else 4), "textcoords": "offset points", "fontsize": 8}
                    axis.annotate(line.design, (line.tokens, line.accuracy), **place)
            axis.set(title=dataset, xlabel="mean tokens a call", ylim=(-0.03, 1.03))
            axis.margins(x=0.15)
            axis.yaxis.set_major_formatter(mpl.ticker.PercentFormatter(1.0))
        axes[0].set_ylabel("accuracy")
        _legend(figure, axes[0], len(judges))
    return figure


def confusion(judgments: pd.DataFrame) -> Figure:
    """Verdicts against labels as shares of each label's rows, one panel a judge x design, all datasets together."""
    judges, designs = _judges(judgments), _designs(judgments)
    columns = [*LABELS, "unjudged"]
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(WIDTH, 1.55 * len(judges) + 0.9))
        axes = figure.subplots(len(judges), len(designs), squeeze=False, sharex=True, sharey=True)
        for judge, line in zip(judges, axes, strict=True):
            for design, axis in zip(designs, line, strict=True):
                mine = judgments[(judgments["judge"] == judge) & (judgments["design"] == design)]
                counts = pd.crosstab(mine["label"], mine["verdict"].fillna("unjudged"))
                counts = counts.reindex(index=list(LABELS), columns=columns, fill_value=0)
                shares = counts.div(counts.sum(axis=1).where(lambda n: n > 0), axis=0)
                marks = {"annot": counts, "fmt": "d", "annot_kws": {"fontsize": 7}}
                look = {"cmap": "Blues", "vmin": 0, "vmax": 1, "cbar": False, "linewidths": 0.5}
                sns.heatmap(shares, ax=axis, **marks, **look)
                axis.set(xlabel="", ylabel="", title=f"{judge}, {design}")
                axis.set_xticklabels([_SHORT[name] for name in columns], rotation=45, ha="right")
                axis.set_yticklabels([_SHORT[name] for name in LABELS], rotation=0)
        figure.supxlabel("verdict (rows in each cell)", fontsize=8)
        figure.supylabel("label", fontsize=8)
    return figure


def wins(table: pd.DataFrame) -> Figure:
    """Questions won and lost in each pair of designs, one panel a dataset, ties left out.

    `table` is that of `lib.tables.paired_table`.
    """
    judges = _judges(table)
    pairs = list(dict.fromkeys(f"{a} − {b}" for a, b in zip(table["a"], table["b"], strict=True)))
    height = 0.8 / len(judges)
    with mpl.rc_context(STYLE):
        figure, axes = _panels(table, 0.3 * len(pairs) * max(1.0, len(judges) / 2) + 1.1)
        for axis, (dataset, part) in zip(axes, table.groupby("dataset", sort=False), strict=True):
            for number, judge in enumerate(judges):
                mine = part[part["judge"] == judge]
                names = [f"{a} − {b}" for a, b in zip(mine["a"], mine["b"], strict=True)]
                places = [pairs.index(name) + 0.8 * _offset(number, len(judges)) / 0.6 for name in names]
                axis.barh(places, mine["wins_a"], height, color=COLORS[number], label=judge)
                axis.barh(places, -mine["wins_b"], height, color=COLORS[number], alpha=0.45, hatch="///", lw=0)
            axis.axvline(0, color="0.3", lw=0.8)
            axis.set_title(dataset)
            axis.set_yticks(range(len(pairs)), pairs)
            axis.set_ylim(len(pairs) - 0.5, -0.5)
            axis.grid(axis="y", visible=False)
            axis.xaxis.set_major_formatter(lambda value, _: f"{abs(value):.0f}")
            axis.margins(x=0.1)
        _legend(
            figure, axes[0], len(judges), "questions won (solid) and lost (hatched) by the first design of a pair"
        )
    return figure


def parse_status(table: pd.DataFrame) -> Figure:
    """How verdicts were read, as shares of the calls asked, one bar a judge x design.

    `table` is that of `lib.tables.parse_table`.
    """
    names = [f"{judge}, {design}" for judge, design in zip(table["judge"], table["design"], strict=True)]
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(WIDTH, 0.24 * len(names) + 1.1))
        axis = figure.subplots()
        left = pd.Series(0.0, index=table.index)
        for stage in tables.STAGES:
            share = table[stage] / table["asked"]
            hatch = "///" if stage == "unjudged" else None
            axis.barh(names, share, left=left, color=STAGE_COLORS[stage], label=stage, hatch=hatch, edgecolor="white")
            left += share
        axis.set(xlabel="share of calls", xlim=(0, 1))
        axis.invert_yaxis()
        axis.grid(axis="y", visible=False)
        axis.xaxis.set_major_formatter(mpl.ticker.PercentFormatter(1.0))
        _legend(figure, axis, len(tables.STAGES))
    return figure


def _panels(table: pd.DataFrame, height: float) -> tuple[Figure, Sequence[Axes]]:
    figure = Figure(figsize=(WIDTH, height))
    return figure, figure.subplots(1, table["dataset"].nunique(), sharey=True, squeeze=False)[0]


def _dots(axis: Axes, table: pd.DataFrame, places: Sequence[float], number: int, label: str) -> None:
    errors = [table["accuracy"] - table["low"], table["high"] - table["accuracy"]]
    style = {"fmt": MARKERS[number], "color": COLORS[number], "markersize": 4, "elinewidth": 1.2}
    axis.errorbar(table["accuracy"], places, xerr=errors, label=label, **style)


def _accuracy_axis(axis: Axes, dataset: str) -> None:
    axis.set(title=dataset, xlabel="accuracy", xlim=(-0.03, 1.03))
    axis.xaxis.set_major_formatter(mpl.ticker.PercentFormatter(1.0))


def _legend(figure: Figure, axis: Axes, columns: int, title: str | None = None) -> None:
    handles, labels = axis.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=columns, title=title)


def _offset(number: int, count: int) -> float:
    return 0.6 * ((number + 0.5) / count - 0.5)


def _judges(table: pd.DataFrame) -> list[str]:
    return list(dict.fromkeys(table["judge"]))


def _designs(table: pd.DataFrame) -> list[str]:
    return [design for design in tables.DESIGNS if design in set(table["design"])]
