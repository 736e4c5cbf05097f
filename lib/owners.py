"""Names for the runs that own claims and batches, and whether the one behind a name still goes on."""

from __future__ import annotations

import hashlib
import itertools
import os
import socket
import time
from pathlib import Path

# A process that cannot be looked up (on another machine) is dead after so long without a sign of life, in seconds.
SILENT_S = 300.0
_numbers = itertools.count(time.time_ns())


# The owners of this process that are at work. What a run left behind when it ended is not among them.
_active: set[str] = set()


def start_owner() -> str:
    """A new name for a run of this process: machine, process, its start, and a number of its own."""
    owner = f"{_HOST}:{os.getpid()}:{_started(os.getpid())}:{next(_numbers)}"
    _active.add(owner)
    return owner


def end_owner(owner: str) -> None:
    """This run is over: its claims hold nobody back, even if they could not be taken out of the store."""
    _active.discard(owner)


def alive(owner: str, renewed: float, silent_s: float = SILENT_S) -> bool:
    """Whether the run behind an owner's name goes on; on another machine, whether it gave a sign of life lately."""
    host, pid, started, _ = owner.split(":")
    if here(owner):
        return owner in _active
    if host == _HOST:
        # However long it has been silent: a process that is stopped or on a slow disk still has its calls.
        return _started(int(pid)) == started
    return time.time() - renewed <= silent_s


def here(owner: str) -> bool:
    """Whether the owner belongs to this process."""
    return owner.split(":")[:3] == [_HOST, str(os.getpid()), _started(os.getpid())]


def _machine() -> str:
    """This machine since it was booted, and the space in which its process numbers count (containers have theirs)."""
    parts = [socket.gethostname()]
    for path in ("/proc/sys/kernel/random/boot_id", "/proc/self/ns/pid"):
        try:
            parts.append(os.readlink(path) if path.endswith("pid") else Path(path).read_text().strip())
        except OSError:
            pass  # another system than Linux
    return hashlib.sha256(" ".join(parts).encode()).hexdigest()[:12]


_HOST = _machine()


def _started(pid: int) -> str:
    """When the process with this number began, so that a number used again is not taken for it; "" if it is gone."""
    try:
        # Ticks since boot: they stay the same when the clock is set. Field 22; the name before may hold blanks.
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[19]
    except (OSError, IndexError):
        if Path("/proc/self/stat").exists():
            return ""
    import psutil

    try:
        return str(round(psutil.Process(pid).create_time()))
    except psutil.Error:
        return ""
