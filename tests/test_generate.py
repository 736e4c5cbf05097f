"""Answers by models: asked and read like any call, made into rows, judged; what is noise, and who prefers its own."""

import asyncio
import json
import math

import numpy as np
import pandas as pd
import pytest

from lib import generated, paths, results
from lib.estimate import estimate_sweep
from lib.generate import Answers, answer_rows, answers, rows_by
from lib.generated_tables import (
    accuracy_markdown,
    findings,
    halves_markdown,
    noise_markdown,
    self_preference_markdown,
)
from lib.generated_tables import verdicts as picture
from lib.judges import Judge, load_judge
from lib.parsing import answer_text
from lib.plan import Plan, judgments
from lib.prompts import load_instruction, write_lock
from lib.providers import Reply
from lib.run import execute
from lib.sources import load_questions
from lib.store import Store
from tests.fakes import Fakes
from tests.loopback import Loopback, completion

JUDGE = Judge("g", "openai", "m", send={"temperature": 0.5}, structured="json_schema")


class Says:
    """A provider that answers with one text after the other."""

    sdk = "fake 1"

    def __init__(self, *said):
        self._said, self.requests = list(said), []

    async def ask(self, request):
        self.requests.append(request)
        text, finish = self._said[len(self.requests) - 1]
        return Reply(text, finish, "m-2026", 10, 5)

    async def close(self):
        pass


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "calls.sqlite", recorded=())


@pytest.fixture
def questions():
    return load_questions("asqa", n=5)


def one(text, finish="stop"):
    return text, finish


def test_a_generator_is_asked_the_question_alone_without_a_form_of_reply(questions):
    requests = [call.request for call in Answers(questions, JUDGE)]
    assert [request["messages"][1]["content"] for request in requests] == questions["question"].tolist()
    assert {request["messages"][0]["content"] for request in requests} == {load_instruction("A.v1")}
    assert requests[0]["params"] == {"temperature": 0.5}
    hot = Answers(questions, Judge("g", "openai", "m", send={"temperature": 0.9}))
    assert not {call.key for call in hot} & {call.key for call in Answers(questions, JUDGE)}


def test_a_word_matcher_gives_no_answers(questions):
    with pytest.raises(ValueError, match="generators: lexical compares words and gives no answers"):
        Answers(questions, load_judge("lexical"))


def test_every_question_has_its_line_whatever_came_back(questions, store):
    plan = Answers(questions, JUDGE)
    said = [
        one(" Paris. It is. "),
        one("Rome was", "length"),
        one("I cannot", "refused"),
        one("  "),
        one("<think>no</think>Oslo."),
    ]
    first, rest = Says(*said[:4]), Says(said[4])
    asyncio.run(execute(plan, store, first, limit=4))
    given = answers(plan, store)
    assert given["reason"].tolist() == ["", "cut", "refused", "empty", "not_asked"]
    assert given["answer"].fillna("-").tolist() == ["Paris. It is.", "Rome was", "-", "-", "-"]
    assert given["sentences"].fillna(0).tolist() == [2, 1, 0, 0, 0]
    assert json.loads(given["sent"][0]) == {"temperature": 0.5} and given["model"][0] == "m-2026"
    asyncio.run(execute(plan, store, rest))
    assert answers(plan, store)["answer"].iloc[-1] == "Oslo." and len(rest.requests) == 1


@pytest.mark.parametrize(
    ("text", "finish", "read"),
    [
        ("<think>a</think> b ", "stop", ("b", "")),
        ("a</think>b", "stop", ("b", "")),
        ("<think>never ends", "length", ("", "empty")),
        ("The model prints `<think>` first. Then 42.", "stop", ("The model prints `<think>` first. Then 42.", "")),
        ("In XML, </analysis> closes it.", "stop", ("In XML, </analysis> closes it.", "")),
        ("\u200b\ufeff \u2060", "stop", ("", "empty")),
        ("[THINK]x[/THINK]b", "stop", ("b", "")),
        ("<think>all</think>", "length", ("", "empty")),
        ("b", "max_tokens", ("b", "cut")),
        ("b", "blocked:SAFETY", ("", "refused")),
        (None, None, ("", "empty")),
        ('{"verdict": "supported"} [1] a < b', "stop", ('{"verdict": "supported"} [1] a < b', "")),
    ],
)
def test_an_answer_is_read_without_thinking_and_says_what_is_wrong_with_it(text, finish, read):
    assert answer_text(text, finish) == read


