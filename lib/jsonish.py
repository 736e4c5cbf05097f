"""JSON and what is nearly JSON: where an object begins and ends in a text, and what stands at its top level.

Linear in the text, whatever it holds, and without recursion. What a verdict is, and which object counts, is decided
in `lib.parsing`.
"""

from __future__ import annotations

import json
import re
from typing import Any

BLANKS = "".join(c for c in map(chr, range(0x3001)) if c.isspace()) + "\ufeff\u200b\u200c\u200d\u2060"
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
MARK = re.compile(rf"(?P<think>{_THINK})|{_END_TAG}|(?P<run>\{{+(?=\{{)|\}}+|\]+)|[{{\[]", re.S | re.I)
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
START = re.compile(
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

_OTHER_THINKING = re.compile(
    r"""(?:\[THINK\].*?(?:\[/THINK\]|(?P<endless>\Z))
    |<\|(?:begin_of_)?(?:thought|thinking|think)\|>.*?(?:<\|(?:end_of_|/)(?:thought|thinking|think)\|>|(?P<b>\Z))
    |<\|channel\|>(?:analysis|commentary)\b.*?(?:<\|channel\|>final<\|message\|>|(?P<c>\Z))
    |<unused94>thought.*?(?:<unused95>|(?P<d>\Z)))""",
    re.S | re.X,
)


def plain_thinking(text: str) -> str:
    """The text with the thinking of other models' templates in the form of `<think>`."""
    return _OTHER_THINKING.sub(lambda mark: "<think>" if mark.lastgroup else "\n", text)


def is_verdict(key: str) -> bool:
    """Whether a key is `verdict`, in whatever case."""
    return key.strip(BLANKS).lower() == "verdict"


def strict_pairs(raw: str) -> list[tuple[str, Any]] | None:
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


def scan(text: str, start: int) -> tuple[str, list[str], int, bool]:
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


def loose_pairs(flat: str, groups: list[str]) -> tuple[list[tuple[str, Any]], str]:
    """The pairs of a cut or nearly-JSON object as far as it is a row of `key: value`, Ellipsis if cut; and the rest.

    After the first other thing nothing more is read: by then quotes may have changed sides.
    """
    pairs, inner, at = [], iter(groups), 0
    while item := _ITEM.match(flat, at):
        at, key, value = item.end(), _unquoted(item["key"]), item["value"]
        if value is None:
            # only a verdict is missed when its value is no whole one: as a half label, or as no label
            pairs.append((key, "" if is_verdict(key) and item["half"] is None else ...))
            break
        pairs.append((key, _value(next(inner) if value == "[]" else value)))
    return pairs, flat[at:]


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
