"""The run engine: only what is missing is asked, failures are kept and re-asked, a kill loses nothing."""

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from dataclasses import replace

import pandas as pd
import pytest

from lib import attempts, engine
from lib.judges import Judge
from lib.parsing import REASONS
from lib.plan import CHUNK, Plan, Setting, judged_chunks, judgments, survey
from lib.providers import CallError, Reply
from lib.recorded import read_recorded
from lib.run import execute
from lib.store import Store
from tests.loopback import REPLY, Loopback, completion

JUDGE = Judge("fake", "openai", "m", in_flight=3)


class Fake:
    """A provider that answers from a function and counts what it is asked."""

    sdk = "fake 1"

    def __init__(self, answer=lambda number: REPLY):
        self._answer, self.asked, self.most, self._now = answer, [], 0, 0

    async def ask(self, request):
        self.asked.append(request["messages"][1]["content"] + str(request["repeat"]))
        number = len(self.asked)
        self._now += 1
        self.most = max(self.most, self._now)
        await asyncio.sleep(0.002)
        self._now -= 1
        answer = self._answer(number)
        if isinstance(answer, Exception):
            raise answer
        return Reply(answer, "stop", "m-2026", 10, 5, raw="body \ud83d")

    async def close(self):
        pass


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "calls.sqlite", recorded=())


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch):
    monkeypatch.setattr(attempts, "wait", lambda state: 0)
    monkeypatch.setattr(engine, "_HELD_S", 0.05)


def go(plan, store, provider=None, **named):
    return asyncio.run(execute(plan, store, provider, **named))


def many(rows, n):
    """The rows n times over, each copy with its own text and question."""
    copies = [
        rows.assign(question_id=rows["question_id"] + f"-{i}", candidate=rows["candidate"] + f" {i}")
        for i in range(n)
    ]
    frame = pd.concat(copies, ignore_index=True)
    return frame.assign(row_id="asqa/" + frame["question_id"] + "/" + frame["kind"])


def test_a_run_asks_everything_once_and_a_second_one_nothing(rows, store):
    plan, fake = Plan(rows, ("C.v1", "H.v1"), JUDGE), Fake()
    assert vars(survey(plan, store)) == {"asked": 8, "calls": 8, "in_store": 0, "recorded": 0, "missing": 8}
    outcome = go(plan, store, fake)
    assert (outcome.answered, outcome.failed, outcome.missing) == (8, 0, 0)
    assert go(plan, store, fake).answered == 0 and len(fake.asked) == 8
    assert survey(plan, store).in_store == 8


def test_only_what_is_new_is_asked_when_a_plan_grows(rows, store):
    fake = Fake()
    go(Plan(rows[:2], ("C.v1",), JUDGE), store, fake)
    go(Plan(rows, ("C.v1", "R.v1"), JUDGE, settings={"primary": Setting(JUDGE, ("C.v1", "R.v1"), 2)}), store, fake)
    assert len(fake.asked) == 2 + 14


def test_equal_requests_are_one_call_and_still_two_judgments(rows, store):
    twice = pd.concat([rows, rows.assign(row_id=rows["row_id"] + "-again")], ignore_index=True)
    plan, fake = Plan(twice, ("C.v1",), JUDGE), Fake()
    assert (survey(plan, store).asked, survey(plan, store).calls) == (8, 4)
    go(plan, store, fake)
    assert len(fake.asked) == 4 and len(judgments(plan, store)) == 8


def test_no_more_calls_are_under_way_than_the_judge_allows(rows, store):
    fake = Fake()
    go(Plan(many(rows, 10), ("C.v1",), JUDGE), store, fake)
    assert fake.most == 3 and len(fake.asked) == 40


def test_a_limit_stops_after_so_many_calls(rows, store):
    fake = Fake()
    outcome = go(Plan(rows, ("C.v1", "H.v1"), JUDGE), store, fake, limit=3)
    assert (outcome.answered, outcome.missing, len(fake.asked)) == (3, 5, 3)


def test_a_transient_failure_is_asked_again_and_its_attempts_are_stored(rows, store):
    fake = Fake(lambda number: CallError("HTTP 503", "transient") if number <= 2 else REPLY)
    plan = Plan(rows[:1], ("C.v1",), JUDGE)
    assert go(plan, store, fake).answered == 1
    key = next(iter(plan)).key
    assert store.get([key])[key].attempts == 3