def given(*texts, generator="g", questions=None):
    lines = [
        {"dataset": "asqa", "question_id": str(n), "question": "q?", "reference": "r", "complexity": 1}
        | {"generator": generator, "model": "m", "answer": text, "reason": "" if text else "empty"}
        | {"sentences": 1, "key": str(n)}
        for n, text in enumerate(texts)
    ]
    return pd.DataFrame(lines)


@pytest.mark.parametrize(
    ("answer", "partial", "degenerate"),
    [
        ("One. Two. Three. Four.", "One. Two.", False),
        ("One. Two. Three.", "One.", False),
        ("Only one sentence here.", "Only one sentence here.", True),
        ("Paris", "Paris", True),
        ("Paris. !!!", "Paris.", True),
        ("- Paris\n- Rome\n- Oslo\n- Bern", "- Paris - Rome", False),
    ],
)
def test_the_half_is_that_of_the_sentences_and_equal_words_are_degenerate(answer, partial, degenerate):
    full, half = answer_rows(given(answer)).to_dict("records")
    assert (full["candidate"], full["label"], full["kind"]) == (answer, "supported", "full")
    assert (half["label"], half["kind"]) == ("partially_supported", "partial")
    assert half["candidate"].split() == partial.split()
    assert full["degenerate"] == half["degenerate"] == degenerate
    assert full["row_id"] == "asqa/0/full@g" and half["row_id"] == "asqa/0/partial@g"


def test_an_answer_that_is_missing_makes_no_row_and_none_at_all_is_said(questions, store):
    assert answer_rows(given("One. Two.", None))["question_id"].tolist() == ["0", "0"]
    empty = answer_rows(given(None))
    assert empty.empty and {"row_id", "label", "generator", "degenerate"} <= set(empty)


def test_judging_answers_that_are_not_there_names_the_notebook(questions, store):
    with pytest.raises(
        ValueError, match="smollm2-free has no stored answer to 5 of these 5 questions; run 11-generate"
    ):
        rows_by(["smollm2-free"], questions, store)
    assert len(rows_by([], questions, store)) == 10
    with pytest.raises(ValueError, match="no judge 'nobody'"):
        rows_by(["nobody"], questions, store)


def test_the_recorded_answers_are_judged_as_any_rows_and_equal_texts_share_a_call():
    store = Store(":memory:")
    rows = rows_by(["smollm2-free", "smollm2-warm"], load_questions("asqa", n=40), store)
    assert len(rows) == 160 and rows["row_id"].is_unique and rows["degenerate"].dtype == bool
    plan = Plan(rows, ("C.v1",), load_judge("lexical"))
    judged = judgments(plan, store)
    pair = rows[rows["degenerate"]].groupby(["question_id", "generator"])["candidate"].nunique()
    assert (pair == 1).sum() > 40 and judged["key"].nunique() == 160 - (pair == 1).sum()


def test_readmes_count_of_degenerate_pairs_is_that_of_the_recorded_answers():
    rows = rows_by(["smollm2-free", "smollm2-warm"], load_questions("asqa", n=40), Store(":memory:"))
    pairs = rows[rows["kind"] == "full"]
    text = " ".join((paths.ROOT / "README.md").read_text(encoding="utf-8").split())
    assert f"({pairs['degenerate'].sum()} of {len(pairs)} for the embedded model's answers to the sample)" in text


def test_a_changed_instruction_is_refused_and_a_new_one_can_be_locked(tmp_path, monkeypatch):
    from lib import prompts

    folder = tmp_path / "prompts"
    (folder / "answers").mkdir(parents=True)
    for path in (*paths.PROMPTS.glob("*.md"), *paths.PROMPTS.glob("*.json"), *paths.PROMPTS.glob("answers/*.md")):
        (folder / path.relative_to(paths.PROMPTS)).write_bytes(path.read_bytes())
    monkeypatch.setattr(paths, "PROMPTS", folder)
    monkeypatch.setattr(prompts, "LOCK", folder / "LOCK.json")
    (folder / "answers" / "A.v2.md").write_text("Answer.\n")
    with pytest.raises(ValueError, match=r"A\.v2\.md is not in prompts/LOCK\.json"):
        load_instruction("A.v2")
    write_lock()
    assert load_instruction("A.v2") == "Answer."
    (folder / "answers" / "A.v1.md").write_text("Answer now.\n")
    with pytest.raises(ValueError, match=r"A\.v1\.md differs from"):
        load_instruction("A.v1")
    with pytest.raises(ValueError, match=r"answers/A\.v1"):
        write_lock()
    with pytest.raises(ValueError, match="there are A.v1, A.v2"):
        load_instruction("A.v9")


