"""Prices, estimates, budgets and the pace of calls."""

import asyncio
import time
from dataclasses import replace

import pandas as pd
import pytest
import yaml

from lib import attempts
from lib.budget import Budget, check_budget
from lib.conditions import apply, find
from lib.cost import estimate, used
from lib.estimate import estimate_groups, estimate_sweep, groups_markdown, summary
from lib.expected import Expected
from lib.hints import hint_table
from lib.judges import Judge, load_judges
from lib.pace import Pace
from lib.plan import Plan, judgments, missing_keys
from lib.prices import dollars, reply_dollars
from lib.providers import CallError, Reply
from lib.recorded import stored
from lib.run import execute
from lib.store import Store
from lib.tables import estimate_markdown, money, used_markdown
from tests.fakes import Fakes
from tests.loopback import CUT, REPLY, completion

PRICE = {"read": "2026-11-30", "input": 2, "cached_input": 0.5, "output": 8, "batch_input": 1, "batch_output": 4}
JUDGE = Judge("j", "openai", "m", price=PRICE)


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch):
    monkeypatch.setattr(attempts, "wait", lambda state: 0)


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "calls.sqlite", recorded=())


class Priced:
    """A provider whose replies use a set number of tokens."""

    sdk = "fake 1"

    def __init__(self, tokens_out=1000, tokens_in=1000):
        self.tokens_in, self.tokens_out, self.asked = tokens_in, tokens_out, 0

    async def ask(self, request):
        self.asked += 1
        await asyncio.sleep(0.001)
        return Reply(REPLY, "stop", "m", self.tokens_in, self.tokens_out)

    async def close(self):
        pass


def go(plan, store, provider, **named):
    return asyncio.run(execute(plan, store, provider, **named))


def many(rows, n):
    copies = [rows.assign(question=rows["question"] + f" {number}") for number in range(n)]
    return pd.concat(copies, ignore_index=True)


@pytest.mark.parametrize(
    ("tokens", "cost"),
    [
        ((1_000_000, 0), 2.0),
        ((0, 1_000_000), 8.0),
        ((1_000_000, 0, 400_000), 0.6 * 2 + 0.4 * 0.5),
        ((1_000_000, 1_000_000, 0, True), 5.0),
        ((1_000_000, 0, 400_000, True), 1.0),  # no cached batch price is given: the batch price holds
        ((None, 5), None),
        ((5, None), None),
    ],
)
def test_dollars_of_tokens(tokens, cost):
    assert dollars(JUDGE, *tokens) == (pytest.approx(cost) if cost is not None else None)


def test_an_unknown_price_is_unknown_and_a_judge_on_this_machine_costs_nothing():
    assert dollars(replace(JUDGE, price={}), 5, 5) is None
    assert dollars(replace(JUDGE, price={"input": 1, "output": 1}), 5, 5, batch=True) is None
    for url in ("http://127.0.0.1:8000/v1", "http://localhost/v1", "http://[::1]/v1"):
        assert dollars(replace(JUDGE, price={}, base_url=url), 5, 5) == 0.0
    assert dollars(replace(JUDGE, price={}, base_url="http://10.0.0.1/v1"), 5, 5) is None
    assert dollars(replace(JUDGE, base_url="http://127.0.0.1/v1"), 1_000_000, 0) == 2.0


def test_committed_prices_halve_in_batches_and_carry_their_date():
    priced = [judge for judge in load_judges().values() if judge.price]
    assert len(priced) == 4
    for judge in priced:
        assert judge.price["batch_input"] * 2 == judge.price["input"], judge.name
        assert judge.price["batch_output"] * 2 == judge.price["output"], judge.name
        assert judge.price["read"] >= "2026-11-30"


