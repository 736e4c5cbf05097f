"""Labels by people: what is drawn and shown, files of labels good and bad, and one saved label at a time."""

import threading

import pandas as pd
import pytest

from lib import label_files, labelling, paths
from lib.label_files import CANNOT_TELL, gather, read_labels, row_hash, standards
from lib.label_widget import LabelWidget
from lib.labelling import Session, draw
from lib.labels import build_rows
from lib.sources import DATASETS, load_questions


@pytest.fixture(scope="module")
def sample():
    questions = [load_questions(dataset, n=40) for dataset in DATASETS]
    return build_rows(pd.concat(questions, ignore_index=True))


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(paths, "LABELS", tmp_path / "labels")
    return tmp_path / "labels"


def write(folder, text, name="ann"):
    folder.mkdir(exist_ok=True)
    path = folder / f"{name}.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def session(rows, annotator="ann", known=None, source="sample"):
    return Session(rows, annotator, "1", rows if known is None else known, source)


def test_a_draw_is_stratified_seeded_and_a_part_of_a_larger_one(sample):
    small, large = draw(sample, 6), draw(sample, 20)
    assert small.groupby("dataset").size().eq(6).all() and small.groupby(["dataset", "kind"]).size().eq(3).all()
    assert set(small["row_id"]) < set(large["row_id"]) and len(large) == 60
    assert small["row_id"].tolist() == draw(sample.sample(frac=1, random_state=3), 6)["row_id"].tolist()
    assert set(draw(sample, 6, seed=1)["row_id"]) != set(small["row_id"])
    # Kinds and datasets follow no order that would tell the label.
    assert (large["dataset"] != large["dataset"].shift()).sum() > 20 and (
        large["kind"] != large["kind"].shift()
    ).sum() > 20


def test_a_dataset_with_few_rows_gives_them_all_and_an_odd_number_favours_no_dataset(rows):
    assert len(draw(rows, 20)) == 4 and len(draw(rows, 3)) == 3


@pytest.mark.parametrize("number", [0, -1, 2.0, True])
def test_a_number_of_rows_that_is_none_is_refused(sample, number):
    with pytest.raises(ValueError, match="per_dataset"):
        draw(sample, number)


def test_the_annotator_sees_the_three_texts_and_nothing_else_of_a_row(rows):
    widget = LabelWidget(session(rows))
    shown = str(widget.state)
    assert set(widget.state["texts"]) == {"question", "reference", "candidate"}
    hidden = [rows["row_id"][0], "full", "partial", rows["label"][1], "asqa"]
    assert not [word for word in hidden if word in shown.replace("labelled", "")]


def test_each_label_is_on_the_disk_at_once_with_all_that_belongs_to_it(rows, folder):
    first = session(rows)
    for number, (label, note) in enumerate([("supported", ""), (CANNOT_TELL, 'which, then?\n"so", he said')], 1):
        first.label(label, note)
        found = read_labels(folder / "ann.csv", rows, "sample")
        assert len(found) == number and found["label"].iloc[-1] == label and found["note"].iloc[-1] == note
    assert found["row_sha256"].tolist() == [row_hash(row) for row in rows.to_dict("records")[:2]]
    assert found["at"].str.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ").all() and set(found["guide"]) == {"1"}
    assert not [path for path in folder.iterdir() if "part" in path.name]


def test_a_session_goes_on_where_it_was_left_and_back_changes_a_label(rows):
    first = session(rows)
    first.label("supported")
    again = session(rows)
    assert (again.done, again.place, again.finished) == (1, 1, False)
    again.back()
    assert again.current()["label"] == "supported"
    again.label("unsupported", "no")
    assert again.place == 1 and session(rows).done == 1
    for _ in range(3):
        again.label("supported")
    assert again.finished and session(rows).finished
    again.back()
    assert again.current()["candidate"] == rows["candidate"][3]
    for _ in range(9):
        again.back()
    assert again.place == 0 and again.current()["label"] == "unsupported" and again.current()["note"] == "no"