def test_answers_come_live_through_a_real_sdk_and_are_asked_once(questions, store):
    with Loopback(answers=[(200, {}, completion("One. Two."))] * 5) as server:
        judge = Judge("g", "openai", "m", base_url=server.base_url)
        for asked in (5, 0):
            assert asyncio.run(execute(Answers(questions, judge), store)).answered == asked
    assert answers(Answers(questions, judge), store)["answer"].eq("One. Two.").all()


@pytest.mark.parametrize("provider", ["openai", "anthropic", "google"])
def test_answers_come_in_batches_too(questions, store, provider, monkeypatch):
    from lib import batch

    monkeypatch.setattr(batch, "POLL_S", 0.05)
    with Fakes() as server:
        url = server.base_url if provider == "openai" else server.root
        more = {"open_cap": 16000} if provider == "anthropic" else {}
        plan = Answers(questions, Judge("g", provider, "m", base_url=url, **more))
        asyncio.run(batch.execute_batches(plan, store))
        asyncio.run(batch.execute_batches(plan, store, wait_s=5))
    assert answers(plan, store)["answer"].notna().all()


def judged_rows(verdict, judges, generators=("a", "b"), n=40, kinds=("full",), own=None):
    """Judgments: `verdict(judge, generator, question, kind)`; `own` maps judges to the generators of their model."""
    lines = []
    for judge in judges:
        for generator in generators:
            for q in range(n):
                for kind in kinds:
                    label = "supported" if kind == "full" else "partially_supported"
                    found = verdict(judge, generator, q, kind)
                    lines.append(
                        {"judge": judge, "design": "H", "dataset": "asqa", "question_id": str(q), "kind": kind}
                        | {"row_id": f"asqa/{q}/{kind}@{generator}", "generator": generator, "label": label}
                        | {"verdict": found, "correct": found == label, "degenerate": q < 4, "cut": False}
                        | {"same_model": generator in (own or {}).get(judge, ())}
                    )
    return pd.DataFrame(lines).astype({"verdict": "str"})


def kind_to_own(judge, generator, q, kind):
    """b answers better for everyone; judge a adds a half of its own answers."""
    good = q % 2 == 0 if generator == "a" else q % 4 != 0
    return "supported" if good or (judge == "a" and generator == "a") else "unsupported"


def test_self_preference_is_what_is_left_beyond_what_other_judges_see():
    table = generated.self_preference(judged_rows(kind_to_own, ["a", "third"], own={"a": ["a"]}))
    mine, third = table.to_dict("records")
    assert (mine["own"], mine["others"]) == (1.0, 0.75) and mine["difference"] == pytest.approx(0.25)
    assert mine["excess"] == pytest.approx(0.5) and mine["excess_low"] > 0 and mine["p_value"] < 1e-4
    assert mine["beside"] == "third" and mine["note"] == ""
    assert third["note"] == "no answer is by its own model" and math.isnan(third["difference"])
    text = self_preference_markdown(table)
    assert "+50.0 [" in text and "n/a" in text


def test_better_own_answers_are_no_self_preference():
    quality = lambda judge, generator, q, kind: "supported" if generator == "a" or q % 2 else "unsupported"  # noqa: E731
    (mine, _) = generated.self_preference(judged_rows(quality, ["a", "third"], own={"a": ["a"]})).to_dict("records")
    assert mine["difference"] == 0.5 and mine["excess"] == 0.0 and mine["p_value"] == 1.0


def test_self_preference_says_what_it_cannot_hold_apart():
    alone = generated.self_preference(judged_rows(kind_to_own, ["a"], own={"a": ["a"]})).iloc[0]
    assert alone["note"].startswith("no other judge") and math.isnan(alone["excess"]) and alone["difference"] == 0.25
    each = generated.self_preference(judged_rows(kind_to_own, ["a", "b"], own={"a": ["a"], "b": ["b"]}))
    assert each["note"].str.startswith("the other judge is the other generator").all()
    every = generated.self_preference(judged_rows(kind_to_own, ["a"], own={"a": ["a", "b"]})).iloc[0]
    assert every["note"] == "every judged answer is by its own model" and every["n_questions"] == 0
    # Another entry of the same model is no judge beside it.
    twin = generated.self_preference(judged_rows(kind_to_own, ["a", "twin"], own={"a": ["a"], "twin": ["a"]}))
    assert twin["note"].str.startswith("no other judge").all()


