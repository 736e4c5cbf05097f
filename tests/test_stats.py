import math
import tracemalloc
from fractions import Fraction
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom, binomtest, false_discovery_control

from lib import exact, resampling
from lib.exact import holm
from lib.resampling import NOTE_EMPTY, NOTE_NO_BOUND, NOTE_NO_VARIATION, NOTE_ONE_CLUSTER
from lib.stats import (
    NOTE_NO_COMMON_ROWS,
    SignTest,
    accuracy,
    cluster_bootstrap,
    compare,
    compare_all,
    format_p,
    question_wins,
    sign_test,
    slice_accuracy,
)

calm = settings(derandomize=True, deadline=None, max_examples=80)
counts = st.integers(0, 400)


def judgments(right: dict[str, list], dataset: str = "asqa", judge: str = "opus") -> pd.DataFrame:
    """Two rows a question; `right[design]` holds a 0, 1 or 2 a question: how many of its rows are right."""
    lines = [
        {
            "dataset": dataset,
            "question_id": f"q{q}",
            "row_id": f"{dataset}/q{q}/{kind}",
            "kind": kind,
            "design": design,
            "judge": judge,
            "condition": "primary",
            "verdict": "supported",
            "correct": bool(rights > row),
        }
        for design, by_question in right.items()
        for q, rights in enumerate(by_question)
        for row, kind in enumerate(("full", "partial"))
    ]
    return pd.DataFrame(lines)


# --- the sign test


def exact_p(wins_a: int, wins_b: int) -> Fraction:
    n, k = wins_a + wins_b, min(wins_a, wins_b)
    return min(Fraction(1), Fraction(2 * sum(math.comb(n, i) for i in range(k + 1)), 2**n))


@pytest.mark.parametrize(
    ("wins_a", "wins_b", "p"),
    [(12, 0, 4.8828125e-4), (50, 0, 2**-49), (4, 0, 0.125), (0, 0, 1), (550, 550, 1), (1, 0, 1), (5, 1, 0.21875)],
)
def test_the_sign_test_gives_the_known_values(wins_a, wins_b, p):
    test = sign_test(wins_a, wins_b)
    assert test == SignTest(wins_a, wins_b, p, math.log10(p))


@pytest.mark.parametrize(("wins_a", "wins_b"), [(84, 1), (69, 2)])
def test_very_small_p_values_are_exact_and_not_a_bound(wins_a, wins_b):
    p = sign_test(wins_a, wins_b).p_value
    assert p == float(exact_p(wins_a, wins_b))
    assert p < 1.8e-15


def test_a_p_below_the_float_range_is_positive_and_its_logarithm_is_exact():
    test = sign_test(1100, 0)
    assert test.p_value == math.ulp(0.0) > 0
    assert test.log10_p == pytest.approx(-1099 * math.log10(2), rel=1e-14)
    assert sign_test(3000, 10).log10_p == pytest.approx(
        math.log10(2 * sum(math.comb(3010, i) for i in range(11))) - 3010 * math.log10(2), rel=1e-13
    )


def test_the_sign_test_agrees_with_scipy_on_a_grid():
    for a in range(41):
        for b in range(41):
            expected = binomtest(a, a + b).pvalue if a + b else 1
            assert sign_test(a, b).p_value == pytest.approx(expected, rel=1e-12), (a, b)


@pytest.mark.parametrize("n", [10_000, 10_001, 10_500])
@pytest.mark.parametrize("share", [0, 0.001, 0.2, 0.4, 0.45, 0.49, 0.4999])
def test_both_ways_of_the_tail_are_right_near_the_place_where_they_meet(n, share):
    k = int(n * share)
    test, twice = sign_test(n - k, k), 2 * exact._integer_tail(k, n)
    assert test.log10_p == pytest.approx(math.log10(twice) - n * math.log10(2), rel=1e-11, abs=1e-11)
    assert test.p_value == pytest.approx(max(twice / 2**n, math.ulp(0.0)), rel=1e-9)


