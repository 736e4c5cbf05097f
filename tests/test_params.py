"""Parameters: frozen, typed, known; notebooks run strictly; sweeps do only what is missing."""

import json
import shutil
from types import SimpleNamespace

import nbformat
import papermill
import pytest
import yaml

from lib import params, paths, sweeps
from lib.conditions import GROUPS
from lib.params import assigned_names, freeze, run_name
from lib.sweeps import (
    check_parameters,
    declared_parameters,
    notebook_path,
    read_grid,
    read_steps,
    run_notebook,
    sweep,
)


def test_freeze_gives_what_was_set_and_cannot_be_changed():
    p = freeze(
        {"judge": "lexical", "n": 5, "names": ["a"], "files": {}}, judge=str, n=int, names=list[str], files=dict
    )
    assert (p.judge, p.n, p.names, p.files) == ("lexical", 5, ("a",), {})
    with pytest.raises(AttributeError):
        p.n = 6


@pytest.mark.parametrize(
    ("value", "kind", "line"),
    [
        (7, str, "must be str, not 7; with papermill use -r"),
        ("7", int, "must be int, not '7'"),
        (True, int, "must be int, not True"),
        (1, bool, "must be bool"),
        ("false", bool, "must be bool, not 'false'; with papermill use -y"),
        (1.5, int, "must be int"),
        ("C.v1", list[str], "must be a list of strings, not 'C.v1'; with papermill use -y"),
        (["C.v1", 1], list[str], "must be a list of strings"),
        (None, str, "must be str, not None"),
    ],
)
def test_a_wrong_type_is_refused_with_the_remedy(value, kind, line):
    with pytest.raises(ValueError, match=f"parameter x {line}"):
        freeze({"x": value}, x=kind)


def test_a_whole_number_is_a_fine_float():
    assert freeze({"x": 1}, x=float).x == 1


def test_an_injected_name_that_the_notebook_does_not_have_is_refused():
    cells = ["import os", "n_questions = 40\nseed = 0", "# Parameters\nn_question = 50\n"]
    with pytest.raises(ValueError, match="unknown parameter n_question; did you mean n_questions"):
        freeze({"In": cells, "n_questions": 40, "seed": 0}, n_questions=int, seed=int)


def test_an_injected_name_is_refused_although_it_comes_alone_and_the_cell_before_is_fine():
    with pytest.raises(ValueError, match="unknown parameter zzz; there are a"):
        freeze({"In": ["a = 1", "# Parameters\nzzz = 1"], "a": 1}, a=int)


def test_a_mistake_that_the_reader_has_mended_is_forgotten():
    cells = ["a = 1\nb = 2", "a = 1"]
    assert freeze({"In": cells, "a": 1}, a=int).a == 1


@pytest.mark.parametrize("key", ["sk-test-0123456789abcdef", "AIza0123456789abcdefghij"])
def test_a_key_is_no_parameter(key):
    with pytest.raises(ValueError, match="parameter judge looks like a key") as caught:
        freeze({"judge": key}, judge=str)
    assert key not in str(caught.value)


def test_assigned_names_reads_literals_alone():
    assert assigned_names('a = 1\nb = ["x"]\nc = {}') == {"a": 1, "b": ["x"], "c": {}}
    assert assigned_names("a = f()") == assigned_names("print(1)") == assigned_names("a = (") == {}


def selection(**changes):
    values = {"source": "sample", "files": {}, "datasets": ("asqa", "qampari"), "n_questions": 40, "seed": 0}
    return SimpleNamespace(**(values | changes))


