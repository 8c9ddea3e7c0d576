"""Tags and the patterns that match them."""

import fnmatch
import re

from inbox.errors import BadAddress, BadTag

TAG = r"[A-Za-z0-9_.:/-]{1,120}"
PATTERN = r"[A-Za-z0-9_.:/*-]{1,120}"
ADDRESS = r"[A-Za-z0-9._@+/-]{1,200}"
RESERVED = ("mesh:", "tool:")


def check_tag(tag: object, *, reserved: bool = False) -> str:
    """The tag, or BadTag. Reserved tags (`mesh:`, `tool:`) are for the system's own mail."""
    if not isinstance(tag, str) or not re.fullmatch(TAG, tag, re.ASCII):
        raise BadTag
    if tag.lower().startswith(RESERVED) and not reserved:
        raise BadTag(f"Tags beginning with {' and '.join(RESERVED)} are the system's own. Choose another.")
    return tag


def check_address(address: object) -> str:
    """The address, or BadAddress. `concierge/eve/../ada` would be eve's, and read as ada's."""
    if not isinstance(address, str) or not re.fullmatch(ADDRESS, address, re.ASCII):
        raise BadAddress
    if {".", ".."} & set(address.split("/")):
        raise BadAddress
    return address


def check_pattern(pattern: str) -> str:
    """A tag in which `*` stands for any run of characters, or BadTag."""
    if not re.fullmatch(PATTERN, pattern, re.ASCII):
        raise BadTag("A tag pattern is 1 to 120 of the characters of a tag, and * for any run of them.")
    return pattern


def matches(pattern: str, tag: str) -> bool:
    """Whether the tag fits the pattern; the case of letters counts."""
    return fnmatch.fnmatchcase(tag, pattern)


def to_regex(pattern: str) -> str:
    """The pattern as a regular expression that both databases read alike."""
    return "^" + ".*".join(re.escape(part) for part in pattern.split("*")) + "$"


def literal_prefix(pattern: str) -> str:
    """What every matching tag begins with."""
    return pattern.split("*", 1)[0]
