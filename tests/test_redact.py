"""Keys reach no file, no log and no error: the redactor, and a scan of all that a run leaves behind."""

import logging
import os
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
import yaml

from lib import paths
from lib.params import check_type
from lib.redact import guard_logs, looks_like_key, redact, remember, without_keys
from tests.fakes import Fakes
from tests.loopback import completion

# Put together here: whole, they would look like keys that were committed.
SENTINELS = {
    "OPENAI_API_KEY": "sk" + "-proj-sentinelOPENAI0123456789",
    "ANTHROPIC_API_KEY": "sk" + "-ant-api03-sentinelANTHROPIC0123456789",
    "GEMINI_API_KEY": "AI" + "zaSentinelGEMINI0123456789abcdefghijk",
    "OWN_API_KEY": "a-key.of/no+known=shape",
}


@pytest.mark.parametrize("key", SENTINELS.values())
@pytest.mark.parametrize(
    "text", ["{}", "https://h/v1?key={}&x=1", "Authorization: Bearer {}", '{{"x-api-key": "{}"}}']
)
def test_a_key_is_taken_out_wherever_it_stands(key, text, monkeypatch):
    monkeypatch.setenv("OWN_API_KEY", SENTINELS["OWN_API_KEY"])
    assert "entinel" not in redact(text.format(key)) and key not in redact(text.format(key))


def test_a_key_in_an_address_is_taken_out_although_it_is_escaped(monkeypatch):
    from urllib.parse import quote

    monkeypatch.setenv("OWN_API_KEY", SENTINELS["OWN_API_KEY"])
    assert redact(f"https://h/{quote(SENTINELS['OWN_API_KEY'], safe='')}") == "https://h/[key]"


def test_a_masked_key_leaves_no_prefix():
    said = "Incorrect API key provided: sk-proj-********************cdef. You can find your key at https://x"
    assert redact(said) == "Incorrect API key provided: [key]. You can find your key at https://x"


@pytest.mark.parametrize("text", ["risk-averse and task-oriented", "Paris is in France", "tokens: 5; monkey=banana"])
def test_ordinary_text_stays(text):
    assert redact(text) == text == without_keys(text)


def test_the_home_folder_is_no_part_of_an_error():
    assert redact(f"no such file: {Path.home()}/x/y") == "no such file: ~/x/y"


def test_one_key_that_begins_another_hides_both(monkeypatch):
    monkeypatch.setenv("ONE_API_KEY", "a-key-0123456789")
    monkeypatch.setenv("TWO_API_KEY", "a-key-0123456789-live-987654321")
    assert redact("a-key-0123456789-live-987654321 a-key-0123456789") == "[key] [key]"


def test_a_key_is_taken_out_of_json_where_it_is_escaped(monkeypatch):
    monkeypatch.setenv("OWN_API_KEY", 'quoted"and\\slashed-key')
    assert "slashed" not in redact('{"said": "quoted\\"and\\\\slashed-key"}')


def test_tracebacks_in_logs_are_redacted(monkeypatch, tmp_path):
    monkeypatch.setenv("OWN_API_KEY", SENTINELS["OWN_API_KEY"])
    before, file = logging.getLogRecordFactory(), logging.FileHandler(tmp_path / "log.txt")
    guard_logs()
    logger = logging.getLogger("some.library")
    logger.addHandler(file)
    try:
        raise RuntimeError(f"no: {SENTINELS['OWN_API_KEY']}")
    except RuntimeError:
        logger.exception("it failed")
    finally:
        logging.setLogRecordFactory(before)
        logger.removeHandler(file)
        file.close()
    text = (tmp_path / "log.txt").read_text()
    assert "RuntimeError: no: [key]" in text and SENTINELS["OWN_API_KEY"] not in text


def test_a_body_loses_keys_in_use_and_nothing_that_only_looks_like_one():
    remember("key-in-use-0123456789")
    assert without_keys("key-in-use-0123456789 and sk-test-abcdefghijklmnop") == "[key] and sk-test-abcdefghijklmnop"