def test_ten_million_questions_are_right():
    wins = [(10**7, 0), (5_010_000, 4_990_000), (6_000_000, 4_000_000)]
    whole, middle, far = (sign_test(a, b) for a, b in wins)
    assert whole.log10_p == pytest.approx(-(10**7 - 1) * math.log10(2), rel=1e-12)
    assert middle.p_value == pytest.approx(binomtest(4_990_000, 10**7).pvalue, rel=1e-9)
    # The tail lies between its largest term and that term times the geometric series of its first ratio.
    first = math.log10(2) + binom.logpmf(4_000_000, 10**7, 0.5) / math.log(10)
    assert first + 0.4 < far.log10_p < first - math.log10(1 - 4 / 6) + 1e-6
    assert sign_test(5_000_001, 5_000_000).p_value == 1


@calm
@given(counts, counts)
def test_p_is_in_zero_to_one_exact_and_symmetric(a, b):
    test, mirrored = sign_test(a, b), sign_test(b, a)
    assert 0 < test.p_value <= 1
    assert (test.p_value, test.log10_p) == (mirrored.p_value, mirrored.log10_p)
    assert test.p_value == float(exact_p(a, b))
    assert test.log10_p == pytest.approx(math.log10(test.p_value), abs=1e-12)


@calm
@given(counts, counts)
def test_one_more_win_for_the_leader_never_raises_p(a, b):
    a, b = max(a, b), min(a, b)
    assert sign_test(a + 1, b).p_value <= sign_test(a, b).p_value
    assert sign_test(a + 1, b).log10_p <= sign_test(a, b).log10_p


def test_the_type_one_error_of_the_sign_test_is_at_most_its_level():
    for n in (5, 6, 9, 20, 57, 100):
        rejected = [k for k in range(n + 1) if sign_test(k, n - k).p_value < 0.05]
        assert binom.pmf(rejected, n, 0.5).sum() <= 0.05, n
    assert binom.pmf(rejected, n, 0.5).sum() > 0.03


@pytest.mark.parametrize("bad", [-1, 2.5, 3.0, math.nan, True, np.True_, None, "3", np.int64(-2)])
def test_wins_that_are_no_counts_are_refused_by_name(bad):
    with pytest.raises(ValueError, match=r"sign_test: wins_a is .*; pass a count"):
        sign_test(bad, 3)
    with pytest.raises(ValueError, match=r"sign_test: wins_b is "):
        sign_test(3, bad)


def test_numpy_integers_are_counts():
    test = sign_test(np.int64(12), np.uint8(0))
    assert test == sign_test(12, 0)
    assert type(test.wins_a) is int


@pytest.mark.parametrize(
    ("p", "text"),
    [
        (1, "1"),
        (0.125, "0.125"),
        (0.05, "0.0500"),
        (0.001, "0.00100"),
        (4.8828125e-4, "4.88e-04"),
        (1.0000001e-300, "1.00e-300"),
        (9e-301, "<1e-300"),
        (0.0, "<1e-300"),
        (None, "n/a"),
        (math.nan, "n/a"),
        (pd.NA, "n/a"),
        (sign_test(1100, 0), "<1e-300"),
        (sign_test(12, 0), "4.88e-04"),
    ],
)
def test_a_p_is_written_for_tables(p, text):
    assert format_p(p) == text


@calm
@given(st.floats(0, 1))
def test_a_written_p_is_never_zero(p):
    text = format_p(p)
    assert text == "<1e-300" or float(text) == pytest.approx(p, rel=0.0051)
    assert text.strip("0.") != ""


@pytest.mark.parametrize("bad", [-0.1, 1.1, math.inf])
def test_a_number_that_is_no_p_is_refused(bad):
    with pytest.raises(ValueError, match=r"format_p: .* is no p"):
        format_p(bad)


# --- the cluster bootstrap


def slow_interval(values, clusters, n_resamples, seed):
    """The definition, a loop: every drawn cluster brings all its values, twice if drawn twice."""
    groups = pd.Series(values).groupby(list(clusters)).agg(list)
    groups = sorted(groups, key=lambda g: (len(g), sum(sorted(g))))
    rng = np.random.Generator(np.random.PCG64(seed))
    means = []
    for _ in range(n_resamples):
        drawn = rng.integers(0, len(groups), size=len(groups))
        rows = [value for cluster in drawn for value in groups[cluster]]
        means.append(sum(rows) / len(rows))
    return np.quantile(means, [0.025, 0.975])


def uneven(seed: int = 3, k: int = 23):
    rng = np.random.default_rng(seed)
    clusters = np.repeat([f"q{i}" for i in range(k)], rng.integers(1, 5, size=k))
    return rng.random(len(clusters)).round(3), clusters


