"""Labels by hand: which rows are drawn, in what order they are shown, and each label saved at once.

The widget that shows them is `lib.label_widget`; what labels say of designs is `lib.standards`.
"""

from __future__ import annotations

import csv
import hashlib
import io
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas as pd
from filelock import FileLock

from lib import paths
from lib.donors import digest
from lib.labels import LABELS
from lib.recorded import canonical, now
from lib.results import write_bytes

# Where a reader cannot decide. It is kept and counted, and is no label.
CANNOT_TELL = "cannot_tell"
CHOICES = (*LABELS, CANNOT_TELL)
COLUMNS = ("row_id", "label", "note", "at", "guide", "row_sha256")
# What an annotator sees of a row.
SHOWN = ("question", "reference", "candidate")
# The name of the standard that needs no annotator.
CONSTRUCTION = "construction"

_VERSION = re.compile(r"\A# Label guide, version (\S+)\s*$", re.M)


def guide() -> tuple[str, str]:
    """Version and text of the label guide, `data/labels/GUIDE.md`. Raises ValueError if it states no version."""
    path = paths.LABELS / "GUIDE.md"
    text = path.read_text(encoding="utf-8")
    if not (found := _VERSION.match(text)):
        raise ValueError(f"{paths.shown(path)}: its first line must be `# Label guide, version N`")
    return found[1], text[found.end() :].strip()


def draw(rows: pd.DataFrame, per_dataset: int = 20, seed: int = 0) -> pd.DataFrame:
    """Rows to be labelled: `per_dataset` of each dataset, as many of each kind as can be, in a seeded order.

    `rows` has the columns of `lib.labels.build_rows`. Drawn by sha256 of (seed, row id), so a larger set holds the
    smaller one; a dataset with fewer rows gives them all. The order mixes datasets and kinds, so that it tells
    nothing. Raises ValueError for a number that is none.
    """
    if not isinstance(per_dataset, int) or isinstance(per_dataset, bool) or per_dataset < 1:
        raise ValueError(f"per_dataset is {per_dataset!r}; give a whole number of at least 1")
    keys = [digest(seed, "labelling", row_id) for row_id in rows["row_id"]]
    keyed = rows.assign(_key=keys).sort_values("_key", kind="stable")
    # The first of each kind, then the second of each, and so on.
    turn = keyed.groupby(["dataset", "kind"], sort=False).cumcount()
    dealt = keyed.assign(_turn=turn).sort_values(["_turn", "_key"], kind="stable")
    drawn = dealt.groupby("dataset", sort=False).head(per_dataset)
    return drawn.sort_values("_key", kind="stable").drop(columns=["_key", "_turn"]).reset_index(drop=True)


def row_hash(row: Mapping[str, object]) -> str:
    """What a label belongs to: the first 16 hex digits of the sha256 of the row's three texts."""
    text = canonical({name: row[name] for name in SHOWN})
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def label_file(annotator: str) -> Path:
    """Where an annotator's labels stand. Raises ValueError for a name that makes no file, or is a standard's."""
    if not re.fullmatch(r"[^\W_][\w-]*", annotator) or annotator == CONSTRUCTION:
        raise ValueError(
            f"annotator {annotator!r}: begin with a letter or a digit and use letters, digits, - and _, for it names "
            f"the file; {CONSTRUCTION} is taken"
        )
    return paths.LABELS / f"{annotator}.csv"


def read_labels(path: Path, rows: pd.DataFrame) -> pd.DataFrame:
    """A file of labels, in its order: columns of `COLUMNS`, then its own others; all text, empty where missing.

    A file made elsewhere needs `row_id` and `label` alone. Raises ValueError that names the file, the line and the
    field for a file without them, an unknown row, one that comes twice, an unknown label, a line with more values
    than columns, and a label whose row has other texts now.
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
    if twice := {name for name in columns if columns.count(name) > 1}:
        raise ValueError(f"{shown}, line 1: the column {', '.join(sorted(twice))} stands twice; keep one")
    hashes = {row["row_id"]: row_hash(row) for row in rows.to_dict("records")}
    found: dict[str, dict[str, str]] = {}
    for number, values in lines[1:]:
        where = f"{shown}, line {number}"
        if len(values) > len(columns):
            raise ValueError(f"{where}: {len(values)} values in {len(columns)} columns; put quotes around commas")
        line = dict(zip(columns, values, strict=False))
        row_id, label = (line.get(name, "").strip() for name in ("row_id", "label"))
        if row_id not in hashes:
            raise ValueError(
                f"{where}, row_id: {row_id!r} is none of these {len(hashes)} rows; check source, n_questions and "
                "seed, and give labels of other rows another annotator's name"
            )
        if row_id in found:
            raise ValueError(f"{where}, row_id: {row_id} stands twice; keep one line of it")
        if label not in CHOICES:
            raise ValueError(f"{where}, label: {label!r} is none of {', '.join(CHOICES)}")
        if (sha := line.get("row_sha256", "").strip()) and sha != hashes[row_id]:
            raise ValueError(
                f"{where}, row_sha256: the texts of {row_id} have changed since it was labelled; take the line out "
                "and label the row again"
            )
        found[row_id] = dict.fromkeys(COLUMNS, "") | line | {"row_id": row_id, "label": label}
    names = list(dict.fromkeys([*COLUMNS, *columns]))
    return pd.DataFrame(found.values(), columns=names).fillna("").astype("str")


def _lines(text: str):
    """The lines of a CSV that hold something, each with its number in the file."""
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    for values in reader:
        if any(value.strip() for value in values):
            yield reader.line_num, values


def gather(rows: pd.DataFrame, annotators: Sequence[str]) -> pd.DataFrame:
    """The labels of several annotators, one under the other: `annotator` and the columns of `COLUMNS`.

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
        parts.append(read_labels(path, rows)[list(COLUMNS)].assign(annotator=annotator))
    return pd.concat(parts, ignore_index=True)


