"""The notebooks on replay: the pipeline by papermill, then every stored output against a fresh one by nbval."""

import json
import os
import shutil
import subprocess
import sys

import nbformat
import pandas as pd
import pytest
import yaml

from lib import paths
from lib.notebooks import notebooks, run_notebook
from lib.recorded import call_key
from lib.store import Store
from tests.fakes import Fakes, message

pytestmark = pytest.mark.notebooks
COMPARISON = "sample-40q-seed0--smollm2+lexical"
GENERATED = "smollm2-free+smollm2-warm--C.v1+H.v1+R.v1"
STANDARDS = f"label-standards--maintainers--{COMPARISON}"
ANSWERS = "sample-40q-seed0--by-smollm2-free+smollm2-warm--smollm2+lexical--C.v1+H.v1+R.v1"
PAPER = "paper--sample-40q-seed0--smollm2+lexical--e5b49884"
DIAGNOSTICS = "diagnostics--smollm2--sample-4q-seed0+lexical--sample-20q-seed0"


@pytest.fixture(scope="module")
def replayed(tmp_path_factory):
    """A folder in which `make reproduce`'s command has run, with what it printed."""
    out = tmp_path_factory.mktemp("replayed")
    done = _run(out, "lib.sweeps", "reproduce", "params/reproduce.yaml")
    assert done.returncode == 0, done.stderr[-3000:]
    return out, done.stdout


def _run(out, *module):
    environment = {**os.environ, "JUDGE_OUT": str(out)}
    command = [sys.executable, "-m", *map(str, module)]
    return subprocess.run(command, cwd=paths.ROOT, env=environment, capture_output=True, text=True)


def _nbval(out, *files):
    # Its wait for outputs is fixed at 5 s; one kernel at a time keeps well inside.
    return _run(out, "pytest", "--nbval", "-p", "no:xdist", "-p", "no:cacheprovider", "-o", "addopts=", "-q", *files)


def test_the_pipeline_ends_with_the_primary_table_and_the_paths(replayed):
    out, printed = replayed
    table = (out / "figures" / COMPARISON / "table-02-accuracy.md").read_text(encoding="utf-8")
    assert table in printed and f"figures/{COMPARISON}/accuracy: pdf, png, svg\n" in printed
    executed = sorted(path.name for path in (out / "data" / "executed").iterdir())
    assert executed == [
        "00-quickstart.ipynb",
        "10-labels.ipynb",
        "11-generate.ipynb",
        "20-judge.lexical--20--all.ipynb",
        f"20-judge.lexical--asqa--{GENERATED}.ipynb",
        "20-judge.lexical.ipynb",
        "20-judge.smollm2--4--C.v1+H.v1--all--0.ipynb",
        f"20-judge.smollm2--asqa--{GENERATED}--0.ipynb",
        "20-judge.smollm2-free--5.ipynb",
        "20-judge.smollm2.ipynb",
        "30-designs.ipynb",
        "40-diagnostics.ipynb",
        "50-label-standards.ipynb",
        "60-generated-answers.ipynb",
        "70-paper.ipynb",
    ]


def test_the_replay_gives_the_committed_figures_and_tables_byte_for_byte(replayed):
    out, _ = replayed
    for folder in (
        "sample-40q-seed0",
        COMPARISON,
        DIAGNOSTICS,
        STANDARDS,
        ANSWERS,
        PAPER,
    ):  # others in figures/ are a user's own
        committed, fresh = paths.ROOT / "figures" / folder, out / "figures" / folder
        # Tables as HTML are not committed.
        names = sorted(path.name for path in fresh.iterdir() if path.suffix != ".html")
        assert names and names == sorted(path.name for path in committed.iterdir() if path.suffix != ".html")
        assert not [name for name in names if (fresh / name).read_bytes() != (committed / name).read_bytes()]


def test_every_stored_output_equals_a_fresh_one(replayed):
    done = _nbval(replayed[0], *notebooks())
    assert done.returncode == 0, done.stdout[-6000:]
    cells = [cell for path in notebooks() for cell in nbformat.read(path, 4).cells if cell.cell_type == "code"]
    assert f"{len(cells)} passed" in done.stdout