def test_two_windows_of_one_annotator_lose_nothing(rows):
    one, other = session(rows), session(rows)
    one.label("supported")
    other.back()
    other.place = 2
    other.label("unsupported")
    labels = read_labels(one.path, rows, "sample").set_index("row_id")["label"]
    assert labels.to_dict() == {rows["row_id"][0]: "supported", rows["row_id"][2]: "unsupported"}


def test_labels_that_are_saved_at_the_same_moment_are_all_there():
    many = pd.DataFrame([{"row_id": f"asqa/{n}/full", **dict.fromkeys(label_files.SHOWN, str(n))} for n in range(40)])
    sessions = [session(many.iloc[start::4].reset_index(drop=True), known=many) for start in range(4)]

    def all_of(each):
        while not each.finished:
            each.label("supported")

    threads = [threading.Thread(target=all_of, args=(each,)) for each in sessions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(read_labels(sessions[0].path, many, "sample")) == 40


def test_other_columns_and_labels_of_other_sources_outlive_a_session(rows, folder):
    path = write(
        folder, f"row_id,label,sure,source\n{rows['row_id'][0]},supported,very,\nmine/1/full,unsupported,no,hub\n"
    )
    one = session(rows)
    assert (one.done, one.place) == (1, 1)
    one.label("unsupported")
    found = pd.read_csv(path, dtype=str, keep_default_na=False).set_index("row_id")
    assert found.loc[rows["row_id"][0], "sure"] == "very" and found.loc["mine/1/full", "label"] == "unsupported"
    assert gather(rows, ["ann"], "sample")["row_id"].tolist() == rows["row_id"].tolist()[:2]


def test_a_file_made_elsewhere_needs_row_id_and_label_alone(rows, folder):
    for text in (
        "row_id,label\n{0},supported\n",
        "\ufefflabel,row_id\r\nsupported,{0}\r\n\r\n",
        'label, row_id\n"supported",{0}',
    ):
        path = write(folder, text.format(rows["row_id"][0]).replace("label, row_id", "label,row_id"))
        assert read_labels(path, rows, "sample")["label"].tolist() == ["supported"]


LINE = "asqa/0/full,supported"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("row_id,label\nasqa/0/ful,supported\n", "line 2, row_id: 'asqa/0/ful' is none of these 4 rows"),
        (f"row_id,label\n{LINE}\n\n{LINE}\n", "line 4, row_id: asqa/0/full stands twice"),
        ("row_id,label\nasqa/0/full,Supported\n", "line 2, label: 'Supported' is none of supported, partially"),
        ("row_id,label\nasqa/0/full\n", "line 2, label: '' is none of"),
        ("row_id,label,row_sha256\nasqa/0/full,supported,0123456789abcdef\n", "line 2, row_sha256: .*have changed"),
        ("row_id,label,source\nasqa/9/full,supported,sample\n", "line 2, row_id"),
        (f"row_id,label,source\n{LINE},hub\n{LINE},hub\n", "line 3, row_id: asqa/0/full stands twice"),
        ("row_id;label\nasqa/0/full;supported\n", "line 1: no column row_id and no column label.*commas"),
        ("row_id\nasqa/0/full\n", "line 1: no column label"),
        ("", "line 1: no column"),
        ("row_id,label,,\n", "line 1: a column without a name"),
        ("row_id,label,label\n", "line 1: the column label stands twice"),
        (f"row_id,label\n{LINE},and, more\n", "line 2: 4 values in 2 columns"),
        ('row_id,label\n"asqa/0/full,supported\n', "cannot be read as CSV"),
        (b"row_id,label\nasqa/0/full,\xff\n", "cannot be read as CSV in UTF-8"),
    ],
)
def test_a_bad_label_file_is_refused_with_its_line_and_left_as_it_is(rows, folder, text, said):
    path = write(folder, text)
    before = path.read_bytes()
    for read in (
        lambda: read_labels(path, rows, "sample"),
        lambda: session(rows),
        lambda: gather(rows, ["ann"], "sample"),
    ):
        with pytest.raises(ValueError, match=said):
            read()
    assert path.read_bytes() == before


