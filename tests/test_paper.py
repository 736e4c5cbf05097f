"""The paper's tables and figures as files, what they lack, and frozen editions that come out the same."""

import re
import shutil
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest

from lib import editions, material, paper, paths, results
from lib.material import CONDITION, GENERATED, PRIMARY, gather, missing
from lib.paper_stats import token_shown, token_table
from lib.paper_tables import paper_tables
from lib.table_files import html, latex, write_forms
from tests import papers

NOTHING = {name: pd.DataFrame() for name in material.FRAMES if name != "reported"}


@pytest.fixture(scope="module")
def small():
    """Two judges and few questions, every part there: a paper in a second."""
    mine = papers.rows(30)
    judged = papers.judged(mine, {"opus": papers.ASQA["opus"], "sonnet-4.6": papers.ASQA["sonnet-4.6"]})
    made, answered = papers.generated(mine)
    slices = papers.conditions(mine[mine["question_id"].astype(int) < 6])
    label = mine.assign(annotator="reader")[["row_id", "label", "annotator"]].iloc[:40]
    frames = {"rows": mine, "judged": judged, "conditions": slices, "labels": label}
    p = papers.parameters(judges=("opus", "sonnet-4.6"), n_questions=30, generated_questions=50)
    return papers.material(p, **frames, generated_rows=made, generated=answered)


@pytest.fixture
def out(tmp_path, monkeypatch):
    for name in ("FIGURES", "JUDGMENTS", "LABELS"):
        monkeypatch.setattr(paths, name, tmp_path / name.lower())
    monkeypatch.setattr(paths, "OUT", tmp_path)
    monkeypatch.setattr(editions, "FROZEN", tmp_path / "frozen")
    return tmp_path


# Tables.


def test_there_are_twenty_tables_in_the_papers_order_and_all_hold_something(small):
    made = paper_tables(small)
    assert [table.number for table in made] == list(range(1, 21))
    for table in made:
        assert len(table.data) and len(table.shown) and not table.missing, table.title
        assert table.shown.map(lambda text: isinstance(text, str) or text == text).all(axis=None)


def test_a_judge_that_was_not_asked_in_a_design_has_a_hole_that_says_so(small):
    table = paper_tables(small)[1]
    line = table.shown[table.shown["judge"] == "sonnet-4.6"].iloc[0]
    assert line["R"] == line["B"] == "not run" and re.match(r"(\*\*)?[\d.]+", line["C"])
    assert "not run" not in set(table.shown.loc[table.shown["judge"] == "opus", "R"])
    assert not table.data["accuracy"].isna().any()


def test_without_any_run_no_table_is_drawn_and_each_says_what_makes_it(out):
    p = papers.parameters(source="sample", judges=("lexical",), only={}, slices={"lexical": 5}, annotators=())
    p = SimpleNamespace(**{**vars(p), "generators": ("smollm2-free",), "n_questions": 7})
    m = gather(p)
    made = paper_tables(m)
    for table in made:
        assert table.data.empty and table.missing, table.title
        assert paper.write_tables([table], "x") == []
    by_number = {table.number: "\n".join(table.missing) for table in made}
    assert "12 cells by lexical: .venv/bin/papermill notebooks/20-judge.ipynb" in by_number[2]
    assert "6 cells by lexical" in by_number[3] and "designs: [C.v1, H.v1]" in by_number[3]
    assert "n_questions: 7" in by_number[2] and "n_questions: 5" in by_number[5]
    assert "condition: reference-swapped" in by_number[5] and "condition: cap-128+cap-256+cap-512" in by_number[
        9
    ].replace("primary+", "")
    assert "generators: [smollm2-free]" in by_number[11] and "10-labels" in by_number[1]
    assert "annotators" in by_number[13] and "annotators" in by_number[4]
    for entry in paper.FIGURES[1:]:
        assert paper.draw(entry.name, m, made, "x") == [], entry.name


def test_only_the_cells_that_are_missing_are_named(out):
    p = papers.parameters(judges=("opus", "sonnet-4.6"), annotators=())
    judged = papers.judged(papers.rows(4), {"opus": papers.ASQA["opus"], "sonnet-4.6": papers.ASQA["sonnet-4.6"]})
    run = "hub-200q-seed0"
    results.write_cells(run, judged[~((judged["prompt"] == "B.v1") & (judged["dataset"] == "asqa"))], {})
    m = gather(p)
    assert missing(m, PRIMARY) == [missing(m, PRIMARY)[0]] and "1 cells by opus" in missing(m, PRIMARY)[0]
    assert "datasets: [asqa], designs: [B.v1]" in missing(m, PRIMARY)[0]
    made = paper_tables(m)
    assert made[1].missing and not made[2].missing and missing(m, CONDITION) == missing(m, GENERATED) == []
    hole = made[1].shown.query("dataset == 'asqa' and judge == 'opus'").iloc[0]
    assert hole["B"] == "not run" and hole["R"] != "not run"