def test_a_call_that_fails_stays_unjudged_with_its_reason_and_is_asked_again_next_time(rows, store):
    def broken(number):
        return CallError("HTTP 400: too long", "row") if number == 1 else REPLY

    plan = Plan(rows, ("C.v1",), JUDGE)
    outcome = go(plan, store, Fake(broken))
    table = judgments(plan, store)
    assert (outcome.answered, outcome.failed, outcome.missing) == (3, 1, 1)
    assert table["reason"].tolist().count("failed") == 1 and len(table) == 4
    assert table.loc[table["reason"] == "failed", ["status", "correct"]].values.tolist() == [["unjudged", False]]
    assert go(plan, store, Fake()).answered == 1
    assert (judgments(plan, store)["status"] == "whole").all()


def test_a_fatal_failure_stops_the_run_and_keeps_what_had_arrived(rows, store):
    fake = Fake(lambda number: CallError("HTTP 401: no such key", "fatal") if number == 5 else REPLY)
    plan = Plan(many(rows, 10), ("C.v1",), JUDGE)
    with pytest.raises(CallError, match="401"):
        go(plan, store, fake)
    assert len(fake.asked) < 12 and len(store) == len(fake.asked) - 1
    assert not store._db.execute("SELECT * FROM claims").fetchall()


def test_a_server_that_is_gone_stops_the_run_instead_of_failing_every_call(rows, store):
    fake = Fake(lambda number: CallError("connection refused", "transient"))
    with pytest.raises(CallError, match=rf"last {engine.GIVE_UP} calls failed.*connection refused"):
        go(Plan(many(rows, 50), ("C.v1",), JUDGE), store, fake)
    assert len(fake.asked) <= (engine.GIVE_UP + JUDGE.in_flight) * attempts.ATTEMPTS


def test_a_store_that_cannot_be_written_stops_the_run_with_its_error(rows, store, monkeypatch):
    calls = []

    def full(self, batch, failures=()):
        calls.append(len(batch))
        raise OSError("disk full")

    monkeypatch.setattr(Store, "put", full)
    with pytest.raises(OSError, match="disk full"):
        go(Plan(rows, ("C.v1",), JUDGE), store, Fake())


def filling(monkeypatch, fake, after, error=None):
    """From so many calls on the disk takes nothing, as far as the store's replies go."""
    import sqlite3

    put = Store.put

    def full(self, batch, failures=()):
        if batch and len(fake.asked) > after:
            raise error or sqlite3.OperationalError("database or disk is full")
        put(self, batch, failures)

    monkeypatch.setattr(Store, "put", full)
    return lambda: monkeypatch.setattr(Store, "put", put)


def test_replies_that_the_disk_does_not_take_go_to_a_file_and_the_next_run_takes_them_in(
    rows, store, tmp_path, monkeypatch
):
    """The calls under way arrive too, nothing more is asked, and the error says where the replies are."""
    fake = Fake()
    mend, plan = filling(monkeypatch, fake, 12), Plan(many(rows, 25), ("C.v1",), JUDGE)
    with pytest.raises(sqlite3.OperationalError, match="full") as caught:
        go(plan, store, fake)
    assert "the next run takes them in by itself" in caught.value.__notes__[0]
    asked, spilled = len(fake.asked), list(tmp_path.glob("*.spilled-*.jsonl.gz"))
    assert asked < 20 and len(spilled) == 1
    assert all(reply.raw == "body \ud83d" for reply in read_recorded(spilled[0]))
    mend()
    again = Fake()
    outcome = go(plan, store, again)
    assert (outcome.missing, len(again.asked), len(store)) == (0, 100 - asked, 100)
    assert not list(tmp_path.glob("*.spilled-*"))


def test_where_there_is_no_room_beside_the_store_another_folder_is_named(rows, store, tmp_path, monkeypatch):
    import tempfile

    from lib import spilled

    (tmp_path / "elsewhere").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "elsewhere"))
    write = spilled.write_recorded

    def no_room(path, calls, whole):
        if path.parent == tmp_path:
            raise OSError("no space left")
        write(path, calls, whole)

    monkeypatch.setattr(spilled, "write_recorded", no_room)
    fake = Fake()
    filling(monkeypatch, fake, 5)
    with pytest.raises(sqlite3.OperationalError) as caught:
        go(Plan(many(rows, 5), ("C.v1",), JUDGE), store, fake)
    assert "elsewhere" in caught.value.__notes__[0] and list((tmp_path / "elsewhere").iterdir())