def test_a_reply_from_a_batch_costs_the_batch_price():
    how = {"latency_s": 1.0, "attempts": 1, "sdk": "s", "at": "t"}
    live = stored("k", "{}", Reply(REPLY, "stop", "m", 1_000_000, 0), **how)
    assert (reply_dollars(JUDGE, live), reply_dollars(JUDGE, replace(live, batch="b"))) == (2.0, 1.0)


def test_without_stored_calls_an_estimate_rests_on_characters_and_says_so(rows, store):
    table = estimate(Plan(rows, ("C.v1", "B.v1"), JUDGE), store)
    assert table["basis"].unique().tolist() == ["characters"] and table["to_ask"].tolist() == [4, 4]
    assert (table["live_low"] < table["live"]).all() and (table["live"] < table["live_high"]).all()
    assert (table["batch"] * 2 - table["live"]).abs().max() < 1e-12
    assert table.loc[1, "tokens_out"] > table.loc[0, "tokens_out"]


def test_an_estimate_learns_from_stored_calls_of_the_same_model_and_prompt(rows, store):
    frame = many(rows, 5)
    plan = Plan(frame, ("C.v1",), JUDGE)
    go(replace(plan, rows=frame[:10]), store, Priced(tokens_out=333, tokens_in=444))
    table = estimate(plan, store).iloc[0]
    assert table["basis"] == "10 stored calls of C.v1" and table["tokens_out"] == pytest.approx(333 * 10, rel=0.02)
    assert table["tokens_in"] == pytest.approx(4440, rel=0.02) and table["store"] == 10 == table["to_ask"]
    # Another prompt of the same model rests on them too, with a wider range; longer texts widen it upwards alone.
    wider = estimate(replace(plan, prompts=("B.v1",)), store).iloc[0]
    assert wider["basis"] == "10 stored calls of other prompts"
    assert wider["tokens_out_high"] > 1.8 * wider["tokens_out"] > 3.2 * wider["tokens_out_low"]
    longer = frame[10:].assign(candidate=frame["candidate"][10:] + " and so on" * 100)
    long = estimate(replace(plan, rows=longer), store).iloc[0]
    assert long["tokens_out_high"] > 2 * table["tokens_out_high"]
    assert long["tokens_out_low"] == pytest.approx(table["tokens_out_low"], rel=0.05)
    other = estimate(replace(plan, judge=replace(JUDGE, model="m-2")), store).iloc[0]
    assert other["basis"] == "characters" and other["to_ask"] == 20


def test_a_cap_bounds_the_estimate_and_thinking_adds_to_it(rows, store):
    out = [
        estimate(Plan(rows, ("B.v1",), judge), store)["tokens_out_high"].sum()
        for judge in (JUDGE, replace(JUDGE, thinking_tokens=1000), replace(JUDGE, send={"max_tokens": 10}))
    ]
    assert out[1] > out[0] + 4000 and out[2] == 40


def test_replies_under_another_cap_say_nothing_and_bound_only_their_own(rows, store):
    frame = many(rows, 5)
    plan = Plan(frame, ("C.v1",), JUDGE)
    go(replace(plan, judge=JUDGE.with_cap(128)), store, Priced(tokens_out=128))
    assert estimate(plan, store)["basis"].tolist() == ["characters"]
    go(replace(plan, rows=frame[:10]), store, Priced(tokens_out=333))
    assert estimate(plan, store)["basis"].tolist() == ["10 stored calls of C.v1"]
    # A condition's cap is in the call, not in the entry that the estimate is made for.
    capped = apply(find("cap-256"), frame, ("C.v1",), JUDGE, 0).plan
    line = estimate(capped, store).iloc[0]
    assert line["tokens_out"] == line["tokens_out_high"] == 256 * 20
    guessed = estimate(capped, Store(":memory:", recorded=())).iloc[0]
    assert guessed["tokens_out_high"] <= 256 * 20


