"""Guard of a server: it refuses requests from other sites' pages, unknown host names, and too many requests.

A browser lets every page open sockets to every address, including its own machine, and sends the page's origin. A
page whose name was redirected to this machine (DNS rebinding) sends its own name as the host. So the host must be
an address, `localhost` or a configured name.
"""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Awaitable, Callable, Collection, MutableMapping
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

if TYPE_CHECKING:
    import uvicorn

MAX_MESSAGE = 16 * 2**20
"""Maximum number of bytes of a message of a session."""

MAX_BODY = 64 * 2**10
"""Maximum number of bytes of the body of a request. Episodes use sessions, not such requests."""

MAX_REQUESTS = 32
"""Maximum number of concurrent requests, besides sessions."""

HEADER_SECONDS = 10.0
"""Seconds after which a connection without a complete request is closed."""

BODY_SECONDS = 10.0
"""Maximum number of seconds until the body of a request is complete."""

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


class Guard:
    """An ASGI application that passes valid requests on to another one.

    Args:
        app: The application.
        names: Names of the server other than its addresses and `localhost`.
    """

    def __init__(
        self, app: Callable[[Message, Receive, Send], Awaitable[None]], names: Collection[str] = ()
    ) -> None:
        self.app = app
        self.names = {"localhost", *(name.lower() for name in names)}
        self.requests = 0

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Pass a request on or refuse it."""
        objection = self._objection(scope) if scope["type"] in ("http", "websocket") else None
        if scope["type"] == "websocket" and objection is not None:
            await send({"type": "websocket.close", "code": 1008, "reason": objection[1]})
        elif objection is not None:
            await _refuse(send, *objection)
        elif scope["type"] == "http":
            await self._answer(scope, receive, send)
        else:
            await self.app(scope, receive, send)

    async def _answer(self, scope: Message, receive: Receive, send: Send) -> None:
        """Answer a request if its whole body arrives in time."""
        if self.requests >= MAX_REQUESTS:
            await _refuse(send, 503, f"{MAX_REQUESTS} requests are being answered: try again later")
            return
        self.requests += 1
        try:
            messages = await asyncio.wait_for(_guarded_messages(receive), BODY_SECONDS)

            async def receive_again() -> Message:
                return messages.pop(0) if messages else await receive()

            await self.app(scope, receive_again, send)
        except asyncio.TimeoutError:  # another class than TimeoutError in Python 3.10
            await _refuse(
                send, 408, f"the body of a request must arrive within {BODY_SECONDS:g} seconds"
            )
        finally:
            self.requests -= 1

    def _objection(self, scope: Message) -> tuple[int, str] | None:
        """Return status and reason of a refusal, `None` for a valid request."""
        headers = {name.lower(): value.decode("latin-1") for name, value in scope["headers"]}
        host, origin = headers.get(b"host", ""), headers.get(b"origin")
        # DNS rebinding: the page's own name leads to this machine.
        if not self._is_here(host):
            return 421, f"this server has no name {host!r:.100}: llm-decpomdp serve --name NAME"
        # A page of another site; programs send no origin.
        if origin is not None and urlsplit(origin).netloc.lower() != host.lower():
            return 403, "pages of other servers may not play here"
        # A chunked body has no size that could be checked before reading.
        if b"transfer-encoding" in headers:
            return 411, "a body must say its length"
        length = headers.get(b"content-length", "0")
        if not length.isdecimal() or int(length) > MAX_BODY:
            return 413, f"the body of a request may have at most {MAX_BODY} bytes"
        return None

    def _is_here(self, host: str) -> bool:
        """Check that a host is an address or a name of this server."""
        try:
            name = urlsplit(f"//{host}").hostname or ""
            return name in self.names or bool(ipaddress.ip_address(name))
        except ValueError:
            return False


async def _refuse(send: Send, status: int, text: str) -> None:
    headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"connection", b"close")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": text.encode()})


async def _guarded_messages(receive: Receive) -> list[Message]:
    """Receive a request to the end of its body, which has at most `MAX_BODY` bytes."""
    messages = [await receive()]
    while messages[-1].get("more_body", False):
        messages.append(await receive())
    return messages


def make_server(application: Any, max_sessions: int, **options: Any) -> uvicorn.Server:
    """Return a server with `max_sessions` and `MAX_REQUESTS` connections, which closes silent ones."""
    import uvicorn
    from uvicorn.protocols.http.h11_impl import H11Protocol

    class ConnectionGuard(H11Protocol):  # type: ignore[misc]  # uvicorn is not installed where types are checked
        def connection_made(self, transport: asyncio.Transport) -> None:
            super().connection_made(transport)
            if len(self.connections) > max_sessions + MAX_REQUESTS:
                transport.close()
            self._watch()

        def _watch(self) -> None:
            """Close the connection if it sends no request; otherwise check again later."""
            if self.transport.is_closing() or self.transport.get_protocol() is not self:
                return  # closed, or the connection of a session
            if self._watched and (self.cycle is None or self.cycle.response_complete):
                self.transport.close()
            self._watched = True
            self.loop.call_later(HEADER_SECONDS, self._watch)

        _watched = False

    return uvicorn.Server(
        uvicorn.Config(application, http=ConnectionGuard, ws_max_size=MAX_MESSAGE, **options)
    )