def test_a_second_stop_while_the_last_replies_are_committed_loses_none(rows, store, tmp_path, monkeypatch):
    fake = Fake()
    mend = filling(monkeypatch, fake, 12, KeyboardInterrupt())
    plan = Plan(many(rows, 25), ("C.v1",), JUDGE)
    with pytest.raises(KeyboardInterrupt):
        go(plan, store, fake)
    mend()
    asked, again = len(fake.asked), Fake()
    assert go(plan, store, again).missing == 0
    # At most the calls under way at the stop are asked again.
    assert len(again.asked) <= 100 - asked + JUDGE.in_flight


def test_a_stop_while_the_store_is_locked_names_the_file_and_loses_nothing(rows, store, tmp_path, capsys):
    store.execute("PRAGMA busy_timeout = 50")
    other, fake, plan = sqlite3.connect(tmp_path / "calls.sqlite", isolation_level=None), Fake(), None
    plan = Plan(many(rows, 25), ("C.v1",), JUDGE)

    async def stopped():
        task = asyncio.create_task(execute(plan, store, fake))
        while len(fake.asked) < 20:
            await asyncio.sleep(0.001)
        other.execute("BEGIN IMMEDIATE")
        await asyncio.sleep(0.2)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(task, 10)

    asyncio.run(stopped())
    other.execute("ROLLBACK")
    assert "replies could not be stored; they stand in" in capsys.readouterr().out
    asked, again = len(fake.asked), Fake()
    assert go(plan, store, again).missing == 0
    assert len(again.asked) <= 100 - asked + JUDGE.in_flight


def test_a_disk_that_is_full_when_calls_are_claimed_lets_those_under_way_arrive(rows, store, monkeypatch):
    fake, claim = Fake(), Store.claim

    def full(self, keys, owner=None):
        if len(fake.asked) > 5:
            raise sqlite3.OperationalError("database or disk is full")
        return claim(self, keys, owner)

    monkeypatch.setattr(Store, "claim", full)
    with pytest.raises(sqlite3.OperationalError, match="full"):
        go(Plan(many(rows, 25), ("C.v1",), JUDGE), store, fake)
    assert len(store) == len(fake.asked) < 40


def test_a_provider_that_cannot_be_closed_leaves_no_claim_behind(rows, store, monkeypatch):
    class Broken(Fake):
        async def close(self):
            raise RuntimeError("cannot close")

    monkeypatch.setattr("lib.run.open_provider", lambda judge: Broken(lambda n: CallError("no", "fatal")))
    with pytest.raises(RuntimeError, match="cannot close"):
        go(Plan(rows, ("C.v1",), JUDGE), store)
    assert go(Plan(rows, ("C.v1",), JUDGE), store, Fake()).missing == 0


def test_a_limit_is_filled_from_what_is_free_while_others_hold_calls(rows, store, tmp_path):
    other, plan = Store(tmp_path / "calls.sqlite", recorded=()), Plan(rows, ("C.v1", "H.v1"), JUDGE)
    other.claim([call.key for call in plan][:2])
    fake = Fake()
    outcome = asyncio.run(asyncio.wait_for(execute(plan, store, fake, limit=2), 10))
    assert (outcome.answered, len(fake.asked)) == (2, 2)


def test_what_a_batch_takes_in_the_meantime_is_counted_as_missing(rows, store, monkeypatch):
    plan = Plan(rows, ("C.v1",), JUDGE)
    last = [call.key for call in plan][-1]
    store.claim([last])

    async def both():
        ours = asyncio.create_task(execute(plan, store, Fake()))
        await asyncio.sleep(0.2)
        monkeypatch.setattr(Store, "in_batches", lambda self, keys: {last} & set(keys))
        return await asyncio.wait_for(ours, 10)

    outcome = asyncio.run(both())
    assert (outcome.answered, outcome.missing, outcome.in_batches) == (3, 1, 1)


