"""The three SDKs against loopback: what is sent, what is read, and what each kind of fault leads to."""

import asyncio
import json
import time
from dataclasses import replace

import pytest

from lib import attempts, engine
from lib.judges import Judge, load_judges, open_provider
from lib.plan import Plan, judgments
from lib.providers import CallError
from lib.providers.anthropic import read_message
from lib.providers.bodies import status_error
from lib.providers.google import read_content
from lib.providers.openai import read_completion
from lib.run import execute
from lib.store import Store
from tests.fakes import Fakes, content, message
from tests.loopback import CUT, completion

KEY = "sentinel-0123456789"
PROVIDERS = ("openai", "anthropic", "google")
BODY = {"openai": completion, "anthropic": message, "google": content}
CUT_SHORT = {"openai": "length", "anthropic": "max_tokens", "google": "MAX_TOKENS"}


@pytest.fixture(autouse=True)
def _keys(monkeypatch):
    monkeypatch.setenv("TEST_API_KEY", KEY)
    monkeypatch.setattr(attempts, "wait", lambda state: 0)
    monkeypatch.setattr(engine, "_HELD_S", 0.05)


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "calls.sqlite", recorded=())


def judge_at(server, provider, **more):
    url = server.base_url if provider == "openai" else server.root
    more = {"open_cap": 16000} | more if provider == "anthropic" else more
    return Judge("j", provider, "m", base_url=url, key_env="TEST_API_KEY", **more)


def go(plan, store, **named):
    return asyncio.run(execute(plan, store, **named))


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_call_goes_through_and_what_was_sent_is_what_the_entry_says(rows, store, provider):
    with Fakes() as server:
        plan = Plan(rows[:1], ("C.v1",), judge_at(server, provider))
        assert go(plan, store).answered == 1
    line, sent = judgments(plan, store).iloc[0], server.requests[0]
    assert line[["verdict", "finish_reason", "model"]].tolist() == ["supported", "stop", "loopback-2026"]
    assert line[["tokens_in", "tokens_out"]].tolist() == [11, 7]
    expected = {
        "openai": {"model", "messages"},
        "anthropic": {"model", "messages", "system", "max_tokens"},
        "google": {"contents", "systemInstruction"},
    }
    # The SDK adds an empty place for settings; no setting is in it.
    assert {name for name, value in sent.items() if value} == expected[provider]
    system = {
        "openai": lambda: sent["messages"][0]["content"],
        "anthropic": lambda: sent["system"],
        "google": lambda: sent["systemInstruction"]["parts"][0]["text"],
    }
    stored = store.get([line["key"]])[line["key"]]
    assert system[provider]() == json.loads(stored.request)["messages"][0]["content"]
    raw = store.execute("SELECT raw FROM calls").fetchone()[0]
    assert KEY in " ".join(server.headers[0].values()) and KEY not in stored.request + raw


@pytest.mark.parametrize(
    ("provider", "send", "place"),
    [
        ("openai", {"temperature": 0, "max_completion_tokens": 9}, lambda body: body),
        ("anthropic", {"temperature": 0, "max_tokens": 9}, lambda body: body),
        ("google", {"temperature": 0, "max_output_tokens": 9}, lambda body: body["generationConfig"]),
    ],
)
def test_settings_of_the_entry_are_sent(rows, store, provider, send, place):
    with Fakes() as server:
        go(Plan(rows[:1], ("C.v1",), judge_at(server, provider, send=send)), store)
    sent = place(server.requests[0])
    names = {name.replace("maxOutputTokens", "max_output_tokens"): value for name, value in sent.items()}
    assert {name: names[name] for name in send} == send


@pytest.mark.parametrize(
    ("provider", "found"),
    [
        ("openai", lambda body: body["response_format"]["json_schema"]["schema"]),
        ("anthropic", lambda body: body["output_config"]["format"]["schema"]),
        ("google", lambda body: body["generationConfig"]["responseJsonSchema"]),
    ],
)
def test_the_schema_goes_to_each_provider_in_its_own_place(rows, store, provider, found):
    with Fakes() as server:
        go(Plan(rows[:1], ("R.v1",), judge_at(server, provider, structured="json_schema")), store)
    assert "missing_points" in found(server.requests[0])["properties"]


