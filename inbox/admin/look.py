"""What a person looks for in the queue: tabs, filters, search, and pages that never count the table.

Pending requests come most overdue first, then soonest due, then oldest; closed ones newest first. A page begins after a place in
that order, not at a number, so the thousandth page costs what the first one does.
"""

import datetime
from dataclasses import dataclass
from typing import Any

from django import forms
from django.contrib.auth.models import Group
from django.db.models import F, Q, QuerySet
from django.db.models.functions import Left
from django.http import QueryDict
from django.utils.dateparse import parse_datetime

from inbox import access, tags
from inbox.admin import reader
from inbox.clock import now
from inbox.models import Item, TagGroup

PAGE = 25
WINDOW = 20_000  # how many requests one search reads
HINT_MOST = 99
HEAD = 400  # characters of a request that a list reads

PENDING = Item.Status.PENDING
TABS = {
    "mine": "To answer",
    "pending": "All pending",
    "resolved": "Answered, not read yet",
    "consumed": "Read by the agent",
    "all": "All",
}


class LookForm(forms.Form):
    """The filters. Their choices are what this person may see."""

    q = forms.CharField(label="Search", required=False, max_length=200)
    tag = forms.RegexField(
        label="Tag",
        regex=rf"^{tags.PATTERN}\Z",
        required=False,
        error_messages={"invalid": "A tag, in which * stands for any run of characters."},
    )
    agent = forms.ChoiceField(label="Agent", required=False)
    group = forms.ChoiceField(label="Group", required=False)
    blocking = forms.ChoiceField(
        label="Blocking", required=False, choices=[("", "Any"), ("yes", "The agent waits"), ("no", "Not blocking")]
    )
    overdue = forms.BooleanField(label="Overdue", required=False)

    def __init__(self, data: Any, user: Any) -> None:
        super().__init__(data)
        fields: dict[str, Any] = self.fields
        fields["agent"].choices = [("", "Any"), *((name, name) for name in reader.current().agents())]
        fields["group"].choices = [("", "Any"), *_groups(user)]
        self.fields["q"].widget.attrs["placeholder"] = "words, or #12 for a number"
        self.fields["tag"].widget.attrs["placeholder"] = "approval:*"


def _groups(user: Any) -> list[tuple[str, str]]:
    """The groups of whom this person may see the requests."""
    groups = Group.objects.filter(pk__in=TagGroup.objects.values("groups"))
    if not user.is_superuser:
        groups = groups.filter(pk__in=user.groups.values("pk"))
    return [(str(pk), name) for pk, name in groups.order_by("name").values_list("pk", "name")]


@dataclass
class Page:
    """Rows, and where the next page begins. `looked_at` is set where a search stopped before the end."""

    rows: list[Item]
    next: str = ""
    looked_at: int = 0