def test_every_log_record_is_redacted(caplog, monkeypatch):
    monkeypatch.setenv("OWN_API_KEY", SENTINELS["OWN_API_KEY"])
    before = logging.getLogRecordFactory()
    guard_logs()
    try:
        with caplog.at_level(logging.DEBUG):
            logging.getLogger("httpx2").info("GET %s", f"https://h?key={SENTINELS['OWN_API_KEY']}")
    finally:
        logging.setLogRecordFactory(before)
    assert caplog.messages == ["GET https://h?key=[key]"]


@pytest.mark.parametrize("key", list(SENTINELS.values())[:3])
def test_a_key_is_no_parameter(key):
    assert looks_like_key({"a": [key]})
    with pytest.raises(
        ValueError, match="parameter judge looks like a key; keys come from the environment alone"
    ) as caught:
        check_type("judge", key, str)
    assert key not in str(caught.value)


def test_a_key_of_no_known_shape_is_no_parameter_while_it_is_in_the_environment(monkeypatch):
    assert not looks_like_key(SENTINELS["OWN_API_KEY"])
    monkeypatch.setenv("OWN_API_KEY", SENTINELS["OWN_API_KEY"])
    assert looks_like_key(f"x {SENTINELS['OWN_API_KEY']}")


@pytest.mark.notebooks
@pytest.mark.parametrize("provider", ["openai", "anthropic", "google"])
@pytest.mark.parametrize("fault", ["401", "an answer that holds the key"])
def test_nothing_that_a_run_leaves_behind_holds_a_key(out, tmp_path, provider, fault):
    """A whole run of 20-judge with a server that echoes the key; then all bytes of all files are looked through."""
    name = {"openai": "OPENAI_API_KEY", "anthropic": "ANTHROPIC_API_KEY", "google": "GEMINI_API_KEY"}[provider]
    key = SENTINELS[name]
    said = {"error": {"message": f"Incorrect key {key} at https://h?key={key}", "type": "authentication_error"}}
    answers = [(401, {"x-echo": key}, said)] * 9
    if fault != "401":
        answers = [(503, {"x-echo": key}, said), (200, {}, completion(f"the key is {key}") | {"note": key})]
    with Fakes(answers=answers) as server:
        url = server.base_url if provider == "openai" else server.root
        entry = {"provider": provider, "model": "m", "base_url": url, "key_env": name, "in_flight": 1}
        entry |= {"open_cap": 500} if provider == "anthropic" else {}
        judges = tmp_path / "judges.yaml"
        judges.write_text(yaml.safe_dump({"echo": entry}))
        code = (
            "import logging, sys; logging.basicConfig(level=logging.DEBUG, filename=sys.argv[1])\n"
            "from pathlib import Path; from lib.notebooks import run_notebook\n"
            "run_notebook('20-judge', Path(sys.argv[2]), {'judge': 'echo', 'n_questions': 1, 'datasets': ['asqa'],"
            " 'designs': ['C.v1', 'H.v1']})"
        )
        command = [sys.executable, "-c", code, str(tmp_path / "log.txt"), str(tmp_path / "out.ipynb")]
        env = {**os.environ, name: key, "JUDGE_OUT": str(out), "TEST_JUDGES": str(judges)}
        env |= {"OPENAI_LOG": "debug", "ANTHROPIC_LOG": "debug"}
        done = subprocess.run(command, capture_output=True, text=True, env=env, cwd=paths.ROOT)
    executed = list(tmp_path.glob("out*.ipynb"))
    assert len(executed) == 1 and (done.returncode == 0) == (fault != "401"), done.stderr[-2000:]
    notebook = nbformat.read(executed[0], as_version=4)
    if fault == "401":
        assert any("HTTP 401" in str(output) for cell in notebook.cells for output in cell.get("outputs", []))
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert any(path.name == "calls.sqlite" for path in files)
    for text in (done.stdout.encode(), done.stderr.encode(), *(path.read_bytes() for path in files)):
        assert key.encode() not in text and b"entinel" not in text