def test_rows_of_two_versions_of_a_file_never_share_a_name(tmp_path):
    one, two = tmp_path / "a.csv", tmp_path / "b.csv"
    one.write_text("1")
    two.write_text("2")
    names = {run_name(selection(files={"asqa": str(path)})) for path in (one, two)} | {run_name(selection())}
    assert len(names) == 3 and "sample-40q-seed0" in names
    shutil.copy(one, tmp_path / "c.csv")
    assert run_name(selection(files={"asqa": str(one)})) == run_name(
        selection(files={"asqa": str(tmp_path / "c.csv")})
    )


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"source": "data/x.csv"}, "source is sample or hub, not 'data/x.csv'; name a local file in files"),
        ({"source": "../../escape"}, "source is sample or hub"),
        ({"files": {"asqua": "x"}}, "files names 'asqua', which is not among datasets"),
        ({"files": {"truthfulqa": "x"}}, "files names 'truthfulqa', which is not among datasets"),
        ({"files": {"asqa": 5}}, "there is no file 5"),
        (
            {"files": {"asqa": "data/local/none.json"}},
            r"no file 'data/local/none\.json'; name it from the repository",
        ),
        ({"datasets": ()}, "datasets must name at least one"),
        ({"datasets": ("asqa", "asqa")}, "datasets must name at least one, each once"),
        ({"designs": ()}, "designs must name at least one"),
        ({"designs": ("C.v1", "C.v1")}, "designs must name at least one, each once"),
        ({"judges": ("lexical", "lexical")}, "judges must name at least one, each once"),
        ({"n_questions": 0}, "n_questions must be a number from 1 on, not 0"),
        ({"n_questions": -3}, "n_questions must be"),
        ({"seed": 10**300}, "seed must be a number"),
        ({"live_calls": -1}, "live_calls must be a number from 0 on"),
    ],
)
def test_values_that_select_nothing_or_something_else_are_refused(changes, line):
    with pytest.raises(ValueError, match=line):
        run_name(selection(**changes))


@pytest.mark.parametrize("value", [{"asqa": "sk-test-0123456789abcdef"}, ["x", {"y": ["AIza0123456789abcdefghij"]}]])
def test_a_key_deep_inside_a_parameter_is_refused(value):
    with pytest.raises(ValueError, match="looks like a key"):
        freeze({"files": value}, files=type(value))


# Notebooks from outside.


@pytest.fixture
def small(tmp_path, monkeypatch, out):
    """A notebook of four cells in a notebooks folder of its own."""
    folder = tmp_path / "notebooks"
    folder.mkdir()
    cells = [
        nbformat.v4.new_code_cell("from lib.params import freeze"),
        nbformat.v4.new_code_cell('name = "a"\nn = 1', metadata={"tags": ["parameters"]}),
        nbformat.v4.new_code_cell("p = freeze(globals(), name=str, n=int)"),
        nbformat.v4.new_code_cell("print(p.name, 1 // p.n)"),
    ]
    nbformat.write(
        nbformat.v4.new_notebook(cells=cells, metadata={"language_info": {"name": "python"}}),
        folder / "90-small.ipynb",
    )
    monkeypatch.setattr(paths, "NOTEBOOKS", folder)
    return folder / "90-small.ipynb"


def test_declared_parameters_are_those_of_the_tagged_cell(small):
    assert declared_parameters(small) == {"name": "a", "n": 1}


@pytest.mark.parametrize(
    ("values", "line"),
    [
        ({"nn": 1}, "90-small: unknown parameter nn; did you mean n"),
        ({"n": "1"}, "parameter n must be int"),
        ({"name": 7}, "parameter name must be str"),
    ],
)
def test_an_unknown_or_mistyped_parameter_stops_before_anything_runs(small, tmp_path, values, line):
    with pytest.raises(ValueError, match=line):
        run_notebook("90-small", tmp_path / "out.ipynb", values)
    assert not (tmp_path / "out.ipynb").exists()


def test_an_unknown_notebook_names_those_there_are(small):
    with pytest.raises(ValueError, match="no notebook '91-none'; there are 90-small"):
        notebook_path("91-none")


def test_plain_papermill_with_an_unknown_parameter_fails_inside_the_notebook(small, tmp_path):
    with pytest.raises(papermill.PapermillExecutionError, match="unknown parameter nam"):
        papermill.execute_notebook(
            str(small), str(tmp_path / "x.ipynb"), {"nam": "b"}, progress_bar=False, kernel_name="python3"
        )