def test_a_row_whose_texts_changed_refuses_its_old_label(rows):
    session(rows).label("supported")
    changed = rows.assign(candidate=["Paris, Rome", *rows["candidate"][1:]])
    with pytest.raises(ValueError, match="row_sha256: the texts of asqa/0/full have changed"):
        session(changed)


def test_labels_given_here_of_a_larger_selection_are_kept_and_not_used(rows):
    every = session(rows)
    for label in ("supported", "unsupported", "supported"):
        every.label(label)
    few = rows[rows["question_id"] == "0"].reset_index(drop=True)
    assert gather(few, ["ann"], "sample")["row_id"].tolist() == few["row_id"].tolist()
    again = session(few)
    again.back()
    again.label("supported")
    assert len(gather(rows, ["ann"], "sample")) == 3


def test_what_belongs_to_another_source_is_not_looked_at(rows, folder):
    write(folder, f"row_id,label,source\n{LINE},sample\nx/1,mostly fine,hub\n")
    assert gather(rows, ["ann"], "sample")["row_id"].tolist() == ["asqa/0/full"]


def test_a_label_given_meanwhile_in_another_window_is_not_overwritten(rows):
    one, other = LabelWidget(session(rows)), LabelWidget(session(rows))
    one.answer({"label": "supported", "note": "carefully read"})
    other.answer({"label": "unsupported", "note": ""})
    assert "another window labelled this row meanwhile, as supported" in other.state["error"]
    (line,) = read_labels(one.session.path, rows, "sample").to_dict("records")
    assert (line["label"], line["note"]) == ("supported", "carefully read")
    other.answer({"label": "unsupported"})
    assert read_labels(one.session.path, rows, "sample")["label"].tolist() == ["unsupported"]


def test_a_choice_made_for_a_row_that_is_gone_labels_no_other(rows):
    widget = LabelWidget(session(rows))
    turn = widget.state["turn"]
    widget.answer({"label": "supported", "turn": turn})
    widget.answer({"label": "unsupported", "turn": turn})
    assert widget.state["done"] == 1 and "another row" in widget.state["error"]
    widget.answer({"label": "unsupported", "turn": widget.state["turn"]})
    assert widget.state["done"] == 2 and widget.state["error"] == ""


def test_a_note_outlives_going_back(rows):
    widget = LabelWidget(session(rows))
    widget.answer({"label": "supported"})
    widget.answer({"back": True, "note": "half written"})
    assert widget.state["note"] == ""
    widget.answer({"label": "supported"})
    assert widget.state["note"] == "half written"


def test_line_ends_of_a_note_do_not_break_the_file(rows):
    one = session(rows)
    one.label("supported", "a\rb\r\nc")
    one.label("supported", "d")
    assert read_labels(one.path, rows, "sample")["note"].tolist() == ["a\nb\nc", "d"]


def test_a_linked_file_is_written_through_and_a_dead_link_is_said(rows, folder, tmp_path):
    folder.mkdir()
    (folder / "ann.csv").symlink_to(tmp_path / "real.csv")
    with pytest.raises(ValueError, match="link to a file that is not there"):
        session(rows)
    (tmp_path / "real.csv").write_text("row_id,label\n")
    session(rows).label("supported")
    assert (folder / "ann.csv").is_symlink() and "asqa/0/full" in (tmp_path / "real.csv").read_text()


def test_a_session_at_its_end_takes_no_more(rows):
    one = session(rows[:1], known=rows)
    one.label("supported")
    with pytest.raises(ValueError, match="every row has a label"):
        one.label("supported")


@pytest.mark.parametrize(
    "name", ["", "../ann", "a b", "construction", "note", "dataset", "a" * 61, ".ann", "a/b", "_ann", "a.csv"]
)
def test_a_name_that_makes_no_file_is_refused(rows, name):
    with pytest.raises(ValueError, match="annotator"):
        session(rows, name)