def test_what_only_one_of_two_judges_judged_is_no_preference():
    """J says nothing of a bad generator that T judged: the same verdicts wherever both judged leave no excess."""
    same = lambda judge, generator, q, kind: (  # noqa: E731
        None if (judge, generator) == ("j", "bad") else "unsupported" if generator == "bad" else "supported"
    )
    table = generated.self_preference(judged_rows(same, ["j", "t"], ("own", "bad", "good"), own={"j": ["own"]}))
    assert table.iloc[0]["difference"] == table.iloc[0]["excess"] == 0.0 and table.iloc[0]["p_value"] == 1.0


def test_each_missing_preference_has_its_own_reason():
    def note(verdict, judges=("j", "t")):
        return generated.self_preference(judged_rows(verdict, judges, own={"j": ["a"]})).set_index("judge")["note"]

    gone = note(lambda judge, generator, q, kind: None if (judge, generator) == ("j", "a") else "supported")
    assert gone["j"] == "no question has judged answers of its own model and of another"
    apart = note(lambda judge, generator, q, kind: "supported" if (generator == "a") == (q < 20) else None)
    assert apart["j"] == "no question has judged answers of its own model and of another"
    other = note(lambda judge, generator, q, kind: "supported" if (judge == "j") == (q < 20) else None)
    assert other["j"].startswith("no other judge judged these")
    # A judge whose own answers it did not judge is the other generator all the same.
    rows = judged_rows(kind_to_own, ["a", "b"], own={"a": ["a"], "b": ["b"]})
    rows.loc[
        (rows["judge"] == "b") & (rows["generator"] == "b") & (rows["question_id"].astype(int) > 5), "verdict"
    ] = None
    assert "other generator" in generated.self_preference(rows).set_index("judge").loc["a", "note"]


def test_a_set_of_degenerate_answers_alone_is_said_to_hold_nothing_more():
    judged = judged_rows(kind_to_own, ["a"], kinds=("full", "partial")).assign(degenerate=True)
    assert generated.halves(judged).empty and "n/a" in halves_markdown(generated.halves(judged))
    none = generated.accuracy(judged)
    assert "n/a" in accuracy_markdown(none[none["set"] == generated.APART])


def test_answers_of_several_datasets_stand_in_files_of_their_own(out):
    frame = pd.concat([given("One."), given("Two. Three.").assign(dataset="qampari")], ignore_index=True)
    results.write_answers("run", frame)
    assert results.read_answers("run", ["g"], ["qampari"])["answer"].tolist() == ["Two. Three."]
    results.write_answers("run", given("Four.").assign(dataset="qampari"))
    assert results.read_answers("run", ["g"], ["asqa"])["answer"].tolist() == ["One."]


def test_unjudged_answers_are_left_out_of_self_preference():
    gone = lambda judge, generator, q, kind: None if q < 10 else kind_to_own(judge, generator, q, kind)  # noqa: E731
    mine = generated.self_preference(judged_rows(gone, ["a", "third"], own={"a": ["a"]})).iloc[0]
    assert mine["n_questions"] == 30
    nothing = generated.self_preference(judged_rows(lambda *_: None, ["a"], own={"a": ["a"]}))
    assert nothing.empty and "self" not in self_preference_markdown(nothing)


def test_the_three_sets_add_up_and_an_empty_one_has_no_line():
    judged = judged_rows(kind_to_own, ["a"], kinds=("full", "partial"))
    table = generated.accuracy(judged).set_index("set")
    assert table["n_rows"].to_dict() == {generated.WHOLE: 160, generated.APART: 144, generated.DEGENERATE: 16}
    whole = generated.accuracy(judged.assign(degenerate=False))
    assert generated.DEGENERATE not in set(whole["set"]) and "nan" not in accuracy_markdown(whole)
    by_kind = generated.accuracy(judged, ["kind", "judge"])
    assert list(by_kind.columns[:4]) == ["set", "kind", "judge", "design"]


