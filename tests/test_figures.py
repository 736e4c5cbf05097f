"""Figures: the same bytes everywhere, every row drawn and nothing else, texts that can be read, the cost frontier."""

import hashlib
import math
import os
import re
import subprocess
import sys
from functools import cache
from itertools import combinations
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from matplotlib.collections import PathCollection
from matplotlib.text import Annotation, Text

from lib import effect_figures, figures, generated_tables, paper_figures, paths, standard_tables, tables
from lib.paper_figures import COLUMN, DESIGN_COLORS, MARKERS, WIDTH
from lib.parsing import VERDICTS
from lib.prompts import load_prompt

JUDGES = ("opus", "gpt-4.1", "gemini", "sonnet-4.6")
PAIRS = [("H", "C"), ("R", "C"), ("B", "C"), ("R", "H"), ("B", "H"), ("R", "B")]
OTHER = {"truthfulqa": "incorrect", "asqa": "partial", "qampari": "partial"}
LABEL = {"full": "supported", "partial": "partially_supported", "incorrect": "unsupported"}
RIGHT = {"C": 0.55, "H": 0.85, "R": 0.95, "B": 0.9}


def judgments(judges=JUDGES, datasets=tuple(OTHER), n=200, right=RIGHT):
    """The study's shape: designs differ on partial rows alone, and the last of four judges has C and H only."""
    rng, frames = np.random.default_rng(0), []
    for dataset, judge, design in ((d, j, x) for d in datasets for j in judges for x in right):
        if judge == "sonnet-4.6" and design in "RB":
            continue
        question, kind = np.repeat(np.arange(n), 2), np.tile(["full", OTHER[dataset]], n)
        frame = pd.DataFrame({"question_id": question.astype(str), "kind": kind, "complexity": question % 14 + 1})
        frame = frame.assign(dataset=dataset, judge=judge, design=design, prompt=f"{design}.v1", condition="primary")
        frame["row_id"] = frame["dataset"] + "/" + frame["question_id"] + "/" + frame["kind"]
        frame["label"] = frame["kind"].map(LABEL)
        frame["correct"] = rng.random(2 * n) < np.where(kind == "partial", right[design], 0.96)
        wrong = np.where(kind == "full", "partially_supported", "supported")
        frame["verdict"] = np.where(frame["correct"], frame["label"], wrong)
        unjudged = ~frame["correct"] & (rng.random(2 * n) < 0.2)
        frame["verdict"] = frame["verdict"].astype("str").mask(unjudged)
        frame["status"] = np.where(unjudged, "unjudged", np.where(rng.random(2 * n) < 0.1, "embedded", "whole"))
        spent = {"C": 700, "H": 640, "R": 700, "B": 900}.get(design, 800) + 30 * judges.index(judge)
        frame["tokens_in"], frame["tokens_out"] = (
            pd.array([spent] * 2 * n, dtype="Int64"),
            rng.integers(50, 90, 2 * n),
        )
        frames.append(frame)
    return pd.concat(frames, ignore_index=True)


def overview(judges=JUDGES):
    """What `lib.diagnosis.overview` gives, as far as figures read it; every eighth line is empty."""
    shown = ["cap-128", "reference-removed", "candidate-whitespace", "attack-tag", "C.v2 for C.v1"]
    lines = [(j, s, b) for j in judges for s in shown for b in ("C.v1", "H.v1", "R.v1", "B.v1", "C.v2")]
    table = pd.DataFrame(lines, columns=["judge", "shown", "base"])
    table["difference"] = np.where(np.arange(len(table)) % 8, np.linspace(-0.9, 0.1, len(table)), np.nan)
    rates = table["difference"].abs()
    return table.assign(low=table["difference"] - 0.1, high=table["difference"] + 0.1, flip_rate=rates)


def capped(judges=JUDGES):
    lines = [(j, c, p) for j in judges for c in ("cap-128", "cap-512", "primary") for p in ("C.v1", "H.v1", "B.v1")]
    table = pd.DataFrame(lines, columns=["judge", "condition", "prompt"])
    return table.assign(accuracy=0.7, low=0.6, high=0.8, cut=[*range(len(table))], n_rows=40)


