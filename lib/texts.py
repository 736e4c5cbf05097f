"""A text in its parts: words, sentences, and the items of a list.

What a diagnostic condition may take apart or put together again. Nothing here knows rows or labels.
"""

from __future__ import annotations

import re

# Function words carry no claim. A closed class, listed whole.
FUNCTION_WORDS = frozenset(
    "a an the this that these those it its he she they them his her their we you i who whom whose which what when "
    "where why how is are was were be been being am do does did has have had will would can could may might shall "
    "should must of in on at by for from to with as and or but nor so if than then there here into out up down over "
    "under about after before between not no yes also only".split()
)
# A comma before one of these stands inside an item.
_SUFFIXES = ("Jr.", "Sr.", "Inc.", "Ltd.", "LLC", "D.C.", "M.D.", "Ph.D.")
# Ours: longer pieces between commas are clauses, not items; two pieces are sooner a sentence than five.
_MOST_WORDS, _MEAN_WORDS, _MEAN_OF_TWO = 12, 6, 4.5

_WORD = re.compile(r"\w+")
_BULLET = re.compile(r"^[-*•]\s+")
_ITEM_START = re.compile(r"[\"'“‘(]*(?:[^\W_])")
_END_MARK = re.compile(r"[.!?…][\"'”’)\]]*$")


def all_words(text: str) -> list[str]:
    """The words of a text in their order, case folded."""
    return _WORD.findall(text.casefold())


def content_words(text: str) -> set[str]:
    """The words that carry what a text says; all its words if it has function words alone ("No.")."""
    words = set(all_words(text))
    return words - FUNCTION_WORDS or words


def sentences(text: str) -> list[str]:
    """The sentences of a text, stripped. An empty line ends one too, and so does each line of a list of lines."""
    listed = _lines(text)
    blocks = listed or [
        " ".join(block.split("\n")) for block in re.split(r"\n[^\S\n]*\n", "\n".join(text.splitlines()))
    ]
    return [each.strip() for block in blocks for each in _segments(block) if each.strip()]


def _segments(text: str) -> list[str]:
    # Imported here: only the conditions of `lib.conditions` take texts apart.
    from sentencex import segment

    # Other blanks than the plain one can make the segmenter panic.
    plain = re.sub(r"[^\S\n]", " ", text)
    try:
        return segment("en", plain)
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        return [plain]


def items(text: str) -> list[str]:
    """The items of a list, [] for prose: its lines, else what stands between commas.

    Lines are a list if there are several and each begins as an item does: lines of wrapped prose do not.

    A comma list has no end mark, and its items are short and begin with a capital letter or a digit: a piece that
    begins otherwise belongs to the item before it ("The Lion, the Witch and the Wardrobe"), as "Jr." and its like
    do. One that begins with "and" or "or" makes a sentence of it, and so does a first piece "Yes" or "No". A title
    with a comma before a capital letter is taken for two items.
    """
    if listed := _lines(text):
        return listed
    if len(text.strip().splitlines()) > 1:
        return []
    found: list[str] = []
    pieces = text.strip().split(", ")
    if pieces[0].casefold() in ("yes", "no") or any(each.startswith(("and ", "or ")) for each in pieces):
        return []
    for piece in pieces:
        if found and (not _begins_item(piece) or piece.startswith(_SUFFIXES)):
            found[-1] += f", {piece}"
        else:
            found.append(piece)
    lengths = [len(each.split()) for each in found]
    mean = _MEAN_WORDS if len(found) > 2 else _MEAN_OF_TWO
    short = max(lengths) <= _MOST_WORDS and sum(lengths) <= mean * len(found)
    listed = len(found) > 1 and short and all(map(_begins_item, found))
    # "..., Jr." ends with an item's own mark.
    ended = ends_sentence(text) and not text.strip().endswith(_SUFFIXES)
    return found if listed and not ended else []


def ends_sentence(text: str) -> bool:
    """Whether a text ends with a mark that ends a sentence."""
    return _END_MARK.search(text.rstrip()) is not None


def _lines(text: str) -> list[str]:
    """The lines of a list of lines, [] for anything else."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines if len(lines) > 1 and all(_begins_item(_BULLET.sub("", line)) for line in lines) else []


def _begins_item(piece: str) -> bool:
    start = _ITEM_START.match(piece)
    return start is not None and not start[0][-1].islower()


def parts(text: str) -> tuple[list[str], str]:
    """The parts of a text with what joins them: the items of a list, else its sentences."""
    if listed := items(text):
        return listed, "\n" if _lines(text) else ", "
    return sentences(text), " "


def names(text: str) -> list[str]:
    """What may be names: the items of a list, else runs of capitalised words that do not begin a sentence."""
    if listed := items(text):
        return listed
    return [match[1] for sentence in sentences(text) for match in _NAME.finditer(sentence)]


_CAPITAL = r"[A-ZÀ-ÖØ-Þ][\w'’.-]*\w"
_NAME = re.compile(rf"(?<=[\w,;:] )({_CAPITAL}(?: {_CAPITAL})*)")


def numbers(text: str) -> list[re.Match[str]]:
    """The numbers written in digits, with where they stand: `1969`, `9.69`, `19,340`.

    Not those in addresses of the web, and not those that count the lines of a list.
    """
    taken = [match.span() for match in _NO_NUMBER.finditer(text)]
    return [each for each in _NUMBER.finditer(text) if not any(a <= each.start() < b for a, b in taken)]


_NUMBER = re.compile(r"(?<![\w.,])[0-9]+(?:[.,][0-9]+)*(?![\w])")
_NO_NUMBER = re.compile(r"(?:https?://|www\.)\S+|(?m:^\s*[0-9]+[.)]\s)")
