"""Raw benchmark files to records, one a row, each knowing its place for an error line.

Reads CSV, JSON, JSONL and Parquet files whole. It tells the file format by content, never guesses a type and
never alters a text. It does not know which fields a dataset needs: that is `lib.sources`. It reads no hub: that
is `lib.hub`.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lib.paths import shown

PREFERRED_SPLIT = "dev"

_TYPE_NAMES = {
    type(None): "nothing",
    bool: "true or false",
    int: "a number",
    float: "a number",
    str: "text",
    list: "a list",
    dict: "an object",
}


@dataclass(frozen=True)
class Record:
    """One raw row, or an item nested in one. `place` is what an error names: file, row, item.

    The readers below raise ValueError with one line (place, field, what was found, what to do) for a missing
    field or a wrong type. A null counts as an empty text or list.
    """

    place: str
    fields: dict[str, Any]

    def fail(self, field: str, problem: str) -> ValueError:
        return ValueError(f"{self.place}, field '{field}': {problem}")

    def _get(self, field: str) -> Any:
        if field not in self.fields:
            raise self.fail(field, "missing; every row needs it")
        return self.fields[field]

    def _checked(self, value: Any, field: str) -> str:
        if value is None:
            return ""
        if not isinstance(value, str):
            raise self.fail(field, f"text is needed, found {_named(value)}; write it as a quoted string")
        if any("\ud800" <= char <= "\udfff" for char in value):
            raise self.fail(field, "half of a surrogate pair; write the text as valid Unicode")
        return value

    def text(self, field: str) -> str:
        return self._checked(self._get(field), field)

    def identifier(self, field: str) -> str:
        """The id as text, verbatim; a whole number becomes its digits."""
        value = self._get(field)
        if isinstance(value, int) and not isinstance(value, bool):
            return str(value)
        if not isinstance(value, str):
            raise self.fail(field, f"an id is needed, found {_named(value)}; write ids as quoted strings")
        if not value.strip():
            raise self.fail(field, "the id is empty; give every row an id of its own")
        return self._checked(value, field)

    def texts(self, field: str) -> list[str]:
        return [self._checked(item, f"{field}[{i}]") for i, item in enumerate(self._list(field))]

    def groups(self, field: str) -> list[list[str]]:
        items = self._list(field)
        return [Record(self.place, {f"{field}[{i}]": x}).texts(f"{field}[{i}]") for i, x in enumerate(items)]

    def records(self, field: str) -> list[Record]:
        """The nested items of a list of objects, or of an object of equally long lists (a hub habit)."""
        value = self._get(field)
        if isinstance(value, dict):
            value = self._transposed(value, field)
        items = Record(self.place, {field: value})._list(field)
        for i, item in enumerate(items):
            if not isinstance(item, dict):
                raise self.fail(f"{field}[{i}]", f"an object is needed, found {_named(item)}")
        return [Record(f"{self.place}, {field}[{i}]", item) for i, item in enumerate(items)]

    def _list(self, field: str) -> list[Any]:
        value = self._get(field)
        if value is None:
            return []
        if not isinstance(value, list):
            raise self.fail(field, f"a list is needed, found {_named(value)}; write it in square brackets")
        return value

    def _transposed(self, columns: dict[str, Any], field: str) -> list[dict[str, Any]]:
        if not all(isinstance(column, list) for column in columns.values()):
            raise self.fail(field, "an object here must hold lists; write a list of objects instead")
        if len({len(column) for column in columns.values()}) > 1:
            raise self.fail(field, "its lists differ in length; write a list of objects instead")
        return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]


@dataclass(frozen=True)
class Raw:
    """What was read: the name to show, the records in file order, and the facts that identify the source."""

    name: str
    records: list[Record]
    source: dict[str, Any]


def read_file(path: str | Path) -> Raw:
    """Reads a local file whole. Blank lines of CSV and JSONL are passed over.

    `source`: file (the name without its folder), sha256 of the bytes, and the split if the file holds splits.
    Raises ValueError with one line naming file, row or line, and remedy.
    """
    path, name = Path(path), shown(path)
    if path.is_dir():
        raise ValueError(f"{name}: a folder; give one file in it")
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise ValueError(f"{name}: no such file; check the path") from None
    except OSError as error:
        raise ValueError(f"{name}: cannot be read ({error.strerror}); check its rights") from None
    source: dict[str, Any] = {"file": path.name, "sha256": hashlib.sha256(data).hexdigest()}
    if data.startswith(b"PAR1"):
        return Raw(name, _parquet(data, name), source)
    text = _decoded(data, name)
    if not text.strip():
        raise ValueError(f"{name}: the file is empty; fetch it again")
    if path.suffix in (".json", ".jsonl") or (path.suffix != ".csv" and text.lstrip()[:1] in ("{", "[")):
        split, records = _json(text, name)
        return Raw(name, records, source | ({"split": split} if split else {}))
    return Raw(name, list(_csv(text, name)), source)


def _named(value: Any) -> str:
    return _TYPE_NAMES.get(type(value), type(value).__name__)


def _decoded(data: bytes, name: str) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise ValueError(f"{name}, line {line}: not UTF-8; save the file as UTF-8") from None


def _csv(text: str, name: str) -> Iterator[Record]:
    csv.field_size_limit(2**31 - 1)  # its default of 128 KB refuses a long reference
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        rows = [(reader.line_num, row) for row in reader if row]
    except csv.Error as error:
        raise ValueError(f"{name}, line {reader.line_num}: broken CSV ({error}); mend its quotes") from None
    header = rows[0][1]
    if len(set(header)) < len(header):
        raise ValueError(f"{name}, line 1: a column name appears twice; give every column a name of its own")
    for i, (line, row) in enumerate(rows[1:], 1):
        if len(row) != len(header):
            problem = f"{len(row)} fields where the header has {len(header)}; quote cells that hold commas"
            raise ValueError(f"{name}, row {i} (ends on line {line}): {problem}")
        yield Record(f"{name}, row {i}", dict(zip(header, row, strict=True)))


def _parquet(data: bytes, name: str) -> list[Record]:
    # Slow to import, and text files need none of it.
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        rows = pq.ParquetFile(io.BytesIO(data)).read().to_pylist()
    except (pa.ArrowException, OSError) as error:
        raise ValueError(f"{name}: broken Parquet ({type(error).__name__}); fetch the file again") from None
    return [Record(f"{name}, row {i}", row) for i, row in enumerate(rows, 1)]


def _json(text: str, name: str) -> tuple[str | None, list[Record]]:
    """The split's name, if the file is `{split: {id: row}}`, and the records."""
    try:
        whole = _loaded(text, name)
    except json.JSONDecodeError as error:
        if error.msg == "Extra data":  # the first line is whole by itself: JSONL
            return None, list(_jsonl(text, name))
        where = f"line {error.lineno}, column {error.colno}"
        raise ValueError(f"{name}, {where}: broken JSON ({error.msg}); fetch the file again") from None
    if isinstance(whole, dict) and whole and all(isinstance(rows, dict) for rows in whole.values()):
        return _split(whole, name)
    rows = whole if isinstance(whole, list) else [whole]
    return None, [_record(row, f"{name}, row {i}") for i, row in enumerate(rows, 1)]


