"""ASGI: a body over the limit is answered with 413 before it is read to its end. Django itself would spool all of it first."""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Any, Any, Any], Awaitable[None]]  # Django, uvicorn and asgiref each have types of their own for these


def limit_body(app: App, limit: int = 1024 * 1024) -> App:
    """The app, for bodies of at most `limit` bytes: by Content-Length at once, else by counting what comes."""

    async def limited(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await app(scope, receive, send)
        if _announced(scope) > limit:
            return await _refuse(send)
        seen = 0
        too_much = answered = False

        async def counted() -> Message:
            nonlocal seen, too_much
            message = await receive()
            seen += len(message.get("body", b""))
            if seen > limit:
                too_much = True
                return {"type": "http.disconnect"}  # the app drops what it has and leaves
            return message

        async def watched(message: Message) -> None:
            nonlocal answered
            answered = True
            await send(message)

        await app(scope, counted, watched)
        if too_much and not answered:
            await _refuse(send)
        return None

    return limited


def _announced(scope: Scope) -> int:
    lengths = [value for name, value in scope["headers"] if name == b"content-length"]
    return int(lengths[0]) if lengths and lengths[0].isdigit() else 0


async def _refuse(send: Send) -> None:
    from inbox.http import errors, problems  # not above: the app is wrapped before Django is set up

    response = problems.from_error(errors.BodyTooLarge())
    assert response is not None
    headers = [
        (b"content-type", problems.CONTENT_TYPE.encode()),
        (b"content-length", str(len(response.content)).encode()),
    ]
    # The rest of the body is still under way, so this connection carries no further request.
    headers.append((b"connection", b"close"))
    await send({"type": "http.response.start", "status": response.status_code, "headers": headers})
    await send({"type": "http.response.body", "body": response.content})
