"""Cache of verdicts; one that another caller is computing is waited for, not computed twice."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any

from llm_decpomdp.envs.sandbox.program import SandboxError


class Abandoned(Exception):
    """The caller that was computing a verdict was interrupted; another one has to."""


class Claims:
    """Verdicts that one caller needs: some claimed by it, the rest computed by other callers."""

    def __init__(self, to_compute: list[str], futures: dict[str, Future[dict[str, Any]]]) -> None:
        self.to_compute = to_compute
        self.futures = futures

    def settle(self, key: str, result: dict[str, Any]) -> None:
        """Set a verdict that this caller claimed."""
        self.futures[key].set_result(result)

    def results(self) -> dict[str, dict[str, Any]]:
        """Wait for the verdicts; those that another caller abandoned are missing."""
        results = {}
        for key, future in self.futures.items():
            try:
                results[key] = future.result()
            except Abandoned:
                pass
        return results


class VerdictCache:
    """Verdicts by a key of all that they depend on. Thread-safe."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Drop all entries, with a new lock: another thread may have held it when this process was forked."""
        self._lock = threading.Lock()
        self._futures: OrderedDict[str, Future[dict[str, Any]]] = OrderedDict()

    @contextmanager
    def claims(self, keys: list[str], size: int) -> Iterator[Claims]:
        """Claim verdicts; those not settled at the end fail for all callers that wait for them.

        Args:
            keys: Keys of the verdicts.
            size: Maximum number of verdicts to cache; 0 to cache and share none.
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
        """Claim keys; `claims` holds a future before others see it, so that an interrupt leaves none unsettled."""
        with self._lock:
            for key in dict.fromkeys(keys):
                future = self._futures.get(key) if size else None
                if future is None:
                    future = claims.futures[key] = Future()
                    claims.to_compute.append(key)
                    if size:
                        self._futures[key] = future
                else:
                    self._futures.move_to_end(key)
                    claims.futures[key] = future

    def _release(self, claims: Claims, error: BaseException | None, size: int) -> None:
        """Drop verdicts that failed or are not reproducible, and the oldest ones."""
        with self._lock:
            for key in claims.to_compute:
                future = claims.futures[key]
                if not future.done():
                    future.set_exception(error if isinstance(error, SandboxError) else Abandoned())
                if future.exception() is not None or future.result()["wall_decided"]:
                    self._futures.pop(key, None)
            while size and len(self._futures) > size:
                self._futures.popitem(last=False)


CACHE = VerdictCache()
"""The cache of this process."""

if hasattr(os, "register_at_fork"):  # pending verdicts never arrive in a forked process
    os.register_at_fork(after_in_child=CACHE.reset)