def test_the_cap_that_a_provider_requires_is_no_bound_of_the_estimate(rows, store):
    usages = []
    for cap in (16000, 64000):
        judge = Judge("j", "anthropic", "m", open_cap=cap, price=PRICE)
        usages.append(Expected(judge, store).usage(next(iter(Plan(rows, ("C.v1",), judge)))))
    assert usages[0] == usages[1] and usages[0].most_out < 16000


def test_a_call_that_several_points_of_a_sweep_share_is_counted_at_the_first(tmp_path, store):
    fixed = {
        "source": "sample",
        "n_questions": 2,
        "datasets": ["asqa"],
        "designs": ["C.v1", "H.v1"],
        "judge": "gpt-4.1",
    }
    grid = tmp_path / "g.yaml"
    names = ["primary", "schema", "repeat", "reference-first", "format"]
    grid.write_text(yaml.safe_dump({"notebook": "20-judge", "fixed": fixed, "grid": {"condition": names}}))
    table = estimate_sweep(grid, store)
    assert table.groupby("condition", sort=False)["calls"].sum().to_dict() == {
        "primary": 8,
        "schema": 4,
        "repeat": 16,
        "reference-first": 8,
        "format": 16,
    }
    text = summary(table)
    assert "| gpt-4.1 | repeat          | 16" in text and "52" in text.splitlines()[-1]


def test_a_condition_that_says_nothing_about_a_dataset_costs_nothing_there(tmp_path, store):
    fixed = {"source": "sample", "n_questions": 2, "judge": "gpt-4.1", "condition": "reference-first"}
    grid = tmp_path / "g.yaml"
    grid.write_text(yaml.safe_dump({"notebook": "20-judge", "fixed": fixed, "grid": {"designs": [["C.v1"]]}}))
    assert estimate_sweep(grid, store)["dataset"].tolist() == ["asqa"]


def test_groups_of_conditions_are_estimated_before_anything_is_stored(rows):
    table = estimate_groups(rows, ("C.v1",), ["gpt-4.1", "opus"], 0)
    shown = groups_markdown(table)
    assert shown.splitlines()[0].split() == ["|", "group", "|", "gpt-4.1", "|", "opus", "|"]
    line = next(line for line in shown.splitlines() if line.startswith("| all "))
    assert f"{table.loc[table['judge'] == 'opus', 'calls'].sum()} calls, $" in line
    assert table.loc[(table["judge"] == "opus") & (table["group"] == "format"), "calls"].sum() == 4


def test_the_time_of_an_estimate_keeps_to_the_limits_of_the_entry(rows, store):
    plan = Plan(rows, ("H.v1",), replace(JUDGE, requests_per_minute=2))
    assert estimate(plan, store)["seconds"].sum() == pytest.approx(120)


def test_estimate_against_actual_counts_what_was_asked_now_and_replays_as_nothing(rows, store):
    plan = Plan(rows, ("C.v1",), JUDGE)
    go(replace(plan, rows=rows[:1]), store, Priced())
    missing, expected = missing_keys(plan, store), Expected(JUDGE, store)
    go(plan, store, Priced(tokens_out=500, tokens_in=100))
    table = used(plan, store, missing, expected).set_index("what")
    assert table["actual"].tolist() == [3, 300, 1500, pytest.approx((300 * 2 + 1500 * 8) / 1e6), 1]
    assert "| dollars" in used_markdown(table.reset_index())
    nothing = used(plan, store, missing_keys(plan, store), expected)
    assert nothing["actual"].tolist() == [0, 0, 0, 0, 4]


def test_unknown_usage_and_price_show_as_not_available(rows, store):
    class Silent(Priced):
        async def ask(self, request):
            return Reply(REPLY, "stop", "m")

    plan = Plan(rows, ("C.v1",), replace(JUDGE, price={}))
    missing, expected = missing_keys(plan, store), Expected(plan.judge, store)
    assert "n/a" in estimate_markdown(estimate(plan, store))
    assert go(plan, store, Silent()).dollars is None
    table = used(plan, store, missing, expected)
    assert table["actual"].isna().tolist() == [False, True, True, True, False]
    assert used_markdown(table).count("n/a") >= 3