def test_a_frozen_paper_is_read_back_by_its_notebook_with_the_same_bytes(replayed, tmp_path):
    out = replayed[0]
    done = _run(out, "lib.editions", "v1")
    assert done.returncode == 0 and "Frozen: data/frozen/v1" in done.stdout, done.stderr
    # The judgments are in the folder: none of the run's own is read.
    shutil.move(out / "data" / "judgments", tmp_path / "judgments")
    try:
        options = ["-p", "frozen", "v1", "--no-progress-bar"]
        done = _run(out, "papermill", "notebooks/70-paper.ipynb", tmp_path / "v1.ipynb", *options)
    finally:
        shutil.move(tmp_path / "judgments", out / "data" / "judgments")
    assert done.returncode == 0, done.stderr[-2000:]
    assert "are the bytes that were frozen" in (tmp_path / "v1.ipynb").read_text(encoding="utf-8")
    files, first = list((out / "figures" / "paper--frozen-v1").iterdir()), out / "figures" / PAPER
    assert len(files) == len(list(first.iterdir())) > 100
    assert not [path.name for path in files if path.read_bytes() != (first / path.name).read_bytes()]


def test_a_judgment_leads_to_its_request_and_reply(replayed):
    out, _ = replayed
    folder = out / "data" / "judgments" / "sample-40q-seed0"
    assert len(list(folder.glob("*.parquet"))) == 2 * 3 * 4
    store = Store(out / "data" / "calls.sqlite")
    for path in folder.glob("*.asqa.R.v1.parquet"):
        judged = pd.read_parquet(path)
        replies = store.get(judged["key"])
        assert len(judged) == 80 and set(judged["key"]) == set(replies)
        for line in judged.itertuples():
            request = json.loads(replies[line.key].request)
            assert call_key(request) == line.key and json.loads(replies[line.key].text)["verdict"] == line.verdict


def test_beside_each_cell_stands_what_made_it(replayed):
    out, _ = replayed
    path = out / "data/judgments/sample-40q-seed0/smollm2.primary.asqa.C.v1.json"
    facts = json.loads(path.read_text(encoding="utf-8"))
    assert facts["models that answered"] == ["SmolLM2-135M-Instruct.Q4_1"]
    assert facts["survey"] == {"asked": 960, "calls": 960, "in_store": 0, "missing": 0, "recorded": 960}
    assert set(facts["prompts"]) == {"C.v1", "H.v1", "R.v1", "B.v1"}
    assert {"git commit", "python", "pandas"} <= set(facts["provenance"]) and facts["parameters"]["seed"] == 0


def _copy(tmp_path, name, change):
    notebook = nbformat.read(paths.NOTEBOOKS / f"{name}.ipynb", as_version=4)
    change(notebook)
    path = tmp_path / f"{name}.ipynb"
    nbformat.write(notebook, path)
    return path


def test_a_planted_wrong_number_turns_the_comparison_red(replayed, tmp_path):
    def plant(notebook):
        for cell in notebook.cells:
            for output in cell.get("outputs", []):
                text = output.get("data", {}).get("text/markdown", "")
                if "[" in text and "won : lost" in text:
                    output["data"]["text/markdown"] = text.replace("1", "7", 1)
                    return
        raise AssertionError("no table found to plant in")

    done = _nbval(replayed[0], _copy(tmp_path, "30-designs", plant))
    assert done.returncode == 1 and "1 failed" in done.stdout


def test_a_lost_row_turns_the_checks_red(replayed, tmp_path):
    out = tmp_path / "lost"
    shutil.copytree(replayed[0] / "data" / "judgments", out / "data" / "judgments")
    path = next((out / "data" / "judgments" / "sample-40q-seed0").glob("lexical.primary.qampari.H.v1.parquet"))
    pd.read_parquet(path).iloc[1:].to_parquet(path, index=False)
    done = _run(out, "papermill", "notebooks/30-designs.ipynb", tmp_path / "x.ipynb", "--no-progress-bar")
    assert done.returncode != 0 and "AssertionError" in done.stderr


