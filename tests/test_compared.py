"""Reported against reproduced, the claims in words, and the arithmetic: each can come out either way."""

import re

import numpy as np
import pandas as pd
import pytest

from lib import claims, compared, paths
from lib.arithmetic import AGREES, DISAGREES, arithmetic
from lib.compared import NOT_RUN, OUTSIDE, WITHIN, compare, compared_shown, tally
from lib.evidence import Evidence, ranged
from lib.reported import RELATIONS, WHICH, evaluate, natural, reported
from lib.reproduced import numbers
from lib.resampling import cluster_bootstrap
from lib.study import study_judges
from tests import papers

TABLE = reported()


@pytest.fixture(scope="module")
def study():
    return papers.material()


@pytest.fixture(scope="module")
def beside(study):
    return compare(study)


# What a test does not look at is left out: the numbers of a whole study take seconds.
NOTHING_ELSE = {name: pd.DataFrame() for name in ("conditions", "generated", "generated_rows", "labels")}


def on_asqa(rows):
    return rows[rows["dataset"] == "asqa"]


def one(table, **where):
    for name, value in where.items():
        table = table[table[name] == value]
    assert len(table) == 1, where
    return table.iloc[0]


# The paper's own numbers.


def test_every_reported_number_is_a_number_with_its_place_and_no_line_stands_twice():
    assert len(TABLE) == 116 and (TABLE["where"] != "").all()
    assert set(TABLE["which"]) <= set(WHICH) and set(TABLE["relation"]) <= set(RELATIONS)
    assert all(natural(line) >= 0 for line in TABLE.itertuples())
    assert not TABLE.duplicated(["quantity", "dataset", "judge", "design", "slice", "which"]).any()


def test_readme_counts_the_reported_numbers():
    assert f"the {len(TABLE)} numbers" in (paths.ROOT / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "where, value",
    [
        ({"quantity": "accuracy", "dataset": "asqa", "judge": "GPT-4.1", "design": "R"}, "0.9325"),
        ({"quantity": "difference", "dataset": "asqa", "judge": "Gemini", "design": "R − H"}, "17.0"),
        ({"quantity": "questions lost", "judge": "Gemini", "design": "R − H"}, "2"),
        ({"quantity": "accuracy", "judge": "Sonnet", "slice": "partial rows", "design": "C"}, "43"),
        ({"quantity": "more tokens a call", "dataset": "qampari", "which": "highest"}, "69"),
        ({"quantity": "primary outputs", "slice": "embedded"}, "1512"),
        ({"quantity": "generated rows right", "judge": "GPT-4.1", "design": "C"}, "76"),
        ({"quantity": "verdicts that flip", "dataset": "truthfulqa"}, "5"),
    ],
)
def test_numbers_of_the_card_stand_in_the_file(where, value):
    assert one(TABLE, **where)["value"] == value


def test_a_derived_number_is_the_sum_of_reported_ones():
    written = {abs(float(value)) for value in TABLE["value"]} | {float(value) / 100 for value in TABLE["value"]}
    # The number of bins and twice an accuracy: two kinds of rows in equal parts.
    written |= {24.0, 2.0}
    derived = TABLE[TABLE["derived"] != ""]
    assert len(derived) == 12
    for line in derived.itertuples():
        for term in re.findall(r"[\d.]+", line.derived):
            assert any(abs(float(term) - value) < 1e-12 for value in written), (line.derived, term)


def test_every_reported_number_is_one_that_a_run_can_give(study):
    """Else its line could never be anything but not run."""
    found = numbers(study)
    for line in TABLE.itertuples():
        assert len(compared._candidates(line, found)), (line.quantity, line.dataset, line.design, line.slice)


# Reported against reproduced.


