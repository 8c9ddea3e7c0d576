"""What text may enter, what is made of text that may not, and what staff see of characters that nobody sees."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inbox.errors import BlankText, TextTooLong, UnstorableText
from inbox.models import EarlyAnswer
from inbox.text import MARK, check, clean, first_line, is_blank, is_hidden, marked

# Any code point at all, surrogates and NUL included, with those that matter drawn often.
ODD = "\x00\ud800\udbff\udc00\udfff\u202e\u200b\U000e0041\u3164\ufeff\u2028\n\t \r"
ANY = st.text(st.one_of(st.characters(codec=None), st.sampled_from(ODD)), max_size=200)


def storable(text):
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return "\x00" not in text


@given(ANY)
def test_check_gives_the_text_itself_or_refuses(text):
    """What it lets through can be stored and seen, and is unchanged."""
    try:
        assert check(text) is text
    except UnstorableText:
        assert not storable(text) or is_blank(text)
    else:
        assert storable(text)
        assert not is_blank(text)


@given(ANY)
def test_clean_makes_any_text_storable_and_marks_each_spot(text):
    cleaned = clean(text)
    assert storable(cleaned)
    assert len(cleaned) == len(text)
    for before, after in zip(text, cleaned, strict=True):
        assert after == before if storable(before) else after == MARK
    assert clean(cleaned) == cleaned


@given(ANY, st.integers(100, 300))
def test_clean_keeps_to_a_limit_of_bytes(text, limit):
    whole, cut = clean(text), clean(text, limit=limit)
    assert len(cut.encode()) <= limit
    if len(whole.encode()) <= limit:
        assert cut == whole
    else:
        kept, _, note = cut.partition("\n[cut here: ")
        assert whole.startswith(kept)
        assert str(len(whole.encode())) in note


@given(ANY)
def test_marked_shows_every_hidden_character(text):
    shown, hidden = marked(text)
    assert hidden == sum(map(is_hidden, text))
    assert not any(map(is_hidden, shown))
    assert shown == "".join(f"<U+{ord(char):04X}>" if is_hidden(char) else char for char in text)


@given(ANY)
def test_first_line_is_short_and_says_something(text):
    line = first_line(text)
    assert len(line) <= 100
    assert len(line.splitlines()) <= 1
    assert bool(line) == any(not is_blank(part) for part in text.splitlines())


@pytest.mark.parametrize("char", ["\x00", "\ud800"])
def test_the_refusal_says_where(char):
    with pytest.raises(UnstorableText, match=rf"request holds U\+{ord(char):04X} at position 2"):
        check(f"ab{char}c", what="request")


@pytest.mark.parametrize("text", ["", " ", "\n\t", "\u200b\u200d", "\u202e", "\x1b", "\u3000", "\u2028", chr(0xE0041)])
def test_blank_is_what_shows_nothing(text):
    assert is_blank(text)
    with pytest.raises(BlankText):
        check(text)


def test_the_size_is_counted_in_bytes():
    assert check("ü" * 5, limit=10)
    with pytest.raises(TextTooLong, match="10 bytes"):
        check("ü" * 5 + "x", limit=10)
    assert check("x" * 65_536)


@pytest.mark.parametrize("value", [None, 1, 1.0, b"text", ["text"], {}])
def test_what_is_no_text_is_refused(value):
    with pytest.raises(UnstorableText, match="must be a string"):
        check(value)


def test_a_sum_that_reads_differently_to_a_model_shows():
    """Case 39: "Refund 10" that says 1000 in tag characters, and a right-to-left override."""
    tags = "".join(chr(0xE0000 + ord(char)) for char in "00")
    shown, hidden = marked(f"Refund 10{tags}")
    assert (shown, hidden) == ("Refund 10<U+E0030><U+E0030>", 2)
    assert marked("pay \u202e001\u202c now") == ("pay <U+202E>001<U+202C> now", 2)
    assert marked("one\ntwo\tthree\r\n") == ("one\ntwo\tthree\r\n", 0)
    assert marked("naïve café, 日本, שלום, 👍") == ("naïve café, 日本, שלום, 👍", 0)


@pytest.mark.parametrize("char", ["\u200b", "\u2066", "\ufeff", "\u3164", "\ufe0f", "\x07", "\ue000", "\U000e0100"])
def test_kinds_of_hidden_characters(char):
    assert is_hidden(char), unicodedata.name(char, "?")


@pytest.mark.django_db
@given(st.text(st.characters(codec="utf-8", exclude_characters="\x00"), min_size=1, max_size=50))
def test_what_is_let_through_comes_back_as_it_went_in(text):
    """On the real database: nothing is normalised, cut or mangled."""
    row = EarlyAnswer.objects.create(tag="a", response=text, resolved_by="x", resolved_via="api")
    assert EarlyAnswer.objects.values_list("response", flat=True).get(pk=row.pk) == text