def test_a_cluster_drawn_twice_counts_twice():
    values, clusters = uneven()
    interval = cluster_bootstrap(values, clusters, n_resamples=400, seed=5)
    assert (interval.low, interval.high) == pytest.approx(slow_interval(values, clusters, 400, 5), abs=1e-12)
    assert interval.estimate == pytest.approx(values.mean())
    assert (interval.n, interval.n_clusters, interval.note) == (len(values), 23, "")


def test_blocks_and_kept_counts_give_the_same_numbers(monkeypatch):
    values, clusters = uneven()
    kept = cluster_bootstrap(values, clusters, n_resamples=400, seed=5)
    monkeypatch.setattr(resampling, "_KEPT_BYTES", 0)
    whole = cluster_bootstrap(values, clusters, n_resamples=400, seed=5)
    monkeypatch.setattr(resampling, "_BLOCK_CELLS", 23 * 7)
    blocks = cluster_bootstrap(values, clusters, n_resamples=400, seed=5)
    assert whole == blocks
    assert (kept.low, kept.high) == pytest.approx((whole.low, whole.high), abs=1e-12)


def test_counts_of_many_clusters_are_not_cut_to_a_byte():
    assert resampling._kept_counts(300, 10, 0).dtype == np.uint16
    assert (resampling._kept_counts(300, 10, 0).sum(axis=1) == 300).all()
    assert resampling._kept_counts(255, 10, 0).dtype == np.uint8


def test_the_interval_of_a_fixed_seed_is_the_same_on_every_machine():
    values = [1, 0, 1, 1, 0, 0, 1, 1, 1, 0, 1, 1]
    interval = cluster_bootstrap(values, np.repeat(list("abcdef"), 2))
    assert (interval.low, interval.high) == pytest.approx((1 / 3, 11 / 12), abs=1e-12)
    assert interval == cluster_bootstrap(values, np.repeat(list("abcdef"), 2))
    assert resampling._kept_counts(6, 3, 0).tolist() == [[1, 2, 0, 2, 0, 1], [2, 1, 0, 1, 1, 1], [0, 0, 0, 4, 1, 1]]


def test_another_seed_draws_other_resamples():
    values, clusters = uneven()
    assert cluster_bootstrap(values, clusters, 100, seed=1) != cluster_bootstrap(values, clusters, 100, seed=2)


@calm
@given(st.randoms(use_true_random=False))
def test_the_order_of_rows_and_the_labels_change_nothing(random):
    values, clusters = uneven()
    order = list(range(len(values)))
    random.shuffle(order)
    names = list(range(23))
    random.shuffle(names)
    renamed = {f"q{i}": name for i, name in enumerate(names)}
    expected = cluster_bootstrap(values, clusters, 200)
    assert cluster_bootstrap(values[order], clusters[order], 200) == expected
    assert cluster_bootstrap(values, [renamed[c] for c in clusters], 200) == expected


def test_labels_of_two_types_stay_apart():
    interval = cluster_bootstrap([1, 0, 1, 0], [1, "1", ("asqa", "1"), ("qampari", "1")])
    assert interval.n_clusters == 4


@calm
@given(st.lists(st.tuples(st.floats(0, 1), st.integers(0, 9)), min_size=1, max_size=40))
def test_every_interval_holds_its_estimate_and_stays_in_bounds(rows):
    values, clusters = zip(*rows, strict=True)
    interval = cluster_bootstrap(values, clusters, 500)
    assert interval.n_clusters == len(set(clusters))
    if interval.n_clusters > 1:
        assert -1e-12 <= interval.low <= interval.high <= 1 + 1e-12
    if interval.note == NOTE_NO_VARIATION:
        assert interval.low <= interval.estimate <= interval.high


def test_the_nominal_coverage_is_kept_with_two_correlated_rows_a_question():
    rng = np.random.default_rng(11)
    clusters, hit, n_sim = np.repeat(np.arange(60), 2), 0, 1000
    narrow = 0
    for _ in range(n_sim):
        ability = rng.beta(1.4, 0.6, size=60)  # mean 0.7, and the rows of a question share it
        values = rng.random((60, 2)) < ability[:, None]
        interval = cluster_bootstrap(values.ravel(), clusters, n_resamples=1000)
        hit += interval.low <= 0.7 <= interval.high
        half = 1.96 * values.std() / math.sqrt(values.size)
        narrow += abs(values.mean() - 0.7) <= half
    assert 0.92 <= hit / n_sim <= 0.98
    assert narrow / n_sim < hit / n_sim - 0.02, "the simulation must be one where ignoring clusters shows"


