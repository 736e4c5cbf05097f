"""Judge prompts: one Markdown file each under `prompts/`, loaded, checked against the lock, rendered, hashed.

A prompt file has YAML front matter (`id`, `design`, `note`, `keys`) and two parts, `# system` and `# user`.
This module builds messages and the JSON schema of a reply; it sends nothing and reads no reply.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from string import Template

import yaml

from lib import paths
from lib.parsing import VERDICTS

FIELDS = ("question", "reference", "candidate")
LOCK = paths.PROMPTS / "LOCK.json"

_PARTS = re.compile(r"\A---\n(?P<front>.*?)\n---\n+# system\n(?P<system>.*?)\n# user\n(?P<user>.*)\Z", re.DOTALL)
_LAYOUT_TAG = re.compile(r"<(/?)(question|reference|candidate)>")
# Wider than the layout's own tags: what a reader would take for one counts too.
_LOOKS_LIKE_TAG = re.compile(r"<[\s/]*(?:question|reference|candidate)(?:-(\d+))?\b", re.IGNORECASE)


@dataclass(frozen=True)
class Prompt:
    """One version of one judge design. `sha256` is that of the file's text with Unix line ends."""

    id: str
    design: str
    note: str
    keys: tuple[str, ...]
    system: str
    user: str
    sha256: str

    @property
    def lists(self) -> tuple[str, ...]:
        """The keys whose values are lists of strings: all between `confidence` and `rationale`."""
        return self.keys[3:-1]


def prompt_ids() -> list[str]:
    """Every prompt that has a file, sorted."""
    return sorted(path.stem for path in paths.PROMPTS.glob("*.md"))


def load_prompt(prompt_id: str) -> Prompt:
    """The prompt `C.v1`, `H.v1`, ...: `prompts/<id>.md`, equal to what `prompts/LOCK.json` holds.

    Raises ValueError for an unknown id, a malformed file, placeholders that differ from question, reference
    and candidate, and for a text that differs from the lock: replies are stored under the old text, so a
    changed prompt gets a new version.
    """
    path = paths.PROMPTS / f"{prompt_id}.md"
    if prompt_id not in prompt_ids():
        raise ValueError(f"prompt {prompt_id!r} has no file; there are {', '.join(prompt_ids())}")
    prompt = read_prompt(path)
    _check_lock(path, prompt_id, prompt.sha256)
    return prompt


def load_instruction(name: str) -> str:
    """The system text that asks a generator for an answer: `prompts/answers/<name>.md`, locked as the prompts are.

    Raises ValueError for an unknown name and for a text that differs from the lock.
    """
    path = paths.PROMPTS / "answers" / f"{name}.md"
    there = _instructions()
    if path not in there:
        raise ValueError(f"instruction {name!r} has no file; there are {', '.join(each.stem for each in there)}")
    text = _text(path)
    _check_lock(path, f"answers/{name}", _sha256(text))
    return text.strip()


def _instructions() -> list[Path]:
    return sorted((paths.PROMPTS / "answers").glob("*.md"))


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8").replace("\r\n", "\n")


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _check_lock(path: Path, name: str, sha256: str) -> None:
    locked = json.loads(LOCK.read_text(encoding="utf-8")).get(name)
    if locked != sha256:
        what = "is not in prompts/LOCK.json" if locked is None else "differs from prompts/LOCK.json"
        undo = "" if locked is None else "undo the edit, or save it as a new version and "
        raise ValueError(f"{paths.shown(path)} {what}; {undo}run `make lock-prompts`")