def test_a_run_that_gives_the_reported_numbers_is_within(beside):
    for judge in ("Opus", "GPT-4.1", "Gemini"):
        line = one(beside, quantity="accuracy", dataset="asqa", judge=judge, design="R", slice="all rows")
        assert line["status"] == WITHIN and line["low"] <= line["reproduced"] <= line["high"]
    opus = one(beside, quantity="difference", dataset="asqa", judge="Opus", design="R − H")
    assert (opus["status"], opus["ran"], opus["reproduced"]) == (WITHIN, "opus", 0.125)
    won = one(beside, quantity="questions won", dataset="asqa", judge="Opus", design="R − H")
    assert won["shown"].startswith("50 of 200 [") and won["status"] == WITHIN
    p = one(beside, quantity="p", dataset="asqa", design="R − H")
    assert p["status"] == WITHIN and set(p["ran"].split(", ")) == {"opus", "gpt-4.1", "gemini"}
    assert one(beside, quantity="difference", dataset="asqa", design="H − C", which="lowest")["reproduced"] == 0.0725
    assert one(beside, quantity="primary outputs", slice="all")["status"] == WITHIN


def test_a_run_that_gives_other_numbers_is_outside(study):
    worse = papers.ASQA | {"opus": {**papers.ASQA["opus"], "R": (60, 0)}}
    table = compare(papers.material(judged=papers.judged(on_asqa(study.rows), worse), **NOTHING_ELSE))
    line = one(table, quantity="accuracy", dataset="asqa", judge="Opus", design="R", slice="all rows")
    assert line["status"] == OUTSIDE and line["high"] < 0.975
    assert one(table, quantity="p", dataset="asqa", design="R − H")["status"] == OUTSIDE
    assert (
        one(table, quantity="accuracy", dataset="asqa", judge="GPT-4.1", design="R", slice="all rows")["status"]
        == WITHIN
    )


def test_what_was_not_asked_says_so(beside):
    gemini = one(beside, quantity="generated rows right", judge="Gemini", design="H")
    assert (gemini["status"], gemini["why"]) == (NOT_RUN, "no such run by Gemini on the benchmarks")
    assert pd.isna(gemini["reproduced"]) and gemini["shown"] == "n/a"
    assert set(beside.loc[beside["judge"] == "first of three", "why"]) == {"the source does not name the judge"}
    assert one(beside, quantity="labels that agree", dataset="all")["why"].startswith("the author's labels")
    counts = beside["status"].value_counts()
    assert tally(beside).startswith(f"Of 116 reported numbers: {counts[WITHIN]} within, {counts[OUTSIDE]} outside")


def test_labels_named_as_the_authors_are_compared_and_a_count_of_other_rows_is_not(study):
    given = papers.labels(study.rows, "author")
    p = papers.parameters(annotators=("author",))
    table = compare(papers.material(p, **NOTHING_ELSE | {"labels": given}, judged=pd.DataFrame()))
    line = one(table, quantity="labels that agree", dataset="asqa")
    assert (line["status"], line["reproduced"]) == (WITHIN, 10.0)
    fewer = given[~given["row_id"].str.endswith("/199/full")]
    table = compare(papers.material(p, **NOTHING_ELSE | {"labels": fewer}, judged=pd.DataFrame()))
    line = one(table, quantity="labels that agree", dataset="all")
    assert (line["status"], line["why"]) == (NOT_RUN, "counted out of 57 here, not of 60")


@pytest.mark.parametrize(
    "model", ["SmolLM2-135M-Instruct.Q4_1", "lexical-overlap-1", "gpt-4.1-mini", "claude-haiku-4"]
)
def test_another_model_never_counts_as_a_judge_of_the_study(study, model):
    """Whatever its entry is called."""
    models = papers.MODELS | {"opus": model}
    m = papers.material(
        judged=papers.judged(study.rows, models=models), conditions=pd.DataFrame(), generated=pd.DataFrame()
    )
    assert "Opus" not in study_judges(m) and set(study_judges(m)) == {"GPT-4.1", "Gemini", "Sonnet"}


