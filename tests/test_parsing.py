"""The parser: the shared cases and our own, what must hold for every text, and linear time."""

from __future__ import annotations

import json
import time
from dataclasses import FrozenInstanceError
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from lib.parsing import REASONS, STATUSES, VERDICTS, Parsed, parse_reply

HERE = Path(__file__).resolve().parent
SHARED = HERE.parent.parent / "shared" / "cases" / "parse.json"
CASES = json.loads((HERE / "cases" / "parse.json").read_text(encoding="utf-8"))
REPEATABLE = settings(derandomize=True, deadline=None, max_examples=150, database=None)
MEGABYTE = 1_000_000


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_case_is_read_as_wanted(case):
    parsed = parse_reply(case["text"], case["finish"])
    want = case["want"] if isinstance(case["want"], list) else [case["want"]]
    assert parsed.verdict in want
    assert case["status"] in (None, parsed.status)
    assert case.get("reason", parsed.reason) == parsed.reason
    assert_consistent(parsed)


def test_cases_hold_every_shared_case_unchanged():
    if not SHARED.exists():
        pytest.skip("shared/cases/parse.json is not here")
    shared = json.loads(SHARED.read_text(encoding="utf-8"))
    assert CASES[: len(shared)] == shared
    assert len({case["name"] for case in CASES}) == len(CASES) >= len(shared) + 60


def assert_consistent(parsed: Parsed) -> None:
    assert parsed.status in STATUSES
    assert (parsed.verdict is None) == (parsed.status == "unjudged") == (parsed.reason != "")
    assert parsed.verdict in (None, *VERDICTS)
    assert parsed.reason in ("", *REASONS)
    assert parsed.verdict is not None or parsed.fields == {}


def test_the_result_is_frozen():
    with pytest.raises(FrozenInstanceError):
        parse_reply("{}").verdict = "supported"


def test_fields_are_the_other_top_level_keys_as_they_came():
    fields = {"score": 4, "confidence": 0.25, "claims": [{"verdict": "supported"}], "rationale": 'a "b" }'}
    assert parse_reply(json.dumps({"Verdict": "unsupported", **fields})).fields == fields
    assert parse_reply("Here: " + json.dumps({**fields, "verdict": "unsupported"})).fields == fields
    assert parse_reply(repr({"verdict": "unsupported", **fields})).fields == fields


def test_a_cut_value_is_left_out_of_the_fields():
    assert parse_reply('{"verdict": "supported", "claims": ["a"], "score": 1', "length").fields == {"claims": ["a"]}
    assert parse_reply('{"verdict": "supported", "rationale": "half a sen', "length").fields == {}


def test_a_group_beyond_reading_is_left_out_of_the_fields():
    assert parse_reply('{"verdict": "supported", "claims": [a b; c], "score": 1,}').fields == {"score": 1}


def test_nearly_json_fields_are_read_with_their_types():
    text = "{verdict: 'supported', 'ok': True, none: None, n: [1, 'it\\'s', {a: \"b\",},], // c\n word: high,}"
    fields = {"ok": True, "none": None, "n": [1, "it's", {"a": "b"}], "word": "high"}
    assert parse_reply(text) == Parsed("supported", "recovered", "", fields)


def test_a_huge_integer_keeps_its_digits():
    assert parse_reply('{"verdict": "supported", "score": ' + "7" * 5000 + "}").fields == {"score": "7" * 5000}


@pytest.mark.parametrize("finish", ["refused", "refusal", "content_filter", "SAFETY", "blocked", "blocked: list"])
def test_a_finish_reason_of_refusal_decides_whatever_the_text_says(finish):
    assert parse_reply('{"verdict": "supported"}', finish) == Parsed(None, "unjudged", "refused")


@pytest.mark.parametrize("finish", ["length", "max_tokens", "MAX_TOKENS", "FinishReason.MAX_TOKENS"])
def test_a_finish_reason_of_length_makes_a_reply_without_verdict_truncated(finish):
    for text in (None, "", " ", "The passage says", '{"score": 3}', "I cannot"):
        assert parse_reply(text, finish).reason == "truncated"


FRAGMENTS = st.sampled_from(
    '{ } [ ] " \' “ ” ‘ ’ : , \\ \\" \n \r\n // /* */ # ``` <think> </think> <reasoning> verdict "verdict" Verdict: '
    "supported unsupported partially_supported 'supported' \"supported\" null NaN True 1 . - \ud800 \u200b é".split(
        " "
    )
    + [" ", "", '{"verdict": "supported"}', "{'verdict': 'unsupported'}", '{"a": [', "Verdict: supported\n"]
)
FINISHES = st.sampled_from([None, "stop", "length", "refusal"])


@REPEATABLE
@given(st.text(), FINISHES)
def test_no_text_raises(text, finish):
    assert_consistent(parse_reply(text, finish))


@settings(REPEATABLE, max_examples=600)
@given(st.lists(FRAGMENTS, max_size=25).map("".join), FINISHES)
def test_no_text_of_json_fragments_raises(text, finish):
    assert_consistent(parse_reply(text, finish))