def ranks(judges=JUDGES):
    lines = [(j, s, d) for j in judges for s in ("construction", "maintainers") for d in "CHRB"]
    table = pd.DataFrame(lines, columns=["judge", "standard", "design"])
    return table.assign(rank=[1, 2, 3, 4, 1, 1, 3, 4] * len(judges), n_correct=range(100, 100 + len(table)))


@cache
def small():
    return made(judgments(n=8))


def made(judged):
    """The tables that figures are drawn from."""
    found = {"judged": judged, "accuracy": tables.accuracy_table(judged), "pairs": tables.paired_table(judged, PAIRS)}
    return found | {"kinds": tables.kind_table(judged), "bins": tables.complexity_table(judged)}


def every_figure(study, width):
    """Every figure by name; those of one width only where it is theirs."""
    yield "accuracy", figures.accuracy(study["accuracy"], width)
    yield "accuracy-tokens", figures.accuracy_tokens(study["accuracy"], width)
    yield "wins", figures.wins(study["pairs"], width)
    yield "parse-status", figures.parse_status(tables.parse_table(study["judged"]), width)
    yield "partial-rows", paper_figures.partial_rows(study["kinds"], width)
    yield "complexity", paper_figures.complexity(study["bins"], width)
    yield "slopes", standard_tables.slopes(ranks(JUDGES if width == WIDTH else JUDGES[:2]), width)
    if width == WIDTH:
        yield "confusion", figures.confusion(study["judged"])
        yield "effects", effect_figures.effects(overview())
        yield "flips", effect_figures.flips(overview())
        yield "caps", effect_figures.caps(capped())
        yield (
            "verdicts",
            generated_tables.verdicts(study["judged"].query("kind != 'incorrect'").assign(degenerate=False)),
        )
        yield "designs", paper_figures.designs_diagram()


@pytest.fixture(scope="module")
def study():
    return made(judgments())


@pytest.fixture(scope="module")
def drawn(study):
    return {(name, width): figure for width in (WIDTH, COLUMN) for name, figure in every_figure(study, width)}


# Files.


def digests(folder):
    """The sha256 of every file of every figure of a small study."""
    paths.FIGURES, found = Path(folder), {}
    for name, figure in every_figure(small(), WIDTH):
        for path in figures.save(figure, "run", name):
            found[path.name] = hashlib.sha256(path.read_bytes()).hexdigest()
    return found


def test_every_format_is_the_same_bytes_again_and_in_another_process(out, tmp_path):
    code = f"import sys; sys.path[:0] = {[str(paths.ROOT), str(Path(__file__).parent)]!r}; import test_figures as t; "
    code += f"print(sorted(t.digests({str(tmp_path / 'again')!r}).items()))"
    seed = {"PYTHONHASHSEED": "1" if os.environ.get("PYTHONHASHSEED") != "1" else "2"}
    other = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env=os.environ | seed)
    first = digests(out / "figures")
    assert len(first) == 3 * 13 and {name.split(".")[-1] for name in first} == {"pdf", "svg", "png"}
    assert other.communicate()[0].strip() == str(sorted(first.items()))


def test_a_figure_saved_twice_is_the_same_and_the_picture_comes_last(out, study):
    figure = figures.accuracy_tokens(study["accuracy"])
    saved = figures.save(figure, "run", "name")
    assert [path.name for path in saved] == ["name.pdf", "name.svg", "name.png"]
    before = [path.read_bytes() for path in saved]
    assert [path.read_bytes() for path in figures.save(figure, "run", "name")] == before
    assert before[2].startswith(b"\x89PNG") and b"<text" not in before[1] and b"<path" in before[1]
    assert not any(re.search(rb"Matplotlib v|<dc:date>|CreationDate|20[23]\d-\d\d-\d\d", data) for data in before[:2])


# What is drawn.


def points(figure, axes=None):
    """The places of all marks: (x, y) in the units of their panel."""
    marks = [each for axis in axes or figure.axes for each in axis.collections if isinstance(each, PathCollection)]
    places = np.concatenate([np.ma.filled(each.get_offsets(), np.nan) for each in marks] or [np.empty((0, 2))])
    return places[np.isfinite(places).all(axis=1)]


