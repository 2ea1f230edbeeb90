"""Rollout workers whose completions continue under new weights (partial rollouts).

The pool announces each publication to the workers that sample. A worker looks for announcements before each token
and loads the weights of the newest (`agents/inference/in_flight.py`). A policy without an engine, such as one of a
user, and a policy that is sampled by another method than `agents.inference.sampler.sample`, gets them with its
next batch or its next prompts.

The tokens depend on the time at which weights arrive, so equal seeds give no equal bytes.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from threading import Lock
from typing import Any

import torch

from llm_decpomdp.agents.inference.in_flight import use_newer_weights
from llm_decpomdp.algorithms.rollout_workers.base import WorkerState
from llm_decpomdp.algorithms.rollout_workers.pool import (
    RolloutRequest,
    WeightUpdate,
    load_states,
    sample_batch,
)
from llm_decpomdp.algorithms.rollout_workers.process_workers import (
    ProcessHandle,
    ProcessRolloutWorkers,
    WorkerSetup,
)
from llm_decpomdp.policy import (
    Policy,
    TrainablePolicy,
    distinct_policies,
    policy_attribute,
    shared_engine,
)

POLL = 0.01  # seconds between two looks for an announcement that is on its way


class InFlightWorkers(ProcessRolloutWorkers):
    """Process workers whose batches may be prefetched for several updates, and continue under new weights.

    Arguments are those of `ProcessRolloutWorkers`.
    """

    def update_weights(self, policies: Mapping[str, TrainablePolicy], version: int) -> None:
        """Give workers and servers new weights, also for the completions that are being written."""
        super().update_weights(policies, version)
        for worker in self.workers:
            if worker.index is not None:
                worker.announce(self._weights)

    def _launch(self, log: Path, setup: WorkerSetup) -> ProcessHandle:
        return InFlightHandle(log, setup._replace(serve=serve_in_flight))


class InFlightHandle(ProcessHandle):
    """A worker process to which new weights are announced while it samples."""

    def announce(self, weights: WeightUpdate) -> None:
        """Tell the worker of new weights; a request that was not sent yet names them."""
        assert self.request is not None, "a worker with a batch has a request"
        # Also where it was sent: a batch whose server is lost is compared with the newest weights.
        self.request = self.request._replace(weights=weights)
        if self._sent:
            with suppress(OSError):  # it has just died, which `receive` reports
                self.connection.send(weights)


def serve_in_flight(connection: Connection, state: WorkerState) -> None:
    """Sample the batches of requests, and take announced weights in between, until the other end closes."""
    announced = Announcements(connection)
    engines: dict[int, dict[str, Policy]] = {}
    for name, policy in distinct_policies(state.team).items():
        engines.setdefault(id(shared_engine(policy) or policy), {})[name] = policy
    models = [AnnouncedWeights(policies, announced) for policies in engines.values()]
    while True:
        message = connection.recv()
        if isinstance(message, WeightUpdate):  # for a batch that has just ended
            continue
        batch, announced.newest = message
        for model in models:
            if model.arrived():
                model.load()
        connection.send(sample_batch(batch, state, announced.newest.servers))


class Announcements:
    """The newest weights that a worker has heard of; threads of several engines may ask."""

    def __init__(self, connection: Connection) -> None:
        self._connection, self._lock = connection, Lock()
        self.newest = WeightUpdate(None, {})

    def look(self) -> WeightUpdate:
        """Return the newest weights; raises an `EOFError` if the pool was closed."""
        with self._lock:
            while self._connection.poll():
                message: WeightUpdate | RolloutRequest = self._connection.recv()
                assert isinstance(message, WeightUpdate), "a busy worker gets no request"
                self.newest = message
            return self.newest


class AnnouncedWeights:
    """Weights of the policies of one engine, or of one policy without an engine (`NewerWeights`).

    Each engine loads its own, because engines on several devices sample in threads. An engine takes weights while
    it samples once it has loaded some: the engine of a frozen partner, or of a server, keeps all of its options.
    """

    def __init__(self, policies: Mapping[str, Policy], announced: Announcements) -> None:
        self._policies, self._announced = policies, announced
        self._loaded = WeightUpdate(None, {})

    @property
    def version(self) -> int:
        """Version of the loaded weights; 0 before the first."""
        return self._loaded.version

    def arrived(self) -> bool:
        """Check whether there are other weights than the loaded ones."""
        newest = self._announced.look()
        return newest.weights is not None and newest.weights != self._loaded.weights

    def load(self) -> None:
        """Load the newest weights; random streams of an engine's policies go on.

        Raises:
            ValueError: If the engine has options with which it cannot take weights while it samples.
        """
        newest, states = self._read()
        own = {name: state for name, state in states.items() if name in self._policies}
        loads = {name: policy_attribute(self._policies[name], "load_weights") for name in own}
        engine: Any = shared_engine(next(iter(self._policies.values())))
        if all(loads.values()) and hasattr(engine, "sample_in_flight"):
            if own:
                use_newer_weights(engine, self)
            for name, state in own.items():
                loads[name](state)
        else:
            load_states(self._policies, own)
        self._loaded = newest

    def _read(self) -> tuple[WeightUpdate, Mapping[str, Any]]:
        while True:
            newest = self._announced.look()
            try:
                return newest, torch.load(newest.weights, map_location="cpu", weights_only=True)
            except FileNotFoundError:  # there are newer ones, whose announcement is on its way
                time.sleep(POLL)