def test_a_sum_with_one_unknown_part_is_unknown(rows, store):
    class Once(Priced):
        async def ask(self, request):
            reply = await super().ask(request)
            return replace(reply, tokens_out=None) if self.asked == 2 else reply

    plan = Plan(rows, ("C.v1",), replace(JUDGE, in_flight=1))
    missing, expected = missing_keys(plan, store), Expected(plan.judge, store)
    go(plan, store, Once())
    assert used(plan, store, missing, expected)["actual"].isna().tolist() == [False, False, True, True, False]


def test_money_is_never_a_wrong_zero():
    assert [money(value) for value in (pd.NA, 0, 0.0012, 3)] == ["n/a", "$0.00", "$0.0012", "$3.00"]
    assert money(3, 1, 4) == "$3.00 [1.00, 4.00]"


# Budgets.


def test_a_run_stops_under_its_budget_and_goes_on_with_another(rows, store):
    frame = many(rows, 25)
    plan, provider = Plan(frame, ("H.v1",), replace(JUDGE, in_flight=8)), Priced(tokens_out=250, tokens_in=500)
    go(replace(plan, rows=frame[:10]), store, provider)
    provider.tokens_out = 400  # longer than the stored ones let expect
    each = (500 * 2 + 400 * 8) / 1e6
    outcome = go(plan, store, provider, max_usd=70.5 * each)
    assert "max_usd" in outcome.stopped and outcome.dollars <= 70.5 * each
    assert 60 <= outcome.answered <= 70 and outcome.missing == 90 - outcome.answered
    again = go(plan, store, provider, max_usd=1.0)
    assert (again.stopped, again.missing) == ("", 0) and provider.asked == 100


def test_a_budget_below_the_estimate_is_refused_before_any_call(rows, store):
    provider = Priced()
    with pytest.raises(
        ValueError, match=r"judge j: this run would cost at least \$.*max_usd is 0\.00; raise max_usd"
    ):
        go(Plan(rows, ("C.v1",), JUDGE), store, provider, max_usd=0.0)
    assert not provider.asked


@pytest.mark.parametrize("limit", [-1.0, float("nan")])
def test_a_budget_that_is_none_is_refused(rows, store, limit):
    with pytest.raises(ValueError, match="max_usd must be 0 or more dollars"):
        go(Plan(rows, ("C.v1",), JUDGE), store, Priced(), max_usd=limit)


def test_a_budget_without_a_price_is_refused_with_the_remedy(rows, store):
    with pytest.raises(ValueError, match="judge j has no price.*add price to its entry"):
        go(Plan(rows, ("C.v1",), replace(JUDGE, price={})), store, Priced(), max_usd=1.0)
    assert check_budget(replace(JUDGE, price={}, base_url="http://127.0.0.1/v1"), 0.0, lambda: 1.0) is None


def test_replies_longer_than_all_before_end_the_run_with_no_more_than_the_calls_under_way(rows, store):
    plan, provider = Plan(many(rows, 25), ("H.v1",), replace(JUDGE, in_flight=4)), Priced(tokens_out=100_000)
    outcome = go(plan, store, provider, max_usd=1.0)
    assert "max_usd" in outcome.stopped and provider.asked <= 4


def test_unknown_usage_counts_as_what_was_set_aside(rows, store):
    class Silent(Priced):
        async def ask(self, request):
            self.asked += 1
            return Reply(REPLY, "stop", "m")

    plan, provider = Plan(many(rows, 5), ("H.v1",), JUDGE), Silent()
    most = Budget(JUDGE, Expected(JUDGE, store), 1.0).most(next(iter(plan)))
    outcome = go(plan, store, provider, max_usd=10.5 * most)
    assert "max_usd" in outcome.stopped and 9 <= provider.asked <= 11