def test_every_figure_draws_every_row(study, drawn):
    accuracy, kinds = study["accuracy"], study["kinds"]
    parts = {"accuracy": len(accuracy), "accuracy-tokens": len(accuracy), "wins": 3 * (3 * 6 + 1)}
    parts |= {"partial-rows": (kinds["kind"] == "partial").sum(), "effects": overview()["difference"].notna().sum()}
    parts |= {"complexity": len(study["bins"]), "caps": 2 * len(capped())}
    assert parts["accuracy"] == 3 * 14 and parts["partial-rows"] == 2 * 14 and parts["complexity"] == 3 * 4 * 4
    for (name, width), figure in drawn.items():
        if name in parts:
            assert len(points(figure)) == parts[name], (name, width)
    assert len(drawn["parse-status", WIDTH].axes[0].patches) == 14 * len(tables.STAGES)
    lines = [line for axis in drawn["slopes", WIDTH].axes for line in axis.lines]
    assert sum(len(line.get_xdata()) for line in lines) == len(ranks())
    shown = [text.get_text() for axis in drawn["flips", WIDTH].axes for text in axis.texts]
    assert len(shown) == overview()["flip_rate"].notna().sum()
    counts = [int(text.get_text()) for axis in drawn["confusion", WIDTH].axes for text in axis.texts]
    assert sum(counts) == len(study["judged"])


def test_marks_stand_at_their_numbers(study, drawn):
    accuracy, pairs = study["accuracy"], study["pairs"]
    assert sorted(points(drawn["accuracy", WIDTH])[:, 0]) == sorted(accuracy["accuracy"])
    tokens = points(drawn["accuracy-tokens", COLUMN])
    assert sorted(map(tuple, tokens)) == sorted(zip(accuracy["tokens"], accuracy["accuracy"], strict=True))
    assert sorted(points(drawn["wins", WIDTH])[:, 0]) == sorted(pairs["wins_a"] - pairs["wins_b"])


def test_what_is_nan_is_not_drawn_and_never_a_zero(study):
    table, gone = study["accuracy"].copy(), ["accuracy", "low", "high"]
    table.loc[[0, 20], gone] = np.nan
    for figure, column in ((figures.accuracy(table), 0), (figures.accuracy_tokens(table), 1)):
        assert len(points(figure)) == 40 and points(figure)[:, column].min() > 0.5
    bins = study["bins"].copy()
    bins.loc[3, ["difference", "low", "high"]] = np.nan
    assert len(points(paper_figures.complexity(bins))) == len(bins) - 1
    pairs = study["pairs"].copy()
    pairs.loc[0, ["n_questions", "wins_a", "wins_b"]] = 0
    assert len(points(figures.wins(pairs))) == len(pairs) - 1


def test_an_empty_table_draws_nothing(study):
    accuracy, pairs = study["accuracy"][:0], study["pairs"][:0]
    empty = [figures.accuracy(accuracy), figures.accuracy_tokens(accuracy), figures.wins(pairs)]
    empty.append(paper_figures.complexity(study["bins"][:0]))
    for figure in empty:
        figure.draw_without_rendering()
        assert not figure.axes
    unknown = study["accuracy"].assign(tokens=np.nan)
    assert not figures.accuracy_tokens(unknown).axes


def test_partial_rows_need_partial_rows(study):
    kinds = study["kinds"]
    assert [axis.get_title() for axis in paper_figures.partial_rows(kinds).axes] == ["asqa", "qampari"]
    with pytest.raises(ValueError, match="no partial rows"):
        paper_figures.partial_rows(kinds[kinds["dataset"] == "truthfulqa"])


def test_complexity_bins_stand_in_order_with_their_questions(drawn):
    labels = [label.get_text() for label in drawn["complexity", WIDTH].axes[1].get_xticklabels()]
    bins, counts = zip(*(label.split("\nn ") for label in labels), strict=True)
    starts = [int(name.split("-")[0]) for name in bins]
    assert starts == sorted(starts) and len(bins) == 4 and sum(map(int, counts)) == 200


# One look.


