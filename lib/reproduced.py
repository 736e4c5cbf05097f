"""What the runs that are there give for each quantity that the paper reports, one line a judge, design and slice.

Fractions, tokens or counts, never rounded, with the interval where there is one. Setting them beside the reported
numbers is `lib.compared`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import pandas as pd

from lib import agreement, effects, paper_stats, standards, stats, tables
from lib.label_files import CONSTRUCTION
from lib.labels import PARTIAL, SUPPORTED
from lib.material import Material
from lib.resampling import cluster_bootstrap

COLUMNS = ["quantity", "dataset", "judge", "design", "slice", "value", "low", "high", "n_questions", "of", "against"]
ALL = "all rows"
# An annotator of this name stands for the study's author, whose labels are not here.
AUTHOR = "author"
_PAIRS = [("R", "H"), ("B", "R"), ("B", "H"), ("H", "C"), ("C", "H"), ("R", "C")]
_CAPS = "caps 128, 256 and 512"
# The paper's `regex` is our stage `recovered`.
_STAGES = {"whole": "whole", "embedded": "embedded", "recovered": "regex"}


def numbers(m: Material) -> pd.DataFrame:
    """Every number that the material gives. Columns: `COLUMNS`; `of` is the count that a count is out of, `against`
    says of a p that the difference goes the other way.

    quantity, dataset, design and slice are those of `data/paper/reported.csv`; `judge` is an entry of judges.yaml, or
    an annotator where labels are compared. `low`, `high` are missing where a number has no interval.
    """
    lines: list[dict] = []
    for part in (_primary, _conditions, _labels, _generated):
        lines += part(m)
    return pd.DataFrame(lines, columns=COLUMNS)


def _line(quantity: str, dataset: str, judge: str, design: str, where: str, found, of: int | None = None) -> dict:
    """A line from what has estimate, low, high and n_clusters, or from a plain number."""
    value = getattr(found, "estimate", found)
    ends = {"low": getattr(found, "low", math.nan), "high": getattr(found, "high", math.nan)}
    key = {"quantity": quantity, "dataset": dataset, "judge": judge, "design": design, "slice": where}
    size = {"n_questions": getattr(found, "n_clusters", math.nan), "of": of}
    return key | {"value": value} | ends | size | {"against": False}


def _count(key: tuple, hits: pd.Series, rows: pd.DataFrame) -> dict:
    """A count of rows with the interval of its share, times the rows."""
    found = cluster_bootstrap(hits.astype(float), rows.groupby(["dataset", "question_id"]).ngroup(), bounds=(0, 1))
    line = _line(*key, found, len(rows))
    return line | {name: line[name] * len(rows) for name in ("value", "low", "high")}


def _accuracy(table: pd.DataFrame, where: str) -> Iterator[dict]:
    for x in table.itertuples():
        line = _line("accuracy", x.dataset, x.judge, x.design, where, x.accuracy)
        yield line | {"low": x.low, "high": x.high, "n_questions": x.n_questions}


def _primary(m: Material) -> Iterator[dict]:
    if m.judged.empty:
        return
    yield from _accuracy(tables.accuracy_table(m.judged), ALL)
    kinds = tables.kind_table(m.judged)
    for kind in ("full", "partial"):
        yield from _accuracy(kinds[kinds["kind"] == kind], f"{kind} rows")
    pairs = tables.paired_table(m.judged, _PAIRS)
    for x in pairs.itertuples():
        yield from _pair(x)
    yield from _beside_r(tables.paired_table(m.judged, [("R", "C"), ("R", "H"), ("R", "B")]))
    for base, sign in (("H", 1), ("C", -1)):
        for x in paper_stats.token_table(m.judged, base).dropna(subset="more").itertuples():
            yield from _tokens(x, sign)
    yield from _bins(m)
    rows = m.judged[m.judged["design"].isin(["C", "H"])]
    for judge, mine in rows.groupby("judge", sort=False):
        yield _line("primary outputs", "all", judge, "C and H", "all", len(mine), len(mine))
        for stage, name in _STAGES.items():
            yield _count(("primary outputs", "all", judge, "C and H", name), mine["status"] == stage, mine)


def _pair(x) -> Iterator[dict]:
    key = (x.dataset, x.judge, f"{x.a} − {x.b}", ALL)
    yield _line("difference", *key, x.difference) | {"low": x.low, "high": x.high, "n_questions": x.n_questions}
    for name, count in (("questions won", x.wins_a), ("questions lost", x.wins_b)):
        hits = pd.Series([1.0] * count + [0.0] * (x.n_questions - count))
        found = cluster_bootstrap(hits, range(len(hits)), bounds=(0, 1))
        ends = {"low": found.low * x.n_questions, "high": found.high * x.n_questions}
        yield _line(name, *key, count, x.n_questions) | ends | {"n_questions": x.n_questions}
    yield _line("p", *key, x.p_value) | {"n_questions": x.n_questions, "against": x.difference < 0}
    yield _line("lower end of the difference", *key, x.low) | {"n_questions": x.n_questions}


def _beside_r(pairs: pd.DataFrame) -> Iterator[dict]:
    for (dataset, judge), mine in pairs.groupby(["dataset", "judge"], sort=False):
        x = mine.loc[mine["difference"].abs().idxmax()]
        # The interval of the size of a difference, which has no sign.
        low = 0.0 if x["low"] <= 0 <= x["high"] else min(abs(x["low"]), abs(x["high"]))
        line = _line("largest difference from R", dataset, judge, "R and the others", ALL, abs(x["difference"]))
        ends = {"low": low, "high": max(abs(x["low"]), abs(x["high"]))}
        yield line | ends | {"n_questions": x["n_questions"]}


def _tokens(x, sign: int) -> Iterator[dict]:
    """More tokens than H as a share of H's; or, for H beside C, how many fewer."""
    if sign > 0:
        key = ("more tokens a call", x.dataset, x.judge, f"{x.design} − {x.base}", ALL)
        value, low, high = (paper_stats.ratio(end, x.base_tokens) for end in (x.more, x.low, x.high))
    else:
        key = ("fewer tokens a call", x.dataset, x.judge, f"{x.design} − {x.base}", ALL)
        value, low, high = -x.more, -x.high, -x.low
    yield _line(*key, value) | {"low": low, "high": high, "n_questions": x.n_questions}


