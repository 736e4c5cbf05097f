"""Every reply ever received, in SQLite, by call key; recorded replies as a read-only layer under it.

A reply is never overwritten or deleted. Failures stand in a table beside and are never served. Several
processes may share one file: claims keep them from asking the same call at the same time.
"""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import contextmanager, suppress
from dataclasses import astuple
from pathlib import Path
from typing import Any

import tenacity

from lib import paths
from lib.owners import alive, end_owner, start_owner
from lib.recorded import COLUMNS, Stored, now, read_recorded
from lib.redact import redact

SCHEMA_VERSION = 2
_CHUNK = 500
# Between two tries at a file that another program holds, beyond SQLite's own 5 seconds.
_LOCKED_S = 0.5

_TABLES = """
CREATE TABLE IF NOT EXISTS calls (
  key TEXT PRIMARY KEY, request TEXT NOT NULL, text TEXT, finish_reason TEXT, model TEXT,
  tokens_in INTEGER, tokens_out INTEGER, tokens_reasoning INTEGER, tokens_cached INTEGER,
  latency_s REAL, attempts INTEGER, sdk TEXT, at TEXT, raw TEXT, batch TEXT);
CREATE TABLE IF NOT EXISTS failures (
  key TEXT NOT NULL, request TEXT NOT NULL, error TEXT, kind TEXT, at TEXT, attempts INTEGER);
CREATE INDEX IF NOT EXISTS failures_key ON failures (key);
CREATE TABLE IF NOT EXISTS claims (key TEXT PRIMARY KEY, owner TEXT NOT NULL, renewed REAL NOT NULL);
CREATE TABLE IF NOT EXISTS batches (
  id TEXT PRIMARY KEY, judge TEXT NOT NULL, provider TEXT NOT NULL, endpoint TEXT NOT NULL, wire TEXT,
  state TEXT NOT NULL, n INTEGER NOT NULL, owner TEXT NOT NULL, since REAL NOT NULL, note TEXT);
CREATE TABLE IF NOT EXISTS batch_calls (batch TEXT NOT NULL, key TEXT NOT NULL, request TEXT NOT NULL,
  PRIMARY KEY (batch, key)) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS batch_calls_key ON batch_calls (key)
"""
# What a store of version 1 lacks.
_FROM_1 = ("ALTER TABLE calls ADD COLUMN batch TEXT", "ALTER TABLE failures ADD COLUMN attempts INTEGER")
# Two processes that open a new file at once: the change to WAL does not wait as other statements do.
_LOCKED = tenacity.retry_if_exception(lambda e: isinstance(e, sqlite3.OperationalError) and "locked" in str(e))
_A_MOMENT, _TEN_SECONDS = tenacity.wait_random(0.02, 0.2), tenacity.stop_after_delay(10)
# States of a batch whose calls are paid for or may be, and have no reply here yet.
OPEN = ("submitting", "open")
_INSERT = f"INSERT OR IGNORE INTO calls ({', '.join(COLUMNS)}) VALUES ({', '.join('?' * len(COLUMNS))})"


