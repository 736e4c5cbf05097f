"""Why rows have no verdict, and what to do about it, from the replies and failures as they are stored."""

from __future__ import annotations

import json

import pandas as pd

from lib.recorded import Stored
from lib.store import Store

_SENT = "in a batch under way; run this notebook again with mode batch to collect it"
_THINKS = ("reasoning_content", "reasoning")


def hint_table(judgments: pd.DataFrame, store: Store) -> pd.DataFrame:
    """The unjudged rows by why: columns `reason`, `finish_reason`, `rows`, `hint`. The most frequent first.

    `judgments` as from `lib.plan.judgments`.
    """
    unjudged = judgments[judgments["verdict"].isna()]
    replies, failures = store.get(unjudged["key"]), store.failures(unjudged["key"])
    raws, sent = store.raws(replies), store.in_batches(unjudged["key"])
    lines = [
        {
            "reason": line.reason,
            "finish_reason": "" if pd.isna(line.finish_reason) else line.finish_reason,
            "hint": _SENT
            if line.key in sent and line.key not in replies
            else hint(line.reason, replies.get(line.key), raws.get(line.key), failures.get(line.key)),
        }
        for line in unjudged.itertuples()
    ]
    names = ["reason", "finish_reason", "hint"]
    counted = pd.DataFrame(lines, columns=names).value_counts(sort=True).rename("rows").reset_index()
    return counted[["reason", "finish_reason", "rows", "hint"]]


def hint(reason: str, reply: Stored | None = None, raw: str | None = None, failure: str | None = None) -> str:
    """What to do about one row without a verdict: `reason` of the judgment, its reply and body, or its failure."""
    if failure and reply is None:
        return failure[:300]
    if reply is None:
        return "not asked yet; run this notebook again"
    if reason == "refused":
        return "the provider withheld the answer; another judge may give one"
    cut = reply.finish_reason == "length"
    if cut and reply.tokens_reasoning and not reply.text:
        spent = f"{reply.tokens_reasoning} of {reply.tokens_out} output tokens"
        return f"thinking took {spent}; raise or remove the output cap, or bound the thinking"
    if cut or reason == "truncated":
        return "the output cap came before the verdict was complete; raise it"
    if reason == "empty" and (field := _thinking_field(raw)):
        return f"the server put the answer into {field}; start it without a reasoning parser, or switch thinking off"
    if reason == "empty":
        return "the provider gave no text"
    return "look at the reply by its key"


def _thinking_field(raw: str | None) -> str | None:
    """The field of a chat completion in which text stands although its content is empty."""
    try:
        message = json.loads(raw)["choices"][0]["message"]
        return next((name for name in _THINKS if message.get(name)), None)
    except (TypeError, ValueError, LookupError, AttributeError):
        return None
