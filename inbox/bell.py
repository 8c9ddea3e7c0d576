"""The doorbell: a Celery message that only says "look now". Whatever it asks for, the sweep finds too.

So ringing is fast and never fails its caller: short timeouts, no retry, and after a failure a few seconds of silence, in
which a dead broker costs nothing. Measured: a refused connection costs some 10 ms, a hung one READ_S, during silence nothing.
"""

import logging
import threading
import time
from collections.abc import Sequence
from typing import Any

from celery import Celery, current_app
from kombu import Connection
from kombu.pools import ProducerPool

log = logging.getLogger(__name__)

CONNECT_S = 0.2
READ_S = 0.3
WAIT_S = 0.5  # for a connection of the pool
SILENCE_S = 5.0
POOL = 64  # connections per process: more than there are threads that ring at once

_lock = threading.Lock()
_pools: dict[tuple[str | None, str], ProducerPool] = {}
_silent_until = 0.0


def ring(task: Any, args: Sequence[Any] = (), countdown: float = 0) -> bool:
    """Ask a worker to run this Celery task (or the task of this name) with these arguments, `countdown` seconds from now.

    Returns whether the message left. Never raises, and never takes much longer than CONNECT_S + READ_S. For use after commit.
    """
    if is_silent():
        return False
    try:
        _send(getattr(task, "name", task), args, countdown)
    except Exception as error:
        _fall_silent(error)
        return False
    return True


def is_silent() -> bool:
    """Whether a ring failed within the last SILENCE_S: until then nothing is rung."""
    return time.monotonic() < _silent_until


def warm() -> None:
    """Do at start what the first ring would otherwise pay for: imports, the pool, a first connection."""
    try:
        app = current_app._get_current_object()
        app.finalize()
        with _pool(app).acquire(block=True, timeout=WAIT_S) as producer:
            producer.maybe_declare(app.amqp.default_queue)
    except Exception as error:
        _fall_silent(error)


def reset() -> None:
    """Forget the silence and the connections: after a fork, and between tests."""
    global _silent_until
    with _lock:
        _silent_until = 0.0
        pools = list(_pools.values())
        _pools.clear()
    for pool in pools:
        pool.connections.force_close_all()


def _send(name: str, args: Sequence[Any], countdown: float) -> None:
    app = current_app._get_current_object()
    with _pool(app).acquire(block=True, timeout=WAIT_S) as producer:
        app.send_task(
            name,
            args=tuple(args),
            countdown=countdown or None,
            producer=producer,
            retry=False,
            ignore_result=True,
            add_to_parent=False,
        )


def _pool(app: Celery) -> ProducerPool:
    key = (app.conf.broker_write_url, repr(app.conf.broker_transport_options))
    with _lock:
        if key not in _pools:
            _pools[key] = ProducerPool(_fast(app).Pool(limit=POOL), limit=POOL)
        return _pools[key]


def _fast(app: Celery) -> Connection:
    """The broker's connection with timeouts of our own. Transports that know no such option ignore it."""
    options = {"socket_connect_timeout": CONNECT_S, "socket_timeout": READ_S, "max_retries": 0}
    connection = app.connection_for_write(transport_options=options, connect_timeout=CONNECT_S)
    connection.hostname = connection.hostname or "localhost"  # of memory://, which kombu would complain about
    return connection


def _fall_silent(error: Exception) -> None:
    global _silent_until
    with _lock:
        first = not is_silent()
        _silent_until = time.monotonic() + SILENCE_S
    if first:
        log.warning(
            "The broker does not answer (%s: %s); no bell for %s s, the sweep finds the work.",
            type(error).__name__,
            error,
            SILENCE_S,
        )
