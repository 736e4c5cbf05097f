"""The study's size, and which of a material's judges count as the study's own."""

from __future__ import annotations

import re

from lib.material import Material, designs_of
from lib.results import PRIMARY

# The study's judges, told by the model that answered, whatever the entry is called. Which snapshots the paper used
# it does not say, so any of the family counts.
FAMILIES = {
    "Opus": r"claude-(?:[\d.]+-)*opus(?:-[\d.]+)*(?:-latest)?",
    "GPT-4.1": r"gpt-4\.1(?:-\d{4}-\d{2}-\d{2})?",
    "Gemini": r"gemini-[\d.]+-(?:pro|flash)(?:-preview)?(?:-[\d-]+)?",
    "Sonnet": r"claude-sonnet-4[-.]6(?:-\d+)?",
}
THREE = ("Opus", "GPT-4.1", "Gemini")
JUDGES = {"three judges": THREE, "four judges": (*THREE, "Sonnet"), "every judge": THREE}
STUDY_QUESTIONS = 200
DATASETS = ("truthfulqa", "asqa", "qampari")
# Two rows a question, in C and H, by three judges.
OUTPUTS = len(DATASETS) * STUDY_QUESTIONS * 2 * 2 * len(THREE)
# The study's slices had 40 to 50 rows, both rows of a question.
LEAST_QUESTIONS = 20
PRIMARY_SLICES = ("all rows", "full rows", "partial rows", "complexity bins")


def study_judges(m: Material) -> dict[str, str]:
    """Which of the material's judges is which of the study's: the paper's name to the entry of judges.yaml.

    By the models that answered. None of them is a judge with replies of another family, or asked about the sample, or
    in other versions of the designs than the first; nor are two of one family. Rows of local files are taken to be
    the benchmarks', which nothing here can tell.
    """
    return {name: entries[0] for name, entries in families(m).items() if len(entries) == 1}


def families(m: Material) -> dict[str, list[str]]:
    """The judges that could be each of the study's: more than one of a family are none of them."""
    found: dict[str, list[str]] = {}
    if m.p.source == "sample" and set(m.p.files) != set(m.p.datasets):
        return found
    for entry in m.p.judges:
        if set(designs_of(m.p, entry)) - set(PRIMARY):
            continue
        judged = [part for part in (m.judged, m.conditions, m.generated) if len(part)]
        parts = [part.loc[part["judge"] == entry, "model"] for part in judged]
        models = {name.rsplit("/", 1)[-1] for part in parts for name in part.dropna().unique()}
        for name, pattern in FAMILIES.items():
            if models and all(re.fullmatch(pattern, model) for model in models):
                found.setdefault(name, []).append(entry)
    return found


def failed(m: Material, judge: str) -> str:
    """How many calls of a judge failed, in words, or "": what a provider did not answer says nothing of a design."""
    parts = [part for part in (m.judged, m.conditions, m.generated) if len(part)]
    calls = sum(int(((part["judge"] == judge) & (part["reason"] == "failed")).sum()) for part in parts)
    return f"{calls} calls of {judge} failed: run them again" if calls else ""