def test_no_values_give_no_number():
    interval = cluster_bootstrap([], [])
    assert (interval.n, interval.n_clusters, interval.note) == (0, 0, NOTE_EMPTY)
    assert all(math.isnan(x) for x in (interval.estimate, interval.low, interval.high))


def test_one_cluster_gives_an_estimate_without_an_interval():
    interval = cluster_bootstrap([1, 0, 0], ["q"] * 3)
    assert (interval.estimate, interval.n_clusters, interval.note) == (1 / 3, 1, NOTE_ONE_CLUSTER)
    assert math.isnan(interval.low) and math.isnan(interval.high)


@pytest.mark.parametrize(
    ("value", "bounds", "low", "high"),
    [
        (1, (0, 1), 1, 0),
        (0, (0, 1), 0, 1),
        (0.5, (0, 1), 0.5, 0.5),
        (0, (-1, 1), -1, 1),
        (1, (-1, 1), 1, -1),
    ],
)
def test_without_variation_the_bound_is_the_exact_one(value, bounds, low, high):
    interval = cluster_bootstrap([value] * 80, np.repeat(np.arange(40), 2), bounds=bounds)
    share = binomtest(40, 40).proportion_ci(method="exact").low  # Clopper and Pearson, by scipy
    ends = [value * share + end * (1 - share) for end in bounds]
    assert (interval.low, interval.high) == pytest.approx(ends, abs=1e-12)
    assert (interval.estimate, interval.note) == (value, NOTE_NO_VARIATION)
    assert interval.low < interval.high


def test_bounds_are_those_of_an_accuracy_or_of_a_difference_and_else_must_be_given():
    assert cluster_bootstrap([0.5] * 10, range(10)) == cluster_bootstrap([0.5] * 10, range(10), bounds=(0, 1))
    assert cluster_bootstrap([-0.5] * 10, range(10)) == cluster_bootstrap([-0.5] * 10, range(10), bounds=(-1, 1))
    interval = cluster_bootstrap([7.0] * 10, range(10))
    assert math.isnan(interval.low) and math.isnan(interval.high) and interval.estimate == 7
    assert interval.note == NOTE_NO_BOUND
    tokens = cluster_bootstrap([480, 512, 530, 611], range(4))
    assert tokens.low < tokens.estimate < tokens.high and tokens.note == ""


def test_equal_means_of_unequal_values_are_no_variation():
    interval = cluster_bootstrap([1, 0, 0, 1, 0.1, 0.9], list("aabbcc"))
    assert interval.note == NOTE_NO_VARIATION
    assert cluster_bootstrap([1, 0, 0, 1, 1, 1], list("aabbcc")).note == ""


@pytest.mark.parametrize(
    ("values", "clusters", "options", "line"),
    [
        ([1, math.nan, math.inf], [1, 2, 3], {}, r"2 of 3 values are NaN or infinite"),
        ([1, 0, 0], [1, None, math.nan], {}, r"2 of 3 cluster labels are missing"),
        ([1, -1, 0], [1, 2, 3], {"bounds": (0, 1)}, r"1 of 3 values lie outside \(0, 1\); pass the right `bounds`"),
        ([1, 0], [1, 2, 3], {}, r"2 values but 3 clusters"),
        ([1, 0], [1, 2], {"n_resamples": 0}, r"n_resamples is 0"),
    ],
)
def test_bad_values_are_refused_with_their_number(values, clusters, options, line):
    with pytest.raises(ValueError, match=rf"^cluster_bootstrap: {line}"):
        cluster_bootstrap(values, clusters, **options)


def test_many_clusters_stay_small_in_memory():
    values = np.random.default_rng(0).random(100_000)
    tracemalloc.start()
    interval = cluster_bootstrap(values, np.arange(100_000), n_resamples=1000)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 200e6
    assert interval.high - interval.low == pytest.approx(2 * 1.96 * values.std() / math.sqrt(100_000), rel=0.1)


# --- wins and comparisons


def test_questions_are_won_by_the_design_with_more_rows_right():
    frame = judgments({"C.v1": [2, 1, 0, 1, 2], "H": [1, 1, 1, 0, 2]})
    assert question_wins(frame, "C.v1", "H") == (2, 1, 2)
    assert question_wins(frame, "H", "C.v1") == (1, 2, 2)