def test_a_setting_that_the_sdk_does_not_have_stops_the_run_and_names_it(rows, store):
    with Fakes() as server, pytest.raises(CallError, match=r"judge j: .*temprature.*check send"):
        go(Plan(rows, ("C.v1",), judge_at(server, "google", send={"temprature": 0})), store)
    assert not server.requests


@pytest.mark.parametrize("provider", PROVIDERS)
def test_429_twice_then_an_answer(rows, store, provider):
    with Fakes(answers=[(429, {"retry-after": "0"}, {"error": {"message": "slow down"}})] * 2) as server:
        plan = Plan(rows[:1], ("C.v1",), judge_at(server, provider))
        assert go(plan, store).answered == 1
    assert store.get([next(iter(plan)).key]).popitem()[1].attempts == 3 and sum(server.asked.values()) == 3


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_long_retry_after_stops_the_run_to_be_resumed(rows, store, provider):
    with Fakes(answers=[(429, {"retry-after": "3600"}, {"error": {"message": "later"}})]) as server:
        with pytest.raises(CallError, match="judge j: the provider asks to wait 3600 s; run again then"):
            go(Plan(rows, ("C.v1",), judge_at(server, provider, in_flight=1)), store)
        assert sum(server.asked.values()) == 1
        assert go(Plan(rows, ("C.v1",), judge_at(server, provider, in_flight=1)), store).answered == 4


QUOTA = {
    "openai": (429, {"error": {"message": "You exceeded your current quota", "code": "insufficient_quota"}}),
    "anthropic": (
        400,
        {"type": "error", "error": {"type": "invalid_request_error", "message": "Your credit balance is too low"}},
    ),
    "google": (
        429,
        {"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "message": "Quota exceeded", "details": [
            {"violations": [{"quotaId": "GenerateRequestsPerDayPerProjectPerModel"}]}]}},
    ),
}  # fmt: skip


@pytest.mark.parametrize("provider", PROVIDERS)
def test_exhausted_quota_stops_the_run_at_once(rows, store, provider):
    status, body = QUOTA[provider]
    with Fakes(answers=[(status, {}, body)] * 9) as server, pytest.raises(CallError, match="no quota left"):
        go(Plan(rows, ("C.v1",), judge_at(server, provider, in_flight=1)), store)
    assert sum(server.asked.values()) == 1


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("status", [408, 409, 500, 503, 529])
def test_a_passing_fault_is_asked_again(rows, store, provider, status):
    with Fakes(answers=[(status, {}, {"error": {"message": "busy"}})] * 2) as server:
        assert go(Plan(rows[:1], ("C.v1",), judge_at(server, provider)), store).answered == 1
    assert sum(server.asked.values()) == 3


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_connection_that_is_cut_in_mid_reply_is_one_attempt_and_asked_again(rows, store, provider):
    with Fakes(answers=[(200, {}, CUT)]) as server:
        plan = Plan(rows[:1], ("C.v1",), judge_at(server, provider))
        assert go(plan, store).answered == 1
    # Two requests: no SDK asks once more by itself.
    assert sum(server.asked.values()) == 2 == store.get([next(iter(plan)).key]).popitem()[1].attempts


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_server_that_never_answers_is_given_up_within_the_bound_of_a_call(rows, store, provider, monkeypatch):
    monkeypatch.setattr(attempts, "ATTEMPT_S", 0.2)
    monkeypatch.setattr(attempts, "CALL_S", 1.5)
    with Fakes(delay=5) as server:
        began = time.monotonic()
        plan = Plan(rows[:1], ("C.v1",), judge_at(server, provider))
        assert go(plan, store).failed == 1
        assert time.monotonic() - began < 4.5
    assert sum(server.asked.values()) <= attempts.ATTEMPTS
    assert judgments(plan, store)["reason"].tolist() == ["failed"]


