"""A baseline without a model: word overlap answers each design, in the JSON that a model would write.

It shows how far construction labels yield to word matching alone. The thresholds below were set before any
label was looked at and are not tuned: a claim counts as found when at least two thirds of its words stand in
the other text; a whole text is matched above two thirds and foreign below one third. Word order, negation and
numbers in words mean nothing to it, so it never calls a claim contradicted.
"""

from __future__ import annotations

import json
import re
from itertools import islice

from lib.providers import CallError, Reply
from lib.texts import FUNCTION_WORDS, all_words, content_words

FOUND = 2 / 3
FOREIGN = 1 / 3

_TOKEN = re.compile(r"\w+|[^\w\s]")
_CLAIM_END = re.compile(r"[.!?](?=\s)|[\n,;]")
# The layout's tags, with the number they carry, cannot stand inside a field (`lib.prompts.render` sees to that).
_LAYOUT = re.compile(
    r"<question(-\d+|)>\n.*?\n</question\1>\n\n"
    r"<reference\1>\n(?P<reference>.*?)\n</reference\1>\n\n"
    r"<candidate\1>\n(?P<candidate>.*?)\n</candidate\1>",
    re.DOTALL,
)


class Lexical:
    """The overlap baseline behind the interface of a provider."""

    sdk = "lexical-overlap 1"

    async def ask(self, request: dict) -> Reply:
        """The overlap's answer to one request. Raises CallError for messages that are not in the layout."""
        return answer(request)

    async def close(self) -> None:
        """Nothing to close."""


def answer(request: dict) -> Reply:
    """The overlap's answer as a reply without tokens. Raises CallError for messages not in the layout."""
    layout = _LAYOUT.fullmatch(request["messages"][-1]["content"])
    design = request["params"]["design"]
    if layout is None or design not in _DESIGNS:
        raise CallError("the lexical baseline reads the layout of prompts/ and designs C, H, R, B, S only", "fatal")
    verdict, share, lists = _DESIGNS[design](layout["reference"], layout["candidate"])
    body = {"verdict": verdict, "score": 1 + round(4 * share), "confidence": round(max(share, 1 - share), 3)}
    rationale = f"{share:.0%} of what this design looks for was found by its words."
    text = json.dumps(body | lists | {"rationale": rationale}, ensure_ascii=False)
    caps = [value for name, value in request["params"].items() if name.startswith("max_") and isinstance(value, int)]
    cut = _cut(text, next((cap for cap in caps if cap > 0), None))
    return Reply(text=cut, finish_reason="stop" if cut == text else "length", model=request["model"])


def _cut(text: str, cap: int | None) -> str:
    """A reply as an output cap leaves it. A token here is a word or a mark: this baseline has no tokenizer."""
    ends = [token.end() for token in islice(_TOKEN.finditer(text), cap)]
    return text if cap is None or len(ends) < cap else text[: ends[-1]]


def claims(text: str) -> list[str]:
    """The pieces of a text between sentence ends, line ends, commas and semicolons that hold a content word.

    A text of function words alone ("No.") still says something: then all its pieces with a word count.
    """
    pieces = [piece.strip() for piece in _CLAIM_END.split(text)]
    return [piece for piece in pieces if set(all_words(piece)) - FUNCTION_WORDS] or [
        piece for piece in pieces if all_words(piece)
    ]


def _words(text: str) -> set[str]:
    return set(all_words(text))


def _share(text: str, other: set[str]) -> float:
    """The share of a text's content words that are among `other`; of all its words if it has no content word."""
    words = content_words(text)
    return len(words & other) / len(words) if words else 0.0


def _split(text: str, other: str) -> tuple[list[str], list[str]]:
    other_words = _words(other)
    found, absent = [], []
    for claim in claims(text):
        (found if _share(claim, other_words) >= FOUND else absent).append(claim)
    return found, absent


def _by_claims(found: int, absent: int) -> tuple[str, float]:
    share = found / (found + absent) if found + absent else 0.0
    return "supported" if share == 1 else "unsupported" if share == 0 else "partially_supported", share


def _by_share(share: float, least: float) -> str:
    # `least` is what keeps it from `unsupported`: a short candidate may cover little and still be from the text.
    return "supported" if share >= FOUND else "unsupported" if least < FOREIGN else "partially_supported"


def _candidate_side(reference: str, candidate: str):
    found, absent = _split(candidate, reference)
    lists = {"supported_claims": found, "unsupported_claims": absent, "contradicted_claims": []}
    return *_by_claims(len(found), len(absent)), lists


def _reference_side(reference: str, candidate: str):
    found, absent = _split(reference, candidate)
    lists = {"covered_points": found, "missing_points": absent, "contradicted_points": []}
    return *_by_claims(len(found), len(absent)), lists


def _both_sides(reference: str, candidate: str):
    forward, backward = _candidate_side(reference, candidate)[2], _reference_side(reference, candidate)[2]
    found = len(forward["supported_claims"]) + len(backward["covered_points"])
    absent = len(forward["unsupported_claims"]) + len(backward["missing_points"])
    return *_by_claims(found, absent), forward | backward


def _holistic(reference: str, candidate: str):
    grounded, covered = _share(candidate, _words(reference)), _share(reference, _words(candidate))
    share = min(grounded, covered)
    issues = [
        f"{name} {value:.0%}" for name, value in (("grounded", grounded), ("covered", covered)) if value < FOUND
    ]
    return _by_share(share, grounded), share, {"issues": issues}


def _whole_candidate(reference: str, candidate: str):
    share = _share(candidate, _words(reference))
    supported = [candidate] if share >= FOUND else []
    lists = {"supported_claims": supported, "unsupported_claims": [], "contradicted_claims": []}
    return _by_share(share, share), share, lists


_DESIGNS = {
    "C": _candidate_side,
    "H": _holistic,
    "R": _reference_side,
    "B": _both_sides,
    "S": _whole_candidate,
}
