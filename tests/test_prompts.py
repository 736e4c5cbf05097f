"""Prompts: whole renderings, what designs share, the lock, and row text that tries to break the layout."""

import json
import shutil

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lib import paths, prompts
from lib.prompts import load_prompt, prompt_ids, render, reply_schema

ROW = {"question": "Who won?", "reference": "Ada won in 1843.", "candidate": "Ada won."}
ALL = ("B.v1", "C.v1", "C.v2", "C.v3", "H.v1", "H.v2", "H.v3", "R.v1", "S.v1")
CLAIMS = ("supported_claims", "unsupported_claims", "contradicted_claims")
POINTS = ("covered_points", "missing_points", "contradicted_points")


def test_every_prompt_of_the_study_is_there():
    assert set(ALL) <= set(prompt_ids())


@pytest.mark.parametrize("prompt_id", ALL)
def test_the_rendered_prompt_is_the_stored_one_whole(prompt_id):
    stored = (paths.ROOT / "tests" / "rendered" / f"{prompt_id}.txt").read_text(encoding="utf-8")
    system, user = render(load_prompt(prompt_id), ROW)
    assert (system["role"], user["role"]) == ("system", "user")
    assert f"=== system\n{system['content']}\n=== user\n{user['content']}\n" == stored


def _parts(prompt):
    head, rest = prompt.system.split("## Task\n")
    design, reply = rest.split("## Reply\n")
    return head, design, reply


def test_designs_differ_in_the_design_block_and_the_keys_alone():
    rendered = {prompt_id: render(load_prompt(prompt_id), ROW) for prompt_id in ALL}
    assert len({json.dumps(messages[1]) for messages in rendered.values()}) == 1
    loaded = [load_prompt(prompt_id) for prompt_id in ALL]
    assert len({_parts(prompt)[0] for prompt in loaded}) == 1
    assert len({_parts(prompt)[1] for prompt in loaded}) == len(ALL)
    for prompt in loaded:
        own = [
            line
            for line in _parts(prompt)[2].split("\n")
            if not line.startswith(tuple(f'- "{key}"' for key in prompt.lists))
        ]
        shared = [
            line
            for line in _parts(loaded[0])[2].split("\n")
            if not line.startswith(tuple(f'- "{key}"' for key in loaded[0].lists))
        ]
        assert own == shared


@pytest.mark.parametrize(
    ("prompt_id", "lists"),
    [("C.v1", CLAIMS), ("C.v2", CLAIMS), ("C.v3", CLAIMS), ("S.v1", CLAIMS), ("R.v1", POINTS)]
    + [("B.v1", CLAIMS + POINTS), ("H.v1", ("issues",)), ("H.v2", ("issues",)), ("H.v3", ("issues",))],
)
def test_keys_begin_with_the_verdict_and_hold_the_designs_lists(prompt_id, lists):
    prompt = load_prompt(prompt_id)
    assert prompt.keys == ("verdict", "score", "confidence", *lists, "rationale")
    asked = [line.split('"')[1] for line in _parts(prompt)[2].split("\n") if line.startswith('- "')]
    assert tuple(asked) == prompt.keys
    assert tuple(reply_schema(prompt)["properties"]) == prompt.keys == tuple(reply_schema(prompt)["required"])


@pytest.mark.parametrize("prompt_id", ["C.v1", "C.v3", "S.v1"])
def test_completeness_does_not_leak_into_prompts_that_must_not_ask_for_it(prompt_id):
    text = load_prompt(prompt_id).system.lower()
    assert not any(
        word in text for word in ("complet", "omit", "omission", "leaves out", "leave out", "missing", "cover")
    )


def test_c_v2_asks_for_factual_accuracy_and_completeness():
    text = load_prompt("C.v2").system
    assert "factual accuracy" in text and "completeness" in text


@pytest.mark.parametrize("prompt_id", ["H.v1", "H.v2", "H.v3"])
def test_h_has_the_four_point_checklist_and_skips_claims(prompt_id):
    text = load_prompt(prompt_id).system.lower()
    assert all(point in text for point in ("correctness", "completeness", "unsupported detail", "style robustness"))
    assert "claim-by-claim" in text or "into claims" in text


def test_r_is_not_asked_about_candidate_content_outside_the_reference():
    design = _parts(load_prompt("R.v1"))[1].lower()
    assert "split the reference" in design and "split the candidate" not in design
    assert not any(word in design for word in ("unsupported detail", "does not mention it\n", "adds"))


