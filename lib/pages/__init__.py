"""What the site's pages are made with: templates, style, scripts, and notebooks and Markdown as HTML.

What stands on the pages is gathered by `lib.site`. No page asks for anything beyond its own folder.
"""

from __future__ import annotations

import re
from functools import cache
from html import unescape
from pathlib import Path

import jinja2
import markupsafe
import nbformat

from lib.results import write_bytes

PAGES = Path(__file__).parent
ASSETS = ("site.css", "tables.js", "judgments.js")
# What of an output is shown: no widget, which needs a kernel, and no script.
SHOWN = ("text/html", "text/markdown", "image/svg+xml", "image/png", "image/jpeg", "text/latex", "text/plain")


@cache
def _templates() -> jinja2.Environment:
    how = {"autoescape": True, "undefined": jinja2.StrictUndefined, "trim_blocks": True, "lstrip_blocks": True}
    return jinja2.Environment(loader=jinja2.FileSystemLoader(PAGES), **how)


def write_page(path: Path, template: str, root: str = "", **values: object) -> Path:
    """Write a page from its template; `root` leads from the page's folder to the site's. Returns the path."""
    return write_bytes(path, _templates().get_template(template).render(root=root, **values).encode())


def markdown_html(text: str) -> str:
    """A text of Markdown, such as a table, as HTML; HTML inside it is shown as text."""
    from nbconvert.filters import markdown2html

    # Tables carry `<` as an entity already.
    return markdown2html(jinja2.filters.do_forceescape(unescape(text)))


def notebook_html(notebook: nbformat.NotebookNode) -> str:
    """A notebook as HTML without prompts and a frame of its own.

    Whatever could run is taken out, cell by cell: what models and data say stands in outputs.
    """
    return _exporter().from_notebook_node(notebook)[0]


@cache
def _exporter():
    from nbconvert import HTMLExporter
    from traitlets.config import Config

    shown = Config({"NbConvertBase": {"display_data_priority": list(SHOWN)}})
    hidden = {"exclude_input_prompt": True, "exclude_output_prompt": True, "exclude_anchor_links": True}
    safe = {"sanitize_html": True, "exclude_raw": True, "filters": {"clean_html": harmless}}
    return HTMLExporter(template_name="basic", config=shown, **safe, **hidden)


def harmless(html: str | bytes) -> markupsafe.Markup:
    """HTML without scripts, styles, handlers and links that run: the rest as it is."""
    import nh3

    text = html.decode() if isinstance(html, bytes) else str(html)
    attributes = {tag: {*names, "class", "id"} for tag, names in nh3.ALLOWED_ATTRIBUTES.items()}
    attributes |= {tag: {"class", "id"} for tag in nh3.ALLOWED_TAGS - attributes.keys()}
    return markupsafe.Markup(nh3.clean(text, attributes=attributes, link_rel=None))


def write_assets(folder: Path) -> None:
    """Write the style and the scripts that the pages share."""
    from pygments.formatters import HtmlFormatter

    for name in ASSETS:
        write_bytes(folder / name, (PAGES / name).read_bytes())
    write_bytes(folder / "code.css", HtmlFormatter(style="default").get_style_defs(".highlight").encode())
    for name, data in zip(("datatables.js", "datatables.css"), data_tables(), strict=True):
        write_bytes(folder / name, data)


def data_tables() -> tuple[bytes, bytes]:
    """DataTables as a script that sets `window.DataTable`, and its style, from the itables package.

    The package has it as a module, and no module's file can be imported from the disk. Raises ValueError for a
    package that exports it otherwise.
    """
    from importlib.resources import files

    html = files("itables") / "html"
    text = (html / "dt_bundle.js").read_text(encoding="utf-8")
    exports = list(re.finditer(r"\bexport\s*\{([^{}]*)\};?", text))
    name = re.search(r"([\w$]+)\s+as\s+default\b", exports[0][1]) if len(exports) == 1 else None
    if name is None:
        raise ValueError("itables' dt_bundle.js does not export DataTables as it did; install the locked version")
    start, end = exports[0].span()
    inner = f"{text[:start]}\nwindow.DataTable={name[1]};\n{text[end:]}"
    return f'(()=>{{"use strict";\n{inner}\n}})();\n'.encode(), (html / "dt_bundle.css").read_bytes()
