"""Parameters of a notebook: frozen and checked inside it, and the name of the rows that they select.

Running notebooks from outside is `lib.sweeps`.
"""

from __future__ import annotations

import ast
import difflib
import hashlib
from collections.abc import Mapping
from dataclasses import make_dataclass
from pathlib import Path
from types import GenericAlias, SimpleNamespace

import yaml

from lib import paths
from lib.redact import looks_like_key

INJECTED = "# Parameters"


def freeze(namespace: Mapping[str, object], **types: type | GenericAlias):
    """The notebook's parameters as one frozen object, checked against the types they must have.

    Call it right after the parameters cell: `p = freeze(globals(), judge=str, n_questions=int)`. Types are str,
    int, float, bool, list[str] and dict; lists come back as tuples. Raises ValueError for a parameter of
    another type, one that was injected or declared but is not listed here, and one that looks like a key.
    """
    _refuse_unknown(namespace.get("In", []), set(types))
    values = {}
    for name, kind in types.items():
        if name not in namespace:
            raise ValueError(f"parameter {name} is not set; the parameters cell must declare it")
        check_type(name, namespace[name], kind)
        value = namespace[name]
        values[name] = tuple(value) if isinstance(value, list) else value
    params = make_dataclass("Params", list(types), frozen=True)
    return params(**values)


def as_frozen(values: Mapping[str, object]) -> SimpleNamespace:
    """Parameters given from outside as `freeze` gives them to the notebook: lists as tuples."""
    return SimpleNamespace(**{k: tuple(v) if isinstance(v, list) else v for k, v in values.items()})


def check_type(name: str, value: object, kind: type | GenericAlias) -> None:
    """Raise ValueError unless `value` is of `kind`: str, int, float (an int will do), bool, list[str] or dict."""
    _refuse_key(name, value)
    if kind == list[str]:
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise ValueError(f"parameter {name} must be a list of strings, not {value!r}; with papermill use -y")
        return
    allowed = (int, float) if kind is float else kind
    if not isinstance(value, allowed) or (isinstance(value, bool) and kind is not bool):
        hint = {str: "; with papermill use -r, which keeps text as text", bool: "; with papermill use -y"}
        raise ValueError(f"parameter {name} must be {kind.__name__}, not {value!r}{hint.get(kind, '')}")


def _refuse_key(name: str, value: object) -> None:
    if looks_like_key(value):
        raise ValueError(
            f"parameter {name} looks like a key; keys come from the environment alone. If papermill injected it, it "
            "stands in the output notebook: delete that file"
        )


def _refuse_unknown(history: list[str], declared: set[str]) -> None:
    # The last cell that sets parameters, and if that is papermill's, the notebook's own before it. Older ones
    # may hold a mistake that the reader has mended since.
    setting = [cell for cell in history if cell.startswith(INJECTED) or declared & assigned_names(cell).keys()]
    last = setting[-2:] if setting and setting[-1].startswith(INJECTED) else setting[-1:]
    for cell in last:
        for name, value in assigned_names(cell).items():
            _refuse_key(name, value)
            if name not in declared:
                raise ValueError(unknown(name, declared))


def assigned_names(source: str) -> dict[str, object]:
    """Names and values of a cell that holds nothing but `name = literal`; {} for any other cell."""
    try:
        body = ast.parse(source).body
        pairs = {statement.targets[0].id: ast.literal_eval(statement.value) for statement in body}
    except (SyntaxError, AttributeError, ValueError):
        return {}
    return pairs


def unknown(name: str, declared: set[str], where: str = "") -> str:
    """The error line for a name that is not declared, with the nearest one that is."""
    near = difflib.get_close_matches(name, declared, n=1)
    hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(sorted(declared))}"
    return f"{where}unknown parameter {name}; {hint}"


