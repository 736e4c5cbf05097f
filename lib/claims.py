"""The paper's claims in words, each computed for each judge: it holds, it fails, or these data cannot tell.

How one is decided stands in `lib.decisions`. Judges that are none of the study's have columns of their own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pandas as pd

from lib.decisions import (
    above,
    bins,
    cheaper,
    flips,
    full_rows,
    generated,
    no_trend,
    order_reverses,
    r_last,
    versions,
)
from lib.evidence import CANNOT_TELL, FAILS, HOLDS, NOT_RUN, Evidence, Found
from lib.material import Material
from lib.study import failed, study_judges


@dataclass(frozen=True)
class Claim:
    """One claim: what the paper says, and how it is decided for one judge from the evidence."""

    text: str
    decide: Callable[[Evidence, str], Found | None]


CLAIMS = (
    Claim("H is above C on ASQA.", above("asqa", ("H", "C"))),
    Claim("H is above C on QAMPARI.", above("qampari", ("H", "C"))),
    Claim(
        "C is at least as good as H on TruthfulQA; it holds if C is surely above.", above("truthfulqa", ("C", "H"))
    ),
    Claim("R is best on ASQA.", above("asqa", ("R", "C"), ("R", "H"), ("R", "B"))),
    Claim("B is above H on ASQA.", above("asqa", ("B", "H"))),
    Claim("H takes fewer tokens than C on ASQA.", cheaper("asqa")),
    Claim("H takes fewer tokens than C on QAMPARI.", cheaper("qampari")),
    Claim("Every design calls 94 to 100 percent of the supported rows right.", full_rows),
    Claim("H is above C in every complexity bin of ASQA and QAMPARI. (The paper: 21 of 24, else equal.)", bins),
    Claim(
        "H minus C does not go with complexity on ASQA. (It can fail; that there is no trend cannot be shown.)",
        no_trend,
    ),
    Claim("Every version of H is above every version of C on ASQA.", versions),
    Claim("The schema-matched control is below H on ASQA.", above("asqa", ("H.v1", "S.v1"), of="schema")),
    Claim("Another question's reference flips 34 to 50 percent of the verdicts on ASQA.", flips("asqa", 0.34, 0.50)),
    Claim("Another question's reference flips at most 5 percent on TruthfulQA.", flips("truthfulqa", 0.0, 0.05)),
    Claim("H is above C under construction and C above H under people's labels.", order_reverses),
    Claim("R is last under people's labels.", r_last),
    Claim("H is above C on generated answers.", generated),
)


def check(m: Material) -> pd.DataFrame:
    """Every claim for every judge: columns claim, judge, `study` (the paper's name, or ""), found, detail."""
    evidence, names = Evidence(m), {entry: name for name, entry in study_judges(m).items()}
    lines = []
    for claim in CLAIMS:
        for judge in m.p.judges:
            found, detail = claim.decide(evidence, judge) or (NOT_RUN, "")
            if found in (HOLDS, FAILS) and (why := failed(m, judge)):
                found, detail = CANNOT_TELL, f"{why}; {detail}"
            lines.append(
                {"claim": claim.text, "judge": judge, "study": names.get(judge, "")}
                | {"found": found, "detail": detail}
            )
    return pd.DataFrame(lines, columns=["claim", "judge", "study", "found", "detail"])


def checked_shown(table: pd.DataFrame) -> pd.DataFrame:
    """`check` for people, one line a claim: what the study's judges say together, and every other judge by itself.

    Together a claim holds if it holds for each judge that was run, and fails if it fails for one.
    """
    lines = []
    for claim, part in table.groupby("claim", sort=False):
        ours = part[(part["study"] != "") & (part["found"] != NOT_RUN)]
        line = {"claim": claim, "the study's judges": _together(ours)}
        for x in part[part["study"] == ""].itertuples():
            line[f"{x.judge} (another judge)"] = x.found + (f": {x.detail}" if x.detail else "")
        lines.append(line)
    return pd.DataFrame(lines)


def _together(part: pd.DataFrame) -> str:
    if part.empty:
        return NOT_RUN
    words = set(part["found"])
    found = FAILS if FAILS in words else HOLDS if words == {HOLDS} else CANNOT_TELL
    return f"{found} ({'; '.join(f'{x.study}: {x.found}, {x.detail}' for x in part.itertuples())})"
