"""Whose reference stands in for whose: a seeded derangement of the questions of a dataset.

Growing the slice leaves nearly all pairs as they are, so that stored replies stay good.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence

import pandas as pd

from lib.texts import content_words

# How many others are looked at for a question, and how many places for one that is left over, before it has none.
_LOOK, _PLACES = 50, 2000

_INSIDE = re.compile(r"(?<=\w)[.,'’](?=\w)")


def derangement(references: Mapping[str, Sequence[str]], seed: int, dataset: str) -> dict[str, str]:
    """For each question id the id of the question whose reference takes the place of its own.

    A question may have several references. None gets its own, nor one that says the same as one of its own: of two
    references neither may hold all content words of the other, so that case, order, marks and Unicode forms make no
    difference. Each id is given to one other at most. Questions are paired in the order of sha256(seed, dataset,
    question id), the first two that fit; one that is left over joins an earlier pair. One that fits nowhere is not
    in the result.
    """
    words = {question: frozenset(map(_said, texts)) for question, texts in references.items()}
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
    places, tried = list(donor), Counter()
    for question in open_ones:
        own = words[question]
        # What did not fit for one that says the same does not fit now.
        while tried[own] < min(len(places), _PLACES):
            other = places[-1 - tried[own]]
            # other <- next becomes other <- question <- next.
            following = donor[other]
            if _differ(own, words[other]) and _differ(own, words[following]):
                donor[other], donor[question] = question, following
                break
            tried[own] += 1
    return donor


def _said(text: str) -> frozenset[str]:
    """What a reference says, as words: `Café` in either Unicode form, `U.S.` and `US`, `1,000` and `1000` are one."""
    return frozenset(content_words(_INSIDE.sub("", unicodedata.normalize("NFKC", text))))


def _differ(some: frozenset[frozenset[str]], others: frozenset[frozenset[str]]) -> bool:
    return not any(one <= other or other <= one for one in some for other in others)


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
            rows = self._rows[self._rows["dataset"] == dataset]
            references: dict[str, list[str]] = {}
            for question, reference in zip(rows["question_id"], rows["reference"], strict=True):
                references.setdefault(question, []).append(reference)
            donors = derangement(references, self._seed, dataset)
            self._of[dataset] = {question: references[other][0] for question, other in donors.items()}
        return self._of[dataset].get(question_id)
