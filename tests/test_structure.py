"""The rules that the repository keeps about itself: notebooks, imports, the lock, what may not be committed."""

import ast
import asyncio
import re
import subprocess
import sys
import tomllib
from importlib.metadata import PackageNotFoundError, requires, version

import nbformat
import pandas as pd
import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from lib import paths, tables
from lib.judges import load_judge
from lib.labels import build_rows
from lib.notebooks import notebooks
from lib.params import assigned_names
from lib.plan import Plan, judgments
from lib.run import execute
from lib.sources import DATASETS, load_questions, normalised
from lib.store import Store

NOTEBOOKS = notebooks()
# A module imports only from those before it.
ORDER = [
    ["paths", "jsonish", "redact", "providers", "owners", "texts"],
    ["exact", "params", "parsing", "donors", "readers", "resampling", "recorded", "entries"],
    ["hub", "prompts", "providers.bodies", "providers.lexical", "store", "results", "notebooks", "power"],
    ["pages", "sources", "providers.openai", "providers.anthropic", "providers.google", "expect"],
    ["providers.local"],
    ["judges"],
    ["labels", "stats", "pace"],
    ["plan", "attempts", "prices", "changes", "label_files", "agreement"],
    ["expected", "ledger", "hints", "spilled", "conditions", "generate", "labelling"],
    ["cost", "landing", "sweeps", "effects", "slices", "generated", "label_widget"],
    ["budget", "tables"],
    ["engine", "batch", "reported", "standards", "paper_stats", "table_files", "browse"],
    ["run", "estimate", "diagnosis", "material"],
    ["record", "paper_figures", "findings"],
    ["figures"],
    ["effect_figures", "effect_findings", "standard_tables", "generated_tables"],
    ["paper_tables", "reproduced"],
    ["study"],
    ["compared", "evidence", "arithmetic"],
    ["decisions"],
    ["claims"],
    ["paper"],
    ["editions", "headlines"],
    ["site"],
]


@pytest.fixture(params=NOTEBOOKS, ids=lambda path: path.stem)
def notebook(request):
    return nbformat.read(request.param, as_version=4)


