"""Reported against reproduced: each number that the paper reports beside what a run of the same judge gives.

A judge counts as the study's only if the models that answered are of its family and the rows are the benchmarks'.
Every other judge, the embedded and the lexical ones above all, has a column of its own and settles nothing.
"""

from __future__ import annotations

import math
import re

import pandas as pd

from lib import stats
from lib.material import Material
from lib.reported import natural, said
from lib.reproduced import AUTHOR, numbers
from lib.study import (
    DATASETS,
    JUDGES,
    LEAST_QUESTIONS,
    OUTPUTS,
    PRIMARY_SLICES,
    STUDY_QUESTIONS,
    failed,
    families,
    study_judges,
)
from lib.tables import interval

WITHIN, OUTSIDE, NOT_RUN = "within", "outside", "not run"
# Of numbers that no judge gives: what our readers and generators give.
NO_JUDGE = "labels and answers here"


def compare(m: Material) -> pd.DataFrame:
    """Every reported number beside the reproduced one.

    Columns: those of `data/paper/reported.csv`; `ran` (entries of the study's judges that gave the number),
    `reproduced`, low, high on the scale of `lib.reproduced`; `status`; `why` it is not run; `shown`, the reproduced
    number for people; one text column for each judge that is none of the study's, and `NO_JUDGE`. Status:

    - `within`: the reported value lies in the reproduced 95 percent interval. `at most` and `above` are met if the
      interval reaches that far, `each` if every number is within. A p is within if the difference goes the same
      way and both p lie on the same side of 0.05, or, for a bound, if it keeps the bound. A number without an
      interval must be equal.
    - `outside`: else. `not run`: no run of that judge answers it.
    """
    table, found, study = m.reported, numbers(m), study_judges(m)
    others = [name for name in m.p.judges if name not in study.values()]
    spoilt = {name: why for name, entry in study.items() if (why := failed(m, entry))}
    spoilt |= {name: f"{' and '.join(two)} are both {name}" for name, two in families(m).items() if len(two) > 1}
    lines = [_compared(line, found, study, others, spoilt) for line in table.itertuples()]
    return table.join(pd.DataFrame(lines, index=table.index))


def _compared(line, found: pd.DataFrame, study: dict[str, str], others: list[str], spoilt: dict[str, str]) -> dict:
    mine = _candidates(line, found)
    names = JUDGES.get(line.judge, (line.judge,))
    ran = [study[name] for name in names if name in study]
    why = next((spoilt[name] for name in names if name in spoilt), "") or _not_run(line, names, study, mine)
    part = mine[mine["judge"].isin(ran)] if line.judge else mine[mine["judge"] == AUTHOR]
    picked = _picked(line, part) if not why and len(part) else None
    if not why and picked is None:
        why = "these runs hold no such number"
    why = why or _other_size(line, picked)
    beside = {name: _beside(line, mine[mine["judge"] == name]) if line.judge else "" for name in others}
    beside[NO_JUDGE] = _beside(line, mine[~mine["judge"].isin([*others, *ran])]) if not line.judge else ""
    if why:
        empty = {"ran": "", "reproduced": math.nan, "low": math.nan, "high": math.nan}
        return empty | {"status": NOT_RUN, "why": why, "shown": "n/a"} | beside
    status = WITHIN if all(_holds(line, x) for x in picked.itertuples()) else OUTSIDE
    one = picked.iloc[0] if len(picked) == 1 else None
    ends = {name: float("nan") if one is None else one[name] for name in ("value", "low", "high")}
    return {
        "ran": ", ".join(dict.fromkeys(ran)) or AUTHOR,
        "reproduced": ends["value"],
        "low": ends["low"],
        "high": ends["high"],
        "status": status,
        "why": "",
        "shown": _shown(line, picked),
    } | beside


def _candidates(line, found: pd.DataFrame) -> pd.DataFrame:
    keep = (found["quantity"] == line.quantity) & (found["slice"] == line.slice)
    if line.dataset != "every dataset":
        keep &= found["dataset"] == line.dataset
    return found[
        keep
        & (found["design"].isin(list("CHRB")) if line.design == "every design" else found["design"] == line.design)
    ]


def _not_run(line, names, study: dict[str, str], mine: pd.DataFrame) -> str:
    """Why no run can answer a line, or ""."""
    if not line.judge:
        there = AUTHOR in set(mine["judge"])
        return "" if there else "the author's labels and answers are not here"
    if line.judge.endswith("of three"):
        return "the source does not name the judge"
    absent = [
        name for name in names if name not in study or not _whole(line, mine[mine["judge"] == study[name]], name)
    ]
    return f"no such run by {', '.join(absent)} on the benchmarks" if absent else ""


def _whole(line, mine: pd.DataFrame, name: str) -> bool:
    """Whether a judge gave every number that a line speaks of."""
    if mine.empty:
        return False
    if line.dataset == "every dataset":
        designs = "CH" if name == "Sonnet" else "CHRB"
        there = set(zip(mine["dataset"], mine["design"], strict=True))
        return there >= {(dataset, design) for dataset in DATASETS for design in designs}
    if line.design == "every design":
        return set(mine["design"]) >= {"C", "H"}
    return len(mine) == 3 if line.slice in ("prompt versions", "caps 128, 256 and 512") else True


