"""A reply's text to a verdict and a status: pure, never guesses, never raises, in time linear in the text.

Only a top-level verdict counts: nothing inside thinking, a quotation, an array or an outer object, whole or cut,
is read. What is doubtful stays unjudged. Scores and claim lists are not checked but handed on as they came.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

from lib.jsonish import BLANKS, MARK, START, is_verdict, loose_pairs, plain_thinking, scan, strict_pairs

VERDICTS = ("supported", "partially_supported", "unsupported")
STATUSES = ("whole", "embedded", "recovered", "unjudged")
REASONS = ("empty", "refused", "truncated", "conflict", "unknown_label", "bad_type", "not_found")

_LENGTH = {"length", "max_tokens", "max_output_tokens", "model_context_window_exceeded"}
_REFUSED = {"refused", "refusal", "content_filter", "safety", "blocklist", "prohibited_content", "recitation"}
_BLOCK = "\ufffc"  # stands in the prose where an object, an array or a bracketed aside was

_LABEL = re.compile(r"partially[\s_-]+supported|supported|unsupported", re.I | re.A)
_ANCHOR = re.compile(
    r"""(?:^[ \t]?(?:\#{1,6}[ \t]+|[-*+•][ \t]+|\d{1,3}[.)][ \t]+)?|[.!?]["”’')*_]{0,4}[ \t]+)
    [*_`"'“‘]{0,4}(?:(?:my|the)[ ])?(?:(?:final|overall)[ ])?verdict[*_`"'”’]{0,4}[ \t]*[:：]
    [*_`"'”’]{0,4}[ \t]*[*_`"'“‘]{0,4}(?=(?P<sentence>[^\r\n.!?]*))""",
    re.M | re.I | re.X,
)
_STRAY_KEY = re.compile(r"""["'“‘]verdict["'”’]\s*:""", re.I)
_CITED = re.compile(
    r"""^[ \t]{0,3}>[^\n]*$|(?<!`)`(?!`)[^`\n]*`(?!`)
    |<(?P<tag>(?:question|reference|candidate)(?:-\d+)?)>.*?(?:</(?P=tag)>|\Z)""",
    re.M | re.S | re.I | re.X,
)
_AFTER_LABEL = re.compile(r"""[*_`"'”’]{0,6}(?:[ \t]*\r?$|[.!](?=[\s*_`"'”’)]|\Z))""", re.M)
_REFUSAL = re.compile(
    r"""\W*+(?:(?:i['’]?m|i\ am)\ (?:very\ |so\ )?sorry\b|sorry\b|i\ apologi[sz]e\b|unfortunately\b)?
    [^.!?\n]{0,60}?\bi(?:\ can(?:['’]t|not|\ not)|(?:['’]m|\ am)\ (?:unable|not\ able)|\ (?:won['’]t|will\ not)
    |\ (?:must|have\ to)\ decline)\b(?!\ (?:find|see|locate)\b)""",
    re.I | re.X,
)


@dataclass(frozen=True)
class Parsed:
    """What one reply says: a verdict of VERDICTS or None, a status of STATUSES, a reason of REASONS or "".

    fields: the other top-level keys of the object that was read (of several that agree, the last one; of a
    recovered one, what is complete).
    """

    verdict: str | None
    status: str
    reason: str = ""
    fields: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class _Object:
    readings: list[str]
    fields: dict[str, Any]
    strict: bool


def parse_reply(text: str | None, finish_reason: str | None = None) -> Parsed:
    """Read the verdict of one reply; `finish_reason` is the provider's word for why it ended. Raises nothing."""
    finish = _finish(finish_reason)
    if finish == "refused":
        return Parsed(None, "unjudged", "refused")
    text = plain_thinking(text if isinstance(text, str) else "").lstrip(BLANKS)
    # The usual reply is one object and nothing else: no need to look for where it begins and ends.
    whole = strict_pairs(text.rstrip(BLANKS))
    objects, prose, cut = _outside(text) if whole is None else ([_object(whole, strict=True)], _BLOCK, False)
    rest = prose.strip(BLANKS)
    said = list(_said(prose, finish == "cut"))
    if finish == "cut" and _cited_in_a_cut_text(prose):
        return Parsed(None, "unjudged", "truncated")
    # A verdict's key outside of every object: a string was broken out of, and what was read may be its inside.
    said += ["conflict"] if objects and _STRAY_KEY.search(prose) else []
    if parsed := _decide(objects, said, "whole" if rest == _BLOCK else "embedded"):
        return parsed
    if cut or finish == "cut":
        return Parsed(None, "unjudged", "truncated")
    reason = "not_found" if rest and not _REFUSAL.match(rest) else "refused" if rest else "empty"
    return Parsed(None, "unjudged", reason)


def answer_text(text: str | None, finish_reason: str | None = None) -> tuple[str, str]:
    """A reply that is an answer: its text without thinking and outer blanks, and what is wrong with it.

    That is `refused` or `empty` (then there is no text), `cut` at the output cap, or "".
    """
    finish, answer = _finish(finish_reason), plain_thinking(text if isinstance(text, str) else "").strip()
    # Thinking comes first; a tag further on may be what the answer is about.
    while (mark := MARK.match(answer)) and mark["think"]:
        answer = answer[mark.end() :].strip()
    ends = [mark.end() for mark in MARK.finditer(answer) if mark["end_tag"] and "think" in mark[0].lower()]
    # An end without a beginning: all before it was thinking, whose beginning the template wrote.
    answer = answer[ends[-1] :].strip() if ends else answer
    if finish == "refused" or not any(letter.isprintable() and not letter.isspace() for letter in answer):
        return "", finish if finish == "refused" else "empty"
    return answer, finish


def _finish(reason: str | None) -> str:
    """Whether a reply was `refused` or `cut` by the provider's word for why it ended, else ""."""
    word = str(reason or "").rsplit(".", 1)[-1].lower()
    if word in _REFUSED or word.startswith("blocked"):
        return "refused"
    return "cut" if word in _LENGTH else ""


def _cited_in_a_cut_text(prose: str) -> bool:
    """Whether an object stands between two pieces of a cut text: then it may be cited in a sentence without end."""
    before, _, after = prose.partition(_BLOCK)
    return all(piece.strip(BLANKS + "`") not in ("", "json") for piece in (before, after))


def _decide(objects: list[_Object], said: list[str], status: str) -> Parsed | None:
    """The verdict on which all that was read agrees, or why there is none; None if nothing was read."""
    readings = [reading for found in objects for reading in found.readings]
    # a sentence that is no plain label leaves an object's verdict alone, but not another sentence's
    readings += [reading for reading in said if reading in (*VERDICTS, "conflict") or not readings]
    if not any(reading in VERDICTS for reading in readings):
        return Parsed(None, "unjudged", readings[0]) if readings else None
    if len(set(readings)) > 1:
        return Parsed(None, "unjudged", "conflict")
    strict = [found for found in objects if found.strict]
    fields = (strict or objects)[-1].fields if objects else {}
    return Parsed(readings[0], status if strict else "recovered", fields=fields)


def _reading(value: Any) -> str:
    """A verdict's value as one of VERDICTS, or the reason why it is none."""
    if not isinstance(value, str):
        return "truncated" if value is ... else "bad_type"
    value = value.strip(BLANKS)
    return re.sub(r"[\s_-]+", "_", value.lower()) if _LABEL.fullmatch(value) else "unknown_label"


def _outside(text: str) -> tuple[list[_Object], str, bool]:
    """The top-level objects with a verdict, the prose around them, and whether something was left open."""
    objects: list[tuple[int, _Object]] = []  # with the place of their stand-in in `prose`
    prose: list[str] = []
    stray: dict[str, list[tuple[int, int]]] = {"}": [], "]": []}
    cut = False
    for piece, left_open in _pieces(text):
        cut |= left_open
        if piece is None:
            for kept in (objects, prose, *stray.values()):
                kept.clear()
        elif isinstance(piece, _Object):
            objects += [(len(prose), piece)] if piece.readings else []
            prose.append(_BLOCK)
        elif piece and (opened := stray.get(piece[0])):
            # what stands in a closed pair of brackets, even if these are no JSON, is not top-level
            first, first_object = opened[-len(piece) :][0]
            del opened[-len(piece) :]
            prose[first:], objects[first_object:] = [_BLOCK], []
        elif piece:
            if piece[0] in "{[":
                stray["}" if piece[0] == "{" else "]"] += [(len(prose), len(objects))] * len(piece)
            prose.append(piece)
    starts = list(accumulate(map(len, prose), initial=0))
    joined = "".join(prose)
    quoted = _quotations(joined)
    return [found for i, found in objects if not quoted(starts[i], starts[i] + 1)], joined, cut


def _pieces(text: str) -> Iterator[tuple[_Object | str | None, bool]]:
    """The text as prose, stray brackets and objects (an array is one without verdict), and whether one is cut.

    None stands for the end of thinking that began before the text: what came before it is to be forgotten.
    """
    at = 0
    while mark := MARK.search(text, at):
        yield text[at : mark.start()], False
        start, at = mark.start(), mark.end()
        if mark["end_tag"]:
            yield None, False
        elif mark["think"]:
            yield "\n", mark["endless"] is not None
        elif mark["run"] or not START.match(text, start):
            yield mark[0], False
        else:
            flat, groups, at, closed = scan(text, start)
            pairs = strict_pairs(text[start:at])
            if pairs is None and any(inner["end_tag"] for inner in MARK.finditer(text, start, at)):
                # in a string of a draft, or only cited in a cut reply? Neither side of it can be trusted
                yield None, False
                pairs = []
            loose, rest = loose_pairs(flat, groups) if pairs is None and mark[0] == "{" else ([], text[start:at])
            found = _object(loose if pairs is None else pairs, pairs is not None)
            # A verdict's key in what could not be read, or was left open, may be the real one; not if one came first,
            # as the prompts ask.
            first = bool(loose) and is_verdict(loose[0][0])
            unread = not closed or (pairs is None and mark[0] == "{")
            if unread and not first and _STRAY_KEY.search(rest):
                found.readings.append("truncated")
            yield found, not closed
    yield text[at:], False


def _object(pairs: list[tuple[str, Any]], strict: bool) -> _Object:
    readings = [_reading(value) for key, value in pairs if is_verdict(key)]
    fields = {key: value for key, value in pairs if value is not ... and not is_verdict(key)}
    return _Object(readings, fields, strict)


def _quotations(prose: str) -> Callable[[int, int], bool]:
    """A test whether a stretch of the prose is cited.

    It is inside a Markdown block quote, inline code, or tags of the prompt's layout, or has an odd number of
    quotation marks on either side.
    """
    quotes = [mark.start() for mark in re.finditer('["“”„«»]', prose)]
    cited = [mark.span() for mark in _CITED.finditer(prose)]
    begins = [begin for begin, _ in cited]

    def quoted(start: int, end: int) -> bool:
        last = bisect_left(begins, start + 1) - 1
        if last >= 0 and end <= cited[last][1]:
            return True
        odd = bisect_left(quotes, start) % 2 and (len(quotes) - bisect_left(quotes, end)) % 2
        return bool(odd) or prose[max(start - 1, 0) : start] + prose[end : end + 1] in ("''", "‘’")

    return quoted


def _said(prose: str, may_be_cut: bool) -> Iterator[str]:
    """What each anchored `verdict:` of the prose says: a label, or why it is not read as one."""
    quoted = _quotations(prose)
    for anchor in _ANCHOR.finditer(prose):
        label = _LABEL.match(prose, anchor.end())
        after = label and _AFTER_LABEL.match(prose, label.end())
        if quoted(anchor.start(), (after or anchor).end()):
            continue
        if label and after:
            yield "truncated" if may_be_cut and label.end() == len(prose) else _reading(label[0])
        elif "support" in anchor["sentence"].lower():
            yield "unknown_label"