def test_a_fault_of_an_adapter_is_one_calls_failure_and_the_others_are_kept(rows, store):
    fake = Fake(lambda number: RuntimeError("odd") if number == 3 else REPLY)
    outcome = go(Plan(many(rows, 5), ("C.v1",), JUDGE), store, fake)
    assert (outcome.answered, outcome.failed) == (19, 1)
    assert "RuntimeError: odd" in store._db.execute("SELECT error FROM failures").fetchone()[0]


def test_an_adapter_that_always_breaks_stops_the_run(rows, store):
    fake = Fake(lambda number: RuntimeError("odd"))
    with pytest.raises(CallError, match=f"last {engine.GIVE_UP} calls failed.*odd"):
        go(Plan(many(rows, 20), ("C.v1",), JUDGE), store, fake)
    assert len(fake.asked) < engine.GIVE_UP + JUDGE.in_flight


def test_a_call_that_never_answers_is_given_up_and_asked_again(rows, store, monkeypatch):
    monkeypatch.setattr(attempts, "ATTEMPT_S", 0.2)

    class Hangs(Fake):
        async def ask(self, request):
            reply = await super().ask(request)
            await asyncio.sleep(0 if len(self.asked) > 1 else 60)
            return reply

    fake = Hangs()
    assert go(Plan(rows[:1], ("C.v1",), JUDGE), store, fake).answered == 1 and len(fake.asked) == 2


def test_a_provider_that_asks_for_a_long_wait_stops_the_run_to_be_resumed(rows, store):
    fake = Fake(lambda number: CallError("HTTP 429", "transient", 3600) if number == 2 else REPLY)
    with pytest.raises(CallError, match="asks to wait 3600 s; run again then"):
        go(Plan(many(rows, 5), ("C.v1",), JUDGE), store, fake)
    assert len(store) >= 1 and len(fake.asked) < 9


@pytest.mark.parametrize("limit", [-1, -5])
def test_a_negative_limit_is_refused_before_any_call(rows, store, limit):
    fake = Fake()
    with pytest.raises(ValueError, match="limit must be 0 or more"):
        go(Plan(rows, ("C.v1",), JUDGE), store, fake, limit=limit)
    assert not fake.asked


def test_a_store_that_another_program_locks_is_waited_for_and_nothing_is_lost(rows, store, tmp_path):
    import sqlite3

    store._db.execute("PRAGMA busy_timeout = 50")
    other = sqlite3.connect(tmp_path / "calls.sqlite", isolation_level=None, check_same_thread=False)

    class Locks(Fake):
        async def ask(self, request):
            if len(self.asked) == 1:
                other.execute("BEGIN IMMEDIATE")
                asyncio.get_running_loop().call_later(0.4, other.execute, "ROLLBACK")
            return await super().ask(request)

    judge = replace(JUDGE, provider="lexical", in_flight=4)  # a free judge claims nothing, so only the writer waits
    outcome = go(Plan(rows, ("H.v1",), judge), store, Locks())
    assert (outcome.answered, outcome.missing, len(store)) == (4, 0, 4)


def test_a_run_that_is_stopped_keeps_every_reply_that_arrived(rows, store):
    fake = Fake()
    plan = Plan(many(rows, 100), ("C.v1",), JUDGE)

    async def stopped():
        task = asyncio.create_task(execute(plan, store, fake))
        while len(fake.asked) < 40:
            await asyncio.sleep(0.001)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(stopped())
    # At most the calls under way at that moment have no reply.
    assert len(fake.asked) - JUDGE.in_flight <= len(store) <= len(fake.asked)
    had, again = len(store), Fake()
    go(plan, store, again)
    assert len(store) == 400 and len(again.asked) == 400 - had


def test_a_call_that_another_process_is_asking_is_waited_for_and_not_asked(rows, store, tmp_path):
    plan = Plan(rows, ("C.v1",), JUDGE)
    other = Store(tmp_path / "calls.sqlite", recorded=())
    held = [call.key for call in plan][:2]
    other.claim(held)

    async def both():
        fake = Fake()
        ours = asyncio.create_task(execute(plan, store, fake))
        await asyncio.sleep(0.3)
        assert len(fake.asked) == 2 and not ours.done()
        other.put(
            [
                replace(store.get([call.key])[call.key], key=key)
                for call, key in zip(list(plan)[2:], held, strict=True)
            ]
        )
        return await ours, fake

    outcome, fake = asyncio.run(both())
    assert (outcome.answered, outcome.missing, len(fake.asked)) == (2, 0, 2)


