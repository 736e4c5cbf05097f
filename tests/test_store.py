"""The store: keys that see everything, first reply kept, claims, recorded replies, files that are no store."""

import gzip
import json
import multiprocessing
import os
import sqlite3
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest

from lib.judges import Judge
from lib.prompts import load_prompt
from lib.recorded import COLUMNS, Stored, call_key, canonical, read_recorded, write_recorded
from lib.store import SCHEMA_VERSION, Store

ROW = {"question": "Q?", "reference": "R.", "candidate": "C."}


def reply(key, text="t", **more):
    fields = dict.fromkeys(("finish_reason", "model", "sdk", "at", "latency_s", "attempts"))
    tokens = dict.fromkeys(("tokens_in", "tokens_out", "tokens_reasoning", "tokens_cached"))
    return Stored(**{"key": key, "request": "{}", "text": text, **fields, **tokens, **more})


def recorded(number, text="t"):
    request = f'{{"n":{number}}}'
    return reply(call_key(request), text, request=request)


def test_the_key_changes_with_everything_that_can_change_the_reply():
    judge = Judge("j", "openai", "m-1", base_url="http://127.0.0.1:1/v1", send={"temperature": 0})
    prompt = load_prompt("C.v1")
    variants = [
        judge.request(prompt, ROW),
        judge.request(prompt, ROW, repeat=1),
        judge.request(prompt, {**ROW, "candidate": "c."}),
        judge.request(prompt, {**ROW, "reference": "r."}),
        judge.request(prompt, {**ROW, "question": "q?"}),
        judge.request(load_prompt("C.v2"), ROW),
        Judge("j", "openai", "m-2", base_url=judge.base_url, send=judge.send).request(prompt, ROW),
        Judge("j", "openai", "m-1", base_url="http://127.0.0.1:2/v1", send=judge.send).request(prompt, ROW),
        Judge("j", "openai", "m-1", base_url=judge.base_url, send={"temperature": 1}).request(prompt, ROW),
        Judge("j", "openai", "m-1", base_url=judge.base_url, send={"max_tokens": 9}).request(prompt, ROW),
        Judge("j", "openai", "m-1", base_url=judge.base_url, send=judge.send, structured="json_schema").request(
            prompt, ROW
        ),
    ]
    assert len({call_key(request) for request in variants}) == len(variants)


def test_the_key_does_not_change_with_the_judges_name_or_the_order_of_parameters():
    one = Judge("a", "openai", "m", send={"temperature": 0, "top_p": 1}).request(load_prompt("C.v1"), ROW)
    two = Judge("b", "openai", "m", send={"top_p": 1, "temperature": 0}, in_flight=9).request(
        load_prompt("C.v1"), ROW
    )
    assert call_key(one) == call_key(two)


def test_a_known_request_has_its_known_key():
    assert canonical({"b": "é", "a": 1}) == '{"a":1,"b":"\\u00e9"}'
    assert call_key({"b": "é", "a": 1}) == "6071e7aa781e8adc235db31b17e6d0ee414a17031b1744a38fbf2cd17effcbce"


def test_text_comes_back_as_it_went_in(tmp_path):
    texts = ["", "a\x00b", '{"verdict": "supported"}', "é\n\u2028", "\U0001f600", None]
    store = Store(tmp_path / "c.sqlite", recorded=())
    store.put([reply(str(number), text) for number, text in enumerate(texts)])
    found = store.get(map(str, range(len(texts))))
    assert [found[str(number)].text for number in range(len(texts))] == texts


def test_the_first_reply_of_a_key_stays(tmp_path):
    store = Store(tmp_path / "c.sqlite", recorded=())
    store.put([reply("k", "first")])
    store.put([reply("k", "second"), reply("l", "other")])
    assert store.get(["k"])["k"].text == "first" and len(store) == 2


def test_more_keys_than_sqlite_takes_at_once(tmp_path):
    store = Store(tmp_path / "c.sqlite", recorded=())
    keys = [f"{number:05}" for number in range(2_500)]
    store.put([reply(key) for key in keys])
    assert set(store.get(keys)) == set(keys) == set(store.where(keys))


def test_a_failure_is_kept_beside_and_never_served(tmp_path):
    store = Store(tmp_path / "c.sqlite", recorded=())
    store.put_failure("k", "{}", "HTTP 500: once", "transient")
    store.put_failure("k", "{}", "HTTP 503: twice", "transient")
    assert store.get(["k"]) == {} and store.where(["k"]) == {}
    assert store.failures(["k", "l"]) == {"k": "HTTP 503: twice"}