def test_a_colour_is_a_design_and_a_marker_a_judge(study, drawn):
    for name in ("accuracy", "partial-rows", "effects", "caps"):
        axis = drawn[name, WIDTH].axes[-1]
        marks = [each for each in axis.collections if isinstance(each, PathCollection)]
        used = {mpl.colors.to_hex(color) for each in marks for color in each.get_edgecolors()}
        known = set(DESIGN_COLORS.values()) | {effect_figures._look("C.v2", ["C.v1", "C.v2"])[0]}
        assert used and used <= known, name
    # The same judge has the same mark where another one is left out.
    table = study["accuracy"].copy()
    table.loc[table["judge"] == "opus", "tokens"] = np.nan
    with_all, without = figures.accuracy(table), figures.accuracy_tokens(table)
    handles = [figure.legends[0].legend_handles for figure in (with_all, without)]
    marks = [{each.get_label(): each.get_marker() for each in part} for part in handles]
    assert list(marks[0].values()) == list(MARKERS[:4]) and list(marks[1]) == list(JUDGES[1:])
    assert marks[1].items() <= marks[0].items()


def test_designs_stay_apart_in_grey():
    light = []
    for color in DESIGN_COLORS.values():
        linear = [
            part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in mpl.colors.to_rgb(color)
        ]
        light.append(116 * np.dot(linear, (0.2126, 0.7152, 0.0722)) ** (1 / 3) - 16)
    assert min(abs(a - b) for a, b in combinations(light, 2)) > 10 and max(light) < 75


# Texts.


def texts(figure):
    """The texts that are drawn, with their boxes in dots."""
    figure.draw_without_rendering()
    unseen = set()
    for axis in (each for axes in figure.axes for each in (axes.xaxis, axes.yaxis)):
        low, high = sorted(axis.get_view_interval())
        out = [tick for tick in axis.get_major_ticks() if not low - 1e-9 <= tick.get_loc() <= high + 1e-9]
        unseen |= {label for tick in out for label in (tick.label1, tick.label2)}
    found = [each for each in figure.findobj(Text) if each.get_visible() and each.get_text().strip()]
    found = [
        each
        for each in found
        if each not in unseen and (each.axes is None or each.axes.axison or each in each.axes.texts)
    ]
    # The box of an annotation without its line to the point.
    return [
        (each, Text.get_window_extent(each) if isinstance(each, Annotation) else each.get_window_extent())
        for each in found
    ]


def faults(figure):
    """Texts that overlap, leave the figure or are too small."""
    found, inside = texts(figure), figure.bbox.padded(1)
    wrong = [each.get_text() for each, box in found if not (inside.contains(*box.min) and inside.contains(*box.max))]
    wrong += [each.get_text() for each, _ in found if each.get_fontsize() < 6.5]
    for (one, a), (two, b) in combinations(found, 2):
        if a.padded(-1).overlaps(b.padded(-1)):
            wrong.append((one.get_text(), two.get_text()))
    return wrong


def test_no_text_overlaps_another_is_cut_or_is_too_small(drawn):
    for (name, width), figure in drawn.items():
        assert len(texts(figure)) > 8 and faults(figure) == [], (name, width)
        assert figure.get_figwidth() == width and figure.get_figheight() <= 9.6


def test_faults_are_found(study):
    figure = figures.accuracy(study["accuracy"])
    figure.text(0.5, 0.5, "one")
    figure.text(0.5, 0.51, "two")
    figure.text(0.99, 0.3, "outside")
    figure.text(0.1, 0.02, "small", fontsize=5)
    assert faults(figure) == ["outside", "small", ("one", "two")]


def test_letters_of_equal_points_are_all_readable(study):
    table = study["accuracy"].query("dataset == 'asqa'").assign(tokens=700.0, accuracy=0.9, low=0.88, high=0.92)
    figure = figures.accuracy_tokens(table)
    letters = [(each, box) for each, box in texts(figure) if isinstance(each, Annotation)]
    assert sorted(each.get_text() for each, _ in letters) == sorted(table["design"]) and faults(figure) == []
    # Each is near its point, and on no marker.
    place = figure.axes[0].transData.transform((700, 0.9))
    assert all(5 < math.dist(place, (box.min + box.max) / 2) * 72 / 200 < 40 for _, box in letters)


# Numbers on axes.