def test_another_judges_number_stands_in_a_column_of_its_own(study):
    models = papers.MODELS | {"opus": "SmolLM2-135M-Instruct.Q4_1"}
    table = compare(papers.material(judged=papers.judged(on_asqa(study.rows), models=models), **NOTHING_ELSE))
    line = one(table, quantity="accuracy", dataset="asqa", judge="Opus", design="R", slice="all rows")
    assert line["status"] == NOT_RUN and line["opus"] == "0.975 [0.960, 0.990]"
    assert "opus (another judge)" in compared_shown(table)


def test_a_mixture_of_models_is_no_judge_of_the_study(study):
    judged = study.judged.copy()
    judged.loc[judged.index[(judged["judge"] == "opus")][:1], "model"] = "claude-sonnet-4-6"
    assert "Opus" not in study_judges(papers.material(judged=judged))


def test_the_sample_is_no_run_of_the_study():
    assert study_judges(papers.material(papers.parameters(source="sample"))) == {}
    part = papers.parameters(source="sample", files={"asqa": "x"})
    assert study_judges(papers.material(part)) == {}


def test_other_versions_of_the_designs_are_no_run_of_the_study(study):
    p = papers.parameters(designs=("C.v2", "H.v1", "R.v1", "B.v1"))
    assert set(study_judges(papers.material(p))) == {"Sonnet"}
    p = papers.parameters(only={"opus": ["C.v2", "H.v2"]})
    assert "Opus" not in study_judges(papers.material(p))


def test_few_questions_are_no_reproduction_however_wide_the_interval(study):
    few = on_asqa(study.judged)[on_asqa(study.judged)["question_id"].astype(int) >= 100]
    line = one(
        compare(papers.material(judged=few, **NOTHING_ELSE)),
        **{"quantity": "accuracy", "dataset": "asqa", "judge": "Opus", "design": "R", "slice": "all rows"},
    )
    assert (line["status"], line["why"]) == (NOT_RUN, "100 questions here, the study had 200 a dataset")
    slice_ = study.conditions[study.conditions["question_id"].astype(int) < 10]
    p = papers.parameters(judges=("opus",))
    nothing = NOTHING_ELSE | {"judged": pd.DataFrame(), "conditions": slice_}
    line = one(compare(papers.material(p, **nothing)), quantity="accuracy", judge="Opus", design="S")
    assert line["why"] == "10 questions here, the study's slices had 20 or more"


def test_two_judges_of_one_family_are_none_of_the_studys_and_this_is_said(study):
    models = papers.MODELS | {"gemini": "claude-opus-4-5"}
    m = papers.material(judged=papers.judged(on_asqa(study.rows), models=models), **NOTHING_ELSE)
    assert set(study_judges(m)) == {"GPT-4.1", "Sonnet"}
    table = compare(m)
    line = one(table, quantity="accuracy", dataset="asqa", judge="Opus", design="R", slice="all rows")
    assert (line["status"], line["why"]) == (NOT_RUN, "opus and gemini are both Opus")
    assert line["opus"].startswith("0.975 [") and line["gemini"].startswith("0.86")


def test_failed_calls_conclude_nothing(study):
    """What a provider did not answer says nothing of a design."""
    asqa = on_asqa(study.judged)
    gone = (asqa["judge"] == "opus") & (asqa["design"] == "R") & (asqa["question_id"].astype(int) < 120)
    lost = asqa.assign(verdict=asqa["verdict"].where(~gone), correct=asqa["correct"] & ~gone)
    m = papers.material(judged=lost.assign(reason=lost["reason"].where(~gone, "failed")), **NOTHING_ELSE)
    line = one(compare(m), quantity="accuracy", dataset="asqa", judge="Opus", design="R", slice="all rows")
    assert (line["status"], line["why"]) == (NOT_RUN, "240 calls of opus failed: run them again")
    table = claims.check(m).set_index(["claim", "judge"])
    assert table.loc[("R is best on ASQA.", "opus"), "found"] == "cannot tell"
    assert table.loc[("R is best on ASQA.", "opus"), "detail"].startswith("240 calls of opus failed")
    assert table.loc[("R is best on ASQA.", "gemini"), "found"] == "holds"


