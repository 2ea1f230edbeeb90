"""Interface of the sandbox: programs in, results out. Equal programs are graded once and cached."""

from __future__ import annotations

import atexit
import copy
import hashlib
import marshal
import os
import sys
import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import Any

from llm_decpomdp.envs.sandbox.pool import WorkerPool, close_all, shared_pool
from llm_decpomdp.envs.sandbox.program import (
    TESTS_SHARE,
    Execution,
    Limits,
    Outcome,
    Program,
    SandboxError,
    Tests,
    WorkerResult,
)
from llm_decpomdp.envs.sandbox.syntax import methods
from llm_decpomdp.envs.sandbox.worker_process import WorkerSettings, package_paths
from llm_decpomdp.utils.text import warn

VERSION = 4
"""Incremented by every change that can change a result; part of the key of each cached result."""

LAYERS = ("namespaces", "landlock", "seccomp")  # layers of protection that can be left off

# Namespaces are not required: in the attack corpus, Landlock and seccomp together stop as much, and many
# containers forbid user namespaces.
REQUIRED = ("no new privileges", "landlock", "seccomp", "limits")
"""Layers that `isolation="require"` requires. With these, no program reads or changes data of others."""

ISOLATION = ("best_effort", "require")


class Sandbox:
    """Runs untrusted programs against tests. Thread-safe, cheap to make, and picklable.

    All sandboxes of a process with equal settings share their workers. Workers start when they are first needed,
    and end when the process ends, also if it is killed.

    Args:
        limits: Resource limits of each program.
        workers: Programs that run at the same time; by default one for each core that this process may use.
        isolation: `best_effort` warns once about layers of protection that this system lacks. `require` raises
            `SandboxError` if a layer of `REQUIRED` is missing.
        without: Layers of `LAYERS` to leave off, for tests and measurements.
        cache_size: Maximum number of cached results. 0 runs equal programs again.
        seed: Seed of string hashes and of `random` in the programs. Two seeds show which results depend on
            chance.
        packages: Installed top-level modules that programs may import in addition to the standard library, such as
            `numpy`, with their requirements. Their code is trusted.

    Raises:
        ValueError: If an argument has a bad value.
    """

    def __init__(
        self,
        limits: Limits | None = None,
        workers: int | None = None,
        isolation: str = "best_effort",
        without: Collection[str] = (),
        cache_size: int = 4096,
        seed: int = 0,
        packages: Collection[str] = (),
    ) -> None:
        if workers is not None and workers < 1:
            raise ValueError(f"workers must be at least 1, got {workers}")
        if isolation not in ISOLATION:
            raise ValueError(f"isolation must be one of {', '.join(ISOLATION)}, got {isolation!r}")
        if unknown := set(without) - set(LAYERS):
            raise ValueError(f"unknown layers {sorted(unknown)}; there are {', '.join(LAYERS)}")
        self.limits = limits or Limits()
        self.workers = workers or available_cores()
        self.isolation = isolation
        self.without = tuple(sorted(set(without)))
        self.cache_size = cache_size
        self.seed = seed
        self._set_packages(packages)

    def _set_packages(self, packages: Collection[str]) -> None:
        # Sorted, so that equal settings share a pool and cached results whatever their order.
        self.packages = tuple(sorted(set(packages)))
        package_paths(self.packages)

    def copy_with_packages(self, packages: Collection[str]) -> Sandbox:
        """Return a sandbox with the same settings whose programs may import these packages."""
        sandbox = copy.copy(self)
        sandbox._set_packages(packages)
        return sandbox

    def run(self, program: Program, tests: Tests, limits: Limits | None = None) -> Execution:
        """Run one program against its tests; see `run_batch`."""
        return self.run_batch([(program, tests)], limits)[0]

    def run_batch(
        self, jobs: Sequence[tuple[Program, Tests]], limits: Limits | None = None
    ) -> list[Execution]:
        """Run programs in parallel on the workers. Equal programs run once.

        A job is sent to a worker as the dictionary of `_job`. It comes back as a `WorkerResult`, which becomes an
        `Execution` field by field. `pool.py` and `worker_process.py` transport the two, and send a job again if
        its worker dies. They decide in one case only: if the program's values crash or block the process of the
        test. Then all tests fail as `crashed` or `timeout`. In a run that only checks helpers, the outcomes of
        the tests count instead, and each called helper counts as used.

        If a call hangs or ends its process, only that call fails. The program is started again for the later
        calls, at most `max_timeouts` times.

        Returns:
            The execution of each job, in the order of `jobs`.

        Raises:
            SandboxError: If the sandbox itself fails. A program cannot cause it.
        """
        limits = limits or self.limits
        messages = [_job(program, tests, limits) for program, tests in jobs]
        keys = [self._key(message) for message in messages]
        by_key = dict(zip(keys, messages, strict=True))

        def compute(missing: list[str]) -> list[WorkerResult]:
            return self._pool().run([by_key[key] for key in missing])

        results = CACHE.results(keys, self.cache_size, compute)
        return [_execution(results[key], tests) for key, (_, tests) in zip(keys, jobs, strict=True)]

    def layers(self) -> dict[str, str]:
        """Return the reason why each layer of protection is off here; empty if it is on."""
        return self._pool().layers()

    def close(self) -> None:
        """End the workers. They start again when they are needed."""
        self._shared_pool().close()

    def _shared_pool(self) -> WorkerPool:
        # Windows has neither fork nor descriptors that are passed over sockets.
        if sys.platform == "win32":
            raise SandboxError("the sandbox needs Linux or macOS: on Windows, use WSL")
        require = REQUIRED if self.isolation == "require" else ()
        settings = WorkerSettings(self.without, require, self.seed, package_paths(self.packages))
        return shared_pool(self.workers, settings)

    def _pool(self) -> WorkerPool:
        pool = self._shared_pool()
        # Layers that are left off on purpose need no warning.
        if self.isolation == "best_effort" and not self.without and not pool.warned:
            pool.warned = True
            missing = {name: reason for name, reason in pool.layers().items() if reason}
            if missing and tuple(missing) not in _WARNED:
                _WARNED.add(tuple(missing))
                listed = "; ".join(f"{name} ({reason})" for name, reason in missing.items())
                warn(
                    f"the sandbox runs without {listed}. See `llm-decpomdp doctor` and docs/security.md; "
                    "isolation='require' refuses to run like this",
                    RuntimeWarning,
                )
        return pool

    def _key(self, job: dict[str, Any]) -> str:
        settings = [VERSION, list(self.without), self.isolation, self.seed, list(self.packages)]
        # Version 0 of marshal writes equal values as equal bytes; later ones also write which objects are shared.
        return hashlib.sha256(marshal.dumps([settings, job], 0)).hexdigest()