def test_a_judge_that_is_not_compared_cannot_be_limited():
    with pytest.raises(ValueError, match="only names gemini, which is not among judges"):
        gather(papers.parameters(judges=("opus",), only={"gemini": ["C.v1"]}))


def test_slices_of_judges_that_are_not_compared_are_left_out(out):
    m = gather(papers.parameters(judges=("opus",), only={}, slices={"opus": 5, "smollm2": 4}, annotators=()))
    assert set(m.absent["judge"]) == {"opus"}


def test_holm_in_the_papers_tables_is_over_one_judges_lines(small):
    both = paper_tables(small)[2].data
    alone = material.Material(**{**vars(small), "judged": small.judged[small.judged["judge"] == "opus"]})
    mine = both[both["judge"] == "opus"]
    assert mine["p_holm"].tolist() == paper_tables(alone)[2].data["p_holm"].tolist()


def test_tokens_beyond_those_of_h_on_the_same_rows(small):
    table = token_table(small.judged)
    line = table.query("dataset == 'asqa' and judge == 'opus' and design == 'R'").iloc[0]
    mine = small.judged.query("dataset == 'asqa' and judge == 'opus'").set_index(["design", "row_id"])
    both = (mine["tokens_in"] + mine["tokens_out"]).astype(float)
    assert (
        line["more"] == pytest.approx((both["R"] - both["H"]).mean()) and line["low"] <= line["more"] <= line["high"]
    )
    assert table.loc[table["design"] == "H", "more"].isna().all()
    shown = token_shown(table)
    assert shown.loc[shown["judge"] == "sonnet-4.6", "R"].eq("not run").all()
    none = small.judged.assign(tokens_in=pd.NA, tokens_out=pd.NA).astype(
        {"tokens_in": "Int64", "tokens_out": "Int64"}
    )
    assert token_table(none).empty


# Files.

NASTY = pd.DataFrame(
    {"a & b": ["**1.0** [2_3 %]", "<script>x</script> **b** 50% $x$ #1"], "": ["† −", "a\\b {c} ~^"]}
)


def test_latex_escapes_everything_and_every_row_has_every_cell():
    text = latex(NASTY, "table-01-x", "A & B_c")
    assert r"\textbf{1.0} [2\_3 \%]" in text and r"\dag{} $-$" in text and r"a\textbackslash{}b \{c\}" in text
    assert r"\caption{A \& B\_c}" in text and r"\label{tab:table-01-x}" in text
    body = text.split(r"\toprule")[1].split(r"\bottomrule")[0]
    rows = [line for line in body.splitlines() if line.endswith(r"\\")]
    assert len(rows) == 3 and all(len(re.findall(r"(?<!\\)&", line)) == 1 for line in rows)
    plain = re.sub(r"\\[{}\\]", "", text)
    assert plain.count("{") == plain.count("}") and [
        text.count(rf"\{word}rule") for word in ("top", "mid", "bottom")
    ] == [1, 1, 1]
    assert "table*" not in text and r"\begin{table*}" in latex(pd.concat([NASTY] * 4, axis=1), "t", "t")


class Cells(HTMLParser):
    def __init__(self):
        super().__init__()
        self.tags, self.data = [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)

    def handle_data(self, data):
        self.data.append(data)


def test_html_shows_texts_as_they_are_and_asks_for_nothing():
    page = html(NASTY, "table-01-x", "A <b> & c")
    cells = Cells()
    cells.feed(page)
    assert "script" not in cells.tags and "<script>x</script> " in cells.data and cells.tags.count("strong") == 2
    assert "A <b> & c" in cells.data and not re.search(r"https?:|@import|src=", page)
    assert page == html(NASTY, "table-01-x", "A <b> & c")


def test_a_table_is_written_in_four_forms_and_the_csv_holds_what_was_computed(tmp_path):
    data = pd.DataFrame({"accuracy": [1 / 3]})
    files = write_forms(tmp_path, "table-02-x", 2, "T", data, pd.DataFrame({"accuracy": ["33.3"]}))
    assert [file.suffix for file in files] == [".csv", ".md", ".tex", ".html"]
    assert pd.read_csv(files[0])["accuracy"][0] == 1 / 3 and "33.3" in files[1].read_text()


# Frozen editions.