PLANTS = st.sampled_from(
    [
        '{"verdict": "supported"}',
        "{'verdict': 'supported'}",
        '"verdict": "supported"',
        '", "verdict": "supported", "',
        "', 'verdict': 'supported', '",
        "Verdict: supported",
        "\nVerdict: supported\n",
        "It holds. Verdict: supported. ",
        "<think>",
        "</think>",
        "</think> So. Verdict: supported. ",
        "}",
        "]",
        "it's 5\" \\",
        "// /* #",
    ]
)
WORDS = st.lists(PLANTS | st.text(max_size=4), max_size=4).map(" ".join)
CLAIMS = st.lists(st.fixed_dictionaries({"claim": WORDS, "verdict": st.just("supported")}), max_size=2)
REPLIES = st.fixed_dictionaries(
    {},
    optional={
        "claims": CLAIMS,
        "result": st.fixed_dictionaries({"verdict": st.just("supported"), "rationale": WORDS}),
        "rationale": WORDS,
        "score": st.integers(1, 5),
        "verdict": st.sampled_from(["unsupported", "partially_supported"]),
    },
).flatmap(lambda reply: st.permutations(list(reply.items())).map(dict))
SPELLINGS = st.sampled_from([json.dumps, lambda reply: json.dumps(reply, indent=2, ensure_ascii=False), repr])


@settings(REPEATABLE, max_examples=80)
@given(REPLIES, SPELLINGS, st.sampled_from(["", "```json\n", "Here it is: "]), st.sampled_from([None, "length"]))
def test_a_verdict_is_never_read_from_below_the_top_level_wherever_the_reply_is_cut(reply, spell, before, finish):
    text = before + spell(reply)
    for end in range(len(text) + 1):
        assert parse_reply(text[:end], finish).verdict in (None, reply.get("verdict")), text[:end]
    assert parse_reply(text, finish).verdict == reply.get("verdict")


@settings(REPEATABLE, max_examples=40)
@given(st.lists(REPLIES, min_size=1, max_size=2), SPELLINGS)
def test_a_verdict_is_never_read_from_an_array_or_a_wrapper_wherever_it_is_cut(replies, spell):
    for text in (spell(replies), spell({"result": replies[0]}), spell({"first": 1, "rest": replies})):
        for end in range(len(text) + 1):
            assert parse_reply(text[:end]).verdict is None, text[:end]


PROSE = st.text(st.characters(exclude_characters="{}[]<◁\"'“”„«»‘’"), max_size=30)


@REPEATABLE
@given(REPLIES, SPELLINGS, PROSE, PROSE)
def test_prose_around_a_whole_reply_keeps_its_verdict_as_embedded(reply, spell, before, after):
    assume("verdict" in reply and spell is not repr and "verdict" not in (before + after).lower())
    alone = parse_reply(spell(reply))
    assume(alone.status == "whole")
    wrapped = parse_reply(f"Ruling. {before}{spell(reply)}{after}")
    assert wrapped == Parsed(reply["verdict"], "embedded", "", alone.fields)


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@REPEATABLE
@given(
    st.dictionaries(st.text(max_size=8).filter(lambda key: "verdict" not in key.lower()), JSON_VALUES, max_size=4),
    st.sampled_from(VERDICTS),
    st.integers(0, 4),
    st.sampled_from([None, 0, 2, "\t"]),
    st.booleans(),
)
def test_json_dumps_is_read_back_with_its_verdict_and_fields(fields, verdict, place, indent, ensure_ascii):
    items = list(fields.items())
    items.insert(place, ("verdict", verdict))
    text = json.dumps(dict(items), indent=indent, ensure_ascii=ensure_ascii)
    assert parse_reply(text) == Parsed(verdict, "whole", "", fields)


ENDLESS = {
    "braces": "{" * MEGABYTE,
    "brackets": "[" * MEGABYTE,
    "nested objects left open": '{"a":' * (MEGABYTE // 5),
    "braces and quotes": '{"' * (MEGABYTE // 2),
    "curly quotes closed at the end": "{“" * (MEGABYTE // 2) + "”",
    "single-quoted nesting": "{'a':{" * (MEGABYTE // 6),
    "backslashes in a string": '{"verdict": "supported", "r": "' + "\\" * MEGABYTE,
    "thinking tags": "<think>" * (MEGABYTE // 7),
    "ends of thinking inside cut objects": '{"</think>' * (MEGABYTE // 10),
    "anchors": "verdict:" * (MEGABYTE // 8),
    "anchors a line": "verdict: supported\n" * (MEGABYTE // 19),
    "closed nesting": '{"a":' * (MEGABYTE // 6) + "1" + "}" * (MEGABYTE // 6),
    "whole objects": '{"verdict":"supported"} ' * (MEGABYTE // 24),
    "comments": "{/*" * (MEGABYTE // 3),
    "blanks": '{"verdict"' + " " * MEGABYTE + ': "supported"}',
}


@pytest.mark.parametrize("kind", ENDLESS)
def test_a_megabyte_of_one_kind_is_read_in_bounded_time(kind):
    # processor time, because the machine may be busy; a quadratic pattern takes minutes
    start = time.process_time()
    parsed = parse_reply(ENDLESS[kind])
    assert time.process_time() - start < 5
    assert_consistent(parsed)


@pytest.mark.parametrize("text", [["verdict"], {"verdict": "supported"}, 7, b"x"])
def test_what_is_no_text_is_empty_and_raises_nothing(text):
    assert parse_reply(text).reason == "empty"
