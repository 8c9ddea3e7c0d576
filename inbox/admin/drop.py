"""Telling an agent something that it did not ask: mail that is labelled as unasked."""

from typing import Any

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import reverse

from inbox import access, tags
from inbox.admin.answer import lines
from inbox.errors import InboxError
from inbox.models import Item
from inbox.services.answers import drop_as


class DropForm(forms.Form):
    """What is told, to whom."""

    mailbox = forms.CharField(max_length=200, help_text="The agent's address, such as concierge/ada.")
    tag = forms.RegexField(
        f"^{tags.TAG}\\Z", max_length=120, initial="note", help_text="What it is about: note, stock:beans"
    )
    request = forms.CharField(
        label="Subject", max_length=1000, help_text="What the agent sees as the occasion.", initial="Told by staff"
    )
    response = forms.CharField(label="What the agent reads", widget=forms.Textarea({"rows": 8}), strip=False)


def page(request: HttpRequest, site: Any) -> HttpResponse:
    """GET shows the form; POST drops the mail."""
    form = DropForm(
        request.POST if request.method == "POST" else None, initial={"mailbox": request.GET.get("mailbox", "")}
    )
    if request.method == "POST" and form.is_valid():
        told = {**form.cleaned_data, "response": lines(form.cleaned_data["response"])}
        try:
            item = drop_as(request.user, via=Item.Via.ADMIN, **told)
        except InboxError as error:
            form.add_error(None, str(error))
        else:
            messages.success(
                request, f"Told {told['mailbox']}. The agent reads it on its next turn, which is being woken."
            )
            seen = access.is_desk(request.user) and access.may_see(request.user, item)
            target = reverse("admin:inbox_item_change", args=[item.pk]) if seen else reverse("admin:inbox_item_drop")
            return HttpResponseRedirect(target)
    context = {**site.each_context(request), "title": "Tell an agent", "form": form}
    status = 200 if request.method != "POST" else 422
    return TemplateResponse(request, "admin/inbox/item/drop.html", context, status=status)
