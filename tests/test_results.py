"""Tables, findings, figures, stored numbers: rendered truthfully, n/a where there is nothing, same bytes twice."""

import io
import json
import math
import re
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import yaml

from lib import expect, figures, findings, paths, results, tables


def judgments(design, judge="j", right=(1, 1, 0, 1), verdicts=None, dataset="asqa", tokens=10, prompt=None):
    """Two questions, two rows each, for one design; `right` says which rows are correct."""
    n = len(right)
    labels = ["supported", "partially_supported"] * (n // 2)
    wrong = {"supported": "unsupported", "partially_supported": "supported"}
    given = verdicts or [label if ok else wrong[label] for label, ok in zip(labels, right, strict=True)]
    frame = pd.DataFrame(
        {
            "row_id": [f"{dataset}/{i // 2}/{'partial' if i % 2 else 'full'}" for i in range(n)],
            "dataset": dataset,
            "question_id": [str(i // 2) for i in range(n)],
            "kind": ["partial" if i % 2 else "full" for i in range(n)],
            "label": labels,
            "complexity": [2 + i // 2 for i in range(n)],
            "design": design,
            "prompt": prompt or f"{design}.v1",
            "condition": "primary",
            "judge": judge,
            "verdict": pd.Series(given, dtype="str"),
        }
    )
    frame["status"] = np.where(frame["verdict"].isna(), "unjudged", "whole")
    frame["reason"] = np.where(frame["verdict"].isna(), "truncated", "")
    frame["correct"] = frame["verdict"] == frame["label"]
    frame["tokens_in"] = pd.array([tokens] * n, dtype="Int64")
    frame["tokens_out"] = pd.array([5 if tokens is not None else None] * n, dtype="Int64")
    return frame


@pytest.fixture
def judged():
    return pd.concat([judgments("C", right=(1, 0, 1, 0)), judgments("R", right=(1, 1, 1, 1))], ignore_index=True)


def test_table_2_has_accuracy_interval_and_mean_tokens_with_the_best_in_bold(judged):
    table = tables.accuracy_table(judged)
    assert table[["design", "accuracy", "tokens"]].values.tolist() == [["C", 0.5, 15.0], ["R", 1.0, 15.0]]
    text = tables.accuracy_markdown(table)
    assert "| 50.0 [" in text and "**100.0** [" in text and ", 15 tok" in text


def test_unknown_tokens_are_not_shown_as_zero():
    table = tables.accuracy_table(judgments("C", tokens=None))
    assert table["tokens"].isna().all() and "tok" not in tables.accuracy_markdown(table)


def test_unjudged_rows_lower_accuracy_and_are_counted(judged):
    part = judgments("H", verdicts=["supported", None, "supported", None])
    table = tables.accuracy_table(pd.concat([judged, part], ignore_index=True)).set_index("design")
    assert table.loc["H", ["accuracy", "n_unjudged", "accuracy_judged"]].tolist() == [0.5, 2, 1.0]
    assert "2 unjudged" in tables.accuracy_markdown(table.reset_index())


def test_ties_for_the_best_are_all_bold_and_nothing_is_where_all_are_equal():
    both = pd.concat([judgments("C"), judgments("H")], ignore_index=True)
    assert "**" not in tables.accuracy_markdown(tables.accuracy_table(both))
    more = pd.concat([both, judgments("R", right=(0, 0, 0, 0))], ignore_index=True)
    assert tables.accuracy_markdown(tables.accuracy_table(more)).count("**75.0**") == 2


def test_a_missing_cell_says_so_and_is_no_hole(judged):
    more = pd.concat([judged, judgments("C", judge="k")], ignore_index=True)
    assert "not run" in tables.accuracy_markdown(tables.accuracy_table(more))


def test_two_versions_of_a_design_are_refused(judged):
    two = pd.concat([judged, judgments("C", prompt="C.v2")], ignore_index=True)
    with pytest.raises(ValueError, match=r"design C comes as C\.v1, C\.v2; choose one"):
        tables.accuracy_table(two)


def test_numbers_are_rendered_and_never_invented():
    assert [tables.percent(x) for x in (0.975, 0.0, math.nan)] == ["97.5", "0.0", "n/a"]
    assert tables.interval(math.nan, 0.5) == "[n/a]" and tables.points(-0.072) == "-7.2"
    assert tables.points(math.nan) == "n/a"


def test_a_cell_of_markdown_stays_one_cell_whatever_stands_in_it():
    text = tables.markdown(pd.DataFrame({"a|b": ["x|y", "two\nlines", "<script>"]}))
    lines = text.splitlines()
    assert len(lines) == 5 and all(re.sub(r"\\\|", "", line).count("|") == 2 for line in lines)
    assert "&lt;script>" in text and "two lines" in text


def test_markdown_keeps_texts_that_look_like_numbers():
    text = tables.markdown(pd.DataFrame({"id": ["007", "1e5"], "p": ["<1e-300", "0.125"]}))
    assert "007" in text and "1e5" in text and "&lt;1e-300" in text
    missing = tables.markdown(pd.DataFrame({"rows": pd.array([3, None], dtype="Int64"), "b": ["None", "nan"]}))
    assert [line.split("|")[1].strip() for line in missing.splitlines()[2:]] == ["3", ""] and "nan" in missing


def test_paired_table_counts_wins_ties_and_marks_disagreement(judged):
    text = tables.paired_markdown(tables.paired_table(judged, [("R", "C")]))
    assert "| R − C" in text and "2 : 0 : 0" in text and "+50.0" in text and "0.500" in text
    line = tables.paired_table(judged, [("R", "C")]).assign(agree=False)
    assert "0.500 *" in tables.paired_markdown(line)


def test_complexity_bins_cover_every_question(judged):
    table = tables.complexity_table(judged, "R", "C")
    assert table["n_questions"].sum() == 2 and table["complexity_bin"].tolist() == ["2", "3"]


def test_complexity_keeps_the_order_of_the_datasets():
    frames = [judgments(design, dataset=name) for name in ("truthfulqa", "asqa") for design in ("H", "C")]
    table = tables.complexity_table(pd.concat(frames, ignore_index=True))
    assert table["dataset"].tolist() == ["truthfulqa", "truthfulqa", "asqa", "asqa"]


def test_parse_table_counts_every_stage(judged):
    part = judgments("H", verdicts=[None, None, "supported", None])
    table = tables.parse_table(pd.concat([judged, part], ignore_index=True)).set_index("design")
    assert table.loc["H", ["whole", "embedded", "recovered", "unjudged", "asked"]].tolist() == [1, 0, 0, 3, 4]
    assert tables.reason_table(part).values.tolist() == [["j", "H", "truncated", 3]]


def test_findings_say_cannot_tell_where_two_questions_cannot(judged):
    text = findings.differences(tables.paired_table(judged, [("R", "C")]))
    assert "R is better" not in text and "0 of 2 questions tied" in text


def test_findings_name_a_design_that_is_really_better():
    n = 30
    many = [judgments("C", right=(1, 0) * n), judgments("R", right=(1, 1) * n)]
    text = findings.differences(tables.paired_table(pd.concat(many, ignore_index=True), [("R", "C")]))
    assert text.startswith("- asqa, j: R is better than C (R − C: +50.0 points")
    assert findings.pairs(tables.paired_table(pd.concat(many, ignore_index=True))) == "- asqa, j: R is better than C."
    same = [judgments("C", right=(1, 0) * n), judgments("R", right=(1, 0) * n)]
    text = findings.differences(tables.paired_table(pd.concat(same, ignore_index=True), [("R", "C")]))
    assert "cannot tell R from C" in text and "exact p 1" in text
    text = findings.pairs(tables.paired_table(pd.concat(same, ignore_index=True)))
    assert text == "- asqa, j: cannot tell any two of the designs apart (1 pairs)."


def test_a_judge_that_always_says_the_same_is_named():
    same = judgments("C", verdicts=["supported"] * 4)
    text = findings.one_verdict(pd.concat([same, judgments("H")], ignore_index=True))
    assert text.startswith("- j calls every row supported in C: its accuracy there is that label's share")
    assert findings.one_verdict(judgments("H")).startswith("Every judge gives more than one verdict")


def test_findings_of_ties_and_of_nothing_judged(judged):
    text = findings.best_and_weakest(tables.accuracy_table(judged))
    assert text == "- asqa, j: highest R (100.0 %), lowest C (50.0 %)."
    even = pd.concat([judgments("C"), judgments("H")], ignore_index=True)
    assert findings.best_and_weakest(tables.accuracy_table(even)) == "- asqa, j: all designs 75.0 %."


# Files.


def test_cells_come_back_as_they_went_and_missing_ones_name_their_command(judged, out):
    judged["model"] = "m-2026"
    written = results.write_cells("run", judged, {"parameters": {"seed": 0}})
    assert [path.name for path in written] == ["j.primary.asqa.C.v1.parquet", "j.primary.asqa.R.v1.parquet"]
    p = SimpleNamespace(
        source="sample", files={}, n_questions=3, seed=1, datasets=("asqa",), designs=("C.v1", "R.v1"), judges=("j",)
    )
    back, missing = results.read_cells("run", p, ["j"])
    pd.testing.assert_frame_equal(back, judged)
    assert missing == []
    made = json.loads(written[0].with_suffix(".json").read_text(encoding="utf-8"))
    assert made["models that answered"] == ["m-2026"] and made["parameters"] == {"seed": 0}
    assert set(made["provenance"]) == set(results.provenance())
    (command,) = results.read_cells("run", p, ["j", "k"])[1]
    assert command.startswith("2 cells by k: .venv/bin/papermill notebooks/20-judge.ipynb out.ipynb -y '")
    given = yaml.safe_load(command.split("-y '")[1].removesuffix("'"))
    assert given == {
        "source": "sample",
        "files": {},
        "n_questions": 3,
        "seed": 1,
        "judge": "k",
        "datasets": ["asqa"],
        "designs": ["C.v1", "R.v1"],
    }
    assert results.read_cells("other", p, ["j"])[0].empty
    # Neither other judges nor other designs overwrite a comparison.
    names = [
        results.comparison("run", p),
        results.comparison("run", SimpleNamespace(**{**vars(p), "judges": ("k",)})),
    ]
    names.append(results.comparison("run", SimpleNamespace(**{**vars(p), "designs": results.PRIMARY})))
    assert names == ["run--j--C.v1+R.v1", "run--k--C.v1+R.v1", "run--j"]


def test_a_file_that_cannot_be_written_leaves_no_part_behind(tmp_path, monkeypatch):
    (tmp_path / "x.csv").mkdir()
    with pytest.raises(OSError):
        results.write_bytes(tmp_path / "x.csv", b"data")
    assert [path.name for path in tmp_path.iterdir()] == ["x.csv"]


def test_a_table_is_the_same_bytes_twice_and_leaves_no_part_behind(judged, tmp_path):
    for name in ("a.parquet", "a.csv"):
        first = results.write_table(tmp_path / name, judged).read_bytes()
        assert results.write_table(tmp_path / name, judged).read_bytes() == first
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.csv", "a.parquet"]


def test_written_names_rows_and_hashes_without_a_machine_path(judged, tmp_path):
    table = results.written(
        [results.write_table(tmp_path / "a.csv", judged), results.write_bytes(tmp_path / "b.png", b"x")]
    )
    assert table["file"].tolist() == ["a.csv", "b.png"] and table["rows"].tolist() == [8, pd.NA]
    assert table["sha256"].str.len().eq(16).all()


def test_provenance_names_commit_and_versions():
    facts = results.provenance()
    assert {"git commit", "python", "pandas", "openai"} <= set(facts) and all(facts.values())


def test_figures_hold_every_judge_and_design(judged):
    more = pd.concat([judged, judgments("C", judge="k", right=(0, 0, 0, 0))], ignore_index=True)
    figure = figures.accuracy(tables.accuracy_table(more))
    axis = figure.axes[0]
    assert axis.get_legend_handles_labels()[1] == ["j", "k"]
    assert [label.get_text() for label in axis.get_yticklabels()] == ["C", "R"]
    assert len(figures.confusion(more).axes) == 2 * 2


def test_figures_carry_no_date(judged):
    figure = figures.accuracy(tables.accuracy_table(judged))
    data = io.BytesIO()
    figure.savefig(data, format="pdf", metadata=figures._NO_METADATA["pdf"])
    assert b"CreationDate" not in data.getvalue() and b"Matplotlib" not in data.getvalue()


# Stored numbers.


@pytest.fixture
def stored(tmp_path, monkeypatch):
    monkeypatch.setattr(paths, "EXPECTED", tmp_path)
    monkeypatch.delenv(expect.WRITE, raising=False)
    (tmp_path / "run.json").write_text(json.dumps({"30": {"a": 0.5, "b": None}}), encoding="utf-8")
    return tmp_path / "run.json"


def test_equal_numbers_pass_and_say_so(stored):
    assert expect.check("run", "30", {"a": 0.5, "b": math.nan}).startswith("2 numbers equal")


@pytest.mark.parametrize(
    ("numbers", "line"),
    [
        ({"a": 0.5000001, "b": math.nan}, "a: expected 0.5, found 0.5000001"),
        ({"a": 0.5}, "b: expected None, found nothing"),
        ({"a": 0.5, "b": math.nan, "c": 1}, "c: expected nothing, found 1.0"),
        ({"a": math.nan, "b": math.nan}, "a: expected 0.5, found None"),
    ],
)
def test_a_number_that_differs_is_new_or_gone_fails_by_name(stored, numbers, line):
    with pytest.raises(AssertionError, match=line):
        expect.check("run", "30", numbers)


def test_another_run_has_nothing_stored_and_says_so(stored):
    assert "none were compared" in expect.check("other", "30", {"a": 1.0})
    assert "none were compared" in expect.check("run", "31", {"a": 1.0})


def test_numbers_are_written_only_when_asked(stored, monkeypatch):
    monkeypatch.setenv(expect.WRITE, "1")
    expect.check("run", "30", {"a": 0.25})
    assert json.loads(stored.read_text())["30"] == {"a": 0.25}


def test_a_part_that_is_new_is_named_and_fails_nothing_and_a_known_one_still_does(tmp_path, monkeypatch):
    monkeypatch.setattr(paths, "EXPECTED", tmp_path)
    (tmp_path / "run.json").write_text(json.dumps({"known": {"a": 0.5}}))
    assert expect.check_each("run", {"known": {"a": 0.5}}) == "1 numbers equal those in run.json."
    said = expect.check_each("run", {"known": {"a": 0.5}, "mine": {"a": 1.0}})
    assert said == "1 parts checked; no numbers are stored for mine."
    with pytest.raises(AssertionError, match=r"known: a: expected 0\.5, found 0\.25"):
        expect.check_each("run", {"mine": {"a": 1.0}, "known": {"a": 0.25}})


def test_the_committed_run_has_stored_numbers_for_its_notebooks():
    what = json.loads((paths.EXPECTED / "sample-40q-seed0.json").read_text(encoding="utf-8"))
    assert [name.split()[0] for name in sorted(what)] == ["20-judge", "20-judge", "30-designs", "50-label-standards"]
    assert all(len(numbers) >= 12 for numbers in what.values())


def test_a_lone_carriage_return_ends_no_line_of_a_csv(tmp_path):
    table = pd.DataFrame({"a": ["x\ry", "1"], "b": ["p", "q"]})
    path = results.write_table(tmp_path / "t.csv", table)
    assert pd.read_csv(path, dtype=str, keep_default_na=False).to_dict("list") == {
        "a": ["x\ry", "1"],
        "b": ["p", "q"],
    }
