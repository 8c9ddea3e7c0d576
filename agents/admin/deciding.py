"""The forms by which staff decide about marked tools: for one mailbox, or for every one of an agent."""

import datetime
from typing import Any

from django import forms
from django.utils import timezone

from agents import registry
from agents.models import Permission
from inbox import access as inbox_access
from inbox.services.mailboxes import find_mailbox

LASTS = {"1": "1 hour", "24": "1 day", "168": "1 week", "720": "30 days", "": "until it is revoked"}


def marked_tools() -> list[tuple[str, str]]:
    """The tools that ask for a permission, as choices `agent:tool`."""
    return [
        (f"{agent.name}:{tool.name}", f"{agent.name}: {tool.name}")
        for agent in sorted(registry.agents.values(), key=lambda agent: agent.name)
        for tool in agent.tools
        if tool.permission
    ]


class AgentWideForm(forms.Form):
    """A decision for every mailbox of an agent."""

    tool = forms.ChoiceField(help_text="Tools that are declared with permission=True.")
    decision = forms.ChoiceField(choices=[("grant", "Grant it"), ("deny", "Deny it, whatever is granted elsewhere")])
    scope = forms.ChoiceField(
        label="For",
        choices=[(Permission.Scope.ARGUMENTS, "exactly these arguments"), (Permission.Scope.ANY, "any arguments")],
    )
    arguments = forms.CharField(
        required=False,
        max_length=20_000,
        widget=forms.Textarea({"rows": 5}),
        help_text='A JSON object, such as {"order_id": "17", "cents": 500}. Leave it empty for any arguments.',
    )
    lasts = forms.ChoiceField(label="How long", required=False, choices=list(LASTS.items()), initial="24")
    uses = forms.IntegerField(
        label="How often", required=False, min_value=1, max_value=1_000_000, help_text="Empty: no limit."
    )

    def __init__(self, user: Any, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.user = user
        tool: Any = self.fields["tool"]
        tool.choices = marked_tools()

    def clean(self) -> dict[str, Any]:
        """No arguments is not any arguments, and any arguments are not some."""
        data = super().clean() or {}
        if data.get("scope") == Permission.Scope.ANY and data.get("arguments", "").strip():
            raise forms.ValidationError(
                "You wrote arguments and chose any arguments. Choose “exactly these”, or empty the box."
            )
        if data.get("scope") == Permission.Scope.ARGUMENTS and not data.get("arguments", "").strip():
            raise forms.ValidationError("Write the arguments that this is for; {} where the tool takes none.")
        return data

    def decision_made(self) -> dict[str, Any]:
        """What the service takes."""
        given = self.cleaned_data
        agent, _, tool = given["tool"].partition(":")
        hours = int(given["lasts"] or 0)
        return {
            "agent": agent,
            "tool": tool,
            "mailbox_id": None,
            "decision": given["decision"],
            "scope": given["scope"],
            "arguments": given["arguments"],
            "expires_at": timezone.now() + datetime.timedelta(hours=hours) if hours else None,
            "uses": given["uses"],
        }


class MailboxForm(AgentWideForm):
    """A decision for one mailbox."""

    mailbox = forms.CharField(max_length=200, help_text="The address for whose calls this is: concierge/ada.")
    field_order = ("tool", "mailbox", "decision", "scope", "arguments", "lasts", "uses")

    def clean_mailbox(self) -> Any:
        """The mailbox at this address, if this person may see it."""
        found = find_mailbox(self.cleaned_data["mailbox"])
        if found is None or not inbox_access.visible_mailboxes(self.user).filter(pk=found.pk).exists():
            raise forms.ValidationError("There is no mailbox at this address.")
        return found

    def clean(self) -> dict[str, Any]:
        """The mailbox belongs to the tool's agent."""
        data = super().clean()
        agent = data.get("tool", "").partition(":")[0]
        if "mailbox" in data and data["mailbox"].agent != agent:
            raise forms.ValidationError(f"This mailbox is read by {data['mailbox'].agent}, not by {agent}.")
        return data

    def decision_made(self) -> dict[str, Any]:
        return {**super().decision_made(), "mailbox_id": self.cleaned_data["mailbox"].pk}