@pytest.mark.parametrize("provider", PROVIDERS)
def test_the_clock_of_a_call_bounds_its_attempts(rows, store, provider, monkeypatch):
    monkeypatch.setattr(attempts, "CALL_S", 0.0)
    with Fakes(answers=[(503, {}, {"error": {"message": "busy"}})] * 9) as server:
        assert go(Plan(rows[:1], ("C.v1",), judge_at(server, provider)), store).failed == 1
    assert sum(server.asked.values()) == 1


REFUSED = {
    "openai": {"error": {"message": "Unsupported value: 'temperature' does not support 0 with this model.",
                         "type": "invalid_request_error", "param": "temperature", "code": "unsupported_value"}},
    "anthropic": {"type": "error", "error": {"type": "invalid_request_error",
                                             "message": "temperature: Extra inputs are not permitted"}},
    "google": {"error": {"code": 400, "status": "INVALID_ARGUMENT", "message": "Invalid value", "details": [
        {"fieldViolations": [{"field": "generation_config.temperature", "description": "no"}]}]}},
}  # fmt: skip


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_400_that_names_a_setting_stops_the_run_and_names_judge_setting_and_remedy(rows, store, provider):
    with Fakes(answers=[(400, {}, REFUSED[provider])] * 9) as server:
        line = r"judge j: HTTP 400: .*change temperature under send of its entry in judges\.yaml"
        with pytest.raises(CallError, match=line):
            plan = Plan(rows, ("C.v1",), judge_at(server, provider, in_flight=1, send={"temperature": 0}))
            go(plan, store)
    assert sum(server.asked.values()) == 1


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize(
    ("status", "remedy"), [(401, "check the key"), (403, "check the key"), (404, "check base_url and model")]
)
def test_a_refused_key_or_model_stops_the_run_with_its_remedy(rows, store, provider, status, remedy):
    body = {"error": {"message": f"no, {KEY} may not", "type": "not_found_error"}}
    line = f"judge j: HTTP {status}.*{remedy}"
    with Fakes(answers=[(status, {}, body)] * 9) as server, pytest.raises(CallError, match=line) as caught:
        go(Plan(rows, ("C.v1",), judge_at(server, provider, in_flight=1)), store)
    assert KEY not in str(caught.value) and sum(server.asked.values()) == 1


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_text_that_is_too_long_is_one_rows_failure(rows, store, provider):
    said = "prompt is too long: 210000 tokens > 200000 maximum"
    with Fakes(answers=[(400, {}, {"error": {"message": said, "type": "invalid_request_error"}})]) as server:
        plan = Plan(rows, ("C.v1",), judge_at(server, provider, in_flight=1))
        outcome = go(plan, store)
    assert (outcome.answered, outcome.failed) == (3, 1)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_thinking_that_ate_the_cap_is_unjudged_stored_and_not_asked_again(rows, store, provider):
    usage = {
        "openai": {"completion_tokens_details": {"reasoning_tokens": 200}, "completion_tokens": 200},
        "anthropic": {"output_tokens": 200, "output_tokens_details": {"thinking_tokens": 200}},
        "google": {"thoughtsTokenCount": 200, "candidatesTokenCount": None},
    }
    body = BODY[provider](None, CUT_SHORT[provider], **usage[provider])
    with Fakes(answers=[(200, {}, body)]) as server:
        plan = Plan(rows[:1], ("C.v1",), judge_at(server, provider))
        go(plan, store)
        assert go(plan, store).answered == 0
    line = judgments(plan, store).iloc[0]
    names = ["reason", "finish_reason", "tokens_out", "tokens_reasoning"]
    assert line[names].tolist() == ["truncated", "length", 200, 200] and sum(server.asked.values()) == 1


# Bodies, without a server.


def test_only_text_blocks_are_the_text_of_a_message():
    blocks = [
        {"type": "thinking", "thinking": '{"verdict": "unsupported"}'},
        {"type": "text", "text": '{"verdict": '},
        {"type": "tool_use", "input": {"verdict": "unsupported"}, "text": "no"},
        {"type": "text", "text": '"supported"}'},
        None,
    ]
    reply = read_message(json.dumps(message() | {"content": blocks}))
    assert reply.text == '{"verdict": "supported"}'


