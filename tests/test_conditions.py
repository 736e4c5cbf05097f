"""Conditions: what they change, what they leave, what they cannot apply to, and what reaches a provider."""

import json
import os
import re
import subprocess
import sys
from collections import Counter
from dataclasses import replace

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lib import changes, judges, paths
from lib.changes import CannotApply, Row
from lib.conditions import CONDITIONS, GROUPS, Condition, NothingToAsk, apply, described, find, reasons
from lib.donors import Others, derangement
from lib.judges import Judge, load_judge
from lib.labels import build_rows
from lib.plan import Plan, judgments, survey
from lib.prompts import load_prompt, render
from lib.sources import DATASETS, load_questions
from lib.store import Store
from lib.texts import FUNCTION_WORDS, all_words, content_words, items, numbers, sentences
from tests.fakes import Fakes
from tests.test_providers import go

LEXICAL = load_judge("lexical")
# Every condition applies to it: it has all formats, and sends neither a cap nor one of them.
HOSTED = Judge("hosted", "openai", "m")
# All but the form in which it is asked anyway.
APPLY = [name for name in CONDITIONS if name != "format-free"]
DESIGNS = ("C.v1", "H.v1", "R.v1", "B.v1")
SAME = [name for name, condition in CONDITIONS.items() if condition.group == "should-not-move"]


@pytest.fixture(scope="module")
def sample():
    return build_rows(pd.concat([load_questions(name) for name in DATASETS], ignore_index=True))


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "calls.sqlite", recorded=())


def row(candidate, reference="The reference.", label="supported", other="Another text.", condition="x", seed=0):
    return Row("d", "q", "Which?", reference, candidate, label, lambda *_: other, condition, seed)


def changed(name, rows, judge=LEXICAL, seed=0):
    applied = apply(find(name), rows, DESIGNS, judge, seed)
    return applied.plan.rows, applied.skipped


# Names.


def test_a_condition_is_found_by_its_name_its_group_several_or_all():
    assert [each.name for each in find("cap-128")] == ["cap-128"]
    assert [each.name for each in find("cap")] == ["cap-128", "cap-256", "cap-512"]
    assert [each.name for each in find("cap-512+swap+cap")] == ["cap-512", "reference-swapped", "cap-128", "cap-256"]
    assert [each.name for each in find("all")] == list(CONDITIONS) and find("all")[0].name == "primary"
    with pytest.raises(
        ValueError, match=r"no condition 'cap-64'; there are primary, .*the groups .*attack.* and all"
    ):
        find("cap+cap-64")


def test_names_fit_into_file_names_and_no_group_is_also_another_groups_condition():
    assert all(re.fullmatch(r"[a-z0-9-]+", name) for name in CONDITIONS)
    for name, condition in CONDITIONS.items():
        assert name not in GROUPS or condition.group == name


# Whose reference stands in for whose.

words = st.lists(st.sampled_from("iron gold lead zinc tin".split()), min_size=1, max_size=4)


@given(st.lists(words, max_size=30), st.integers(0, 3))
def test_a_derangement_gives_none_its_own_or_one_that_says_the_same(texts, seed):
    references = {str(n): [", ".join(each)] for n, each in enumerate(texts)}
    donors = derangement(references, seed, "d")
    assert len(set(donors.values())) == len(donors)
    for question, donor in donors.items():
        one, other = content_words(references[question][0]), content_words(references[donor][0])
        assert question != donor and not one <= other and not other <= one


@given(st.integers(2, 60))
def test_where_all_references_differ_every_question_gets_another_one(n):
    references = {str(k): [f"word{k}"] for k in range(n)}
    assert sorted(derangement(references, 0, "d").values()) == sorted(references)


@pytest.mark.parametrize(
    "texts",
    [
        ["Iron"],
        ["Iron", "iron."],
        ["Iron, Gold", "gold, IRON", "Gold, iron"],
        ["", "!"],
        ["Café", "Cafe\u0301"],
        ["U.S.", "US"],
        ["1,000", "1000"],
    ],
)
def test_where_nobody_says_something_else_nobody_gets_another_reference(texts):
    assert derangement({str(n): [text] for n, text in enumerate(texts)}, 0, "d") == {}


