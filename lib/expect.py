"""Stored expected numbers: what the committed run gave, compared when it is run again.

Numbers are stored by run and by what was computed in `data/expected/<run>.json`. `make expected` writes them anew
after a change that is meant to move them; then the diff shows what moved.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping

from lib import paths
from lib.results import write_bytes

# `make expected` sets it: then the numbers are stored instead of compared.
WRITE = "JUDGE_EXPECT_WRITE"
_DIGITS = 9


def check(run: str, what: str, numbers: Mapping[str, float]) -> str:
    """Compare `numbers` with those stored for this run under `what`; returns a sentence that says what was done.

    `what` names the notebook and the parameters that choose the numbers. Only the committed run has stored ones;
    for any other the sentence says that none were compared. NaN equals NaN. Raises AssertionError that names
    every number that differs, is new, or is gone.
    """
    path = paths.EXPECTED / f"{run}.json"
    stored = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    found = {name: None if math.isnan(value) else round(float(value), _DIGITS) for name, value in numbers.items()}
    if os.environ.get(WRITE):
        stored[what] = found
        write_bytes(path, (json.dumps(stored, indent=1, sort_keys=True) + "\n").encode())
        return f"{len(found)} expected numbers written to {paths.shown(path)}."
    if what not in stored:
        return f"No numbers are stored for {what} of the run {run}, so none were compared."
    expected = stored[what]
    lines = [
        f"{name}: expected {expected.get(name, 'nothing')}, found {found.get(name, 'nothing')}"
        for name in sorted(expected.keys() | found.keys())
        if name not in expected or name not in found or expected[name] != found[name]
    ]
    assert not lines, f"{paths.shown(path)}, {what}: " + "; ".join(lines)
    return f"{len(found)} numbers equal those in {paths.shown(path)}."


def check_each(run: str, parts: Mapping[str, Mapping[str, float]]) -> str:
    """`check` for several parts, each under its own name. One without stored numbers is named and fails nothing."""
    said = {what: check(run, what, numbers) for what, numbers in parts.items()}
    new = [what for what, sentence in said.items() if sentence.startswith("No numbers")]
    if not new:
        return next(iter(said.values())) if len(said) == 1 else f"The numbers of {len(said)} parts are checked."
    return f"{len(said) - len(new)} parts checked; no numbers are stored for {'; '.join(new)}."