def test_thoughts_are_not_the_text_of_generated_content():
    body = content()
    body["candidates"][0]["content"]["parts"] = [
        {"text": '{"verdict": "unsupported"}', "thought": True},
        {"text": '{"verdict": "supported"}'},
        {"functionCall": {"name": "f"}},
    ]
    assert read_content(json.dumps(body)).text == '{"verdict": "supported"}'


@pytest.mark.parametrize(
    ("body", "finish"),
    [
        ({"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}}, "blocked:PROHIBITED_CONTENT"),
        ({"candidates": [], "usageMetadata": {}}, "no candidates"),
        ({"candidates": None, "usageMetadata": {}}, "no candidates"),
        (content(finish="SAFETY"), "blocked:SAFETY"),
        (content(finish="RECITATION"), "blocked:RECITATION"),
        (content(finish="MALFORMED_RESPONSE"), "MALFORMED_RESPONSE"),
        (content(finish="SOMETHING_NEW"), "SOMETHING_NEW"),
        (content(), "stop"),
    ],
)
def test_why_gemini_gave_no_answer_is_kept_by_name(body, finish):
    assert read_content(json.dumps(body)).finish_reason == finish


def test_a_blocked_reply_is_never_a_verdict(rows, store):
    with Fakes(answers=[(200, {}, content(finish="SAFETY"))]) as server:
        plan = Plan(rows[:1], ("C.v1",), judge_at(server, "google"))
        go(plan, store)
    assert judgments(plan, store)[["verdict", "reason"]].fillna("").values.tolist() == [["", "refused"]]


@pytest.mark.parametrize(
    ("body", "finish"),
    [
        (completion() | {"choices": []}, "no choices"),
        (completion(finish="content_filter"), "blocked:content_filter"),
        (message(stop="refusal"), "refused"),
        (message(stop="pause_turn"), "pause_turn"),
    ],
)
def test_why_the_others_gave_no_answer_is_kept_by_name(body, finish):
    read = read_completion if "choices" in body else read_message
    assert read(json.dumps(body)).finish_reason == finish


def test_a_refusal_field_is_a_refusal():
    body = completion()
    body["choices"][0]["message"] |= {"refusal": "I cannot", "content": None}
    assert read_completion(json.dumps(body)).finish_reason == "refused"


@pytest.mark.parametrize(
    ("usage", "counts"),
    [
        ({"input_tokens": 5, "cache_read_input_tokens": 100, "cache_creation_input_tokens": 10}, (115, 7, 100)),
        ({"input_tokens": 5, "cache_read_input_tokens": None}, (5, 7, None)),
        ({"input_tokens": None, "output_tokens": None}, (None, None, None)),
    ],
)
def test_what_anthropic_read_from_its_cache_counts_as_input(usage, counts):
    reply = read_message(json.dumps(message(**usage)))
    assert (reply.tokens_in, reply.tokens_out, reply.tokens_cached) == counts


@pytest.mark.parametrize(
    ("usage", "counts"),
    [
        ({"thoughtsTokenCount": 90, "cachedContentTokenCount": 4}, (11, 97, 90, 4)),
        ({"candidatesTokenCount": None, "thoughtsTokenCount": 90}, (11, None, 90, None)),
        ({"candidatesTokenCount": None}, (11, None, None, None)),
    ],
)
def test_what_gemini_thought_counts_as_output(usage, counts):
    reply = read_content(json.dumps(content(**usage)))
    assert (reply.tokens_in, reply.tokens_out, reply.tokens_reasoning, reply.tokens_cached) == counts


def test_no_usage_at_all_is_unknown():
    for read, body, name in (
        (read_content, content(), "usageMetadata"),
        (read_message, message(), "usage"),
        (read_completion, completion(), "usage"),
    ):
        del body[name]
        reply = read(json.dumps(body))
        assert (reply.tokens_in, reply.tokens_out, reply.tokens_reasoning, reply.tokens_cached) == (None,) * 4


@pytest.mark.parametrize("read", [read_completion, read_message, read_content])
@pytest.mark.parametrize("raw", ["<html>", "[]", "null", '"x"', "{}", '{"error": "x"}', '{"error": {"code": 503}}'])
def test_a_body_that_is_no_reply_is_a_passing_fault(read, raw):
    with pytest.raises(CallError) as caught:
        read(raw)
    assert caught.value.kind == "transient"


@pytest.mark.parametrize("read", [read_completion, read_message, read_content])
def test_an_exhausted_quota_inside_a_200_is_fatal(read):
    with pytest.raises(CallError, match="no quota left") as caught:
        read('{"error": {"code": "insufficient_quota", "message": "none"}}')
    assert caught.value.kind == "fatal"


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (400, {"error": {"message": "max_tokens is too large: 100000", "param": "max_tokens"}}, "fatal"),
        (400, {"error": {"message": "maximum context length is 8 tokens", "param": "messages"}}, "row"),
        (400, {"error": {"message": "request exceeds the available context size", "code": 400}}, "row"),
        (400, {"error": {"message": "messages.0.content: text must not be empty"}}, "row"),
        (400, {"error": {"message": "model: Field required"}}, "fatal"),
        (400, {"error": {"message": "This model does not support 'top_p'"}}, "fatal"),
        (400, {"error": {"message": "API key not valid", "status": "INVALID_ARGUMENT"}}, "fatal"),
        (400, {"error": {"message": "The input token count (9) exceeds the maximum number"}}, "row"),
        (400, {"error": {"message": "Invalid JSON payload. Unknown name \"temprature\""}}, "fatal"),
        (400, [{"error": {"message": "The model is overloaded for this content", "code": 400}}], "row"),
        (402, {"error": {"message": "pay"}}, "fatal"),
        (413, {"error": {"message": "too large"}}, "row"),
        (422, {"detail": "unprocessable"}, "row"),
        (405, "", "fatal"),
        (429, {"error": {"message": "Rate limit reached on requests per min"}}, "transient"),
        (429, {"error": {"message": "You exceeded your current quota", "details": [
            {"violations": [{"quotaId": "GenerateRequestsPerMinutePerProject"}]}]}}, "transient"),
        (429, {"error": {"message": "Rate limit reached on requests per day (RPD)"}}, "fatal"),
        (400, {"error": {"message": "Input length 9000 exceeds 8192", "param": "input_tokens"}}, "row"),
        (400, {"error": {"message": "input length and `max_tokens` exceed context limit: 9 + 9 > 9"}}, "row"),
        (400, {"error": {"message": "Could not finish the message because max_tokens or model output limit was "
                         "reached.", "param": "max_tokens"}}, "row"),
        (400, {"error": {"message": "invalid text: 'two cups per day, on my account, unlimited'"}}, "row"),
        (403, {"error": {"message": "Your chosen model requires moderation and your input was flagged"}}, "row"),
        (400, {"error": {"message": "You have reached your specified API usage limits."}}, "fatal"),
        (400, {"error": {"message": "This organization has been disabled."}}, "fatal"),
        (400, {"error": {"message": "User location is not supported for the API use."}}, "fatal"),
        (400, {"error": {"message": "\"smollm\" does not support thinking"}}, "fatal"),
        (429, {"error": {"message": "Your project has exceeded its spending cap."}}, "fatal"),
        (429, {"error": {"message": "Your prepayment credits are depleted."}}, "fatal"),
        (499, {"error": {"message": "The operation was cancelled.", "status": "CANCELLED"}}, "transient"),
        (429, {"error": {"message": "Request too large for gpt-4.1 on tokens per min (TPM): Limit 9, Requested 99"}},
         "row"),
        (307, "", "fatal"),
        (500, "<html>", "transient"),
        (529, {"error": {"type": "overloaded_error", "message": "x"}}, "transient"),
    ],
)  # fmt: skip
def test_what_is_done_about_an_error(status, body, kind):
    text = body if isinstance(body, str) else json.dumps(body)
    assert status_error(status, text, {}, {"temperature"}).kind == kind


