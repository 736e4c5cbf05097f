"""Agreement of label standards and designs under each: textbook values, planted reversals, what is undefined."""

import math

import numpy as np
import pandas as pd
import pytest

from lib import agreement
from lib.power import questions_needed, sign_test_power
from lib.reported import reported, reported_markdown
from lib.standard_tables import agreement_markdown, fits, needed, ranking_markdown, reversals_markdown, slopes
from lib.standards import CANNOT_TELL, CHANGES, REVERSES, judged_under, left_out, paired, ranking, reversals

SUPPORTED, PARTIAL, UNSUPPORTED = "supported", "partially_supported", "unsupported"


def column(counts):
    return [label for label, n in counts for _ in range(n)]


def test_kappa_of_a_textbook_table_is_the_textbooks():
    # Two readers, 50 grant proposals: 20 yes-yes, 5 yes-no, 10 no-yes, 15 no-no. Observed .7, by chance .5.
    a, b = column([("yes", 25), ("no", 25)]), column([("yes", 20), ("no", 5), ("yes", 10), ("no", 15)])
    assert agreement.cohen_kappa(a, b) == (pytest.approx(0.4), "")
    # Cohen 1960, table 1: three categories, 200 cases, kappa .492.
    table = [[88, 14, 18], [10, 40, 10], [2, 6, 12]]
    pairs = [(i, j) for i, line in enumerate(table) for j, n in enumerate(line) for _ in range(n)]
    kappa, _ = agreement.cohen_kappa(*zip(*[(str(i), str(j)) for i, j in pairs], strict=True))
    assert kappa == pytest.approx(0.492, abs=5e-4)


def test_kappa_is_undefined_where_one_label_is_all_there_is_and_0_where_only_one_reader_gives_it():
    kappa, why = agreement.cohen_kappa(["x", "x"], ["x", "x"])
    assert math.isnan(kappa) and why == "both give one label only"
    assert agreement.cohen_kappa(["x", "x"], ["x", "y"]) == (0.0, "")
    kappa, why = agreement.cohen_kappa([], [])
    assert math.isnan(kappa) and why == "no rows"


def test_alpha_of_krippendorffs_example_is_his():
    # Krippendorff 2011, "Computing Krippendorff's Alpha-Reliability", section E: nominal, four readers, .743.
    readers = {
        "a": [1, 2, 3, 3, 2, 1, 4, 1, 2, None, None, None],
        "b": [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, None, 3],
        "c": [None, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, None],
        "d": [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, None],
    }
    labels = pd.DataFrame({name: [None if x is None else str(x) for x in given] for name, given in readers.items()})
    alpha, why = agreement.krippendorff_alpha(labels.astype("str"))
    assert alpha == pytest.approx(0.743, abs=5e-4) and why == ""


def test_alpha_is_undefined_for_one_reader_one_label_and_no_reader():
    one = pd.DataFrame({"a": ["x", "y"]})
    for labels, why in ((one, "no row has two labels"), (one[[]], "no row has two labels")):
        assert math.isnan(agreement.krippendorff_alpha(labels)[0]) and agreement.krippendorff_alpha(labels)[1] == why
    same = pd.DataFrame({"a": ["x", "x"], "b": ["x", "x"]})
    assert agreement.krippendorff_alpha(same)[1] == "all give one label only"


def made(n_questions, verdicts, judge="j", after=None):
    """Judgments of two rows a question, and two standards: `second` calls partial rows `after(question)`."""
    lines, second, first = [], {}, {}
    for q in range(n_questions):
        for kind, label in (("full", SUPPORTED), ("partial", PARTIAL)):
            row_id = f"asqa/{q}/{kind}"
            first[row_id] = label
            second[row_id] = SUPPORTED if kind == "full" else (after or (lambda _: SUPPORTED))(q)
            for design, verdict in verdicts.items():
                found = verdict(q, kind)
                lines.append(
                    {"row_id": row_id, "dataset": "asqa", "question_id": str(q), "kind": kind, "judge": judge}
                    | {"design": design, "prompt": f"{design}.v1", "verdict": found}
                )
    return pd.DataFrame(lines), {"construction": pd.Series(first), "reader": pd.Series(second)}