@pytest.mark.parametrize("error", [CallError("HTTP 401: no", "fatal"), CallError("HTTP 503: busy", "transient")])
def test_a_run_that_ends_early_under_a_budget_ends(rows, store, error):
    """Workers that wait for room in the budget must not wait for calls that are never made."""

    class Refuses(Priced):
        async def ask(self, request):
            await super().ask(request)
            raise error

    plan = Plan(many(rows, 25), ("H.v1",), replace(JUDGE, in_flight=8))
    most = Budget(JUDGE, Expected(JUDGE, store), 1.0).most(next(iter(plan)))
    with_room = max(2.2 * most, float(estimate(plan, store)["live_low"].sum()))

    async def timed():
        with pytest.raises(CallError):
            await asyncio.wait_for(execute(plan, store, Refuses(), max_usd=with_room), 20)

    asyncio.run(timed())


def test_timeouts_count_as_paid_too(rows, store, monkeypatch):
    monkeypatch.setattr(attempts, "ATTEMPT_S", 0.01)

    class Hangs(Priced):
        async def ask(self, request):
            self.asked += 1
            await asyncio.sleep(60)

    plan, provider = Plan(many(rows, 2), ("H.v1",), replace(JUDGE, in_flight=1)), Hangs()
    monkeypatch.setattr(attempts, "max", lambda *values: min(values), raising=False)
    most = Budget(JUDGE, Expected(JUDGE, store), 1.0).most(next(iter(plan)))
    with_room = max(2.5 * most, float(estimate(plan, store)["live_low"].sum()))
    outcome = go(plan, store, provider, max_usd=with_room)
    assert "max_usd" in outcome.stopped and provider.asked <= with_room / most + 1


@pytest.mark.parametrize("provider", ["openai", "anthropic", "google"])
def test_a_connection_that_breaks_may_have_cost_money_at_every_provider(rows, store, provider):
    with Fakes(answers=[(200, {}, CUT)] * 99) as server:
        url = server.base_url if provider == "openai" else server.root
        more = {"open_cap": 500} if provider == "anthropic" else {}
        judge = replace(JUDGE, provider=provider, base_url=url, in_flight=1, **more)
        plan = Plan(many(rows, 5), ("H.v1",), judge)
        most = Budget(judge, Expected(judge, store), 1.0).most(next(iter(plan)))
        with_room = max(6.5 * most, float(estimate(plan, store)["live_low"].sum()))
        outcome = asyncio.run(execute(plan, store, max_usd=with_room))
    assert "max_usd" in outcome.stopped and sum(server.asked.values()) <= with_room / most + 1


@pytest.mark.parametrize("provider", ["openai", "anthropic", "google"])
def test_a_server_that_cannot_be_reached_has_cost_nothing(rows, store, provider):
    with Fakes() as server:
        url = server.base_url if provider == "openai" else server.root
    more = {"open_cap": 500} if provider == "anthropic" else {}
    judge = replace(JUDGE, provider=provider, base_url=url, in_flight=1, **more)
    plan = Plan(many(rows, 5), ("H.v1",), judge)
    with_room = 1.01 * float(estimate(plan, store)["live_low"].sum())
    with pytest.raises(CallError, match="last 8 calls failed.*gave no answer"):
        asyncio.run(execute(plan, store, max_usd=with_room))
    assert store.execute("SELECT count(*), min(attempts) FROM failures").fetchone() == (8, attempts.ATTEMPTS)


def test_attempts_that_broke_off_count_as_paid(rows, store):
    """A reply that is cut on its way may be charged: four cuts a call are not four free tries."""

    class Cut(Priced):
        async def ask(self, request):
            await super().ask(request)
            raise CallError("connection lost", "transient", maybe_paid=True)

    plan, provider = Plan(many(rows, 5), ("H.v1",), replace(JUDGE, in_flight=1)), Cut()
    most = Budget(JUDGE, Expected(JUDGE, store), 1.0).most(next(iter(plan)))
    with_room = max(6.5 * most, float(estimate(plan, store)["live_low"].sum()))
    outcome = go(plan, store, provider, max_usd=with_room)
    assert "max_usd" in outcome.stopped and provider.asked <= with_room / most + 1


