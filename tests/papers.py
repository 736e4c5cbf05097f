"""A material as the study's would be, planted: rows, judgments, conditions, labels and generated answers."""

from types import SimpleNamespace

import numpy as np
import pandas as pd

from lib.conditions import CONDITIONS
from lib.material import Material
from lib.plan import PRIMARY_RUN
from lib.reported import reported

DATASETS = ("truthfulqa", "asqa", "qampari")
SECOND = {
    "truthfulqa": ("incorrect", "unsupported"),
    "asqa": ("partial", "partially_supported"),
    "qampari": ("partial", "partially_supported"),
}
MODELS = {"opus": "claude-opus-4-6", "gpt-4.1": "gpt-4.1-2025-04-14", "gemini": "gemini-3.1-pro-preview"}
MODELS |= {"sonnet-4.6": "claude-sonnet-4-6"}
FOUR = ("C.v1", "H.v1", "R.v1", "B.v1")
# Of 200 partial ASQA rows, how many each design calls right; the others miss that many full rows.
ASQA = {
    "opus": {"C": (111, 0), "H": (140, 0), "R": (190, 0), "B": (160, 0)},
    "gpt-4.1": {"C": (32, 6), "H": (93, 5), "R": (178, 5), "B": (147, 5)},
    "gemini": {"C": (25, 8), "H": (91, 12), "R": (159, 12), "B": (120, 12)},
    "sonnet-4.6": {"C": (86, 0), "H": (124, 0)},
}


def parameters(**changed):
    values = {"source": "hub", "files": {}, "datasets": DATASETS, "n_questions": 200, "seed": 0}
    values |= {"judges": tuple(MODELS), "designs": FOUR, "only": {"sonnet-4.6": ["C.v1", "H.v1"]}, "slices": {}}
    values |= {"annotators": ("reader",), "generators": (), "generated_questions": 50, "complexity_bins": 4}
    return SimpleNamespace(**values | {"frozen": ""} | changed)


def rows(n=200, datasets=DATASETS):
    lines = []
    for dataset in datasets:
        for q in range(n):
            for kind, label in (("full", "supported"), SECOND[dataset]):
                key = {"row_id": f"{dataset}/{q}/{kind}", "dataset": dataset, "question_id": str(q), "kind": kind}
                texts = {"question": f"q {q}", "reference": f"reference {q}", "candidate": f"{kind} {q}"}
                lines.append(key | texts | {"label": label, "complexity": 2 + q % 4})
    return pd.DataFrame(lines)


def judgments(rows, judge, model, design, wrong, prompt="", condition=PRIMARY_RUN, tokens=500):
    """One judgment a row; `wrong` is a set of row ids whose verdict is another than the label."""
    frame = rows[["row_id", "dataset", "question_id", "kind", "label", "complexity"]].copy()
    bad = frame["row_id"].isin(wrong)
    other = frame["label"].map(lambda label: "unsupported" if label == "supported" else "supported")
    texts = {"design": design, "prompt": prompt or f"{design}.v1", "condition": condition, "judge": judge}
    frame = frame.assign(**texts, repeat=0, verdict=frame["label"].where(~bad, other), status="whole", reason="")
    # Not the same difference between two designs in each row, or a bootstrap has no width.
    uneven = np.arange(len(frame)) * ord(design) % 11
    frame = frame.assign(
        correct=~bad, tokens_in=tokens + uneven, tokens_out=100, tokens_reasoning=pd.NA, tokens_cached=pd.NA
    )
    frame = frame.assign(latency_s=1.0, finish_reason="stop", model=model, key="k", prompt_sha256="s")
    return frame.astype({"tokens_in": "Int64", "tokens_out": "Int64"})


def missed(rows, right, lost, dataset="asqa"):
    """The rows that a design gets wrong: partial ones from `right` on, and the first `lost` full ones."""
    mine = rows[rows["dataset"] == dataset]
    partial, full = (mine.loc[mine["kind"] == kind, "row_id"].tolist() for kind in ("partial", "full"))
    return set(partial[right:]) | set(full[:lost])


