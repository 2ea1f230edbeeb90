"""Verdicts that are remembered, or that somebody is about to find."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any

from llm_decpomdp.envs.sandbox.program import SandboxError


class GivenUp(Exception):
    """Whoever was to find a verdict was interrupted: somebody else has to."""


class Claims:
    """The verdicts that one caller waits for: some to be found by itself, the rest by others."""

    def __init__(self, own: list[str], futures: dict[str, Future[dict[str, Any]]]) -> None:
        self.own = own
        self.futures = futures

    def settle(self, key: str, result: dict[str, Any]) -> None:
        """A verdict has been found."""
        self.futures[key].set_result(result)

    def results(self) -> dict[str, dict[str, Any]]:
        """The verdicts, without those that somebody has given up."""
        found = {}
        for key, future in self.futures.items():
            try:
                found[key] = future.result()
            except GivenUp:
                pass
        return found


class VerdictCache:
    """Verdicts by what they depend on. A verdict that somebody is working on is waited for."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Start anew, also if another thread held the lock when this process was forked."""
        self._lock = threading.Lock()
        self._futures: OrderedDict[str, Future[dict[str, Any]]] = OrderedDict()

    @contextmanager
    def claims(self, keys: list[str], size: int) -> Iterator[Claims]:
        """Claim verdicts; what is not settled at the end has failed, for all who wait for it.

        Args:
            keys: What the verdicts depend on.
            size: Most verdicts to remember; 0 to remember and share none.
        """
        claims = Claims([], {})
        error: BaseException | None = None
        try:
            self._take(claims, keys, size)
            yield claims
        except BaseException as raised:
            error = raised
            raise
        finally:
            self._release(claims, error, size)

    def _take(self, claims: Claims, keys: list[str], size: int) -> None:
        """Claim; noted before others can see it, so that an interrupt leaves nothing that is never settled."""
        with self._lock:
            for key in dict.fromkeys(keys):
                future = self._futures.get(key) if size else None
                if future is None:
                    future = claims.futures[key] = Future()
                    claims.own.append(key)
                    if size:
                        self._futures[key] = future
                else:
                    self._futures.move_to_end(key)
                    claims.futures[key] = future

    def _release(self, claims: Claims, error: BaseException | None, size: int) -> None:
        """Forget what was not found, or may be found otherwise next time, and the oldest verdicts."""
        with self._lock:
            for key in claims.own:
                future = claims.futures[key]
                if not future.done():
                    known = isinstance(error, SandboxError)
                    future.set_exception(error if error is not None and known else GivenUp())
                if future.exception() is not None or future.result()["wall_decided"]:
                    self._futures.pop(key, None)
            while size and len(self._futures) > size:
                self._futures.popitem(last=False)


CACHE = VerdictCache()
"""That of this process."""

if hasattr(os, "register_at_fork"):  # what others are working on will not come to a forked process
    os.register_at_fork(after_in_child=CACHE.forget)
