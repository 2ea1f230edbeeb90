"""Cache of results: equal programs are graded once."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress

from llm_decpomdp.envs.sandbox.program import SandboxError, WorkerResult


class CacheWaitCancelled(Exception):
    """The thread that computed this result was interrupted, so another thread has to compute it."""


class ResultCache:
    """Results by a hash of everything that they depend on. Thread-safe.

    A result that another thread is computing is waited for, not computed twice: samples of one prompt are often
    equal.
    """

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Drop all entries and the lock, which another thread may have held when this process was forked."""
        self._lock = threading.Lock()
        self._futures: OrderedDict[str, Future[WorkerResult]] = OrderedDict()

    def results(
        self, keys: Sequence[str], size: int, compute: Callable[[list[str]], list[WorkerResult]]
    ) -> dict[str, WorkerResult]:
        """Return results: cached ones, ones that other threads compute, and new ones.

        At most `size` are cached; 0 to cache and share none. `compute` gives the results of keys in their order.
        """
        results: dict[str, WorkerResult] = {}
        while missing := [key for key in dict.fromkeys(keys) if key not in results]:
            claimed: dict[str, Future[WorkerResult]] = {}
            failure: Exception = CacheWaitCancelled()
            try:
                with self._lock:
                    futures = {key: self._find(key, size, claimed) for key in missing}
                computed = compute([*claimed]) if claimed else []
                for future, result in zip(claimed.values(), computed, strict=True):
                    future.set_result(result)
                for key, future in futures.items():
                    with suppress(CacheWaitCancelled):  # computed in the next round
                        results[key] = future.result()
            except SandboxError as error:
                failure = error
                raise
            finally:
                self._release(claimed, failure, size)
        return results

    def _find(
        self, key: str, size: int, claimed: dict[str, Future[WorkerResult]]
    ) -> Future[WorkerResult]:
        """Return the future of a key; a new one is also added to `claimed`, for this thread to compute."""
        if size and key in self._futures:
            self._futures.move_to_end(key)
            return self._futures[key]
        # `claimed` first: if an interrupt comes between these lines, the claim is still released.
        future = claimed[key] = Future()
        if size:
            self._futures[key] = future
        return future

    def _release(
        self, claimed: dict[str, Future[WorkerResult]], failure: Exception, size: int
    ) -> None:
        """Fail the claims without a result, and drop failed, irreproducible and the oldest results."""
        with self._lock:
            for key, future in claimed.items():
                if not future.done():
                    future.set_exception(failure)
                # A result that depended on the load of the machine may differ next time.
                if future.exception() is not None or future.result()["wall_decided"]:
                    self._futures.pop(key, None)
            while size and len(self._futures) > size:
                self._futures.popitem(last=False)


CACHE = ResultCache()  # the cache of this process

if hasattr(os, "register_at_fork"):  # pending results never arrive in a forked process
    os.register_at_fork(after_in_child=CACHE.reset)
