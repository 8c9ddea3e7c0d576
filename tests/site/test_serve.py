"""`manage.py serve` as a process of its own: it starts, answers, says what is where, stops gracefully, keeps its data."""

import json
import signal
import socket
import sqlite3
import urllib.error
import urllib.request

import pytest

from tests.processes import plain_environment, until


def get(url, **headers):
    """Status, headers and body; an error status is an answer too."""
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=10) as answer:
            return answer.status, answer.headers, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.headers, error.read()


@pytest.fixture
def home(tmp_path):
    """An environment with a data folder of its own, as after a fresh clone."""
    return plain_environment(GLOVE_VAR=str(tmp_path / "var"), GLOVE_SWEEP_EVERY_S="1")


@pytest.fixture
def serve(start, free_port, home):
    def serve_one(*arguments, **changes):
        child = start("manage.py", "serve", "--port", str(free_port), *arguments, env={**home, **changes})
        child.url = f"http://127.0.0.1:{free_port}"
        return child

    return serve_one


def test_it_starts_on_an_empty_folder_answers_and_stops_with_0(serve):
    served = serve()
    served.wait_for("Glove is running")
    for name, path in (("Admin", "/admin/"), ("API docs", "/api/v1/docs")):
        assert f"{name:<10} {served.url}{path}" in served.output
    assert get(f"{served.url}/healthz")[0] == 200
    assert get(f"{served.url}/admin/login/")[0] == 200
    # The worker in it sweeps.
    until(lambda: json.loads(get(f"{served.url}/readyz")[2])["status"] == "ok")
    assert served.stop(signal.SIGTERM) == 0
    assert served.output.rstrip().endswith("Stopped.")
    assert "Traceback" not in served.output


def test_ctrl_c_stops_it_with_0(serve):
    served = serve()
    served.wait_for("Glove is running")
    assert served.stop(signal.SIGINT) == 0
    assert "Traceback" not in served.output


def test_a_signal_while_it_starts_counts(serve):
    served = serve()
    # Before that line the signal is Python's own to treat.
    until(lambda: socket_is_bound(served.url), 60, 0.01)
    assert served.stop(signal.SIGTERM) == 0


def socket_is_bound(url):
    port = int(url.rpartition(":")[2])
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def test_data_is_kept_from_one_start_to_the_next(serve, tmp_path):
    first = serve()
    first.wait_for("Glove is running")
    assert "createsuperuser" in first.output
    first.stop()
    with sqlite3.connect(tmp_path / "var" / "db.sqlite3") as database:
        database.execute(
            "INSERT INTO auth_user (username, password, is_superuser, is_staff, is_active, first_name, last_name, email,"
            " date_joined) VALUES ('ada', '!', 0, 0, 1, '', '', '', '2026-01-01 00:00:00')"
        )
    again = serve()
    again.wait_for("Glove is running")
    assert "createsuperuser" not in again.output
    assert again.stop() == 0
    with sqlite3.connect(tmp_path / "var" / "db.sqlite3") as database:
        assert database.execute("SELECT username FROM auth_user").fetchall() == [("ada",)]


def test_a_taken_port_is_one_sentence_and_changes_nothing(serve, free_port, tmp_path):
    with socket.socket() as other:
        other.bind(("127.0.0.1", free_port))
        other.listen()
        served = serve()
        assert served.wait(60) == 1
    assert f"Port {free_port} is taken by another program" in served.output
    assert len(served.output.strip().splitlines()) == 1
    assert not (tmp_path / "var" / "db.sqlite3").exists() or not tables(tmp_path)


def tables(tmp_path):
    with sqlite3.connect(tmp_path / "var" / "db.sqlite3") as database:
        return database.execute("SELECT name FROM sqlite_master").fetchall()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [(["--host", "203.0.113.7"], "not an address of this machine"), (["--port", "70000"], "not a port")],
)
def test_an_address_that_cannot_be_used_is_said(serve, arguments, says):
    served = serve(*arguments)
    assert served.wait(60) == 1
    assert says in served.output
    assert "Traceback" not in served.output


def test_with_debug_off_static_files_come_without_collecting_and_lines_are_json(serve):
    served = serve(DEBUG="0", SECRET_KEY="x" * 60)
    served.wait_for("Glove is running")
    status, headers, body = get(f"{served.url}/static/admin/css/base.css")
    assert (status, headers.get_content_type()) == (200, "text/css")
    assert len(body) == int(headers["Content-Length"])
    assert get(f"{served.url}/static/admin/css/none.css")[0] == 404
    assert get(f"{served.url}/nowhere/at-all")[0] == 404
    assert get(f"{served.url}/r/{'s' * 43}")[0] in (404, 405)
    assert served.stop() == 0
    lines = [json.loads(line) for line in served.output.splitlines() if line.startswith("{")]
    assert any(line["logger"] == "uvicorn.access" and "/nowhere/at-all" in line["event"] for line in lines)
    assert "/r/[redacted]" in served.output
    assert "s" * 43 not in served.output
    assert "Warning" not in served.output


@pytest.mark.redis
def test_with_redis_bells_go_through_it(serve, redis_url):
    served = serve(REDIS_URL=redis_url)
    served.wait_for("Glove is running")
    assert f"Doorbell   {redis_url}" in served.output
    assert json.loads(get(f"{served.url}/readyz")[2])["degraded"].keys() <= {"sweep"}
    assert served.stop() == 0
