"""The agents' tables. Only `agents.services` writes the stateful ones."""

from agents.models.calls import Permission, ToolCall
from agents.models.ledger import BudgetRaise, ModelCall
from agents.models.talk import Conversation, Message, Task, Turn

__all__ = ["BudgetRaise", "Conversation", "Message", "ModelCall", "Permission", "Task", "ToolCall", "Turn"]
