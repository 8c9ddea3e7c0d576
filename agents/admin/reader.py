"""What the desk shows around a request: its conversation, its agent's tasks, who will wake, and the letter itself."""

from typing import Any

from django.urls import reverse

from agents import access, registry
from agents.admin import talk
from agents.frames import draw_nonce, frame
from agents.models import Conversation, Task, Turn
from inbox.admin.reader import Link, Panel, Reader
from inbox.models import Item

RECENT = 10


class AgentsReader(Reader):
    """The agents read the mail."""

    def agents(self) -> list[str]:
        return sorted(registry.agents)

    def panels(self, user: Any, item: Item) -> list[Panel]:
        conversation = self._place(user, item)
        if conversation is None:
            return [Panel("The conversation", "admin/agents/no_talk.html", {})]
        tasks = Task.objects.filter(conversation=conversation).exclude(status=Task.Status.COMPLETED)
        shown = {"parts": talk.around(conversation, item), "conversation": conversation}
        return [
            Panel("The conversation around it", "admin/agents/talk_around.html", shown),
            Panel("What the agent is about", "admin/agents/tasks.html", {"tasks": tasks}),
        ]

    def wakes(self, user: Any, item: Item) -> Link:
        latest = Conversation.objects.filter(mailbox_id=item.mailbox_id, status=Conversation.Status.OPEN).order_by(
            "-pk"
        )
        asked = item.origin and latest.filter(pk=item.origin).first()
        if asked:
            return self._link(user, f"It wakes {talk.conversation_name(asked)}, which asked.", asked)
        since = "The conversation that asked is closed. " if item.posted_in else ""
        if other := latest.first():
            return self._link(user, f"{since}It wakes {talk.conversation_name(other)}, on the same mailbox.", other)
        if item.mailbox.agent not in registry.agents:
            return Link(f"The agent {item.mailbox.agent} is not declared at present: the answer is kept until it is.")
        return Link(f"{since}No conversation is open on this mailbox: it opens a new one.")

    def run(self, user: Any, run_id: int) -> Link:
        seen = access.visible_conversations(user)
        may_open = user.has_perm("agents.view_turn") and Turn.objects.filter(pk=run_id, conversation__in=seen).exists()
        return Link(f"turn {run_id}", reverse("admin:agents_turn_change", args=[run_id]) if may_open else "")

    def mailbox_links(self, user: Any, mailbox_id: int) -> list[Link]:
        rows = access.visible_conversations(user).filter(mailbox_id=mailbox_id).order_by("-pk")[:RECENT]
        return [self._link(user, f"{talk.conversation_name(row)}, {row.status}", row) for row in rows]

    def letter(self, mail: Any) -> str:
        # The code of a real letter is drawn when it is read; this one only has the same form.
        return frame(mail, draw_nonce(mail.request, mail.response))

    def _place(self, user: Any, item: Item) -> Conversation | None:
        """Where it was asked; else where it was read or will be. None where this person may not look."""
        seen = access.visible_conversations(user)
        turn = item.posted_in or item.consumed_in
        if turn and (found := seen.filter(turns=turn).first()):
            return found
        if item.origin and (found := seen.filter(pk=item.origin).first()):
            return found
        mailbox = seen.filter(mailbox_id=item.mailbox_id, status=Conversation.Status.OPEN)
        return mailbox.order_by("-pk").first()

    def _link(self, user: Any, words: str, conversation: Conversation) -> Link:
        may_open = user.has_perm("agents.view_conversation")
        return Link(words, reverse("admin:agents_conversation_change", args=[conversation.pk]) if may_open else "")