def test_a_number_of_all_designs_needs_all_of_them(study):
    m = papers.material(judged=on_asqa(study.judged), **NOTHING_ELSE)
    table = compare(m)
    line = one(table, quantity="accuracy", dataset="every dataset", which="lowest")
    assert line["why"] == "no such run by Opus, GPT-4.1, Gemini, Sonnet on the benchmarks"
    outputs = table[table["quantity"] == "primary outputs"]
    assert set(outputs["why"]) == {"counted out of 2400 here, not of 7200"}
    assert found(m, "Every design calls")["opus"] == "cannot tell"
    assert found(m, "H is above C in every complexity bin")["opus"] == "cannot tell"
    some = study.conditions[study.conditions["prompt"] != "C.v3"]
    m = papers.material(
        papers.parameters(judges=("opus",)), **NOTHING_ELSE | {"judged": pd.DataFrame(), "conditions": some}
    )
    line = one(compare(m), quantity="accuracy", judge="Opus", design="C", slice="prompt versions")
    assert line["why"] == "no such run by Opus on the benchmarks"


@pytest.mark.parametrize(
    "model, name",
    [
        ("claude-opus-4-6", "Opus"),
        ("anthropic/claude-opus-4.6", "Opus"),
        ("claude-3-opus-20240229", "Opus"),
        ("claude-opus-4-6-distill-qwen-7b", None),
        ("lmstudio/claude-opus-distill-1b.gguf", None),
        ("gpt-4.1-2025-04-14", "GPT-4.1"),
        ("gpt-4.1-mini-2025-04-14", None),
        ("models/gemini-3.1-pro-preview", "Gemini"),
        ("gemini-2.5-flash-lite", None),
        ("gemini-embedding-001", None),
        ("gemini-3.1-pro-preview-tuned-by-me", None),
        ("claude-sonnet-4-6", "Sonnet"),
        ("claude-3-5-sonnet-20241022", None),
        ("claude-opus-sonnet-merge", None),
    ],
)
def test_a_family_is_told_by_the_whole_name_of_the_model(model, name):
    judged = pd.DataFrame({"judge": ["opus"], "model": [model], "reason": [""]})
    m = papers.material(
        papers.parameters(judges=("opus",)), judged=judged, conditions=pd.DataFrame(), generated=pd.DataFrame()
    )
    assert set(study_judges(m)) == ({name} if name else set())


def test_a_judge_that_reports_no_tokens_but_zero_has_no_share(study):
    none = (
        on_asqa(study.judged).assign(tokens_in=0, tokens_out=0).astype({"tokens_in": "Int64", "tokens_out": "Int64"})
    )
    table = compare(papers.material(judged=none, **NOTHING_ELSE))
    assert set(table.loc[table["quantity"] == "more tokens a call", "status"]) == {NOT_RUN}


# Claims in words.


def found(m, text):
    """What one claim comes to, by judge."""
    (claim,) = [each for each in claims.CLAIMS if each.text.startswith(text)]
    evidence = Evidence(m)
    return {judge: (claim.decide(evidence, judge) or ("not run",))[0] for judge in m.p.judges}


def test_claims_hold_where_they_were_planted(study):
    assert found(study, "H is above C on ASQA") == dict.fromkeys(papers.MODELS, "holds")
    assert found(study, "R is best on ASQA") == {"sonnet-4.6": "not run"} | dict.fromkeys(
        list(papers.MODELS)[:3], "holds"
    )
    assert found(study, "C is at least as good") == dict.fromkeys(papers.MODELS, "holds")
    assert found(study, "H takes fewer tokens than C on ASQA")["opus"] == "holds"
    assert found(study, "Every version of H")["opus"] == "holds"
    assert found(study, "Every version of H")["gemini"] == "not run"


