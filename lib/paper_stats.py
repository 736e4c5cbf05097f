"""What only the paper's tables and its reported numbers ask for: what a design costs beside another in tokens."""

from __future__ import annotations

import math

import pandas as pd

from lib.resampling import cluster_bootstrap
from lib.tables import DESIGNS, interval

_COLUMNS = ["dataset", "judge", "design", "base", "n_questions", "n_rows", "tokens", "more", "low", "high", "note"]
_ROW = ["dataset", "question_id", "row_id"]


def token_table(judged: pd.DataFrame, base: str = "H") -> pd.DataFrame:
    """Table 18: mean tokens of a call by dataset x judge x design, and how many more than the design `base` takes.

    Input and output together; judges that report none are left out. Columns: dataset, judge, design, base,
    n_questions, n_rows, `tokens`; `more`: the mean difference on the rows of both designs in tokens, with low, high
    (bootstrap over questions) and note, missing for the base itself; and `base_tokens` on those rows.
    """
    lines = []
    known = judged.assign(tokens=(judged["tokens_in"] + judged["tokens_out"]).astype("Float64"))
    known = known[known["tokens"].notna()]
    for (dataset, judge), part in known.groupby(["dataset", "judge"], sort=False):
        wide = part.pivot(index=_ROW, columns="design", values="tokens").astype(float)
        for design in [name for name in DESIGNS if name in wide]:
            mine = wide[design].dropna()
            line = {"dataset": dataset, "judge": judge, "design": design, "base": base}
            line |= {"n_questions": mine.index.droplevel("row_id").nunique(), "n_rows": len(mine)}
            lines.append(line | {"tokens": mine.mean()} | _more(wide, design, base))
    return pd.DataFrame(lines, columns=[*_COLUMNS, "base_tokens"])


def _more(wide: pd.DataFrame, design: str, base: str) -> dict[str, float | str]:
    if design == base or base not in wide:
        return {"more": math.nan, "low": math.nan, "high": math.nan, "note": "", "base_tokens": math.nan}
    both = wide[[design, base]].dropna()
    extra = (both[design] - both[base]).reset_index(drop=True)
    found = cluster_bootstrap(extra, both.index.droplevel("row_id").to_list())
    ends = {"more": found.estimate, "low": found.low, "high": found.high, "note": found.note}
    return ends | {"base_tokens": both[base].mean()}


def ratio(value: float, base: float) -> float:
    """`value` as a share of `base`; NaN where a server reports no tokens but 0."""
    return value / base if base else math.nan


def token_shown(table: pd.DataFrame) -> pd.DataFrame:
    """`token_table` for people: one line a dataset x judge, one column a design; more than the base in percent."""
    lines: dict[tuple, dict[str, str]] = {}
    for line in table.itertuples():
        text = f"{line.tokens:.0f}"
        if not math.isnan(line.more):
            more, low, high = (ratio(value, line.base_tokens) for value in (line.more, line.low, line.high))
            text += "" if math.isnan(more) else f" ({100 * more:+.1f} % {interval(low, high)})"
        lines.setdefault((line.dataset, line.judge), {})[line.design] = text
    there = [name for name in DESIGNS if any(name in texts for texts in lines.values())]
    named = [
        {"dataset": dataset, "judge": judge} | {name: texts.get(name, "not run") for name in there}
        for (dataset, judge), texts in lines.items()
    ]
    return pd.DataFrame(named)
