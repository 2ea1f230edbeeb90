"""HTTP servers on this machine."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Handler(BaseHTTPRequestHandler):
    """Handler that writes no log, and answers clients that may be gone."""

    def send(self, status: int, body: str | bytes, headers: Mapping[str, str]) -> None:
        """Answer the request; the body only if it asks for one."""
        try:
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body.encode() if isinstance(body, str) else body)
        except OSError:  # the client gave up waiting
            pass

    def log_message(self, format: str, *args: Any) -> None:
        """Write nothing."""


class Server(ThreadingHTTPServer):
    """Server at a free port; it runs inside of a `with` statement."""

    daemon_threads = True

    def __init__(self, handler: type[BaseHTTPRequestHandler], port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), handler)
        self.closing = threading.Event()
        """Set when the `with` statement ends, for handlers that wait."""

    @property
    def address(self) -> str:
        """URL without a path."""
        return f"http://127.0.0.1:{self.server_port}"

    def __enter__(self) -> Any:
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.closing.set()
        self.shutdown()
        self.server_close()
