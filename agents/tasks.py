"""What doorbells ask for. A task takes ids and calls one service."""

from celery import shared_task

from agents import bell, stopping
from agents.services import turns, waking

WAKES_AT_ONCE = 200


@shared_task(name=bell.RUN_TURN, ignore_result=True)
def run_turn(turn_id: int) -> None:
    """Run the turn, if it is still to be run and nobody else does."""
    if stopping.flag.is_set() or turns.start(turn_id) == "handed_back":
        bell.ring(turn_id, countdown=1)  # for another worker, or for this one's successor


@shared_task(name=bell.WAKE_UNRUNG, ignore_result=True)
def wake_unrung() -> None:
    """Wake the readers of unrung mail, as after a broadcast to many."""
    while waking.wake_unrung(WAKES_AT_ONCE) and not stopping.flag.is_set():
        pass