def planted(q, kind, lenient):
    """Four of five partial rows called as the design tends to, the fifth as the other one does."""
    return SUPPORTED if kind == "full" or (q % 5 == 0) != lenient else PARTIAL


PLANTED = {"C": lambda q, kind: planted(q, kind, True), "H": lambda q, kind: planted(q + 2, kind, False)}


def test_a_planted_reversal_is_found_with_200_rows_and_not_with_12():
    (line,) = reversals(judged_under(*made(100, PLANTED)), "CH").to_dict("records")
    assert line["n_rows"] == 200 and line["finding"] == REVERSES
    assert line["before"] == pytest.approx(-0.3) and line["after"] == pytest.approx(0.3)
    assert line["change"] == pytest.approx(0.6) and line["low"] > 0 and line["p_holm"] < 1e-10
    (line,) = reversals(judged_under(*made(6, PLANTED)), "CH").to_dict("records")
    assert line["n_rows"] == 12 and line["change"] > 0 and line["finding"] == CANNOT_TELL


def test_a_change_without_a_sure_other_order_is_no_reversal():
    verdicts = {
        "C": lambda q, kind: SUPPORTED,
        "H": lambda q, kind: PARTIAL if kind == "partial" and q % 2 else SUPPORTED,
    }
    (line,) = reversals(
        judged_under(*made(60, verdicts, after=lambda q: SUPPORTED if q % 4 else PARTIAL)), "CH"
    ).to_dict("records")
    assert line["before"] < 0 < line["change"] and line["finding"] in (CHANGES, REVERSES)
    same = reversals(judged_under(*made(60, verdicts, after=lambda q: PARTIAL)), "CH")
    assert (
        same["finding"].tolist() == [CANNOT_TELL]
        and same["change"].tolist() == [0.0]
        and same["p_value"].tolist() == [1.0]
    )
    half = {"C": lambda q, kind: SUPPORTED, "H": lambda q, kind: PARTIAL if kind == "partial" else SUPPORTED}
    (line,) = reversals(judged_under(*made(60, half, after=lambda q: SUPPORTED if q % 2 else PARTIAL)), "CH").to_dict(
        "records"
    )
    assert line["finding"] == CHANGES and line["before"] == -0.5 and line["after"] == 0.0


def test_an_order_reverses_only_if_both_sides_are_told_by_the_exact_test_too():
    """Five questions to none on either side: the intervals exclude 0, and p is 0.0625."""
    verdicts = {
        "C": lambda q, kind: SUPPORTED,
        "H": lambda q, kind: PARTIAL if kind == "partial" and q < 10 else SUPPORTED,
    }
    judged, standards = made(60, verdicts)
    first, second = standards["construction"], standards["reader"]
    first.loc[[f"asqa/{q}/partial" for q in range(60)]] = [PARTIAL if q < 5 else UNSUPPORTED for q in range(60)]
    second.loc[[f"asqa/{q}/partial" for q in range(60)]] = [
        SUPPORTED if 5 <= q < 10 else UNSUPPORTED for q in range(60)
    ]
    under = judged_under(judged, standards)
    (line,) = reversals(under, "CH").to_dict("records")
    assert line["before_high"] < 0 < line["after_low"] and line["p_holm"] < 0.05 and line["finding"] == CHANGES
    assert "cannot tell" in fits(ranking(under), paired(under), reversals(under, "CH"))
    assert "without a sure reversal" in fits(ranking(under), paired(under), reversals(under, "CH"))


def test_equal_designs_under_one_standard_are_seldom_called_reversed():
    """Four designs that differ under the first standard and are equal under the second: the family's rate."""
    found = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        right = {design: rng.random((2, 40)) < (0.5 + 0.1 * n) for n, design in enumerate("CHRB")}
        verdicts = {
            design: lambda q, kind, line=right[design]: SUPPORTED if line[int(kind == "partial"), q] else PARTIAL
            for design in "CHRB"
        }
        judged, standards = made(40, verdicts)
        coins = rng.integers(0, 2, len(standards["reader"]))
        standards["reader"] = pd.Series(np.where(coins, SUPPORTED, PARTIAL), index=standards["reader"].index)
        standards["construction"] = pd.Series(SUPPORTED, index=standards["reader"].index)
        found += reversals(judged_under(judged, standards), "CHRB")["finding"].eq(REVERSES).any()
    assert found <= 3