def test_growing_the_slice_leaves_nearly_all_pairs_as_they_are():
    """Else replies that are paid for would be lost when a slice grows."""
    for dataset in DATASETS:
        small, large = (load_questions(dataset, n=n) for n in (20, 31))
        pairs = [
            derangement({row.question_id: [row.reference] for row in each.itertuples()}, 0, dataset)
            for each in (small, large)
        ]
        moved = [question for question, donor in pairs[0].items() if pairs[1][question] != donor]
        assert len(moved) <= 2


def test_the_seed_decides_who_gets_whose(sample):
    one, other = (changed("swap", sample, seed=seed)[0]["reference"].tolist() for seed in (0, 1))
    assert one != other and one == changed("swap", sample, seed=0)[0]["reference"].tolist()


def test_both_rows_of_a_question_get_the_same_other_reference(sample):
    swapped, skipped = changed("swap", sample)
    assert len(swapped) == len(sample) and skipped.empty
    assert (swapped.groupby(["dataset", "question_id"])["reference"].nunique() == 1).all()
    own = sample.set_index("row_id")["reference"]
    assert (swapped.set_index("row_id")["reference"] != own).all()
    assert (
        swapped.groupby("dataset")["reference"].unique().map(set)
        <= sample.groupby("dataset")["reference"].unique().map(set)
    ).all()


def test_a_dataset_of_one_question_cannot_be_deranged_and_this_is_counted(sample):
    one = sample[sample["dataset"] == "asqa"].head(2)
    others = sample[sample["dataset"] == "qampari"]
    swapped, skipped = changed("swap", pd.concat([one, others]))
    assert set(swapped["dataset"]) == {"qampari"}
    assert skipped["row_id"].tolist() == one["row_id"].tolist()
    assert skipped["reason"].str.contains("no other question's reference").all()


def test_where_enough_say_something_else_everybody_gets_another_one():
    references = {f"same{n}": ["Iron"] for n in range(60)} | {f"other{n}": [f"Gold {n}"] for n in range(60)}
    assert len(derangement(references, 0, "d")) == 120
    assert derangement({"a": ["Paris"], "b": ["Paris"], "c": ["Rome"]}, 0, "d").keys() in ({"a", "c"}, {"b", "c"})


def test_thousands_of_equal_references_end_soon():
    references = {str(n): ["Iron" if n % 3 else f"Gold {n}"] for n in range(9000)}
    assert len(derangement(references, 0, "d")) == 6000


def test_no_reference_of_a_question_is_said_by_the_one_it_gets():
    lines = [("q1", "Paris, Rome"), ("q1", "BERLIN; oslo"), ("q2", "Oslo, Berlin"), ("q3", "Lima, Quito")]
    rows = pd.DataFrame(
        {**_ROW, "row_id": f"d/{n}", "question_id": question, "reference": reference, "candidate": reference}
        for n, (question, reference) in enumerate(lines)
    )
    swapped, _ = changed("swap", rows)
    assert swapped.set_index("question_id")["reference"].to_dict()["q1"] == "Lima, Quito"
    added, skipped = changed("primary+candidate-added", rows[:3])
    assert len(added) == 3 == len(skipped)


def test_a_reference_is_looked_for_only_when_a_change_wants_one(sample, monkeypatch):
    monkeypatch.setattr(Others, "of", None)
    assert len(changed("candidate-case", sample)[0])


# What every condition keeps.


def test_a_changed_row_keeps_its_ids_and_the_rows_given_stay_as_they_were(sample):
    before = sample.copy(deep=True)
    for name in APPLY:
        rows, skipped = changed(name, sample, HOSTED)
        assert list(rows.columns) == [*sample.columns, "condition"] and (rows["condition"] == name).all()
        own = sample.set_index("row_id").loc[rows["row_id"]].reset_index()
        kept = ["row_id", "dataset", "question_id", "kind", "question", "complexity"]
        pd.testing.assert_frame_equal(rows[kept], own[kept])
        assert sorted([*rows["row_id"], *skipped["row_id"]]) == sorted(sample["row_id"])
        if CONDITIONS[name].change:
            assert ((rows["candidate"] != own["candidate"]) | (rows["reference"] != own["reference"])).all()
    pd.testing.assert_frame_equal(sample, before)


