"""A body over the limit is refused before it is read to its end, whether its length was said or not."""

import asyncio
import json

from django.core.handlers.asgi import ASGIHandler

from inbox.http.body_limit import limit_body

LIMIT = 1000


def ask(app, chunks, length=None):
    """The status, the body, and how many chunks the app took."""
    taken, sent = [], []
    left = list(chunks)
    headers = [] if length is None else [(b"content-length", str(length).encode())]
    scope = {"type": "http", "method": "POST", "path": "/", "headers": headers}

    async def receive():
        if not left:
            return {"type": "http.disconnect"}
        taken.append(left.pop(0))
        return {"type": "http.request", "body": taken[-1], "more_body": bool(left)}

    async def send(message):
        sent.append(message)

    asyncio.run(limit_body(app, LIMIT)(scope, receive, send))
    body = b"".join(message.get("body", b"") for message in sent)
    return sent[0]["status"], body, len(taken), dict(sent[0]["headers"])


async def echo(scope, receive, send):
    """An app that reads it all, and says how much it was."""
    size, more = 0, True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            return
        size += len(message["body"])
        more = message["more_body"]
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": str(size).encode()})


def refused(answer):
    status, body, _, headers = answer
    return (
        status == 413
        and json.loads(body)["type"] == "urn:glove:problem:body-too-large"
        and headers[b"content-type"] == b"application/problem+json"
        and headers[b"connection"] == b"close"
    )


def test_up_to_the_limit():
    assert ask(echo, [b"x" * 400, b"x" * 600])[:2] == (200, b"1000")
    assert ask(echo, [b"x" * 1000], length=1000)[:2] == (200, b"1000")


def test_a_length_over_the_limit_is_refused_unread():
    answer = ask(echo, [b"x" * 2000], length=2000)
    assert refused(answer)
    assert answer[2] == 0


def test_chunks_without_end_are_refused_at_the_limit():
    answer = ask(echo, [b"x" * 100] * 1000)
    assert refused(answer)
    assert answer[2] == 11


def test_a_length_that_lies():
    assert refused(ask(echo, [b"x" * 600] * 2, length=10))


def test_an_app_that_answers_before_it_reads_is_left_alone():
    async def hasty(scope, receive, send):
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body", "body": b""})
        await receive()
        await receive()

    assert ask(hasty, [b"x" * 800] * 3)[0] == 204


def test_django_drops_what_it_has():
    """Django's own handler, given an endless body, leaves without an answer of its own."""
    assert refused(ask(ASGIHandler(), [b"x" * 100] * 1000))


def test_other_protocols_pass():
    seen = []

    async def app(scope, receive, send):
        seen.append(scope["type"])

    asyncio.run(limit_body(app, LIMIT)({"type": "lifespan"}, None, None))
    assert seen == ["lifespan"]
