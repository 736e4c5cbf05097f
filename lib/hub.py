"""The Hugging Face hub's copies of the benchmarks to records.

It knows where they are, at which commit, and which columns are used. It does not know what the columns mean:
that is `lib.sources`. Of the modules that read data this is the only one that can reach the network.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lib.paths import shown
from lib.readers import Raw, Record


@dataclass(frozen=True)
class HubCopy:
    """A dataset on the hub: its path (or a local folder of the same layout), config, split and commit."""

    path: str
    config: str | None
    split: str
    revision: str


# Fixed commits, so that a later upload changes nothing here; both keep their rows as Parquet. An older commit of
# ASQA (0877395...) has other ids: int64 that went through float64, where this one has the exact text.
HUB = {
    "truthfulqa": HubCopy(
        "truthfulqa/truthful_qa", "generation", "validation", "741b8276f2d1982aa3d5b832d3ee81ed3b896490"
    ),
    "asqa": HubCopy("din0s/asqa", None, "dev", "084060f16b46f3165318f760b2339208b19a0bde"),
}


def read_hub(dataset: str) -> Raw:
    """Reads one of `HUB` through `datasets.load_dataset`, at its fixed commit and with explicit features.

    `source`: path, config, split, revision. Raises ConnectionError if the hub cannot be reached, ValueError if
    its copy is not as expected; each in one line.
    """
    if dataset not in HUB:
        raise ValueError(
            f"{dataset}: no official hub copy is known; give a file's path: the dev file of the QAMPARI project "
            "or the qampari_eval file in ALCE's data archive"
        )
    # Slow to import, and files need none of it.
    import datasets
    import httpx

    copy, features = HUB[dataset], _features(dataset)
    path = shown(copy.path) if Path(copy.path).is_absolute() else copy.path
    name = f"hub copy {path}"
    try:
        rows = datasets.load_dataset(
            copy.path,
            copy.config,
            split=copy.split,
            revision=copy.revision,
            features=features,
            columns=list(features),
        ).to_list()
    except (ConnectionError, httpx.HTTPError):
        raise ConnectionError(f"{name}: the hub cannot be reached; try again or give a local file") from None
    except Exception as error:
        # Its own text can hold paths of this machine, and the kinds of error are many.
        raise ValueError(
            f"{name}: split {copy.split} is empty or cannot be loaded with the columns {', '.join(features)} "
            f"({type(error).__name__}); give a local file"
        ) from None
    records = [Record(f"{name}, row {i}", row) for i, row in enumerate(rows, 1)]
    return Raw(name, records, {**vars(copy), "path": path})


def _features(dataset: str) -> Any:
    """Only the columns that are used, all of them text: ids stay exact and date-like answers stay text."""
    from datasets import Features, List, Value

    text = Value("string")
    if dataset == "truthfulqa":
        answers = {"correct_answers": List(text), "incorrect_answers": List(text)}
        return Features({"question": text, "best_answer": text, **answers})
    pair = {"context": text, "question": text, "short_answers": List(text), "wikipage": text}
    annotation = {"knowledge": List({"content": text, "wikipage": text}), "long_answer": text}
    ids = {"sample_id": text, "ambiguous_question": text}
    return Features({**ids, "qa_pairs": List(pair), "annotations": List(annotation)})