def test_a_call_whose_other_owner_fails_is_taken_over(rows, store, tmp_path):
    plan = Plan(rows, ("C.v1",), JUDGE)
    other = Store(tmp_path / "calls.sqlite", recorded=())
    held = next(iter(plan))
    other.claim([held.key])

    async def both():
        ours = asyncio.create_task(execute(plan, store, Fake()))
        await asyncio.sleep(0.2)
        other.put_failure(held.key, held.text, "HTTP 500", "transient")
        return await ours

    assert asyncio.run(both()).answered == 4


def test_judgments_keep_the_order_of_the_plan_and_every_row(rows, store):
    plan = Plan(many(rows, 200), ("C.v1", "H.v1"), JUDGE)
    go(plan, store, Fake(), limit=CHUNK + 7)
    table = judgments(plan, store)
    assert table["key"].tolist() == [call.key for call in plan]
    assert table["reason"].eq("not_asked").sum() == len(plan) - CHUNK - 7
    assert [len(part) for part in judged_chunks(plan, store)] == [CHUNK, CHUNK, CHUNK, len(plan) - 3 * CHUNK]
    assert pd.concat(judged_chunks(plan, store), ignore_index=True).equals(table)


def test_judgments_have_the_same_columns_and_types_with_and_without_replies(rows, store):
    plan = Plan(rows, ("C.v1",), JUDGE)
    before = judgments(plan, store)
    go(plan, store, Fake())
    after = judgments(plan, store)
    assert before.dtypes.equals(after.dtypes) and list(before) == list(after)
    empty = judgments(Plan(rows[:0], ("C.v1",), JUDGE), store)
    assert empty.dtypes.drop("complexity").equals(after.dtypes.drop("complexity")) and not len(empty)
    assert not set(before["reason"]) & set(REASONS)


def test_unknown_usage_is_unknown_and_not_zero(rows, store):
    class Silent(Fake):
        async def ask(self, request):
            return Reply(REPLY, "stop", "m")

    plan = Plan(rows, ("C.v1",), JUDGE)
    go(plan, store, Silent())
    tokens = judgments(plan, store)[["tokens_in", "tokens_out", "tokens_reasoning", "tokens_cached"]]
    assert tokens.isna().all(axis=None)


def test_what_is_stored_names_the_model_that_answered_the_sdk_and_the_time(rows, store):
    plan = Plan(rows[:1], ("C.v1",), JUDGE)
    go(plan, store, Fake())
    call = store.get([next(iter(plan)).key]).popitem()[1]
    assert (call.model, call.sdk, call.tokens_in, call.tokens_out) == ("m-2026", "fake 1", 10, 5)
    assert call.at.endswith("Z") and call.latency_s > 0 and call.attempts == 1


# The openai adapter against a server on loopback.


def openai_judge(server, **more):
    return Judge("server", "openai", "m", base_url=server.base_url, send={"temperature": 0}, **more)


def test_what_the_entry_says_is_sent_and_nothing_else(rows, store):
    with Loopback() as server:
        go(Plan(rows[:1], ("C.v1",), openai_judge(server)), store)
    assert [set(body) for body in server.requests] == [{"model", "messages", "temperature"}]


def test_the_schema_goes_along_where_the_entry_asks_for_it(rows, store):
    with Loopback() as server:
        judge = openai_judge(server, structured="json_schema", schema_bounds={"list_items": 3})
        go(Plan(rows[:1], ("R.v1",), judge), store)
    schema = server.requests[0]["response_format"]["json_schema"]["schema"]
    assert schema["properties"]["missing_points"] == {"type": "array", "items": {"type": "string"}, "maxItems": 3}


def test_usage_and_finish_reason_come_through_and_the_body_is_kept(rows, store):
    details = {"completion_tokens_details": {"reasoning_tokens": 3}, "prompt_tokens_details": {"cached_tokens": 4}}
    with Loopback(answers=[(200, {}, completion("", "length", **details))]) as server:
        plan = Plan(rows[:1], ("C.v1",), openai_judge(server))
        go(plan, store)
    line = judgments(plan, store).iloc[0]
    names = ["tokens_in", "tokens_out", "tokens_reasoning", "tokens_cached", "finish_reason", "reason"]
    assert line[names].tolist() == [11, 7, 3, 4, "length", "truncated"]
    assert "reasoning_tokens" in store._db.execute("SELECT raw FROM calls").fetchone()[0]


