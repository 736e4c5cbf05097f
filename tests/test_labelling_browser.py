"""The labelling widget as a person meets it: notebook 50 in JupyterLab, in a real Chromium, on loopback."""

import csv
import json
import os
import shutil
import subprocess
import sys
import time

import nbformat
import pytest

from lib import label_files, labelling, paths
from lib.labels import build_rows
from lib.notebooks import notebook_path
from lib.sources import load_questions

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = pytest.mark.skipif(not CHROMIUM, reason="no Chromium is found here; .ci/run installs Debian's")


@pytest.fixture
def lab(tmp_path):
    """JupyterLab on a copy of notebook 50 with `label_as` set; labels go to a folder of this test's."""
    labels, here = tmp_path / "labels", tmp_path / "notebooks"
    labels.mkdir()
    here.mkdir()
    shutil.copy(paths.LABELS / "GUIDE.md", labels)
    notebook = nbformat.read(notebook_path("50-label-standards"), as_version=4)
    source = next(cell for cell in notebook.cells if "parameters" in cell.metadata.get("tags", []))
    source.source = (
        source.source.replace('label_as = ""', 'label_as = "ann"')
        .replace('["maintainers"]', "[]")
        # Few rows, so that a person's whole way through them is seen.
        .replace("per_dataset = 20", "per_dataset = 2")
        .replace('["truthfulqa", "asqa", "qampari"]', '["asqa"]')
    )
    moved = f"from pathlib import Path\n\nfrom lib import paths\n\npaths.LABELS = Path({str(labels)!r})"
    notebook.cells.insert(0, nbformat.v4.new_code_cell(moved))
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    nbformat.write(notebook, here / "label.ipynb")
    jupyter = tmp_path / "jupyter"
    # Cells out of sight exist, and no question about news lies over them.
    for name, settings in (
        ("notebook-extension/tracker", {"windowingMode": "none"}),
        ("apputils-extension/notification", {"fetchNews": "false", "checkForUpdates": False}),
    ):
        file = jupyter / "settings" / "@jupyterlab" / f"{name}.jupyterlab-settings"
        file.parent.mkdir(parents=True)
        file.write_text(json.dumps(settings))
    environment = {**os.environ, "JUPYTER_RUNTIME_DIR": str(jupyter / "runtime"), "JUDGE_OUT": str(tmp_path / "out")}
    environment |= {"JUPYTERLAB_SETTINGS_DIR": str(jupyter / "settings")}
    environment |= {"JUPYTER_CONFIG_DIR": str(jupyter / "config"), "IPYTHONDIR": str(jupyter / "ipython")}
    options = ["--no-browser", "--allow-root", "--ip=127.0.0.1", "--port=0", f"--ServerApp.root_dir={here}"]
    options += ["--IdentityProvider.token=test"]
    command = [sys.executable, "-m", "jupyterlab", *options]
    with (tmp_path / "log").open("w") as log:
        server = subprocess.Popen(command, cwd=here, env=environment, stdout=log, stderr=log)
    try:
        yield _address(jupyter / "runtime", tmp_path / "log"), labels / "ann.csv"
    finally:
        server.terminate()
        try:
            server.wait(30)
        except subprocess.TimeoutExpired:
            server.kill()


def _address(runtime, log):
    for _ in range(300):
        for file in runtime.glob("jpserver-*.json"):
            text = file.read_text()
            if text.endswith("}"):
                return json.loads(text)["url"]
        time.sleep(0.2)
    raise AssertionError(log.read_text())


