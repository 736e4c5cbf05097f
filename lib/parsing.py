"""A reply's text to a verdict and a status: pure, never guesses, never raises, in time linear in the text.

Only a top-level verdict counts: nothing inside thinking, a quotation, an array or an outer object, whole or cut,
is read. What is doubtful stays unjudged. Scores and claim lists are not checked but handed on as they came.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

VERDICTS = ("supported", "partially_supported", "unsupported")
STATUSES = ("whole", "embedded", "recovered", "unjudged")
REASONS = ("empty", "refused", "truncated", "conflict", "unknown_label", "bad_type", "not_found")

_LENGTH = {"length", "max_tokens", "max_output_tokens", "model_context_window_exceeded"}
_REFUSED = {"refused", "refusal", "content_filter", "safety", "blocklist", "prohibited_content", "recitation"}
_BLANKS = "".join(c for c in map(chr, range(0x3001)) if c.isspace()) + "\ufeff\u200b\u200c\u200d\u2060"
_BLOCK = "\ufffc"  # stands in the prose where an object, an array or a bracketed aside was
_WORDS = {"True": "true", "False": "false", "None": "null", "undefined": "null", "nan": "NaN"}

# Possessive repeats (`*+`) never back up into what they took, which keeps every pattern linear. An apostrophe
# between two letters neither opens nor closes a string.
_STRING = (
    r'(?:"(?:[^"\\]++|\\.)*+"|“(?:[^“”\\]++|\\.)*+”'
    r"|(?<!\w)'(?:[^'\\]++|\\.|(?<=\w)'(?=\w))*+'|‘(?:[^‘’\\]++|\\.|(?<=\w)’(?=\w))*+’)"
)
_CUT = rf"(?!{_STRING})(?:[\"“‘]|(?<!\w)')"
_KEY = rf"(?:{_STRING}|[^\W\d][\w$-]{{0,63}}+)"
_NAME = r"(?:\w{1,20}:)?(?:think(?:ing)?|thoughts?|reasoning|reflection|scratchpad|analysis)"
_THINK = rf"[<◁](?P<name>{_NAME})(?:\s[^<>]{{0,200}})?[>▷](?:.*?[<◁]/(?P=name)\s*[>▷]|(?P<endless>.*))"
_COMMENT = r"//[^\r\n]*|\#(?=\s)[^\r\n]*|/\*(?:.*?\*/|.*)"
_END_TAG = rf"(?P<end_tag>[<◁]/{_NAME}\s*[>▷])"
_MARK = re.compile(rf"(?P<think>{_THINK})|{_END_TAG}|(?P<run>\{{+(?=\{{)|\}}+|\]+)|[{{\[]", re.S | re.I)
_TOKEN = re.compile(
    rf"""(?P<open>[{{\[])|(?P<close>[}}\]])|(?P<string>{_STRING})|(?P<cut>{_CUT})
    |{_END_TAG}|(?P<blank>```\w*|{_COMMENT}|{_THINK})|(?P<other>[^{{}}\[\]"“‘'/\#<◁`]++|.)""",
    re.S | re.I | re.X,
)
_SPELL = re.compile(
    rf"""(?P<string>{_STRING})|(?P<blank>{_COMMENT}|,(?=\s*[}}\]]))
    |(?<![\w$-])(?:(?P<key>[\w$-]++(?=\s*:))|(?P<word>True|False|None|undefined|nan)\b)""",
    re.S | re.X,
)
# What begins JSON, and not a set or a citation. Nothing here runs over a second opening bracket (but in a
# string), so a row of false starts stays linear.
_START = re.compile(
    rf"""\{{(?:\s|(?://|\#)[^\n{{]*\n|/\*[^{{*]*\*/)*+(?:\Z|{_CUT}|{_KEY}\s*(?::|\Z))
    |\[\s*(?:[\w.+-]{{1,40}}\s*,\s*)*+(?:[{{\["“‘']|\Z)""",
    re.S | re.X,
)
_NEXT = rf"\s*(?:\}}|\Z|{_CUT}|{_KEY}\s*(?::|\Z))"
_ITEM = re.compile(
    rf"""\s*(?P<key>{_KEY})\s*:\s*(?:(?P<value>{_STRING}|\[\]|[^\s,{{}}\[\]:"“‘]++(?!\Z))
    (?=[^\S\r\n]*(?:,{_NEXT}|\}}|\Z|[\r\n]{_NEXT}))[\s,]*|(?P<half>(?:{_CUT}.*|\w*)\Z)?)""",
    re.S | re.X,
)
_LABEL = re.compile(r"partially[\s_-]+supported|supported|unsupported", re.I | re.A)
_ANCHOR = re.compile(
    r"""(?:^[ \t]?(?:\#{1,6}[ \t]+|[-*+•][ \t]+|\d{1,3}[.)][ \t]+)?|[.!?]["”’')*_]{0,4}[ \t]+)
    [*_`"'“‘]{0,4}(?:(?:my|the)[ ])?(?:(?:final|overall)[ ])?verdict[*_`"'”’]{0,4}[ \t]*[:：]
    [*_`"'”’]{0,4}[ \t]*[*_`"'“‘]{0,4}(?=(?P<sentence>[^\r\n.!?]*))""",
    re.M | re.I | re.X,
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
    finish = str(finish_reason or "").rsplit(".", 1)[-1].lower()
    if finish in _REFUSED or finish.startswith("blocked"):
        return Parsed(None, "unjudged", "refused")
    objects, prose, cut = _outside((text or "").lstrip(_BLANKS))
    rest = prose.strip(_BLANKS)
    said = list(_said(prose, finish in _LENGTH))
    if parsed := _decide(objects, said, "whole" if rest == _BLOCK else "embedded"):
        return parsed
    if cut or finish in _LENGTH:
        return Parsed(None, "unjudged", "truncated")
    reason = "not_found" if rest and not _REFUSAL.match(rest) else "refused" if rest else "empty"
    return Parsed(None, "unjudged", reason)


def _decide(objects: list[_Object], said: list[str], status: str) -> Parsed | None:
    """The verdict on which all that was read agrees, or why there is none; None if nothing was read."""
    readings = [reading for found in objects for reading in found.readings]
    # a sentence that is no plain label leaves an object's verdict alone, but not another sentence's
    readings += [reading for reading in said if reading in VERDICTS or not readings]
    if not any(reading in VERDICTS for reading in readings):
        return Parsed(None, "unjudged", readings[0]) if readings else None
    if len(set(readings)) > 1:
        return Parsed(None, "unjudged", "conflict")
    strict = [found for found in objects if found.strict]
    fields = (strict or objects)[-1].fields if objects else {}
    return Parsed(readings[0], status if strict else "recovered", fields=fields)


def _is_verdict(key: str) -> bool:
    return key.strip(_BLANKS).lower() == "verdict"


def _reading(value: Any) -> str:
    """A verdict's value as one of VERDICTS, or the reason why it is none."""
    if not isinstance(value, str):
        return "truncated" if value is ... else "bad_type"
    value = value.strip(_BLANKS)
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
    while mark := _MARK.search(text, at):
        yield text[at : mark.start()], False
        start, at = mark.start(), mark.end()
        if mark["end_tag"]:
            yield None, False
        elif mark["think"]:
            yield "\n", mark["endless"] is not None
        elif mark["run"] or not _START.match(text, start):
            yield mark[0], False
        else:
            flat, groups, at, closed = _scan(text, start)
            pairs = _strict(text[start:at])
            if pairs is None and any(inner["end_tag"] for inner in _MARK.finditer(text, start, at)):
                # in a string of a draft, or only cited in a cut reply? Neither side of it can be trusted
                yield None, False
                pairs = []
            loose = _loose(flat, groups) if pairs is None and mark[0] == "{" else []
            yield _object(loose if pairs is None else pairs, pairs is not None), not closed
    yield text[at:], False


def _object(pairs: list[tuple[str, Any]], strict: bool) -> _Object:
    readings = [_reading(value) for key, value in pairs if _is_verdict(key)]
    fields = {key: value for key, value in pairs if value is not ... and not _is_verdict(key)}
    return _Object(readings, fields, strict)


def _quotations(prose: str) -> Callable[[int, int], bool]:
    """A test whether a stretch of the prose is inside a quotation: an odd number of quotes on either side."""
    quotes = [mark.start() for mark in re.finditer('["“”„«»]', prose)]

    def quoted(start: int, end: int) -> bool:
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


def _strict(raw: str) -> list[tuple[str, Any]] | None:
    """The pairs of a JSON object, repeated keys too; None if it is not one or is too deep for Python."""
    outermost: list[tuple[str, Any]] | None = None

    def keep(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        nonlocal outermost
        outermost = pairs
        return dict(pairs)

    try:
        whole = json.JSONDecoder(object_pairs_hook=keep, parse_int=_int).decode(raw)
    except (ValueError, RecursionError):
        return None
    return outermost if isinstance(whole, dict) else None


def _scan(text: str, start: int) -> tuple[str, list[str], int, bool]:
    """The object or array at `start` with each inner one as `[]`, those inner ones, its end, whether it closed.

    A bracket of the wrong kind or a string without end makes the rest unreadable: the end is that of the text.
    """
    closers: list[str] = []
    flat: list[str] = []
    groups: list[str] = []
    inner = start
    for token in _TOKEN.finditer(text, start):
        kind, depth = token.lastgroup, len(closers)
        if kind == "open":
            inner = token.start() if depth == 1 else inner
            closers.append("}" if token[0] == "{" else "]")
        elif kind == "close":
            if closers.pop() != token[0]:
                break
            if depth == 1:
                return "".join(flat) + token[0], groups, token.end(), True
            if depth == 2:
                flat.append("[]")
                groups.append(text[inner : token.end()])
        elif kind == "end_tag":
            return "".join(flat), groups, token.start(), False
        elif kind == "cut":
            flat += [text[token.start() :]] if depth == 1 else []
            break
        elif depth == 1:
            flat.append(" " if kind == "blank" else token[0])
    return "".join(flat), groups, len(text), False


def _loose(flat: str, groups: list[str]) -> list[tuple[str, Any]]:
    """The pairs of a cut or nearly-JSON object as far as it is a row of `key: value`; Ellipsis if cut.

    After the first other thing nothing more is read: by then quotes may have changed sides.
    """
    pairs, inner, at = [], iter(groups), 0
    while item := _ITEM.match(flat, at):
        at, key, value = item.end(), _unquoted(item["key"]), item["value"]
        if value is None:
            # only a verdict is missed when its value is no whole one: as a half label, or as no label
            pairs.append((key, "" if _is_verdict(key) and item["half"] is None else ...))
            break
        pairs.append((key, _value(next(inner) if value == "[]" else value)))
    return pairs


def _unquoted(token: str) -> str:
    """A key or string without its quotes, its escapes undone where they are JSON's."""
    if token[0] not in "\"'“‘":
        return token
    inner = re.sub(r"\\.|\"", lambda m: {"\\'": "'", '"': '\\"'}.get(m[0], m[0]), token[1:-1], flags=re.S)
    try:
        return json.loads(f'"{inner}"', strict=False)
    except ValueError:
        return token[1:-1]


def _value(raw: str) -> Any:
    """A raw value of nearly-JSON as Python data: a bare word as it came, Ellipsis for a group beyond reading."""
    try:
        return json.loads(_SPELL.sub(_as_json, raw), parse_int=_int)
    except (ValueError, RecursionError):
        return ... if raw[0] in "{[" else raw


def _as_json(token: re.Match[str]) -> str:
    """A string, key, word or comment of nearly-JSON in JSON's spelling."""
    if token["string"] or token["key"]:
        return json.dumps(_unquoted(token[0]))
    return _WORDS[token[0]] if token["word"] else " "


def _int(digits: str) -> int | str:
    return int(digits) if len(digits) < 4300 else digits  # Python refuses to convert more
