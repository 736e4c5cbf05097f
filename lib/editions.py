"""A version of the paper, frozen: parameters, prompt lock, judgments, tables, figures and versions in one folder.

`make freeze NAME=...` makes one from what runs left; `70-paper` with `frozen` reads it back and gives the same bytes.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

import pandas as pd

from lib import paths
from lib.material import FRAMES, Material, gather
from lib.notebooks import check_parameters, declared_parameters, notebook_path
from lib.paper import write_paper
from lib.params import as_frozen, read_parameters
from lib.prompts import LOCK
from lib.results import provenance, remove_left

FROZEN = paths.OUT / "data" / "frozen"
MANIFEST = "manifest.json"
_OUTPUTS = "figures"


def freeze_paper(name: str, values: Mapping[str, object]) -> Path:
    """Freeze the paper of `70-paper` with these parameters, those not given at their defaults; returns the folder.

    Raises ValueError for a name that makes no folder or is taken, a parameter that 70-paper does not have or that has
    another type, and where there is no judgment to freeze. The folder is put in place whole.
    """
    folder = frozen_folder(name)
    if folder.exists():
        raise ValueError(f"{paths.shown(folder)} is there; a frozen paper is never changed, so take another name")
    notebook = notebook_path("70-paper")
    check_parameters(notebook, values)
    declared = declared_parameters(notebook) | dict(values)
    if declared["frozen"]:
        raise ValueError("frozen names a frozen paper; leave it out to freeze a new one")
    m = gather(as_frozen(declared))
    if m.judged.empty:
        raise ValueError("there are no judgments for these parameters; run 20-judge, or make reproduce, first")
    part = folder.with_name(f".{name}.part{os.getpid()}")
    remove_left(folder.parent, f".{name}.part")
    try:
        (part / "material").mkdir(parents=True)
        for frame in FRAMES:
            getattr(m, frame).to_parquet(part / "material" / f"{frame}.parquet", index=False)
        _write_json(part / "parameters.json", declared)
        _write_json(part / "versions.json", provenance())
        for file in (LOCK, paths.JUDGES):
            shutil.copyfile(file, part / file.name)
        write_paper(m, part / _OUTPUTS)
        _write_json(part / MANIFEST, hashes(part))
        try:
            part.rename(folder)
        except OSError:
            raise ValueError(
                f"{paths.shown(folder)} was made by another process meanwhile; take another name"
            ) from None
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return folder


def frozen_folder(name: str) -> Path:
    """Where a frozen paper stands. Raises ValueError for a name that makes no folder."""
    if not re.fullmatch(r"[A-Za-z0-9][\w.-]{0,59}", name):
        raise ValueError(
            f"name {name!r}: begin with a letter or a digit and use at most 60 letters, digits, . - and _"
        )
    return FROZEN / name


def read_frozen(name: str) -> Material:
    """The material of a frozen paper, with the parameters that it was made with.

    Raises ValueError if there is none of this name, and if a file of it is missing or differs from its manifest.
    """
    folder = frozen_folder(name)
    if not (folder / MANIFEST).exists():
        there = ", ".join(sorted(path.name for path in FROZEN.glob("[!.]*"))) or "none"
        raise ValueError(f"frozen: there is no {paths.shown(folder)}; frozen are: {there}")
    wanted, found = _manifest(folder / MANIFEST), hashes(folder)
    if changed := sorted(file for file in wanted.keys() | found.keys() if wanted.get(file) != found.get(file)):
        raise ValueError(f"{paths.shown(folder)}: {', '.join(changed[:5])} differ from {MANIFEST}; freeze it anew")
    values = json.loads((folder / "parameters.json").read_text(encoding="utf-8"))
    frames = [pd.read_parquet(folder / "material" / f"{frame}.parquet") for frame in FRAMES]
    return Material(as_frozen(values), *frames)


def _manifest(path: Path) -> dict[str, str]:
    try:
        wanted = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        wanted = None
    if not isinstance(wanted, dict):
        raise ValueError(f"{paths.shown(path)} cannot be read; freeze the paper anew")
    return wanted


def differing(name: str, files: list[Path]) -> list[str]:
    """Which of these files, made anew, are not the bytes that the frozen paper of this name holds."""
    folder = frozen_folder(name) / _OUTPUTS
    return [file.name for file in files if _sha256(file) != _sha256(folder / file.name)]


def versions_then(name: str) -> dict[str, str]:
    """Git commit, Python and package versions with which a paper was frozen."""
    return json.loads((frozen_folder(name) / "versions.json").read_text(encoding="utf-8"))


def hashes(folder: Path) -> dict[str, str]:
    """The sha256 of every file below a folder but its manifest."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != MANIFEST)
    return {path.relative_to(folder).as_posix(): _sha256(path) for path in files}


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.exists() else ""


def _write_json(path: Path, value: object) -> None:
    path.write_text(json.dumps(value, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def main(arguments: list[str]) -> int:
    """`NAME [PARAMETERS]`: freeze the paper under a name, with a file of parameters if one is given."""
    try:
        if len(arguments) not in (1, 2) or not arguments[0]:
            raise ValueError("name the frozen paper: make freeze NAME=... [PARAMS=params/study.yaml]")
        values = read_parameters(Path(arguments[1])) if len(arguments) == 2 else {}
        folder = freeze_paper(arguments[0], values)
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(f"Frozen: {paths.shown(folder)}, {len(hashes(folder))} files. Read it back with 70-paper:")
    print(f"  .venv/bin/papermill notebooks/70-paper.ipynb out.ipynb -r frozen {folder.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
