"""Judgments as files that a page can look through: a list in columns, and what stands behind each line in shards.

Nothing is asked or counted here. The page that reads the files is `lib/pages/judgments.js`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from lib import paths
from lib.parsing import REASONS, STATUSES, VERDICTS, parse_reply
from lib.plan import PRIMARY_RUN
from lib.prompts import FIELDS
from lib.recorded import Stored
from lib.results import PRIMARY, read_rows, write_bytes
from lib.store import Store

# Judgments a shard: few enough to load at once when one of them is opened.
SHARD = 250
# How many words of a reply are tried as the place of its verdict; a real verdict stands at a key, and is tried first.
TRIES = 40
# And how many characters are read again for that: a cut reply of a megabyte would take minutes.
READ_AGAIN = 2_000_000
# What the list can be filtered by, with the order of values that have one. Other values follow by name.
FILTERS: dict[str, Sequence[str]] = {
    "run": (),
    "dataset": (),
    "prompt": PRIMARY,
    "judge": (),
    "condition": (PRIMARY_RUN,),
    "outcome": ("right", "wrong", "unjudged"),
    "verdict": VERDICTS,
    "label": VERDICTS,
    "status": STATUSES,
    "reason": ("none", *REASONS),
}

_WORD = re.compile(r"partially[\s_-]+supported|supported|unsupported", re.I | re.A)
_AT_KEY = re.compile(r"verdict\W{0,12}\Z", re.I)
_TAG = re.compile(rf"<(?:{'|'.join(FIELDS)})(-\d+)?>")
_TOKENS = ("tokens_in", "tokens_out", "tokens_reasoning", "tokens_cached")

# A text in pieces: the name of each, "" if it has none, and its characters.
Pieces = list[tuple[str, str]]


def read_judgments(runs: Sequence[str]) -> list[dict[str, object]]:
    """Every judgment that stands in these runs: the columns of `lib.plan.judgments`, `run` and `outcome`.

    `outcome` is right, wrong or unjudged; a missing verdict and an empty reason are `none`. The designs of one row
    stand together, since they share most of what was sent.
    """
    lines = []
    for run in runs:
        cells = [pq.ParquetFile(path).read() for path in sorted((paths.JUDGMENTS / run).glob("*.parquet"))]
        if cells:
            table = pa.concat_tables([cell.replace_schema_metadata() for cell in cells], promote_options="permissive")
            lines += sorted(map(_line(run), table.to_pylist()), key=_place)
    return lines


def _line(run: str):
    def line(judgment: dict) -> dict[str, object]:
        outcome = "unjudged" if judgment["verdict"] is None else "right" if judgment["correct"] else "wrong"
        named = {name: judgment[name] or "none" for name in ("verdict", "reason", "label")}
        return {**judgment, **named, "run": run, "outcome": outcome}

    return line


def _place(line: Mapping) -> tuple:
    condition, prompt = line["condition"], line["prompt"]
    first = PRIMARY.index(prompt) if prompt in PRIMARY else len(PRIMARY)
    asked = (line["judge"], condition != PRIMARY_RUN, condition, line["dataset"], line["row_id"], line["repeat"])
    return (*asked, first, prompt)


def marked(text: str | None, finish_reason: str | None) -> tuple[str | None, tuple[tuple[int, int], ...]]:
    """The verdict that the parser reads from a reply, and the spans of the words that it read it from.

    A word is one of those if another label in its place changes the verdict or the status. Where the reply is whole
    JSON, or JSON in other text, the first one is enough. No verdict has no span, and so has one whose letters are
    written as escapes.
    """
    parsed = parse_reply(text, finish_reason)
    if parsed.verdict is None or text is None:
        return None, ()
    spans: list[tuple[int, int]] = []
    for start, end in sorted((word.span() for word in _WORD.finditer(text)), key=lambda span: _unlikely(text, span))[
        : min(TRIES, 1 + READ_AGAIN // max(1, len(text)))
    ]:
        other = "unsupported" if text[start:end].lower() == "supported" else "supported"
        again = parse_reply(text[:start] + other + text[end:], finish_reason)
        if (again.verdict, again.status) != (parsed.verdict, parsed.status):
            spans.append((start, end))
            if parsed.status in ("whole", "embedded"):
                break
    return parsed.verdict, tuple(sorted(spans))


def _unlikely(text: str, span: tuple[int, int]) -> tuple[bool, int]:
    return not _AT_KEY.search(text, max(0, span[0] - 24), span[0]), span[0]


_marked = lru_cache(maxsize=20_000)(marked)


def reply_pieces(text: str, finish_reason: str | None, verdict: str) -> Pieces:
    """A reply with the words of its verdict as pieces named `verdict`.

    None is named where the parser now reads another verdict than `verdict`, the judgment's.
    """
    read, spans = _marked(text, finish_reason)
    return _cut(text, [("verdict", span) for span in spans] if read == verdict else [])


def message_pieces(content: str) -> Pieces:
    """A rendered user message with question, reference and candidate as pieces of their own, as they were sent.

    One piece without a name where they do not stand in the tags of the layout, each once.
    """
    first = _TAG.search(content)
    # No text holds the layout's own number (`lib.prompts.render`), so the first tag tells all of them.
    number = re.escape(first[1] or "") if first else ""
    between = re.compile(rf"<({'|'.join(FIELDS)}){number}>\n?(.*?)\n?</\1{number}>", re.S)
    found = list(between.finditer(content))
    whole = sorted(match[1] for match in found) == sorted(FIELDS)
    return _cut(content, [(match[1], match.span(2)) for match in found] if whole else [])


def _cut(text: str, named: Sequence[tuple[str, tuple[int, int]]]) -> Pieces:
    pieces, at = [], 0
    for name, (start, end) in named:
        pieces += [("", text[at:start]), (name, text[start:end])]
        at = end
    # A piece with a name stays even if it is empty: an empty reference is one.
    return [piece for piece in [*pieces, ("", text[at:])] if any(piece)]


def list_of(lines: Sequence[Mapping], questions: Mapping[tuple[str, str], str]) -> dict[str, object]:
    """What the page needs of all judgments: `names` by filter, and `columns` of numbers into them.

    `ids` and `questions` are the rows' own; the columns `row` and `repeat` go with them. `shard` is their number in
    a shard.
    """
    rows: dict[tuple[str, str], int] = {}
    columns: dict[str, list] = {"row": [], "repeat": [line["repeat"] for line in lines]}
    for line in lines:
        row = (line["row_id"], questions.get((line["run"], line["row_id"]), ""))
        columns["row"].append(rows.setdefault(row, len(rows)))
    names = {}
    for name, order in FILTERS.items():
        present = {line[name] for line in lines}
        rest = sorted(present - set(order))
        names[name] = [value for value in [*order, *rest] if value in present]
        number = {value: place for place, value in enumerate(names[name])}
        columns[name] = [number[line[name]] for line in lines]
    ids, asked = [row_id for row_id, _ in rows], [question for _, question in rows]
    return {"shard": SHARD, "names": names, "columns": columns, "ids": ids, "questions": asked}


class _Texts:
    """The texts of a shard, each once; asking for one gives its number."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}

    def __call__(self, pieces: Pieces) -> int:
        return self.numbers.setdefault(json.dumps(pieces), len(self.numbers))

    def all(self) -> list[Pieces]:
        return [json.loads(text) for text in self.numbers]


