"""Rows x prompts x judge to calls: what is asked, what the store holds of it, and the judgments read from it.

A plan makes its calls one by one, so its size is not bounded by memory. Nothing here asks a judge: that is
`lib.run`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import ClassVar

import pandas as pd

from lib.judges import Judge
from lib.parsing import parse_reply
from lib.prompts import load_prompt
from lib.recorded import Stored, call_key, canonical
from lib.store import Store

# Keys looked up, claimed and parsed at a time: bounds memory, however many rows there are.
CHUNK = 512
# The condition of rows and settings as they are.
PRIMARY_RUN = "primary"


@dataclass(frozen=True, slots=True)
class Call:
    """One request with its key, and the judgment it is for. `text` is the request's canonical JSON."""

    key: str
    request: dict
    text: str
    row: int
    prompt_id: str
    repeat: int


@dataclass(frozen=True)
class Setting:
    """How the rows of one condition are asked: by which judge entry, in which prompts, how often each."""

    judge: Judge
    prompts: tuple[str, ...]
    repeats: int = 1


@dataclass(frozen=True)
class Plan:
    """Every judgment of `rows` x `prompts` (their ids) by one judge. Iterating makes the calls one by one.

    `rows` has the columns of `lib.labels.build_rows`. Where it has `condition` too, `settings` says for each how
    its rows are asked; else they are the primary run's. `judge` is the entry that the settings derive from.
    """

    rows: pd.DataFrame
    prompts: tuple[str, ...]
    judge: Judge
    settings: Mapping[str, Setting] = field(default_factory=dict)
    lacking: ClassVar[str] = "unjudged"

    def lacks(self, reply: Stored) -> str:
        """Why a reply gives no verdict, for the progress bar; "" if it does."""
        return parse_reply(reply.text, reply.finish_reason).reason

    @property
    def conditions(self) -> Sequence[str]:
        """The condition of each row."""
        return self.rows["condition"] if "condition" in self.rows else [PRIMARY_RUN] * len(self.rows)

    def setting(self, condition: str) -> Setting:
        """How the rows of a condition are asked."""
        return self.settings[condition] if self.settings else Setting(self.judge, tuple(self.prompts))

    def asked_prompts(self) -> tuple[str, ...]:
        """Every prompt that is asked, in the order of the conditions."""
        if not self.settings:
            return tuple(self.prompts)
        return tuple(dict.fromkeys(prompt for each in self.settings.values() for prompt in each.prompts))

    def __len__(self) -> int:
        settings = map(self.setting, self.conditions)
        return sum(len(setting.prompts) * setting.repeats for setting in settings)

    def __iter__(self) -> Iterator[Call]:
        prompts = {prompt_id: load_prompt(prompt_id) for prompt_id in self.asked_prompts()}
        fields = ("row_id", "question", "reference", "candidate")
        texts = zip(self.conditions, *(self.rows[name] for name in fields), strict=True)
        for number, (condition, *values) in enumerate(texts):
            row = dict(zip(fields, values, strict=True))
            setting = self.setting(condition)
            for prompt_id in setting.prompts:
                for repeat in range(setting.repeats):
                    request = setting.judge.request(prompts[prompt_id], row, repeat)
                    text = canonical(request)
                    yield Call(call_key(text), request, text, number, prompt_id, repeat)


@dataclass(frozen=True)
class Survey:
    """What a plan comes to before any call: judgments `asked`, distinct `calls`, and where their replies are."""

    asked: int
    calls: int
    in_store: int
    recorded: int
    missing: int


def survey(plan: Plan, store: Store) -> Survey:
    """Count what the plan asks and what the store already holds. Asks nothing."""
    seen: set[str] = set()
    where: Counter[str] = Counter()
    for chunk in chunks(plan):
        keys = {call.key for call in chunk} - seen
        where.update(store.where(keys).values())
        seen |= keys
    found = where["store"] + where["recorded"]
    return Survey(len(plan), len(seen), where["store"], where["recorded"], len(seen) - found)