def test_labels_change_only_where_the_candidate_was_made_worse(sample):
    for name in APPLY:
        condition = CONDITIONS[name]
        rows, _ = changed(name, sample, HOSTED)
        own = sample.set_index("row_id").loc[rows["row_id"]].reset_index()["label"]
        if condition.group == "should-move":
            assert (own == "supported").all() and (rows["label"] != "supported").all()
        else:
            assert (rows["label"] == own).all()


_DIGEST = """
import hashlib, json, sys
import pandas as pd
from lib.conditions import apply, find
from lib.judges import load_judge
from lib.labels import build_rows
from lib.sources import DATASETS, load_questions
rows = build_rows(pd.concat([load_questions(name) for name in DATASETS], ignore_index=True))
plan = apply(find("all"), rows, ("C.v1",), load_judge("smollm2"), 0).plan
print(hashlib.sha256("".join(call.key for call in plan).encode()).hexdigest())
"""


def test_conditions_are_the_same_in_every_process_and_on_every_machine():
    """The stored digest holds on every machine; only a change of a condition may move it."""
    found = set()
    for hash_seed in ("1", "2"):
        done = subprocess.run(
            [sys.executable, "-c", _DIGEST],
            capture_output=True,
            text=True,
            cwd=paths.ROOT,
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
        )
        assert done.returncode == 0, done.stderr
        found.add(done.stdout.strip())
    assert found == {STORED_DIGEST}


STORED_DIGEST = "d6b9bd60353476436d04d5bc058eb80bc383e16f6743638fffeff99adeb6c5ec"


# The reference.


def test_half_a_reference_is_its_first_half_rounded_down(sample):
    assert changes.half_reference(row("x", "A, B, C, D, E")) == {"reference": "A, B"}
    assert changes.half_reference(row("x", "It rained. It shone. It snowed.")) == {"reference": "It rained."}
    with pytest.raises(CannotApply, match="one sentence and no list"):
        changes.half_reference(row("x", "It rained all day, and so it went on."))


def test_first_sentence_and_shuffled_sentences_need_two():
    text = "It rained. Then it shone. At last it snowed."
    assert changes.first_sentence(row("x", text)) == {"reference": "It rained."}
    shuffled = changes.shuffled_reference(row("x", text))["reference"]
    assert shuffled != text and sorted(sentences(shuffled)) == sorted(sentences(text))
    for change in (changes.first_sentence, changes.shuffled_reference):
        with pytest.raises(CannotApply, match="the reference is one sentence"):
            change(row("x", "Helium, Neon, Argon"))


@given(st.integers(2, 6), st.integers(0, 9))
def test_a_shuffle_never_leaves_the_order(n, seed):
    before = [f"It was number {k}." for k in range(n)]
    after = sentences(changes.shuffled_reference(row("x", " ".join(before), seed=seed))["reference"])
    assert after != before and sorted(after) == sorted(before)


_ROW = {
    "row_id": "d/q/full",
    "dataset": "d",
    "question_id": "q",
    "kind": "full",
    "question": "Which?",
    "reference": "Iron.",
    "candidate": "Iron.",
    "label": "supported",
    "complexity": 1,
}


def test_a_removed_reference_leaves_a_well_formed_message(sample):
    rows, skipped = changed("reference-removed", sample)
    assert skipped.empty
    for each in rows.to_dict("records"):
        for name in ("C.v1", "H.v1", "R.v1", "B.v1", "S.v1"):
            user = render(load_prompt(name), each)[-1]["content"]
            assert user.count("<reference>\n\n</reference>") == 1
            tags = re.findall(r"</?(?:question|reference|candidate)>", user)
            assert tags == [f"<{s}{t}>" for t in ("question", "reference", "candidate") for s in ("", "/")]


# The candidate, in ways that should not move a verdict.

texts = st.text(max_size=120) | st.lists(
    st.sampled_from("The the Paris and Rome with 1969, It. was no\n".split(" "))
).map(" ".join)