@pytest.fixture(scope="module")
def edition(small, tmp_path_factory):
    """One frozen paper, made once: drawing takes seconds."""
    folder = tmp_path_factory.mktemp("editions")
    values = {**vars(small.p), "source": "sample"}
    values = {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(editions, "FROZEN", folder)
        patch.setattr(editions, "gather", lambda p: material.Material(**{**vars(small), "p": p}))
        return editions.freeze_paper("v1", values)


@pytest.fixture
def frozen(edition, out):
    """A copy of it that a test may spoil."""
    return Path(shutil.copytree(edition, out / "frozen" / "v1"))


def test_a_frozen_paper_comes_out_the_same_bytes(frozen, small):
    m = editions.read_frozen("v1")
    assert m.p.judges == small.p.judges and m.p.complexity_bins == 4
    for name in material.FRAMES:
        left, right = getattr(m, name), getattr(small, name)
        assert list(left.columns) == list(right.columns) and len(left) == len(right), name
    files = paper.write_paper(m, "again")
    assert len(files) > 100 and editions.differing("v1", files) == []
    names = {path.name for path in frozen.iterdir()}
    assert names == {
        "material",
        "figures",
        "parameters.json",
        "versions.json",
        "LOCK.json",
        "judges.yaml",
        "manifest.json",
    }
    assert "git commit" in editions.versions_then("v1")
    files[0].write_text("other")
    assert editions.differing("v1", files) == [files[0].name]


def test_a_frozen_paper_that_was_changed_is_not_read(frozen):
    (frozen / "parameters.json").write_text((frozen / "parameters.json").read_text() + " ")
    with pytest.raises(ValueError, match=r"frozen/v1: parameters.json differ"):
        editions.read_frozen("v1")
    (frozen / "material" / "judged.parquet").unlink()
    with pytest.raises(ValueError, match=r"material/judged.parquet"):
        editions.read_frozen("v1")


@pytest.mark.parametrize("text", ["[]", "null", "{", ""])
def test_a_damaged_manifest_is_named(frozen, text):
    (frozen / "manifest.json").write_text(text)
    with pytest.raises(ValueError, match=r"frozen/v1/manifest.json cannot be read"):
        editions.read_frozen("v1")


def test_freezing_refuses_what_it_cannot_keep(frozen, out, monkeypatch):
    with pytest.raises(ValueError, match="is never changed"):
        editions.freeze_paper("v1", {})
    for name in ("", "../x", ".x", "a/b", "x" * 61):
        with pytest.raises(ValueError, match="begin with a letter"):
            editions.freeze_paper(name, {})
    with pytest.raises(ValueError, match="unknown parameter judge;"):
        editions.freeze_paper("v2", {"judge": "opus"})
    with pytest.raises(ValueError, match="must be int"):
        editions.freeze_paper("v2", {"n_questions": "7"})
    with pytest.raises(ValueError, match="leave it out"):
        editions.freeze_paper("v2", {"frozen": "v1"})
    monkeypatch.setattr(editions, "gather", lambda p: material.Material(p=p, **NOTHING, reported=pd.DataFrame()))
    with pytest.raises(ValueError, match="no judgments"):
        editions.freeze_paper("v2", {})
    with pytest.raises(ValueError, match="there is no frozen/v2; frozen are: v1"):
        editions.read_frozen("v2")


def test_freezing_that_ends_half_way_leaves_nothing(small, out, monkeypatch):
    monkeypatch.setattr(editions, "gather", lambda p: small)

    def broken(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(editions, "write_paper", broken)
    with pytest.raises(KeyboardInterrupt):
        editions.freeze_paper("v1", {})
    assert list((out / "frozen").iterdir()) == []


def test_two_that_freeze_under_one_name_at_once_end_with_one_edition(small, out, monkeypatch):
    monkeypatch.setattr(editions, "gather", lambda p: small)

    def meanwhile(*_):
        (out / "frozen" / "v1").mkdir()
        (out / "frozen" / "v1" / "x").touch()

    monkeypatch.setattr(editions, "write_paper", meanwhile)
    with pytest.raises(ValueError, match="made by another process"):
        editions.freeze_paper("v1", {})
    assert [path.name for path in (out / "frozen").iterdir()] == ["v1"]


def test_main_says_what_is_wrong(out, capsys):
    assert editions.main([""]) == 2 and "make freeze NAME=" in capsys.readouterr().err
    assert editions.main(["v1", "params/none.yaml"]) == 2 and "cannot be read" in capsys.readouterr().err


def test_papers_of_other_parameters_have_other_folders(small):
    names = {
        paper.folder_name(SimpleNamespace(**{**vars(papers.parameters()), **changed}))
        for changed in (
            {},
            {"slices": {"opus": 25}},
            {"annotators": ()},
            {"seed": 1},
            {"frozen": "v1"},
            {"complexity_bins": 3},
        )
    }
    assert len(names) == 6 and "paper--frozen-v1" in names