def available_cores() -> int:
    """Return the number of cores that this process may use."""
    # A container or a scheduler may allow fewer cores than the machine has.
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


TESTS_SENT = (
    "split prefetch shown stages num_stages stage_reads stage_writes judges_result minimum".split()
)
"""Fields of `Tests` that a worker gets as they are."""


def _job(program: Program, tests: Tests, limits: Limits) -> dict[str, Any]:
    """Return the message to a worker, equal for equal arguments."""
    segments = [["prompt", program.preamble]] if program.preamble else []
    return {
        "segments": [*segments, *map(list, program.segments)],
        "preamble": program.preamble,
        "entry_point": program.entry_point,
        "helpers": [list(helper) for helper in program.helpers],
        "check_helpers": bool(program.helpers),
        "substitute": bool(program.helpers) and program.substitute,
        "divide": bool(program.helpers) and program.divide,
        "tests": tests.source,
        **{name: getattr(tests, name) for name in TESTS_SENT},
        "methods": sorted(tests.methods | methods(program.preamble)),
        "guards": sorted(tests.guards),
        "limits": vars(limits),
        "tests_seconds": limits.job_seconds * (TESTS_SHARE if program.helpers else 1),
    }


def _execution(result: WorkerResult, tests: Tests) -> Execution:
    error = result["error"]
    cases = zip(tests.cases, result["tests"], strict=True)
    return Execution(
        tests=tuple(Outcome(case, *outcome) for case, outcome in cases),
        error=Outcome("", *error) if error is not None else None,
        output=result["output"],
        seconds=result["seconds"],
        helper_calls=tuple(result["helper_calls"]),
        helpers_used=tuple(result["helpers_used"]),
        helpers_suffice=tuple(result["helpers_suffice"]),
        main_adds=tuple(result["main_adds"]),
        helpers_add=tuple(map(tuple, result["helpers_add"])),
        reached=tuple(result["reached"]),
        wall_decided=result["wall_decided"],
    )


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

_WARNED: set[tuple[str, ...]] = set()  # missing layers of which this process has warned

# Workers end with their socket anyway; here they end before the interpreter closes what they need.
atexit.register(close_all)
