"""Servers of OpenEnv and sessions with them; import it where OpenEnv is installed."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from openenv.core import GenericEnvClient

from llm_decpomdp.agents import Constant
from llm_decpomdp.integrations import openenv as adapter
from llm_decpomdp.integrations.openenv.guard import make_server

CODE = {"source": "bundled", "num_turns": 2}

SEAT = {"seat": "player_0", "partners": {"player_1": Constant("a")}}


@contextmanager
def served(*arguments: Any, **options: Any) -> Iterator[str]:
    """The address of a server in a thread."""
    application = adapter.app(*arguments, **options)
    server = make_server(application, options.get("max_sessions", 64), port=0, log_level="error")
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(10)


def session(address: str) -> Any:
    return GenericEnvClient(base_url=address).sync()


def when_free(play: Callable[[], Any]) -> Any:
    """Play when the place of a session that has left is free."""
    for _ in range(50):
        try:
            return play()
        except Exception:  # of the client's own kinds, as long as the server is full
            time.sleep(0.1)
    raise TimeoutError