def _bins(m: Material) -> Iterator[dict]:
    table = tables.complexity_table(m.judged, n_bins=m.p.complexity_bins)
    table = table[table["dataset"].isin(["asqa", "qampari"])]
    for judge, mine in table.groupby("judge", sort=False):
        named = {"above": mine["difference"] > 0, "equal": mine["difference"] == 0, "below": mine["difference"] < 0}
        for word, hits in named.items():
            quantity = f"bins where H {'equals' if word == 'equal' else f'is {word}'} C"
            yield _line(quantity, "asqa and qampari", judge, "H − C", "complexity bins", int(hits.sum()), len(mine))


def _conditions(m: Material) -> Iterator[dict]:
    if m.conditions.empty:
        return
    by = ["dataset", "judge", "condition", "prompt"]
    table = stats.accuracy(m.conditions[m.conditions["repeat"] == 0], by).assign(design=lambda x: x["prompt"].str[0])
    under = {name: table[table["condition"] == name] for name in table["condition"].unique()}
    yield from _accuracy(under.get("prompt-versions", table[:0]), "prompt versions")
    schema = under.get("schema-matched", table[:0])
    yield from _accuracy(schema[schema["design"] == "S"], "schema-matched control")
    for name in ("cap-128", "cap-256", "cap-512"):
        yield from _accuracy(under.get(name, table[:0]), _CAPS)
    yield from _accuracy(under.get("reference-removed", table[:0]), "reference removed")
    paired = effects.pairs(m.conditions)
    wanted = paired[paired["condition"].isin(["reference-half", "reference-swapped"])]
    moved = effects.effects(wanted, ["dataset", "judge", "condition", "prompt"])
    for x in moved.itertuples():
        key = (x.dataset, x.judge, x.prompt[0])
        if x.condition == "reference-half":
            ends = {"low": x.low, "high": x.high, "n_questions": x.n_questions}
            yield _line("change of accuracy", *key, "reference truncated", x.difference) | ends
            ends |= {"low": -x.high, "high": -x.low}
            yield _line("fall of accuracy", *key, "reference truncated", -x.difference) | ends
        else:
            ends = {"low": x.flip_low, "high": x.flip_high, "n_questions": x.n_questions}
            yield _line("verdicts that flip", *key, "reference swapped", x.flip_rate) | ends


def _labels(m: Material) -> Iterator[dict]:
    readers = [name for name in m.standards if name != CONSTRUCTION] if len(m.labels) else []
    for reader in readers:
        both = agreement.joined(m.rows, {"a": m.standards[CONSTRUCTION], "b": m.standards[reader]})
        both = both.dropna(subset=["a", "b"])
        where = "author-labelled rows"
        for dataset, names in (
            ("all", None),
            ("truthfulqa and qampari", ("truthfulqa", "qampari")),
            ("asqa", ("asqa",)),
        ):
            mine = both if names is None else both[both["dataset"].isin(names)]
            if len(mine):
                yield _count(("labels that agree", dataset, reader, "", where), mine["a"] == mine["b"], mine)
        mine = both[(both["dataset"] == "asqa") & (both["a"] == PARTIAL)]
        if len(mine):
            yield _count(("partial rows called supported", "asqa", reader, "", where), mine["b"] == SUPPORTED, mine)
    labelled = set(m.labels["row_id"]) if readers else set()
    if len(m.judged) and m.judged["row_id"].isin(labelled).any():
        ranks = standards.ranking(standards.judged_under(m.judged, m.standards))
        standard = AUTHOR if AUTHOR in readers else readers[0]
        for x in ranks[ranks["standard"] == standard].itertuples():
            line = _line(
                "rows right under the author's labels", "all", x.judge, x.design, where, x.n_correct, x.n_rows
            )
            yield line | {"low": x.low * x.n_rows, "high": x.high * x.n_rows, "n_questions": x.n_questions}


def _generated(m: Material) -> Iterator[dict]:
    full = m.generated_rows[m.generated_rows["kind"] == "full"] if len(m.generated_rows) else m.generated_rows
    if len(full):
        yield _count(("degenerate partials", "asqa", "generators", "", "generated answers"), full["degenerate"], full)
    for (judge, design), mine in m.generated.groupby(["judge", "design"], sort=False) if len(m.generated) else []:
        yield _count(("generated rows right", "asqa", judge, design, "generated rows"), mine["correct"], mine)
        for kind, where in (("full", "full answers"), ("partial", "nominal partials")):
            rows = mine[mine["kind"] == kind]
            found = stats.slice_accuracy(rows)
            line = _line("generated rows right by R", "asqa", judge, design, where, found["accuracy"], len(rows))
            yield line | {name: found[name] for name in ("low", "high", "n_questions")}
