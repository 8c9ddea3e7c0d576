"""Other people's and models' text in a page: literal, in its own direction, with what cannot be seen written out."""

import datetime
import itertools
import re
from typing import Any

from django import template
from django.contrib.admin.templatetags.admin_list import result_headers, results
from django.utils import timezone
from django.utils.html import conditional_escape, format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe
from django.utils.text import capfirst
from django.utils.timesince import timesince

from inbox import text as texts
from inbox.admin.timeline import closed_by

register = template.Library()
CONTROL = re.compile(r"[^\t\n\r -~]")


@register.filter
def literal(text: object) -> SafeString:
    """A whole text as a block; a line above it counts its hidden characters."""
    body, hidden = _with_marks(str(text))
    return format_html('{}<div class="literal" dir="auto">{}</div>', _note(hidden), body)


@register.filter
def one_line(text: object, width: int = 100) -> SafeString:
    """The text's first line, isolated from what stands around it."""
    body, hidden = _with_marks(texts.first_line(str(text), width))
    return format_html('<bdi class="line">{}</bdi>{}', body, _badge(hidden))


@register.filter
def inline(text: object) -> SafeString:
    """A short text, a name for example, in a sentence."""
    body, hidden = _with_marks(str(text))
    return format_html("<bdi>{}</bdi>{}", body, _badge(hidden))


@register.filter
def marks(text: object) -> SafeString:
    """A text with what is hidden written out, and nothing around it."""
    return _with_marks(str(text))[0]


@register.filter
def shown(value: object) -> SafeString | str:
    """A fact of a row: a time, a yes or no, a text."""
    if isinstance(value, SafeString):
        return value
    if isinstance(value, datetime.datetime):
        return stamp(value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "–" if value in (None, "") else inline(value)


@register.filter
def is_past(moment: datetime.datetime | None) -> bool:
    """Whether it is over."""
    return moment is not None and moment <= timezone.now()


@register.filter
def ago(moment: datetime.datetime | None) -> SafeString | str:
    """`3 hours ago` or `just now`, with the exact time to hover over."""
    if moment is None:
        return ""
    return _time(moment, f"{timesince(moment, depth=1)} ago" if _is_older(moment) else "just now")


@register.filter
def age(moment: datetime.datetime) -> SafeString:
    """`3 hours` or `new`."""
    return _time(moment, timesince(moment, depth=1) if _is_older(moment) else "new")


def _is_older(moment: datetime.datetime) -> bool:
    return timezone.now() - moment >= datetime.timedelta(minutes=1)


@register.filter
def due(moment: datetime.datetime | None) -> SafeString | str:
    """`in 2 hours` or `5 minutes overdue`."""
    if moment is None:
        return ""
    now = timezone.now()
    words = f"{timesince(moment, now, depth=1)} overdue" if moment <= now else f"in {timesince(now, moment, depth=1)}"
    return _time(moment, words)


@register.filter
def stamp(moment: datetime.datetime | None) -> SafeString | str:
    """The exact time."""
    return "" if moment is None else _time(moment, timezone.localtime(moment).strftime("%Y-%m-%d %H:%M"))


register.filter("closed_by", closed_by)


@register.simple_tag
def named_cells(changelist: Any) -> dict[str, list[Any]]:
    """The columns and rows of a list of the admin. Each cell bears its column's name, for screens too narrow for a head."""
    names = [capfirst(str(header["text"])) for header in result_headers(changelist)]
    rows = [[_named(*pair) for pair in zip(names, cells, strict=True)] for cells in results(changelist)]
    return {"names": names, "rows": rows}


def _named(name: str, cell: str) -> SafeString:
    tag, rest = cell.split(">", 1)  # Django made the cell, and escaped what is in it; its tag holds only a class
    return mark_safe(f'{tag} data-name="{conditional_escape(name)}">{rest}')  # noqa: S308


def _time(moment: datetime.datetime, words: str) -> SafeString:
    exact = timezone.localtime(moment).strftime("%Y-%m-%d %H:%M:%S %Z")
    return format_html('<time datetime="{}" title="{}">{}</time>', moment.isoformat(), exact, words)


def _with_marks(text: str) -> tuple[SafeString, int]:
    """The text, escaped, its hidden characters as marks, and how many there are."""
    if text.isascii() and not CONTROL.search(text):
        return conditional_escape(text), 0
    parts: list[tuple[Any]] = []
    count = 0
    for hidden, run in itertools.groupby(text, texts.is_hidden):
        chars = "".join(run)
        if hidden:
            count += len(chars)
            parts += [(format_html('<span class="mark">{}</span>', texts.marked(char).text),) for char in chars]
        else:
            parts.append((chars,))
    return format_html_join("", "{}", parts), count


def _note(hidden: int) -> SafeString | str:
    if not hidden:
        return ""
    words = "1 hidden character is" if hidden == 1 else f"{hidden} hidden characters are"
    return format_html(
        '<p class="hidden-note">{} written out below, like <span class="mark">&lt;U+200B&gt;</span>.</p>', words
    )


def _badge(hidden: int) -> SafeString | str:
    return format_html(' <span class="hidden-note">{} hidden</span>', hidden) if hidden else ""