def test_a_judge_that_sees_the_missing_half_is_told_and_one_that_does_not_is_not():
    sees = lambda judge, generator, q, kind: (  # noqa: E731
        "supported" if kind == "full" or judge == "blind" else None if q == 39 else "partially_supported"
    )
    table = generated.halves(judged_rows(sees, ["sees", "blind"], kinds=("full", "partial")))
    seen, blind = table.to_dict("records")
    assert (seen["lower"], seen["answers"], seen["unjudged"]) == (70, 70, 2) and seen["p_holm"] < 1e-6
    assert (blind["lower"], blind["same"], blind["p_value"]) == (0, 72, 1.0)
    noise = generated.noise(given("a"), answer_rows(given("a")))
    text = findings(noise, table)
    assert (
        "sees gives the half a lower verdict for H 70 of 70 (higher 0): sure for H." in text
        and "sure for none" in text
    )
    assert "1 of 1 partials" in text and "70" in halves_markdown(table)
    assert len(picture(judged_rows(sees, ["sees", "blind"], kinds=("full", "partial"))).axes) == 2


def test_noise_is_counted_by_generator_with_those_that_gave_nothing():
    frame = pd.concat([given("One. Two.", "One.", None), given(None, generator="h")], ignore_index=True)
    frame["sentences"] = [2, 1, pd.NA, pd.NA]
    table = generated.noise(frame, answer_rows(frame)).set_index("generator")
    assert table.loc["g", ["questions", "answers", "none", "one_sentence", "degenerate"]].tolist() == [3, 2, 1, 1, 1]
    assert table.loc["h", "answers"] == 0 and np.isnan(table.loc["h", "share"])
    assert "n/a" in noise_markdown(table.reset_index())


def test_judgments_of_other_answers_are_not_read_and_the_command_is_named(out, questions):
    class P:
        source, files, datasets, n_questions, seed = "sample", {}, ("asqa",), 5, 0
        generators, designs = ("smollm2-free", "smollm2-warm"), ("H.v1",)

    store = Store(":memory:")
    rows = rows_by(P.generators, questions, store)
    plan = Plan(rows, P.designs, load_judge("lexical"))
    asyncio.run(execute(plan, store))
    results.write_cells("run", judgments(plan, store), {})
    judged, notes = generated.read_generated("run", P, ["lexical", "smollm2"], rows)
    assert len(judged) == 20 and judged["same_model"].eq(False).all() and judged["generator"].notna().all()
    assert (
        len(notes) == 1
        and "generators: [smollm2-free, smollm2-warm]" in notes[0]
        and "1 cells by smollm2" in notes[0]
    )
    changed = rows.assign(candidate=rows["candidate"] + "!")
    judged, notes = generated.read_generated("run", P, ["lexical"], changed)
    assert judged.empty and "1 cells by lexical are not there" in notes[0]


def test_answers_that_were_not_written_are_named(out):
    with pytest.raises(ValueError, match=r"no answers of g.asqa for run; run 11-generate"):
        results.read_answers("run", ["g"], ["asqa"])
    with pytest.raises(ValueError, match="generators must name"):
        results.read_answers("run", [], ["asqa"])


def test_an_estimate_counts_the_rows_of_answers_or_lets_the_sample_stand_in(tmp_path, capsys):
    grid = tmp_path / "g.yaml"
    fixed = "source: sample, datasets: [asqa], n_questions: 5, designs: [H.v1], generators: "
    grid.write_text(
        f"notebook: 20-judge\nfixed: {{{fixed}[smollm2-free, smollm2-warm]}}\ngrid: {{judge: [gpt-4.1]}}\n"
    )
    table = estimate_sweep(grid, Store(":memory:"))
    rows = rows_by(["smollm2-free", "smollm2-warm"], load_questions("asqa", n=5), Store(":memory:"))
    assert table["calls"].sum() == rows["candidate"].nunique() and table["lengths"].tolist() == ["rows"]
    grid.write_text(grid.read_text().replace("smollm2-free", "gpt-4.1"))
    table = estimate_sweep(grid, Store(":memory:"))
    assert table["calls"].sum() == 20 and table["lengths"].tolist() == ["sample's texts"]
    assert "run 11-generate" in capsys.readouterr().err


def test_the_half_never_has_more_words_than_the_whole():
    store = Store(":memory:")
    for name in ("smollm2-free", "smollm2-warm"):
        rows = answer_rows(answers(Answers(load_questions("asqa"), load_judge(name)), store))
        wide = rows.assign(n=rows["candidate"].str.split().str.len()).pivot(
            index="question_id", columns="kind", values="n"
        )
        assert len(wide) == 40 and (wide["partial"] <= wide["full"]).all()
