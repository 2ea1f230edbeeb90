"""Cache of verdicts; one that another caller is computing is waited for, not computed twice."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import Any

from llm_decpomdp.envs.sandbox.program import SandboxError

Verdict = dict[str, Any]


class Abandoned(Exception):
    """The caller that was computing a verdict was interrupted; another one has to."""


class VerdictCache:
    """Verdicts by a key of all that they depend on. Thread-safe."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Drop all entries, with a new lock: another thread may have held it when this process was forked."""
        self._lock = threading.Lock()
        self._futures: OrderedDict[str, Future[Verdict]] = OrderedDict()

    def results(
        self, keys: Sequence[str], size: int, compute: Callable[[list[str]], list[Verdict]]
    ) -> dict[str, Verdict]:
        """Return verdicts: those that are cached, those that other callers compute, and new ones.

        Args:
            keys: Keys of the verdicts.
            size: Maximum number of verdicts to cache; 0 to cache and share none.
            compute: Function that computes the verdicts with some keys, in their order.
        """
        results: dict[str, Verdict] = {}
        while missing := [key for key in dict.fromkeys(keys) if key not in results]:
            results |= self._results(missing, size, compute)
        return results

    def _results(
        self, keys: list[str], size: int, compute: Callable[[list[str]], list[Verdict]]
    ) -> dict[str, Verdict]:
        """Return verdicts; those that another caller abandoned are missing."""
        claimed: dict[str, Future[Verdict]] = {}
        error: BaseException | None = None
        try:
            futures = self._take(keys, size, claimed)
            computed = compute([*claimed]) if claimed else []
            for future, result in zip(claimed.values(), computed, strict=True):
                future.set_result(result)
            results = {}
            for key, future in futures.items():
                with suppress(Abandoned):
                    results[key] = future.result()
            return results
        except BaseException as raised:
            error = raised
            raise
        finally:
            self._release(claimed, error, size)

    def _take(
        self, keys: list[str], size: int, claimed: dict[str, Future[Verdict]]
    ) -> dict[str, Future[Verdict]]:
        """Claim verdicts that nobody has, in `claimed` before others see them: interrupts leave none unsettled."""
        futures = {}
        with self._lock:
            for key in keys:
                future = self._futures.get(key) if size else None
                if future is None:
                    future = claimed[key] = Future()
                    if size:
                        self._futures[key] = future
                else:
                    self._futures.move_to_end(key)
                futures[key] = future
        return futures

    def _release(
        self, claimed: dict[str, Future[Verdict]], error: BaseException | None, size: int
    ) -> None:
        """Fail unsettled claims for all that wait; drop irreproducible verdicts, and the oldest ones."""
        with self._lock:
            for key, future in claimed.items():
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
