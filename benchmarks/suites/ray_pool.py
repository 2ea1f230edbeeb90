"""The jobs of a suite on the nodes of a Ray cluster, which share its folder."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from llm_decpomdp.algorithms.rollout_workers.options import RolloutWorkerError
from llm_decpomdp.algorithms.rollout_workers.ray_workers import connect
from llm_decpomdp.algorithms.training.interruption import terminable
from llm_decpomdp.benchmarks.suites.job import FAILED, Job
from llm_decpomdp.benchmarks.suites.pool import (
    ASK_AGAIN_SECONDS,
    POLL_SECONDS,
    Changed,
    command,
    variables,
)

MAX_RETRIES = 2
"""Times that a job is begun again because its node or process has died; it goes on from what it has saved."""


class RayPool:
    """Runs jobs as tasks of Ray, each in a process of its own on a node with room for it.

    Args:
        address: Of the cluster, as of `connect`.
        trusted_network: As of `connect`.
        changed: Called again and again.

    Raises:
        RolloutWorkerError: If there is no such cluster, or it asks for no token.
    """

    def __init__(self, address: str | None, trusted_network: bool, changed: Changed) -> None:
        self._ray = connect(address, trusted_network=trusted_network)
        self._changed = changed

    def run(self, jobs: Sequence[Job]) -> None:
        """Run all jobs.

        Raises:
            KeyboardInterrupt: On Ctrl-C and SIGTERM, after all jobs have saved what they have and ended.
        """
        calls: dict[Any, Job] = {}
        with terminable():
            try:
                largest = self._largest(jobs)
                for job in jobs:
                    calls[self._call(job, largest)] = job
                while calls:
                    self._collect(calls)
            except KeyboardInterrupt:
                while calls:
                    for call in calls:
                        self._ray.cancel(call)
                    ended, _ = self._ray.wait(
                        list(calls), num_returns=len(calls), timeout=ASK_AGAIN_SECONDS
                    )
                    for call in ended:
                        del calls[call]
                raise
            finally:
                self._ray.shutdown()

    def _largest(self, jobs: Sequence[Job]) -> int:
        """Return the number of CPUs of the largest node.

        Raises:
            RolloutWorkerError: If no node has room for a job.
        """
        nodes = [node["Resources"] for node in self._ray.nodes() if node["Alive"]]
        largest = int(max(node.get("CPU", 0) for node in nodes))
        for job in jobs:
            cores, gpus = job.cell.cores or largest, job.cell.gpus
            if not any(n.get("CPU", 0) >= cores and n.get("GPU", 0) >= gpus for n in nodes):
                raise RolloutWorkerError(
                    f"cell {job.cell.name} needs {cores} cores and {gpus:g} GPUs, and no node of the cluster has "
                    "both: set its cores and gpus"
                )
        return largest

    def _call(self, job: Job, largest: int) -> Any:
        job.write()
        cores = job.cell.cores or largest
        options = {"num_cpus": cores, "num_gpus": job.cell.gpus, "max_retries": MAX_RETRIES}
        return self._ray.remote(do).options(**options).remote(job.folder.absolute(), cores)

    def _collect(self, calls: dict[Any, Job]) -> None:
        """Report jobs that have ended, and the progress of the others."""
        ready, _ = self._ray.wait(list(calls), timeout=POLL_SECONDS)
        for call in ready:
            job = calls.pop(call)
            reason = ""
            try:
                reason = f"exit code {self._ray.get(call)}"
            except self._ray.exceptions.RayError as error:
                reason = str(error)
            if not job.status():
                log = f"{job.folder / 'log.txt'} has what it said"
                job.end(FAILED, error=f"The process ended without a traceback: {reason}; {log}")
            self._changed(_begun(calls), job)
        self._changed(_begun(calls), None)


def _begun(calls: dict[Any, Job]) -> list[Job]:
    return [job for job in calls.values() if (job.folder / "log.txt").exists()]


def do(folder: Path, cores: int) -> int:
    """Do the job of a folder, in a process that ends with this one, and return its exit code."""
    with (folder / "log.txt").open("ab") as log:
        process = subprocess.Popen(
            command(folder),
            stdin=subprocess.PIPE,  # ends when this process does
            stdout=log,
            stderr=subprocess.STDOUT,
            env=variables(cores),
            start_new_session=True,
        )
        try:
            while process.poll() is None:
                time.sleep(POLL_SECONDS)  # so that a cancelled task hears of it
        finally:
            while process.poll() is None:
                process.terminate()
                with suppress(subprocess.TimeoutExpired):
                    process.wait(ASK_AGAIN_SECONDS)
    return process.returncode