def shard_of(lines: Sequence[Mapping], store: Store, rows: Mapping[tuple[str, str], Mapping]) -> dict[str, object]:
    """What stands behind these judgments: `texts` in pieces, and `judgments` that name them by number.

    A judgment has its call's `key`, the `model` that answered, `finish`, `tokens` (in, out, reasoning, cached), the
    `messages` as (role, text), what was `sent` with them, and `reply`. Without a reply it has an `error`, and the
    `row`'s texts if the condition leaves them as they are.
    """
    keys = [line["key"] for line in lines]
    replies = store.get(keys)
    lost = [key for key in keys if key not in replies]
    errors = store.failures(lost)
    failed = dict(store.select("SELECT key, request FROM failures WHERE key IN ({})", lost))
    texts, judgments = _Texts(), []
    for line in lines:
        key, reply = line["key"], replies.get(line["key"])
        facts = {"key": key, "model": line["model"], "finish": line["finish_reason"]}
        facts["tokens"] = [line[name] for name in _TOKENS]
        facts |= _request(reply.request if reply else failed.get(key, ""), texts)
        facts |= _reply(reply, line, texts) if reply else {"error": errors.get(key, "")}
        if "messages" not in facts and line["condition"] == PRIMARY_RUN and (line["run"], line["row_id"]) in rows:
            row = rows[line["run"], line["row_id"]]
            facts["row"] = texts([(name, row[name]) for name in FIELDS])
        judgments.append(facts)
    return {"texts": texts.all(), "judgments": judgments}


def _request(request: str, texts: _Texts) -> dict[str, object]:
    if not request:
        return {}
    sent = json.loads(request)
    messages = [(each["role"], each["content"]) for each in sent["messages"]]
    pieces = [(role, message_pieces(text) if role == "user" else [("", text)]) for role, text in messages]
    settings = json.dumps(sent.get("params", {}), indent=1, ensure_ascii=False)
    return {"messages": [(role, texts(each)) for role, each in pieces], "sent": texts([("", settings)])}


def _reply(reply: Stored, line: Mapping, texts: _Texts) -> dict[str, object]:
    return {"reply": texts(reply_pieces(reply.text or "", reply.finish_reason, str(line["verdict"])))}


def script(before: str, value: object, after: str) -> bytes:
    """A script that hands a value to a page. No text in it can end the script or a line of it."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
    return f"{before}{text}{after}\n".encode()


def write_judgments(folder: Path, lines: Sequence[Mapping], store: Store) -> Iterator[Path]:
    """Write the list of these judgments and the shards behind it to `folder`; gives each file when it is there."""
    datasets = sorted({line["dataset"] for line in lines})
    frames = {run: read_rows(run, datasets) for run in dict.fromkeys(line["run"] for line in lines)}
    rows = {(run, row["row_id"]): row for run, frame in frames.items() for row in frame.to_dict("records")}
    questions = {key: row["question"] for key, row in rows.items()}
    yield write_bytes(folder / "judgments.js", script("window.JUDGMENTS=", list_of(lines, questions), ";"))
    for number, start in enumerate(range(0, len(lines), SHARD)):
        shard = shard_of(lines[start : start + SHARD], store, rows)
        yield write_bytes(folder / f"shard-{number:04}.js", script(f"window.SHARD({number},", shard, ");"))