def test_only_rows_common_to_both_designs_count():
    frame = judgments({"C": [2, 2, 0], "H": [1, 2, 2]})
    frame = frame[~((frame["design"] == "H") & (frame["row_id"] == "asqa/q0/partial"))]
    frame = frame[~((frame["design"] == "C") & (frame["question_id"] == "q2"))]
    assert question_wins(frame, "C", "H") == (0, 0, 2)
    result = compare(frame, "C", "H")
    assert (result.n_questions, result.n_rows, result.difference) == (2, 3, 0)


def test_one_question_id_in_two_datasets_is_two_questions():
    one, two = judgments({"C": [2], "H": [0]}), judgments({"C": [2], "H": [1]}, dataset="qampari")
    both = pd.concat([one, two])
    assert question_wins(both, "C", "H") == (2, 0, 0)
    assert question_wins(both.drop(columns="dataset"), "C", "H") == (1, 0, 0)
    assert slice_accuracy(both)["n_questions"] == 2
    short_ids = both.assign(row_id=both["kind"])
    assert question_wins(short_ids, "C", "H") == (2, 0, 0)


def test_the_order_of_lines_changes_no_comparison():
    rng = np.random.default_rng(8)
    frame = judgments({"C": rng.integers(0, 3, 30), "H": rng.integers(0, 3, 30)})
    mixed = frame.sample(frac=1, random_state=4)
    assert compare(mixed, "C", "H") == compare(frame, "C", "H")


def test_a_comparison_has_the_test_the_paired_difference_and_its_interval():
    frame = judgments({"C": [2, 1, 0, 1, 2, 0], "R": [2, 2, 2, 2, 0, 1]})
    result = compare(frame, "C", "R")
    test = sign_test(1, 4)
    assert (result.a, result.b, result.wins_a, result.wins_b, result.ties) == ("C", "R", 1, 4, 1)
    assert (result.p_value, result.log10_p) == (test.p_value, test.log10_p)
    assert (result.n_questions, result.n_rows) == (6, 12)
    assert result.difference == pytest.approx((6 - 9) / 12)
    wide = frame.pivot(index="row_id", columns="design", values="correct").astype(int)
    questions = [row_id.split("/")[1] for row_id in wide.index]
    slow = slow_interval((wide["C"] - wide["R"]).to_numpy(), questions, 10_000, 0)
    assert (result.low, result.high) == pytest.approx(slow, abs=1e-12)


def test_swapping_the_designs_mirrors_the_comparison():
    rng = np.random.default_rng(2)
    frame = judgments({"C": rng.integers(0, 3, 80), "H": rng.integers(0, 3, 80)})
    one, two = compare(frame, "C", "H"), compare(frame, "H", "C")
    assert (one.wins_a, one.wins_b, one.ties, one.p_value) == (two.wins_b, two.wins_a, two.ties, two.p_value)
    assert one.difference == pytest.approx(-two.difference)
    assert one.low == pytest.approx(-two.high, abs=0.02)


def test_four_to_nothing_is_where_test_and_interval_disagree():
    result = compare(judgments({"C": [2] * 4 + [1] * 6, "H": [0] * 4 + [1] * 6}), "C", "H")
    assert (result.wins_a, result.wins_b, result.p_value) == (4, 0, 0.125)
    assert result.low > 0
    assert result.agree is False


def test_a_small_p_with_an_interval_over_zero_is_a_disagreement_too():
    # Fourteen questions won by one row each, three lost by two rows: small p, but a difference that may be 0.
    result = compare(judgments({"C": [1] * 14 + [0] * 3, "H": [0] * 14 + [2] * 3}), "C", "H")
    assert result.p_value < 0.05
    assert result.low <= 0 <= result.high
    assert result.agree is False


def test_test_and_interval_agree_on_a_clear_win_and_on_no_difference():
    clear = judgments({"C": [2] * 20 + [1] * 5, "H": [1] * 25})
    assert compare(clear, "C", "H").agree is True
    assert compare(clear, "H", "C").agree is True
    same = compare(judgments({"C": [2, 1] * 10, "H": [2, 1] * 10}), "C", "H")
    assert (same.ties, same.p_value, same.difference, same.note) == (20, 1, 0, NOTE_NO_VARIATION)
    assert (same.low, same.high) == pytest.approx((0.025 ** (1 / 20) - 1, 1 - 0.025 ** (1 / 20)), abs=1e-12)
    assert same.agree is True


