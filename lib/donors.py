"""Whose reference stands in for whose: a seeded derangement of the questions of a dataset.

Growing the slice leaves nearly all pairs as they are, so that stored replies stay good.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from itertools import islice

import pandas as pd

from lib.texts import content_words

# How many others are looked at for a question before it is said to have none.
_LOOK = 50


def derangement(references: Mapping[str, str], seed: int, dataset: str) -> dict[str, str]:
    """For each question id the id of the question whose reference takes the place of its own.

    No question gets its own, nor one that says the same: of two references neither may hold all content words of
    the other, so that case, order and marks make no difference. Each id is given to one other at most. Questions
    are paired in the order of sha256(seed, dataset, question id), the first two that fit; one that is left over
    joins an earlier pair. One that fits nowhere is not in the result.
    """
    words = {question: content_words(reference) for question, reference in references.items()}
    order = sorted(references, key=lambda question: (digest(seed, dataset, question), question))
    donor: dict[str, str] = {}
    open_ones: list[str] = []
    for question in order:
        match = next((each for each in open_ones[:_LOOK] if _differ(words[question], words[each])), None)
        if match is None:
            open_ones.append(question)
        else:
            open_ones.remove(match)
            donor[question], donor[match] = match, question
    for question in open_ones:
        for other in list(islice(reversed(donor), _LOOK)):
            # other <- next becomes other <- question <- next.
            following = donor[other]
            if _differ(words[question], words[other]) and _differ(words[question], words[following]):
                donor[other], donor[question] = question, following
                break
    return donor


def _differ(one: set[str], other: set[str]) -> bool:
    return not (one <= other or other <= one)


def digest(*parts: object) -> str:
    """The hex sha256 of some texts and numbers, the same on every machine."""
    return hashlib.sha256("\n".join(map(str, parts)).encode("utf-8", "surrogatepass")).hexdigest()


class Others:
    """For each question of `rows` the reference of another one of its dataset, found when it is first asked for."""

    def __init__(self, rows: pd.DataFrame, seed: int):
        self._rows, self._seed = rows, seed
        self._of: dict[str, dict[str, str]] = {}

    def of(self, dataset: str, question_id: str) -> str | None:
        """The other question's reference, None if no other says something else."""
        if dataset not in self._of:
            questions = self._rows[self._rows["dataset"] == dataset].drop_duplicates("question_id")
            references = dict(zip(questions["question_id"], questions["reference"], strict=True))
            donors = derangement(references, self._seed, dataset)
            self._of[dataset] = {question: references[other] for question, other in donors.items()}
        return self._of[dataset].get(question_id)
