"""What the report's first page says first: the primary table, and what held of the paper.

Both are read from the files that `30-designs` and `70-paper` wrote; nothing is computed anew.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas as pd

from lib import paths
from lib.claims import checked_shown
from lib.compared import tally
from lib.pages import markdown_html
from lib.paper import folder_name
from lib.params import run_name
from lib.results import comparison
from lib.tables import markdown


def headline(p, figures: Sequence[Mapping[str, object]]) -> dict[str, object] | None:
    """The primary table of 30-designs with these parameters as HTML, its folder, and its figure of accuracy.

    `figures` are those of `lib.site.figures`. None if the table is not there.
    """
    folder = paths.FIGURES / comparison(run_name(p), p)
    table = folder / "table-02-accuracy.md"
    if not table.exists():
        return None
    figure = next((each for each in figures if each["name"] == f"{folder.name}/accuracy"), {})
    said = {"folder": folder.name, "table": markdown_html(table.read_text(encoding="utf-8")), "image": ""}
    return said | dict(figure)


def held(p) -> dict[str, str] | None:
    """What held of the paper by 70-paper with these parameters, as HTML: its count of numbers and its claims.

    None if one of its files is not there. Raises ValueError for one that is another table.
    """
    folder = paths.FIGURES / folder_name(p)
    files = [folder / f"{name}.csv" for name in ("reported-reproduced", "claims")]
    if not all(file.exists() for file in files):
        return None
    numbers, claims = map(read_texts, files)
    for table, names, file in (
        (numbers, {"status", "why"}, files[0]),
        (claims, {"claim", "judge", "study", "found", "detail"}, files[1]),
    ):
        if lacking := names - set(table):
            raise ValueError(f"{paths.shown(file)} has no column {', '.join(sorted(lacking))}; run 70-paper again")
    said = {"tally": tally(numbers), "claims": markdown(checked_shown(claims))}
    return {"folder": folder.name} | {name: markdown_html(text) for name, text in said.items()}


def read_texts(path: Path) -> pd.DataFrame:
    """A CSV as texts, none of them guessed to be a number. Raises ValueError that names a file that is no table."""
    try:
        return pd.read_csv(path, dtype=str, keep_default_na=False)
    except ValueError as error:
        raise ValueError(f"{paths.shown(path)} cannot be read as a table: {error}") from None