def code(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def tagged(cell, tag):
    return tag in cell.metadata.get("tags", [])


def test_the_notebooks_of_this_phase_are_there():
    first = ["00-quickstart", "10-labels", "20-judge", "30-designs", "40-diagnostics"]
    first[2:2] = ["11-generate"]
    first += ["50-label-standards", "60-generated-answers", "70-paper"]
    assert [path.stem for path in NOTEBOOKS][: len(first)] == first


def test_a_notebook_begins_with_one_title_and_its_table(notebook):
    titles = [cell for cell in notebook.cells if cell.cell_type == "markdown" and re.search(r"(?m)^# ", cell.source)]
    assert titles == [notebook.cells[0]] and titles[0].source.count("\n# ") == 0
    assert "| reads | writes | minutes and cost | runs by |" in titles[0].source


def test_imports_then_parameters_then_the_freeze(notebook):
    cells = code(notebook)
    assert all(isinstance(node, ast.Import | ast.ImportFrom) for node in ast.parse(cells[0].source).body)
    assert [number for number, cell in enumerate(cells) if tagged(cell, "parameters")] == [1]
    declared = assigned_names(cells[1].source)
    assert declared and all(line.count("=") == 1 for line in cells[1].source.splitlines())
    freeze = [node for node in ast.walk(ast.parse(cells[2].source)) if isinstance(node, ast.Call)]
    names = {kw.arg for call in freeze if getattr(call.func, "id", "") == "freeze" for kw in call.keywords} - {None}
    names |= {node.value for node in ast.walk(ast.parse(cells[2].source)) if isinstance(node, ast.Constant)} & set(
        declared
    )
    assert names == set(declared)


def test_cells_are_few_and_short_and_each_is_introduced(notebook):
    assert 20 <= len(notebook.cells) <= 45
    # The parameters cell has a line for each parameter.
    lengths = [len(cell.source.splitlines()) for cell in code(notebook)[1:] if not tagged(cell, "parameters")]
    assert max(lengths) <= 10
    headings = [
        line
        for cell in notebook.cells
        if cell.cell_type == "markdown"
        for line in cell.source.splitlines()
        if line.startswith("## ")
    ]
    assert headings[-2:] == ["## Checks", "## Written"]


def test_a_notebook_checks_with_asserts(notebook):
    after = False
    asserts = 0
    for cell in notebook.cells:
        after = after or cell.source.startswith("## Checks")
        asserts += after and cell.cell_type == "code" and "assert " in cell.source
    assert asserts >= 1


def test_stored_outputs_are_there_in_order_and_without_noise(notebook):
    cells = code(notebook)
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    outputs = [output for cell in cells for output in cell.outputs]
    assert len(outputs) > 8
    assert not [output for output in outputs if output.get("name") == "stderr" or output.output_type == "error"]
    assert "papermill" not in notebook.metadata and notebook.metadata.kernelspec.name == "python3"


def test_analysis_notebooks_ask_no_model():
    for path in NOTEBOOKS:
        text = "\n".join(cell.source for cell in code(nbformat.read(path, as_version=4)))
        if path.stem not in ("20-judge", "11-generate"):
            assert "open_provider" not in text and "live" not in text
            # The quickstart runs the word-overlap baseline, which is no model.
            assert "execute(" not in text or (path.stem == "00-quickstart" and 'load_judge("lexical")' in text)


def modules():
    return {
        ".".join(path.relative_to(paths.ROOT / "lib").with_suffix("").parts).removesuffix(".__init__"): path
        for path in sorted((paths.ROOT / "lib").rglob("*.py"))
        if path != paths.ROOT / "lib" / "__init__.py"
    }


def imported(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "lib":
            below = node.module.removeprefix("lib").removeprefix(".")
            yield from [below] if below else [alias.name for alias in node.names]


def test_modules_import_only_downwards():
    rank = {name: number for number, names in enumerate(ORDER) for name in names}
    found = modules()
    assert set(found) == set(rank)
    wrong = [
        f"{name} imports {other}"
        for name, path in found.items()
        for other in imported(path)
        if rank[other] >= rank[name]
    ]
    assert not wrong


def test_modules_are_thin_and_say_what_they_do():
    for path in modules().values():
        text = path.read_text(encoding="utf-8")
        assert len(text.splitlines()) <= 250, path
        assert ast.get_docstring(ast.parse(text)), path


def test_importing_lib_stays_light():
    """What only some runs need is imported there: the hub's reader, the statistics, the figures."""
    heavy = ("datasets", "scipy.stats", "statsmodels", "matplotlib", "xllamacpp", "openai")
    code = f"import sys, lib.run, lib.tables, lib.labels; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def git(*arguments):
    return subprocess.run(["git", "-C", paths.ROOT, *arguments], capture_output=True, text=True)


def committed():
    names = git("ls-files", "-z").stdout.split("\0")
    return [paths.ROOT / name for name in names if name and (paths.ROOT / name).is_file()]


def test_lib_is_not_ignored():
    for name in (
        "lib/stats.py",
        "lib/providers/new.py",
        "data/sample/x.csv",
        "data/recorded/x.jsonl.gz",
        "figures/sample-40q-seed0/x.png",
    ):
        assert git("check-ignore", "-q", name).returncode == 1, name
    for name in (
        "data/calls.sqlite",
        "data/judgments/x/y.parquet",
        ".venv/x",
        "models/x.gguf",
        "figures/other/x.png",
    ):
        assert git("check-ignore", "-q", name).returncode == 0, name


def test_nothing_committed_holds_a_machine_path_or_a_key():
    path = re.compile(r"(?<![\w.])/(?:work|root|tmp|home/\w+|farm|Users/\w+)/[\w.-]+")
    key = re.compile(r"\b(?:sk-(?!test)[A-Za-z0-9-]{16,}|AIza[0-9A-Za-z_-]{30,})")
    binary = {".png", ".pdf", ".gz", ".parquet", ".xlsx", ".sqlite"}
    for file in committed():
        if file.suffix not in binary:
            text = file.read_text(encoding="utf-8", errors="ignore")
            assert not path.search(text) and not key.search(text), file


def test_the_samples_questions_are_our_own():
    shared = paths.ROOT.parent / "shared" / "data"
    if not shared.exists():
        pytest.skip("the benchmarks' files are not beside this checkout")
    files = {
        "truthfulqa": ["truthfulqa/TruthfulQA.v1-817.csv", "truthfulqa/TruthfulQA.2025-790.csv"],
        "asqa": ["asqa/asqa_dev.hub-fields.jsonl"],
        "qampari": ["qampari/qampari_dev.alce.json"],
    }
    for dataset in DATASETS:
        ours = {normalised(text) for text in load_questions(dataset)["question"]}
        for name in files[dataset]:
            assert not ours & {normalised(text) for text in load_questions(dataset, shared / name)["question"]}


# The environment: pyproject.toml, requirements.txt and environment.yml are one set.


def top_requirements():
    project = tomllib.loads((paths.ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    return [Requirement(text) for text in project["project"]["dependencies"]]


def locked(path):
    lines = [line.split("#")[0].strip() for line in path.read_text(encoding="utf-8").splitlines()]
    found = [Requirement(line) for line in lines if line]
    assert len({canonicalize_name(each.name) for each in found}) == len(found), "one version for all Pythons"
    return {canonicalize_name(each.name): each for each in found if each.marker is None or each.marker.evaluate()}


def conda_requirements():
    """What environment.yml installs by pip, as a set of requirements."""
    file = paths.ROOT / "environment.yml"
    dependencies = yaml.safe_load(file.read_text(encoding="utf-8"))["dependencies"]
    assert [each for each in dependencies if isinstance(each, str)] == ["python >=3.11,<3.14", "pip"]
    (pip,) = [each["pip"] for each in dependencies if isinstance(each, dict)]
    assert pip == ["-r requirements.txt"]
    return locked(paths.ROOT / pip[0].removeprefix("-r "))


def closure(requirements):
    """Every distribution that these requirements bring along here, with its installed version."""
    found, open_ones = {}, list(requirements)
    while open_ones:
        requirement = open_ones.pop()
        name = canonicalize_name(requirement.name)
        key = (name, tuple(sorted(requirement.extras)))
        if key in found:
            continue
        found[key] = version(name)
        for text in requires(name) or []:
            each = Requirement(text)
            extras = requirement.extras or {""}
            if each.marker is None or any(each.marker.evaluate({"extra": extra}) for extra in extras):
                open_ones.append(each)
    return {name: installed for (name, _), installed in found.items()}


def test_every_package_that_is_imported_is_a_dependency_of_its_own():
    """Else a fresh clone lacks what happens to be installed here."""
    from importlib.metadata import packages_distributions

    names = packages_distributions()
    tops = {canonicalize_name(each.name) for each in top_requirements()}
    # What pytest, Jupyter and the notebooks' tools bring themselves, and imports that are for one system only.
    brought = {
        "packaging",
        "nbformat",
        "markupsafe",
        "jsonschema",
        "huggingface-hub",
        "ipython",
        "psutil",
        "httpx2",
        "pydantic",
        "httpx",
    }
    for path in [*(paths.ROOT / "lib").rglob("*.py"), *(paths.ROOT / "tests").rglob("*.py")]:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            modules = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            modules += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            for module in {module.split(".")[0] for module in modules} - {"lib", "tests", "", "sitecustomize"}:
                if module not in sys.stdlib_module_names:
                    found = {canonicalize_name(name) for name in names.get(module, [module])}
                    assert found & (tops | brought), (
                        f"{path.name} imports {module}, which pyproject.toml does not name"
                    )


def test_environment_yml_and_pyproject_bring_exactly_what_is_locked():
    lock = conda_requirements()
    tops = [each for each in top_requirements() if each.marker is None or each.marker.evaluate()]
    for top in tops:
        pin = lock[canonicalize_name(top.name)]
        assert str(pin.specifier).startswith("==") and top.specifier.contains(str(pin.specifier)[2:]), top
    try:
        needed = closure(tops)
    except PackageNotFoundError as error:
        raise AssertionError(f"{error} is needed and not installed") from None
    assert set(needed) == set(lock)
    assert {name: f"=={installed}" for name, installed in needed.items()} == {
        n: str(pin.specifier) for n, pin in lock.items()
    }


def test_every_top_dependency_has_a_reason():
    text = (paths.ROOT / "pyproject.toml").read_text(encoding="utf-8")
    block = text.split("dependencies = [\n")[1].split("\n]")[0].splitlines()
    for before, line in zip(["", *block], block, strict=False):
        assert line.strip().startswith("#") or "#" in line or before.strip().startswith("#"), line


def test_environment_and_project_agree_on_python():
    project = tomllib.loads((paths.ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert project["project"]["requires-python"] == ">=3.11,<3.14"


def test_ci_and_readme_run_the_same_two_commands():
    assert (paths.ROOT / ".ci/run").read_text(encoding="utf-8").strip().endswith("make test")
    workflow = yaml.safe_load((paths.ROOT / ".github/workflows/ci.yml").read_text(encoding="utf-8"))
    runs = [step["run"] for step in workflow["jobs"]["check"]["steps"] if "run" in step]
    readme = (paths.ROOT / "README.md").read_text(encoding="utf-8")
    assert runs == ["make reproduce", "make test"] and all(f"\n{command}" in readme for command in runs)


def test_every_make_target_that_readme_names_exists():
    readme = (paths.ROOT / "README.md").read_text(encoding="utf-8")
    makefile = (paths.ROOT / "Makefile").read_text(encoding="utf-8")
    for target in set(re.findall(r"\bmake ([a-z][a-z-]*)", readme)):
        assert re.search(rf"(?m)^{target}:", makefile), target


def test_readmes_table_of_notebooks_equals_the_files():
    readme = (paths.ROOT / "README.md").read_text(encoding="utf-8")
    assert re.findall(r"(?m)^\| \[`([0-9]{2}-[\w-]+)`\]\(notebooks/\1\.ipynb\)", readme) == [
        path.stem for path in NOTEBOOKS
    ]


def test_readmes_sample_table_is_the_one_that_the_notebooks_write():
    readme = (paths.ROOT / "README.md").read_text(encoding="utf-8")
    table = paths.ROOT / "figures" / "sample-40q-seed0--smollm2+lexical" / "table-02-accuracy.md"
    assert table.read_text(encoding="utf-8").strip() in readme


def test_readmes_table_of_the_real_benchmarks_is_what_the_word_matcher_gives():
    shared = paths.ROOT.parent / "shared" / "data"
    if not shared.exists():
        pytest.skip("the benchmarks' files are not beside this checkout")
    names = ("truthfulqa/TruthfulQA.v0-817.csv", "asqa/asqa_dev.hub-fields.jsonl", "qampari/qampari_dev.alce.json")
    questions = [load_questions(dataset, shared / name, 200) for dataset, name in zip(DATASETS, names, strict=True)]
    rows = build_rows(pd.concat(questions, ignore_index=True))
    plan, store = Plan(rows, ("C.v1", "H.v1", "R.v1", "B.v1"), load_judge("lexical")), Store(":memory:", recorded=())
    asyncio.run(execute(plan, store))
    table = tables.accuracy_markdown(tables.accuracy_table(judgments(plan, store)))
    assert table in (paths.ROOT / "README.md").read_text(encoding="utf-8")


def test_links_in_readme_lead_somewhere():
    readme = (paths.ROOT / "README.md").read_text(encoding="utf-8")
    for target in re.findall(r"\]\(((?!https?:)[^)#]+)\)", readme):
        assert (paths.ROOT / target).exists(), target
