"""The one place that builds paths.

Every path starts at the repository's root, so that notebooks and tests run from any folder.
Nothing here creates a folder or reads a file.
"""

from __future__ import annotations

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

NOTEBOOKS = ROOT / "notebooks"
PROMPTS = ROOT / "prompts"
PARAMS = ROOT / "params"
MODELS = ROOT / "models"
JUDGES = ROOT / "judges.yaml"
DATA = ROOT / "data"
SAMPLE = DATA / "sample"
RECORDED = DATA / "recorded"
EXPECTED = DATA / "expected"
LABELS = DATA / "labels"

# What runs write. A test or a second study may point elsewhere; the committed inputs stay where they are.
OUT = Path(os.environ["JUDGE_OUT"]).resolve() if os.environ.get("JUDGE_OUT") else ROOT
CALLS = OUT / "data" / "calls.sqlite"
JUDGMENTS = OUT / "data" / "judgments"
EXECUTED = OUT / "data" / "executed"
SWEEPS = OUT / "data" / "sweeps"
FIGURES = OUT / "figures"


def shown(path: str | Path) -> str:
    """A path as it may be printed or stored: below the root (or the output folder) relative, elsewhere the name.

    No printed path tells whose machine it was.
    """
    path = Path(path).resolve()
    for base in (ROOT, OUT):
        if path.is_relative_to(base):
            return path.relative_to(base).as_posix()
    return path.name
