"""What `lib.labels` must make of questions: rows, labels, bins, and the table that describes them."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lib.labels import build_rows, complexity_bins, summary
from lib.paths import ROOT
from lib.sources import DATASETS, load_questions

SHARED = ROOT.parent / "shared" / "data"
COLUMNS = "row_id dataset question_id kind question reference candidate label complexity".split()
REAL = {
    "truthfulqa": "truthfulqa/TruthfulQA.v1-817.csv",
    "asqa": "asqa/asqa_dev.hub-fields.jsonl",
    "qampari": "qampari/qampari_dev.alce.json",
}

needs_shared = pytest.mark.skipif(not SHARED.exists(), reason="the folder shared/data is absent")


def questions(*rows: dict) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=["dataset", "question_id", "question", "reference", "complexity", "parts"])


def question(dataset, parts, question_id="007", reference="The {reference}.\nNA", complexity=None) -> dict:
    return {
        "dataset": dataset,
        "question_id": question_id,
        "question": 'A "question"?',
        "reference": reference,
        "complexity": len(parts) if complexity is None else complexity,
        "parts": parts,
    }


def pairs(count: int) -> list[tuple[str, str]]:
    return [(f"Sub {i}?", f"answer {i}") for i in range(count)]


def with_complexity(values: dict[str, list[int]]) -> pd.DataFrame:
    """Rows as `build_rows` makes them, two a question, of the given complexities."""
    lists = [
        question(dataset, ["a", "b"], str(i), "ref", value)
        for dataset, numbers in values.items()
        for i, value in enumerate(numbers)
    ]
    return build_rows(questions(*lists))


def ends(label: str) -> tuple[int, int]:
    numbers = [int(number) for number in label.split("-")]
    return numbers[0], numbers[-1]


def test_a_truthfulqa_question_gives_a_full_and_an_incorrect_row():
    rows = build_rows(questions(question("truthfulqa", ["wrong {x}"])))
    assert list(rows.columns) == COLUMNS
    assert rows["row_id"].tolist() == ["truthfulqa/007/full", "truthfulqa/007/incorrect"]
    assert rows["kind"].tolist() == ["full", "incorrect"]
    assert rows["label"].tolist() == ["supported", "unsupported"]
    assert rows["candidate"].tolist() == ["The {reference}.\nNA", "wrong {x}"]
    assert set(rows["reference"]) == {"The {reference}.\nNA"}
    assert set(rows["question"]) == {'A "question"?'}
    assert set(rows["question_id"]) == {"007"}


@pytest.mark.parametrize(("count", "kept"), [(1, 1), (2, 1), (3, 1), (4, 2), (5, 2), (7, 3)])
def test_a_partial_asqa_row_holds_the_earlier_half_of_the_pairs_one_a_line(count, kept):
    rows = build_rows(questions(question("asqa", pairs(count))))
    assert rows["kind"].tolist() == ["full", "partial"]
    assert rows["label"].tolist() == ["supported", "partially_supported"]
    assert rows["candidate"][1] == "\n".join(f"Sub {i}? answer {i}" for i in range(kept))


@pytest.mark.parametrize(("count", "kept"), [(2, 1), (3, 1), (5, 2), (8, 4)])
def test_a_partial_qampari_row_holds_the_earlier_half_of_the_answers(count, kept):
    answers = [f"A{i}, b" for i in range(count)]
    rows = build_rows(questions(question("qampari", answers, reference=", ".join(answers))))
    assert rows["label"].tolist() == ["supported", "partially_supported"]
    assert rows["candidate"].tolist() == [", ".join(answers), ", ".join(answers[:kept])]


def test_rows_of_several_datasets_keep_the_order_of_the_questions():
    together = pd.concat([load_questions(dataset, n=3) for dataset in DATASETS])
    rows = build_rows(together)
    assert rows.index.tolist() == list(range(18))
    assert rows["question_id"].tolist() == [i for i in together["question_id"] for _ in range(2)]
    assert rows["complexity"].tolist() == [i for i in together["complexity"] for _ in range(2)]
    dtypes = rows.dtypes.astype(str).to_dict()
    assert dtypes == {**dict.fromkeys(COLUMNS, "str"), "complexity": "int64"}


@pytest.mark.parametrize("empty", [questions(), pd.DataFrame(), load_questions("asqa").iloc[:0]])
def test_no_questions_give_no_rows_with_the_right_columns(empty):
    rows = build_rows(empty)
    assert len(rows) == 0
    assert list(rows.columns) == COLUMNS
    assert str(rows["complexity"].dtype) == "int64"
    assert complexity_bins(rows).tolist() == []


def test_a_candidate_that_says_what_the_reference_says_is_refused():
    frame = questions(question("truthfulqa", ["the  {REFERENCE}. na"]))
    with pytest.raises(ValueError, match="truthfulqa/007/incorrect: the candidate says what the reference"):
        build_rows(frame)


def test_a_question_given_twice_is_refused_but_one_id_in_two_datasets_is_not():
    one, two = question("asqa", pairs(2)), question("qampari", ["a", "b"])
    assert len(build_rows(questions(one, two))) == 4
    with pytest.raises(ValueError, match="question asqa/007 comes twice"):
        build_rows(questions(one, two, one))


def test_an_unknown_dataset_is_refused():
    with pytest.raises(ValueError, match="unknown dataset 'squad'"):
        build_rows(questions(question("squad", ["a"])))


def test_bins_are_quantiles_of_the_questions_of_each_dataset_with_whole_ends():
    values = {"asqa": [2, 2, 2, 2, 3, 4, 6, 9], "qampari": [7, 7, 7]}
    rows = with_complexity(values)
    bins = complexity_bins(rows)
    assert bins.name == "complexity_bin"
    # Quartiles of asqa: 2, 2, 2.5, 4.5, 9; the two equal ones are one.
    assert bins[rows["dataset"] == "asqa"].tolist() == ["2"] * 8 + ["3-4"] * 4 + ["5-9"] * 4
    assert bins[rows["dataset"] == "qampari"].tolist() == ["7"] * 6
    assert bins.cat.categories.tolist() == ["2", "3-4", "5-9", "7"]
    assert bins.cat.ordered


def test_bins_count_each_question_once_however_many_rows_it_has():
    rows = with_complexity({"asqa": [1, 2, 3, 4]})
    many = pd.concat([rows, *[rows[rows["complexity"] == 4]] * 9], ignore_index=True)
    assert complexity_bins(many, 2).iloc[: len(rows)].tolist() == complexity_bins(rows, 2).tolist()


def test_bins_keep_the_index_and_order_of_the_rows():
    rows = with_complexity({"asqa": list(range(1, 9)), "qampari": [3, 5, 8]})
    bins = complexity_bins(rows)
    shuffled = rows.sample(frac=1, random_state=3)
    pd.testing.assert_series_equal(complexity_bins(shuffled), bins[shuffled.index])
    repeated = rows.set_axis([0] * len(rows))
    assert complexity_bins(repeated).tolist() == bins.tolist()


def test_bin_categories_are_in_numeric_order():
    rows = with_complexity({"asqa": [2, 2, 9, 10, 11, 100, 120]})
    categories = [ends(label) for label in complexity_bins(rows).cat.categories]
    assert categories == sorted(categories)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(1, 40), min_size=1, max_size=40))
def test_bins_part_the_questions_as_qcut_does_without_gap_or_overlap(values):
    rows = with_complexity({"asqa": values})
    bins = complexity_bins(rows)
    labels = bins.cat.categories.tolist()
    assert ends(labels[0])[0] == min(values) and ends(labels[-1])[1] == max(values)
    assert all(ends(b)[0] == ends(a)[1] + 1 for a, b in itertools.pairwise(labels))
    assert all(
        ends(label)[0] <= value <= ends(label)[1] for label, value in zip(bins, rows["complexity"], strict=True)
    )
    assert set(bins) == set(labels)
    if len(set(values)) > 1:
        codes = pd.qcut(np.array(values), 4, labels=False, duplicates="drop")
        found = bins[::2].cat.codes.tolist()
        assert len(set(zip(codes, found, strict=True))) == len(set(codes)) == len(set(found))


def test_edges_are_not_moved_by_a_rounding_error():
    rows = with_complexity({"asqa": list(range(1, 9))})
    # As floats, some of these edges are a little under the whole number.
    assert complexity_bins(rows, 7).cat.categories.tolist() == ["1-2", "3", "4", "5", "6", "7", "8"]


@pytest.mark.parametrize("n_bins", [0, -1, True, 2.0, "4"])
def test_a_number_of_bins_that_is_no_whole_number_above_zero_is_refused(n_bins):
    with pytest.raises(ValueError, match="n_bins is"):
        complexity_bins(with_complexity({"asqa": [1, 2]}), n_bins)


def test_the_summary_counts_questions_rows_labels_words_and_exclusions():
    frame = questions(
        question("truthfulqa", ["no  no\nno"], "1", "a b c d"),
        question("truthfulqa", ["no"], "2", "a b"),
        question("truthfulqa", ["no no"], "3", "a"),
        question("qampari", ["x y", "z"], "1", "x y, z"),
    )
    exclusions = {"truthfulqa": {"no best answer": 2, "repeated question": 1}, "qampari": {}}
    table = summary(build_rows(frame), exclusions)
    first, second = table.to_dict("records")
    assert first == {
        "dataset": "truthfulqa",
        "questions": 3,
        "rows": 6,
        "supported": 3,
        "partially_supported": 0,
        "unsupported": 3,
        "reference_words_median": 2,
        "reference_words_min": 1,
        "reference_words_max": 4,
        "candidate_words_median": 2,
        "candidate_words_min": 1,
        "candidate_words_max": 3,
        "excluded": 3,
        "exclusions": "no best answer: 2; repeated question: 1",
    }
    assert (second["dataset"], second["questions"], second["partially_supported"]) == ("qampari", 1, 1)
    assert (second["reference_words_median"], second["candidate_words_median"]) == (3, 2)
    assert (second["excluded"], second["exclusions"]) == (0, "")


def test_a_summary_without_the_exclusions_of_a_dataset_is_refused():
    with pytest.raises(ValueError, match="no exclusions of asqa given"):
        summary(build_rows(load_questions("asqa", n=2)), {"qampari": {}})


def test_rows_and_bins_are_the_same_each_time():
    first, second = (build_rows(load_questions("qampari", seed=5)) for _ in range(2))
    pd.testing.assert_frame_equal(first, second)
    pd.testing.assert_series_equal(complexity_bins(first), complexity_bins(second))


@pytest.mark.parametrize("dataset", DATASETS)
def test_the_sample_gives_two_rows_a_question(dataset):
    rows = build_rows(load_questions(dataset))
    assert len(rows) == 80 == rows["row_id"].nunique()
    assert (rows["candidate"].str.strip() != "").all()
    assert complexity_bins(rows).notna().all()


def test_rows_survive_parquet_and_csv(tmp_path):
    frame = questions(question("qampari", ["NA", "007", "2021-05-01"], "1e5", "NA, 007, 2021-05-01"))
    rows = build_rows(frame)
    rows.to_parquet(tmp_path / "rows.parquet")
    pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "rows.parquet"), rows)
    rows.to_csv(tmp_path / "rows.csv", index=False)
    back = pd.read_csv(tmp_path / "rows.csv", dtype=str, keep_default_na=False)
    pd.testing.assert_frame_equal(back.astype({"complexity": "int64"}), rows)


@needs_shared
def test_the_real_files_give_two_rows_a_question_of_the_expected_labels():
    frames = {dataset: load_questions(dataset, SHARED / name) for dataset, name in REAL.items()}
    rows = build_rows(pd.concat(frames.values(), ignore_index=True))
    table = summary(rows, {dataset: frame.attrs["exclusions"] for dataset, frame in frames.items()})
    counts = table.set_index("dataset")[["rows", "supported", "partially_supported", "unsupported"]]
    assert counts.loc["truthfulqa"].tolist() == [1634, 817, 0, 817]
    assert counts.loc["asqa"].tolist() == [1896, 948, 948, 0]
    assert counts.loc["qampari"].tolist() == [2000, 1000, 1000, 0]
    assert rows["row_id"].is_unique
    found = complexity_bins(rows).groupby(rows["dataset"]).unique()
    assert sorted(found["asqa"]) == ["2-3", "4", "5-6"]