def read_prompt(path: Path) -> Prompt:
    """A prompt file read and checked, without the lock. Raises ValueError as `load_prompt` does."""
    shown = paths.shown(path)
    text = _text(path)
    parts = _PARTS.match(text)
    if parts is None:
        raise ValueError(f"{shown}: expected front matter between --- lines, then `# system`, then `# user`")
    front = yaml.safe_load(parts["front"])
    if not isinstance(front, dict) or set(front) != {"id", "design", "note", "keys"}:
        raise ValueError(f"{shown}: the front matter must hold id, design, note and keys, and nothing else")
    if front["id"] != path.stem or front["id"].split(".")[0] != front["design"]:
        raise ValueError(f"{shown}: id must equal the file's name and begin with the design's letter")
    keys = tuple(front["keys"])
    if keys[:3] != ("verdict", "score", "confidence") or keys[-1] != "rationale" or len(keys) < 5:
        raise ValueError(f"{shown}: keys must be verdict, score, confidence, the design's lists, rationale")
    for part, wanted in (("system", set()), ("user", set(FIELDS))):
        template = Template(parts[part])
        if not template.is_valid() or set(template.get_identifiers()) != wanted:
            raise ValueError(f"{shown}: `# {part}` must hold the placeholders {sorted(wanted)} and no others")
    return Prompt(
        id=front["id"],
        design=front["design"],
        note=front["note"],
        keys=keys,
        system=Template(parts["system"].strip()).substitute(),
        user=parts["user"].strip(),
        sha256=_sha256(text),
    )


def render(prompt: Prompt, row: Mapping[str, object]) -> list[dict[str, str]]:
    """The messages (`role`, `content`) that ask `prompt` about one row.

    `row` maps question, reference and candidate to strings. They go in unchanged. Where one of them holds
    something like a tag of the layout, the layout's own tags take a number that stands in none of them, so
    that no text can close its tag. Raises ValueError for a field that is missing or no string.
    """
    values = {field: row.get(field) for field in FIELDS}
    for field, value in values.items():
        if not isinstance(value, str):
            name = row.get("row_id", "this row")
            raise ValueError(f"{name}: {field} must be a string, not {type(value).__name__}")
    suffix = _tag_suffix(values.values())
    user = _LAYOUT_TAG.sub(rf"<\1\2{suffix}>", prompt.user) if suffix else prompt.user
    return [
        {"role": "system", "content": prompt.system},
        {"role": "user", "content": Template(user).substitute(values)},
    ]


def _tag_suffix(texts) -> str:
    found = {match[1] for text in texts if "<" in text for match in _LOOKS_LIKE_TAG.finditer(text)}
    return f"-{next(n for n in count(2) if str(n) not in found)}" if found else ""


def reply_schema(prompt: Prompt, list_items: int | None = None, text_chars: int | None = None) -> dict:
    """The JSON schema of a reply to `prompt`, its keys in the prompt's order.

    `list_items` and `text_chars` bound the lists and strings, for a small model that would not stop.
    """
    text = {"type": "string"} | ({"maxLength": text_chars} if text_chars else {})
    items = {"type": "array", "items": text} | ({"maxItems": list_items} if list_items else {})
    kinds = {
        "verdict": {"type": "string", "enum": list(VERDICTS)},
        "score": {"type": "integer", "minimum": 1, "maximum": 5},
        "confidence": {"type": "number", "minimum": 0, "maximum": 1},
        "rationale": text,
    }
    return {
        "type": "object",
        "properties": {key: kinds.get(key, items) for key in prompt.keys},
        "required": list(prompt.keys),
        "additionalProperties": False,
    }


def write_lock() -> dict[str, str]:
    """Lock every prompt file as it stands now; returns id to sha256. Refuses to change a locked one.

    A locked prompt whose file changed must become a new version: its stored replies belong to the old text.
    """
    old = json.loads(LOCK.read_text(encoding="utf-8")) if LOCK.exists() else {}
    new = {prompt_id: read_prompt(paths.PROMPTS / f"{prompt_id}.md").sha256 for prompt_id in prompt_ids()}
    new |= {f"answers/{path.stem}": _sha256(_text(path)) for path in _instructions()}
    changed = [prompt_id for prompt_id, sha in old.items() if new.get(prompt_id) != sha]
    if changed:
        raise ValueError(f"locked prompts were edited or removed: {', '.join(changed)}; save edits as new versions")
    LOCK.write_text(json.dumps(new, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    return new


if __name__ == "__main__":
    print(f"{len(write_lock())} prompts locked in prompts/LOCK.json")