def test_a_wrong_verdict_in_the_recordings_is_not_served_under_the_old_numbers(replayed, tmp_path):
    """A judgment that differs from the stored numbers stops 30, whatever the outputs say."""
    out = tmp_path / "wrong"
    shutil.copytree(replayed[0] / "data" / "judgments", out / "data" / "judgments")
    path = next((out / "data" / "judgments" / "sample-40q-seed0").glob("smollm2.primary.asqa.C.v1.parquet"))
    judged = pd.read_parquet(path)
    judged["correct"] = True
    judged.to_parquet(path, index=False)
    done = _run(out, "papermill", "notebooks/30-designs.ipynb", tmp_path / "x.ipynb", "--no-progress-bar")
    assert done.returncode != 0 and "asqa smollm2 C accuracy: expected" in done.stderr


def test_the_command_of_the_readme_runs_with_fewer_questions_than_asked(tmp_path):
    command = ["papermill", "notebooks/20-judge.ipynb", tmp_path / "out.ipynb", "--no-progress-bar"]
    done = _run(tmp_path, *command, "-p", "judge", "lexical", "-p", "n_questions", "50")
    assert done.returncode == 0, done.stderr[-2000:]
    judged = pd.concat(
        pd.read_parquet(path) for path in (tmp_path / "data/judgments/sample-50q-seed0").glob("*.parquet")
    )
    assert len(judged) == 3 * 40 * 2 * 4 and (judged["judge"] == "lexical").all()


def test_a_call_that_fails_stays_unjudged_and_the_judgments_are_still_written(tmp_path, monkeypatch):
    from tests.loopback import Loopback

    answers = [(400, {}, {"error": {"message": "blocked by the content filter"}})]
    with Loopback(answers=answers) as server:
        judges = paths.JUDGES.read_text(encoding="utf-8").replace("http://127.0.0.1:8000/v1", server.base_url)
        repository = tmp_path / "repository"
        for name in ("lib", "prompts", "notebooks", "data/sample", "data/recorded", "data/expected"):
            shutil.copytree(paths.ROOT / name, repository / name)
        (repository / "judges.yaml").write_text(judges.replace("  in_flight: 8", "  in_flight: 1"), encoding="utf-8")
        command = ["-p", "judge", "local-server", "-p", "n_questions", "2", "-y", "datasets: [asqa]"]
        monkeypatch.setenv("PYTHONPATH", f"{repository}{os.pathsep}{os.environ['PYTHONPATH']}")
        arguments = [
            sys.executable,
            "-m",
            "papermill",
            "notebooks/20-judge.ipynb",
            str(tmp_path / "o.ipynb"),
            *command,
        ]
        done = subprocess.run(arguments, cwd=repository, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    judged = pd.concat(pd.read_parquet(path) for path in (repository / "data/judgments").glob("*/*.parquet"))
    assert len(judged) == 16 and judged["reason"].tolist().count("failed") == 1


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["-p", "judgee", "lexical"], "unknown parameter judgee; did you mean judge"),
        (["-p", "judge", "gpt-9"], "judges.yaml has no judge 'gpt-9'"),
        (["-p", "judge", "7"], "parameter judge must be str, not 7; with papermill use -r"),
        (["-y", "datasets: [triviaqa]"], "triviaqa"),
        (["-p", "source", "data/none.csv"], "source is sample or hub"),
        (["-y", "files: {asqa: data/none.jsonl}"], "no file 'data/none.jsonl'"),
        (["-y", "datasets: []"], "datasets must name at least one"),
        (["-y", "designs: [C.v9]"], "prompt 'C.v9' has no file"),
        (["-p", "condition", "cap-64"], "there is no condition 'cap-64'"),
        (["-p", "condition", "format-json", "-p", "judge", "lexical"], "nothing can be asked under format-json"),
    ],
)
def test_a_bad_parameter_ends_with_one_clear_line_and_nothing_half_written(tmp_path, arguments, line):
    command = ["papermill", "notebooks/20-judge.ipynb", tmp_path / "out.ipynb", "--no-progress-bar"]
    done = _run(tmp_path, *command, "-p", "live_calls", "0", *arguments)
    assert done.returncode != 0 and line in done.stderr.strip().splitlines()[-1]
    assert not (tmp_path / "data" / "judgments").exists()