def test_a_judge_of_whom_rows_are_left_out_is_named():
    judged, standards = made(10, PLANTED)
    part = judged.assign(judge="k")
    part = part[(part["design"] == "C") == (part["question_id"].astype(int) < 5)]
    both = pd.concat([judged, part], ignore_index=True)
    under = judged_under(both, standards)
    assert set(under["judge"]) == {"j"}
    assert left_out(both, under) == [
        "k: 20 of 20 labelled rows are left out, for not every design (C, H) judged them."
    ]
    assert left_out(judged, judged_under(judged, standards)) == []


def test_several_standards_make_tables_of_their_own_with_their_columns_in_order():
    judged, standards = made(10, PLANTED)
    four = {
        "a": standards["construction"],
        "bc": standards["reader"],
        "ab": standards["reader"],
        "c": standards["reader"],
    }
    text = reversals_markdown(reversals(judged_under(judged, four), "CH"))
    heads = [line for line in text.splitlines() if line.startswith("| judge")]
    assert len(heads) == 6
    assert [name.strip() for name in heads[0].split("|")[3:6]] == ["a", "bc", "change in points"]


def test_one_design_alone_is_compared_with_nothing():
    judged, standards = made(10, {"C": PLANTED["C"]})
    under = judged_under(judged, standards)
    assert "C stands alone" in fits(ranking(under), paired(under), reversals(under, "C"))


def test_chance_alone_is_seldom_called_a_reversal():
    """Verdicts and the second standard by coin: the share of false findings stays below the level."""
    rng, found = np.random.default_rng(0), 0
    for _ in range(60):
        coins = rng.integers(0, 2, size=(3, 40))
        verdicts = {
            design: lambda q, kind, line=coins[n]: SUPPORTED if kind == "full" or line[q] else PARTIAL
            for n, design in enumerate("CH")
        }
        under = judged_under(*made(40, verdicts, after=lambda q, line=coins[2]: SUPPORTED if line[q] else PARTIAL))
        found += reversals(under, "CH")["finding"].eq(REVERSES).sum()
    assert found <= 3


def test_ranks_count_right_rows_and_ties_share_one():
    verdicts = PLANTED | {"R": PLANTED["H"]}
    ranks = ranking(judged_under(*made(50, verdicts))).set_index(["standard", "design"])
    assert ranks["rank"].to_dict() == {
        ("construction", "C"): 3,
        ("construction", "H"): 1,
        ("construction", "R"): 1,
        ("reader", "C"): 1,
        ("reader", "H"): 2,
        ("reader", "R"): 2,
    }
    assert ranks.loc[("construction", "H"), "n_correct"] == 50 + 40


def test_only_rows_with_every_label_and_every_design_count():
    judged, standards = made(10, PLANTED)
    standards["reader"] = standards["reader"].where(standards["reader"].index != "asqa/0/full")
    judged = judged[~((judged["row_id"] == "asqa/1/full") & (judged["design"] == "H"))]
    under = judged_under(judged, standards)
    assert under.groupby(["standard", "design"]).size().unique().tolist() == [18]
    with pytest.raises(ValueError, match="no row has a label under each of construction, reader"):
        judged_under(judged, standards | {"reader": standards["reader"].iloc[:0]})
    with pytest.raises(ValueError, match="comes as"):
        judged_under(pd.concat([judged, judged.assign(prompt="H.v2", design="H")]), standards)


def test_an_unjudged_row_is_right_under_no_standard():
    judged, standards = made(5, {"C": lambda q, kind: None if q == 0 else SUPPORTED, "H": lambda q, kind: SUPPORTED})
    under = judged_under(judged.astype({"verdict": "str"}), standards)
    assert not under.loc[under["verdict"].isna(), "correct"].any()
    assert ranking(under).set_index(["standard", "design"]).loc[
        ("reader", "C"), ["n_unjudged", "n_correct"]
    ].tolist() == [2, 8]


def test_one_judge_decides_nothing_about_anothers_p():
    alone, standards = made(30, PLANTED)
    other, _ = made(30, PLANTED, judge="k")
    both = judged_under(pd.concat([alone, other], ignore_index=True), standards)
    for table in (lambda under: reversals(under, "CH"), paired):
        lines = table(both)
        assert (
            lines[lines["judge"] == "j"]["p_holm"].tolist()
            == table(judged_under(alone, standards))["p_holm"].tolist()
        )