def write(path, spec):
    path.write_text(yaml.safe_dump(spec, sort_keys=False), encoding="utf-8")
    return path


def test_a_sweep_runs_every_point_once_keeps_failures_and_then_does_only_what_is_missing(small, tmp_path):
    grid = write(tmp_path / "g.yaml", {"notebook": "90-small", "grid": {"name": ["no", "1e3"], "n": [1, 0]}})
    first = {line["run"]: line["status"] for line in sweep(grid)}
    assert first["no--1"] == first["1e3--1"] == "done"
    assert first["no--0"].startswith("failed: ZeroDivisionError") and len(first) == 4
    failed = nbformat.read(paths.SWEEPS / "g" / "no--0.failed.ipynb", as_version=4)
    for path in (paths.SWEEPS / "g").iterdir():
        text = path.read_text(encoding="utf-8")
        assert str(paths.ROOT) not in text and str(paths.OUT) not in text, path
    assert any("ZeroDivisionError" in json.dumps(cell.get("outputs", [])) for cell in failed.cells)
    assert not list((paths.SWEEPS / "g").glob("*.part*"))
    second = {line["run"]: line["status"] for line in sweep(grid)}
    assert second["no--1"] == second["1e3--1"] == "already done"
    # `1e3` and `no` stay the texts that they are.
    text = (paths.SWEEPS / "g" / "1e3--1.ipynb").read_text(encoding="utf-8")
    assert '"1e3 1\\n"' in text


def test_a_point_whose_parameters_changed_is_run_again(small, tmp_path):
    spec = {"notebook": "90-small", "fixed": {"name": "a"}, "grid": {"n": [1]}}
    sweep(write(tmp_path / "g.yaml", spec))
    lines = sweep(write(tmp_path / "g.yaml", {**spec, "fixed": {"name": "b"}}))
    assert [line["status"] for line in lines] == ["done"]


def test_a_point_is_run_again_when_the_judges_changed(small, tmp_path, monkeypatch):
    grid = write(tmp_path / "g.yaml", {"notebook": "90-small", "grid": {"n": [1]}})
    sweep(grid)
    monkeypatch.setattr(paths, "JUDGES", write(tmp_path / "judges.yaml", {"lexical": {}}))
    assert [line["status"] for line in sweep(grid)] == ["done"]


def test_a_run_that_ends_in_any_way_does_not_end_the_sweep(small, tmp_path, monkeypatch):
    def broken(name, out, values):
        if values["n"] == 1:
            raise RuntimeError(f"the kernel died in {paths.ROOT}/lib")
        out.write_bytes(small.read_bytes())

    monkeypatch.setattr(sweeps, "run_notebook", broken)
    grid = write(tmp_path / "g.yaml", {"notebook": "90-small", "grid": {"n": [1, 2]}})
    (paths.SWEEPS / "g").mkdir(parents=True)
    statuses = [line["status"] for line in sweep(grid)]
    assert statuses == ["failed: RuntimeError: the kernel died in lib", "done"]


def test_a_judge_without_an_entry_stops_a_sweep_before_anything_runs(tmp_path):
    grid = {"notebook": "20-judge", "grid": {"judge": ["lexical", "lexcial"]}}
    with pytest.raises(ValueError, match=r"judges\.yaml has no judge 'lexcial'"):
        read_grid(write(tmp_path / "g.yaml", grid))


def test_the_studys_sweep_is_four_judges_in_four_designs_and_sonnet_in_two():
    runs = read_grid(paths.PARAMS / "sweeps" / "primary.yaml")
    points = [(run.values["judge"], *run.values["designs"]) for run in runs]
    assert len(points) == len(set(points)) == 14
    assert [design for judge, design in points if judge == "sonnet-4.6"] == ["C.v1", "H.v1"]
    assert {tuple(run.values["datasets"]) for run in runs} == {("truthfulqa", "asqa", "qampari")}
    assert {run.values["n_questions"] for run in runs} == {200}
    rows = {name: runs[0].values[name] for name in ("source", "files", "n_questions", "seed")}
    assert params.read_parameters(paths.PARAMS / "paper.yaml") == rows