@settings(deadline=None)
@given(texts, st.sampled_from(SAME), st.integers(0, 3))
def test_a_change_that_should_not_move_a_verdict_keeps_every_content_word(text, name, seed):
    try:
        new = CONDITIONS[name].change(row(text, seed=seed))
    except CannotApply:
        return
    assert set(new) == {"candidate"}
    before, after = (Counter(w for w in all_words(t) if w not in FUNCTION_WORDS) for t in (text, new["candidate"]))
    assert before <= after


def test_what_a_typo_touches_is_one_function_word_and_no_negation():
    new = changes.typo(row("Paris is not the capital of Italy"))["candidate"]
    assert new == "Paris is not teh capital of Italy"
    for text in ("Paris is not a city", "yes", "the", "He does not win"):
        with pytest.raises(CannotApply, match="no function word"):
            changes.typo(row(text))


def test_reordered_items_are_the_same_items_in_another_order():
    new = changes.reordered_items(row("Helium, Neon, Argon, Xenon"))["candidate"]
    assert sorted(items(new)) == sorted(["Helium", "Neon", "Argon", "Xenon"]) and new != "Helium, Neon, Argon, Xenon"
    with pytest.raises(CannotApply, match="no list"):
        changes.reordered_items(row("It rained. It shone."))


def test_bullets_are_one_a_sentence_or_item_and_not_doubled():
    assert changes.bullets(row("It rained. It shone."))["candidate"] == "- It rained.\n- It shone."
    assert changes.bullets(row("- Iron\n* Gold"))["candidate"] == "- Iron\n- Gold"


def test_a_row_that_a_change_would_leave_as_it_is_is_skipped_and_said():
    rows = pd.DataFrame([_ROW, {**_ROW, "row_id": "d/r/full", "question_id": "r", "candidate": "1969"}])
    kept, skipped = changed("candidate-case", rows)
    assert kept["candidate"].tolist() == ["iron."]
    assert skipped.to_dict("records") == [
        {
            "row_id": "d/r/full",
            "dataset": "d",
            "condition": "candidate-case",
            "reason": "it would leave the row as it is",
        }
    ]


# The candidate, in ways that should move one.


def test_what_is_added_is_not_in_the_reference_and_stands_in_the_candidates_form(sample):
    rows, _ = changed("candidate-added", sample)
    own = sample.set_index("row_id").loc[rows["row_id"]].reset_index()
    for new, old, reference in zip(rows["candidate"], own["candidate"], own["reference"], strict=True):
        assert new.startswith(old.rstrip().rstrip(".")) and not content_words(new) <= content_words(reference)
    assert changes.unsupported_added(row("Iron, Gold", "Iron, Gold", other="Zinc, Lead"))["candidate"] in (
        "Iron, Gold, Zinc",
        "Iron, Gold, Lead",
    )
    assert (
        changes.unsupported_added(row("It rained", "It rained", other="He won."))["candidate"] == "It rained. He won."
    )


def test_nothing_is_added_to_nothing_and_nothing_that_is_said():
    with pytest.raises(CannotApply, match="the candidate is empty"):
        changes.unsupported_added(row(" ", other="Rome"))
    with pytest.raises(CannotApply, match="says nothing else"):
        changes.unsupported_added(row("Rome", "Rome and Paris", other="Paris"))


def test_a_long_list_is_taken_apart_quickly():
    listed = "\n".join(f"Item {n}" for n in range(20_000))
    assert len(items(changes.fact_dropped(row(listed, listed))["candidate"])) == 19_999


def test_what_is_dropped_is_one_part_that_the_rest_does_not_say():
    assert items(changes.fact_dropped(row("Iron, Gold, Zinc"))["candidate"]) in (
        ["Gold", "Zinc"],
        ["Iron", "Zinc"],
        ["Iron", "Gold"],
    )
    assert changes.fact_dropped(row("Iron is heavy. Iron is heavy. Gold is soft."))["candidate"] == (
        "Iron is heavy. Iron is heavy."
    )
    with pytest.raises(CannotApply, match="one sentence and no list"):
        changes.fact_dropped(row("It rained."))