@pytest.mark.parametrize(
    ("headers", "body", "seconds"),
    [
        ({"retry-after": "7"}, "", 7),
        ({"retry-after": "1.5"}, "", 1.5),
        ({"retry-after-ms": "1500", "retry-after": "2"}, "", 1.5),
        ({}, '{"error": {"details": [{"retryDelay": "37s"}]}}', 37),
        ({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}, "", 0),
        ({"retry-after": "soon"}, "", None),
        ({"retry-after": "Wed, 21 Oct 99999999999999999 07:28:00 GMT"}, "", None),
        ({}, "", None),
    ],
)
def test_how_long_the_provider_asks_to_wait(headers, body, seconds):
    assert status_error(429, body or "{}", headers, ()).retry_after == seconds


def test_every_committed_hosted_judge_can_be_opened_with_a_key_and_not_without(monkeypatch):
    hosted = [judge for judge in load_judges().values() if judge.key_env]
    assert {judge.name for judge in hosted} == {"opus", "gpt-4.1", "gemini", "sonnet-4.6"}
    for judge in hosted:
        with pytest.raises(ValueError, match=f"judge {judge.name}: set the environment variable {judge.key_env}"):
            open_provider(judge)
        monkeypatch.setenv(judge.key_env, KEY)
        asyncio.run(open_provider(judge).close())
        monkeypatch.delenv(judge.key_env)


