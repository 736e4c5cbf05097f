"""Diagnostic conditions: how a row, or the way it is asked, differs from the primary run.

A condition is one entry of `CONDITIONS`: a change of a row's texts (`lib.changes`), of the judge's settings, of the
prompts, or of how often a call is made. Nothing here asks a judge or compares verdicts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pandas as pd

from lib import changes
from lib.changes import CannotApply, Row
from lib.donors import Others
from lib.judges import Judge
from lib.plan import PRIMARY_RUN, Plan, Setting
from lib.prompts import load_prompt

_FIELDS = ("reference", "candidate", "label")


@dataclass(frozen=True)
class Condition:
    """One way in which a run differs from the primary one. What is not given stays as it is.

    `about` says what differs. `change` gives the fields of a row that change (reference, candidate, label), and
    `settings` the judge with other settings; both raise CannotApply. `prompts` take the place of the run's, a call is
    made `repeats` times, and `unasked` names prompts that do not ask for what is changed.
    """

    name: str
    group: str
    about: str
    change: Callable[[Row], Mapping[str, str]] | None = None
    settings: Callable[[Judge], Judge] | None = None
    prompts: tuple[str, ...] = ()
    repeats: int = 1
    unasked: tuple[str, ...] = ()


@dataclass(frozen=True)
class Applied:
    """A plan, and the rows that a condition says nothing about: `row_id, dataset, condition, reason`."""

    plan: Plan
    skipped: pd.DataFrame = field(repr=False)


class NothingToAsk(ValueError):
    """Conditions that apply to no row, or not to this judge."""


def capped(tokens: int) -> Callable[[Judge], Judge]:
    """Settings with an output cap, under the provider's own name."""
    return lambda judge: judge.with_cap(tokens)


def formatted(structured: str) -> Callable[[Judge], Judge]:
    """Settings with another form of reply: none, json_object or json_schema."""

    def settings(judge: Judge) -> Judge:
        if structured not in judge.formats:
            raise CannotApply(f"{judge.name} has no {structured} ({judge.provider})")
        return replace(judge, structured=structured)

    return settings


# To add a condition, add a line: a name, a group, what differs in a sentence, and the change. A change is a function
# from a `lib.changes.Row` to the fields that differ; it raises CannotApply with the reason where it says nothing.
CONDITIONS = {
    condition.name: condition
    for condition in (
        Condition(PRIMARY_RUN, PRIMARY_RUN, "Nothing: the primary run."),
        Condition(
            "schema-matched",
            "schema",
            "S asks for the reply's keys of C without its splitting, beside C and H on the same rows.",
            prompts=("S.v1", "C.v1", "H.v1"),
        ),
        *(
            Condition(f"cap-{n}", "cap", f"The reply may have {n} tokens.", settings=capped(n))
            for n in (128, 256, 512)
        ),
        Condition("reference-half", "reference", "The reference's first half.", changes.half_reference),
        Condition("reference-first", "reference", "The reference's first sentence.", changes.first_sentence),
        Condition("reference-removed", "reference", "No reference.", changes.no_reference),
        Condition(
            "reference-shuffled", "reference", "The reference's sentences shuffled.", changes.shuffled_reference
        ),
        Condition("reference-swapped", "swap", "Another question's reference.", changes.swapped_reference),
        Condition("candidate-case", "should-not-move", "The candidate in lower case.", changes.lower_case),
        Condition("candidate-bullets", "should-not-move", "The candidate as Markdown bullets.", changes.bullets),
        Condition(
            "candidate-polite", "should-not-move", "A polite opening before the candidate.", changes.polite_opening
        ),
        Condition(
            "candidate-reordered",
            "should-not-move",
            "The items of the candidate's list in another order.",
            changes.reordered_items,
        ),
        Condition(
            "candidate-whitespace",
            "should-not-move",
            "Double blanks, and empty lines around the candidate.",
            changes.whitespace,
        ),
        Condition("candidate-typo", "should-not-move", "One function word of the candidate misspelt.", changes.typo),
        Condition(
            "candidate-added",
            "should-move",
            "One sentence or item of another question's reference added to the candidate.",
            changes.unsupported_added,
            unasked=("R.v1",),
        ),
        Condition(
            "candidate-dropped",
            "should-move",
            "One sentence or item of the candidate dropped.",
            changes.fact_dropped,
            unasked=("C.v1", "C.v3", "S.v1"),
        ),
        Condition(
            "candidate-changed", "should-move", "A number or name of the candidate changed.", changes.detail_changed
        ),
        Condition("attack-verdict", "attack", "A verdict object after the candidate.", changes.planted_verdict),
        Condition(
            "attack-instruction", "attack", "An instruction to the judge after the candidate.", changes.instruction
        ),
        Condition("attack-tag", "attack", "A closing tag and a new task after the candidate.", changes.closing_tag),
        Condition("attack-reference", "attack", "A second reference inside the candidate.", changes.fake_reference),
        Condition(
            "prompt-versions",
            "prompt",
            "All frozen versions of C and H.",
            prompts=("C.v1", "C.v2", "C.v3", "H.v1", "H.v2", "H.v3"),
        ),
        Condition("repeat-3", "repeat", "The same call three times.", repeats=3),
        Condition("format-free", "format", "Free text: no format is enforced.", settings=formatted("none")),
        Condition("format-json", "format", "JSON mode, without a schema.", settings=formatted("json_object")),
        Condition("format-schema", "format", "The reply's JSON schema enforced.", settings=formatted("json_schema")),
    )
}
GROUPS = tuple(dict.fromkeys(condition.group for condition in CONDITIONS.values()))
ALL = "all"


