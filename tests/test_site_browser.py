"""The report as a person meets it: opened from the disk in a real Chromium that has no network."""

import shutil
from urllib.parse import quote

import pandas as pd
import pytest

from lib import paths, site
from lib.browse import SHARD, read_judgments
from lib.results import write_rows
from tests.test_site import ATTACK, COMPARED, DESIGNS, ODD_CELLS, RUN, ask, asked, reply_to, run  # noqa: F401

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = pytest.mark.skipif(not CHROMIUM, reason="no Chromium is found here; .ci/run installs Debian's")


class Watched:
    """A page, what its console said of errors, and the addresses that it asked for."""

    def __init__(self, page):
        self.page, self.errors, self.asked = page, [], []
        page.on("console", lambda said: self.errors.append(said.text) if said.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("dialog", lambda dialog: (self.errors.append(dialog.message), dialog.dismiss()))
        page.on("request", lambda request: self.asked.append(request.url))

    def open(self, path, fragment=""):
        fragment = fragment and f"#{fragment.removeprefix('#')}"
        # A change of the fragment alone would not load the page anew.
        self.page.goto("about:blank")
        self.page.goto((paths.FIGURES / "report" / path).as_uri() + fragment)

    def count(self):
        return int(self.page.locator("#count").text_content().split(" of ")[0].replace(",", ""))

    def lines(self):
        return self.page.locator("#lines tr")

    def check(self):
        assert self.errors == []
        assert [url for url in self.asked if not url.startswith(("file:", "data:"))] == []


@pytest.fixture
def chromium():
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        options = ["--no-sandbox", "--host-resolver-rules=MAP * ~NOTFOUND"]
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=options)
        page = browser.new_page(viewport={"width": 1200, "height": 1000})
        page.set_default_timeout(20_000)
        watched = Watched(page)
        yield watched
        browser.close()
    watched.check()


def judged():
    return pd.DataFrame(read_judgments([RUN]))


def test_what_is_watched_can_fail(chromium, tmp_path):
    """Else a page with errors would pass the tests below."""
    (tmp_path / "bad.html").write_text("<script src='http://127.0.0.1:9/x.js'></script><script>nothing()</script>")
    chromium.page.goto((tmp_path / "bad.html").as_uri())
    assert any("nothing" in error for error in chromium.errors)
    assert any(url.startswith("http:") for url in chromium.asked)
    with pytest.raises(AssertionError):
        chromium.check()
    chromium.errors.clear()
    chromium.asked.clear()


def test_every_page_opens_from_the_disk_without_an_error(chromium, run):  # noqa: F811
    site.build(run)
    notebook = next(path for path in (paths.FIGURES / "report" / "notebooks").glob("20-*"))
    wide = f"tables.html#{quote('other+one/wide')}"
    for path in ("index.html", "tables.html", wide, "judgments.html", f"notebooks/{notebook.name}"):
        for width in (1200, 420):
            chromium.page.set_viewport_size({"width": width, "height": 900})
            chromium.open(*path.partition("#")[::2])
            chromium.page.wait_for_load_state("load")
            assert chromium.page.locator("h1").count() == 1
            wide = chromium.page.evaluate("document.documentElement.scrollWidth - innerWidth")
            assert wide <= 0, f"{path} is wider than {width}"
            styled = chromium.page.evaluate("getComputedStyle(document.querySelector('header.site')).display")
            assert styled == "flex"
    chromium.check()
    chromium.open("index.html")
    image = chromium.page.locator("figure img").first
    assert image.evaluate("(image) => image.complete && image.naturalWidth") > 100
    chromium.page.get_by_role("link", name="Judgments").first.click()
    chromium.page.wait_for_selector("#lines tr")