def test_an_annotator_without_a_file_is_named_with_those_there_are(rows, folder):
    write(folder, f"row_id,label\n{LINE}\n", "bea")
    with pytest.raises(ValueError, match=r"no ann\.csv|no .*ann\.csv; there are labels by bea"):
        gather(rows, ["ann"], "sample")
    with pytest.raises(ValueError, match="once each"):
        gather(rows, ["bea", "bea"], "sample")


def test_standards_keep_cannot_tell_out_and_count_it(rows, folder):
    write(folder, "row_id,label\nasqa/0/full,cannot_tell\nasqa/0/partial,supported\n")
    given = gather(rows, ["ann"], "sample")
    found = standards(rows, given)
    assert found["construction"].tolist() == rows["label"].tolist()
    assert found["ann"].dropna().to_dict() == {"asqa/0/partial": "supported"}
    line, empty = label_files.progress(given, rows, ["ann", "zoe"]).to_dict("records")
    assert line["drawn rows labelled"] == "2 of 4" and line["cannot tell"] == 1 and line["guide version"] == "unknown"
    assert empty["annotator"] == "zoe" and empty["drawn rows labelled"] == "0 of 4"


def test_the_widget_says_what_was_not_saved_and_stays_at_the_row(rows, folder):
    widget = LabelWidget(session(rows))
    widget.answer({"label": "supported", "note": " yes "})
    assert widget.state["done"] == 1 and read_labels(folder / "ann.csv", rows, "sample")["note"].tolist() == ["yes"]
    write(folder, "row_id,label\nasqa/0/full,good\n")
    widget.answer({"label": "unsupported", "note": "lost?"})
    assert "Not saved" in widget.state["error"] and "line 2, label" in widget.state["error"]
    assert widget.state["texts"]["candidate"] == rows["candidate"][1] and widget.state["done"] == 1
    write(folder, "row_id,label\nasqa/0/full,supported\n")
    widget.answer({"label": "no label"})
    assert "'no label' is none of" in widget.state["error"]
    widget.answer({"label": "unsupported"})
    assert widget.state["error"] == "" and widget.state["done"] == 2


def test_the_widget_ends_goes_back_and_takes_any_text(rows, folder):
    odd = rows.assign(
        candidate=["", "<b>x</b>\n\u2028", "a" * 5000, "日本\ud800".encode("utf-8", "replace").decode()]
    )
    widget = LabelWidget(session(odd))
    assert widget.state["texts"]["candidate"] == ""
    for _ in range(4):
        widget.answer({"label": "supported", "note": "lone \ud800"})
    assert widget.state["finished"] and widget.state["texts"] == {} and "All 4 rows" in widget.state["said"]
    widget.answer({"label": "supported"})
    widget.answer({"back": True})
    assert widget.state["label"] == "supported" and not widget.state["finished"]
    assert len(read_labels(folder / "ann.csv", odd, "sample")) == 4


def test_the_committed_labels_fit_the_sample_and_each_that_differs_has_its_reason(sample, monkeypatch):
    monkeypatch.undo()
    given = gather(sample, ["maintainers"], "sample")
    assert set(given["row_id"]) == set(draw(sample)["row_id"]) and set(given["guide"]) == {labelling.guide()[0]}
    found = pd.DataFrame(standards(sample, given)).dropna()
    apart = found.index[found["construction"] != found["maintainers"]]
    notes = given.set_index("row_id")["note"]
    assert len(found) == 60 and len(apart) == 9 and all(len(notes[row_id].split()) > 5 for row_id in apart)


def test_a_notebook_ends_at_the_widget_as_long_as_rows_are_left(rows):
    one = session(rows[:1], known=rows)
    with pytest.raises(labelling.Unfinished, match="what follows would show labels") as found:
        one.stop_until_finished()
    assert found.value._render_traceback_() == [str(found.value)]
    one.label("supported")
    one.stop_until_finished()
    one.back()
    one.stop_until_finished()


def test_a_guide_without_a_version_is_refused(folder):
    folder.mkdir()
    (folder / "GUIDE.md").write_text("# Guide\n")
    with pytest.raises(ValueError, match="version N"):
        labelling.guide()