def missing_keys(plan: Plan, store: Store) -> set[str]:
    """The keys of the plan's calls that have no reply."""
    missing: set[str] = set()
    for chunk in chunks(plan):
        keys = {call.key for call in chunk}
        missing |= keys - store.where(keys).keys()
    return missing


def judgments(plan: Plan, store: Store) -> pd.DataFrame:
    """The analysis table: one line a judgment, in the plan's order, those without a reply too.

    Columns: the row's `row_id, dataset, question_id, kind, label, complexity`; `design, prompt, condition,
    judge, repeat`; `verdict` (missing where unjudged), `status, reason`, `correct`; `tokens_in, tokens_out,
    tokens_reasoning, tokens_cached` (missing where unknown), `latency_s`, `finish_reason`, the `model` that
    answered, the call's `key`, and `prompt_sha256`. A call that failed or was not asked has status `unjudged`
    and reason `failed` or `not_asked`.
    """
    parts = list(judged_chunks(plan, store))
    if not parts:
        return _frame(plan, [], {}, {})
    return pd.concat(parts, ignore_index=True)


def judged_chunks(plan: Plan, store: Store) -> Iterator[pd.DataFrame]:
    """The analysis table of `judgments` in pieces of `CHUNK` lines, for what does not fit in memory."""
    for chunk in chunks(plan):
        keys = [call.key for call in chunk]
        replies = store.get(keys)
        missing = [key for key in keys if key not in replies]
        yield _frame(plan, chunk, replies, store.failures(missing) if missing else {})


_REPLY = {"tokens_in": "Int64", "tokens_out": "Int64", "tokens_reasoning": "Int64", "tokens_cached": "Int64"}
_REPLY |= {"latency_s": "Float64", "finish_reason": "str", "model": "str"}
_TEXTS = ("design", "prompt", "condition", "judge", "verdict", "status", "reason", "key", "prompt_sha256")
_TYPES = {**dict.fromkeys(_TEXTS, "str"), **_REPLY, "repeat": "int64", "correct": "bool"}


def _frame(plan: Plan, calls: Sequence[Call], replies: dict, failures: dict) -> pd.DataFrame:
    hashes = {prompt_id: load_prompt(prompt_id) for prompt_id in plan.asked_prompts()}
    columns = ["row_id", "dataset", "question_id", "kind", "label", "complexity"]
    frame = plan.rows[columns].iloc[[call.row for call in calls]].reset_index(drop=True)
    stored = [replies.get(call.key) for call in calls]
    parsed = [parse_reply(reply.text, reply.finish_reason) if reply else None for reply in stored]
    absent = ["failed" if call.key in failures else "not_asked" for call in calls]
    frame["design"] = [hashes[call.prompt_id].design for call in calls]
    frame["prompt"] = [call.prompt_id for call in calls]
    # Not the whole column for each chunk.
    named = plan.rows["condition"].iloc[[call.row for call in calls]] if "condition" in plan.rows else None
    frame["condition"] = PRIMARY_RUN if named is None else named.to_numpy()
    frame["judge"] = plan.judge.name
    frame["repeat"] = [call.repeat for call in calls]
    frame["verdict"] = [each.verdict if each else None for each in parsed]
    frame["status"] = [each.status if each else "unjudged" for each in parsed]
    frame["reason"] = [each.reason if each else why for each, why in zip(parsed, absent, strict=True)]
    frame["correct"] = frame["verdict"] == frame["label"]
    for name in _REPLY:
        frame[name] = [getattr(reply, name) if reply else None for reply in stored]
    frame["key"] = [call.key for call in calls]
    frame["prompt_sha256"] = [hashes[call.prompt_id].sha256 for call in calls]
    return frame.astype(_TYPES)


def chunks(calls: Iterable[Call]) -> Iterator[list[Call]]:
    """Calls in lists of `CHUNK`."""
    calls = iter(calls)
    while chunk := list(islice(calls, CHUNK)):
        yield chunk