def test_the_cap_that_anthropic_requires_is_sent_is_in_the_key_and_is_said_not_to_bind(rows):
    judge = load_judges()["opus"]
    assert "max_tokens 16000 (the provider requires a cap" in judge.settings()["sent"]
    own = replace(judge, send={"max_tokens": 128})
    assert next(iter(Plan(rows, ("C.v1",), judge))).request["params"] == {"max_tokens": 16000}
    assert next(iter(Plan(rows, ("C.v1",), own))).request["params"] == {"max_tokens": 128}
    assert own.settings()["sent"] == "max_tokens 128"


@pytest.mark.parametrize("status", [302, 307])
def test_a_redirect_takes_geminis_key_to_no_other_host(rows, store, status):
    with Fakes() as other:
        answers = [(status, {"location": f"{other.root}/v1beta/models/m:generateContent"}, {})] * 9
        with Fakes(answers=answers) as server, pytest.raises(CallError, match=f"HTTP {status}.*check base_url"):
            go(Plan(rows, ("C.v1",), judge_at(server, "google")), store)
    assert not other.requests and not other.headers


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
def test_a_redirect_takes_the_others_key_to_no_other_host(rows, store, provider):
    path = {"openai": "/v1/chat/completions", "anthropic": "/v1/messages"}[provider]
    with Fakes() as other, Fakes(answers=[(307, {"location": f"{other.root}{path}"}, {})]) as server:
        go(Plan(rows[:1], ("C.v1",), judge_at(server, provider)), store)
    assert KEY not in str(other.headers)


@pytest.mark.parametrize("key", [KEY + " ", KEY + "\n", " " + KEY])
@pytest.mark.parametrize("provider", PROVIDERS)
def test_blanks_around_a_key_are_no_part_of_it(rows, store, provider, key, monkeypatch):
    monkeypatch.setenv("TEST_API_KEY", key)
    body = {"error": {"message": f"no, {KEY} may not"}}
    with Fakes(answers=[(401, {}, body)] * 9) as server, pytest.raises(CallError) as caught:
        go(Plan(rows, ("C.v1",), judge_at(server, provider)), store)
    assert KEY not in str(caught.value) + str(store.execute("SELECT * FROM failures").fetchall())


@pytest.mark.parametrize("key", ["two words", "naïve-key-0123456", "line\nbreak-0123456"])
def test_what_can_be_no_key_is_refused_by_the_variables_name(monkeypatch, key):
    monkeypatch.setenv("TEST_API_KEY", key)
    with pytest.raises(ValueError, match="judge j: TEST_API_KEY holds more than a key") as caught:
        open_provider(Judge("j", "openai", "m", key_env="TEST_API_KEY"))
    assert key not in str(caught.value)


def test_a_reply_that_is_paid_for_is_kept_although_its_body_is_odd():
    body = json.dumps(completion())
    assert read_completion("\ufeff" + body).text
    assert read_completion(body.replace('"created": 1', '"created": ' + "9" * 5000)).tokens_in == 11
    assert read_completion(json.dumps(completion() | {"choices": {"0": 1}})).finish_reason == "no choices"