def standards(rows: pd.DataFrame, given: pd.DataFrame) -> dict[str, pd.Series]:
    """Every label standard: construction, then one an annotator of `gather`. Row ids to labels, missing if none."""
    ids = rows["row_id"].tolist()
    found = {CONSTRUCTION: pd.Series(rows["label"].tolist(), index=ids, dtype="str")}
    for annotator, part in given.groupby("annotator", sort=False):
        labels = part.set_index("row_id")["label"]
        found[str(annotator)] = labels[labels != CANNOT_TELL].reindex(ids)
    return found


def progress(given: pd.DataFrame, drawn: pd.DataFrame) -> pd.DataFrame:
    """How far each annotator of `gather` is, one line each, as texts for people."""
    lines = []
    for annotator, part in given.groupby("annotator", sort=False):
        of_drawn = int(part["row_id"].isin(drawn["row_id"]).sum())
        lines.append(
            {"annotator": annotator, "drawn rows labelled": f"{of_drawn} of {len(drawn)}"}
            | {"other rows": len(part) - of_drawn, "cannot tell": int((part["label"] == CANNOT_TELL).sum())}
            | {"guide version": ", ".join(sorted(set(part["guide"]) - {""})) or "unknown"}
        )
    return pd.DataFrame(lines)


class Session:
    """One annotator's way through the rows: where they are, what is labelled, each label on the disk at once.

    `rows` are those to be labelled, `known` all that the annotator's file may hold labels of. Opening a session again
    goes on at the first row without a label. Raises ValueError for a bad label file and a name that makes no file.
    """

    def __init__(self, rows: pd.DataFrame, annotator: str, version: str, known: pd.DataFrame | None = None):
        self.path = label_file(annotator)
        self.rows, self.version = rows.reset_index(drop=True), version
        self._known = rows if known is None else known
        self._labels = self._read()
        self.place = self._next(-1)

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def done(self) -> int:
        """How many rows have a label."""
        return sum(row_id in self._labels for row_id in self.rows["row_id"])

    @property
    def finished(self) -> bool:
        """Whether every row has one and none is looked at again."""
        return self.place >= len(self)

    def current(self) -> dict[str, str]:
        """What is shown of the row at this place: its texts alone, with the label and note given before, if any."""
        row = self.rows.iloc[self.place]
        before = self._labels.get(row["row_id"], {})
        return {name: row[name] for name in SHOWN} | {name: before.get(name, "") for name in ("label", "note")}

    def label(self, label: str, note: str = "") -> None:
        """Save a label for the current row and go on to the next one without.

        Raises ValueError for an unknown label, and for a file that cannot be read any more; then nothing changes.
        """
        if label not in CHOICES:
            raise ValueError(f"label {label!r} is none of {', '.join(CHOICES)}")
        row = self.rows.iloc[self.place]
        line = {"row_id": row["row_id"], "label": label, "note": note, "at": now(), "guide": self.version}
        self.path.parent.mkdir(parents=True, exist_ok=True)
        # What another window has saved meanwhile stays, and so do other columns of a file made elsewhere.
        with FileLock(self.path.with_name(f".{self.path.name}.lock")):
            labels = self._read()
            before = labels.get(row["row_id"], {})
            labels[row["row_id"]] = before | line | {"row_sha256": row_hash(row)}
            table = pd.DataFrame(labels.values()).fillna("")
            # A lone surrogate, which a browser may send, is no UTF-8.
            write_bytes(self.path, table.to_csv(index=False, lineterminator="\n").encode("utf-8", "replace"))
        self._labels = labels
        self.place = self._next(self.place)

    def back(self) -> None:
        """Look at the row before again."""
        self.place = max(0, min(self.place, len(self)) - 1)

    def _next(self, place: int) -> int:
        later = [n for n in range(place + 1, len(self)) if self.rows["row_id"][n] not in self._labels]
        earlier = [n for n in range(max(place, 0)) if self.rows["row_id"][n] not in self._labels]
        return (later or earlier or [len(self)])[0]

    def _read(self) -> dict[str, dict[str, str]]:
        if not self.path.exists():
            return {}
        return {line["row_id"]: line for line in read_labels(self.path, self._known).to_dict("records")}