@pytest.fixture
def page():
    from playwright.sync_api import sync_playwright

    # Whatever is not on loopback cannot be reached from this browser.
    options = ["--no-sandbox", "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=options)
        page = browser.new_page(viewport={"width": 1300, "height": 1000})
        page.set_default_timeout(90_000)
        yield page
        browser.close()


def read(path):
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def saved(path, count):
    """The labels once there are so many of them."""
    for _ in range(150):
        if path.exists() and len(lines := read(path)) >= count:
            return lines
        time.sleep(0.1)
    raise AssertionError(f"no {count} labels in {path}")


def open_widget(page, address):
    page.goto(f"{address}lab/tree/label.ipynb?token=test&reset")
    page.wait_for_selector(".jp-Notebook .jp-Cell")
    page.get_by_text("Python 3 (ipykernel) | Idle").wait_for()
    page.get_by_role("menuitem", name="Run", exact=True).click()
    page.get_by_text("Run All Cells", exact=True).click()
    widget = page.locator(".judge-labels")
    widget.wait_for(state="attached")
    # What comes after the widget has run too, or has ended with its error, and moves the page no more.
    page.get_by_text("Python 3 (ipykernel) | Idle").wait_for()
    widget.locator(".said").click()
    return widget


def text_of(widget):
    return " ".join(widget.text_content().split())


def test_a_person_labels_rows_blind_by_buttons_and_keys_and_comes_back_later(lab, page, tmp_path):
    address, path = lab
    drawn = labelling.draw(build_rows(load_questions("asqa", n=40)), 2)
    rows = drawn.to_dict("records")
    widget = open_widget(page, address)

    widget.get_by_text("0 of 2 labelled").wait_for()
    shown = text_of(widget)
    assert all(" ".join(rows[0][name].split()) in shown for name in label_files.SHOWN)
    buttons = shown.replace("partially supported", "").replace("unsupported", "").replace("supported", "")
    texts = "".join(rows[0][name] for name in label_files.SHOWN)
    hidden = (rows[0]["row_id"], "construction", "C.v1", "asqa", "full", "partial", "support")
    assert not [word for word in hidden if word in buttons and word not in texts]

    # The letters of a note are no keys.
    note = widget.locator("input[type=text]")
    note.fill("")
    note.press_sequentially("b 1 of two")
    widget.get_by_text("0 of 2 labelled").wait_for()
    # A double click is one choice, and a button that was clicked is not pressed by the keys that follow.
    widget.get_by_role("button", name="2: partially supported").dblclick()
    widget.get_by_text("1 of 2 labelled").wait_for()
    page.keyboard.press("Space")
    page.keyboard.press("Enter")
    (line,) = saved(path, 1)
    assert (line["row_id"], line["label"], line["note"]) == (rows[0]["row_id"], "partially_supported", "b 1 of two")
    assert line["row_sha256"] == label_files.row_hash(rows[0]) and line["guide"] == labelling.guide()[0]

    # Come back later: another page, another kernel, and the next row.
    page.screenshot(path=tmp_path / "widget.png")
    widget = open_widget(page, address)
    widget.get_by_text("1 of 2 labelled").wait_for()
    assert " ".join(rows[1]["candidate"].split()) in text_of(widget)

    # Enter that ends a word of an input method does not leave the note.
    note = widget.locator("input[type=text]")
    note.focus()
    enter = "new KeyboardEvent('keydown', {key: 'Enter', isComposing: true, bubbles: true})"
    note.evaluate(f"(field) => field.dispatchEvent({enter})")
    assert note.evaluate("(field) => document.activeElement === field")
    note.press("Escape")
    page.keyboard.press("0")
    widget.get_by_text("All 2 rows have a label.").wait_for()
    assert [line["label"] for line in saved(path, 2)] == ["partially_supported", "cannot_tell"]

    # Back twice, and the first label is given anew.
    page.keyboard.press("b")
    widget.get_by_text("this one as cannot tell").wait_for()
    page.keyboard.press("b")
    widget.get_by_text("this one as partially supported").wait_for()
    assert widget.locator("input[type=text]").input_value() == "b 1 of two"
    # So soon after the last choice it would be taken for a double click.
    page.wait_for_timeout(500)
    page.keyboard.press("1")
    widget.get_by_text("All 2 rows have a label.").wait_for()
    lines = {line["row_id"]: line["label"] for line in read(path)}
    assert lines == {rows[0]["row_id"]: "supported", rows[1]["row_id"]: "cannot_tell"}
