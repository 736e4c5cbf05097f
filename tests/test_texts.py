"""Texts in their parts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lib.texts import all_words, content_words, items, names, numbers, parts, sentences


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Helium, Neon, Argon", ["Helium", "Neon", "Argon"]),
        (
            "The Lion, the Witch and the Wardrobe, Prince Caspian",
            ["The Lion, the Witch and the Wardrobe", "Prince Caspian"],
        ),
        ("Sammy Davis, Jr., Dean Martin", ["Sammy Davis, Jr.", "Dean Martin"]),
        ("Dean Martin, Sammy Davis, Jr.", ["Dean Martin", "Sammy Davis, Jr."]),
        ("The Who, Cream", ["The Who", "Cream"]),
        ("1969, 1972", ["1969", "1972"]),
        ("Who led?  Armstrong\n\nWho followed? Aldrin", ["Who led?  Armstrong", "Who followed? Aldrin"]),
        ("Many bats see quite well, and no species of bat is blind", []),
        ("No, 91 is not a prime number", []),
        ("Turkey, the UK, Ireland, and Canada drink more tea", []),
        ("In the end, Paris won.", []),
        ("Paris", []),
        ("", []),
        (" , ", []),
    ],
)
def test_a_list_is_told_from_prose(text, found):
    assert items(text) == found


def test_parts_are_joined_by_what_parts_them():
    assert parts("Helium, Neon") == (["Helium", "Neon"], ", ")
    assert parts("A b? C\nD e? F") == (["A b? C", "D e? F"], "\n")
    assert parts("It rained. Then J. K. Rowling came home at 9 p.m. on Monday.") == (
        ["It rained.", "Then J. K. Rowling came home at 9 p.m. on Monday."],
        " ",
    )


def test_wrapped_prose_is_prose_and_not_a_list_of_lines():
    text = "The treaty was signed by the king, who\nhad lost the war. He was not\nhappy about it.\n\nIt held."
    assert items(text) == []
    assert sentences(text) == [
        "The treaty was signed by the king, who had lost the war.",
        "He was not happy about it.",
        "It held.",
    ]
    assert items("- iron\n- gold") == [] and items("- Iron\n* Gold") == ["- Iron", "* Gold"]


@pytest.mark.parametrize("blank", "\u00a0 \u202f \u2003 \u2009 \u3000".split())
def test_no_blank_makes_the_segmenter_panic(blank):
    for text in (f"Plan B{blank}. Yes.", f"A{blank}{blank}. B{blank}!{blank}C", blank):
        assert all_words(" ".join(sentences(text))) == all_words(text)


def test_a_panic_of_the_segmenter_leaves_the_text_whole(monkeypatch):
    import sentencex

    class PanicException(BaseException):
        pass

    def panics(*_):
        raise PanicException

    monkeypatch.setattr(sentencex, "segment", panics)
    assert sentences("One. Two.") == ["One. Two."]


def test_numbers_of_addresses_and_list_marks_are_none():
    text = "1. Paris, 1969\n2) Rome http://x.org/?id=7&q=3 www.y.org/8"
    assert [match[0] for match in numbers(text)] == ["1969"]


def test_names_do_not_begin_a_sentence_and_numbers_are_whole():
    assert names("The winner was Usain Bolt. Later, Chris Hoy won too.") == ["Usain Bolt", "Chris Hoy"]
    assert names("Helium, Neon") == ["Helium", "Neon"]
    found = [match[0] for match in numbers("In 1969, 9.69 s and 19,340 km: B52 and the 4th, 7.")]
    assert found == ["1969", "9.69", "19,340", "7"]


def test_a_text_of_function_words_alone_still_has_words():
    assert (
        content_words("No.") == {"no"} and content_words("Not in Paris") == {"paris"} and content_words("!") == set()
    )


@given(st.text(max_size=200))
def test_taking_a_text_apart_loses_no_word(text):
    for pieces in (sentences(text), parts(text)[0]):
        assert all_words("\n".join(pieces)) == all_words(text)
