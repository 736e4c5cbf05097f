"""A table as files: CSV for machines; Markdown, LaTeX (booktabs) and styled HTML for people. Always the same bytes.

What is written is a table of texts; nothing is computed or rounded here.
"""

from __future__ import annotations

import re
from html import escape
from pathlib import Path

import pandas as pd

from lib.results import write_bytes, write_table
from lib.tables import markdown

_BOLD = re.compile(r"\*\*(.+?)\*\*")
_LATEX = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "−": r"$-$",
    "†": r"\dag{}",
    "…": r"\ldots{}",
    "\n": " ",
}
# From so many characters in its widest line on, a table spans both columns of a page.
_ONE_COLUMN = 52


def write_forms(
    folder: Path, stem: str, number: int, title: str, data: pd.DataFrame, shown: pd.DataFrame
) -> list[Path]:
    """Write `<stem>.csv` (of `data`), `.md`, `.tex` and `.html` (of `shown`, texts) in `folder`; returns the paths.

    A `**text**` of `shown` becomes bold in each form. LaTeX numbers its tables itself.
    """
    forms = {"md": f"{markdown(shown)}\n", "tex": latex(shown, stem, f"{title}.")}
    forms["html"] = html(shown, stem, f"Table {number}. {title}.")
    written = [write_table(folder / f"{stem}.csv", data)]
    return written + [write_bytes(folder / f"{stem}.{end}", text.encode()) for end, text in forms.items()]


def latex(shown: pd.DataFrame, stem: str, title: str) -> str:
    """A table of texts as a LaTeX float with booktabs rules; one that is wide spans both columns and shrinks to fit.

    Needs the packages booktabs and adjustbox.
    """
    texts = _texts(shown)
    lines = [list(map(str, texts.columns)), *texts.to_numpy().tolist()]
    head, *body = (" & ".join(map(_escaped, line)) + r" \\" for line in lines)
    wide = max(sum(len(cell) + 2 for cell in line) for line in lines) > _ONE_COLUMN
    kind = "table*" if wide else "table"
    rows = [rf"\begin{{tabular}}{{{'l' * len(texts.columns)}}}", r"\toprule", head, r"\midrule", *body]
    rows += [r"\bottomrule", r"\end{tabular}"]
    if wide:
        rows = [r"\begin{adjustbox}{max width=\textwidth}", *rows, r"\end{adjustbox}"]
    parts = [rf"\begin{{{kind}}}[t]", r"\centering", r"\small", rf"\caption{{{_escaped(title)}}}"]
    return "\n".join([*parts, rf"\label{{tab:{stem}}}", *rows, rf"\end{{{kind}}}"]) + "\n"


def _escaped(text: str) -> str:
    plain = "".join(_LATEX.get(character, character) for character in text)
    return _BOLD.sub(r"\\textbf{\1}", plain)


def html(shown: pd.DataFrame, stem: str, title: str) -> str:
    """A table of texts as a whole HTML page with its own style (great_tables): no script, nothing from a network."""
    from great_tables import GT, style
    from great_tables.loc import body, column_labels

    # Column names may be empty or come twice, which great_tables does not take.
    names = [f"c{number}" for number in range(len(shown.columns))]
    labels = {name: str(label) or " " for name, label in zip(names, shown.columns, strict=True)}
    table = (
        GT(_texts(shown).set_axis(names, axis=1), id=stem)
        .tab_header(title=title)
        .cols_label(**labels)
        .cols_align("left")
        # Its own Markdown would let tags through.
        .fmt(lambda text: _BOLD.sub(r"<strong>\1</strong>", escape(text)), columns=names)
        .tab_options(table_font_size="13px", heading_align="left", data_row_padding="4px")
        .tab_style(style.text(weight="bold"), column_labels())
        .tab_style(style.text(whitespace="nowrap"), body())
    )
    head = f'<meta charset="utf-8"><title>{escape(title)}</title>'
    return f'<!doctype html>\n<html lang="en"><head>{head}</head><body>\n{table.as_raw_html()}\n</body></html>\n'


def _texts(shown: pd.DataFrame) -> pd.DataFrame:
    return shown.astype(object).where(shown.notna(), "").astype(str)
