"""What a condition does to verdicts: pairs, effects, flips, directions, repeats, power, and what is said of them."""

import itertools
import math
import shlex
from dataclasses import replace
from types import SimpleNamespace

import pandas as pd
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from statsmodels.stats.proportion import proportion_confint

from lib import diagnosis, effect_figures, effect_findings, effects, paths, stats
from lib.conditions import CONDITIONS, apply, find
from lib.exact import sign_test
from lib.judges import load_judge
from lib.labels import build_rows
from lib.plan import judgments
from lib.power import sign_test_power, smallest_difference
from lib.results import cell_path, write_cells, write_rows
from lib.slices import folder, read_slice, read_slices, skipped_table
from lib.sources import DATASETS, load_questions
from lib.store import Store
from tests.test_providers import go

S, P, U = "supported", "partially_supported", "unsupported"
DESIGNS = ("C.v1", "H.v1", "R.v1", "B.v1")


def judged(condition, verdicts, labels=None, prompt="C.v1", judge="j", repeat=0, questions=None):
    """Judgments of one condition: two rows a question unless `questions` says otherwise; None is unjudged."""
    n = len(verdicts)
    questions = questions or [str(k // 2) for k in range(n)]
    labels = labels or [S] * n
    return pd.DataFrame(
        {
            "judge": judge,
            "condition": condition,
            "prompt": prompt,
            "design": prompt[0],
            "repeat": repeat,
            "dataset": "d",
            "question_id": questions,
            "row_id": [f"d/{question}/{k}" for k, question in enumerate(questions)],
            "label": labels,
            "verdict": pd.Series(verdicts, dtype="str"),
            "correct": [verdict == label for verdict, label in zip(verdicts, labels, strict=True)],
            "status": ["unjudged" if verdict is None else "whole" for verdict in verdicts],
            "finish_reason": "stop",
        }
    )


def paired(*frames):
    return effects.pairs(pd.concat(frames, ignore_index=True))


def test_each_judgment_is_beside_the_primary_one_of_the_same_row():
    primary = judged("primary", [S, S, P, None])
    found = paired(primary, judged("candidate-case", [P, S]), judged("primary", [U] * 4, judge="other"))
    assert found[["row_id", "verdict", "verdict_primary"]].values.tolist() == [["d/0/0", P, S], ["d/0/1", S, S]]
    assert found["group"].tolist() == ["should-not-move"] * 2 and (found["base"] == "C.v1").all()


def test_other_prompts_are_beside_the_first_version_and_no_prompt_beside_itself():
    primary = pd.concat([judged("primary", [S, S], prompt=prompt) for prompt in ("C.v1", "H.v1")])
    schema = pd.concat([judged("schema-matched", [P, S], prompt=prompt) for prompt in ("S.v1", "C.v1", "H.v1")])
    versions = pd.concat([judged("prompt-versions", [P, S], prompt=prompt) for prompt in ("C.v1", "C.v2", "H.v3")])
    found = paired(primary, schema, versions)
    assert sorted(set(zip(found["prompt"], found["base"], strict=True))) == [
        ("C.v2", "C.v1"),
        ("H.v3", "H.v1"),
        ("S.v1", "C.v1"),
    ]


def test_of_a_repeated_call_the_second_one_is_compared():
    repeats = pd.concat(
        [judged("repeat-3", verdicts, repeat=n) for n, verdicts in enumerate(([S, S], [P, S], [U, U]))]
    )
    found = paired(judged("primary", [S, S]), repeats)
    assert found["verdict"].tolist() == [P, S]


def test_accuracy_flips_and_unjudged_rows_are_counted_apart():
    primary = judged("primary", [S, S, S, P, None, S])
    found = effects.effects(paired(primary, judged("candidate-case", [S, P, None, S, S, None]))).iloc[0]
    assert found[["n_questions", "n_rows", "unjudged_primary", "unjudged"]].tolist() == [3, 6, 1, 2]
    assert found["accuracy_primary"] == 4 / 6 and found["accuracy"] == 3 / 6
    assert found["difference"] == pytest.approx(-1 / 6)
    # Judged on both sides are rows 0, 1 and 3, and of these 1 and 3 differ.
    assert found[["n_both", "flips"]].tolist() == [3, 2] and found["flip_rate"] == pytest.approx(2 / 3)
    assert found[["better", "worse", "tied"]].tolist() == [0, 1, 2] and found["p_value"] == 1


@settings(deadline=None, max_examples=25)
@given(
    st.lists(st.tuples(*[st.sampled_from([S, P, U, None])] * 2), min_size=4, max_size=16).filter(
        lambda x: len(x) % 2 == 0
    )
)
def test_effects_equal_a_count_by_hand(verdicts):
    before, after = map(list, zip(*verdicts, strict=True))
    found = effects.effects(paired(judged("primary", before), judged("candidate-case", after))).iloc[0]
    net = [sum((a == S) - (b == S) for b, a in verdicts[k : k + 2]) for k in range(0, len(verdicts), 2)]
    better, worse = sum(n > 0 for n in net), sum(n < 0 for n in net)
    assert found[["better", "worse"]].tolist() == [better, worse]
    assert found["p_value"] == sign_test(better, worse).p_value
    assert found["difference"] == pytest.approx(sum(net) / len(verdicts))
    both = [(b, a) for b, a in verdicts if a and b]
    assert found["n_both"] == len(both) and found["flips"] == sum(a != b for b, a in both)
    assert math.isnan(found["flip_rate"]) == (not both)


def test_holm_is_over_the_lines_of_the_table():
    primary, n = judged("primary", [S] * 24), 24
    frames = [judged(name, [U] * n) for name in ("candidate-case", "candidate-typo")]
    found = effects.effects(paired(primary, *frames))
    assert found["p_holm"].tolist() == pytest.approx((2 * found["p_value"]).tolist())


def test_wilson_where_rows_are_independent_and_a_bootstrap_where_they_are_not():
    rows = pd.DataFrame({"dataset": "d", "question_id": [str(k) for k in range(10)]})
    hits = pd.Series([True] * 3 + [False] * 7)
    found = effects.share(hits, rows)
    assert (found["low"], found["high"]) == pytest.approx(proportion_confint(3, 10, method="wilson"))
    assert found["interval"] == "Wilson" and found["rate"] == 0.3
    twice = rows.assign(question_id=[str(k // 2) for k in range(10)])
    assert effects.share(hits, twice)["interval"] == "bootstrap"
    none = effects.share(pd.Series([False] * 10), twice)
    assert (
        none["interval"] == "exact bound" and none["low"] == 0 and none["high"] == pytest.approx(1 - 0.025 ** (1 / 5))
    )
    one = effects.share(hits[:2], twice[:2])
    assert one["interval"] == "n/a" and math.isnan(one["low"])
    empty = effects.share(hits[:0], rows[:0])
    assert empty["interval"] == "n/a" and math.isnan(empty["rate"])


def test_a_move_down_counts_only_where_the_verdict_could_move_down():
    labels = [P] * 6
    primary = judged("primary", [S, P, U, None, S, S], questions=list("abcdef"))
    after = judged("candidate-added", [P, U, U, U, S, None], labels, questions=list("abcdef"))
    found = effects.moved_down(paired(primary, after)).iloc[0]
    assert found[["n_questions", "n_rows", "unjudged", "eligible", "hits", "against"]].tolist() == [6, 6, 2, 3, 2, 0]
    assert found["p_value"] == sign_test(2, 0).p_value and found["interval"] == "Wilson"


def test_a_capture_is_the_verdict_asked_for_where_the_primary_was_another():
    labels = [S, P, P, U, S, P]
    primary = judged("primary", [S, P, S, U, U, None], labels)
    after = judged("attack-tag", [U, S, P, P, S, S], labels)
    found = effects.captured(paired(primary, after)).iloc[0]
    # Asked for: U S S S U S. Row 2 and row 4 stood there already and moved away; row 5 is unjudged.
    assert found[["eligible", "hits", "against", "unjudged"]].tolist() == [3, 2, 2, 1]
    assert found["p_value"] == sign_test(1, 1).p_value


def test_a_slice_without_a_verdict_has_no_rate_and_no_p():
    primary, after = judged("primary", [S, S]), judged("attack-tag", [None, None])
    found = effects.captured(paired(primary, after)).iloc[0]
    assert math.isnan(found["rate"]) and math.isnan(found["p_value"]) and found["unjudged"] == 2
    assert "0/0: n/a [n/a], direction p n/a, 2 unjudged" in diagnosis.by_design(
        pd.DataFrame([found]), diagnosis.directed_cell
    )


def test_repeats_that_agree_and_repeats_that_do_not():
    runs = [[S, S, P, U], [S, P, P, None], [S, U, P, U]]
    found = effects.retest(pd.concat([judged("repeat-3", run, repeat=n) for n, run in enumerate(runs)])).iloc[0]
    assert found[["n_questions", "n_rows", "repeats", "unjudged", "equal"]].tolist() == [2, 4, 3, 1, 2]
    assert found["disagreement"] == pytest.approx(3 / 9)
    assert (found["accuracy_low"], found["accuracy_high"]) == (0.25, 0.5)
    assert found["noise"] == pytest.approx((0.25 + 0.25 + 0) / 3)


def test_how_replies_were_read_is_counted_by_condition():
    cut = judged("cap-128", [S, None, S, S]).assign(
        finish_reason="length", status=["recovered", "unjudged", "whole", "whole"]
    )
    found = effects.read_table(pd.concat([judged("primary", [S] * 4), cut])).set_index("condition")
    assert found.loc["cap-128", ["n_rows", "cut", "whole", "recovered", "unjudged"]].tolist() == [4, 4, 2, 1, 1]
    assert found.loc["primary", "cut"] == 0 and found.loc["cap-128", "accuracy"] == 0.75


# Power.


def by_hand(n, better, worse):
    total = 0.0
    for i, j in itertools.product(range(n + 1), repeat=2):
        if i + j <= n and i > j and sign_test(i, j).p_value < 0.05:
            chance = better**i * worse**j * (1 - better - worse) ** (n - i - j)
            total += math.comb(n, i) * math.comb(n - i, j) * chance
    return total


@pytest.mark.parametrize("n", [0, 1, 5, 6, 9, 20])
@pytest.mark.parametrize(
    ("better", "worse"), [(0.3, 0.0), (0.5, 0.1), (1.0, 0.0), (0.2, 0.2), (0.0, 0.3), (0.7, 0.3)]
)
def test_power_is_the_sum_over_all_outcomes(n, better, worse):
    assert sign_test_power(n, better, worse) == pytest.approx(by_hand(n, better, worse), abs=1e-12)


@pytest.mark.parametrize(("n", "worse"), [(6, 0.0), (20, 0.0), (20, 0.1), (60, 0.05), (600, 0.0)])
def test_the_smallest_difference_is_where_power_reaches_four_fifths(n, worse):
    least = smallest_difference(n, worse)
    assert sign_test_power(n, least + worse, worse) >= 0.8 > sign_test_power(n, least + worse - 2e-4, worse)


def test_below_six_questions_nothing_can_be_found():
    assert math.isnan(smallest_difference(5)) and math.isnan(smallest_difference(0))
    assert math.isnan(smallest_difference(8, worse=0.4))


@pytest.mark.parametrize("shares", [(-0.1, 0), (0.6, 0.6), (0, 1.1)])
def test_shares_that_are_none_are_refused(shares):
    with pytest.raises(ValueError, match="must be shares"):
        sign_test_power(10, *shares)


# Sentences.


def test_an_effect_is_told_only_where_test_and_interval_agree():
    primary = judged("primary", [S] * 24)
    told = effect_findings.tells(effects.effects(paired(primary, judged("candidate-case", [U] * 24))))
    assert told == "- j, candidate-case: accuracy falls in C.v1 (-100.0)."
    untold = effect_findings.tells(effects.effects(paired(primary, judged("candidate-case", [U, U] + [S] * 22))))
    assert untold.startswith(
        "- j, candidate-case: cannot tell for C.v1: 12 questions would show a net change of 57.8 %"
    )
    few = effect_findings.tells(
        effects.effects(paired(judged("primary", [S] * 4), judged("candidate-case", [U] * 4)))
    )
    assert few.endswith("cannot tell for C.v1: 2 questions are too few to show any (power 0.8).")


def test_what_is_said_of_several_slices_in_the_same_words_is_said_once():
    primary = judged("primary", [S] * 24)
    frames = [judged(name, [S] * 24) for name in ("candidate-typo", "candidate-case")]
    said = effect_findings.tells(effects.effects(paired(primary, *frames)))
    assert said.startswith("- j, candidate-typo; candidate-case: cannot tell") and said.count("\n") == 0


def test_conditions_stand_in_their_order_whichever_judge_has_them():
    frames = [judged("primary", [S] * 4), judged("repeat-3", [S] * 4, repeat=1)]
    frames += [frame.assign(judge="k") for frame in (judged("primary", [S] * 4), judged("cap-512", [S] * 4))]
    assert diagnosis.overview(paired(*frames))["condition"].tolist() == ["cap-512", "repeat-3"]
    frames.append(judged("cap-128", [S] * 2))
    shown = diagnosis.primary_and(pd.concat(frames), "cap")
    assert shown["judge"].tolist() == ["j"] * 4 + ["k"] * 8 and shown["condition"].tolist()[-4:] == ["cap-512"] * 4


def test_a_judge_stands_beside_a_condition_only_with_the_rows_that_it_was_asked_about():
    frames = [judged("primary", [S] * 4, judge=judge) for judge in "jk"] + [judged("format-json", [S] * 2)]
    shown = diagnosis.primary_and(pd.concat(frames), "format")
    assert (
        shown["judge"].tolist() == ["j"] * 4 and shown["condition"].tolist() == ["primary"] * 2 + ["format-json"] * 2
    )


def test_holm_of_one_judge_does_not_depend_on_another():
    frames = [judged("primary", [S] * 24), judged("candidate-case", [U] * 24)]
    toy = [frame.assign(judge="toy", verdict=S, correct=True) for frame in frames]
    alone, beside = effects.effects(paired(*frames)), effects.effects(paired(*frames, *toy))
    assert beside["p_holm"].tolist() == [*alone["p_holm"], 1]
    versions = [judged("schema-matched", v, prompt=x) for x, v in (("S.v1", [U] * 24), ("C.v1", [S] * 24))]
    both = pd.concat([*versions, *(frame.assign(judge="toy", correct=True) for frame in versions)])
    table = diagnosis.prompt_pairs(both, [("S.v1", "C.v1")], ["judge"])
    assert table["p_holm"].tolist() == table["p_value"].tolist()


def test_an_attack_that_moves_verdicts_elsewhere_is_not_passed_over():
    primary, after = judged("primary", [S] * 24), judged("attack-tag", [P] * 24)
    table = effects.captured(paired(primary, after))
    assert "0/24: 0.0 [0.0, 26.5]†, 24 elsewhere, direction p 1" in diagnosis.by_design(
        table, diagnosis.directed_cell
    )
    assert "0 of 24 verdicts are captured; 24 of 24 flip, whichever way." in effect_findings.direction(
        table, "are captured"
    )


def test_a_judge_that_was_asked_under_no_condition_gets_one_command_for_all(out, params):
    run(2, "primary")
    (note,) = read_slice(params, "lexical", 2).notes
    assert "asked under no condition" in note and "condition: all" in note


def test_no_flip_still_leaves_room():
    table = effects.effects(paired(judged("primary", [S] * 24), judged("candidate-case", [S] * 24)))
    said = effect_findings.steady(table)
    assert said.startswith("- j: no flip in 1 of 1 cells, which still leaves room for up to 26.5 %. In accuracy, 12 ")
    assert said.endswith("12 questions would show a net change of 57.8 % of them or more (power 0.8).")


def test_flips_under_another_reference_are_said_by_dataset():
    frames = [judged("primary", [S] * 4, prompt=prompt) for prompt in ("C.v1", "H.v1")]
    frames += [judged("reference-swapped", [U, U, U, S]), judged("reference-swapped", [None] * 4, prompt="H.v1")]
    table = effects.effects(paired(*frames), ("judge", "condition", "dataset", "prompt"))
    assert effect_findings.swapped(table).startswith(
        "- j, d: verdicts that flip: C.v1 75.0 %. In accuracy, 2 questions are too few"
    )


def test_a_prompt_that_is_not_asked_to_see_a_change_is_named_apart():
    frames = [judged("primary", [S] * 6, prompt=prompt) for prompt in ("C.v1", "R.v1")]
    frames += [
        judged("candidate-added", verdicts, [P] * 6, prompt)
        for prompt, verdicts in (("C.v1", [P] * 6), ("R.v1", [S] * 6))
    ]
    said = effect_findings.direction(effects.moved_down(paired(*frames)), "move down")
    assert said == (
        "- j, candidate-added: 6 of 6 verdicts move down; R.v1 is not asked to see it: 0 of 6. Of such moves, 3 "
        "questions are too few to show any (power 0.8)."
    )


def version(prompt, right):
    return judged("prompt-versions", [S] * right + [U] * (40 - right), prompt=prompt)


@pytest.mark.parametrize(
    ("hs", "said"),
    [
        ((40, 40, 40), "holds; 9 of 9 differences are above 0, 9 for sure."),
        ((4, 40, 40), "cannot tell; 6 of 9 differences are above 0, 6 for sure."),
        ((0, 40, 40), "fails; 6 of 9 differences are above 0, 6 for sure, 3 are below 0 for sure."),
        ((40, 40), "cannot tell; 6 of 6 differences are above 0, 6 for sure; 3 pairs are missing."),
    ],
)
def test_whether_every_version_beats_every_other_one(hs, said):
    right = 16 if hs[0] == 0 else 4
    frames = [version(f"C.v{n}", right) for n in (1, 2, 3)] + [version(f"H.v{n}", h) for n, h in enumerate(hs, 1)]
    pairs = list(itertools.product([f"H.v{n}" for n in range(1, len(hs) + 1)], ("C.v1", "C.v2", "C.v3")))
    grid = diagnosis.prompt_pairs(pd.concat(frames), pairs, ["dataset", "judge"])
    assert effect_findings.variants(grid) == f"- d, j: {said}" and "H.v1" in diagnosis.grid_markdown(grid)


def test_noise_is_said_with_what_it_means():
    same = effects.retest(pd.concat([judged("repeat-3", [S, S], repeat=n) for n in range(3)]))
    assert effect_findings.noise(same) == "- j: all 3 repeats agree on every row, so no flip above is chance."
    other = effects.retest(
        pd.concat([judged("repeat-3", run, repeat=n) for n, run in enumerate(([S, S], [S, P], [S, S]))])
    )
    assert "another verdict in 33.3 % of the pairs" in effect_findings.noise(other)


def test_what_was_not_run_is_said_and_nothing_breaks():
    nothing = effects.pairs(judged("primary", [S, S]))
    tables = (effects.effects(nothing), effects.moved_down(nothing), effects.captured(nothing))
    for table, cell in zip(
        tables, (diagnosis.effect_cell, diagnosis.directed_cell, diagnosis.directed_cell), strict=True
    ):
        assert diagnosis.by_design(table, cell) == diagnosis.NOTHING_YET
    assert (
        effect_findings.tells(tables[0])
        == effect_findings.steady(tables[0])
        == effect_findings.direction(tables[1], "move")
        == ""
    )
    none = diagnosis.primary_and(judged("primary", [S, S]), "repeat")
    assert diagnosis.retest_markdown(effects.retest(none)) == diagnosis.NOTHING_YET
    assert (
        diagnosis.grid_markdown(diagnosis.prompt_pairs(none, [("H.v1", "C.v1")], ["dataset", "judge"]))
        == diagnosis.NOTHING_YET
    )
    assert effects.read_table(none).empty


# Slices: what is read, what is missing, what is stale.


@pytest.fixture
def params():
    return SimpleNamespace(source="sample", files={}, datasets=DATASETS, seed=0, designs=("C.v1", "H.v1"))


def run(n, conditions, prompts=("C.v1", "H.v1")):
    """What 20-judge writes: rows and cells of the lexical baseline."""
    rows = build_rows(pd.concat([load_questions(name, n=n) for name in DATASETS], ignore_index=True))
    plan = apply(find(conditions), rows, prompts, load_judge("lexical"), 0).plan
    store = Store(":memory:", recorded=())
    go(plan, store)
    name = f"sample-{n}q-seed0"
    write_rows(name, rows)
    write_cells(name, judgments(plan, store), {})
    return name


def test_a_slice_reads_what_follows_from_its_rows(out, params):
    run(2, "all")
    found = read_slice(params, "lexical", 2)
    assert found.notes == [] and set(found.judged["condition"]) == set(CONDITIONS) - {
        "format-free",
        "format-json",
        "format-schema",
    }
    assert sorted(found.judged["key"]) == sorted(call.key for call in found.applied.plan)
    table = skipped_table([found])
    assert table.loc[table["condition"] == "format-json", "lexical"].sum() == 12
    assert folder([found], params) == "diagnostics--lexical--sample-2q-seed0--C.v1+H.v1"


def made_by(note):
    """The cells that the command of a note makes, by its parameters."""
    arguments = shlex.split(note.split(": ", 1)[1])
    values = yaml.safe_load(arguments[arguments.index("-y") + 1])
    rows = build_rows(pd.concat([load_questions(name, n=values["n_questions"]) for name in values["datasets"]]))
    plan = apply(find(values.get("condition", "primary")), rows, values["designs"], load_judge("lexical"), 0).plan
    cells = plan.rows.iloc[[call.row for call in plan]][["condition", "dataset"]].assign(
        prompt=[c.prompt_id for c in plan]
    )
    return set(cells.drop_duplicates().itertuples(index=False, name=None))


@pytest.mark.parametrize("gone", [("",), ("asqa.C.v1",), ("candidate-typo", "qampari"), ("schema-matched", "S.v1")])
def test_the_commands_for_what_is_missing_make_just_that(out, params, gone):
    """A command that made more would cost more."""
    name = run(2, "all")
    kept = ("primary", "swap")[: 1 + (gone != ("",))]
    removed = set()
    for path in cell_path(name, "lexical", "primary", "asqa", "C.v1").parent.glob("*.parquet"):
        condition, dataset, prompt = path.stem.split(".", 3)[1:]
        if condition not in kept and any(part in path.stem for part in gone):
            path.unlink()
            removed.add((condition, dataset, prompt))
    found = read_slice(params, "lexical", 2)
    made = [cell for note in found.notes for cell in made_by(note)]
    assert removed and sorted(made) == sorted(set(made)) and set(made) >= removed
    # A condition with prompts of its own makes all of them.
    assert all(CONDITIONS[cell[0]].prompts or cell[0] == "primary" for cell in set(made) - removed)


def test_a_cell_made_from_other_texts_is_named_and_not_read(out, params):
    name = run(2, "primary+swap")
    path = cell_path(name, "lexical", "reference-swapped", "asqa", "C.v1")
    cell = pd.read_parquet(path)
    cell.loc[0, "key"] = "0" * 64
    cell.to_parquet(path, index=False)
    found = read_slice(params, "lexical", 2)
    assert any(
        "1 cells made from other texts, labels or settings (reference-swapped)" in note for note in found.notes
    )
    swapped = found.judged.query("condition == 'reference-swapped'")
    assert len(swapped) == 5 * 4 and not swapped["key"].eq("0" * 64).any()


def test_a_cell_with_other_labels_is_named_and_not_read(out, params, monkeypatch):
    run(2, "primary+candidate-added")
    old = CONDITIONS["candidate-added"]
    other = replace(old, change=lambda row: {**old.change(row), "label": U})
    monkeypatch.setitem(CONDITIONS, "candidate-added", other)
    found = read_slice(params, "lexical", 2)
    assert any("6 cells made from other texts, labels" in note for note in found.notes)
    assert "candidate-added" not in set(found.judged["condition"])


def test_a_dataset_whose_rows_are_not_there_is_named(out, params):
    name = run(2, "primary+swap")
    (paths.JUDGMENTS / name / "rows" / "qampari.parquet").unlink()
    found = read_slice(params, "lexical", 2)
    assert "qampari" not in set(found.judged["dataset"]) and "datasets: [qampari]" in found.notes[0]


def test_no_slice_at_all_is_refused(params):
    with pytest.raises(ValueError, match="slices must name at least one judge"):
        read_slices(SimpleNamespace(**vars(params), slices={}))


def test_a_command_survives_the_shell(out, params):
    params.files = {"asqa": str(out / "it's.jsonl")}
    (out / "it's.jsonl").write_text("x")
    (note,) = read_slice(params, "lexical", 2).notes
    arguments = shlex.split(note.split(": ", 1)[1])
    assert yaml.safe_load(arguments[-1])["files"] == params.files


def test_rows_with_one_id_in_two_datasets_are_not_mixed():
    frames = [judged(name, verdicts) for name, verdicts in (("primary", [S, S]), ("candidate-case", [U, U]))]
    both = pd.concat([*frames, *(frame.assign(dataset="e", verdict=S, correct=True) for frame in frames)])
    assert effects.effects(effects.pairs(both), ("judge", "condition", "dataset", "prompt"))["flips"].tolist() == [
        2,
        0,
    ]


def test_a_slice_without_verdicts_tells_nothing():
    primary, none = judged("primary", [S] * 8), judged("candidate-case", [None] * 8)
    said = effect_findings.steady(effects.effects(paired(primary, none)))
    assert said.startswith("- j: no verdict was read on both sides. In accuracy, ")
    moves = effects.moved_down(paired(primary, judged("candidate-added", [None] * 8, [P] * 8)))
    assert (
        effect_findings.direction(moves, "move")
        == "- j, candidate-added: no verdict could move that way, so this says nothing."
    )
    repeats = pd.concat([judged("repeat-3", [None] * 2, repeat=n) for n in range(3)])
    other = pd.concat([judged("repeat-3", [S] * 2, prompt="H.v1", repeat=n) for n in range(3)])
    table = effects.retest(pd.concat([repeats, other]))
    assert effect_findings.noise(table) == (
        "- j: all 3 repeats of H.v1 agree on every row, so no flip above is chance; no row of C.v1 has a verdict in "
        "every repeat, which tells nothing."
    )


def test_only_questions_that_can_move_count_for_what_could_be_found():
    primary = judged("primary", [S] * 8 + [U] * 32, questions=[str(n) for n in range(40)])
    after = judged("candidate-added", [P] * 40, [P] * 40, questions=[str(n) for n in range(40)])
    found = effects.moved_down(paired(primary, after)).iloc[0]
    assert found["n_able"] == 8 and found["n_questions"] == 40 and found["against"] == 32
    assert math.isnan(found["smallest"]) or found["smallest"] >= smallest_difference(8)


def test_lines_that_could_find_something_are_told_from_those_that_could_not():
    shared = {"judge": "j", "condition": "c", "flips": 0, "n_both": 10, "flip_rate": 0.0, "flip_high": 0.1}
    lines = [{"prompt": "C.v1", "n_questions": 10, "smallest": 0.673}, {"prompt": "H.v1", "n_questions": 4}]
    table = pd.DataFrame([shared | line for line in lines])
    assert effect_findings.steady(table).endswith(
        "10 questions would show a net change of 67.3 % of them or more (power 0.8); 4 questions are too few to show "
        "any (power 0.8) in 1 of 2 cells."
    )


def test_two_versions_of_one_design_are_drawn_side_by_side():
    frames = [judged("primary", [S] * 4, prompt=prompt) for prompt in ("C.v1", "C.v2")]
    frames += [judged("candidate-case", [U] * 4, prompt=prompt) for prompt in ("C.v1", "C.v2")]
    table = diagnosis.overview(paired(*frames))
    for figure in (effect_figures.flips(table), effect_figures.effects(table)):
        assert len(figure.axes) == 1
    assert len({effect_figures._look(base, ["C.v1", "C.v2"]) for base in ("C.v1", "C.v2")}) == 2


def test_a_prompt_that_lacks_rows_stays_on_the_line_of_the_others():
    frames = [judged("primary", [S] * 4, prompt=prompt) for prompt in ("C.v1", "H.v1")]
    frames += [judged("candidate-case", [S] * 4), judged("candidate-case", [S] * 2, prompt="H.v1")]
    shown = diagnosis.by_design(effects.effects(paired(*frames)), diagnosis.flip_cell)
    assert len(shown.splitlines()) == 3 and "| 1 to 2 " in shown and "| 2 to 4 " in shown


def test_a_prompt_without_a_primary_run_is_left_out_and_named(out, params):
    run(2, "primary+candidate-case", prompts=("C.v1",))
    found = read_slice(params, "lexical", 2)
    assert set(found.judged["prompt"]) == {"C.v1"}
    assert any("was not asked in H.v1" in note and "designs: [H.v1]" in note for note in found.notes)


def test_a_judge_that_was_never_run_gives_the_command(out, params):
    found = read_slice(params, "lexical", 2)
    assert found.judged.empty and found.applied is None and "designs: [C.v1, H.v1]" in found.notes[0]
    with pytest.raises(ValueError, match=r"slices: lexical must have a number of questions"):
        read_slice(params, "lexical", "2")


def test_the_example_shows_one_row_before_and_after(out, params):
    run(2, "all")
    found = [read_slice(params, "lexical", 2)]
    shown = diagnosis.example(found, "reference-half")
    assert shown.count("````") == 4 and "before:" in shown and "and after:" in shown
    assert "max_tokens 128" in diagnosis.example(found, "cap-128") and "C.v2" in diagnosis.example(
        found, "prompt-versions"
    )
    assert diagnosis.example(found, "repeat-3") == "**repeat-3.** The same call three times."
    assert "It applies to no row here" in diagnosis.example(found, "format-json")


def test_figures_are_drawn_with_conditions_that_only_one_judge_has(out, params):
    run(2, "primary+cap+swap+schema")
    one = read_slice(params, "lexical", 2).judged
    two = one[one["condition"] != "reference-swapped"].assign(judge="other")
    table = diagnosis.overview(effects.pairs(pd.concat([one, two], ignore_index=True)))
    assert set(table["shown"]) == {"cap-128", "cap-256", "cap-512", "reference-swapped", "S.v1 for C.v1"}
    caps = effects.read_table(diagnosis.primary_and(one, "cap"))
    for figure, panels in (
        (effect_figures.effects(table), 2),
        (effect_figures.flips(table), 2),
        (effect_figures.caps(caps), 2),
    ):
        assert len(figure.axes) == panels


def test_differences_that_are_compared_have_what_could_have_been_found():
    frames = [judged("schema-matched", [S] * 40, prompt="S.v1"), judged("schema-matched", [U, S] * 20, prompt="C.v1")]
    table = diagnosis.prompt_pairs(pd.concat(frames), [("S.v1", "C.v1")], ["judge"])
    assert stats.format_p(table["p_value"].iloc[0]) == "1.91e-06" and table["dataset"].tolist() == ["all"]
    assert (
        effect_findings.detectable(table)
        == "- j: 20 questions would show a net change of 36.7 % of them or more (power 0.8)."
    )