def test_a_claim_holds_for_the_study_if_it_holds_for_each_judge(study):
    asqa = study.judged[study.judged["dataset"] == "asqa"]
    table = claims.check(papers.material(judged=asqa, **NOTHING_ELSE))
    together = claims.checked_shown(table).set_index("claim")["the study's judges"]
    assert together["R is best on ASQA."].startswith("holds (Opus: holds, R − C +19.8")
    assert together["H is above C on QAMPARI."] == together["R is last under people's labels."] == "not run"
    once = table.assign(found=table["found"].where(table["judge"] != "gemini", "fails"))
    assert claims.checked_shown(once)["the study's judges"][0].startswith("fails (Opus: holds")
    other = claims.checked_shown(table.assign(study=table["study"].where(table["judge"] != "gemini", "")))
    assert other["gemini (another judge)"][0].startswith("holds: H − C") and "Gemini" not in other.iloc[0, 1]


def test_claims_fail_where_the_contrary_was_planted(study):
    turned = {
        judge: {"C": each["H"], "H": each["C"]} | {d: each["C"] for d in "RB" if d in each}
        for judge, each in papers.ASQA.items()
    }
    m = papers.material(judged=papers.judged(study.rows, turned))
    assert found(m, "H is above C on ASQA") == dict.fromkeys(papers.MODELS, "fails")
    assert found(m, "R is best on ASQA")["opus"] == "fails"
    assert found(m, "H is above C in every complexity bin")["gpt-4.1"] == "fails"


@pytest.mark.parametrize(
    "claim, low, high, share", [("Every design calls", 0.94, 1.0, 0.94), ("flips", 0.34, 0.5, 0.35)]
)
def test_a_true_claim_of_a_range_seldom_fails(claim, low, high, share):
    """Twelve cells, each at an end of the range: without widening, one in ten of such claims would fail."""
    rng, failures = np.random.default_rng(1), 0
    for _ in range(300):
        lines = []
        for _ in range(12):
            interval = cluster_bootstrap(rng.random(200) < share, range(200), 500, bounds=(0, 1))
            lines.append({"value": interval.estimate, "low": interval.low, "high": interval.high})
        failures += ranged(pd.DataFrame(lines), ("value", "low", "high"), (low, high), 0.05)[0] == "fails"
    assert failures <= 24


def test_few_questions_cannot_tell(study):
    few = study.judged[study.judged["question_id"].astype(int) < 3]
    m = papers.material(judged=few)
    assert set(found(m, "H is above C on ASQA").values()) == {"cannot tell"}


@pytest.mark.parametrize("share, word", [(0.0, "fails"), (0.42, "cannot tell"), (1.0, "fails")])
def test_a_range_holds_only_if_the_interval_lies_in_it(study, share, word):
    """The study's 25 questions a dataset are too few for its 16 points: no estimate makes it hold."""
    some = {f"asqa/{q}/{kind}" for q in range(25) for kind in ("full", "partial") if (q * 7 % 25) < 25 * share}
    slice_ = study.conditions
    swapped = (slice_["condition"] == "reference-swapped") & (slice_["dataset"] == "asqa")
    moved = slice_["row_id"].isin(some) & swapped
    other = slice_["label"].map(lambda label: "unsupported" if label == "supported" else "supported")
    verdict = slice_["verdict"].where(~swapped, slice_["label"]).where(~moved, other)
    m = papers.material(conditions=slice_.assign(verdict=verdict, correct=verdict == slice_["label"]))
    assert found(m, "Another question's reference flips 34")["opus"] == word


def test_the_order_reverses_only_with_enough_labels(study):
    asqa, p = on_asqa(study.rows), papers.parameters(judges=("opus",))
    every = pd.DataFrame({"row_id": asqa["row_id"], "annotator": "reader"})
    every["label"] = asqa["label"].where(asqa["kind"] == "full", "supported")
    given = {"rows": asqa, "labels": every, "judged": on_asqa(study.judged)}
    m = papers.material(p, **NOTHING_ELSE | given)
    assert (
        found(m, "H is above C under construction")
        == found(m, "R is last under people's labels")
        == {"opus": "holds"}
    )
    few = every[every["row_id"].str.contains("/1[0-4]/")]
    m = papers.material(p, **NOTHING_ELSE | given | {"labels": few})
    assert found(m, "H is above C under construction") == {"opus": "cannot tell"}
    backwards = {"opus": {"C": papers.ASQA["opus"]["H"], "H": papers.ASQA["opus"]["C"]}}
    m = papers.material(p, **NOTHING_ELSE | given | {"judged": papers.judged(asqa, backwards)})
    assert found(m, "H is above C under construction") == {"opus": "fails"}


