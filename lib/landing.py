"""The lines of a batch joined to its calls by id: replies, failures, and what a batch may not hold. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lib.ledger import Batch
from lib.providers import BatchState, CallError, Reply
from lib.recorded import Stored, now, stored
from lib.redact import redact


@dataclass(frozen=True)
class Landing:
    """What a batch brought. `failures` maps a key to (request, error, kind).

    `state` is what becomes of the batch: `open` while lines are missing that must be there, else `collected`, or
    `failed` without any. `complaint` says what is wrong with all of it, "" if nothing is.
    """

    state: str
    replies: list[Stored]
    failures: dict[str, tuple[str, str, str]]
    complaint: str


def land(
    batch: Batch,
    requests: Mapping[str, str],
    lines: Sequence[tuple[str, Reply | CallError]],
    state: BatchState,
    sdk: str,
) -> Landing:
    """Join the lines of an ended or failed batch to its calls, `requests` by key. No line is dropped."""
    answers: dict[str, list[Reply | CallError]] = {}
    for wire, answer in lines:
        # An id of ours is a hash; one that is not may be anything.
        answers.setdefault(wire if wire in requests else redact(wire), []).append(answer)
    unknown = {wire: given for wire, given in answers.items() if wire not in requests}
    twice = {wire for wire, given in answers.items() if wire in requests and len(_replies(given)) > 1}
    absent = [key for key in requests if key not in answers]
    # A file of results that is not whole may be so the next time; to fetch it again costs nothing.
    unfinished = state.state == "ended" and state.complete and bool(absent)
    replies, failures = [], {}
    for key, request in requests.items():
        given = answers.get(key, [])
        if key in twice:
            failures[key] = request, f"batch {batch.wire}: two answers for one id: {_said(given)}", "row"
        elif found := _replies(given):
            how = {"latency_s": None, "attempts": 1, "sdk": sdk, "at": now(), "batch": batch.wire}
            replies.append(stored(key, request, found[0], **how))
        elif given or not unfinished:
            why = str(given[0]) if given else state.note or "no line for this call"
            failures[key] = request, f"batch {batch.wire}: {why}", given[0].kind if given else "transient"
    assert len(replies) + len(failures) + unfinished * len(absent) == len(requests) == batch.n
    for wire, given in unknown.items():
        failures[wire or "no id"] = "{}", f"batch {batch.wire}: an id that was not sent: {_said(given)}", "row"
    becomes = "open" if unfinished else "collected" if state.state == "ended" else "failed"
    missing = absent if unfinished else []
    complaint = _mismatch(batch, sorted(twice), sorted(unknown), missing) or _refused(lines) or _failed(state)
    return Landing(becomes, replies, failures, complaint)


def _mismatch(batch: Batch, twice: list[str], unknown: list[str], missing: list[str]) -> str:
    lists = {"came twice and differ": twice, "were not sent": unknown, "are missing": missing}
    wrong = [f"{len(ids)} {what} ({', '.join(ids[:20])})" for what, ids in lists.items() if ids]
    then = "to ask what has no reply"
    if missing:
        then = f"to fetch it again, or give it up: lib.ledger.give_up(store, {batch.wire!r})"
    return f"of its ids {'; '.join(wrong)}. The other lines are stored; run again {then}" if wrong else ""


def _refused(lines: Sequence[tuple[str, Reply | CallError]]) -> str:
    """The error of the first line that every line would get: a setting, the model, the key."""
    return next((str(answer) for _, answer in lines if getattr(answer, "kind", "") == "fatal"), "")


def _failed(state: BatchState) -> str:
    if state.state != "failed" or any(word in state.note for word in ("expired", "cancelled")):
        return ""
    hint = "; try smaller ones, by batch_calls in its entry" if "limit" in state.note else ""
    return f"failed: {state.note}{hint}"


def _replies(answers: list[Reply | CallError]) -> list[Reply]:
    """The different replies among the answers to one id: an error beside a reply takes nothing from it."""
    found = [answer for answer in answers if isinstance(answer, Reply)]
    return [answer for number, answer in enumerate(found) if answer not in found[:number]]


def _said(answers: list[Reply | CallError]) -> list[str]:
    return [getattr(answer, "raw", None) or str(answer) for answer in answers]