def run_name(p) -> str:
    """The name of the rows that these parameters select; what is made from them is stored under it.

    `p` has source, files, datasets, n_questions and seed, and may have judges, designs and generators. Local files
    enter by their content, so that two versions of a benchmark never share a folder. Raises ValueError for a value
    that selects nothing, or that would select something else than it says.
    """
    if p.source not in ("sample", "hub"):
        raise ValueError(f"source is sample or hub, not {p.source!r}; name a local file in files, by its dataset")
    for name in ("datasets", "designs", "judges", "generators"):
        values = getattr(p, name, ("",))
        # Without generators the rows are the benchmarks' own.
        if (not values and name != "generators") or len(set(values)) < len(values):
            raise ValueError(f"{name} must name at least one, each once, not {list(values)}")
    for name in p.files:
        if name not in p.datasets:
            raise ValueError(f"files names {name!r}, which is not among datasets ({', '.join(p.datasets)})")
    if getattr(p, "mode", "live") not in ("live", "batch"):
        raise ValueError(f"mode is live or batch, not {p.mode!r}")
    least_of = {"n_questions": 1, "seed": 0, "live_calls": 0, "free_questions": 1, "max_usd": 0, "wait_minutes": 0}
    for name, least in least_of.items():
        if not least <= getattr(p, name, least) < 2**63:
            raise ValueError(f"{name} must be a number from {least} on, not {getattr(p, name)}")
    made = f"--by-{'+'.join(p.generators)}" if getattr(p, "generators", ()) else ""
    return f"{source_name(p)}-{p.n_questions}q-seed{p.seed}{made}"


def source_name(p) -> str:
    """The name of where rows come from: `p.source`, with the content of local files where `p.files` names some."""
    if not p.files:
        return p.source
    parts = [f"{name} {_sha256(local_file(path))}" for name, path in sorted(p.files.items())]
    return f"{p.source}+files-" + hashlib.sha256("\n".join(parts).encode()).hexdigest()[:8]


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def source_of(dataset: str, p) -> str | Path:
    """Where a dataset comes from: its local file if `p.files` names one, else `p.source`."""
    return local_file(p.files[dataset]) if dataset in p.files else p.source


def local_file(path: str) -> Path:
    """A file named by a parameter: as it stands if absolute, else below the repository. Raises ValueError if none."""
    found = paths.ROOT / path if isinstance(path, str) else None
    if found is None or not found.is_file():
        raise ValueError(
            f"files: there is no file {path!r}; name it from the repository's root, or in full. "
            "Where the benchmarks' files come from stands in README under The paper's rows"
        )
    return found


class _Strict(yaml.SafeLoader):
    """YAML in which a name that stands twice is an error: else the last one would win in silence."""


def _mapping(loader: _Strict, node: yaml.MappingNode) -> dict:
    places = [place for place, _ in node.value if place.tag != "tag:yaml.org,2002:merge"]
    names = [loader.construct_object(place, deep=True) for place in places]
    for name, place in zip(names, places, strict=True):
        if names.count(name) > 1:
            raise yaml.constructor.ConstructorError(None, None, f"{name!r} stands twice", place.start_mark)
    loader.flatten_mapping(node)
    return loader.construct_mapping(node, deep=True)


_Strict.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _mapping)


def read_yaml(path: Path) -> object:
    """What a YAML file holds. Raises OSError, and yaml.YAMLError, also for a name that stands twice."""
    try:
        return yaml.load(path.read_text(encoding="utf-8"), Loader=_Strict)
    except (ValueError, RecursionError) as error:
        # A date that is none, bytes that are no UTF-8, nesting without end.
        raise yaml.YAMLError(str(error)) from None


def read_parameters(path: Path) -> dict[str, object]:
    """A YAML file of parameters. Raises ValueError that names the file for anything else."""
    try:
        values = read_yaml(path)
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        said = getattr(error, "strerror", None) or " ".join(str(error).split())
        raise ValueError(f"{paths.shown(path)} cannot be read as parameters: {said}") from None
    if not isinstance(values, dict) or not all(isinstance(name, str) for name in values):
        raise ValueError(f"{paths.shown(path)} must hold one `name: value` a line")
    return values