def test_the_tables_for_people_say_reversal_fit_and_what_cannot_be_told():
    under = judged_under(*made(100, PLANTED))
    ranks, pairs, changes = ranking(under), paired(under), reversals(under, "CH")
    text = fits(ranks, pairs, changes)
    assert "Under construction, H fits best, and C is surely worse" in text and "Under reader, C fits best" in text
    assert "the order of C and H reverses" in text
    assert "| reverses" in reversals_markdown(changes) and "180 of 200, rank 1" in ranking_markdown(ranks)
    small = judged_under(*made(6, PLANTED))
    text = fits(ranking(small), paired(small), reversals(small, "CH"))
    assert "these 12 rows cannot tell" in text and "no change of a difference is sure" in text
    assert len(slopes(ranks).axes) == 1


def test_one_standard_alone_is_shown_without_a_change():
    judged, standards = made(10, PLANTED)
    under = judged_under(judged, {"construction": standards["construction"]})
    changes = reversals(under, "CH")
    assert changes.empty and "From" not in fits(ranking(under), paired(under), changes) and needed(changes) == ""
    rows = judged[judged["design"] == "C"]
    table = agreement.pairwise(rows, {"construction": standards["construction"]})
    assert table.empty and "one standard alone" in agreement_markdown(table)


def test_agreement_by_group_names_what_is_undefined():
    judged, standards = made(8, {"C": PLANTED["C"]})
    rows = judged.assign(label="x")
    table = agreement.pairwise(rows, standards, ["kind"]).set_index("kind")
    assert table.loc["full", "undefined"] == "both give one label only" and math.isnan(table.loc["full", "kappa"])
    assert table.loc["partial", ["equal", "share", "kappa"]].tolist() == [0, 0.0, 0.0]
    text = agreement_markdown(agreement.pairwise(rows, standards, ["kind"]))
    assert "undefined: both give one label only" in text and "nan" not in text
    overall = agreement.pairwise(rows, standards).iloc[0]
    assert (overall["n_rows"], overall["equal"], overall["n_questions"]) == (16, 8, 8)


def test_disagreements_carry_the_notes_and_texts():
    judged, standards = made(2, {"C": PLANTED["C"]})
    rows = judged.assign(question="q", reference="r", candidate="c")
    given = pd.DataFrame({"annotator": ["reader"], "row_id": ["asqa/0/partial"], "note": ["why"]})
    apart = agreement.disagreements(rows, standards, given)
    assert apart["row_id"].tolist() == ["asqa/0/partial", "asqa/1/partial"]
    assert apart["note"].tolist() == ["reader: why", ""] and apart["candidate"].tolist() == ["c", "c"]
    table = agreement.confusion(rows, standards, "construction", "reader")
    assert table.loc[PARTIAL, SUPPORTED] == 2 and table.to_numpy().sum() == 4


def test_the_number_of_questions_needed_is_the_smallest_that_does():
    for better, worse in ((0.3, 0.1), (0.08, 0.0), (1.0, 0.0)):
        n = int(questions_needed(better, worse))
        assert sign_test_power(n, better, worse) >= 0.8 > sign_test_power(n - 1, better, worse)
    assert questions_needed(1.0) == 6
    assert math.isnan(questions_needed(0.1, 0.1)) and math.isnan(questions_needed(0.1001, 0.1, most=500))


def test_needed_names_the_pair_that_moved_most():
    text = needed(reversals(judged_under(*made(20, PLANTED)), "CH"))
    assert "C and H, construction to reader: 12 of 20 questions moved towards C and 0 towards H" in text
    assert f"in about {questions_needed(12 / 20):.0f} questions" in text
    still = judged_under(*made(20, {"C": lambda q, kind: SUPPORTED, "H": lambda q, kind: SUPPORTED}))
    assert "no question moved" in needed(reversals(still, "CH"))


def test_reported_numbers_are_read_as_text_and_an_unknown_one_is_refused():
    assert reported("labels that agree")["value"].tolist() == ["51", "40", "11"]
    text = reported_markdown("generated rows right")
    assert "H 113, C 76 (rows of 200)" in text and "Gemini" in text
    with pytest.raises(ValueError, match="reports no something"):
        reported("something")
