from django.apps import AppConfig
from django.utils.module_loading import autodiscover_modules


class AgentsConfig(AppConfig):
    """Conversations, turns, tools, tasks and permissions."""

    name = "agents"

    def ready(self) -> None:
        from agents import bell, checks, sweep  # noqa: F401 (registers the system checks)
        from agents.services import waking
        from inbox import sweep as passes
        from inbox.signals import mailbox_ready, many_ready

        mailbox_ready.connect(waking.on_mailbox_ready, dispatch_uid="agents.wake")
        many_ready.connect(bell.ring_wakes, dispatch_uid="agents.wakes")
        passes.register("wakes", waking.wake_unrung)
        passes.register("turns", sweep.ring_due_turns)
        autodiscover_modules("glove")