def test_an_unknown_condition_stops_a_sweep_before_anything_runs(tmp_path):
    grid = {"notebook": "20-judge", "grid": {"judge": ["lexical"], "condition": ["swap", "cap+swop"]}}
    with pytest.raises(ValueError, match="there is no condition 'swop'"):
        read_grid(write(tmp_path / "g.yaml", grid))


def test_the_studys_diagnostics_are_every_group_of_conditions_and_sonnet_in_two_designs():
    runs = read_grid(paths.PARAMS / "sweeps" / "diagnostics.yaml")
    assert {run.values["condition"] for run in runs} == set(GROUPS) and {
        run.values["n_questions"] for run in runs
    } == {25}
    designs = {tuple(run.values["designs"]) for run in runs if run.values["judge"] == "sonnet-4.6"}
    assert designs == {("C.v1", "H.v1")} and len(runs) == 3 * (11 + 9) + 11


def test_a_sweep_runs_again_when_a_condition_was_changed(small, tmp_path, monkeypatch):
    grid = write(tmp_path / "g.yaml", {"notebook": "90-small", "grid": {"n": [1]}})
    assert [line["status"] for line in sweep(grid)] == ["done"]
    code = tmp_path / "lib"
    code.mkdir()
    for name in ("conditions", "changes", "donors", "generate", "texts"):
        text = (paths.ROOT / "lib" / f"{name}.py").read_text(encoding="utf-8")
        (code / f"{name}.py").write_text(text + "# changed\n" * (name == "changes"), encoding="utf-8")
    monkeypatch.setattr(paths, "ROOT", tmp_path)
    assert [line["status"] for line in sweep(grid)] == ["done"]


def test_a_name_that_stands_twice_in_a_file_is_an_error(tmp_path):
    (tmp_path / "p.yaml").write_text("seed: 1\nseed: 2\n")
    with pytest.raises(ValueError, match=r"p\.yaml cannot be read as parameters: 'seed' stands twice"):
        params.read_parameters(tmp_path / "p.yaml")


@pytest.mark.parametrize(
    ("data", "said"),
    [(b"seed: 2026-13-45", "month must be in"), (b"seed: \xff", "utf-8"), (b"[" * 3000, "recursion|nest")],
)
def test_what_cannot_be_read_as_yaml_names_the_file(tmp_path, data, said):
    (tmp_path / "p.yaml").write_bytes(data)
    with pytest.raises(ValueError, match=rf"(?i)p\.yaml cannot be read as parameters: .*({said})"):
        params.read_parameters(tmp_path / "p.yaml")


def test_parts_of_a_yaml_file_may_be_merged(tmp_path):
    (tmp_path / "p.yaml").write_text("a: &a {x: 1, y: 2}\nb: {<<: *a, y: 3}\n")
    assert params.read_parameters(tmp_path / "p.yaml")["b"] == {"x": 1, "y": 3}


def test_an_injected_key_under_an_unknown_name_is_refused_as_a_key():
    cell = f'# Parameters\nkey_env = "sk-{"test-" * 5}"\n'
    with pytest.raises(ValueError, match="key_env looks like a key.*delete that file") as caught:
        freeze({"In": ["seed = 1", cell], "seed": 1}, seed=int)
    assert "test-test" not in str(caught.value)


def test_long_values_make_names_that_a_disk_takes_and_that_differ(small, tmp_path):
    grid = {"notebook": "90-small", "grid": {"name": ["x" * 300, "x" * 299 + "y"]}}
    names = [run.name for run in read_grid(write(tmp_path / "g.yaml", grid))]
    assert len(set(names)) == 2 and max(map(len, names)) <= 120


