"""Labels by hand: which rows are drawn, in what order they are shown, and each label saved at once.

The widget that shows them is `lib.label_widget`, the files are `lib.label_files`, and what labels say of designs is
`lib.standards`.
"""

from __future__ import annotations

import re

import pandas as pd
from filelock import FileLock

from lib import paths
from lib.donors import digest
from lib.label_files import CHOICES, SHOWN, label_file, read_labels, row_hash
from lib.recorded import now
from lib.results import write_table

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


class Unfinished(Exception):
    """Rows are left to label. A notebook shows its one line and no traceback."""

    def _render_traceback_(self) -> list[str]:
        return [str(self)]


class Session:
    """One annotator's way through the rows: where they are, what is labelled, each label on the disk at once.

    `rows` are those to be labelled, `known` all rows of the same `source` (see `read_labels`). Opening a session
    again goes on at the first row without a label. Raises ValueError for a bad label file and a name that makes none.
    """

    def __init__(self, rows: pd.DataFrame, annotator: str, version: str, known: pd.DataFrame, source: str):
        self.path = label_file(annotator)
        self.rows, self.version = rows.reset_index(drop=True), version
        self._known, self._source = known, source
        self._labels = self._read()
        self.place = self._next(-1)

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def done(self) -> int:
        """How many rows have a label."""
        return sum((self._source, row_id) in self._labels for row_id in self.rows["row_id"])

    @property
    def finished(self) -> bool:
        """Whether every row has one and none is looked at again."""
        return self.place >= len(self)

    def current(self) -> dict[str, str]:
        """What is shown of the row at this place: its texts alone, with the label and note given before, if any."""
        row = self.rows.iloc[self.place]
        before = self._labels.get((self._source, row["row_id"]), {})
        return {name: row[name] for name in SHOWN} | {name: before.get(name, "") for name in ("label", "note")}

    def label(self, label: str, note: str = "") -> None:
        """Save a label for the current row and go on to the next one without.

        Raises ValueError for an unknown label, and for a file that cannot be read any more; then nothing changes.
        """
        if label not in CHOICES:
            raise ValueError(f"label {label!r} is none of {', '.join(CHOICES)}")
        if self.finished:
            raise ValueError("every row has a label; go back to change one")
        row = self.rows.iloc[self.place]
        # A lone surrogate, which a browser may send, is no UTF-8; and a line ends in one way.
        note = "\n".join(note.encode("utf-8", "replace").decode().splitlines())
        line = {"row_id": row["row_id"], "label": label, "note": note, "at": now(), "guide": self.version}
        line |= {"source": self._source, "row_sha256": row_hash(row)}
        self.path.parent.mkdir(parents=True, exist_ok=True)
        # What another window has saved meanwhile stays, and so do other columns of a file made elsewhere.
        with FileLock(self.path.with_name(f".{self.path.name}.lock")):
            labels, known = self._read(), self._labels
            key = (self._source, row["row_id"])
            if (there := labels.get(key)) != known.get(key):
                self._labels = labels
                said = there["label"].replace("_", " ") if there else "nothing"
                raise ValueError(f"another window labelled this row meanwhile, as {said}; look at it again")
            labels[key] = labels.get(key, {}) | line
            # Through a link, to the file that it names.
            write_table(self.path.resolve(), pd.DataFrame(labels.values()).fillna(""))
        self._labels = labels
        self.place = self._next(self.place)

    def stop_until_finished(self) -> None:
        """Raise Unfinished, which ends a notebook's run here, if a row has no label."""
        if self.done < len(self):
            raise Unfinished(
                "Label these rows first: what follows would show labels. Then run the notebook again, with your name "
                "among annotators."
            )

    def back(self) -> None:
        """Look at the row before again."""
        self.place = max(0, min(self.place, len(self)) - 1)

    def _next(self, place: int) -> int:
        unlabelled = [n for n, row_id in enumerate(self.rows["row_id"]) if (self._source, row_id) not in self._labels]
        return next((n for n in unlabelled if n > place), next(iter(unlabelled), len(self)))

    def _read(self) -> dict[tuple[str, str], dict[str, str]]:
        if self.path.is_symlink() and not self.path.exists():
            raise ValueError(
                f"{paths.shown(self.path.parent)}/{self.path.name} is a link to a file that is not there"
            )
        if not self.path.exists():
            return {}
        given = read_labels(self.path, self._known, self._source)
        return {(line["source"], line["row_id"]): line for line in given.to_dict("records")}