@given(st.integers(0, 50))
def test_a_changed_number_differs_from_every_one_of_the_reference(seed):
    text = "In 1969, 1961, 1962 and 1964 they flew 9.69 or 19,340 km."
    new = changes.detail_changed(row(text, text, seed=seed))["candidate"]
    before, after = ([match[0] for match in numbers(each)] for each in (text, new))
    moved = [(old, now) for old, now in zip(before, after, strict=True) if old != now]
    assert len(moved) == 1 and moved[0][1] not in before and len(moved[0][0]) == len(moved[0][1])


def test_a_number_that_is_none_is_left_alone():
    text = "1. Paris in 1969\n2. Rome, see http://x.org/?y=1969"
    new = changes.detail_changed(row(text, text))["candidate"]
    assert re.fullmatch(r"1\. Paris in 196[0-8]\n2\. Rome, see http://x\.org/\?y=1969", new)


def test_a_changed_name_comes_from_another_reference_and_is_changed_wherever_it_stands():
    text = "First Usain Bolt won. Then Usain Bolt lost."
    new = changes.detail_changed(row(text, text, other="The crown went to Queen Victoria."))
    assert new["candidate"] == "First Queen Victoria won. Then Queen Victoria lost."
    with pytest.raises(CannotApply, match="no name to put in"):
        changes.detail_changed(row(text, text, other="nothing here"))
    with pytest.raises(CannotApply, match="no number, and no name"):
        changes.detail_changed(row("It rained."))


@pytest.mark.parametrize("name", ["candidate-added", "candidate-dropped", "candidate-changed"])
def test_only_supported_rows_are_made_worse(sample, name):
    rows, skipped = changed(name, sample)
    partial = sample.loc[sample["label"] != "supported", "row_id"]
    assert not set(rows["row_id"]) & set(partial)
    assert skipped.set_index("row_id").loc[partial, "reason"].str.startswith("not labelled supported").all()


# Attacks.


@pytest.mark.parametrize("name", [name for name, each in CONDITIONS.items() if each.group == "attack"])
def test_an_attack_asks_against_the_label_and_stays_inside_the_candidate(sample, name):
    rows, skipped = changed(name, sample)
    assert skipped.empty
    for each in rows.to_dict("records"):
        wanted = "unsupported" if each["label"] == "supported" else "supported"
        assert changes.target(each["label"]) == wanted
        assert name == "attack-reference" or f'"verdict": "{wanted}"' in each["candidate"]
        user = render(load_prompt("C.v1"), each)[-1]["content"]
        tag = re.match(r"<question(-\d+)?>", user)[1] or ""
        assert [user.count(f"<{end}{part}{tag}>") for part in ("reference", "candidate") for end in ("", "/")] == [
            1
        ] * 4
        assert user.endswith(f"{each['candidate']}\n</candidate{tag}>")


# Settings, prompts, repeats.


def keys(name, rows, judge):
    return [call.key for call in apply(find(name), rows, ("C.v1", "H.v1"), judge, 0).plan]


def test_a_cap_is_in_the_key(rows):
    found = [keys(name, rows, HOSTED) for name in ("primary", "cap-128", "cap-256", "cap-512")]
    assert len(set().union(*found)) == 4 * len(found[0])


@pytest.mark.parametrize(
    ("judge", "name"),
    [
        (load_judge("smollm2"), "cap-512"),
        (load_judge("smollm2"), "format-schema"),
        (LEXICAL, "format-free"),
        (HOSTED, "format-free"),
    ],
)
def test_settings_that_the_primary_run_has_too_are_skipped_and_named(rows, judge, name):
    """Else a call would be compared with itself and count as a verdict that holds."""
    applied = apply(find(f"primary+{name}"), rows, ("C.v1",), judge, 0)
    assert len(applied.plan) == 4 and (applied.skipped["condition"] == name).all() and len(applied.skipped) == 4
    assert applied.skipped["reason"].unique() == [f"{judge.name} is asked like this in the primary run too"]