def _split(splits: dict[str, dict], name: str) -> tuple[str, list[Record]]:
    split = PREFERRED_SPLIT if PREFERRED_SPLIT in splits or len(splits) > 1 else next(iter(splits))
    if split not in splits:
        found = ", ".join(list(splits)[:5])
        raise ValueError(f"{name}: holds the splits {found}; keep one or name one '{PREFERRED_SPLIT}'")
    rows = enumerate(splits[split].items(), 1)
    records = [(key, _record(row, f"{name}, {split} row {i}")) for i, (key, row) in rows]
    return split, [Record(record.place, {"sample_id": key, **record.fields}) for key, record in records]


def _jsonl(text: str, name: str) -> Iterator[Record]:
    # Not splitlines: a string may hold U+2028, which it would split at.
    for i, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            row = _loaded(line, f"{name}, line {i}")
        except json.JSONDecodeError as error:
            problem = f"broken JSON ({error.msg}), maybe half-written; mend or remove the line"
            raise ValueError(f"{name}, line {i}: {problem}") from None
        yield _record(row, f"{name}, line {i}")


def _record(row: Any, place: str) -> Record:
    if not isinstance(row, dict):
        raise ValueError(f"{place}: an object is needed, found {_named(row)}; write every row as one object")
    return Record(place, row)


def _loaded(text: str, place: str) -> Any:
    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            keys = [key for key, _ in pairs]
            twice = next(key for i, key in enumerate(keys) if key in keys[:i])
            raise ValueError(f"{place}: the key {twice!r} appears twice in one object; remove one")
        return found

    try:
        return json.loads(text, object_pairs_hook=unique)
    except RecursionError:
        raise ValueError(f"{place}: nested too deep to be rows of a benchmark; check the file") from None