def test_recorded_replies_lie_under_the_store(tmp_path):
    k, m = recorded(1, "recorded"), recorded(2, "recorded")
    write_recorded(tmp_path / "r.jsonl.gz", [k, m])
    store = Store(tmp_path / "c.sqlite", recorded=[tmp_path / "r.jsonl.gz"])
    store.put([reply(k.key, "own")])
    assert {key: call.text for key, call in store.get([k.key, m.key, "x"]).items()} == {
        k.key: "own",
        m.key: "recorded",
    }
    assert store.where([k.key, m.key, "x"]) == {k.key: "store", m.key: "recorded"}


def test_a_recorded_file_has_the_same_bytes_whatever_the_order_and_the_time(tmp_path):
    calls = [recorded(number, "é") for number in range(3)]
    write_recorded(tmp_path / "one.jsonl.gz", calls)
    time.sleep(1.1)  # gzip would keep the second
    write_recorded(tmp_path / "two.jsonl.gz", calls[::-1])
    assert (tmp_path / "one.jsonl.gz").read_bytes() == (tmp_path / "two.jsonl.gz").read_bytes()
    assert read_recorded(tmp_path / "one.jsonl.gz") == sorted(calls, key=lambda call: call.key)


def whole():
    return (json.dumps({name: getattr(recorded(1), name) for name in COLUMNS if name != "raw"}) + "\n").encode()


@pytest.mark.parametrize(
    ("data", "number"),
    [
        (gzip.compress(whole() + whole()[:99]), 2),
        (gzip.compress(whole() + whole().replace(b'{\\"n\\":1}', b'{\\"n\\":7}')), 2),
        (gzip.compress(whole().replace(b'"text": "t"', b'"text": 5')), 1),
        (gzip.compress(b"[1]"), 1),
        (gzip.compress(whole())[:-20], 0),
        (whole(), 0),
        (gzip.compress(b"\xff\xfe"), 0),
    ],
    # The compressed bytes hold the time: as ids they would differ between the processes that collect them.
    ids=["cut", "another request", "no text", "no call", "cut archive", "no archive", "no UTF-8"],
)
def test_a_recorded_file_that_is_damaged_or_not_what_it_says_is_refused_by_line(tmp_path, data, number):
    path = tmp_path / "r.jsonl.gz"
    path.write_bytes(data)
    with pytest.raises(ValueError, match=rf"r\.jsonl\.gz, line {number}: no recorded call"):
        Store(tmp_path / "c.sqlite", recorded=[path])


def test_another_programs_database_is_refused_and_left_alone(tmp_path):
    with sqlite3.connect(tmp_path / "c.sqlite") as db:
        db.execute("CREATE TABLE bookmarks (url TEXT)")
    with pytest.raises(ValueError, match=r"c\.sqlite is another program's database"):
        Store(tmp_path / "c.sqlite", recorded=())
    with sqlite3.connect(tmp_path / "c.sqlite") as db:
        assert db.execute("SELECT name FROM sqlite_master").fetchall() == [("bookmarks",)]


def test_a_folder_is_no_store(tmp_path):
    with pytest.raises(ValueError, match="cannot be opened as a store"):
        Store(tmp_path, recorded=())


def test_a_reply_that_sqlite_cannot_hold_as_it_is_keeps_its_escape_and_its_batch(tmp_path):
    store = Store(tmp_path / "c.sqlite", recorded=())
    store.put([reply("a"), reply("b", "half \ud83d"), reply("c")])
    assert [store.get([key])[key].text for key in "abc"] == ["t", "half \\ud83d", "t"]
    store.put_failure("d", "{}", "half \ud83d", "row")
    assert store.failures(["d"]) == {"d": "half \\ud83d"}


def test_a_file_that_is_no_store_is_refused_and_left_alone(tmp_path):
    path = tmp_path / "c.sqlite"
    path.write_text("not a database, but somebody's text" * 50)
    before = path.read_bytes()
    with pytest.raises(ValueError, match=r"c\.sqlite cannot be opened as a store"):
        Store(path, recorded=())
    assert path.read_bytes() == before


def test_a_store_of_another_version_is_refused(tmp_path):
    Store(tmp_path / "c.sqlite", recorded=()).close()
    with sqlite3.connect(tmp_path / "c.sqlite") as db:
        db.execute("PRAGMA user_version = 99")
    with pytest.raises(ValueError, match="store version 99"):
        Store(tmp_path / "c.sqlite", recorded=())


