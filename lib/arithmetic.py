"""What the arithmetic of the paper allows: its own numbers checked against each other, and nothing else.

All values come from `data/paper/reported.csv`. A check says what follows from some of them, what is reported, and
whether both can be true; it says nothing about whether either is.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import pandas as pd

from lib.exact import format_p, sign_test
from lib.reported import evaluate, natural
from lib.resampling import cluster_bootstrap
from lib.study import STUDY_QUESTIONS, THREE

AGREES, DISAGREES = "agrees", "disagrees"
ROWS = 2 * STUDY_QUESTIONS
# The rows of a slice on ASQA: the source says so of the schema-matched control, and 40 to 50 of the others.
SLICE = 50
_COLUMNS = ["about", "follows", "reported", "result"]


def arithmetic(table: pd.DataFrame) -> pd.DataFrame:
    """Every check of `lib.reported.reported`: `about` what, what `follows`, what is `reported`, the `result`.

    Raises ValueError for a table that lacks a number which a check needs.
    """
    checks = (
        _derived,
        _grid,
        _p_of_wins,
        _wins_of_p,
        _p_of_differences,
        _net_wins,
        _kinds,
        _ranges,
        _interval,
        _sums,
    )
    lines = [line for check in checks for line in check(table)]
    return pd.DataFrame(lines, columns=_COLUMNS)


def _line(about: str, follows: str, said: str, agrees: bool) -> dict[str, str]:
    return dict(zip(_COLUMNS, (about, follows, said, AGREES if agrees else DISAGREES), strict=True))


def _name(line) -> str:
    return ", ".join(filter(None, [line.quantity, line.dataset, line.judge, line.design, line.slice]))


def _value(table: pd.DataFrame, **where: str) -> float:
    """The one value of these columns. Raises ValueError if there is none, or more than one."""
    found = table
    for name, value in where.items():
        found = found[found[name] == value]
    if len(found) != 1:
        raise ValueError(f"{len(found)} reported numbers are {where}, not one")
    return natural(next(found.itertuples()))


def _derived(table: pd.DataFrame) -> Iterator[dict]:
    """Numbers that follow from others are what their sum gives."""
    for line in table[table["derived"] != ""].itertuples():
        value = evaluate(line.derived) * (100 if line.unit == "points" and "." in line.derived else 1)
        said = f"{line.value} {line.unit}"
        yield _line(
            f"derived: {_name(line)}", f"{line.derived} = {value:g}", said, abs(value - float(line.value)) < 1e-9
        )


def _grid(table: pd.DataFrame) -> Iterator[dict]:
    """Shares of n rows are whole numbers of rows."""
    sizes = {"all rows": ROWS, "partial rows": ROWS // 2, "full rows": ROWS // 2}
    exact = table[
        (table["relation"] == "") & (table["derived"] == "") & table["unit"].isin(["fraction", "percent", "points"])
    ]
    exact = exact[exact["slice"].isin(list(sizes)) & exact["quantity"].isin(["accuracy", "difference"])]
    for line in exact[exact["dataset"] != "every dataset"].itertuples():
        n = sizes[line.slice]
        rows = natural(line) * n
        yield _line(f"whole rows: {_name(line)}", f"{rows:g} of {n} rows", line.value, abs(rows - round(rows)) < 1e-6)
    slices = table[
        table["slice"].isin(["schema-matched control", "prompt versions"]) | table["slice"].str.startswith("caps")
    ]
    for line in slices[slices["relation"] == ""].itertuples():
        rows = natural(line) * SLICE
        whole = abs(rows - round(rows)) < 1e-6
        yield _line(f"whole rows: {_name(line)}", f"{rows:g} of {SLICE} rows", line.value, whole)
    flips = table[(table["quantity"] == "verdicts that flip") & (table["relation"] == "")]
    for line in flips.itertuples():
        sizes = [n for n in range(40, 51, 2) if abs(natural(line) * n - round(natural(line) * n)) < 1e-6]
        text = f"a whole number of rows with {', '.join(map(str, sizes)) or 'no'} rows (even, 40 to 50)"
        yield _line(
            f"whole rows: {_name(line)}, {line.which}",
            text,
            f"{line.relation} {line.value} percent".strip(),
            bool(sizes),
        )


def _p_of_wins(table: pd.DataFrame) -> Iterator[dict]:
    """The exact p of the questions won and lost."""
    for line in table[table["quantity"] == "questions won"].itertuples():
        where = {"dataset": line.dataset, "judge": line.judge, "design": line.design}
        won, lost = int(line.value), int(_value(table, quantity="questions lost", **where))
        p = sign_test(won, lost).p_value
        said = table[
            (table["quantity"] == "p") & (table["dataset"] == line.dataset) & (table["design"] == line.design)
        ]
        said = said[said["judge"].isin([line.judge, "three judges"])]
        for given in said.itertuples():
            value = float(given.value)
            agrees = float(f"{p:.1e}") <= value if given.relation == "at most" else float(f"{p:.1e}") == value
            yield _line(
                f"p of {won}:{lost}, {_name(line)}", format_p(p), f"{given.relation} {given.value}".strip(), agrees
            )


def _splits(p: str) -> list[tuple[int, int]]:
    """The questions won and lost that give a p as it is written, the fewest first."""
    digits = len(p.split(".")[1])
    every = ((n - k, k) for n in range(1, STUDY_QUESTIONS + 1) for k in range(n // 2 + 1))
    return [split for split in every if round(sign_test(*split).p_value, digits) == float(p)]


def _wins_of_p(table: pd.DataFrame) -> Iterator[dict]:
    """Which questions won and lost give a p that is reported alone."""
    plain = table[(table["quantity"] == "p") & (table["relation"] == "") & ~table["value"].str.contains("e")]
    for line in plain.itertuples():
        named = ", ".join(f"{won}:{lost}" for won, lost in _splits(line.value))
        text = f"questions won and lost: {named or 'none'}"
        yield _line(f"what gives p, {_name(line)}", text, line.value, bool(named))


def _p_of_differences(table: pd.DataFrame) -> Iterator[dict]:
    """Whether the smallest difference can have the largest p: rows gained are at most two a question."""
    for dataset in ("asqa", "qampari"):
        rows = round(_value(table, quantity="difference", dataset=dataset, design="H − C", which="lowest") * ROWS)
        bound = _value(table, quantity="p", dataset=dataset, design="H − C")
        # One row a question is won, and one more question for each that is lost.
        fits = [f"{rows + lost}:{lost}" for lost in range(20) if sign_test(rows + lost, lost).p_value <= bound]
        text = f"{rows} rows net; with one row a question p keeps the bound for {', '.join(fits) or 'no split'}"
        yield _line(f"smallest difference and largest p, {dataset}, H − C", text, f"at most {bound:g}", bool(fits))


def _net_wins(table: pd.DataFrame) -> Iterator[dict]:
    """The rows gained lie between what so many won and lost questions of two rows can give."""
    for line in table[table["quantity"] == "questions won"].itertuples():
        where = {"dataset": line.dataset, "judge": line.judge, "design": line.design}
        same = table[(table["quantity"] == "difference") & (table["dataset"] == line.dataset)]
        same = same[(same["judge"] == line.judge) & (same["design"] == line.design)]
        for given in same.itertuples():
            won, lost = int(line.value), int(_value(table, quantity="questions lost", **where))
            rows, least, most = natural(given) * ROWS, won - 2 * lost, 2 * won - lost
            text = f"{won}:{lost} questions are {least} to {most} rows net, of one or two rows each"
            said = f"{given.value} points, {rows:g} rows"
            yield _line(f"wins and difference, {_name(line)}", text, said, least <= rows <= most)


def _kinds(table: pd.DataFrame) -> Iterator[dict]:
    """Accuracy on full rows, which accuracy and partial rows leave, lies in the range reported for supported rows."""
    low, high = (
        _value(table, dataset="every dataset", slice="full rows", which=end) for end in ("lowest", "highest")
    )
    full = table[(table["slice"] == "full rows") & (table["derived"] != "")]
    for line in full.itertuples():
        agrees = low - 1e-9 <= natural(line) <= high + 1e-9
        yield _line(f"full rows, {_name(line)}", f"{line.derived} = {line.value}", f"{low:.2f} to {high:.2f}", agrees)


def _ranges(table: pd.DataFrame) -> Iterator[dict]:
    """H minus C on ASQA by judge, as partial rows and the range of full rows leave it, beside the reported ends."""
    low, high = (
        _value(table, dataset="every dataset", slice="full rows", which=end) for end in ("lowest", "highest")
    )
    spans = {}
    for judge in ("Opus", "GPT-4.1", "Gemini", "Sonnet"):
        h = _value(table, quantity="accuracy", dataset="asqa", judge=judge, design="H", slice="all rows")
        partial = _value(table, quantity="accuracy", dataset="asqa", judge=judge, design="C", slice="partial rows")
        spans[judge] = tuple(100 * (h - (full + partial) / 2) for full in (high, low))
    text = "; ".join(f"{judge} {least:.2f} to {most:.2f}" for judge, (least, most) in spans.items())
    for which in ("lowest", "highest"):
        value = 100 * _value(table, quantity="difference", dataset="asqa", design="H − C", which=which)
        reached = any(least - 1e-9 <= value <= most + 1e-9 for least, most in spans.values())
        beyond = [most < value if which == "lowest" else least > value for least, most in spans.values()]
        agrees = reached and not any(beyond)
        yield _line(f"{which} H − C on ASQA, points", f"by partial and full rows: {text}", f"{value:g}", agrees)


def _interval(table: pd.DataFrame) -> Iterator[dict]:
    """Whether a bootstrap interval can exclude 0 beside the p that is reported for the same questions."""
    for line in table[table["quantity"] == "lower end of the difference"].itertuples():
        same = {name: getattr(line, name) for name in ("dataset", "judge", "design")}
        for won, lost in _splits(f"{_value(table, quantity='p', **same):g}")[:1]:
            values = [0.5] * won + [-0.5] * lost + [0.0] * (STUDY_QUESTIONS - won - lost)
            found = cluster_bootstrap(values, range(STUDY_QUESTIONS), bounds=(-1, 1))
            text = f"{won}:{lost} questions of one row each: [{100 * found.low:.2f}, {100 * found.high:.2f}] points"
            yield _line(f"interval beside p, {_name(line)}", text, f"{line.relation} {line.value}", found.low > 0)


def _sums(table: pd.DataFrame) -> Iterator[dict]:
    """Counts that must add up."""
    outputs = {
        stage: _value(table, quantity="primary outputs", slice=stage)
        for stage in ("all", "whole", "embedded", "regex")
    }
    parts = [outputs[stage] for stage in ("whole", "embedded", "regex")]
    text = f"{' + '.join(f'{part:g}' for part in parts)} = {sum(parts):g}"
    yield _line("primary outputs by stage", text, f"{outputs['all']:g}", sum(parts) == outputs["all"])
    n = 3 * ROWS * 2 * len(THREE)
    text = f"3 datasets x {ROWS} rows x 2 designs x {len(THREE)} judges = {n}"
    yield _line("primary outputs by design", text, f"{outputs['all']:g}", n == outputs["all"])
    agree = {
        name: _value(table, quantity="labels that agree", dataset=name)
        for name in ("all", "truthfulqa and qampari", "asqa")
    }
    both = agree["truthfulqa and qampari"] + agree["asqa"]
    yield _line(
        "labels that agree",
        f"{agree['truthfulqa and qampari']:g} + {agree['asqa']:g} = {both:g}",
        f"{agree['all']:g}",
        both == agree["all"],
    )
    rest = 20 - agree["asqa"]
    nine = _value(table, quantity="partial rows called supported")
    yield _line("labels that differ on ASQA", f"20 - {agree['asqa']:g} = {rest:g}", f"{nine:g}", rest == nine)
    bins = [_value(table, quantity=f"bins where H {word} C") for word in ("is above", "equals")]
    sizes = [
        f"{d} datasets x {j} judges x {24 // (d * j)} bins" for d, j in product((2, 3), (3, 4)) if 24 % (d * j) == 0
    ]
    yield _line(
        "complexity bins", f"{bins[0]:g} + {bins[1]:g} = {sum(bins):g}: {', or '.join(sizes)}", "24", sum(bins) == 24
    )
