"""What `lib.sources`, `lib.readers` and `lib.hub` must read, keep, refuse and count."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import re
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lib import hub, sources
from lib.paths import ROOT
from lib.sources import DATASETS, load_questions, normalised

SHARED = ROOT.parent / "shared" / "data"
CSV_HEADER = ["Type", "Category", "Question", "Best Answer", "Correct Answers", "Incorrect Answers", "Source"]
# Texts that readers like to change.
NASTY = [
    "None",
    "NA",
    "null",
    "007",
    "1e5",
    "2021-05-01",
    'a "quote", {brace}',
    "two\nlines",
    "three\r\nlines",
    "a\u2028b",
    "é — ½",
]

needs_shared = pytest.mark.skipif(not SHARED.exists(), reason="the folder shared/data is absent")


def truthful(question="Q?", best="right", correct="right; also right", incorrect="wrong; worse") -> list[str]:
    return ["Adversarial", "Cat", question, best, correct, incorrect, ""]


def write_csv(path: Path, rows: list[list[str]], header=CSV_HEADER, bom=True) -> Path:
    text = io.StringIO()
    csv.writer(text).writerows([header, *rows])
    path.write_bytes((b"\xef\xbb\xbf" if bom else b"") + text.getvalue().encode())
    return path


def hub_row(i=0, **fields) -> dict:
    row = {
        "type": "Adversarial",
        "category": "Cat",
        "question": f"Question {i}?",
        "best_answer": "right",
        "correct_answers": ["right", "also right"],
        "incorrect_answers": ["wrong", "worse"],
        "source": "",
    }
    return {**row, **fields}


def asqa_row(i="1", **fields) -> dict:
    pairs = [
        {"question": "Who first?", "short_answers": ["Ann", "Anne"], "wikipage": None, "context": "none"},
        {"question": "Who last?", "short_answers": ["Bob"], "wikipage": "Bob", "context": "none"},
    ]
    annotations = [
        {"knowledge": [{"content": "c", "wikipage": "w"}], "long_answer": " Ann, then Bob. "},
        {"knowledge": [], "long_answer": "Another."},
    ]
    row = {"sample_id": i, "ambiguous_question": " Who? ", "qa_pairs": pairs, "annotations": annotations}
    return {**row, "wikipages": [{"title": "t", "url": "u"}], **fields}


def alce_row(i="1", answers=(("A", "a1"), ("B",), ("C",)), **fields) -> dict:
    return {"id": i, "question": "Which?", "answers": [list(a) for a in answers], "answer": "A, B, C.", **fields}


def write_json(path: Path, value) -> Path:
    path.write_text(json.dumps(value), encoding="utf-8")
    return path


def write_jsonl(path: Path, rows: list) -> Path:
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    return path


def write_parquet(path: Path, rows: list[dict]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows), path)
    return path


def only(dataset: str, path: Path) -> pd.Series:
    frame = load_questions(dataset, path)
    assert len(frame) == 1
    return frame.iloc[0]


def refused(dataset: str, source, *parts: str) -> str:
    """The message: one line that holds every part and no folder."""
    with pytest.raises(ValueError) as caught:
        load_questions(dataset, source)
    message = str(caught.value)
    assert "\n" not in message
    assert str(ROOT.parent) not in message and "/tmp" not in message
    for part in parts:
        assert part in message, message
    return message


# --- TruthfulQA ---


@pytest.mark.parametrize("bom", [True, False])
@pytest.mark.parametrize("with_best_incorrect", [True, False])
def test_both_headers_of_truthfulqa_load_with_and_without_a_byte_order_mark(tmp_path, bom, with_best_incorrect):
    row, header = truthful(question='  Is "x, y" so? ', incorrect=" wrong one ;worse;"), list(CSV_HEADER)
    if with_best_incorrect:
        row.insert(4, "not used")
        header.insert(4, "Best Incorrect Answer")
    found = only("truthfulqa", write_csv(tmp_path / "t.csv", [row], header, bom))
    assert found.question == 'Is "x, y" so?'
    assert found.question_id == hashlib.sha256(b'Is "x, y" so?').hexdigest()[:16]
    assert (found.reference, found.complexity, found.parts) == ("right", 1, ["wrong one"])


def test_the_incorrect_answer_is_the_first_that_is_in_no_correct_list(tmp_path):
    row = truthful(correct="right; Also  Right", incorrect="also right.; RIGHT; truly wrong; worse")
    assert only("truthfulqa", write_csv(tmp_path / "t.csv", [row])).parts == ["truly wrong"]


def test_the_best_answer_counts_as_correct_even_if_its_list_lacks_it(tmp_path):
    row = truthful(best="the best", correct="right", incorrect="The best.; wrong")
    assert only("truthfulqa", write_csv(tmp_path / "t.csv", [row])).parts == ["wrong"]


def test_ineligible_truthfulqa_rows_are_counted_by_reason(tmp_path):
    rows = [
        truthful("A?"),
        truthful(" A? "),
        truthful("B?", best=" "),
        truthful("C?", incorrect="right;"),
        truthful(" "),
    ]
    frame = load_questions("truthfulqa", write_csv(tmp_path / "t.csv", rows))
    assert frame["question"].tolist() == ["A?"]
    assert frame.attrs["exclusions"] == {
        "repeated question": 1,
        "no best answer": 1,
        "no incorrect answer outside the correct list": 1,
        "no question": 1,
    }
    source = frame.attrs["source"]
    assert (source["rows"], source["eligible"], source["taken"], source["asked"]) == (5, 1, 1, None)


@pytest.mark.parametrize("write", [write_json, write_jsonl, write_parquet])
def test_the_hubs_truthfulqa_columns_load_from_local_files(tmp_path, write):
    path = write(tmp_path / "t.data", [hub_row(1, best_answer=" good one "), hub_row(2)])
    frame = load_questions("truthfulqa", path).set_index("question")
    assert frame.loc["Question 1?", "reference"] == "good one"
    assert frame.loc["Question 1?", "complexity"] == 2
    assert frame.loc["Question 1?", "parts"] == ["wrong"]


# --- ASQA ---


def as_columns(rows: list[dict]) -> dict:
    return {key: [row[key] for row in rows] for key in rows[0]}


def test_every_asqa_layout_gives_the_same_question(tmp_path):
    row = asqa_row("-7013890438520559398")
    original = {key: value for key, value in row.items() if key != "sample_id"}
    nested = {**row, "qa_pairs": as_columns(row["qa_pairs"]), "annotations": as_columns(row["annotations"])}
    as_number = {**row, "sample_id": -7013890438520559398}
    paths = [
        write_jsonl(tmp_path / "a.jsonl", [row]),
        write_jsonl(tmp_path / "two.jsonl", [row, {**row, "sample_id": "x", "qa_pairs": []}]),
        write_json(tmp_path / "a.json", [row]),
        write_json(tmp_path / "nested.json", [nested]),
        write_json(tmp_path / "number.json", [as_number]),
        write_json(tmp_path / "dev.json", {"train": {}, "dev": {row["sample_id"]: original}}),
        write_json(tmp_path / "other.json", {"validation": {row["sample_id"]: original}}),
        write_parquet(tmp_path / "a.parquet", [row]),
        write_parquet(tmp_path / "number.parquet", [as_number]),
        write_parquet(tmp_path / "nested.parquet", [nested]),
    ]
    for path in paths:
        found = only("asqa", path)
        assert found.question_id == "-7013890438520559398", path.name
        assert (found.question, found.reference, found.complexity) == ("Who?", "Ann, then Bob.", 2), path.name
        assert found.parts == [("Who first?", "Ann"), ("Who last?", "Bob")], path.name
    assert load_questions("asqa", tmp_path / "other.json").attrs["source"]["split"] == "validation"


def test_several_splits_without_dev_are_refused_by_name(tmp_path):
    row = asqa_row()
    path = write_json(tmp_path / "s.json", {"train": {"1": row}, "test": {"2": row}})
    refused("asqa", path, "s.json", "train, test", "dev")


def test_distinct_pairs_are_told_by_sub_question_and_first_short_answer(tmp_path):
    def pair(question, *answers):
        return {"question": question, "short_answers": list(answers)}

    pairs = [
        pair("Who  first?", "Ann"),
        pair("who first?", "ann.", "other"),
        pair("Who first?", "", "Eve"),
        pair("Who never?", " "),
        pair("Who none?"),
        pair("Who last?", "Ann"),
    ]
    path = write_json(tmp_path / "a.json", [asqa_row(qa_pairs=pairs)])
    found = only("asqa", path)
    assert found.parts == [("Who  first?", "Ann"), ("Who first?", "Eve"), ("Who last?", "Ann")]
    assert found.complexity == 3
    assert load_questions("asqa", path).attrs["notes"] == {
        "repeated pairs": 1,
        "pairs without a sub-question or a short answer": 2,
    }


def test_the_asqa_reference_is_the_first_long_answer_that_is_not_empty(tmp_path):
    annotations = [{"long_answer": " "}, {"long_answer": None}, {"long_answer": " Two\n\nparts. "}]
    path = write_json(tmp_path / "a.json", [asqa_row(annotations=annotations)])
    assert only("asqa", path).reference == "Two\n\nparts."


def test_ineligible_asqa_rows_are_counted_by_reason(tmp_path):
    rows = [
        asqa_row("1"),
        asqa_row("2", annotations=[{"long_answer": ""}]),
        asqa_row("3", qa_pairs=asqa_row()["qa_pairs"][:1]),
        asqa_row("4", ambiguous_question=" "),
    ]
    frame = load_questions("asqa", write_jsonl(tmp_path / "a.jsonl", rows))
    assert frame["question_id"].tolist() == ["1"]
    expected = {"no long answer": 1, "fewer than 2 distinct pairs": 1, "no question": 1}
    assert frame.attrs["exclusions"] == expected


# --- QAMPARI ---


def test_every_qampari_layout_gives_the_same_question(tmp_path):
    def native(i, *items):
        return {"qid": i, "question_text": "Which?", "answer_list": list(items), "entities": []}

    items = [
        {"answer_text": " A ", "aliases": ["a1"], "url": "u"},
        {"answer_text": "B", "aliases": [], "url": "u"},
        {"answer_text": "", "aliases": ["", "C"], "url": "u"},
    ]
    bare = [{"answer_text": text} for text in "ABC"]
    columns = {**native("007"), "answer_list": as_columns(items)}
    paths = [
        write_json(tmp_path / "alce.json", [alce_row("007", [(" A ", "a1"), ("B",), ("", "C")])]),
        write_parquet(tmp_path / "alce.parquet", [alce_row("007")]),
        write_jsonl(tmp_path / "native.jsonl", [native("007", *items)]),
        write_jsonl(tmp_path / "bare.jsonl", [native("007", *bare)]),
        write_jsonl(tmp_path / "columns.jsonl", [columns]),
        write_parquet(tmp_path / "native.parquet", [native("007", *items)]),
        write_parquet(tmp_path / "columns.parquet", [columns]),
        write_parquet(tmp_path / "some.parquet", [native("007", items[0], *bare[1:])]),
    ]
    for path in paths:
        found = only("qampari", path)
        assert found.question_id == "007", path.name
        assert (found.reference, found.complexity, found.parts) == ("A, B, C", 3, ["A", "B", "C"]), path.name


def test_qampari_answers_are_distinct_and_empty_groups_go_and_both_are_counted(tmp_path):
    row = alce_row(answers=[("A, b",), ("",), (), ("a,  B.",), ("<i>C</i> &amp;\nD", "x")])
    path = write_json(tmp_path / "q.json", [row, alce_row("2", [("A",), ("a.",)])])
    frame = load_questions("qampari", path)
    assert frame["parts"].tolist() == [["A, b", "<i>C</i> &amp;\nD"]]
    assert frame["reference"].tolist() == ["A, b, <i>C</i> &amp;\nD"]
    assert frame.attrs["notes"] == {"empty answer groups": 2, "repeated answers": 2}
    assert frame.attrs["exclusions"] == {"fewer than 2 distinct answers": 1}


def test_the_hub_has_no_qampari_and_says_where_a_file_comes_from():
    refused("qampari", "hub", "no official hub copy", "ALCE", "file's path")


# --- text and ids ---


@pytest.mark.parametrize("write", [write_json, write_jsonl, write_parquet])
def test_texts_and_ids_that_look_like_something_else_survive(tmp_path, write):
    path = write(tmp_path / "q.data", [alce_row(i, [[t] for t in NASTY], question=i) for i in NASTY])
    frame = load_questions("qampari", path)
    assert sorted(frame["question_id"]) == sorted(NASTY)
    assert frame["question"].tolist() == frame["question_id"].tolist()
    assert all(parts == NASTY for parts in frame["parts"])


def test_csv_texts_that_look_like_something_else_survive(tmp_path):
    rows = [truthful(text, text, text, f"not {text}") for text in NASTY]
    frame = load_questions("truthfulqa", write_csv(tmp_path / "t.csv", rows))
    assert sorted(frame["question"]) == sorted(NASTY)
    assert frame["reference"].tolist() == frame["question"].tolist()
    assert [parts[0] for parts in frame["parts"]] == [f"not {text}" for text in frame["question"]]


def test_the_columns_are_text_and_whole_numbers():
    dtypes = load_questions("asqa").dtypes.astype(str).to_dict()
    texts = dict.fromkeys(("dataset", "question_id", "question", "reference"), "str")
    assert dtypes == {**texts, "complexity": "int64", "parts": "object"}


def test_normalised_folds_case_and_blanks_and_drops_one_full_stop():
    assert normalised("  The\n CAT.. ") == "the cat."
    assert normalised("Straße") == normalised("STRASSE")


# --- selection ---


def test_the_order_is_by_sha256_of_seed_dataset_and_id(tmp_path):
    path = write_json(tmp_path / "q.json", [alce_row(i) for i in ("a", "b", "c", "d")])
    for seed in (0, 7):
        key = {i: hashlib.sha256(f"{seed}\nqampari\n{i}".encode()).hexdigest() for i in "abcd"}
        found = load_questions("qampari", path, seed=seed)
        assert found["question_id"].tolist() == sorted("abcd", key=key.get)
        assert found.index.tolist() == [0, 1, 2, 3]


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    ids=st.lists(st.text(st.characters(exclude_categories=["Cs"]), min_size=1), min_size=2, unique=True),
    seed=st.integers(),
    data=st.data(),
)
def test_a_selection_is_a_prefix_and_does_not_depend_on_the_order_of_the_file(tmp_path, ids, seed, data):
    ids = [i for i in ids if i.strip()] or ["x"]
    small, large = sorted(data.draw(st.integers(1, len(ids) + 2)) for _ in range(2))
    one = write_json(tmp_path / "one.json", [alce_row(i) for i in ids])
    other = write_json(tmp_path / "other.json", [alce_row(i) for i in data.draw(st.permutations(ids))])
    few = load_questions("qampari", one, n=small, seed=seed)
    many = load_questions("qampari", other, n=large, seed=seed)
    assert few["question_id"].tolist() == many["question_id"].tolist()[:small]
    assert len(many) == min(large, len(ids)) == many.attrs["source"]["taken"]
    assert many.attrs["source"]["asked"] == large


@pytest.mark.parametrize("n", [0, -1, True, 1.0, "5"])
def test_a_count_that_is_no_whole_number_above_zero_is_refused(n):
    with pytest.raises(ValueError, match=r"n is .*; give a whole number"):
        load_questions("asqa", n=n)


@pytest.mark.parametrize("seed", [None, True, "0", 1.5])
def test_a_seed_that_is_no_whole_number_is_refused(seed):
    with pytest.raises(ValueError, match=r"seed is .*; give a whole number"):
        load_questions("asqa", seed=seed)


# --- bad files ---


def test_an_unknown_dataset_is_refused_with_the_three_names():
    refused("squad", "sample", "'squad'", "truthfulqa, asqa, qampari")


BAD_BYTES = {
    "an empty file": ("qampari", b"", ["the file is empty"]),
    "only a byte order mark": ("truthfulqa", b"\xef\xbb\xbf\n", ["the file is empty"]),
    "an empty list": ("qampari", b"[]", ["no rows"]),
    "a header alone": ("truthfulqa", ",".join(CSV_HEADER).encode(), ["no rows"]),
    "not UTF-8": ("truthfulqa", b"Question\nCaf\xe9\n", ["line 2", "UTF-8"]),
    "broken Parquet": ("asqa", b"PAR1 and nothing more", ["broken Parquet"]),
    "cut JSON": ("qampari", b'[\n {"id": "1",\n', ["line 3", "broken JSON"]),
    "a half-written last line": (
        "asqa",
        json.dumps(asqa_row()).encode() + b'\n{"sample_',
        ["line 2", "half-written"],
    ),
    "text instead of an object": ("qampari", b'["x"]', ["row 1", "found text"]),
    "a repeated key": ("asqa", b'{"dev": {"1": {}, "1": {}}}', ["'1' appears twice"]),
    "too many fields": (
        "truthfulqa",
        b"Question,Best Answer\na,b\nc,d,e\n",
        ["row 2", "line 3", "3 fields", "has 2"],
    ),
    "an open quote": ("truthfulqa", b'Question,Best Answer\na,"b\n', ["line 2", "quotes"]),
    "a repeated column": ("truthfulqa", b"Question,Question\na,b\n", ["column name", "twice"]),
    "a missing column": (
        "truthfulqa",
        b"Question,Best Answer,Correct Answers\na,b,c\n",
        ["'Incorrect Answers': missing", "best_answer"],
    ),
    "another dataset's file": ("qampari", json.dumps([asqa_row()]).encode(), ["'id'", "missing", "answer_list"]),
}


@pytest.mark.parametrize("case", BAD_BYTES)
def test_a_file_that_cannot_be_read_is_refused_in_one_clear_line(tmp_path, case):
    dataset, data, parts = BAD_BYTES[case]
    path = tmp_path / "given.file"
    path.write_bytes(data)
    refused(dataset, path, "given.file", *parts)


BAD_ROWS = {
    "answers a string": ("qampari", alce_row(answer="", answers=()) | {"answers": "A"}, "'answers'", "found text"),
    "a group a string": ("qampari", alce_row() | {"answers": [["A"], "B"]}, "'answers[1]'", "found text"),
    "an alias a number": ("qampari", alce_row(answers=[["A"], ["B", 7]]), "'answers[1][1]'", "found a number"),
    "an id with a fraction": ("qampari", alce_row(1.5), "'id'", "found a number"),
    "an id true": ("qampari", alce_row(True), "'id'", "found true or false"),
    "an empty id": ("qampari", alce_row(" "), "'id'", "empty"),
    "no id": ("qampari", alce_row(None), "'id'", "found nothing"),
    "half a surrogate pair": ("qampari", alce_row(question="\ud800"), "'question'", "surrogate"),
    "pairs a number": ("asqa", asqa_row(qa_pairs=3), "'qa_pairs'", "found a number"),
    "a pair a text": ("asqa", asqa_row(qa_pairs=["x"]), "'qa_pairs[0]'", "found text"),
    "a pair without answers": ("asqa", asqa_row(qa_pairs=[{"question": "x"}]), "qa_pairs[0]", "'short_answers'"),
    "uneven lists": ("asqa", asqa_row(qa_pairs={"question": ["x"], "short_answers": []}), "'qa_pairs'", "length"),
    "no lists": ("asqa", asqa_row(qa_pairs={"question": "x"}), "'qa_pairs'", "list of objects"),
    "a question a list": ("asqa", asqa_row(ambiguous_question=["x"]), "'ambiguous_question'", "found a list"),
    "a long answer a number": ("asqa", asqa_row(annotations=[{"long_answer": 5}]), "'long_answer'", "found a number"),
    "a list as one text": ("truthfulqa", hub_row(correct_answers="a; b"), "'correct_answers'", "found text"),
}


@pytest.mark.parametrize("case", BAD_ROWS)
def test_a_wrong_type_is_refused_with_row_and_field(tmp_path, case):
    dataset, row, *parts = BAD_ROWS[case]
    good = {"truthfulqa": hub_row(), "asqa": asqa_row("good"), "qampari": alce_row("good")}[dataset]
    path = write_json(tmp_path / "given.json", [good, row])
    refused(dataset, path, "given.json, row 2", *parts)


def test_a_key_missing_from_a_later_row_is_refused(tmp_path):
    rows = [alce_row("1"), {"id": "2", "question": "Which?"}]
    refused("qampari", write_jsonl(tmp_path / "q.jsonl", rows), "q.jsonl, line 2", "'answers'", "missing")


@pytest.mark.parametrize("second", ["7", 7])
def test_a_repeated_id_is_refused_with_both_rows(tmp_path, second):
    path = write_json(tmp_path / "q.json", [alce_row("7"), alce_row("8"), alce_row(second)])
    refused("qampari", path, "q.json, row 3", "'7'", "q.json, row 1")


def test_an_id_repeated_by_an_ineligible_row_is_refused_too(tmp_path):
    path = write_json(tmp_path / "q.json", [alce_row("7", []), alce_row("7")])
    refused("qampari", path, "row 2", "row 1")


def test_a_file_without_an_eligible_question_is_refused_with_the_reasons(tmp_path):
    path = write_json(tmp_path / "q.json", [alce_row("7", []), alce_row("8", [["A"]])])
    refused("qampari", path, "q.json", "no eligible question", "fewer than 2 distinct answers: 2")


def test_a_missing_file_and_a_folder_are_refused(tmp_path):
    refused("asqa", tmp_path / "none.jsonl", "none.jsonl", "no such file")
    refused("asqa", str(tmp_path), tmp_path.name, "folder")


def test_a_path_called_sample_is_a_file_when_it_is_given_as_a_path():
    refused("asqa", Path("sample"), "sample", "no such file")


# --- the hub, through a local folder of the same layout ---


@pytest.fixture
def offline(monkeypatch, tmp_path):
    """No network, and a cache of its own."""
    import datasets
    import huggingface_hub

    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    return tmp_path / "copy"


def point(monkeypatch, dataset: str, folder: Path) -> None:
    monkeypatch.setitem(hub.HUB, dataset, replace(hub.HUB[dataset], path=str(folder)))


ASQA_DEV = "data/dev-00000-of-00001-58a9a40c6e69f07b.parquet"


def test_the_hub_copy_of_asqa_loads_with_exact_ids_and_texts(monkeypatch, offline):
    pairs = [{**p, "short_answers": ["2021-05-01"]} for p in asqa_row()["qa_pairs"]]
    rows = [asqa_row(9007199254740993), asqa_row(-7013890438520559398, qa_pairs=pairs)]
    write_parquet(offline / ASQA_DEV, rows)
    write_parquet(offline / "data/train-00000-of-00001-87b7d64f7913b544.parquet", [asqa_row(1)])
    point(monkeypatch, "asqa", offline)
    frame = load_questions("asqa", "hub").set_index("question_id")
    assert set(frame.index) == {"9007199254740993", "-7013890438520559398"}
    expected = [("Who first?", "2021-05-01"), ("Who last?", "2021-05-01")]
    assert frame.loc["-7013890438520559398", "parts"] == expected
    source = frame.attrs["source"]
    assert (source["kind"], source["split"], source["rows"]) == ("hub", "dev", 2)
    assert re.fullmatch("[0-9a-f]{40}", source["revision"])
    assert source["path"] == "copy"
    assert hub.read_hub("asqa").records[0].fields["sample_id"] == "9007199254740993"


def test_the_hub_copy_of_truthfulqa_loads_by_config_and_split(monkeypatch, offline):
    write_parquet(offline / "generation/validation-00000-of-00001.parquet", [hub_row(best_answer="2021-05-01")])
    other = {"question": "x", "mc1_targets": {"choices": ["a"], "labels": [1]}}
    write_parquet(offline / "multiple_choice/validation-00000-of-00001.parquet", [other])
    configs = [
        f"- config_name: {name}\n  data_files:\n  - split: validation\n    path: {name}/validation-*\n"
        for name in ("generation", "multiple_choice")
    ]
    (offline / "README.md").write_text("---\nconfigs:\n" + "".join(configs) + "---\n")
    point(monkeypatch, "truthfulqa", offline)
    found = load_questions("truthfulqa", "hub").iloc[0]
    assert (found.question, found.reference, found.parts) == ("Question 0?", "2021-05-01", ["wrong"])


def test_a_hub_copy_without_a_column_is_refused(monkeypatch, offline):
    row = asqa_row()
    del row["annotations"]
    write_parquet(offline / ASQA_DEV, [row])
    point(monkeypatch, "asqa", offline)
    refused("asqa", "hub", "hub copy", "split dev", "annotations", "local file")


def test_an_empty_split_of_the_hub_is_refused(monkeypatch, offline):
    path = offline / ASQA_DEV
    path.parent.mkdir(parents=True)
    pq.write_table(pa.Table.from_pylist([asqa_row()]).slice(0, 0), path)
    point(monkeypatch, "asqa", offline)
    refused("asqa", "hub", "hub copy", "split dev is empty", "local file")


@pytest.mark.parametrize("dataset", ["truthfulqa", "asqa"])
def test_a_hub_out_of_reach_is_one_line_that_names_the_way_out(offline, dataset):
    with pytest.raises(ConnectionError) as caught:
        load_questions(dataset, "hub")
    expected = f"hub copy {hub.HUB[dataset].path}: the hub cannot be reached; try again or give a local file"
    assert str(caught.value) == expected


# --- our sample and the real files ---


@pytest.mark.parametrize("dataset", DATASETS)
def test_the_sample_has_forty_eligible_questions_and_a_counted_rest(dataset):
    frame = load_questions(dataset)
    assert len(frame) == 40 == frame["question_id"].nunique()
    source = frame.attrs["source"]
    assert source["kind"] == "sample" and source["file"] == sources.SAMPLE_FILES[dataset]
    assert sum(frame.attrs["exclusions"].values()) == source["rows"] - 40 >= 1
    pd.testing.assert_frame_equal(load_questions(dataset, n=10), frame.head(10))
    assert load_questions(dataset, n=99).attrs["source"]["taken"] == 40
    assert load_questions(dataset, seed=1)["question_id"].tolist() != frame["question_id"].tolist()


REAL = {
    "truthfulqa/TruthfulQA.v1-817.csv": ("truthfulqa", 817, {}, "f9bd9e859cc102cb"),
    "truthfulqa/TruthfulQA.v0-817.csv": ("truthfulqa", 817, {}, "8d7dd15f03319614"),
    "truthfulqa/TruthfulQA.2025-790.csv": ("truthfulqa", 790, {}, "b8d8ef1e12f98b4f"),
    "asqa/asqa_dev.hub-fields.jsonl": ("asqa", 948, {"repeated pairs": 58}, "645daa907c28de8c"),
    "asqa/asqa_dev.original-layout-9rows.json": ("asqa", 9, {}, "748d72f024d4dec9"),
    "qampari/qampari_dev.alce.json": (
        "qampari",
        1000,
        {"empty answer groups": 5, "repeated answers": 1212},
        "7ab7c32024a32d7c",
    ),
}


@needs_shared
@pytest.mark.parametrize("name", REAL)
def test_the_real_files_load_whole(name):
    dataset, rows, notes, digest = REAL[name]
    frame = load_questions(dataset, SHARED / name)
    assert len(frame) == rows == frame.attrs["source"]["rows"]
    assert frame.attrs["exclusions"] == {}
    assert frame.attrs["notes"] == notes
    assert frame.attrs["source"]["sha256"].startswith(digest)
    assert frame["question"].equals(frame["question"].str.strip())
    for n in (50, 200):
        assert load_questions(dataset, SHARED / name, n=n).equals(frame.head(n))


@needs_shared
def test_the_two_asqa_layouts_agree_on_the_real_rows():
    hub_fields = load_questions("asqa", SHARED / "asqa/asqa_dev.hub-fields.jsonl")
    original = load_questions("asqa", SHARED / "asqa/asqa_dev.original-layout-9rows.json")
    same = hub_fields[hub_fields["question_id"].isin(original["question_id"])].reset_index(drop=True)
    pd.testing.assert_frame_equal(same, original)


def test_a_cell_longer_than_the_csv_modules_limit_is_read(tmp_path):
    long = "word " * 40_000
    path = tmp_path / "t.csv"
    header = "Question,Best Answer,Correct Answers,Incorrect Answers"
    path.write_text(f"{header}\nWhy?,{long},{long},Because.\n", encoding="utf-8")
    assert load_questions("truthfulqa", path)["reference"].tolist() == [long.strip()]


def test_json_that_is_nested_too_deep_is_refused_by_name(tmp_path):
    path = tmp_path / "deep.json"
    path.write_text("[" * 100_000, encoding="utf-8")
    with pytest.raises(ValueError, match=r"deep\.json.*nested too deep"):
        load_questions("qampari", path)


def test_a_csv_may_begin_with_a_bracket(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text(
        "[note],Question,Best Answer,Correct Answers,Incorrect Answers\n,Why?,So.,So.,No.\n", encoding="utf-8"
    )
    assert load_questions("truthfulqa", path)["question"].tolist() == ["Why?"]