@pytest.mark.parametrize("cap", [-1, 0, "100"])
def test_a_cap_that_is_none_does_not_lower_the_estimate(rows, store, cap):
    plain, odd = (
        estimate(Plan(rows, ("C.v1",), replace(JUDGE, send=send)), store)["live"].sum()
        for send in ({}, {"max_tokens": cap})
    )
    assert plain == odd > 0


def test_a_batch_is_cut_to_the_budget(rows, tmp_path):
    from lib.batch import execute_batches

    store = Store(tmp_path / "b.sqlite", recorded=())
    with Fakes(status="running") as server:
        judge = replace(JUDGE, base_url=server.base_url)
        plan = Plan(many(rows, 10), ("C.v1",), judge)
        with pytest.raises(ValueError, match="would cost at least"):
            asyncio.run(execute_batches(plan, store, max_usd=0.0))
        budget = Budget(judge, Expected(judge, store), 1.0)
        ten = sum(budget.most(call, batch=True) for call in list(plan)[:10])
        with_room = max(ten * 1.001, float(estimate(plan, store)["batch_low"].sum()))
        outcome = asyncio.run(execute_batches(plan, store, max_usd=with_room))
    assert "max_usd" in outcome.stopped and 10 <= outcome.sent < 40
    assert sum(len(each["requests"]) for each in server.batches.values()) == outcome.sent


# Pace.


def test_the_ceiling_falls_on_429_rises_with_success_and_keeps_to_the_entry():
    async def run():
        pace = Pace(replace(JUDGE, in_flight=16))
        began = time.monotonic()
        pace.too_much(began, None)
        assert pace.limit == 8
        pace.too_much(began, None)  # it was under way at the cut: it says nothing new
        assert pace.limit == 8
        pace.too_much(time.monotonic(), None)
        assert pace.limit == 4
        for _ in range(10):
            pace.too_much(time.monotonic(), None)
        assert pace.limit == 1
        for _ in range(500):
            pace.answered()
        assert pace.limit == 16

    asyncio.run(run())


def test_no_more_calls_are_under_way_than_the_ceiling():
    async def run():
        pace, now, most = Pace(replace(JUDGE, in_flight=4)), 0, 0

        async def call(number):
            nonlocal now, most
            async with pace.turn(0) as began:
                now += 1
                most = max(most, now)
                await asyncio.sleep(0.001)
                now -= 1
            pace.too_much(began, None) if number == 20 else pace.answered()

        await asyncio.gather(*(call(number) for number in range(60)))
        return most

    assert asyncio.run(run()) == 4


def test_a_cancelled_wait_gives_its_place_to_the_next():
    async def run():
        pace = Pace(replace(JUDGE, in_flight=1))

        async def call(seconds):
            async with pace.turn(0):
                await asyncio.sleep(seconds)
            return True

        first, second = asyncio.create_task(call(0.05)), asyncio.create_task(call(0))
        third = asyncio.create_task(call(0))
        await asyncio.sleep(0.01)
        second.cancel()
        return await asyncio.wait_for(asyncio.gather(first, third), 5)

    assert asyncio.run(run()) == [True, True]


@pytest.mark.parametrize(
    ("limits", "calls", "tokens", "least"),
    [
        ({"requests_per_minute": 600}, 6, 0, 0.5),
        ({"tokens_per_minute": 60_000}, 12, 500, 0.9),
        ({"tokens_per_minute": 60_000}, 2, 3_000, 0.9),
        # One call larger than a burst still keeps to the minute.
        ({"tokens_per_minute": 60_000}, 1, 6_000, 0.9),
    ],
)
def test_requests_and_tokens_a_minute_are_kept(limits, calls, tokens, least):
    async def run():
        pace = Pace(replace(JUDGE, in_flight=50, **limits))

        async def call():
            async with pace.turn(tokens):
                pass

        began = time.monotonic()
        await asyncio.gather(*(call() for _ in range(calls)))
        return time.monotonic() - began

    assert least <= asyncio.run(run()) < least + 5