@pytest.mark.parametrize(
    "answer",
    [
        (429, {"retry-after": "0"}, {"error": {"message": "slow down"}}),
        (503, {}, {"error": {"message": "busy"}}),
        (529, {}, "overloaded"),
        (200, {}, "<html>a proxy</html>"),
        (200, {}, {"error": {"message": "an error with 200"}}),
    ],
)
def test_a_passing_fault_is_asked_again(rows, store, answer):
    with Loopback(answers=[answer, answer]) as server:
        outcome = go(Plan(rows[:1], ("C.v1",), openai_judge(server)), store)
    assert (outcome.answered, sum(server.asked.values())) == (1, 3)


@pytest.mark.parametrize(
    "body",
    [
        {"choices": [None]},
        {"choices": ["x"]},
        {"choices": [{"message": "x", "finish_reason": ["stop"]}], "usage": [1], "model": {}},
        {"choices": [{"message": {"content": {"a": 1}}}], "usage": {"prompt_tokens_details": [1]}},
        {"choices": [{"message": {"content": None}}], "usage": {"prompt_tokens": 2**70, "completion_tokens": "x"}},
    ],
)
def test_a_body_of_an_odd_shape_is_stored_unjudged_and_unknown(rows, store, body):
    with Loopback(answers=[(200, {}, body)]) as server:
        plan = Plan(rows[:2], ("C.v1",), openai_judge(server, in_flight=1))
        assert go(plan, store).answered == 2
    table = judgments(plan, store)
    assert table["status"].tolist() == ["unjudged", "whole"]
    assert table.loc[0, ["tokens_in", "tokens_out", "tokens_reasoning", "tokens_cached"]].isna().all()


def test_half_an_emoji_at_the_end_of_a_cut_reply_loses_nothing(rows, store):
    with Loopback(
        answers=[(200, {}, completion('{"verdict": "supported", "rationale": "\ud83d', "length"))]
    ) as server:
        plan = Plan(many(rows, 3), ("C.v1",), openai_judge(server, in_flight=6))
        assert go(plan, store).answered == 12
    assert judgments(plan, store)["verdict"].notna().all()


def test_content_in_parts_is_joined(rows, store):
    parts = [{"type": "text", "text": '{"verdict": '}, {"type": "image"}, {"type": "text", "text": '"supported"}'}]
    with Loopback(answers=[(200, {}, completion(parts))]) as server:
        plan = Plan(rows[:1], ("C.v1",), openai_judge(server))
        go(plan, store)
    assert judgments(plan, store)["verdict"].tolist() == ["supported"]


@pytest.mark.parametrize("header", ["²", "soon", "Wed, 21 Oct 2026 07:28:00 GMT", "-5"])
def test_a_retry_after_that_is_no_number_is_not_minded(rows, store, header):
    with Loopback(answers=[(429, {"retry-after": header}, {"error": {"message": "slow"}})]) as server:
        assert go(Plan(rows[:1], ("C.v1",), openai_judge(server)), store).answered == 1


def test_a_400_about_one_rows_text_is_that_rows_failure(rows, store):
    answers = [(400, {}, {"error": {"message": "blocked by the content filter", "code": "content_filter"}})]
    with Loopback(answers=answers) as server:
        plan = Plan(many(rows, 3), ("C.v1",), openai_judge(server, in_flight=2))
        outcome = go(plan, store)
        assert (outcome.answered, outcome.failed) == (11, 1)
        assert go(plan, store).missing == 0


def test_a_key_that_the_server_echoes_reaches_neither_store_nor_error(rows, store, monkeypatch):
    monkeypatch.setenv("SENTINEL_API_KEY", "sk-test-sentinel-0001")
    echo = {"error": {"message": "Incorrect API key: Bearer sk-test-sentinel-0001"}}
    reply = {**completion(), "headers": "Bearer sk-test-sentinel-0001"}
    with Loopback(answers=[(200, {}, reply), (401, {}, echo)]) as server:
        judge = openai_judge(server, in_flight=1, key_env="SENTINEL_API_KEY")
        with pytest.raises(CallError, match=r"401.*\[key\]") as caught:
            go(Plan(rows, ("C.v1",), judge), store)
    dump = "\n".join(store._db.iterdump()) + str(caught.value)
    assert "sentinel-0001" not in dump and "[key]" in dump