def test_filters_leave_what_pandas_counts_and_stand_in_the_address(chromium, run, asked):  # noqa: F811
    ask(asked.assign(candidate="another text"), "candidate-changed")
    site.build(run)
    lines = judged()
    primary = lines[lines["condition"] == "primary"]
    chromium.open("judgments.html")
    page = chromium.page
    assert chromium.count() == len(primary) < len(lines)
    page.get_by_label("condition").select_option("all")
    assert chromium.count() == len(lines)
    for name, value in (("verdict", "supported"), ("outcome", "wrong"), ("design", "C.v1")):
        column = {"design": "prompt"}.get(name, name)
        page.get_by_label("condition").select_option("primary")
        page.get_by_label(name, exact=True).select_option(value)
        wanted = (primary[column] == value).sum()
        assert 0 < wanted < len(primary) and chromium.count() == wanted == chromium.lines().count()
        # Beside each value stands what choosing it instead would leave.
        options = page.get_by_label(name, exact=True).locator("option").all_text_contents()
        counts = primary[column].value_counts()
        assert set(options) == {f"all ({len(primary)})", *(f"{each} ({count})" for each, count in counts.items())}
        page.get_by_role("button", name="Reset filters").click()
        assert chromium.count() == len(primary)
    search = page.get_by_label("row id or question contains")
    search.fill("ASQA/2 <i>")
    assert chromium.count() == (primary["question_id"] == "2").sum() > 0
    assert "And <i>which</i>?" in chromium.lines().first.text_content() and page.locator("#lines i").count() == 0
    page.get_by_label("label", exact=True).select_option("supported")
    left = chromium.count()
    assert left == ((primary["question_id"] == "2") & (primary["label"] == "supported")).sum()
    address = page.url
    chromium.open("index.html")
    page.goto(address)
    assert chromium.count() == left and search.input_value() == "ASQA/2 <i>"
    search.fill("no such question")
    assert chromium.count() == 0 == chromium.lines().count()


def test_a_judgment_opens_with_its_texts_its_mark_and_the_other_designs(chromium, run, asked):  # noqa: F811
    site.build(run)
    lines = judged()
    chromium.open("judgments.html", f"#q={quote('asqa/2/partial')}")
    page, detail = chromium.page, chromium.page.locator("dialog")
    row = asked.set_index("row_id").loc["asqa/2/partial"]
    assert chromium.count() == 3
    chromium.lines().first.focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Enter")
    detail.wait_for(state="visible")
    for prompt in DESIGNS:
        if prompt != DESIGNS[0]:
            detail.locator(".others button").filter(has_text=prompt).click()
        detail.locator("dd").get_by_text(prompt, exact=True).wait_for()
        (line,) = lines[(lines["row_id"] == "asqa/2/partial") & (lines["prompt"] == prompt)].to_dict("records")
        texts = detail.locator(".row-texts .text").evaluate_all("(all) => all.map((each) => each.textContent)")
        assert texts == [row["question"], row["reference"], ATTACK]
        raw = detail.locator("pre.text").filter(has=page.locator("mark"))
        assert raw.evaluate("(pre) => pre.textContent") == reply_to({**row, "row_id": "asqa/2/partial"}, prompt).text
        assert detail.locator("mark").all_text_contents() == [line["verdict"]]
        assert line["key"] in detail.text_content() and "words-1" in detail.text_content()
        others = detail.locator(".others button").all_text_contents()
        assert [text.split(":")[0] for text in others] == [each for each in DESIGNS if each != prompt]
        assert prompt in page.url
    # Nothing of the candidate became a part of the page.
    assert page.locator("img").count() == 0 and page.locator("dialog i").count() == 0
    address = page.url
    page.keyboard.press("Escape")
    detail.wait_for(state="hidden")
    page.wait_for_function("!location.hash.includes('id=')")
    chromium.open("index.html")
    page.goto(address)
    detail.wait_for(state="visible")
    assert detail.locator("dd").first.text_content() == DESIGNS[-1]
    detail.get_by_role("button", name="Close").click()
    # Who closes it is back on its line.
    page.wait_for_selector("#lines tr:focus")


