"""One worker process of the storm: 8 threads that run turns, and the sweep of the real workers.

`python -m tests.storm.worker NAME FOLDER SEED`
"""

import os
import queue
import signal
import sys
import threading
from pathlib import Path

THREADS = 8


def main(name: str, folder: str, seed: str) -> int:
    import django

    django.setup()
    from agents import bell, stopping
    from glove_site import stopping as site_stopping
    from glove_site.sweeper import Sweeper
    from tests.storm.bells import Bells

    signal.signal(signal.SIGTERM, lambda *_: site_stopping.begin())
    bells = Bells(Path(folder), int(seed))
    bell.ring = bells.ring
    waiting: queue.Queue[int] = queue.Queue()
    threads = [threading.Thread(target=run, args=(waiting, stopping.flag), name=f"{name}-{n}") for n in range(THREADS)]
    sweeper = Sweeper()
    for thread in (*threads, sweeper):
        thread.start()
    print(f"{name} listens", flush=True)
    for turn_id in bells.listen(name):
        if stopping.flag.is_set():
            break
        if turn_id is not None:
            waiting.put(turn_id)
    sweeper.halt.set()
    for thread in (*threads, sweeper):
        thread.join()
    return 0


def run(waiting: "queue.Queue[int]", stopping: threading.Event) -> None:
    import traceback

    from django.db import connections

    from agents.services import turns

    while not stopping.is_set():
        try:
            turn_id = waiting.get(timeout=0.2)
        except queue.Empty:
            continue
        try:
            turns.start(turn_id)
        except Exception:
            print(f"UNEXPECTED in turn {turn_id}", traceback.format_exc(), flush=True)
        finally:
            connections.close_all()


if __name__ == "__main__":
    os.environ["DJANGO_SETTINGS_MODULE"] = "tests.storm.settings"
    sys.exit(main(*sys.argv[1:]))