@pytest.mark.parametrize(
    ("judge", "name"),
    [
        (Judge("j", "openai", "m"), "max_completion_tokens"),
        (Judge("j", "openai", "m", base_url="http://127.0.0.1:1/v1"), "max_tokens"),
        (Judge("j", "openai", "m", send={"max_tokens": 9, "temperature": 0}), "max_tokens"),
        (
            Judge("j", "openai", "m", base_url="http://h/v1", send={"max_completion_tokens": 9}),
            "max_completion_tokens",
        ),
        (Judge("j", "anthropic", "m", open_cap=16000), "max_tokens"),
        (Judge("j", "google", "m", send={"max_output_tokens": 9}), "max_output_tokens"),
        (Judge("j", "google", "m"), "max_output_tokens"),
        (load_judge("smollm2"), "max_tokens"),
    ],
)
def test_a_cap_goes_under_the_providers_own_name_once(rows, judge, name):
    params = judge.with_cap(128).request(load_prompt("C.v1"), rows.iloc[0])["params"]
    assert {key: value for key, value in params.items() if key.startswith("max_")} == {name: 128}
    assert {**judge.send, name: 128} == judge.with_cap(128).send and judge.with_cap(128).output_cap == 128


@pytest.mark.parametrize(
    ("provider", "place"),
    [
        ("openai", lambda body: body["max_completion_tokens"]),
        ("anthropic", lambda body: body["max_tokens"]),
        ("google", lambda body: body["generationConfig"]["maxOutputTokens"]),
    ],
)
def test_the_cap_reaches_the_provider(rows, store, provider, place, monkeypatch):
    monkeypatch.setenv("LOOPBACK_API_KEY", "sk-test-loopback")
    with Fakes() as server:
        root = server.base_url if provider == "openai" else server.root
        monkeypatch.setitem(judges._BASE_URL, provider, root)
        judge = Judge("j", provider, "m", key_env="LOOPBACK_API_KEY", open_cap=900 if provider == "anthropic" else 0)
        go(apply(find("cap-128+cap-256"), rows[:1], ("C.v1",), judge, 0).plan, store)
    assert sorted(map(place, server.requests)) == [128, 256]


@pytest.mark.parametrize(
    ("provider", "place"),
    [
        ("openai", lambda body: body.get("response_format", {}).get("type")),
        ("google", lambda body: [name for name in body.get("generationConfig", {}) if name.startswith("response")]),
    ],
)
def test_the_format_reaches_the_provider(rows, store, provider, place, monkeypatch):
    monkeypatch.setenv("LOOPBACK_API_KEY", "sk-test-loopback")
    with Fakes() as server:
        monkeypatch.setitem(judges._BASE_URL, provider, server.base_url if provider == "openai" else server.root)
        judge = Judge("j", provider, "m", key_env="LOOPBACK_API_KEY", in_flight=1)
        go(apply(find("primary+format"), rows[:1], ("C.v1",), judge, 0).plan, store)
    found = list(map(place, server.requests))
    assert (
        found
        == {
            "openai": [None, "json_object", "json_schema"],
            "google": [[], ["responseMimeType"], ["responseMimeType", "responseJsonSchema"]],
        }[provider]
    )


@pytest.mark.parametrize(
    ("name", "missing"), [("opus", {"format-json"}), ("lexical", {"format-json", "format-schema"})]
)
def test_a_format_that_a_judge_does_not_have_is_counted_and_named(rows, name, missing):
    skipped = apply(find("primary+format"), rows, ("C.v1",), load_judge(name), 0).skipped
    lacks = skipped[skipped["reason"].str.contains(f"{name} has no json_")]
    assert set(lacks["condition"]) == missing and len(lacks) == len(missing) * len(rows)
    with pytest.raises(NothingToAsk, match=f"format-json by judge {name} .*has no json_object.*4 rows"):
        apply(find("format-json"), rows, ("C.v1",), load_judge(name), 0)


def test_prompts_of_a_condition_take_the_place_of_the_runs(rows):
    plan = apply(find("primary+schema"), rows, ("R.v1",), LEXICAL, 0).plan
    assert plan.asked_prompts() == ("R.v1", "S.v1", "C.v1", "H.v1") and len(plan) == 4 * (1 + 3)
    assert sorted(Counter(call.prompt_id for call in plan).items()) == [
        (n, 4) for n in ("C.v1", "H.v1", "R.v1", "S.v1")
    ]