_VERSION_1 = """
CREATE TABLE calls (
  key TEXT PRIMARY KEY, request TEXT NOT NULL, text TEXT, finish_reason TEXT, model TEXT,
  tokens_in INTEGER, tokens_out INTEGER, tokens_reasoning INTEGER, tokens_cached INTEGER,
  latency_s REAL, attempts INTEGER, sdk TEXT, at TEXT, raw TEXT);
CREATE TABLE failures (key TEXT NOT NULL, request TEXT NOT NULL, error TEXT, kind TEXT, at TEXT);
CREATE TABLE claims (key TEXT PRIMARY KEY, owner TEXT NOT NULL, renewed REAL NOT NULL);
INSERT INTO calls VALUES ('k', '{}', 't', 'stop', 'm', 1, 2, NULL, NULL, 0.5, 1, 's', 'a', 'body');
INSERT INTO failures VALUES ('f', '{}', 'old', 'row', 'a');
PRAGMA user_version = 1
"""


def test_a_store_of_the_first_version_keeps_its_replies_and_takes_new_ones(tmp_path):
    with sqlite3.connect(tmp_path / "c.sqlite") as db:
        db.executescript(_VERSION_1)
    code = f"from lib.store import Store; print(len(Store({str(tmp_path / 'c.sqlite')!r}, recorded=())))"
    both = [subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) for _ in range(2)]
    assert [child.communicate()[0] for child in both] == ["1\n", "1\n"]
    store = Store(tmp_path / "c.sqlite", recorded=())
    assert store.get(["k"])["k"].text == "t" and store.get(["k"])["k"].batch is None
    assert store.raws(["k"]) == {"k": "body"} and store.failures(["f"]) == {"f": "old"}
    store.put([reply("l")])
    store.put_failure("g", "{}", "new", "row", 3)
    assert store.execute("SELECT attempts FROM failures WHERE key = 'g'").fetchone() == (3,)


def test_a_failure_is_stored_without_keys_whoever_wrote_it(tmp_path, monkeypatch):
    monkeypatch.setenv("SOME_API_KEY", "a-key-without-a-shape")
    store = Store(tmp_path / "c.sqlite", recorded=())
    store.put_failure("k", "{}", "no: a-key-without-a-shape, sk-test-abcdefghijklmnop", "row")
    assert store.failures(["k"]) == {"k": "no: [key], [key]"}


def test_a_claimed_call_is_given_to_nobody_else_until_it_is_answered_or_failed(tmp_path):
    one, two = (Store(tmp_path / "c.sqlite", recorded=()) for _ in range(2))
    assert one.claim(["k", "l", "m"]) == {"k", "l", "m"}
    assert two.claim(["k", "n"]) == {"n"}
    one.put([reply("k")])
    one.put_failure("l", "{}", "HTTP 500", "transient")
    assert two.claim(["k", "l", "m"]) == {"l"}
    one.release(one.owner)
    assert two.claim(["m"]) == {"m"}