def find(text: str) -> list[Condition]:
    """The conditions that a text names: conditions or groups joined by `+`, or `all`, the primary run among them.

    Raises ValueError for a name that is neither, with those there are.
    """
    found: dict[str, Condition] = {}
    for name in text.split("+"):
        named = [each for each in CONDITIONS.values() if name in (each.name, each.group, ALL)]
        if not named:
            raise ValueError(
                f"there is no condition {name!r}; there are {', '.join(CONDITIONS)}, the groups {', '.join(GROUPS)}, "
                f"and {ALL}; several are joined by +"
            )
        found |= {each.name: each for each in named}
    return list(found.values())


def apply(
    conditions: Sequence[Condition], rows: pd.DataFrame, prompts: Sequence[str], judge: Judge, seed: int
) -> Applied:
    """The plan that puts `rows` to `judge` in `prompts` under each of the conditions, one after another.

    `rows` has the columns of `lib.labels.build_rows`. A changed row keeps its ids, so that it pairs with its primary
    one; its label is that of the changed row. What a condition cannot apply to, or would leave as it is, is skipped
    and listed. Raises NothingToAsk if nothing is left.
    """
    parts, skipped, settings = [], [], {}
    others = Others(rows, seed)
    for condition in conditions:
        try:
            asked = _asked(condition, judge, rows, prompts) if condition.settings else judge
        except CannotApply as reason:
            skipped += [(row.row_id, row.dataset, condition.name, str(reason)) for row in rows.itertuples()]
            continue
        settings[condition.name] = Setting(asked, condition.prompts or tuple(prompts), condition.repeats)
        changed, left_out = _changed(condition, rows, others, seed) if condition.change else (rows, [])
        skipped += left_out
        parts.append(changed.assign(condition=condition.name))
    table = pd.DataFrame(skipped, columns=["row_id", "dataset", "condition", "reason"]).astype("str")
    if not sum(map(len, parts)):
        said = "; ".join(f"{reason}: {n} rows" for reason, n in table["reason"].value_counts().items())
        names = ", ".join(each.name for each in conditions)
        raise NothingToAsk(
            f"nothing can be asked under {names} by judge {judge.name} ({said}); choose other rows or judge"
        )
    return Applied(Plan(pd.concat(parts, ignore_index=True), tuple(prompts), judge, settings), table)


def _asked(condition: Condition, judge: Judge, rows: pd.DataFrame, prompts: Sequence[str]) -> Judge:
    asked = condition.settings(judge)
    if len(rows):
        # A call compared with itself would count as a verdict that holds.
        call = (load_prompt((condition.prompts or tuple(prompts))[0]), rows.iloc[0])
        if asked.request(*call) == judge.request(*call):
            raise CannotApply(f"{judge.name} is asked like this in the primary run too")
    return asked


def _changed(condition: Condition, rows: pd.DataFrame, others: Others, seed: int) -> tuple[pd.DataFrame, list]:
    kept, values, skipped = [], [], []
    columns = ("row_id", "dataset", "question_id", "question", *_FIELDS)
    for number, line in enumerate(zip(*(rows[name] for name in columns), strict=True)):
        row_id, dataset, question_id, question, *texts = line
        reference, candidate, _ = texts
        row = Row(dataset, question_id, question, *texts, others.of, condition.name, seed)
        try:
            new = {**dict(zip(_FIELDS, texts, strict=True)), **condition.change(row)}
            if new["reference"] == reference and new["candidate"] == candidate:
                raise CannotApply("it would leave the row as it is")
        except CannotApply as reason:
            skipped.append((row_id, dataset, condition.name, str(reason)))
        else:
            kept.append(number)
            values.append([new[name] for name in _FIELDS])
    changed = rows.iloc[kept].reset_index(drop=True)
    new = pd.DataFrame(values, columns=list(_FIELDS)).astype("str")
    return changed.assign(**{name: new[name] for name in _FIELDS}), skipped


def described(applied: Applied) -> pd.DataFrame:
    """What a plan asks, one line a condition: condition, what, prompts, repeats, rows (asked), skipped (rows)."""
    rows, skipped = (frame["condition"].value_counts() for frame in (applied.plan.rows, applied.skipped))
    lines = [
        {
            "condition": name,
            "what": CONDITIONS[name].about,
            "prompts": " ".join(setting.prompts),
            "repeats": setting.repeats,
            "rows": int(rows.get(name, 0)),
            "skipped": int(skipped.get(name, 0)),
        }
        for name, setting in applied.plan.settings.items()
    ]
    return pd.DataFrame(lines)


def reasons(skipped: pd.DataFrame) -> pd.DataFrame:
    """Why rows are skipped: condition, dataset, reason, `rows`, and the `first` of them (its row_id)."""
    groups = skipped.groupby(["condition", "dataset", "reason"], sort=False)["row_id"]
    return groups.agg(rows="size", first="first").reset_index()
