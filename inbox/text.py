"""What text may enter, and how text that may not is shown.

`check` is for the edge: it refuses. `clean` is for what a model or a tool made: it replaces by a visible mark.
`marked` is for the eyes of staff: it shows characters that a person cannot see.
"""

import re
import unicodedata
from typing import NamedTuple

from inbox.errors import BlankText, TextTooLong, UnstorableText

MAX_BYTES = 64 * 1024  # a request, a response, a message
MAX_RESULT_BYTES = 100 * 1024  # a tool's result
MARK = "\N{REPLACEMENT CHARACTER}"

# NUL: Postgres refuses it. Surrogates: no encoding carries them.
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


def check(text: object, *, what: str = "text", limit: int = MAX_BYTES) -> str:
    """The text as it is, or an error: not a string, NUL or a lone surrogate, blank, or over `limit` bytes of UTF-8."""
    if not isinstance(text, str):
        raise UnstorableText(f"{what} must be a string.")
    if found := _UNSTORABLE.search(text):
        raise UnstorableText(
            f"{what} holds U+{ord(found[0]):04X} at position {found.start()}, which cannot be stored. Remove it."
        )
    if len(text.encode()) > limit:
        raise TextTooLong(f"{what} is longer than {limit} bytes. Shorten it.")
    if is_blank(text):
        raise BlankText(f"{what} is blank. Write at least one visible character.")
    return text


def is_blank(text: str) -> bool:
    """Whether nothing in it would be seen: white space, control and format characters only."""
    return not any(unicodedata.category(char) not in ("Zs", "Zl", "Zp", "Cc", "Cf") for char in text)


def clean(text: str, *, limit: int | None = None) -> str:
    """The text with unstorable characters replaced by a visible mark, and cut, with a note, at `limit` bytes of UTF-8."""
    text = _UNSTORABLE.sub(MARK, text)
    if limit is None or len(data := text.encode()) <= limit:
        return text
    note = f"\n[cut here: {len(data)} bytes, of which the first {limit} are kept]"
    return data[: limit - len(note.encode())].decode(errors="ignore") + note


class Marked(NamedTuple):
    """`text` with its hidden characters written out as <U+202E>, and how many there were."""

    text: str
    hidden: int


# Format characters (bidirectional, zero width, tags), other controls than line breaks and tabs,
# and letters that are drawn as nothing: fillers, variation selectors, the combining grapheme joiner.
_DRAWN_AS_NOTHING = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\uffa0\u2800\u2028\u2029\ufe00-\ufe0f\U000e0100-\U000e01ef]"
)


def is_hidden(char: str) -> bool:
    """Whether a person would not see this character, or see others moved by it."""
    if char in "\n\t\r":
        return False
    return unicodedata.category(char) in ("Cf", "Cc", "Co", "Cn") or bool(_DRAWN_AS_NOTHING.match(char))


def marked(text: str) -> Marked:
    """Invisible and bidirectional characters made visible, for staff."""
    hidden = 0
    parts = []
    for char in text:
        if is_hidden(char):
            hidden += 1
            parts.append(f"<U+{ord(char):04X}>")
        else:
            parts.append(char)
    return Marked("".join(parts), hidden)


def first_line(text: str, width: int = 100) -> str:
    """The first line that says something, for lists."""
    line = next((line.strip() for line in text.splitlines() if not is_blank(line)), "")
    return line if len(line) <= width else line[: width - 1].rstrip() + "…"
