"""Money and bags as people write them, and back."""

import re

WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
NUMBERS = {word: number for number, word in enumerate(WORDS)} | {"another": 1, "dozen": 12}


def money(cents: int) -> str:
    """`€36.00`."""
    return f"€{cents // 100}.{cents % 100:02d}"


def bags_of(number: int, name: str) -> str:
    """`1 bag of Huila`, `2 bags of Huila`."""
    return f"{number} bag{'' if number == 1 else 's'} of {name}"


def wanted(request: str) -> int:
    """How many bags a request speaks of: `3 bags of Huila`; 1 where it names no number."""
    found = re.search(r"\b([0-9]{1,4}) bags?\b", request)
    return max(int(found[1]), 1) if found else 1


def cents_in(text: str) -> int | None:
    """An amount of money in a text: `€5`, `5.50`, `5 euros`; None where there is none."""
    found = re.search(
        r"€\s*(\d{1,6})(?:[.,](\d\d))?\b|\b(\d{1,6})[.,](\d\d)\b|\b(\d{1,6})\s*(?:euros?\b|€)", text, re.IGNORECASE
    )
    if not found:
        return None
    whole, part = next((pair for pair in (found.group(1, 2), found.group(3, 4)) if pair[0]), (found[5], None))
    return int(whole) * 100 + int(part or 0)


def order_number_in(text: str) -> int | None:
    """The number of an order that a text names: `order 7`, `order number 7`, `#7`."""
    found = re.search(r"\border\s*(?:no\.?|number|nr\.?)?\s*#?\s*(\d{1,12})\b|#\s*(\d{1,12})\b", text, re.IGNORECASE)
    return int(found[1] or found[2]) if found else None


def count_in(text: str) -> int | None:
    """How many bags a customer names, in digits or in words; None where she names none."""
    for word in re.findall(r"\d+|[a-z]+", text.lower()):
        if word.isdigit():
            return int(word[:6])
        if word in NUMBERS:
            return NUMBERS[word]
    return 1 if re.search(r"\b(a|an)\s+(?:\w+\s+)?bag\b", text, re.IGNORECASE) else None
