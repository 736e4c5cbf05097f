"""What all tests share: no network beyond loopback, no keys, nothing written into the repository."""

import os
import sys
from pathlib import Path

import pytest

GUARD = str(Path(__file__).parent / "guard")
sys.path.insert(0, GUARD)
import sitecustomize  # noqa: E402, F401  (installs the guard in this process)

# Processes that tests start (kernels, runs that are killed) load the guard too and ask no hub.
os.environ["PYTHONPATH"] = os.pathsep.join([GUARD, *filter(None, [os.environ.get("PYTHONPATH")])])
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TQDM_DISABLE"] = "1"

from lib import paths  # noqa: E402


@pytest.fixture(autouse=True)
def _no_keys(monkeypatch):
    for name in list(os.environ):
        if name.endswith("_API_KEY"):
            monkeypatch.delenv(name)


@pytest.fixture
def out(tmp_path, monkeypatch):
    """Everything that runs write goes to a folder of this test's."""
    monkeypatch.setattr(paths, "OUT", tmp_path)
    for name, below in (
        ("CALLS", "data/calls.sqlite"),
        ("JUDGMENTS", "data/judgments"),
        ("EXECUTED", "data/executed"),
        ("SWEEPS", "data/sweeps"),
        ("FIGURES", "figures"),
    ):
        monkeypatch.setattr(paths, name, tmp_path / below)
    monkeypatch.setenv("JUDGE_OUT", str(tmp_path))
    return tmp_path


@pytest.fixture
def rows():
    """Four rows of two questions, in the shape of `lib.labels.build_rows`."""
    import pandas as pd

    lines = []
    for number, (full, other) in enumerate([("Paris and Rome", "Paris"), ("Iron, and copper too", "Iron")]):
        for kind, candidate, label in (("full", full, "supported"), ("partial", other, "partially_supported")):
            lines.append(
                {
                    "row_id": f"asqa/{number}/{kind}",
                    "dataset": "asqa",
                    "question_id": str(number),
                    "kind": kind,
                    "question": f"Which, in case {number}?",
                    "reference": full,
                    "candidate": candidate,
                    "label": label,
                    "complexity": 2,
                }
            )
    return pd.DataFrame(lines)