def _picked(line, part: pd.DataFrame) -> pd.DataFrame | None:
    """The numbers that a line speaks of: one, or several where it says `each`; None where there is none."""
    part = part[part["value"].notna()]
    if part.empty:
        return None
    if line.which == "sum":
        whole = part.iloc[[0]].assign(value=part["value"].sum(), of=part["of"].sum())
        # Judges answer for themselves, so that ends do not add up.
        return whole.assign(low=math.nan, high=math.nan) if len(part) > 1 else whole
    if line.which in ("lowest", "highest"):
        place = part["value"].idxmin() if line.which == "lowest" else part["value"].idxmax()
        return part.loc[[place]]
    return part if line.which == "each" or len(part) == 1 else None


def _other_size(line, picked: pd.DataFrame | None) -> str:
    """Why numbers of another size than the study's are no reproduction: few questions make every interval wide."""
    if picked is None:
        return ""
    asked = picked["n_questions"].dropna()
    if line.slice in PRIMARY_SLICES and (asked != STUDY_QUESTIONS).any():
        return f"{asked.min():.0f} questions here, the study had {STUDY_QUESTIONS} a dataset"
    if (asked < LEAST_QUESTIONS).any() and line.judge:
        return f"{asked.min():.0f} questions here, the study's slices had {LEAST_QUESTIONS} or more"
    wanted = {"questions": STUDY_QUESTIONS, "outputs": OUTPUTS}.get(line.unit)
    if match := re.search(r"of (\d+)$", line.unit):
        wanted = int(match[1])
    sizes = sorted({int(size) for size in picked["of"].dropna()})
    if wanted is None or sizes == [wanted]:
        return ""
    return f"counted out of {', '.join(map(str, sizes)) or 'nothing'} here, not of {wanted}"


def _holds(line, x) -> bool:
    value = natural(line)
    low, high = (x.value if math.isnan(end) else end for end in (x.low, x.high))
    if line.quantity == "p":
        if x.against:
            return False
        return x.value <= value if line.relation == "at most" else (x.value < stats.ALPHA) == (value < stats.ALPHA)
    if line.relation == "at most":
        return low <= value
    if line.relation == "above":
        return high > value
    return low - 1e-9 <= value <= high + 1e-9


def _beside(line, part: pd.DataFrame) -> str:
    """What others give for the same quantity, for people; `n/a` where they were not asked, "" where none can be."""
    picked = _picked(line, part)
    return "n/a" if picked is None else _shown(line, picked)


def _shown(line, picked: pd.DataFrame) -> str:
    if len(picked) > 1:
        low, high = picked["value"].min(), picked["value"].max()
        return f"{_value(line, low)} to {_value(line, high)}" if low < high else _value(line, low)
    x = picked.iloc[0]
    text = _value(line, x["value"])
    if line.unit in ("questions", "outputs", "rows") or " of " in f" {line.unit}":
        text += f" of {x['of']:.0f}" if not math.isnan(x["of"]) else ""
    if math.isnan(x["low"]):
        return text
    if line.unit in ("percent", "points"):
        return f"{text} {interval(x['low'], x['high'])}"
    return f"{text} [{_value(line, x['low'])}, {_value(line, x['high'])}]"


def _value(line, value: float) -> str:
    if line.unit == "p":
        return stats.format_p(value)
    if line.unit == "fraction":
        return f"{value:.3f}"
    # Minus a zero is a zero.
    return f"{100 * value + 0.0:.1f}" if line.unit in ("percent", "points") else f"{value:.0f}"


def compared_shown(table: pd.DataFrame) -> pd.DataFrame:
    """`compare` for people: texts, one line a reported number, other judges in columns of their own at the right.

    Why a number was not run, `tally` counts.
    """
    names = list(table.columns)
    others = names[names.index("shown") + 1 :]
    lines = []
    for number, line in enumerate(table.itertuples()):
        what = ", ".join(filter(None, [line.quantity, line.design, line.dataset, line.slice]))
        shown = f"{line.shown} by {line.ran}" if line.ran else line.shown
        lines.append(
            {"number": what, "judge": line.judge, "reported": said(line), "in the paper": line.where}
            | {"reproduced": shown, "status": line.status}
            | {name if name == NO_JUDGE else f"{name} (another judge)": table[name].iloc[number] for name in others}
        )
    return pd.DataFrame(lines)


def tally(table: pd.DataFrame) -> str:
    """How many of the reported numbers are within, outside and not run, in one sentence, and why they are not."""
    counts = table["status"].value_counts()
    named = ", ".join(f"{counts.get(name, 0)} {name}" for name in (WITHIN, OUTSIDE, NOT_RUN))
    reasons = table.loc[table["status"] == NOT_RUN, "why"].value_counts()
    lines = [f"- not run, {reason}: {count}" for reason, count in reasons.items()]
    return "\n".join([f"Of {len(table)} reported numbers: {named}.", "", *lines])