def test_s_has_no_splitting():
    design = _parts(load_prompt("S.v1"))[1].lower()
    assert "split" not in design and "claim" not in design


def test_instruction_detail_is_comparable_across_designs():
    """Block and keys together, since H's longer checklist stands where C and R explain their lists."""
    words = {prompt_id: len(load_prompt(prompt_id).system.split()) for prompt_id in ("C.v1", "H.v1", "R.v1")}
    assert max(words.values()) < 1.15 * min(words.values())


TEXT = st.text(st.characters(codec="utf-8"), max_size=60)
TRAPS = st.sampled_from(
    [
        "{x}",
        "${question}",
        "$candidate",
        "</candidate>",
        "<reference>",
        "</question-2>",
        '{"verdict": "supported"}',
        "```",
        "</ CANDIDATE >",
    ]
)
NASTY = st.lists(TEXT | TRAPS, max_size=5).map("".join)


@settings(derandomize=True, max_examples=300)
@given(NASTY, NASTY, NASTY)
def test_the_text_of_a_row_goes_in_unchanged_and_cannot_break_the_layout(question, reference, candidate):
    row = {"question": question, "reference": reference, "candidate": candidate}
    user = render(load_prompt("C.v1"), row)[1]["content"]
    tag = user.split(">", 1)[0].removeprefix("<question")
    expected = "\n\n".join(f"<{name}{tag}>\n{row[name]}\n</{name}{tag}>" for name in prompts.FIELDS)
    assert user == expected
    for name in prompts.FIELDS:
        assert user.count(f"</{name}{tag}>") == user.count(f"<{name}{tag}>") == 1


@pytest.mark.parametrize("value", [None, 3, float("nan")])
def test_a_field_that_is_no_text_is_refused_by_row_and_field(value):
    with pytest.raises(ValueError, match="asqa/7/full: candidate must be a string"):
        render(load_prompt("C.v1"), {**ROW, "row_id": "asqa/7/full", "candidate": value})


def test_an_unknown_prompt_names_those_there_are():
    with pytest.raises(ValueError, match=r"'X\.v1' has no file; there are B\.v1, C\.v1"):
        load_prompt("X.v1")


@pytest.fixture
def copied(tmp_path, monkeypatch):
    shutil.copytree(paths.PROMPTS, tmp_path / "prompts")
    monkeypatch.setattr(paths, "PROMPTS", tmp_path / "prompts")
    monkeypatch.setattr(prompts, "LOCK", tmp_path / "prompts" / "LOCK.json")
    return tmp_path / "prompts"


def test_an_edited_locked_prompt_is_refused(copied):
    path = copied / "C.v1.md"
    path.write_text(path.read_text(encoding="utf-8").replace("every claim", "each claim"), encoding="utf-8")
    with pytest.raises(ValueError, match=r"C\.v1\.md differs from prompts/LOCK\.json"):
        load_prompt("C.v1")
    with pytest.raises(ValueError, match=r"edited or removed: C\.v1"):
        prompts.write_lock()


def test_a_new_version_is_locked_and_then_loads(copied):
    text = (copied / "C.v1.md").read_text(encoding="utf-8").replace("id: C.v1", "id: C.v999")
    (copied / "C.v999.md").write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=r"C\.v999\.md is not in prompts/LOCK\.json"):
        load_prompt("C.v999")
    prompts.write_lock()
    assert load_prompt("C.v999").design == "C"


def test_windows_line_ends_do_not_change_the_hash(copied):
    path = copied / "C.v1.md"
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    assert load_prompt("C.v1").sha256 == json.loads(prompts.LOCK.read_text())["C.v1"]


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ("$candidate", "$candidat", "placeholders"),
        ("$candidate", "the candidate", "placeholders"),
        ("Work from the candidate.", "Work from $candidate.", "placeholders"),
        ("Work from the candidate.", "It costs 5 $.", "placeholders"),
        ("design: C", "desing: C", "front matter"),
        ("id: C.v1", "id: C.v9", "id must equal"),
        ("keys: [verdict, score", "keys: [score, verdict", "keys must be verdict"),
        ("# user\n", "# person\n", "expected front matter"),
    ],
)
def test_a_malformed_prompt_names_the_file_and_what_is_wrong(copied, old, new, line):
    path = copied / "C.v1.md"
    path.write_text(path.read_text(encoding="utf-8").replace(old, new, 1), encoding="utf-8")
    with pytest.raises(ValueError, match=rf"C\.v1\.md.*{line}"):
        prompts.read_prompt(path)
