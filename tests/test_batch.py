"""Batches through the three SDKs on loopback: durable, joined by id, nothing lost and nothing paid twice."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace

import pandas as pd
import pytest

from lib import attempts, batch, ledger
from lib.batch import execute_batches
from lib.cost import estimate
from lib.hints import hint_table
from lib.judges import Judge
from lib.plan import Plan, judgments, missing_keys
from lib.providers import CallError
from lib.run import execute
from lib.store import Store
from tests.fakes import Fakes, content, message
from tests.loopback import completion

PROVIDERS = ("openai", "anthropic", "google")


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    monkeypatch.setattr(attempts, "wait", lambda state: 0)
    monkeypatch.setattr(batch, "POLL_S", 0.05)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "calls.sqlite"


@pytest.fixture
def store(path):
    return Store(path, recorded=())


def judge_at(server, provider, **more):
    url = server.base_url if provider == "openai" else server.root
    return Judge("j", provider, "m", base_url=url, **({"open_cap": 16000} if provider == "anthropic" else {}), **more)


def go(plan, store, **named):
    return asyncio.run(execute_batches(plan, store, **named))


def counts(outcome):
    return outcome.answered, outcome.failed, outcome.sent, outcome.in_batches, outcome.missing


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_batch_is_sent_and_collected_by_running_again(rows, path, provider):
    with Fakes(status="running") as server:
        plan = Plan(rows, ("C.v1", "H.v1"), judge_at(server, provider))
        assert counts(go(plan, Store(path, recorded=()))) == (0, 0, 8, 8, 8)
        # Another kernel, tomorrow.
        store = Store(path, recorded=())
        assert counts(go(plan, store)) == (0, 0, 0, 8, 8)
        assert judgments(plan, store)["reason"].unique().tolist() == ["not_asked"]
        server.batches[next(iter(server.batches))]["status"] = "ended"
        assert counts(go(plan, store)) == (8, 0, 0, 0, 0)
        assert counts(go(plan, store)) == (0, 0, 0, 0, 0)
    assert len(server.batches) == 1 and not server.asked
    table = judgments(plan, store)
    assert (table["verdict"] == "supported").all() and (table["tokens_in"] == 11).all()
    stored = store.get(table["key"])
    assert {reply.batch for reply in stored.values()} == set(server.batches)
    assert {len(key) for key in next(iter(server.batches.values()))["requests"]} == {64}


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_batch_reply_has_the_key_of_a_live_one_and_the_same_body_is_sent(rows, store, provider):
    with Fakes() as server:
        plan = Plan(rows, ("R.v1",), judge_at(server, provider, structured="json_schema"))
        asyncio.run(execute(replace(plan, rows=rows[:2]), store))
        assert counts(go(plan, store)) == (0, 0, 2, 2, 2)
        live, sent = server.requests[0], next(iter(server.batches.values()))["requests"]
        keys = [call.key for call in plan]
        assert list(sent) == keys[2:]
        batched = sent[keys[2]]
        skip = {"messages", "contents"}
        assert {name: value for name, value in batched.items() if name not in skip} == {
            name: value for name, value in live.items() if name not in skip
        }
        assert counts(go(plan, store)) == (2, 0, 0, 0, 0)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_answers_in_reverse_order_are_joined_by_id(rows, store, provider):
    def named(lines):
        for number, line in enumerate(lines):
            text = json.dumps({"verdict": "supported" if number % 2 else "unsupported", "rationale": str(number)})
            body = {"openai": completion, "anthropic": message, "google": content}[provider](text)
            if provider == "openai":
                line["response"]["body"] = body
            elif provider == "anthropic":
                line["result"]["message"] = body
            else:
                line["response"] = body
        return lines[::-1]

    with Fakes() as server:
        server.change = named
        plan = Plan(rows, ("C.v1",), judge_at(server, provider))
        go(plan, store)
        go(plan, store)
    stored = store.get([call.key for call in plan])
    assert [json.loads(stored[call.key].text)["rationale"] for call in plan] == ["0", "1", "2", "3"]


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize(
    ("change", "said", "answered"),
    [
        (lambda lines: [*lines, altered(lines[0], "supported", "unsupported")], "1 came twice and differ", 3),
        (lambda lines: [*lines, altered(lines[0], find_id(lines[0]), "f" * 64)], "1 were not sent", 4),
    ],
)
def test_double_and_unknown_ids_stop_with_their_list_and_the_rest_is_stored(
    rows, store, provider, change, said, answered
):
    with Fakes() as server:
        server.change = change
        plan = Plan(rows, ("C.v1",), judge_at(server, provider))
        go(plan, store)
        with pytest.raises(CallError, match=rf"judge j: batch .*of its ids {said}[^(]*\([0-9a-f]{{64}}\)"):
            go(plan, store)
        assert len(store) == answered and len(judgments(plan, store)) == 4
        assert judgments(plan, store)["verdict"].notna().sum() == answered
        server.change = lambda lines: lines
        # Said once; then what has no reply is asked anew, and nothing else.
        again = go(plan, store)
        assert (again.sent, again.missing) == (4 - answered, 4 - answered)


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("change", [lambda lines: lines[1:], lambda lines: [], lambda lines: [*lines[:3], "torn"]])
def test_missing_lines_stop_with_their_list_and_are_fetched_again_and_not_paid_again(rows, store, provider, change):
    with Fakes() as server:
        server.change = change
        plan = Plan(rows, ("C.v1",), judge_at(server, provider))
        go(plan, store)
        for _ in range(2):
            with pytest.raises(CallError, match=r"are missing \([0-9a-f]{64}.*run again to fetch it again.*give_up"):
                go(plan, store)
        assert len(store) == len([line for line in change([1, 2, 3, 4]) if line != "torn"])
        server.change = lambda lines: lines
        outcome = go(plan, store)
        assert (outcome.missing, len(store), len(server.batches)) == (0, 4, 1)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_batch_that_lacks_lines_for_good_can_be_given_up(rows, store, provider):
    with Fakes() as server:
        server.change = lambda lines: lines[1:]
        plan = Plan(rows, ("C.v1",), judge_at(server, provider))
        go(plan, store)
        with pytest.raises(CallError, match="1 are missing"):
            go(plan, store)
        ledger.give_up(store, next(iter(server.batches)))
        assert go(plan, store).sent == 1


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_reply_beside_an_error_for_the_same_id_is_kept(rows, store, provider):
    with Fakes() as server:
        server.change = lambda lines: [*lines, LINES[provider][1](find_id(lines[0]))]
        plan = Plan(rows, ("C.v1",), judge_at(server, provider))
        go(plan, store)
        assert counts(go(plan, store)) == (4, 0, 0, 0, 0)


def altered(line, old, new):
    return json.loads(json.dumps(line).replace(old, new))


def find_id(line):
    return line.get("custom_id") or line["key"]


@pytest.mark.parametrize("provider", PROVIDERS)
def test_the_same_line_twice_is_one_reply(rows, store, provider):
    with Fakes() as server:
        server.change = lambda lines: lines + lines[:1]
        plan = Plan(rows, ("C.v1",), judge_at(server, provider))
        go(plan, store)
        assert counts(go(plan, store)) == (4, 0, 0, 0, 0)


LINES = {
    "openai": [
        lambda key: {"custom_id": key, "response": {"status_code": 400, "body": {"error": {
            "message": "maximum context length", "param": "messages"}}}, "error": None},
        lambda key: {"custom_id": key, "response": None, "error": {"code": "batch_expired", "message": "expired"}},
        lambda key: {"custom_id": key, "response": {"status_code": 500, "body": "oops"}, "error": None},
    ],
    "anthropic": [
        lambda key: {"custom_id": key, "result": {"type": "errored", "error": {"type": "error", "error": {
            "type": "invalid_request_error", "message": "prompt is too long: 9 tokens"}}}},
        lambda key: {"custom_id": key, "result": {"type": "expired"}},
        lambda key: {"custom_id": key, "result": {"type": "canceled"}},
    ],
    "google": [
        lambda key: {"key": key, "error": {"code": 3, "message": "The input token count exceeds the maximum"}},
        lambda key: {"key": key, "error": {"code": 13, "message": "internal"}},
        lambda key: {"key": key},
    ],
}  # fmt: skip


@pytest.mark.parametrize("provider", PROVIDERS)
def test_lines_that_failed_land_as_what_they_are_and_are_asked_again_by_the_next_run(rows, store, provider):
    with Fakes() as server:
        server.change = lambda lines: (
            [make(find_id(line)) for make, line in zip(LINES[provider], lines, strict=False)] + lines[3:]
        )
        plan = Plan(rows, ("C.v1",), judge_at(server, provider))
        go(plan, store)
        # Collected, and what failed is not sent again by the same run.
        assert counts(go(plan, store)) == (1, 3, 0, 0, 3)
        assert judgments(plan, store)["reason"].tolist() == ["failed"] * 3 + [""]
        assert len(store.failures(call.key for call in plan)) == 3
        server.change = lambda lines: lines
        assert go(plan, store).sent == 3
        assert counts(go(plan, store)) == (3, 0, 0, 0, 0)


def test_a_batch_with_only_an_error_file_lands_as_errors(rows, store):
    with Fakes() as server:
        server.change = lambda lines: [LINES["openai"][0](line["custom_id"]) for line in lines]
        server.error_file = lambda lines: lines
        plan = Plan(rows, ("C.v1",), judge_at(server, "openai"))
        go(plan, store)
        assert counts(go(plan, store)) == (0, 4, 0, 0, 4)
    assert not len(store) and (judgments(plan, store)["reason"] == "failed").all()


def test_output_and_error_file_are_read_together(rows, store):
    with Fakes() as server:
        server.error_file = lambda lines: [LINES["openai"][1](lines[0]["custom_id"])]
        plan = Plan(rows, ("C.v1",), judge_at(server, "openai"))
        go(plan, store)
        assert counts(go(plan, store)) == (3, 1, 0, 0, 1)


@pytest.mark.parametrize("status", ["expired", "cancelled"])
def test_an_expired_or_cancelled_batch_gives_what_it_has_and_lacks_the_rest(rows, store, status):
    with Fakes(status=status) as server:
        server.change = lambda lines: lines[:3]
        plan = Plan(rows, ("C.v1",), judge_at(server, "openai"))
        go(plan, store)
        assert counts(go(plan, store)) == (3, 1, 0, 0, 1)
        assert status in store.failures(call.key for call in plan).popitem()[1]


def test_a_batch_that_the_provider_failed_says_why_and_frees_its_calls(rows, store):
    with Fakes(status="failed") as server:
        plan = Plan(rows, ("C.v1",), judge_at(server, "openai"))
        go(plan, store)
        with pytest.raises(CallError, match="judge j: batch batch_1: failed: token_limit_exceeded.*batch_calls"):
            go(plan, store)
        server.status = "ended"
        assert go(plan, store).sent == 4


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_setting_that_every_line_refuses_stops_and_names_it(rows, store, provider):
    said = "temperature: Extra inputs are not permitted"
    line = {
        "openai": lambda key: {"custom_id": key, "error": None, "response": {"status_code": 400, "body": {
            "error": {"message": said, "param": "temperature"}}}},
        "anthropic": lambda key: {"custom_id": key, "result": {"type": "errored", "error": {"error": {
            "type": "invalid_request_error", "message": said}}}},
        "google": lambda key: {"key": key, "error": {"code": 400, "message": said}},
    }  # fmt: skip
    with Fakes() as server:
        server.change = lambda lines: [line[provider](find_id(each)) for each in lines]
        plan = Plan(rows, ("C.v1",), judge_at(server, provider, send={"temperature": 0}))
        go(plan, store)
        with pytest.raises(CallError, match="judge j: batch .*change temperature under send"):
            go(plan, store)
    assert (judgments(plan, store)["reason"] == "failed").all() and len(server.batches) == 1


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_refused_batch_frees_its_calls_and_names_the_remedy(rows, store, provider):
    with Fakes(answers=[(401, {}, {"error": {"message": "no"}})]) as server:
        plan = Plan(rows, ("C.v1",), judge_at(server, provider))
        with pytest.raises(CallError, match="judge j: HTTP 401.*check the key"):
            go(plan, store)
        assert not store.in_batches(call.key for call in plan)
        assert go(plan, store).sent == 4


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("state", ["running", "ended"])
def test_a_submission_that_broke_off_after_it_arrived_is_found_and_not_paid_twice(rows, path, provider, state):
    with Fakes(status=state) as server:
        server.cut = True
        store = Store(path, recorded=())
        plan = Plan(rows, ("C.v1",), judge_at(server, provider))
        with pytest.raises(CallError, match="may have taken it"):
            go(plan, store)
        assert len(server.batches) == 1 and ledger.batches(store, plan.judge)[0].wire is None
        again = go(plan, Store(path, recorded=()))
        assert again.sent == 0 and len(server.batches) == 1
        next(iter(server.batches.values()))["status"] = "ended"
        go(plan, store)
    assert len(store) == 4 and len(server.batches) == 1


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_submission_that_never_arrived_is_sent_anew_after_a_while(rows, store, provider, monkeypatch):
    with Fakes(answers=[(503, {}, {"error": {"message": "busy"}})]) as server:
        plan = Plan(rows, ("C.v1",), judge_at(server, provider))
        with pytest.raises(CallError, match="may have taken it"):
            go(plan, store)
        assert go(plan, store).sent == 0 and not server.batches
        monkeypatch.setattr(batch, "SETTLE_S", 0.0)
        assert go(plan, store).sent == 4


def test_anothers_batch_of_the_same_size_is_not_taken_for_ours(rows, store, monkeypatch):
    monkeypatch.setattr(batch, "SETTLE_S", 0.0)
    with Fakes(answers=[(503, {}, {"error": {"message": "busy"}})]) as server:
        plan = Plan(rows, ("C.v1",), judge_at(server, "anthropic"))
        with pytest.raises(CallError, match="may have taken it"):
            go(plan, store)
        server._new("claude", {f"other-{number}": {} for number in range(4)}, "")
        server.batches["msgbatch_1"]["status"] = "running"
        assert go(plan, store).sent == 0  # it may be ours
        server.batches["msgbatch_1"]["status"] = "ended"
        assert go(plan, store).sent == 4  # it is not


@pytest.mark.parametrize("provider", PROVIDERS)
def test_calls_in_a_batch_are_not_asked_live(rows, store, provider):
    with Fakes(status="running") as server:
        plan = Plan(rows, ("C.v1",), judge_at(server, provider))
        go(replace(plan, rows=rows[:2]), store)
        outcome = asyncio.run(execute(plan, store))
        assert (outcome.answered, outcome.in_batches, outcome.missing) == (2, 2, 2)
        assert sum(server.asked.values()) == 2


def test_a_plan_is_cut_into_batches_of_the_entrys_size(rows, store):
    with Fakes() as server:
        plan = Plan(rows, ("C.v1", "H.v1"), judge_at(server, "openai", batch_calls=3))
        assert go(plan, store).sent == 8
        assert [len(each["requests"]) for each in server.batches.values()] == [3, 3, 2]
        assert counts(go(plan, store)) == (8, 0, 0, 0, 0)


def test_a_plan_is_cut_by_the_providers_bytes(rows, store, monkeypatch):
    from lib.providers.openai import OpenAIChat

    monkeypatch.setattr(OpenAIChat, "most_bytes", 1)
    with Fakes() as server:
        go(Plan(rows, ("C.v1",), judge_at(server, "openai")), store)
    assert [len(each["requests"]) for each in server.batches.values()] == [1, 1, 1, 1]


def test_waiting_polls_until_the_batch_has_ended(rows, store):
    with Fakes(status="running") as server:
        plan = Plan(rows, ("C.v1",), judge_at(server, "anthropic"))

        async def ends():
            while server.polls < 3:
                await asyncio.sleep(0.02)
            server.batches["msgbatch_1"]["status"] = "ended"

        async def both():
            ending = asyncio.create_task(ends())
            outcome = await execute_batches(plan, store, wait_s=20)
            await ending
            return outcome

        began = time.monotonic()
        assert counts(asyncio.run(both())) == (4, 0, 4, 0, 0) and time.monotonic() - began < 15


def test_a_wait_goes_on_through_polls_that_fail_for_a_while(rows, store, monkeypatch):
    with Fakes(status="running") as server:
        plan = Plan(rows, ("C.v1",), judge_at(server, "anthropic"))
        known, failed = server._claude, []

        def shaky(wire):
            if server.polls > 2 and len(failed) < attempts.ATTEMPTS * 2:
                failed.append(wire)
                raise RuntimeError("the server answers 500")
            server.batches[wire]["status"] = "ended" if failed else "running"
            return known(wire)

        server._claude = shaky
        assert counts(asyncio.run(execute_batches(plan, store, wait_s=30))) == (4, 0, 4, 0, 0)
    assert len(failed) == attempts.ATTEMPTS * 2 and len(server.batches) == 1


def test_two_processes_that_collect_one_batch_store_each_reply_once(rows, path):
    with Fakes() as server:
        plan = Plan(rows, ("C.v1",), judge_at(server, "google"))
        one, two = Store(path, recorded=()), Store(path, recorded=())
        go(plan, one)

        async def both():
            return await asyncio.gather(execute_batches(plan, one), execute_batches(plan, two))

        outcomes = asyncio.run(both())
    assert sum(outcome.answered for outcome in outcomes) == 4 == len(one)
    assert one.execute("SELECT count(*) FROM failures").fetchone()[0] == 0


def test_two_processes_that_send_one_plan_send_each_call_once(rows, path):
    with Fakes(status="running") as server:
        plan = Plan(
            pd.concat([rows] * 5, ignore_index=True),
            ("C.v1", "H.v1", "R.v1"),
            judge_at(server, "openai", batch_calls=2),
        )
        stores = [Store(path, recorded=()) for _ in range(2)]

        async def both():
            return await asyncio.gather(*(execute_batches(plan, store) for store in stores))

        outcomes = asyncio.run(both())
    sent = [key for each in server.batches.values() for key in each["requests"]]
    assert len(sent) == len(set(sent)) == 12 == sum(outcome.sent for outcome in outcomes)


_CHILD = """
import asyncio, sys
import pandas as pd
from lib import batch
from lib.batch import execute_batches
from lib.judges import Judge
from lib.plan import Plan
from lib.store import Store
batch.POLL_S = 0.05
path, rows, provider, url, wait = sys.argv[1:]
cap = {"open_cap": 16000} if provider == "anthropic" else {}
frame = pd.read_json(rows, dtype=str).astype({"complexity": int})
plan = Plan(frame, ("C.v1",), Judge("j", provider, "m", base_url=url, **cap))
print("ready", flush=True)
asyncio.run(execute_batches(plan, Store(path, recorded=()), wait_s=float(wait)))
"""


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("moment", ["after submit, before the first poll", "between two polls"])
def test_a_process_killed_leaves_its_batch_to_the_next_one(rows, path, tmp_path, provider, moment):
    rows.to_json(tmp_path / "rows.json", orient="records")
    with Fakes(status="running") as server:
        judge = judge_at(server, provider)
        command = [sys.executable, "-c", _CHILD, path, tmp_path / "rows.json", provider, judge.base_url, "60"]
        child = subprocess.Popen(
            [str(each) for each in command], stdout=subprocess.PIPE, env={**os.environ}, text=True
        )
        child.stdout.readline()
        until = time.monotonic() + 30
        while (not server.batches if moment.startswith("after") else server.polls < 3) and time.monotonic() < until:
            time.sleep(0.002)
        child.send_signal(signal.SIGKILL)
        child.wait()
        assert len(server.batches) == 1
        store, plan = Store(path, recorded=()), Plan(rows, ("C.v1",), judge)
        next(iter(server.batches.values()))["status"] = "ended"
        for _ in range(2):
            go(plan, store)
        assert len(store) == 4 and len(server.batches) == 1 and not missing_keys(plan, store)


def test_a_judge_without_a_batch_api_says_so(rows, store):
    with pytest.raises(ValueError, match="judge l: lexical has no batch API; use mode live"):
        go(Plan(rows, ("C.v1",), Judge("l", "lexical", "m")), store)


def test_a_batch_that_is_gone_says_how_to_give_it_up(rows, store):
    with Fakes(status="running") as server:
        plan = Plan(rows, ("C.v1",), judge_at(server, "openai"))
        go(plan, store)
        gone = server.batches.popitem()[0]
        with pytest.raises(CallError, match=f"404.*give_up\\(store, '{gone}'\\)"):
            go(plan, store)
        ledger.give_up(store, gone)
        assert go(plan, store).sent == 4


def test_rows_in_a_batch_say_how_they_are_collected(rows, store):
    with Fakes(status="running") as server:
        plan = Plan(rows, ("C.v1",), judge_at(server, "openai"))
        go(plan, store)
    assert hint_table(judgments(plan, store), store)["hint"].tolist() == [
        "in a batch under way; run this notebook again with mode batch to collect it"
    ]


def test_what_was_sent_is_priced(rows, store):
    price = {"read": "2026-11-30", "input": 2, "output": 8, "batch_input": 1, "batch_output": 4}
    with Fakes(status="running") as server:
        plan = Plan(rows, ("C.v1",), judge_at(server, "openai", price=price))
        foreseen = float(estimate(plan, store)["batch"].sum())
        assert go(plan, store, max_usd=5.0).dollars_sent == pytest.approx(foreseen, abs=1e-5)
        assert estimate(plan, store)["in_batches"].tolist() == [4]


def test_the_table_of_batches_shows_where_each_stands(rows, store):
    with Fakes() as server:
        plan = Plan(rows, ("C.v1",), judge_at(server, "openai"))
        assert ledger.batch_table(store, plan.judge).empty
        go(plan, store)
        go(plan, store)
        line = ledger.batch_table(store, plan.judge).iloc[0]
    assert line[["batch", "judge", "calls", "state"]].tolist() == ["batch_1", "j", 4, "collected"]


@pytest.mark.parametrize("word", ["queued", "VALIDATING_AGAIN", "", None])
@pytest.mark.parametrize("provider", ["openai", "google"])
def test_a_word_that_is_not_known_does_not_end_a_batch(rows, store, provider, word):
    with Fakes(status="running") as server:
        plan = Plan(rows, ("C.v1",), judge_at(server, provider))
        go(plan, store)
        known = server._openai, server._google
        server._openai = lambda wire: known[0](wire) | {"status": word}
        server._google = lambda wire: {"name": wire, "metadata": {"state": word} if word else None}
        assert counts(go(plan, store)) == (0, 0, 0, 4, 4)
        server._openai, server._google = known
        next(iter(server.batches.values()))["status"] = "ended"
        assert counts(go(plan, store)) == (4, 0, 0, 0, 0)
    assert len(server.batches) == 1


def test_a_poll_that_says_nothing_does_not_end_a_batch(rows, store):
    with Fakes(status="running") as server:
        plan = Plan(rows, ("C.v1",), judge_at(server, "openai"))
        go(plan, store)
        server._openai = lambda wire: {}
        assert counts(go(plan, store)) == (0, 0, 0, 4, 4)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_batch_taken_without_an_id_is_looked_for(rows, store, provider):
    with Fakes(status="running") as server:
        plan = Plan(rows, ("C.v1",), judge_at(server, provider))
        names = {"openai": "_openai", "anthropic": "_claude", "google": "_google"}[provider]
        known = getattr(server, names)
        setattr(
            server,
            names,
            lambda wire: {name: value for name, value in known(wire).items() if name not in ("id", "name")},
        )
        with pytest.raises(CallError, match="may have taken it"):
            go(plan, store)
        setattr(server, names, known)
        next(iter(server.batches.values()))["status"] = "ended"
        for _ in range(2):
            go(plan, store)
    assert (len(store), len(server.batches)) == (4, 1)


def test_an_older_batch_of_the_same_calls_is_not_taken_for_the_lost_one(rows, store):
    with Fakes() as server:
        plan = Plan(rows, ("C.v1",), judge_at(server, "anthropic"))
        server.change = lambda lines: [LINES["anthropic"][1](line["custom_id"]) for line in lines]
        go(plan, store)
        assert go(plan, store).failed == 4
        server.change, server.cut = (lambda lines: lines), True
        with pytest.raises(CallError, match="may have taken it"):
            go(plan, store)
        for _ in range(2):
            go(plan, store)
    assert (len(store), len(server.batches)) == (4, 2)


def test_a_lost_batch_that_cannot_be_looked_up_keeps_no_other_from_landing(rows, store, monkeypatch):
    from lib.providers.openai import OpenAIChat

    async def refused(self, *arguments):
        raise CallError("HTTP 404: no such list", "fatal")

    with Fakes() as server:
        plan = Plan(rows, ("C.v1",), judge_at(server, "openai"))
        go(replace(plan, rows=rows[:2]), store)
        server.cut = True
        with pytest.raises(CallError, match="may have taken it"):
            go(plan, store)
        monkeypatch.setattr(OpenAIChat, "find", refused)
        with pytest.raises(CallError, match=r"HTTP 404.*give_up\(store, 'jd-[0-9a-f]+'\)") as caught:
            go(plan, store)
        assert len(store) == 2
        ledger.give_up(store, str(caught.value).split("'")[1])
        assert go(plan, store).sent == 2


def test_a_batch_that_another_machine_took_for_lost_is_written_down_when_it_is_accepted(rows, store):
    plan = Plan(rows, ("C.v1",), Judge("j", "openai", "m"))
    batch = ledger.begin(store, plan.judge, list(plan))
    ledger.never_arrived(store, batch, "the provider does not have it")
    ledger.accepted(store, batch, "batch_9")
    assert [each.wire for each in ledger.batches(store, plan.judge)] == ["batch_9"]
    assert len(store.in_batches(call.key for call in plan)) == 4


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_key_in_the_ids_of_a_batch_is_stored_nowhere(rows, path, provider, monkeypatch):
    monkeypatch.setenv("TEST_API_KEY", "a-key-0123456789")
    store = Store(path, recorded=())
    with Fakes() as server:
        server.change = lambda lines: [*lines, altered(lines[0], find_id(lines[0]), "a-key-0123456789")]
        plan = Plan(rows, ("C.v1",), judge_at(server, provider, key_env="TEST_API_KEY"))
        go(plan, store)
        with pytest.raises(CallError, match="1 were not sent") as caught:
            go(plan, store)
    store.close()
    assert "a-key-0123456789" not in str(caught.value)
    assert all(b"a-key-0123456789" not in file.read_bytes() for file in path.parent.glob("calls.sqlite*"))


@pytest.mark.parametrize("skew", [-3600, 3600])
@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_clock_that_differs_by_an_hour_loses_no_batch(rows, store, provider, skew):
    with Fakes() as server:
        server.cut = True
        plan = Plan(rows, ("C.v1",), judge_at(server, provider))
        with pytest.raises(CallError, match="may have taken it"):
            go(plan, store)
        next(iter(server.batches.values()))["at"] += skew
        for _ in range(2):
            go(plan, store)
    assert (len(store), len(server.batches)) == (4, 1)


def test_the_results_of_anthropic_are_fetched_from_base_url_whatever_address_they_name(rows, store):
    with Fakes() as server, Fakes() as other:
        plan = Plan(rows, ("C.v1",), judge_at(server, "anthropic"))
        known = server._claude
        server._claude = lambda wire: known(wire) | {"results_url": f"{other.root}/v1/messages/batches/x/results"}
        go(plan, store)
        assert counts(go(plan, store)) == (4, 0, 0, 0, 0)


def test_a_store_that_is_locked_while_a_batch_is_acknowledged_is_waited_for(rows, path, monkeypatch):
    import sqlite3

    store = Store(path, recorded=())
    store.execute("PRAGMA busy_timeout = 20")
    other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    with Fakes(status="running") as server:
        plan = Plan(rows, ("C.v1",), judge_at(server, "openai"))
        from lib.providers.openai import OpenAIChat

        submit = OpenAIChat.submit

        async def locks(self, tag, calls):
            wire = await submit(self, tag, calls)
            other.execute("BEGIN IMMEDIATE")
            asyncio.get_running_loop().call_later(0.8, other.execute, "ROLLBACK")
            return wire

        monkeypatch.setattr(OpenAIChat, "submit", locks)
        assert counts(go(plan, store)) == (0, 0, 4, 4, 4)
        assert ledger.batches(store, plan.judge)[0].state == "open"


def test_a_submission_cancelled_in_this_process_is_looked_for_by_its_next_run(rows, path):
    with Fakes(status="running") as server:
        plan, store = Plan(rows, ("C.v1",), judge_at(server, "openai")), Store(path, recorded=())
        from lib.providers.openai import OpenAIChat

        submit = OpenAIChat.submit

        async def stops(self, tag, calls):
            await submit(self, tag, calls)
            raise asyncio.CancelledError

        OpenAIChat.submit = stops
        try:
            with pytest.raises(asyncio.CancelledError):
                go(plan, store)
        finally:
            OpenAIChat.submit = submit
        next(iter(server.batches.values()))["status"] = "ended"
        for _ in range(2):
            go(plan, store)
    assert (len(store), len(server.batches)) == (4, 1)


def test_max_usd_without_a_batch_price_is_refused(rows, store):
    price = {"read": "2026-11-30", "input": 2, "output": 8}
    with Fakes() as server, pytest.raises(ValueError, match="judge j has no batch price.*add batch_input"):
        go(Plan(rows, ("C.v1",), judge_at(server, "openai", price=price)), store, max_usd=5.0)
    assert not server.batches


@pytest.mark.parametrize(
    "line",
    [
        lambda key: {"custom_id": key, "response": {"status_code": "200", "body": completion()}, "error": None},
        lambda key: {"custom_id": key, "response": {"body": completion()}},
        lambda key: {
            "custom_id": key,
            "response": {"status_code": 200, "body": completion()},
            "error": {"code": None},
        },
    ],
)
def test_a_completion_in_a_line_is_a_reply_whatever_else_the_line_lacks(rows, store, line):
    with Fakes() as server:
        server.change = lambda lines: [line(each["custom_id"]) for each in lines]
        plan = Plan(rows, ("C.v1",), judge_at(server, "openai"))
        go(plan, store)
        assert counts(go(plan, store)) == (4, 0, 0, 0, 0)