def test_one_common_question_has_no_interval():
    result = compare(judgments({"C": [2], "H": [0]}), "C", "H")
    assert (result.p_value, result.note, result.agree) == (1, NOTE_ONE_CLUSTER, True)
    assert math.isnan(result.low)


def broken(column: str, value: object) -> pd.DataFrame:
    frame = judgments({"C": [2, 1], "H": [1, 1]}).astype({column: object})
    frame.loc[2, column] = value
    return frame


good = judgments({"C": [2, 1], "H": [1, 1]})


@pytest.mark.parametrize("call", [question_wins, compare])
@pytest.mark.parametrize(
    ("frame", "a", "b", "line"),
    [
        (good.drop(columns="correct"), "C", "H", r"no column `correct`, only \['dataset', .*; add it"),
        (good.drop(columns="row_id"), "C", "H", r"no column `row_id`"),
        (good.drop(columns="question_id"), "C", "H", r"no column `question_id`"),
        (good.drop(columns="design"), "C", "H", r"no column `design`"),
        (broken("correct", None), "C", "H", r"1 of 8 rows, first {'row_id': 'asqa/q1/full', .*`correct` is missing"),
        (
            broken("correct", "False"),
            "C",
            "H",
            r"1 of 8 rows, first {'row_id': 'asqa/q1/full', .*`correct` is no bool",
        ),
        (broken("correct", 0.5), "C", "H", r"`correct` is no bool"),
        (broken("question_id", None), "C", "H", r"first {'row_id': 'asqa/q1/full', .*`question_id` is missing"),
        (broken("dataset", None), "C", "H", r"`dataset` is missing"),
        (broken("design", math.nan), "C", "H", r"`design` is missing"),
        (broken("row_id", None), "C", "H", r"first {.*'question_id': 'q1', 'design': 'C'}: `row_id` is missing"),
        (
            pd.concat([good, good.assign(judge="gpt")]),
            "C",
            "H",
            r"row asqa/q0/full has more than one judgment of design 'C'; filter to one judge and one condition",
        ),
        (good, "C", "R", r"`design` is never 'R'; name one of \['C', 'H'\]"),
        (good.iloc[:0], "C", "H", r"`design` is never 'C'"),
        (
            good[(good["design"] == "C") == (good["question_id"] == "q0")],
            "C",
            "H",
            r"'C' and 'H' have no common rows",
        ),
    ],
)
def test_a_frame_that_cannot_be_compared_is_refused_with_its_row_and_field(call, frame, a, b, line):
    with pytest.raises(ValueError, match=rf"^judgments: .*{line}"):
        call(frame, a, b)


def test_a_design_is_not_compared_with_itself():
    with pytest.raises(ValueError, match=r"both designs are 'C'; name two"):
        compare(good, "C", "C")


