"""What becomes of the database's pool after a fault. Only PostgreSQL has one."""

import logging
import threading

from django.db import connection

log = logging.getLogger(__name__)

_checking = threading.Lock()


def discard_dead() -> bool:
    """To be called by whoever has met a fault of the database. Where its connection is dead, those that lie in the pool have likely
    died with it: the server was restarted, say. Each would be handed out once, and fail somebody. They are looked through in a
    thread, one look at a time, since a network that swallows everything would hold the caller up. Returns whether it was dead."""
    pool = getattr(connection, "pool", None)
    own = connection.connection
    if pool is None or (own is not None and not own.closed):
        return False
    if _checking.acquire(blocking=False):
        threading.Thread(target=_look_through, args=(pool,), name="pool-check", daemon=True).start()
    return True


def _look_through(pool: object) -> None:
    try:
        pool.check()  # type: ignore[attr-defined]
    except Exception:  # it is only a help: what is dead is noticed one by one at the latest
        log.warning("The pool was not looked through", exc_info=True)
    finally:
        _checking.release()
