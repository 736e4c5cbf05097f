"""Answers by generator models, and the labelled rows that are made of them.

A generator is an entry of `judges.yaml` that is asked the question alone. Its calls go through `lib.run`, `lib.batch`
and the store as a judge's do; what comes back is an answer, not a verdict.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import pandas as pd

from lib.judges import Judge, load_judge
from lib.labels import PARTIAL, SUPPORTED, build_rows
from lib.parsing import answer_text
from lib.plan import Call, chunks
from lib.prompts import load_instruction
from lib.recorded import Stored, call_key, canonical
from lib.store import Store
from lib.texts import all_words, sentences

# The version stands in the name: a changed text is a new file, since stored answers belong to the old one.
INSTRUCTION = "A.v1"
_QUESTION = ["dataset", "question_id", "question", "reference", "complexity"]
_TYPES = {"answer": "str", "reason": "str", "sentences": "Int64", "sent": "str", "model": "str"}
_TYPES |= {"finish_reason": "str", "tokens_in": "Int64", "tokens_out": "Int64", "key": "str"}


@dataclass(frozen=True)
class Answers:
    """The calls that ask one generator each question once: what `lib.run` needs of a plan.

    `questions` has the columns of `lib.sources.load_questions`, `judge` is the generator's entry. Raises ValueError
    for an entry that cannot answer.
    """

    questions: pd.DataFrame
    judge: Judge
    instruction: str = INSTRUCTION
    lacking: ClassVar[str] = "not whole"

    def __post_init__(self):
        if self.judge.provider == "lexical":
            raise ValueError(f"generators: {self.judge.name} compares words and gives no answers; name a model")

    def __len__(self) -> int:
        return len(self.questions)

    def __iter__(self) -> Iterator[Call]:
        system = load_instruction(self.instruction)
        for number, question in enumerate(self.questions["question"]):
            messages = [{"role": "system", "content": system}, {"role": "user", "content": question}]
            # No form of reply: an answer is prose.
            request = self.judge.call(messages, {})
            text = canonical(request)
            yield Call(call_key(text), request, text, number, self.instruction, 0)

    def asked_prompts(self) -> tuple[str, ...]:
        """The one instruction."""
        return (self.instruction,)

    def lacks(self, reply: Stored) -> str:
        """What is wrong with an answer, for the progress bar; "" if nothing is."""
        return answer_text(reply.text, reply.finish_reason)[1]


def answers(plan: Answers, store: Store) -> pd.DataFrame:
    """What the generator answered, one line a question, those without an answer too.

    Columns: dataset, question_id, question, reference, complexity, generator, `answer` (missing where there is none),
    `reason` ("", `empty`, `refused`, `cut` at the output cap, `failed`, `not_asked`), `sentences` (how many), `sent`
    (the parameters as JSON), the `model` that answered, finish_reason, tokens_in, tokens_out, and the call's `key`. A
    cut answer is kept, for it is what the generator gave.
    """
    lines = []
    for chunk in chunks(plan):
        replies = store.get([call.key for call in chunk])
        failures = store.failures([call.key for call in chunk if call.key not in replies])
        for call in chunk:
            reply = replies.get(call.key)
            absent = "failed" if call.key in failures else "not_asked"
            text, reason = answer_text(reply.text, reply.finish_reason) if reply else ("", absent)
            said = {
                name: getattr(reply, name, None) for name in ("model", "finish_reason", "tokens_in", "tokens_out")
            }
            lines.append(
                {"answer": text or None, "reason": reason, "sentences": len(sentences(text)) if text else None}
                | {"sent": canonical(call.request["params"]), **said, "key": call.key}
            )
    frame = plan.questions[_QUESTION].reset_index(drop=True).assign(generator=plan.judge.name)
    return frame.join(pd.DataFrame(lines, columns=list(_TYPES), index=frame.index).astype(_TYPES))


def answer_rows(given: pd.DataFrame) -> pd.DataFrame:
    """Two rows an answer of `answers`: `full`, the answer, and `partial`, the first half of its sentences.

    Half is rounded down, at least one sentence. The labels are nominal: supported and partially_supported, whatever
    the generator said. Columns of `lib.labels.build_rows` and `generator`, `model` (that answered), `cut`, and
    `degenerate`: True for both rows of an answer whose partial has all words of the full one, in their order. Row ids
    carry the generator.
    """
    rows = []
    for line in given[given["answer"].notna()].itertuples():
        parts = sentences(line.answer)
        partial = " ".join(parts[: max(1, len(parts) // 2)])
        same = {name: getattr(line, name) for name in (*_QUESTION, "generator", "model")}
        same |= {"cut": line.reason == "cut", "degenerate": all_words(partial) == all_words(line.answer)}
        for kind, candidate, label in (("full", line.answer, SUPPORTED), ("partial", partial, PARTIAL)):
            row_id = f"{line.dataset}/{line.question_id}/{kind}@{line.generator}"
            rows.append({"row_id": row_id, "kind": kind, "candidate": candidate, "label": label, **same})
    return pd.DataFrame(
        rows, columns=[*build_rows(pd.DataFrame()).columns, "generator", "model", "cut", "degenerate"]
    )


def rows_by(generators: Sequence[str], questions: pd.DataFrame, store: Store) -> pd.DataFrame:
    """The rows that are judged: those made of the stored answers of `generators`, or of the questions if none.

    Columns of `answer_rows`, or of `lib.labels.build_rows`. Raises ValueError where a generator was not asked yet.
    """
    if not generators:
        return build_rows(questions)
    parts = []
    for name in generators:
        given = answers(Answers(questions, load_judge(name)), store)
        if absent := int(given["reason"].isin(["not_asked", "failed"]).sum()):
            raise ValueError(
                f"{name} has no stored answer to {absent} of these {len(given)} questions; run 11-generate with the "
                "same source, files, datasets, n_questions, seed and generators first"
            )
        parts.append(answer_rows(given))
    rows = pd.concat(parts, ignore_index=True)
    if rows.empty:
        raise ValueError(f"no answer of {', '.join(generators)} holds text, so there is nothing to judge")
    return rows.astype({"cut": bool, "degenerate": bool})