def test_a_retry_after_holds_every_call_back():
    async def run():
        pace = Pace(JUDGE)
        pace.too_much(time.monotonic(), 0.3)
        began = time.monotonic()
        async with pace.turn(0):
            return time.monotonic() - began

    assert asyncio.run(run()) >= 0.29


def test_a_storm_of_429_ends_in_answers_with_fewer_calls_under_way(rows, store):
    class Busy(Priced):
        """Takes three calls at a time."""

        now = most_after = 0

        async def ask(self, request):
            self.now += 1
            try:
                await asyncio.sleep(0.003)
                if self.now > 3:
                    raise CallError("HTTP 429", "transient", slow=True)
                return Reply(REPLY, "stop", "m", 1, 1)
            finally:
                self.now -= 1

    outcome = go(Plan(many(rows, 25), ("C.v1",), replace(JUDGE, in_flight=24)), store, Busy())
    assert (outcome.answered, outcome.failed) == (100, 0)


# Why there is no verdict.


@pytest.mark.parametrize(
    ("body", "reason", "hint"),
    [
        (
            completion(None, "length", completion_tokens=200, completion_tokens_details={"reasoning_tokens": 200}),
            "truncated",
            "thinking took 200 of 200 output tokens; raise or remove the output cap",
        ),
        (completion('{"verdi', "length"), "truncated", "the output cap came before the verdict"),
        (completion(None) | {"choices": []}, "empty", "the provider gave no text"),
        (completion("I like it."), "not_found", "look at the reply"),
        (completion(finish="content_filter"), "refused", "the provider withheld the answer"),
    ],
)
def test_each_reason_has_its_hint(rows, store, body, reason, hint):
    with Fakes(answers=[(200, {}, body)]) as server:
        plan = Plan(rows[:1], ("C.v1",), Judge("j", "openai", "m", base_url=server.base_url))
        asyncio.run(execute(plan, store))
    line = hint_table(judgments(plan, store), store).iloc[0]
    assert line["reason"] == reason and line["hint"].startswith(hint) and line["rows"] == 1


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
def test_an_answer_in_the_field_for_thinking_is_no_verdict_and_the_hint_says_where_it_is(rows, store, field):
    body = completion(None)
    body["choices"][0]["message"][field] = REPLY
    with Fakes(answers=[(200, {}, body)]) as server:
        plan = Plan(rows[:1], ("C.v1",), Judge("j", "openai", "m", base_url=server.base_url))
        asyncio.run(execute(plan, store))
    line = hint_table(judgments(plan, store), store).iloc[0]
    assert line["reason"] == "empty" and f"put the answer into {field};" in line["hint"]


@pytest.mark.parametrize("answer", ["<html>a proxy</html>", {"error": {"message": "an error with 200"}}])
def test_a_page_or_an_error_with_200_fails_with_a_hint(rows, store, answer):
    with Fakes(answers=[(200, {}, answer)] * 9) as server:
        plan = Plan(rows[:1], ("C.v1",), Judge("j", "openai", "m", base_url=server.base_url))
        asyncio.run(execute(plan, store))
    line = hint_table(judgments(plan, store), store).iloc[0]
    assert line["reason"] == "failed" and ("check base_url" in line["hint"] or "an error with 200" in line["hint"])


def test_rows_that_were_not_asked_say_so(rows, store):
    table = hint_table(judgments(Plan(rows, ("C.v1",), JUDGE), store), store)
    assert table[["reason", "rows", "hint"]].values.tolist() == [
        ["not_asked", 4, "not asked yet; run this notebook again"]
    ]