class Store:
    """The replies in `path`, over those recorded in `recorded` (JSONL, gzipped, one `Stored` a line).

    With `read_only` the file is not changed. Raises ValueError for one that is no store or of another version, and
    for a recorded file with a bad line.
    """

    def __init__(
        self, path: str | Path = paths.CALLS, recorded: Sequence[Path] | None = None, *, read_only: bool = False
    ):
        if recorded is None:
            recorded = sorted(paths.RECORDED.glob("*.jsonl.gz"))
        self._recorded = {call.key: call for file in recorded for call in read_recorded(file)}
        self.path, self._owner = Path(path), start_owner()
        if str(path) != ":memory:":
            Path(path).parent.mkdir(parents=True, exist_ok=True)
        try:
            address = f"{Path(path).resolve().as_uri()}?mode=ro" if read_only else path
            self._db = sqlite3.connect(address, timeout=5, isolation_level=None, uri=read_only)
            for attempt in tenacity.Retrying(retry=_LOCKED, wait=_A_MOMENT, stop=_TEN_SECONDS, reraise=True):
                with attempt:
                    self._version() if read_only else self._prepare()
        except sqlite3.Error as error:
            raise ValueError(f"{paths.shown(path)} cannot be opened as a store of replies: {error}") from None
        except ValueError as error:
            self._db.close()
            raise ValueError(f"{paths.shown(path)} {error}") from None

    def _prepare(self) -> None:
        self._version()
        self._db.execute("PRAGMA journal_mode=WAL")
        # A reply is paid for: it is on the disk, not only handed to the system, before it counts as arrived.
        self._db.execute("PRAGMA synchronous=FULL")
        with self.transaction():
            for statement in _FROM_1 if self._version() == 1 else ():
                self._db.execute(statement)
            for statement in _TABLES.split(";"):
                self._db.execute(statement)
            self._db.execute(f"PRAGMA user_version={SCHEMA_VERSION}")

    def _version(self) -> int:
        """The file's version, 0 for a new one. Raises ValueError for a file that must not be touched."""
        # Tables before the version: another process may make the new file meanwhile, both in one transaction.
        queries = "SELECT count(*) FROM sqlite_master", "PRAGMA user_version"
        tables, version = (self._db.execute(query).fetchone()[0] for query in queries)
        if version not in (0, 1, SCHEMA_VERSION):
            raise ValueError(f"has store version {version}, this code reads {SCHEMA_VERSION}")
        if version == 0 and tables:
            raise ValueError("is another program's database, not a store of replies; name another file")
        return version

    def close(self) -> None:
        """Give up this store's own claims and the file."""
        self.release(self._owner)
        self._db.close()

    def get(self, keys: Iterable[str]) -> dict[str, Stored]:
        """The replies there are for `keys`, those of the store before recorded ones."""
        keys = list(dict.fromkeys(keys))
        columns = ", ".join(COLUMNS[:-1])
        found = {
            row[0]: Stored(*row) for row in self.select(f"SELECT {columns} FROM calls WHERE key IN ({{}})", keys)
        }
        for key in keys:
            if key not in found and key in self._recorded:
                found[key] = self._recorded[key]
        return found

    def raws(self, keys: Iterable[str]) -> dict[str, str]:
        """The bodies of those replies in the store that have one."""
        query = "SELECT key, raw FROM calls WHERE raw IS NOT NULL AND key IN ({})"
        return dict(self.select(query, list(dict.fromkeys(keys))))

    def where(self, keys: Iterable[str]) -> dict[str, str]:
        """For each key that has a reply: `store` or `recorded`."""
        keys = list(dict.fromkeys(keys))
        found = {key: "recorded" for key in keys if key in self._recorded}
        return found | {row[0]: "store" for row in self.select("SELECT key FROM calls WHERE key IN ({})", keys)}

    def put(self, calls: Sequence[Stored], failures: Sequence[tuple] = ()) -> None:
        """Commit replies, and failures as the arguments of `put_failure`, all or none, and end their claims.

        A key that has a reply keeps its first one.
        """
        with self.transaction():
            self.add(calls)
            for failure in failures:
                self.add_failure(*failure)

    def put_failure(self, key: str, request: str, error: str, kind: str, attempts: int = 1) -> None:
        """Keep a call's failure beside the replies and end its claim, so that it is asked again.

        `request` is canonical JSON. Keys are taken out of the error, whoever wrote it.
        """
        self.put((), [(key, request, error, kind, attempts)])

    def add(self, calls: Sequence[Stored]) -> None:
        """`put` inside a transaction that the caller holds."""
        self._db.executemany(_INSERT, [tuple(map(_bindable, astuple(call))) for call in calls])
        self._db.executemany("DELETE FROM claims WHERE key = ?", [(call.key,) for call in calls])

    def add_failure(self, key: str, request: str, error: str, kind: str, attempts: int = 1) -> None:
        """`put_failure` inside a transaction that the caller holds."""
        values = (key, request, _bindable(redact(error)), kind, now(), attempts)
        self._db.execute("INSERT INTO failures VALUES (?, ?, ?, ?, ?, ?)", values)
        self._db.execute("DELETE FROM claims WHERE key = ?", (key,))

    def failures(self, keys: Iterable[str]) -> dict[str, str]:
        """The last error of each key that has one."""
        query = "SELECT key, error FROM failures WHERE key IN ({}) ORDER BY rowid"
        return dict(self.select(query, list(dict.fromkeys(keys))))

    def claim(self, keys: Sequence[str], owner: str | None = None) -> set[str]:
        """Claim calls for an owner, by default this store's own, before asking them; returns those that are now its.

        A call with a reply, in a batch without results yet, or claimed by a run that goes on, is not given.
        """
        with self.transaction():
            taken = {row[0] for row in self.select("SELECT key FROM calls WHERE key IN ({})", keys)}
            taken |= self.in_batches(keys)
            for key, holder, renewed in self.select("SELECT * FROM claims WHERE key IN ({})", keys):
                if alive(holder, renewed):
                    taken.add(key)
            mine = [key for key in keys if key not in taken]
            self._db.executemany(
                "INSERT OR REPLACE INTO claims VALUES (?, ?, ?)",
                [(key, owner or self._owner, time.time()) for key in mine],
            )
        return set(mine)

    def in_batches(self, keys: Iterable[str]) -> set[str]:
        """Those of the keys that a provider has in a batch, or may have, and whose results are not collected."""
        query = f"""SELECT key FROM batch_calls JOIN batches ON batches.id = batch_calls.batch
            WHERE state IN {OPEN} AND key IN ({{}})"""
        return {row[0] for row in self.select(query, list(dict.fromkeys(keys)))}

    def renew(self, owner: str) -> None:
        """Say that a run still works on its claims."""
        self._db.execute("UPDATE claims SET renewed = ? WHERE owner = ?", (time.time(), owner))

    def release(self, owner: str) -> None:
        """End a run's claims. A store that cannot be written keeps them, but nobody in this process heeds them."""
        end_owner(owner)
        with suppress(sqlite3.Error):
            self._db.execute("DELETE FROM claims WHERE owner = ?", (owner,))

    @property
    def owner(self) -> str:
        """This process's name in claims and batches."""
        return self._owner

    def __len__(self) -> int:
        return self._db.execute("SELECT count(*) FROM calls").fetchone()[0]

    def execute(self, statement: str, values: Sequence[object] = ()) -> sqlite3.Cursor:
        """One statement of those that work beside the replies (`lib.ledger`)."""
        return self._db.execute(statement, values)

    def select(self, query: str, keys: Sequence[str]) -> list[tuple]:
        """The rows of a query with `{}` where a list of keys stands, a part of the keys at a time."""
        rows: list[tuple] = []
        for start in range(0, len(keys), _CHUNK):
            part = keys[start : start + _CHUNK]
            rows += self._db.execute(query.format(", ".join("?" * len(part))), part).fetchall()
        return rows

    @contextmanager
    def transaction(self):
        """All that is done inside is committed together, or none of it. Other writers wait."""
        # IMMEDIATE takes the write lock at once: two writers wait for each other instead of failing half way.
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            # A full disk may have ended the transaction already; its own error is the one to show.
            with suppress(sqlite3.Error):
                self._db.execute("ROLLBACK")
            raise
        self._db.execute("COMMIT")


async def unlocked(work: Callable[..., Any], *arguments: object) -> Any:
    """What `work` on a store gives, waited for while another program holds the file."""
    while True:
        try:
            return work(*arguments)
        except sqlite3.OperationalError as error:
            if "locked" not in str(error):
                raise
        await asyncio.sleep(_LOCKED_S)


def _bindable(value: object) -> object:
    # SQLite takes no lone surrogate, which JSON can carry; the escape keeps what it was.
    return value.encode("utf-8", "backslashreplace").decode() if isinstance(value, str) else value
