"""Web, worker and beat in one process: what `manage.py serve` runs."""

import errno
import logging
import os
import signal
import socket
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import Any

import uvicorn
from celery.beat import Service
from celery.worker import WorkController
from celery.worker import state as worker_state
from django.conf import settings
from django.core.management import call_command
from django.db import connection, connections

from agents import stopping as agents_stopping
from glove_site import stopping
from glove_site.celery import app

log = logging.getLogger(__name__)

SQLITE_THREADS = 8  # more would only wait for the one writer
MOST_REQUESTS = 64  # each takes a thread
OPEN_REQUESTS_S = 20  # shorter, and open requests end with a 500
WORKER_S = 25
BEAT_AGAIN_S = 5


class CannotServeError(Exception):
    """Why it cannot start, in one sentence."""


class Server(uvicorn.Server):
    """Uvicorn that stops the rest of the process with itself, and says when it listens."""

    def __init__(self, config: uvicorn.Config, welcome: str) -> None:
        super().__init__(config)
        self._welcome = welcome

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        print(self._welcome, flush=True)  # noqa: T201

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        stopping.begin()
        super().handle_exit(sig, frame)


class Serving:
    """One run of everything. `run` returns the exit code."""

    def __init__(self, host: str, port: int, welcome: Callable[[], str]) -> None:
        self.host, self.port, self._welcome = host, port, welcome
        self._server: Server | None = None
        self._failed = False

    def run(self) -> int:
        """1. Signals first: one that comes while migrating counts too. 2. The port, before anything is changed.
        3. Migrate, sync the schedules. 4. Worker and beat as threads. 5. Web in this thread, until told to stop.
        6. Beat and worker stop; turns hand themselves back."""
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._stop)
        listener = bind(self.host, self.port)
        prepare()
        if agents_stopping.flag.is_set():
            listener.close()
            return 0
        beat = Service(app, scheduler_cls=app.conf.beat_scheduler)
        worker_thread = self._start(self._work, "worker")
        self._start(lambda: self._tick(beat), "beat")
        self._serve(listener, self._welcome())
        stopping.begin()
        beat.stop()
        worker_state.should_stop = 0
        worker_thread.join(WORKER_S)
        return 1 if self._failed else 0

    def _stop(self, number: int, frame: FrameType | None) -> None:
        stopping.begin()
        if self._server is not None:
            self._server.should_exit = True

    def _start(self, act: Callable[[], None], name: str) -> threading.Thread:
        thread = threading.Thread(target=act, name=name, daemon=True)
        thread.start()
        return thread

    def _serve(self, listener: socket.socket, welcome: str) -> None:
        from glove_site.asgi import application

        config = uvicorn.Config(
            application,
            log_config=None,
            lifespan="off",
            server_header=False,
            limit_concurrency=MOST_REQUESTS,
            timeout_graceful_shutdown=OPEN_REQUESTS_S,
        )
        self._server = Server(config, welcome)
        if agents_stopping.flag.is_set():
            self._server.should_exit = True
        self._server.run(sockets=[listener])

    def _work(self) -> None:
        threads = SQLITE_THREADS if connection.vendor == "sqlite" else settings.WORKER_THREADS
        worker = WorkController(
            app=app,
            hostname=f"serve-{os.getpid()}@{socket.gethostname()}",
            pool_cls="threads",
            concurrency=threads,
            without_gossip=True,
            without_mingle=True,
            without_heartbeat=True,
        )
        worker.start()
        connections.close_all()
        if not agents_stopping.flag.is_set():
            log.critical("The worker stopped by itself. The process stops, so that a supervisor starts it anew.")
            self._failed = True
            os.kill(os.getpid(), signal.SIGTERM)

    def _tick(self, beat: Any) -> None:
        while not agents_stopping.flag.is_set():
            try:
                beat.start(embedded_process=False)
            except Exception:
                log.exception("Beat stopped; it starts again in %s s.", BEAT_AGAIN_S)
                time.sleep(BEAT_AGAIN_S)
            finally:
                connections.close_all()


def bind(host: str, port: int) -> socket.socket:
    """The listening socket, or CannotServeError with a sentence that says what to do."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, protocol)
    except (OSError, OverflowError, UnicodeError) as error:
        raise CannotServeError(f"{host!r} with port {port} is not an address of this machine ({error}).") from error
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(128)
    except OSError as error:
        listener.close()
        raise CannotServeError(_why_not(host, port, error)) from error
    return listener


def _why_not(host: str, port: int, error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"Port {port} is taken by another program. Stop that one, or choose another port: --port {port + 1}."
    if error.errno == errno.EACCES:
        return f"Port {port} needs rights that this user does not have. Choose one above 1023: --port 8000."
    if error.errno == errno.EADDRNOTAVAIL:
        return f"{host} is not an address of this machine. Use 127.0.0.1, or 0.0.0.0 for all of its addresses."
    return f"{host} port {port} cannot be used: {error.strerror}."


def prepare() -> None:
    """Bring the database up to date: tables, declared schedules. Make the first ring as quick as the others."""
    from inbox import bell
    from inbox.services import schedules

    call_command("migrate", verbosity=0, interactive=False)
    schedules.sync_schedules()
    bell.warm()
    connections.close_all()