def test_the_claim_of_a_killed_process_is_free_at_once(tmp_path):
    code = (
        "import os, signal, sys; from lib.store import Store\n"
        f"Store({str(tmp_path / 'c.sqlite')!r}, recorded=()).claim(['k'])\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == -9
    store = Store(tmp_path / "c.sqlite", recorded=())
    assert store._db.execute("SELECT count(*) FROM claims").fetchone() == (1,)
    assert store.claim(["k"]) == {"k"}


def test_the_claim_of_another_machine_holds_until_it_is_no_longer_renewed(tmp_path):
    store = Store(tmp_path / "c.sqlite", recorded=())
    for age, given in ((5, set()), (3600, {"k"})):
        store._db.execute("INSERT OR REPLACE INTO claims VALUES ('k', 'elsewhere:1:1:1', ?)", (time.time() - age,))
        assert store.claim(["k"]) == given


def test_the_claim_of_a_living_process_here_holds_however_long_it_is_silent(tmp_path):
    one, two = (Store(tmp_path / "c.sqlite", recorded=()) for _ in range(2))
    one.claim(["k"])
    one._db.execute("UPDATE claims SET renewed = 0")
    assert two.claim(["k"]) == set()


def test_a_process_number_used_again_is_not_taken_for_the_one_that_claimed(tmp_path):
    one, two = (Store(tmp_path / "c.sqlite", recorded=()) for _ in range(2))
    one.claim(["k"])
    host, pid, _, serial = one._owner.split(":")
    one._db.execute("UPDATE claims SET owner = ?", (f"{host}:{pid}:123.0:{serial}",))
    assert two.claim(["k"]) == {"k"}


def _write(path, start, barrier):
    store = Store(path, recorded=())
    barrier.wait()
    for number in range(start, start + 300):
        store.put([reply(f"{number}", f"by {os.getpid()}")])
    store.close()


def test_two_processes_write_one_store_and_nothing_is_lost_or_doubled(tmp_path):
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(2)
    # The ranges overlap: 200 keys are written by both.
    writers = [context.Process(target=_write, args=(tmp_path / "c.sqlite", start, barrier)) for start in (0, 100)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(60)
    assert [writer.exitcode for writer in writers] == [0, 0]
    store = Store(tmp_path / "c.sqlite", recorded=())
    assert len(store) == 400 == len(store.get(map(str, range(400))))


def test_the_committed_recordings_are_whole_and_hold_no_path():
    from lib import paths

    files = sorted(paths.RECORDED.glob("*.jsonl.gz"))
    # One call a line, and how many there are: a file that lost some is another one.
    sizes = {file.name.removesuffix(".jsonl.gz"): len(read_recorded(file)) for file in files}
    generated = {"answers-smollm2-free": 40, "answers-smollm2-warm": 40, "smollm2-generated": 342}
    assert sizes == {"smollm2": 960, "smollm2-free": 120, "smollm2-conditions": 1052, **generated}
    for file in files:
        calls = read_recorded(file)
        assert len({call.key for call in calls}) == len(calls)
        for call in calls:
            assert call_key(json.loads(call.request)) == call.key
            assert call.model == "SmolLM2-135M-Instruct.Q4_1" and call.tokens_in and call.tokens_out
            assert "/" + "work" not in call.request and "/" + "home" not in call.request


def test_a_process_keeps_its_claims_although_the_clock_is_set(tmp_path, monkeypatch):
    import psutil

    one = Store(tmp_path / "c.sqlite", recorded=())
    one.claim(["k"])
    monkeypatch.setattr(psutil.Process, "create_time", lambda self: 1.0)
    code = (
        "import psutil; psutil.boot_time = lambda: 5.0\n"
        f"from lib.store import Store; print(Store({str(tmp_path / 'c.sqlite')!r}, recorded=()).claim(['k']))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "set()\n"


def test_runs_of_another_machine_are_told_by_their_silence_alone():
    from lib.owners import SILENT_S, alive, end_owner, here, start_owner

    mine = start_owner()
    assert here(mine) and alive(mine, 0.0)
    other = ":".join(["0" * 12, *mine.split(":")[1:]])
    assert not here(other) and alive(other, time.time()) and not alive(other, time.time() - SILENT_S - 1)
    reused = ":".join([*mine.split(":")[:2], "another-start", "1"])
    assert not alive(reused, time.time())
    end_owner(mine)
    assert not alive(mine, time.time())


def test_claims_that_could_not_be_taken_out_hold_nobody_in_this_process_back(tmp_path):
    store = Store(tmp_path / "c.sqlite", recorded=())
    store.execute("PRAGMA busy_timeout = 10")
    from lib.owners import start_owner

    owner = start_owner()
    assert store.claim(["k"], owner) == {"k"} and store.claim(["k"]) == set()
    other = sqlite3.connect(tmp_path / "c.sqlite", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    store.release(owner)
    other.execute("ROLLBACK")
    assert store.execute("SELECT count(*) FROM claims").fetchone() == (1,)
    assert store.claim(["k"]) == {"k"}


def test_many_processes_may_open_a_new_store_at_once(tmp_path):
    code = f"from lib.store import Store; print(len(Store({str(tmp_path / 'new.sqlite')!r}, recorded=())))"
    children = [subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) for _ in range(6)]
    assert [child.communicate()[0] for child in children] == ["0\n"] * 6


def test_a_file_that_another_process_makes_a_store_meanwhile_is_no_other_programs(tmp_path):
    """Between the two reads by which a store knows its file, another process may have made it."""
    path, real = tmp_path / "new.sqlite", sqlite3.connect(tmp_path / "new.sqlite", isolation_level=None)

    class Meanwhile:
        def execute(self, statement):
            rows = real.execute(statement).fetchall()
            Store(path, recorded=()).close()
            return SimpleNamespace(fetchone=lambda: rows[0])

    store = Store.__new__(Store)
    store._db = Meanwhile()
    assert store._version() == SCHEMA_VERSION
    real.close()


def test_a_store_that_is_only_read_is_not_changed(tmp_path):
    path = tmp_path / "calls.sqlite"
    first = Store(path, recorded=())
    first.put([reply("a")])
    first.close()
    before = path.read_bytes()
    reader = Store(path, recorded=(), read_only=True)
    assert reader.get(["a"])["a"].text == reply("a").text
    with pytest.raises(sqlite3.OperationalError, match="readonly"):
        reader.put([reply("b")])
    reader.close()
    assert path.read_bytes() == before
    with pytest.raises(ValueError, match="cannot be opened"):
        Store(tmp_path / "none.sqlite", recorded=(), read_only=True)
    assert not (tmp_path / "none.sqlite").exists()
