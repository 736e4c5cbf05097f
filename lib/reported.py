"""The paper's own numbers, to stand beside what is computed here and never mixed with it."""

from __future__ import annotations

import pandas as pd

from lib import paths
from lib.tables import markdown

REPORTED = paths.DATA / "paper" / "reported.csv"


def reported(*quantities: str) -> pd.DataFrame:
    """The lines of `data/paper/reported.csv` for these quantities; all columns are text.

    Raises ValueError for a quantity that has none.
    """
    table = pd.read_csv(REPORTED, dtype=str, keep_default_na=False)
    if unknown := set(quantities) - set(table["quantity"]):
        raise ValueError(f"{paths.shown(REPORTED)} reports no {', '.join(sorted(unknown))}")
    return table[table["quantity"].isin(quantities)].reset_index(drop=True)


def reported_markdown(*quantities: str) -> str:
    """The same for people, one line a quantity, dataset, slice and judge; designs stand side by side."""
    table = reported(*quantities)
    keys = ["quantity", "dataset", "slice", "judge"]
    lines = []
    for key, part in table.groupby(keys, sort=False):
        values = [f"{line.design} {line.value}".strip() for line in part.itertuples()]
        where = ", ".join(dict.fromkeys(part["where"]))
        lines.append(
            dict(zip(keys, key, strict=True)) | {"reported": f"{', '.join(values)} ({part['unit'].iloc[0]})"}
        )
        lines[-1]["in the paper"] = where
    shown = pd.DataFrame(lines)
    return markdown(shown[[name for name in shown if (shown[name] != "").any()]])