@pytest.mark.parametrize(
    ("status", "message"),
    [(400, "no such parameter"), (400, "the model `m` does not exist"), (401, "no"), (403, "no"), (404, "no")],
)
def test_a_refused_request_stops_the_run_at_once(rows, store, status, message):
    answers = [(status, {}, {"error": {"message": message}})] * 9
    with Loopback(answers=answers) as server, pytest.raises(CallError, match=f"HTTP {status}.*{message}"):
        go(Plan(rows, ("C.v1",), openai_judge(server, in_flight=1)), store)
    assert sum(server.asked.values()) == 1 and len(store) == 0


def test_a_prompt_beyond_the_context_is_one_rows_failure(rows, store):
    answers = [(400, {}, {"error": {"message": "the request exceeds the available context size"}})]
    with Loopback(answers=answers) as server:
        outcome = go(Plan(rows, ("C.v1",), openai_judge(server, in_flight=1)), store)
    assert (outcome.answered, outcome.failed) == (3, 1)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (completion(None), "empty"),
        (completion("", "length"), "truncated"),
        (completion("{}", "content_filter"), "refused"),
        ({**completion(), "choices": []}, "empty"),
    ],
)
def test_a_reply_without_a_verdict_is_stored_unjudged_and_not_asked_again(rows, store, body, reason):
    with Loopback(answers=[(200, {}, body)]) as server:
        plan = Plan(rows[:1], ("C.v1",), openai_judge(server))
        go(plan, store)
        assert go(plan, store).answered == 0
    assert sum(server.asked.values()) == 1
    assert judgments(plan, store)["reason"].tolist() == [reason]


def test_a_server_that_cuts_the_connection_is_asked_again(rows, store):
    with Loopback() as server:
        url = server.base_url
    with pytest.raises(CallError, match=f"calls failed.*{url} gave no answer: .*[Cc]onnect"):
        go(Plan(many(rows, 3), ("C.v1",), Judge("gone", "openai", "m", base_url=url)), store)
    assert (
        len(
            store.failures(
                [call.key for call in Plan(many(rows, 3), ("C.v1",), Judge("gone", "openai", "m", base_url=url))]
            )
        )
        > 0
    )


_KILLED = """
import asyncio, pickle, sys
from lib.run import execute
from lib.store import Store
plan = pickle.load(open(sys.argv[1], "rb"))
asyncio.run(execute(plan, Store(sys.argv[2], recorded=())))
"""


def in_a_process(plan, path):
    """The command that executes a plan on a store in a process of its own."""
    pickled = path.with_name("plan.pickle")
    pd.to_pickle(plan, pickled)
    return [sys.executable, "-c", _KILLED, str(pickled), str(path)]


def test_kill_minus_nine_at_any_moment_loses_no_reply_and_asks_none_twice(rows, tmp_path):
    path = tmp_path / "calls.sqlite"
    with Loopback(delay=0.01) as server:
        plan = Plan(many(rows, 60), ("C.v1",), openai_judge(server, in_flight=8))
        command = in_a_process(plan, path)
        had: list[int] = []
        for enough in (20, 90, 150):
            process = subprocess.Popen(command)
            while sum(server.answered.values()) < enough and process.poll() is None:
                time.sleep(0.002)
            assert process.poll() is None, "it ended before it was killed"
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
            store = Store(path, recorded=())
            had.append(len(store))
            store.close()
        asked_before_the_end = Counter(server.asked)
        assert subprocess.run(command).returncode == 0
    store = Store(path, recorded=())
    # Nothing lost: what the server had answered when it was killed is stored, apart from the 8 under way each time.
    assert all(now >= enough - 3 * 8 for now, enough in zip(had, (20, 90, 150), strict=True)), had
    assert len(store) == 240 and survey(plan, store).missing == 0
    # Nothing twice: a call is repeated only if it was under way at one of the kills.
    repeated = sum(server.asked.values()) - 240
    assert 0 <= repeated <= 3 * 8
    assert asked_before_the_end and max(server.asked.values()) <= 4