def _entry(tmp_path, server, **more):
    entry = {"provider": "anthropic", "model": "m", "base_url": server.root, "open_cap": 500, **more}
    path = tmp_path / "judges.yaml"
    path.write_text(yaml.safe_dump({"hosted": entry}))
    return path


def test_batches_by_a_sweep_are_sent_by_the_first_and_collected_by_a_later_one(tmp_path, monkeypatch):
    """What a person with a key does over two days, in processes of their own."""
    out = tmp_path / "out"
    grid = tmp_path / "g.yaml"
    fixed = {"source": "sample", "n_questions": 2, "judge": "hosted", "mode": "batch", "max_usd": 1.0}
    grid.write_text(
        yaml.safe_dump({"notebook": "20-judge", "fixed": fixed, "grid": {"designs": [["C.v1"], ["H.v1"]]}})
    )
    with Fakes(status="running") as server:
        monkeypatch.setenv("TEST_JUDGES", str(_entry(tmp_path, server)))
        first = _run(out, "lib.sweeps", "sweep", grid)
        assert first.stdout.count("incomplete: 12 calls have no reply (12 in batches)") == 2, (
            first.stdout + first.stderr
        )
        assert not list((out / "data" / "judgments").glob("*/*.parquet"))
        for batch in server.batches.values():
            batch["status"] = "ended"
        second = _run(out, "lib.sweeps", "sweep", grid)
        assert second.stdout.count("| done ") == 2, second.stdout + second.stderr
        third = _run(out, "lib.sweeps", "sweep", grid)
        assert third.stdout.count("| already done ") == 2
    assert len(server.batches) == 2 and not server.asked
    cells = sorted(path.name for path in (out / "data" / "judgments").glob("*/*.parquet"))
    assert len(cells) == 6 and cells[0] == "hosted.primary.asqa.C.v1.parquet"


def test_a_live_run_stops_under_its_budget_and_says_so_in_the_notebook(tmp_path, monkeypatch, out):
    price = {"read": "2026-11-30", "input": 1000, "output": 1000}
    # Each reply costs three dollars, more than the estimate could know.
    with Fakes(answers=[(200, {}, message(output_tokens=3000))] * 48) as server:
        monkeypatch.setenv("TEST_JUDGES", str(_entry(tmp_path, server, price=price, in_flight=1)))
        run_notebook("20-judge", tmp_path / "o.ipynb", {"judge": "hosted", "n_questions": 2, "max_usd": 30.0})
    text = (tmp_path / "o.ipynb").read_text(encoding="utf-8")
    assert "may not fit into max_usd any more" in text and "not asked yet; run this notebook again" in text
    assert 5 < sum(server.asked.values()) <= 10


def test_the_study_is_estimated_without_a_key_and_without_the_network(tmp_path):
    done = _run(tmp_path, "lib.estimate", "params/sweeps/primary.yaml")
    assert done.returncode == 0, done.stderr
    total = next(line for line in done.stdout.splitlines() if line.startswith("| all "))
    cells = [cell.strip() for cell in total.split("|")]
    assert cells[3] == cells[5] == "16,800" and cells[8].startswith("$") and cells[9].startswith("$")
    for judge, designs in (("opus", 4), ("gpt-4.1", 4), ("gemini", 4), ("sonnet-4.6", 2)):
        assert sum(line.startswith(f"| {judge} ") for line in done.stdout.splitlines()) == designs
    assert "the sample's shorter texts stand in" in done.stdout
    readme = " ".join((paths.ROOT / "README.md").read_text(encoding="utf-8").split())
    assert f"{cells[8]} live and {cells[9]} in batches" in readme
