"""Who answers which tag, and the texts at hand for it."""

from collections.abc import Iterable
from typing import Any, NamedTuple

from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group
from django.db import transaction

from inbox import tags
from inbox.models import CannedAnswer, TagGroup

BACKEND = "django.contrib.auth.backends.ModelBackend"


@transaction.atomic
def set_tag_group(pattern: str, groups: Iterable[Group], *, pk: int | None = None) -> TagGroup:
    """Let these groups, and no others, answer the tags that fit the pattern; `pk` changes a row. Raises BadTag."""
    tags.check_pattern(pattern)
    row, _ = TagGroup.objects.update_or_create(pk=pk, defaults={"pattern": pattern})
    row.groups.set(groups)
    return row


def drop_tag_group(pk: int) -> None:
    """Forget the row: the tags that only it fitted are open to every holder of the permission."""
    TagGroup.objects.filter(pk=pk).delete()


def set_canned_answer(pattern: str, title: str, text: str, *, pk: int | None = None) -> CannedAnswer:
    """Keep a text at hand for the tags that fit the pattern; `pk` changes a row. Raises BadTag."""
    tags.check_pattern(pattern)
    row, _ = CannedAnswer.objects.update_or_create(pk=pk, defaults={"pattern": pattern, "title": title, "text": text})
    return row


def drop_canned_answer(pk: int) -> None:
    """Forget the text."""
    CannedAnswer.objects.filter(pk=pk).delete()


def canned_answers(item_tags: Iterable[str]) -> list[CannedAnswer]:
    """The texts that suit every one of these tags."""
    wanted = set(item_tags)
    return [row for row in CannedAnswer.objects.all() if all(tags.matches(row.pattern, tag) for tag in wanted)]


class Trial(NamedTuple):
    """Who would answer a sample tag. `rows` are the patterns that it fits, with their groups; none: everybody may."""

    tag: str
    fits: bool
    rows: list[tuple[str, list[str]]]
    people: list[str]
    more_people: bool


def try_tag_group(
    sample: str, pattern: str, groups: Iterable[Group], *, pk: int | None = None, shown: int = 20
) -> Trial:
    """Who would answer the sample tag if the row `pk` (or a new one) were so. Changes nothing. Raises BadTag."""
    tags.check_tag(sample)
    tags.check_pattern(pattern)
    candidate = list(groups)
    rows = {(pattern, "new"): candidate} if tags.matches(pattern, sample) else {}
    for row in TagGroup.objects.prefetch_related("groups"):
        if row.pk != pk and tags.matches(row.pattern, sample):
            rows[row.pattern, str(row.pk)] = list(row.groups.all())
    answering = {group.pk for members in rows.values() for group in members}
    people = list(_resolvers(answering if rows else None)[: shown + 1])
    return Trial(
        tag=sample,
        fits=tags.matches(pattern, sample),
        rows=[(name, sorted(group.name for group in members)) for (name, _), members in rows.items()],
        people=people[:shown],
        more_people=len(people) > shown,
    )


def _resolvers(groups: set[int] | None) -> Any:
    holders = get_user_model().objects.with_perm("inbox.resolve_item", include_superusers=False, backend=BACKEND)
    if groups is not None:
        holders = holders.filter(groups__in=groups)
    return holders.order_by("username").values_list("username", flat=True).distinct()
