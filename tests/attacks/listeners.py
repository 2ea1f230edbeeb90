"""Sockets on this host that a program may try to reach."""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path


class Listeners:
    """Sockets that wait for callers; the kernel keeps these waiting, so no thread needs to answer.

    Args:
        path: Of the Unix socket; the one for datagrams has `.datagram` appended, and on Linux there are abstract
            ones of both names.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        tcp = socket.create_server(("127.0.0.1", 0))
        udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        udp.bind(("127.0.0.1", 0))
        self._sockets = {"TCP": tcp, "UDP": udp}
        self.tcp_port: int = tcp.getsockname()[1]
        self.udp_port: int = udp.getsockname()[1]
        for prefix in ("", "\0") if sys.platform == "linux" else ("",):
            for kind, suffix in ((socket.SOCK_STREAM, ""), (socket.SOCK_DGRAM, ".datagram")):
                listener = socket.socket(socket.AF_UNIX, kind)
                listener.bind(f"{prefix}{path}{suffix}")
                if kind == socket.SOCK_STREAM:
                    listener.listen()
                self._sockets[f"{'abstract' if prefix else 'unix'} socket{suffix}"] = listener
        for name in ("", ".datagram"):  # for programs that run as another user
            os.chmod(f"{path}{name}", 0o777)
        for listener in self._sockets.values():
            listener.setblocking(False)

    def contacts(self) -> list[str]:
        """List the sockets that were reached since the last call."""
        contacts = []
        for name, listener in self._sockets.items():
            while True:
                try:
                    if listener.type == socket.SOCK_STREAM:
                        listener.accept()[0].close()
                    else:
                        listener.recv(4096)
                except BlockingIOError:
                    break
                contacts.append(f"contact by {name}")
        return list(dict.fromkeys(contacts))

    def close(self) -> None:
        for listener in self._sockets.values():
            listener.close()