def test_a_hundred_thousand_rows_are_paired_as_by_hand():
    row = np.arange(50_000)
    side = pd.DataFrame({"question_id": (row // 2).astype(str), "row_id": row.astype(str), "correct": row % 3 == 0})
    frame = pd.concat([side.assign(design="C"), side.assign(design="H", correct=row % 4 == 0)])
    wins = question_wins(frame, "C", "H")
    margin = ((row % 3 == 0).astype(int) - (row % 4 == 0)).reshape(-1, 2).sum(axis=1)
    assert wins == ((margin > 0).sum(), (margin < 0).sum(), (margin == 0).sum())


# --- all comparisons


def study() -> pd.DataFrame:
    rng = np.random.default_rng(5)
    return pd.concat(
        judgments({d: rng.binomial(2, p, 40) for d, p in designs.items()}, dataset, judge)
        for dataset, judge, designs in [
            ("qampari", "opus", {"R": 0.9, "C": 0.4, "H": 0.7}),
            ("asqa", "opus", {"R": 0.8, "C": 0.5, "H": 0.7}),
            ("asqa", "sonnet", {"C": 0.5, "H": 0.7}),
        ]
    )


def slow_holm(p: list[float]) -> list[float]:
    order, adjusted, worst = np.argsort(p, kind="stable"), [0.0] * len(p), 0.0
    for rank, i in enumerate(order):
        worst = max(worst, min(1.0, p[i] * (len(p) - rank)))
        adjusted[i] = worst
    return adjusted


def test_every_pair_of_every_group_has_a_line_like_compare():
    frame = study()
    table = compare_all(frame)
    assert list(table.columns[:4]) == ["dataset", "judge", "a", "b"]
    assert list(table["dataset"] + "/" + table["judge"] + "/" + table["a"] + table["b"]) == [
        *(f"qampari/opus/{pair}" for pair in ("CH", "CR", "HR")),
        *(f"asqa/opus/{pair}" for pair in ("CH", "CR", "HR")),
        "asqa/sonnet/CH",
    ]
    for line in table.to_dict("records"):
        rows = frame[(frame["dataset"] == line["dataset"]) & (frame["judge"] == line["judge"])]
        expected = compare(rows, line["a"], line["b"])
        assert {name: line[name] for name in vars(expected)} == vars(expected)


def test_holm_is_taken_over_every_line_of_the_frame():
    table = compare_all(study())
    assert table["p_holm"].tolist() == pytest.approx(slow_holm(table["p_value"].tolist()), rel=1e-12)
    assert (table["p_holm"] >= table["p_value"]).all()
    fewer = compare_all(study(), pairs=[("C", "R")])
    assert fewer["p_holm"].tolist() == pytest.approx(slow_holm(fewer["p_value"].tolist()), rel=1e-12)
    assert (fewer["p_holm"] >= false_discovery_control(fewer["p_value"])).all()


def test_named_pairs_are_taken_in_their_order_and_absent_ones_have_no_line():
    table = compare_all(study(), pairs=iter([("R", "C"), ("H", "C"), ("B", "C")]))
    assert list(zip(table["judge"], table["a"], table["b"], strict=True)) == [
        ("opus", "R", "C"),
        ("opus", "H", "C"),
        ("opus", "R", "C"),
        ("opus", "H", "C"),
        ("sonnet", "H", "C"),
    ]
    assert compare_all(study(), pairs=[]).empty


def test_a_pair_without_common_rows_is_shown_and_stays_outside_the_family():
    frame = study()
    lost = (frame["judge"] == "sonnet") & ((frame["design"] == "C") == (frame["kind"] == "full"))
    table = compare_all(frame[~lost])
    line = table.iloc[-1]
    assert (line["n_rows"], line["ties"], line["note"]) == (0, 0, NOTE_NO_COMMON_ROWS)
    assert table.iloc[-1][["p_value", "log10_p", "difference", "low", "high", "p_holm"]].isna().all()
    assert table["p_holm"][:-1].tolist() == pytest.approx(slow_holm(table["p_value"][:-1].tolist()), rel=1e-12)


def test_grouping_by_one_column_pools_the_datasets_by_question():
    frame = study()
    table = compare_all(frame, by="judge", pairs=[("C", "H")])
    assert table["judge"].tolist() == ["opus", "sonnet"]
    assert table["n_questions"].tolist() == [80, 40]


def test_two_conditions_in_one_group_are_refused():
    frame = study()
    with pytest.raises(ValueError, match="filter to one judge and one condition"):
        compare_all(pd.concat([frame, frame.assign(condition="cap-128")]))


@pytest.mark.parametrize("empty", [good.iloc[:0], pd.DataFrame()])
def test_no_judgments_give_tables_without_lines(empty):
    table = compare_all(empty)
    assert table.empty
    assert list(table.columns) == list(compare_all(study()).columns)
    counted = accuracy(empty, ["dataset", "design"])
    assert counted.empty
    assert list(counted.columns) == list(accuracy(good, ["dataset", "design"]).columns)


# --- accuracy


def test_accuracy_counts_rows_and_questions_by_group():
    frame = judgments({"R": [2, 2, 1], "C": [1, 0, 0]})
    table = accuracy(frame, ["dataset", "design"])
    assert list(table.columns) == [
        *("dataset", "design", "n_questions", "n_rows", "n_correct", "n_unjudged"),
        *("accuracy", "low", "high", "accuracy_judged", "note"),
    ]
    assert table["design"].tolist() == ["R", "C"]
    assert table[["n_questions", "n_rows", "n_correct", "n_unjudged"]].values.tolist() == [[3, 6, 5, 0], [3, 6, 1, 0]]
    assert table["accuracy"].tolist() == [5 / 6, 1 / 6]
    slow = slow_interval([1, 1, 1, 1, 1, 0], list("aabbcc"), 10_000, 0)
    assert table.loc[0, ["low", "high"]].tolist() == pytest.approx(slow, abs=1e-12)
    assert accuracy(frame, "design")["accuracy"].tolist() == [5 / 6, 1 / 6]


def test_unjudged_rows_are_counted_and_lower_the_accuracy():
    frame = judgments({"C": [2] * 9 + [0]})
    before = accuracy(frame, "design").iloc[0]
    frame.loc[[0, 1, 5], "verdict"] = math.nan
    frame.loc[[0, 1, 5], "correct"] = False
    after = accuracy(frame, "design").iloc[0]
    assert (before["accuracy"], before["n_unjudged"], before["accuracy_judged"]) == (0.9, 0, 0.9)
    assert (after["n_rows"], after["n_correct"], after["n_unjudged"]) == (20, 15, 3)
    assert (after["accuracy"], after["accuracy_judged"]) == (15 / 20, 15 / 17)
    assert after["low"] < before["low"]


def test_an_unjudged_row_loses_its_question_in_the_paired_test():
    frame = judgments({"C": [2, 1], "H": [2, 1]})
    frame.loc[0, "verdict"], frame.loc[0, "correct"] = math.nan, False
    result = compare(frame, "C", "H")
    assert (result.wins_a, result.wins_b, result.ties, result.n_rows) == (0, 1, 1, 4)


def test_a_slice_with_nothing_judged_has_accuracy_zero_but_none_among_judged():
    line = slice_accuracy(good.assign(verdict=math.nan, correct=False))
    assert (line["accuracy"], line["n_unjudged"], line["note"]) == (0, 8, NOTE_NO_VARIATION)
    assert line["low"] == 0 < line["high"]
    assert math.isnan(line["accuracy_judged"])


@pytest.mark.parametrize("empty", [good.iloc[:0], pd.DataFrame()])
def test_an_empty_slice_is_not_available_and_never_zero(empty):
    line = slice_accuracy(empty)
    assert (line["n_rows"], line["n_questions"], line["note"]) == (0, 0, NOTE_EMPTY)
    assert all(math.isnan(line[name]) for name in ("accuracy", "low", "high", "accuracy_judged"))


def test_a_missing_value_in_the_grouping_column_keeps_its_rows():
    frame = good.assign(bin=["low", "low", None, None] * 2)
    table = accuracy(frame, "bin")
    assert table["n_rows"].tolist() == [4, 4]
    assert table["bin"].isna().tolist() == [False, True]


def test_groups_lose_no_row_whatever_the_grouping():
    frame = study()
    for by in combinations(["dataset", "judge", "design", "kind"], 2):
        assert accuracy(frame, by)["n_rows"].sum() == len(frame)


@pytest.mark.parametrize(
    ("frame", "by", "line"),
    [
        (good, "designs", r"no column `designs`"),
        (good.drop(columns="verdict"), "design", r"no column `verdict`"),
        (broken("correct", None), "design", r"1 of 8 rows, first {'row_id': 'asqa/q1/full', .*`correct` is missing"),
        (
            broken("verdict", ""),
            "design",
            r"first {'row_id': 'asqa/q1/full', .*`verdict` is an empty text; set an unjudged one",
        ),
        (
            broken("verdict", None),
            "design",
            r"first {'row_id': 'asqa/q1/full', .*unjudged but `correct`; set it to False",
        ),
    ],
)
def test_a_frame_without_an_accuracy_is_refused_with_its_row_and_field(frame, by, line):
    with pytest.raises(ValueError, match=rf"^judgments: .*{line}"):
        accuracy(frame, by)


@pytest.mark.parametrize("seed", range(20))
def test_holm_is_that_of_statsmodels(seed):
    from statsmodels.stats.multitest import multipletests

    rng = np.random.default_rng(seed)
    p = np.round(rng.random(rng.integers(1, 30)) ** 3, 2)
    assert holm(p) == pytest.approx(multipletests(p, method="holm")[1])
    gaps = np.where(rng.random(len(p)) < 0.3, np.nan, p)
    assert np.isnan(holm(gaps)).tolist() == np.isnan(gaps).tolist()
    if (known := ~np.isnan(gaps)).any():
        assert holm(gaps)[known] == pytest.approx(multipletests(gaps[known], method="holm")[1])
