"""The embedded model, really run: it repeats itself, keeps apart from a second one, and speaks to any client."""

import asyncio
import subprocess
import sys

import pytest

from lib.judges import Judge, load_judge, open_provider
from lib.plan import Plan, judgments
from lib.providers import CallError, local
from lib.record import construction_plan
from lib.run import execute
from lib.store import Store

pytest.importorskip("xllamacpp", reason="no wheel of the engine for this platform")
if not all(path.exists() for path in local.MODELS.values()):
    pytest.skip("the embedded weights are not installed (make model)", allow_module_level=True)

pytestmark = pytest.mark.embedded
SMOLLM2 = load_judge("smollm2")


def ask(plan, store, provider=None):
    return asyncio.run(execute(plan, store, provider))


def test_greedy_replies_repeat_byte_for_byte(rows):
    plan = Plan(rows[:2], ("H.v1",), SMOLLM2)
    replies = []
    for _ in range(2):
        store = Store(":memory:", recorded=())
        assert ask(plan, store).answered == 2
        found = store.get(call.key for call in plan)
        replies.append([found[call.key].text for call in plan])
    assert replies[0] == replies[1]
    table = judgments(plan, store)
    assert table["status"].isin(["whole", "recovered"]).all() and table["tokens_out"].gt(5).all()
    assert table["model"].eq("SmolLM2-135M-Instruct.Q4_1").all() and table["tokens_cached"].eq(0).all()


def test_a_recorded_reply_is_what_the_model_says_here_too_or_at_least_has_its_form():
    """On the kind of processor that recorded it the bytes are equal; elsewhere the schema still holds."""
    plan = construction_plan("smollm2", 1, ("C.v1",), "primary")
    few = Plan(plan.rows[:1], plan.prompts[:1], plan.judge)
    fresh = Store(":memory:", recorded=())
    ask(few, fresh)
    assert (
        judgments(few, fresh)["status"].tolist() == judgments(few, Store(":memory:"))["status"].tolist() == ["whole"]
    )


def test_any_openai_compatible_server_will_do_by_its_base_url(rows):
    async def both():
        embedded = open_provider(SMOLLM2)
        await embedded._start()
        try:
            url = embedded._servers[0].listening_address + "/v1"
            judge = Judge(
                "mine", "openai", "any-name", base_url=url, structured="json_schema", send={"max_tokens": 200}
            )
            store = Store(":memory:", recorded=())
            outcome = await execute(Plan(rows[:1], ("R.v1",), judge), store)
            return outcome, judgments(Plan(rows[:1], ("R.v1",), judge), store)
        finally:
            await embedded.close()

    outcome, table = asyncio.run(both())
    assert outcome.answered == 1 and table["verdict"].notna().all() and table["tokens_in"].gt(100).all()


def test_a_prompt_beyond_the_context_is_one_rows_failure(rows):
    long = rows.assign(candidate=["word " * 9_000, *rows["candidate"][1:]])[:2]
    store = Store(":memory:", recorded=())
    plan = Plan(long, ("H.v1",), SMOLLM2)
    outcome = ask(plan, store)
    assert (outcome.answered, outcome.failed) == (1, 1)
    assert judgments(plan, store)["reason"].tolist()[0] == "failed"


def test_the_servers_end_with_their_provider_and_with_their_process(rows):
    code = (
        "import asyncio, sys; from lib.judges import load_judge, open_provider\n"
        "provider = open_provider(load_judge('smollm2'))\n"
        "asyncio.run(provider._start())\n"
        "print(*[server.listening_address for server in provider._servers], flush=True)\n"
        "sys.stdin.read()"
    )
    processes = [
        subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    try:
        addresses = [process.stdout.readline().split() for process in processes]
        assert len({address for pair in addresses for address in pair}) == 4
        assert all(address.startswith("http://127.0.0.1:") for pair in addresses for address in pair)
    finally:
        for process in processes:
            process.kill()
            process.wait()
    provider = asyncio.run(_gone(addresses[0][0]))
    assert provider == "transient"


async def _gone(address):
    from lib.providers.openai import OpenAIChat

    chat = OpenAIChat(address + "/v1", "none")
    try:
        await chat.ask({"model": "m", "messages": [{"role": "user", "content": "x"}], "params": {}})
    except CallError as error:
        return error.kind
    finally:
        await chat.close()


def test_anthropics_sdk_reaches_the_embedded_model_through_its_own_messages(rows):
    """A real model behind a server that is not ours: text, stop reason and usage come through the whole path."""

    async def both():
        embedded = open_provider(SMOLLM2)
        await embedded._start()
        try:
            url = embedded._servers[0].listening_address
            judge = Judge("claude-like", "anthropic", "any-name", base_url=url, open_cap=40, in_flight=1)
            store, plan = Store(":memory:", recorded=()), Plan(rows[:2], ("H.v1",), judge)
            outcome = await execute(plan, store)
            too_long = rows[:1].assign(candidate="word " * 20_000)
            refused = await execute(Plan(too_long, ("H.v1",), judge), store)
            return outcome, judgments(plan, store), store.get(call.key for call in plan), refused
        finally:
            await embedded.close()

    outcome, table, replies, refused = asyncio.run(both())
    assert (outcome.answered, outcome.failed) == (2, 0) and (refused.answered, refused.failed) == (0, 1)
    assert all(reply.text and reply.sdk.startswith("anthropic ") for reply in replies.values())
    assert table["tokens_in"].gt(100).all() and table["tokens_out"].between(1, 40).all()
    assert table["finish_reason"].isin(["stop", "length"]).all()