class Look:
    """One person's view of the requests, as a query string says it."""

    def __init__(self, query: QueryDict, user: Any) -> None:
        self.user = user
        self.query = query
        may_answer = user.has_perm("inbox.resolve_item")
        self.tabs = {key: label for key, label in TABS.items() if may_answer or key != "mine"}
        self.tab = query.get("tab", "") if query.get("tab", "") in self.tabs else next(iter(self.tabs))
        self.form = LookForm(query, user)
        self.valid = self.form.is_valid()
        self.asked = self.form.cleaned_data if self.valid else {}

    @property
    def in_queue_order(self) -> bool:
        """Pending requests, by due time; else newest first."""
        return self.tab in ("mine", "pending")

    @property
    def filtered(self) -> bool:
        """Whether anything is narrowed down."""
        return any(self.asked.values()) or not self.valid

    def query_string(self, **changes: str) -> str:
        """This look as a query string, without its page unless it is given."""
        kept = {key: str(self.query[key]) for key in ("tab", *self.form.fields) if self.query.get(key)}
        full = QueryDict(mutable=True)
        full.update({key: value for key, value in {**kept, **changes}.items() if value})
        return full.urlencode()

    def base(self) -> QuerySet[Item]:
        """What fits the tab and the filters, search apart; unordered."""
        if not self.valid:
            return Item.objects.none()
        asked = self.asked
        if (number := asked["q"].lstrip()).startswith("#") and number[1:].strip().isdecimal():
            return access.visible_items(self.user).filter(pk=min(int(number[1:]), 2**63 - 1))
        items = access.answerable_items(self.user) if self.tab == "mine" else access.visible_items(self.user)
        if self.tab == "mine" and not asked["tag"]:  # the system's own wait for agents, not for people
            items = items.exclude(access.any_tag(f"{start}*" for start in tags.RESERVED))
        if self.tab != "all":
            items = items.filter(status=PENDING if self.in_queue_order else self.tab)
        if asked["tag"]:
            items = items.filter(access.tag_is(asked["tag"]))
        if asked["agent"]:
            items = items.filter(mailbox__agent=asked["agent"])
        if asked["group"]:
            patterns = TagGroup.objects.filter(groups=asked["group"]).values_list("pattern", flat=True)
            items = items.filter(access.any_tag(patterns))
        if asked["blocking"]:
            items = items.filter(blocking=asked["blocking"] == "yes")
        if asked["overdue"]:
            items = items.filter(status=PENDING, due_at__lt=now())
        return items

    @property
    def words(self) -> Q | None:
        """The search, as a condition on request and response."""
        sought = self.asked.get("q", "").strip()
        if not sought or sought.startswith("#"):
            return None
        return Q(request__icontains=sought) | Q(response__icontains=sought)

    def everything(self) -> QuerySet[Item]:
        """What fits, search included, however long it takes; for an export."""
        return self.base().filter(self.words) if self.words else self.base()

    def page(self, size: int = PAGE) -> Page:
        """The page that the query string asks for."""
        return self.page_after(self.query.get("after", ""), size)

    def page_after(self, after: str, size: int = PAGE) -> Page:
        """The rows after a place in the order."""
        rows: list[Item] = []
        place, looked_at = "", 0
        for part in self._parts(after):
            if self.words is not None:
                if stop := part.only("pk", "due_at")[WINDOW - 1 : WINDOW].first():
                    place, looked_at = self.place(stop), WINDOW
                    part = part.filter(self._up_to(stop))
                part = part.filter(self.words)
            rows += self._rows(part)[: size + 1 - len(rows)]
            if len(rows) > size:
                return Page(rows[:size], self.place(rows[size - 1]))
            if looked_at:
                break
        return Page(rows, place, looked_at)

    def newest(self) -> int:
        """The highest number of any item, from which a page counts what is new."""
        return Item.objects.order_by("-pk").values_list("pk", flat=True).first() or 0

    def new_since(self, number: int) -> int:
        """How many fitting requests came after this number; HINT_MOST + 1 for more than can be told."""
        return self.base().filter(pk__gt=number).order_by()[: HINT_MOST + 1].count()

    def next_after(self, item: Item) -> Item | None:
        """The next request that this person may answer, in this look's order, from the top again after the last one."""
        for start in (self.place(item), ""):
            for row in self.page_after(start, 2).rows:
                if row.pk != item.pk and row.status == PENDING:
                    return row
        return None

    def place(self, item: Item) -> str:
        """Where an item stands in the order."""
        if not self.in_queue_order:
            return str(item.pk)
        return f"{item.due_at.astimezone(datetime.UTC).isoformat() if item.due_at else ''}_{item.pk}"

    def _ordered(self, items: QuerySet[Item]) -> QuerySet[Item]:
        return items.order_by(F("due_at").asc(nulls_last=True), "pk") if self.in_queue_order else items.order_by("-pk")

    def _up_to(self, item: Item) -> Q:
        """What comes no later than this item in a stretch of the order."""
        if not self.in_queue_order:
            return Q(pk__gte=item.pk)
        if item.due_at is None:
            return Q(pk__lte=item.pk)
        return Q(due_at__lte=item.due_at) & (Q(due_at__lt=item.due_at) | Q(pk__lte=item.pk))

    def _rows(self, items: QuerySet[Item]) -> QuerySet[Item]:
        heads = items.select_related("mailbox").defer("request", "response")
        return heads.annotate(head=Left("request", HEAD))

    def _parts(self, after: str) -> list[QuerySet[Item]]:
        """The order from a place on, in stretches that each begin with one index look-up."""
        items = self.base()
        due, _, number = after.rpartition("_")
        if not number.isdecimal() or (pk := int(number)) >= 2**63:
            return self._beginning(items)
        if not self.in_queue_order:
            return [self._ordered(items.filter(pk__lt=pk))]
        dateless = items.filter(due_at=None)
        if not due:
            return [self._ordered(dateless.filter(pk__gt=pk))]
        if (moment := _moment(due)) is None:
            return self._beginning(items)
        later = items.filter(due_at__gte=moment).filter(Q(due_at__gt=moment) | Q(pk__gt=pk))
        return [self._ordered(later), self._ordered(dateless)]

    def _beginning(self, items: QuerySet[Item]) -> list[QuerySet[Item]]:
        if self.words is None or not self.in_queue_order:
            return [self._ordered(items)]
        # A search stops at a place within a stretch, so those with and without a deadline are two.
        return [self._ordered(items.filter(due_at__isnull=False)), self._ordered(items.filter(due_at=None))]


def _moment(text: str) -> datetime.datetime | None:
    try:
        moment = parse_datetime(text)
    except ValueError:
        return None
    return moment if moment and moment.tzinfo else None
