"""The paper's own numbers, to stand beside what is computed here and never mixed with it."""

from __future__ import annotations

import re

import pandas as pd

from lib import paths
from lib.tables import markdown

REPORTED = paths.DATA / "paper" / "reported.csv"
# Of several judges, designs or versions: which number of them is reported.
WHICH = ("", "lowest", "highest", "each", "sum")
_SUM = re.compile(r"[\d.]+|[-+*]")
RELATIONS = ("", "at most", "about", "above")


def reported(*quantities: str) -> pd.DataFrame:
    """The lines of `data/paper/reported.csv` for these quantities, or all of them; all columns are text.

    Raises ValueError for a quantity that has none.
    """
    table = pd.read_csv(REPORTED, dtype=str, keep_default_na=False)
    if unknown := set(quantities) - set(table["quantity"]):
        raise ValueError(f"{paths.shown(REPORTED)} reports no {', '.join(sorted(unknown))}")
    return table[table["quantity"].isin(quantities)].reset_index(drop=True) if quantities else table


def natural(line) -> float:
    """A line's value on the scale of `lib.reproduced`: percent and points as fractions, the others as they are."""
    return float(line.value) / (100 if line.unit in ("percent", "points") else 1)


def evaluate(text: str) -> float:
    """A sum such as `2 * 0.850 - 0.70`: products before sums. Raises ValueError for anything else."""
    parts = _SUM.findall(text)
    if "".join(parts) != text.replace(" ", "") or len(parts) % 2 == 0:
        raise ValueError(f"{text!r} is no sum of numbers")
    total, sign = 0.0, 1.0
    for term in re.split(r"(?<=[\d. ])([-+])", text.replace(" ", "")):
        if term in "+-":
            sign = -1.0 if term == "-" else 1.0
        else:
            product_ = 1.0
            for factor in term.split("*"):
                product_ *= float(factor)
            total += sign * product_
    return total


def said(line) -> str:
    """A line's value as the paper says it: `at most 5 percent`, `0.975`; how it follows from others, if it does."""
    unit = "" if line.unit in ("fraction", "p") else f" {line.unit}"
    text = " ".join(filter(None, [line.which, line.relation, line.value]))
    return f"{text}{unit}" + (f" (derived: {line.derived})" if line.derived else "")


def reported_markdown(*quantities: str) -> str:
    """The same for people, one line a quantity, dataset, slice and judge; designs stand side by side."""
    table = reported(*quantities)
    keys = ["quantity", "dataset", "slice", "judge", "which"]
    lines = []
    for key, part in table.groupby(keys, sort=False):
        values = [" ".join(filter(None, [line.design, line.relation, line.value])) for line in part.itertuples()]
        where = ", ".join(dict.fromkeys(part["where"]))
        lines.append(
            dict(zip(keys, key, strict=True)) | {"reported": f"{', '.join(values)} ({part['unit'].iloc[0]})"}
        )
        lines[-1]["in the paper"] = where
    shown = pd.DataFrame(lines)
    return markdown(shown[[name for name in shown if (shown[name] != "").any()]])