def test_two_processes_at_once_ask_no_call_twice(rows, tmp_path):
    path = tmp_path / "calls.sqlite"
    with Loopback(delay=0.01) as server:
        plan = Plan(many(rows, 60), ("C.v1",), openai_judge(server, in_flight=4))
        command = in_a_process(plan, path)
        processes = [subprocess.Popen(command) for _ in range(2)]
        assert [process.wait(60) for process in processes] == [0, 0]
    assert set(server.asked.values()) == {1} and len(server.asked) == 240
    assert len(Store(path, recorded=())) == 240


# What an attack found.


def test_two_runs_at_once_on_one_store_ask_each_call_once(rows, store):
    plan, fake = Plan(many(rows, 5), ("C.v1",), JUDGE), Fake()

    async def both():
        return await asyncio.gather(execute(plan, store, fake), execute(plan, store, fake))

    outcomes = asyncio.run(both())
    assert len(fake.asked) == 20 == len(store) and all(outcome.missing == 0 for outcome in outcomes)


def test_rows_that_are_refused_for_good_do_not_keep_a_plan_from_ending(rows, store):
    """More of them than end a run on a dead server: what is refused is refused for its own text."""

    class Refuses(Fake):
        async def ask(self, request):
            reply = await super().ask(request)
            if " 0" in request["messages"][1]["content"].rsplit("<candidate", 1)[1]:
                raise CallError("HTTP 400: flagged", "row")
            return reply

    plan = Plan(many(rows, 6), ("C.v1", "H.v1", "R.v1", "B.v1"), JUDGE)
    first = go(plan, store, Refuses())
    assert first.failed >= engine.GIVE_UP * 2 and first.answered + first.failed == len(plan)
    again = go(plan, store, Refuses())
    assert (again.answered, again.failed) == (0, first.failed)


def test_a_400_that_every_row_gets_stops_a_run_that_never_had_an_answer(rows, store):
    fake = Fake(lambda number: CallError("HTTP 400: something odd", "row", unsure=True))
    with pytest.raises(CallError, match="last 8 calls failed.*something odd"):
        go(Plan(many(rows, 50), ("C.v1",), JUDGE), store, fake)
    assert len(fake.asked) <= engine.GIVE_UP + JUDGE.in_flight


def test_a_store_that_is_locked_when_claims_are_renewed_or_made_loses_no_reply(rows, store, tmp_path, monkeypatch):
    import sqlite3

    monkeypatch.setattr(engine, "_RENEW_S", 0.05)
    monkeypatch.setattr("lib.store._LOCKED_S", 0.05)
    store._db.execute("PRAGMA busy_timeout = 10")
    other = sqlite3.connect(tmp_path / "calls.sqlite", isolation_level=None, check_same_thread=False)

    class Locks(Fake):
        async def ask(self, request):
            if len(self.asked) == 2:
                other.execute("BEGIN IMMEDIATE")
                asyncio.get_running_loop().call_later(0.6, other.execute, "ROLLBACK")
            return await super().ask(request)

    fake = Locks(lambda number: CallError("HTTP 400: odd", "row") if number == 4 else REPLY)
    outcome = go(Plan(many(rows, 5), ("H.v1",), JUDGE), store, fake)
    assert (outcome.answered, outcome.failed, len(fake.asked)) == (19, 1, 20)


def test_a_long_retry_after_stops_a_run_although_others_wait_for_their_turn(rows, store, monkeypatch):
    fake = Fake(lambda number: CallError("HTTP 429", "transient", 3600, slow=True) if number == 4 else REPLY)

    async def timed():
        with pytest.raises(CallError, match="asks to wait 3600 s"):
            await asyncio.wait_for(execute(Plan(many(rows, 10), ("C.v1",), JUDGE), store, fake), 20)

    asyncio.run(timed())


def test_a_full_disk_is_reported_as_what_it_is(tmp_path):
    import sqlite3

    store = Store(tmp_path / "c.sqlite", recorded=())

    def full():
        with store.transaction():
            store.execute("ROLLBACK")  # as SQLite does by itself when the disk is full
            raise sqlite3.OperationalError("database or disk is full")

    with pytest.raises(sqlite3.OperationalError, match="disk is full"):
        full()
