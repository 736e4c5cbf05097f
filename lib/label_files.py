"""Files of labels: read and checked line by line, and made into label standards.

One CSV an annotator in `data/labels`. Which rows are labelled, and saving a label, is `lib.labelling`.
"""

from __future__ import annotations

import csv
import hashlib
import io
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas as pd

from lib import paths
from lib.labels import LABELS
from lib.recorded import canonical

# Where a reader cannot decide. It is kept and counted, and is no label.
CANNOT_TELL = "cannot_tell"
CHOICES = (*LABELS, CANNOT_TELL)
COLUMNS = ("row_id", "label", "note", "at", "guide", "source", "row_sha256")
# What an annotator sees of a row.
SHOWN = ("question", "reference", "candidate")
# The name of the standard that needs no annotator.
CONSTRUCTION = "construction"
# In tables a standard is a column: an annotator cannot have the name of another one.
_TAKEN = {
    CONSTRUCTION,
    "row_id",
    "dataset",
    "question_id",
    "kind",
    "label",
    "complexity",
    "note",
    "judge",
    "pair",
    *SHOWN,
}


def row_hash(row: Mapping[str, object]) -> str:
    """What a label belongs to: the first 16 hex digits of the sha256 of the row's three texts."""
    text = canonical({name: row[name] for name in SHOWN})
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def label_file(annotator: str) -> Path:
    """Where an annotator's labels stand. Raises ValueError for a name that makes no file, or is a column's."""
    if not re.fullmatch(r"[^\W_][\w-]{0,59}", annotator):
        raise ValueError(
            f"annotator {annotator!r}: begin with a letter or a digit and use at most 60 letters, digits, - and _, "
            "for it names the file"
        )
    if annotator in _TAKEN:
        raise ValueError(f"annotator {annotator!r}: a column of the tables has that name; take another one")
    return paths.LABELS / f"{annotator}.csv"


def read_labels(path: Path, rows: pd.DataFrame, source: str) -> pd.DataFrame:
    """A file of labels, in its order: columns of `COLUMNS`, then its own others; all text, empty where missing.

    `rows` are of `source` (`lib.params.source_name`). Labels of another source are not looked at, nor are those given
    here, which have a hash, of rows that another selection holds. A file made elsewhere needs `row_id` and `label`
    alone, and is taken to be of these rows. Raises ValueError that names the file, the line and the field for a file
    without them, an unknown row, one that comes twice, an unknown label, a line with more values than columns, and a
    label whose row has other texts now.
    """
    shown = paths.shown(path)
    try:
        text = path.read_text(encoding="utf-8-sig")
        lines = list(_lines(text))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        said = getattr(error, "strerror", None) or error
        raise ValueError(f"{shown} cannot be read as CSV in UTF-8: {said}") from None
    columns = lines[0][1] if lines else []
    if missing := [name for name in ("row_id", "label") if name not in columns]:
        raise ValueError(
            f"{shown}, line 1: no column {' and no column '.join(missing)}; a label file has row_id and label, "
            "separated by commas"
        )
    if "" in columns:
        raise ValueError(f"{shown}, line 1: a column without a name; name it or take it out")
    if twice := {name for name in columns if columns.count(name) > 1}:
        raise ValueError(f"{shown}, line 1: the column {', '.join(sorted(twice))} stands twice; keep one")
    hashes = {row["row_id"]: row_hash(row) for row in rows.to_dict("records")}
    found: dict[tuple[str, str], dict[str, str]] = {}
    for number, values in lines[1:]:
        where = f"{shown}, line {number}"
        if len(values) > len(columns):
            raise ValueError(f"{where}: {len(values)} values in {len(columns)} columns; put quotes around commas")
        line = dict(zip(columns, values, strict=False))
        row_id, label, of = (line.get(name, "").strip() for name in ("row_id", "label", "source"))
        of, sha = of or source, line.get("row_sha256", "").strip()
        # What was labelled here and is not among these rows stands in a larger selection: it is kept, and not used.
        elsewhere = of != source or (bool(sha) and row_id not in hashes)
        if row_id not in hashes and not elsewhere:
            raise ValueError(
                f"{where}, row_id: {row_id!r} is none of these {len(hashes)} rows; check source, datasets, "
                "n_questions and seed"
            )
        if (of, row_id) in found:
            raise ValueError(f"{where}, row_id: {row_id} stands twice; keep one line of it")
        if label not in CHOICES and of == source:
            raise ValueError(f"{where}, label: {label!r} is none of {', '.join(CHOICES)}")
        if sha and not elsewhere and sha != hashes[row_id]:
            raise ValueError(
                f"{where}, row_sha256: the texts of {row_id} have changed since it was labelled; take the line out "
                "and label the row again"
            )
        found[of, row_id] = dict.fromkeys(COLUMNS, "") | line | {"row_id": row_id, "label": label, "source": of}
    names = list(dict.fromkeys([*COLUMNS, *columns]))
    return pd.DataFrame(found.values(), columns=names).fillna("").astype("str")


def _lines(text: str):
    """The lines of a CSV that hold something, each with its number in the file."""
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    for values in reader:
        if any(value.strip() for value in values):
            yield reader.line_num, values


def gather(rows: pd.DataFrame, annotators: Sequence[str], source: str) -> pd.DataFrame:
    """The labels that several annotators gave rows of `source`: `annotator` and the columns of `COLUMNS`.

    Raises ValueError for an annotator named twice or without a file, and as `read_labels`.
    """
    if len(set(annotators)) < len(annotators):
        raise ValueError(f"annotators must be named once each, not {list(annotators)}")
    parts = [pd.DataFrame(columns=["annotator", *COLUMNS], dtype="str")]
    for annotator in annotators:
        path = label_file(annotator)
        if not path.exists():
            there = ", ".join(sorted(each.stem for each in paths.LABELS.glob("*.csv"))) or "nobody"
            raise ValueError(f"annotators: there is no {paths.shown(path)}; there are labels by {there}")
        given = read_labels(path, rows, source)
        mine = (given["source"] == source) & given["row_id"].isin(rows["row_id"])
        parts.append(given.loc[mine, list(COLUMNS)].assign(annotator=annotator))
    return pd.concat(parts, ignore_index=True)


def standards(rows: pd.DataFrame, given: pd.DataFrame) -> dict[str, pd.Series]:
    """Every label standard: construction, then one an annotator of `gather`. Row ids to labels, missing if none."""
    ids = rows["row_id"].tolist()
    found = {CONSTRUCTION: pd.Series(rows["label"].tolist(), index=ids, dtype="str")}
    for annotator, part in given.groupby("annotator", sort=False):
        labels = part.set_index("row_id")["label"]
        found[str(annotator)] = labels[labels != CANNOT_TELL].reindex(ids)
    return found


def progress(given: pd.DataFrame, drawn: pd.DataFrame, annotators: Sequence[str]) -> pd.DataFrame:
    """How far each annotator of `gather` is, one line each, as texts for people."""
    lines = []
    for annotator in annotators:
        part = given[given["annotator"] == annotator]
        of_drawn = int(part["row_id"].isin(drawn["row_id"]).sum())
        lines.append(
            {"annotator": annotator, "drawn rows labelled": f"{of_drawn} of {len(drawn)}"}
            | {"other rows": len(part) - of_drawn, "cannot tell": int((part["label"] == CANNOT_TELL).sum())}
            | {"guide version": ", ".join(sorted(set(part["guide"]) - {""})) or "unknown"}
        )
    return pd.DataFrame(lines)