def test_a_trend_with_complexity_is_found_and_its_absence_is_not_shown(study):
    asqa = on_asqa(study.judged)
    hard = asqa["complexity"] > 3
    wrong = (asqa["design"] == "C") & (asqa["kind"] == "partial") & hard
    right = (asqa["design"] == "C") & ~wrong
    verdict = asqa["verdict"].where(~wrong, "supported").where(~right, asqa["label"])
    m = papers.material(judged=asqa.assign(verdict=verdict, correct=verdict == asqa["label"]), **NOTHING_ELSE)
    assert found(m, "H minus C does not go")["opus"] == "fails"
    few = papers.material(judged=asqa[asqa["complexity"] == 2], **NOTHING_ELSE)
    assert found(few, "H minus C does not go")["opus"] == "cannot tell"


# The paper's arithmetic.


def test_the_papers_numbers_agree_with_each_other():
    assert set(arithmetic(TABLE)["result"]) == {AGREES}


@pytest.mark.parametrize(
    "where, value, about",
    [
        ({"quantity": "accuracy", "dataset": "asqa", "judge": "Opus", "design": "R"}, "0.9760", "whole rows"),
        (
            {"quantity": "accuracy", "dataset": "asqa", "judge": "Opus", "design": "H", "slice": "all rows"},
            "0.86",
            "derived",
        ),
        ({"quantity": "difference", "judge": "GPT-4.1", "design": "R − H"}, "45.0", "wins and difference"),
        ({"quantity": "questions lost", "judge": "Gemini", "dataset": "truthfulqa"}, "1", "p of 12:1"),
        ({"quantity": "p", "dataset": "asqa", "design": "R − H"}, "1.7e-15", "p of 50:0"),
        ({"quantity": "p", "dataset": "asqa", "design": "H − C"}, "1e-9", "smallest difference"),
        ({"quantity": "p", "judge": "GPT-4.1"}, "0.1251", "what gives p"),
        ({"quantity": "accuracy", "judge": "Opus", "design": "C", "slice": "partial rows"}, "40", "lowest H − C"),
        ({"quantity": "accuracy", "judge": "Gemini", "design": "H", "slice": "full rows"}, "0.90", "full rows"),
        ({"quantity": "accuracy", "judge": "GPT-4.1", "design": "S"}, "0.615", "whole rows"),
        ({"quantity": "verdicts that flip", "which": "lowest"}, "34.3", "whole rows"),
        ({"quantity": "primary outputs", "slice": "regex"}, "3", "primary outputs by stage"),
        ({"quantity": "primary outputs", "slice": "all"}, "9600", "primary outputs by design"),
        ({"quantity": "labels that agree", "dataset": "asqa"}, "12", "labels that"),
        ({"quantity": "bins where H equals C"}, "4", "complexity bins"),
    ],
)
def test_a_number_that_does_not_fit_the_others_is_found(where, value, about):
    table = TABLE.copy()
    place = one(table, **where).name
    table.loc[place, "value"] = value
    lines = arithmetic(table)
    assert DISAGREES in set(lines.loc[lines["about"].str.startswith(about), "result"])


def test_sums_are_read_and_nothing_else_is():
    assert evaluate("2 * 0.850 - 0.70") == pytest.approx(1.0) and evaluate("24 - 21 - 3") == 0
    for text in ("1 +", "__import__('os')", "1 / 2", "", "1 2"):
        with pytest.raises(ValueError, match="no sum"):
            evaluate(text)
