"""Guard before a server: it refuses web pages of others, names that are not the server's, and bodies without end.

A browser lets every page open sockets to every address, also of its own machine, and tells the page's origin. A
page whose name is made to lead here (DNS rebinding) has its own name as the host, so a host must be an address,
`localhost` or a name that the server has been told.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Awaitable, Callable, Collection, MutableMapping
from typing import Any
from urllib.parse import urlsplit

MAX_MESSAGE = 16 * 2**20
"""Most bytes of a message to a server, and of a request's body."""

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


class Guard:
    """An ASGI application around another, which it asks only for what may pass.

    Args:
        app: The application.
        names: Names of the server, beside its addresses and `localhost`.
    """

    def __init__(
        self, app: Callable[[Message, Receive, Send], Awaitable[None]], names: Collection[str] = ()
    ) -> None:
        self.app = app
        self.names = {"localhost", *(name.lower() for name in names)}

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        objection = self._objection(scope) if scope["type"] in ("http", "websocket") else None
        if objection is None:
            await self.app(scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008, "reason": objection[1]})
        else:
            status, text = objection
            kind = [(b"content-type", b"text/plain; charset=utf-8")]
            await send({"type": "http.response.start", "status": status, "headers": kind})
            await send({"type": "http.response.body", "body": text.encode()})

    def _objection(self, scope: Message) -> tuple[int, str] | None:
        """Return why a request may not pass, with the status; `None` if it may."""
        headers = {name.lower(): value.decode("latin-1") for name, value in scope["headers"]}
        host, origin = headers.get(b"host", ""), headers.get(b"origin")
        if not self._is_here(host):
            return 421, f"this server has no name {host!r:.100}: llm-decpomdp serve --name NAME"
        if origin is not None and urlsplit(origin).netloc.lower() != host.lower():
            return 403, "pages of other servers may not play here"
        if b"transfer-encoding" in headers:
            return 411, "a body must say its length"
        length = headers.get(b"content-length", "0")
        if not length.isdecimal() or int(length) > MAX_MESSAGE:
            return 413, f"a body may have {MAX_MESSAGE} bytes"
        return None

    def _is_here(self, host: str) -> bool:
        """Check that a host is an address, or a name of this server."""
        try:
            name = urlsplit(f"//{host}").hostname or ""
            return name in self.names or bool(ipaddress.ip_address(name))
        except ValueError:
            return False