def judged(rows, accuracies=ASQA, models=MODELS):
    """Primary judgments: on ASQA as planted, on the others all right but for C."""
    cost = {"C": 560, "H": 500, "R": 670, "B": 930}
    parts = []
    for judge, designs in accuracies.items():
        for design, (right, lost) in designs.items():
            wrong = missed(rows, right, lost)
            wrong |= {f"qampari/{q}/partial" for q in range(15 if design == "C" else 1)}
            wrong |= {f"truthfulqa/{q}/incorrect" for q in range(0 if design == "C" else 12)}
            parts.append(judgments(rows, judge, models[judge], design, wrong, tokens=cost[design]))
    return pd.concat(parts, ignore_index=True)


def conditions(rows, judge="opus", model="claude-opus-4-6", flipped=0.4):
    """A slice of 25 questions a dataset under the conditions that the paper's tables have."""
    mine = rows[rows["question_id"].astype(int) < 25]
    names = [
        name for name, each in CONDITIONS.items() if each.group in ("schema", "cap", "reference", "swap", "prompt")
    ]
    parts = [judgments(mine, judge, model, design, set()) for design in "CHRB"]
    for name in names:
        for prompt in CONDITIONS[name].prompts or FOUR:
            some = mine["row_id"].tolist()[: int(flipped * len(mine))] if name == "reference-swapped" else []
            wrong = set(some) if prompt[0] != "C" else set(mine["row_id"].tolist()[::3])
            parts.append(judgments(mine, judge, model, prompt[0], wrong, prompt, name))
    return pd.concat(parts, ignore_index=True)


def labels(rows, reader="reader"):
    """Reader's labels of 10 questions a dataset: partial rows of ASQA are called supported."""
    mine = rows[rows["question_id"].astype(int) >= 190]
    label = mine["label"].where((mine["dataset"] != "asqa") | (mine["kind"] == "full"), "supported")
    names = {"annotator": reader, "note": "", "at": "", "guide": "1", "source": "hub", "row_sha256": ""}
    return pd.DataFrame({"row_id": mine["row_id"], "label": label}).assign(**names)


def generated(rows, judge="opus", model="claude-opus-4-6"):
    """Rows of 100 answers by two generators, and their judgments in C, H and R: Opus's as reported."""
    lines = []
    for q in range(50):
        for maker in ("a", "b"):
            for kind, label in (("full", "supported"), ("partial", "partially_supported")):
                key = {"row_id": f"asqa/{q}/{kind}@{maker}", "dataset": "asqa", "question_id": str(q), "kind": kind}
                lines.append(key | {"label": label, "complexity": 2, "generator": maker, "cut": False})
                lines[-1] |= {"degenerate": maker == "a" and q < 25}
    made = pd.DataFrame(lines)
    parts = []
    for design, right in (("C", 88), ("H", 95), ("R", 100)):
        wrong = set(np.random.default_rng(0).permutation(made["row_id"])[right:])
        parts.append(judgments(made, judge, model, design, wrong))
    about = made[["row_id", "generator", "cut", "degenerate"]]
    both = pd.concat(parts, ignore_index=True).merge(about, on="row_id").assign(same_model=False)
    return made, both


def material(p=None, **frames):
    """A material of the study's size, every part of it there unless given otherwise."""
    p, nothing, mine = p or parameters(), pd.DataFrame(), rows()
    made, answered = generated(mine)
    about = pd.DataFrame({"dataset": list(DATASETS), "questions": ["200"] * 3})
    whole = {"about": about, "rows": mine, "judged": judged(mine), "conditions": conditions(mine)}
    whole |= {"answers": nothing, "generated_rows": made, "generated": answered, "labels": labels(mine)}
    absent = pd.DataFrame(columns=["part", "judge", "condition", "dataset", "prompt", "n_questions"])
    return Material(p=p, **(whole | {"absent": absent, "reported": reported()} | frames))