def test_unjudged_and_missing_replies_are_said_to_be_so(chromium, run):  # noqa: F811
    site.build(run)
    page, detail = chromium.page, chromium.page.locator("dialog")
    for reason, said in (
        ("failed", "The call failed: the server said 500 <oops>"),
        ("not_found", "nothing is marked"),
    ):
        chromium.open("judgments.html", f"#outcome=unjudged&reason={reason}")
        assert chromium.count() == 2
        chromium.lines().first.click()
        detail.get_by_text(said).wait_for()
        assert page.locator("mark").count() == 0
    next((paths.FIGURES / "report" / "data").glob("shard-*.js")).unlink()
    chromium.open("judgments.html")
    chromium.lines().first.click()
    detail.get_by_text("is missing; build the report again").wait_for()
    page.wait_for_timeout(200)
    assert len(chromium.errors) == 1 and "ERR_FILE_NOT_FOUND" in chromium.errors.pop()


def test_a_table_is_chosen_searched_and_sorted_as_text(chromium, run):  # noqa: F811
    site.build(run)
    page = chromium.page
    chromium.open("tables.html", f"#{quote(COMPARED)}/table-02-accuracy")
    cells = page.locator("#table tbody td:first-child")
    assert cells.all_text_contents() == ODD_CELLS
    assert page.locator("#table th").first.text_content() == "a <b>" and page.locator("#table img").count() == 0
    search = page.get_by_label("Search in this table")
    search.fill("2021-05")
    page.wait_for_function("document.querySelectorAll('#table tbody tr').length === 1")
    assert cells.all_text_contents() == ["2021-05-01"]
    search.fill("<img")
    page.get_by_text("of 6", exact=False).wait_for()
    assert cells.all_text_contents() == [ODD_CELLS[3]]
    find = page.get_by_label("Find a table")
    find.fill("pairs")
    links = page.locator("[data-table]")
    assert links.locator("visible=true").all_text_contents() == ["pairs"]
    links.locator("visible=true").click()
    page.get_by_role("heading", name="other+one/pairs").wait_for()
    assert cells.all_text_contents() == ["of the other table"]
    assert page.locator("[aria-current]").all_text_contents() == ["pairs"]
    find.fill("no such table")
    page.get_by_text("No table has this in its name.").wait_for()


def test_of_ten_thousand_judgments_the_page_holds_one_screen_and_the_shard_of_what_is_open(chromium, run):  # noqa: F811
    lines = [
        {"row_id": f"asqa/{number}/{kind}", "dataset": "asqa", "question_id": str(number), "kind": kind}
        | {"question": f"Which is number {number}?", "reference": f"It is {number}", "candidate": f"{kind} {number}"}
        | {"label": label, "complexity": 1}
        for number in range(1700)
        for kind, label in (("full", "supported"), ("partial", "partially_supported"))
    ]
    rows = pd.DataFrame(lines)
    write_rows(RUN, rows)
    ask(rows)
    assert site.build(run)["judgments"] == 10_200
    page = chromium.page
    chromium.open("judgments.html")
    assert chromium.count() == 10_200
    elements = "document.querySelectorAll('*').length"
    first = page.evaluate(elements)
    assert chromium.lines().count() == 50 and first < 1500
    assert not [url for url in chromium.asked if "shard-" in url]
    start = chromium.lines().first.text_content()
    for _ in range(5):
        page.get_by_role("button", name="Next").last.click()
    assert page.locator("#page").text_content() == "page 6 of 204"
    assert chromium.lines().count() == 50 and chromium.lines().first.text_content() != start
    assert page.evaluate(elements) == first
    page.get_by_label("row id or question contains").fill("number 1234?")
    assert chromium.count() == 6
    chromium.lines().last.click()
    page.locator("dialog mark").wait_for()
    assert page.locator(".row-texts .text").last.text_content() == "partial 1234"
    shards = {url for url in chromium.asked if "shard-" in url}
    assert len(shards) == 1 and len(list((paths.FIGURES / "report" / "data").glob("shard-*"))) == -(-10_200 // SHARD)