@pytest.mark.parametrize(
    ("spec", "line"),
    [
        ({"notebook": "90-small"}, "a sweep has notebook and grid"),
        ({"notebook": "90-small", "grid": {"n": []}}, r"grid\.n must be a list"),
        ({"notebook": "90-small", "grid": {"n": 1}}, r"grid\.n must be a list"),
        ({"notebook": "90-small", "grid": {"m": [1]}}, "unknown parameter m"),
        ({"notebook": "90-small", "grid": {"n": ["1"]}}, "parameter n must be int"),
        ({"notebook": "90-small", "grid": {"n": [1, 1]}}, "two points of the grid have the same name"),
        ({"notebook": "90-small", "grid": {"n": [1]}, "fixd": {}}, "a sweep has notebook and grid"),
        ({"notebook": "90-small", "grid": ["n"]}, "grid and fixed hold"),
        ({"notebook": "90-small", "grid": {"n": [1]}, "exclude": {"n": 1}}, "exclude is a list"),
        ({"notebook": "90-small", "grid": {"n": [1]}, "exclude": [{"m": 1}]}, "matches no point of the grid"),
        ({"notebook": "90-small", "grid": {"n": [1]}, "exclude": [{"n": 2}]}, "matches no point of the grid"),
        ({"notebook": "90-small", "grid": {"n": [1]}, "fixed": {"n": 2}}, "n is both fixed and in the grid"),
        ({"notebook": 20, "grid": {"n": [1]}}, "no notebook '20'"),
    ],
)
def test_a_bad_grid_is_refused_before_anything_runs(small, tmp_path, spec, line):
    with pytest.raises(ValueError, match=line):
        sweep(write(tmp_path / "g.yaml", spec))
    assert not (paths.SWEEPS / "g").exists()


def test_exclusions_leave_points_out(small, tmp_path):
    spec = {"notebook": "90-small", "grid": {"name": ["a", "b"], "n": [1, 2]}, "exclude": [{"name": "a", "n": 2}]}
    assert [run.name for run in read_grid(write(tmp_path / "g.yaml", spec))] == ["a--1", "b--1", "b--2"]


def test_the_committed_parameter_files_fit_the_notebooks():
    steps = paths.PARAMS / "reproduce.yaml"
    assert {step[0].stem for step in read_steps(steps, {})} == {path.stem for path in sweeps.notebooks()}
    for name in ("sample", "paper"):
        values = params.read_parameters(paths.PARAMS / f"{name}.yaml")
        for notebook in ("10-labels", "20-judge", "30-designs"):
            check_parameters(notebook_path(notebook), values)
    assert len(read_grid(paths.PARAMS / "sweeps" / "sample.yaml")) == 24
    defaults = declared_parameters(notebook_path("20-judge"))
    sample = params.read_parameters(paths.PARAMS / "sample.yaml")
    assert {name: defaults[name] for name in sample} == sample


def test_common_parameters_reach_the_steps_that_declare_them_and_an_unknown_one_is_refused(small, tmp_path):
    steps = write(tmp_path / "s.yaml", [{"notebook": "90-small", "n": 2}])
    assert [values for _, _, values in read_steps(steps, {"name": "b", "n": 1})] == [{"name": "b", "n": 2}]
    with pytest.raises(ValueError, match="unknown parameter nam; did you mean name"):
        read_steps(steps, {"nam": "b"})


def test_a_datasets_file_is_handed_only_to_the_notebooks_that_take_the_dataset(tmp_path):
    (tmp_path / "q.json").write_text("[]")
    steps = write(tmp_path / "s.yaml", [{"notebook": "10-labels"}, {"notebook": "11-generate"}])
    common = {"files": {"qampari": str(tmp_path / "q.json")}, "max_usd": 1.0}
    assert [values["files"] for _, _, values in read_steps(steps, common)] == [common["files"], {}]


@pytest.mark.parametrize("words", ["", "sweep", "reproduce", "nothing x", "sweep none.yaml", "reproduce none.yaml"])
def test_a_wrong_command_says_one_line_and_ends_with_2(words, capsys):
    assert sweeps.main(words.split()) == 2
    assert len(capsys.readouterr().err.strip().splitlines()) == 1
