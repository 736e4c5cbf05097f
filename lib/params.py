"""Parameters of a notebook: frozen and checked inside it, and the name of the rows that they select.

Running notebooks from outside is `lib.sweeps`.
"""

from __future__ import annotations

import ast
import difflib
import hashlib
import re
from collections.abc import Mapping
from dataclasses import make_dataclass
from pathlib import Path
from types import GenericAlias

import yaml

from lib import paths

INJECTED = "# Parameters"
# What a key of the providers looks like. A key in a parameter would be stored in the executed notebook.
_KEY_SHAPE = re.compile(r"^(sk-|AIza|xai-|gsk_|hf_)[\w-]{12,}$")


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


def check_type(name: str, value: object, kind: type | GenericAlias) -> None:
    """Raise ValueError unless `value` is of `kind`: str, int, float (an int will do), bool, list[str] or dict."""
    texts = [value] if isinstance(value, str) else value if isinstance(value, list) else []
    if any(isinstance(text, str) and _KEY_SHAPE.match(text) for text in texts):
        raise ValueError(f"parameter {name} looks like a key; keys come from the environment alone")
    if kind == list[str]:
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise ValueError(f"parameter {name} must be a list of strings, not {value!r}; with papermill use -y")
        return
    allowed = (int, float) if kind is float else kind
    if not isinstance(value, allowed) or (isinstance(value, bool) and kind is not bool):
        hint = {str: "; with papermill use -r, which keeps text as text", bool: "; with papermill use -y"}
        raise ValueError(f"parameter {name} must be {kind.__name__}, not {value!r}{hint.get(kind, '')}")


def _refuse_unknown(history: list[str], declared: set[str]) -> None:
    # The last cell that sets parameters, and if that is papermill's, the notebook's own before it. Older ones
    # may hold a mistake that the reader has mended since.
    setting = [cell for cell in history if cell.startswith(INJECTED) or declared & assigned_names(cell).keys()]
    last = setting[-2:] if setting and setting[-1].startswith(INJECTED) else setting[-1:]
    for cell in last:
        for name in assigned_names(cell):
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


def run_name(source: str, files: Mapping[str, str], n_questions: int, seed: int) -> str:
    """The name of the rows that these parameters select; what is made from them is stored under it.

    Local files enter by their content, so that two versions of a benchmark never share a folder.
    """
    tag = source
    if files:
        parts = [
            f"{name} {hashlib.sha256(local_file(path).read_bytes()).hexdigest()}" for name, path in files.items()
        ]
        tag += "+files-" + hashlib.sha256("\n".join(sorted(parts)).encode()).hexdigest()[:8]
    return f"{tag}-{n_questions}q-seed{seed}"


def source_of(dataset: str, source: str, files: Mapping[str, str]) -> str | Path:
    """Where a dataset comes from: its local file if `files` names one, else `source`."""
    return local_file(files[dataset]) if dataset in files else source


def local_file(path: str) -> Path:
    """A file named by a parameter: as it stands if absolute, else below the repository. Raises ValueError if none."""
    found = paths.ROOT / path
    if not found.is_file():
        raise ValueError(f"there is no file {path}; name it from the repository's root, or in full")
    return found


def read_parameters(path: Path) -> dict[str, object]:
    """A YAML file of parameters. Raises ValueError that names the file for anything else."""
    try:
        values = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ValueError(f"{paths.shown(path)} cannot be read as parameters: {error}") from None
    if not isinstance(values, dict) or not all(isinstance(name, str) for name in values):
        raise ValueError(f"{paths.shown(path)} must hold one `name: value` a line")
    return values
