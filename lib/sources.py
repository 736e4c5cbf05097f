"""TruthfulQA, ASQA and QAMPARI from our sample, the hub or a local file, to one `Question` shape.

It decides which layout a source has, which questions are eligible, and which are taken. It does not read raw
bytes (`lib.readers`, `lib.hub`) and makes no rows or labels (`lib.labels`). Text is never altered: only the
outer blanks of questions, sub-questions and answers are stripped.

Papers: TruthfulQA (Lin et al. 2022), ASQA (Stelmakh et al. 2022), QAMPARI (Amouyal et al. 2023), and ALCE
(Gao et al. 2023) for QAMPARI's usual file.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from lib.hub import read_hub
from lib.paths import SAMPLE
from lib.readers import Raw, Record, read_file

SAMPLE_FILES = {"truthfulqa": "truthfulqa.csv", "asqa": "asqa.jsonl", "qampari": "qampari.json"}
DATASETS = tuple(SAMPLE_FILES)

# Ours, for the paper does not say which long answer of an ASQA question is the reference: the first of those
# that are not empty.
REFERENCE_ANNOTATION = 0
# The paper joins by commas; the blank is ours.
ANSWER_SEPARATOR = ", "
# Half of the parts must differ from all of them.
MIN_PARTS = 2

_DTYPES = dict.fromkeys(("dataset", "question_id", "question", "reference"), "str")
_DTYPES |= {"complexity": "int64", "parts": "object"}


@dataclass(frozen=True)
class Question:
    """One eligible question.

    `parts` is what the second row is made of: TruthfulQA the one incorrect answer; ASQA the distinct
    (sub-question, first short answer) pairs; QAMPARI the distinct answers. `complexity` counts the words of
    the reference, the distinct pairs, and the distinct answers respectively.
    """

    dataset: str
    question_id: str
    question: str
    reference: str
    complexity: int
    parts: list[Any]


class _Ineligible(Exception):
    """Why a well-formed question cannot be used; its text is the reason that is counted."""


@dataclass
class _Scan:
    """What one pass over a source remembers: where each id was, and what was passed over inside questions."""

    places: dict[str, str] = field(default_factory=dict)
    notes: Counter[str] = field(default_factory=Counter)

    def new_id(self, record: Record, name: str) -> str:
        question_id = record.identifier(name)
        if question_id in self.places:
            other = self.places[question_id]
            raise record.fail(name, f"{question_id!r} is also the id of {other}; give each its own")
        self.places[question_id] = record.place
        return question_id


def load_questions(dataset: str, source: str | Path = "sample", n: int | None = None, seed: int = 0) -> pd.DataFrame:
    """The first n eligible questions in seeded order (all with n=None, or if there are fewer).

    `dataset` is one of `DATASETS`; `source` is `sample`, `hub`, or a file's path. The order is by the hex
    sha256 of f"{seed}\\n{dataset}\\n{question_id}" in UTF-8, ties by id: the first 50 are the first 50 of 200,
    on every machine, whatever the order of the file.

    Columns: dataset, question_id, question, reference (str), complexity (int64), parts (lists; see
    `Question`). `question_id` is the benchmark's id as text; TruthfulQA has none, so there it is the first 16
    hex digits of the sha256 of the stripped question (a repeated one counts at its first place).
    Attributes (`frame.attrs`): `exclusions` {reason: questions}; `notes` {what was passed over inside
    questions: how often}; `source` {kind, dataset, seed, rows, eligible, asked, taken; of a file: file, sha256,
    and split if it holds splits; of the hub: path, config, split, revision}.
    Raises ValueError for a bad argument or bad data; ConnectionError if the hub cannot be reached.
    """
    _check_arguments(dataset, n, seed)
    raw, kind = _read(dataset, source)
    questions, exclusions, notes = _questions(dataset, raw)
    taken = sorted(questions, key=lambda question: _order(seed, question))[:n]
    counts = {"rows": len(raw.records), "eligible": len(questions), "asked": n, "taken": len(taken)}
    facts = {"kind": kind, "dataset": dataset, "seed": seed, **counts, **raw.source}
    frame = pd.DataFrame([vars(question) for question in taken]).astype(_DTYPES)
    frame.attrs |= {"exclusions": exclusions, "notes": notes, "source": facts}
    return frame


def normalised(text: str) -> str:
    """What two texts are compared by: case and blanks folded, one final full stop dropped."""
    return " ".join(text.casefold().split()).removesuffix(".")


def _check_arguments(dataset: str, n: int | None, seed: int) -> None:
    if dataset not in DATASETS:
        raise ValueError(f"unknown dataset {dataset!r}; use one of {', '.join(DATASETS)}")
    if n is not None and (not isinstance(n, int) or isinstance(n, bool) or n < 1):
        raise ValueError(f"n is {n!r}; give a whole number of at least 1, or None for all questions")
    if not isinstance(seed, int) or isinstance(seed, bool):
        raise ValueError(f"seed is {seed!r}; give a whole number")


def _read(dataset: str, source: str | Path) -> tuple[Raw, str]:
    if source == "sample":
        return read_file(SAMPLE / SAMPLE_FILES[dataset]), "sample"
    return (read_hub(dataset), "hub") if source == "hub" else (read_file(source), "file")


def _order(seed: int, question: Question) -> tuple[str, str]:
    key = f"{seed}\n{question.dataset}\n{question.question_id}"
    return hashlib.sha256(key.encode()).hexdigest(), question.question_id


def _questions(dataset: str, raw: Raw) -> tuple[list[Question], dict[str, int], dict[str, int]]:
    parse = _layout(dataset, raw)
    scan, questions, exclusions = _Scan(), [], Counter()
    for record in raw.records:
        try:
            questions.append(parse(record, scan))
        except _Ineligible as reason:
            exclusions[str(reason)] += 1
    if not questions:
        counts = ", ".join(f"{reason}: {count}" for reason, count in exclusions.items())
        raise ValueError(f"{raw.name}: no eligible question ({counts}); check that it is the {dataset} file")
    return questions, dict(exclusions), dict(scan.notes)


def _layout(dataset: str, raw: Raw) -> Callable[[Record, _Scan], Question]:
    """The parser of the layout whose fields the first row has."""
    if not raw.records:
        raise ValueError(f"{raw.name}: no rows; fetch it again")
    place, found, layouts = raw.records[0].place, raw.records[0].fields, _LAYOUTS[dataset]
    nearest = max(layouts, key=lambda names: sum(name in found for name in names))
    missing = [name for name in nearest if name not in found]
    if missing:
        needed = " or ".join(f"({', '.join(names)})" for names in layouts)
        raise ValueError(f"{place}, field {', '.join(map(repr, missing))}: missing; {dataset} needs {needed}")
    return layouts[nearest]


def _truthfulqa_csv(record: Record, scan: _Scan) -> Question:
    return _truthfulqa(record, scan, _TRUTHFULQA_CSV, lambda name: record.text(name).split(";"))


def _truthfulqa_hub(record: Record, scan: _Scan) -> Question:
    return _truthfulqa(record, scan, _TRUTHFULQA_HUB, record.texts)


def _truthfulqa(record: Record, scan: _Scan, names: tuple[str, ...], items: Callable[[str], list[str]]) -> Question:
    question, best = (record.text(name).strip() for name in names[:2])
    correct, incorrect = (_filled(items(name)) for name in names[2:])
    _need(question, "no question")
    question_id = hashlib.sha256(question.encode()).hexdigest()[:16]
    _need(question_id not in scan.places, "repeated question")
    scan.places[question_id] = record.place
    _need(best, "no best answer")
    right = {normalised(answer) for answer in [best, *correct]}
    wrong = [answer for answer in incorrect if normalised(answer) not in right]
    _need(wrong, "no incorrect answer outside the correct list")
    return Question("truthfulqa", question_id, question, best, len(best.split()), wrong[:1])


def _asqa(record: Record, scan: _Scan) -> Question:
    question_id = scan.new_id(record, "sample_id")
    question = record.text("ambiguous_question").strip()
    pairs = _asqa_pairs(record.records("qa_pairs"), scan.notes)
    references = _filled(item.text("long_answer") for item in record.records("annotations"))
    _need(question, "no question")
    _need(references, "no long answer")
    _need(len(pairs) >= MIN_PARTS, f"fewer than {MIN_PARTS} distinct pairs")
    return Question("asqa", question_id, question, references[REFERENCE_ANNOTATION], len(pairs), pairs)


def _asqa_pairs(items: list[Record], notes: Counter[str]) -> list[tuple[str, str]]:
    pairs: dict[tuple[str, str], tuple[str, str]] = {}
    for item in items:
        sub_question, answers = item.text("question").strip(), _filled(item.texts("short_answers"))
        key = (normalised(sub_question), normalised(answers[0]) if answers else "")
        if not sub_question or not answers:
            notes["pairs without a sub-question or a short answer"] += 1
        elif key in pairs:
            notes["repeated pairs"] += 1
        else:
            pairs[key] = (sub_question, answers[0])
    return list(pairs.values())


def _qampari_alce(record: Record, scan: _Scan) -> Question:
    return _qampari(record, scan, ("id", "question"), record.groups("answers"))


def _qampari_native(record: Record, scan: _Scan) -> Question:
    items = [Record(item.place, {"aliases": [], **item.fields}) for item in record.records("answer_list")]
    groups = [[item.text("answer_text"), *item.texts("aliases")] for item in items]
    return _qampari(record, scan, ("qid", "question_text"), groups)


def _qampari(record: Record, scan: _Scan, names: tuple[str, str], groups: list[list[str]]) -> Question:
    question_id = scan.new_id(record, names[0])
    question = record.text(names[1]).strip()
    answers: dict[str, str] = {}
    for aliases in map(_filled, groups):
        if not aliases:
            scan.notes["empty answer groups"] += 1
        elif normalised(aliases[0]) in answers:
            scan.notes["repeated answers"] += 1
        else:
            answers[normalised(aliases[0])] = aliases[0]
    _need(question, "no question")
    _need(len(answers) >= MIN_PARTS, f"fewer than {MIN_PARTS} distinct answers")
    parts = list(answers.values())
    return Question("qampari", question_id, question, ANSWER_SEPARATOR.join(parts), len(parts), parts)


def _need(present: Any, reason: str) -> None:
    if not present:
        raise _Ineligible(reason)


def _filled(texts: Iterable[str]) -> list[str]:
    return [text.strip() for text in texts if text.strip()]


_TRUTHFULQA_CSV = ("Question", "Best Answer", "Correct Answers", "Incorrect Answers")
_TRUTHFULQA_HUB = ("question", "best_answer", "correct_answers", "incorrect_answers")
_LAYOUTS: dict[str, dict[tuple[str, ...], Callable[[Record, _Scan], Question]]] = {
    "truthfulqa": {_TRUTHFULQA_CSV: _truthfulqa_csv, _TRUTHFULQA_HUB: _truthfulqa_hub},
    "asqa": {("sample_id", "ambiguous_question", "qa_pairs", "annotations"): _asqa},
    "qampari": {
        ("id", "question", "answers"): _qampari_alce,
        ("qid", "question_text", "answer_list"): _qampari_native,
    },
}