@pytest.mark.parametrize("right", [{"C": 1.0, "H": 1.0}, {"C": 0.5, "H": 0.9}, {"C": 0.98, "H": 1.0}])
def test_wins_have_whole_ticks_that_differ(right):
    judged = judgments(judges=("j",), datasets=("asqa",), n=20, right=right).assign(correct=lambda t: t["correct"])
    if right["C"] == 1.0:
        judged = judged.assign(correct=True, verdict=judged["label"])
    figure = figures.wins(tables.paired_table(judged, [("H", "C")]))
    figure.draw_without_rendering()
    axis = figure.axes[0]
    ticks = axis.get_xticks()
    labels = [text.get_text() for text in axis.get_xticklabels()]
    assert [float(label) for label in labels] == [abs(tick) for tick in ticks] and all(
        tick % 1 == 0 for tick in ticks
    )
    assert len({(tick >= 0, label) for tick, label in zip(ticks, labels, strict=True)}) == len(ticks) >= 2
    assert [text.get_text() for text in axis.texts] == (["all tied"] if right["C"] == 1.0 else [])
    if right["C"] == 1.0:
        assert labels == ["0", "1"]


@pytest.mark.parametrize(
    ("tokens", "accuracy", "found"),
    [
        ([], [], []),
        ([100], [0.5], [0]),
        ([300, 100, 200], [0.9, 0.5, 0.4], [1, 0]),
        ([100, 100], [0.5, 0.6], [1]),
        ([100, 200], [0.5, 0.5], [0]),
        ([100, 100, 200], [0.5, 0.5, 0.5], [0, 1]),
        ([math.nan, 100, 50, 10], [0.9, 0.5, math.nan, 0.2], [3, 1]),
        ([math.nan], [0.5], []),
    ],
)
def test_the_frontier_is_what_no_other_beats(tokens, accuracy, found):
    assert figures.frontier(tokens, accuracy) == found
    assert figures.frontier(pd.Series(tokens, dtype="Float64"), pd.Series(accuracy, dtype=float)) == found


def test_the_frontier_of_each_judge_is_drawn(study, drawn):
    part = study["accuracy"].query("dataset == 'asqa' and judge == 'opus'")
    axis = drawn["accuracy-tokens", WIDTH].axes[1]
    steps = [line for line in axis.lines if line.get_drawstyle() == "steps-post"]
    best = part.iloc[figures.frontier(part["tokens"], part["accuracy"])]
    assert len(steps) == len(JUDGES)
    assert list(steps[0].get_ydata())[:-1] == best["accuracy"].tolist() and best["design"].iloc[0] == "H"
    assert steps[0].get_xdata()[-1] == part["tokens"].max()


# The diagram.


def test_the_diagram_says_what_the_prompts_say(drawn):
    axes = drawn["designs", WIDTH].axes
    for axis, design in zip(axes, "CHRB", strict=True):
        prompt, said = load_prompt(f"{design}.v1"), [text.get_text() for text in axis.texts]
        assert set(prompt.lists) <= set(said) and prompt.note.split(";")[0] in said and "one verdict" in said
        assert all(verdict in " ".join(said) for verdict in VERDICTS)
        assert said.count("claim 1") == {"C": 1, "H": 0, "R": 1, "B": 2}[design]
    checks = "Correctness?\nCompleteness?\nUnsupported detail?\nStyle robustness?"
    assert checks in [text.get_text() for text in axes[1].texts]
    assert len([text for text in axes[3].texts if text.get_text() in load_prompt("B.v1").lists]) == 6


def test_arrows_of_the_diagram_meet_boxes(drawn):
    for axis in drawn["designs", WIDTH].axes:
        boxes = [each.get_bbox() for each in axis.patches if isinstance(each, mpl.patches.Rectangle)]
        arrows = [each for each in axis.patches if isinstance(each, mpl.patches.FancyArrowPatch)]
        assert len(arrows) >= 3
        for end in (end for arrow in arrows for end in arrow._posA_posB):
            edges = [box for box in boxes if box.padded(1e-6).contains(*end) and not box.padded(-1e-3).contains(*end)]
            assert edges, (axis.texts[0].get_text(), end)
