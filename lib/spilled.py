"""Replies that could not be committed: kept in a file beside the store, and taken in by the next run."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from lib import paths
from lib.recorded import Stored, read_recorded, write_recorded
from lib.redact import redact
from lib.store import Store


def spill(store: Store, calls: Sequence[Stored]) -> Path:
    """Write replies to a file beside the store, or where else there is room; returns it. OSError if nowhere."""
    name = f"{store.path.name}.spilled-{time.time_ns()}.jsonl.gz"
    for folder in (store.path.parent, Path(tempfile.gettempdir())):
        with suppress(OSError):
            write_recorded(folder / name, calls, whole=True)
            return folder / name
    raise OSError(f"{len(calls)} replies fit on no disk")


def place(path: Path) -> str:
    """A path that a person can find: from the repository, or in full."""
    return paths.shown(path) if path.is_relative_to(paths.ROOT) else redact(str(path))


def take_in(store: Store) -> int:
    """Commit the replies of the files that `spill` wrote beside the store, and remove them; returns how many."""
    n = 0
    for file in sorted(store.path.parent.glob(f"{store.path.name}.spilled-*.jsonl.gz")):
        calls = read_recorded(file)
        store.put(calls)
        file.unlink(missing_ok=True)
        n += len(calls)
    return n