def test_a_diagnostics_run_reuses_every_primary_reply(rows, store):
    primary = apply(find("primary"), rows, ("C.v1", "H.v1"), LEXICAL, 0).plan
    go(primary, store)
    again = survey(apply(find("primary+schema+prompt+repeat+format"), rows, ("C.v1", "H.v1"), LEXICAL, 0).plan, store)
    assert (again.asked, again.calls, again.in_store) == (4 * (2 + 3 + 6 + 6), 8 + 4 + 16 + 16, 8)


def test_repeats_are_calls_of_their_own_and_the_first_is_the_primary_one(rows, store):
    plan = apply(find("primary+repeat-3"), rows, ("C.v1",), LEXICAL, 0).plan
    go(plan, store)
    judged = judgments(plan, store)
    assert judged.groupby("repeat")["key"].nunique().tolist() == [4, 4, 4]
    assert judged["key"].nunique() == 12 and judged["condition"].value_counts().to_dict() == {
        "repeat-3": 12,
        "primary": 4,
    }
    assert store.get(judged["key"]).keys() == set(judged["key"])
    assert json.loads(store.get(judged["key"])[judged["key"].iloc[-1]].request)["repeat"] == 2


@pytest.mark.parametrize(
    ("send", "cut"), [({"max_completion_tokens": 12}, True), ({"max_tokens": 0}, False), ({"max_tokens": -1}, False)]
)
def test_the_lexical_baseline_takes_a_cap_by_any_name_and_none_for_no_cap(rows, store, send, cut):
    plan = Plan(rows, ("C.v1",), replace(LEXICAL, send=send))
    go(plan, store)
    assert (judgments(plan, store)["finish_reason"] == ("length" if cut else "stop")).all()


def test_the_lexical_baseline_keeps_a_cap_and_its_cut_reply_is_read(rows, store):
    plan = apply(
        [replace(CONDITIONS["cap-128"], settings=lambda judge: judge.with_cap(12))], rows, DESIGNS, LEXICAL, 0
    ).plan
    go(plan, store)
    judged = judgments(plan, store)
    assert (judged["finish_reason"] == "length").all() and (judged["status"] == "recovered").all()
    whole = Plan(rows, DESIGNS, LEXICAL)
    go(whole, store)
    assert judgments(whole, store)["verdict"].tolist() == judged["verdict"].tolist()


# What a person sees, and adds.


def test_what_is_asked_and_what_is_skipped_is_shown(sample):
    applied = apply(find("reference"), sample, DESIGNS, LEXICAL, 0)
    table = described(applied).set_index("condition")
    assert (table["rows"] + table["skipped"] == len(sample)).all() and table.loc["reference-removed", "skipped"] == 0
    why = reasons(applied.skipped)
    assert why["rows"].sum() == len(applied.skipped) and why["first"].isin(sample["row_id"]).all()


def test_the_condition_that_readme_adds_works_in_one_place(sample, monkeypatch):
    readme = (paths.ROOT / "README.md").read_text(encoding="utf-8")
    block = readme.split("```python\ndef shouting")[1].split("```")[0]
    function, entry = ("def shouting" + block).split("\n\n")
    names = {"CannotApply": CannotApply, "Condition": Condition}
    exec(function, names)
    mine = eval(entry, names)
    monkeypatch.setitem(CONDITIONS, mine.name, mine)
    rows, skipped = changed("candidate-shouting", sample)
    assert len(rows) and (rows["candidate"] == rows["candidate"].str.upper()).all()
    assert len(rows) + len(skipped) == len(sample) and (skipped["reason"] == "the candidate shouts already").all()


def test_no_condition_hides_a_row_without_content(rows):
    """Empty texts go through every condition: changed or skipped with a reason, never an error."""
    empty = rows.assign(reference="", candidate="")
    for name in CONDITIONS:
        kept, skipped = changed("primary+" + name if name != "primary" else name, empty, HOSTED)
        assert len(kept) + len(skipped) == len(empty) * (1 if name == "primary" else 2)
