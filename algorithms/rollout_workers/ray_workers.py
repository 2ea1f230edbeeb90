"""A rollout worker of Ray actors, on the nodes of a cluster.

Ray places the actors, and carries weights and rollouts. What is played, and when it is played again, is decided
here as for workers of this machine: the batch of an actor that dies, with or without its node, is another's.
"""

from __future__ import annotations

import logging
import os
import pickle
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import torch

from llm_decpomdp.algorithms.rollout_workers.batches import WorkerState
from llm_decpomdp.algorithms.rollout_workers.options import RolloutWorkerError
from llm_decpomdp.algorithms.rollout_workers.pool import RolloutWorkerPool, WorkerHandle
from llm_decpomdp.algorithms.rollout_workers.worker_process import (
    BatchFailure,
    BatchResult,
    MakeWorkerState,
    RolloutRequest,
    WorkerReady,
    load_states,
    play,
)
from llm_decpomdp.policy import TrainablePolicy
from llm_decpomdp.utils.extras import install_command

if TYPE_CHECKING:
    from llm_decpomdp.agents.remote.sampler import RemoteSampler

MIN_VERSION = (2, 52)
"""Earlier versions run code that web pages send (CVE-2025-62593), and know no tokens."""

AUTH_MODE = "RAY_AUTH_MODE"

SHARED_VARIABLES = (
    *("LLM_DECPOMDP_DATA", "OMP_NUM_THREADS", "TOKENIZERS_PARALLELISM"),
    *("HF_HOME", "HF_HUB_CACHE", "HF_HUB_OFFLINE"),
)
"""Variables that actors get from the process that learns; no keys."""

PATIENCE = 60.0
"""Seconds after which the cluster is asked again whether it has room."""

logger = logging.getLogger(__name__)


def connect(address: str | None = None, *, trusted_network: bool = False) -> Any:
    """Connect to a cluster, or start one on this machine; return the module `ray`.

    Args:
        address: Of the cluster's head, `auto` for the one of this machine, `None` for a new one of its own.
        trusted_network: Whether a cluster that asks for no token will do: all who reach it may run code on it.

    Raises:
        RolloutWorkerError: If Ray is missing or too old, there is no token, or no cluster.
    """
    if address is None:
        os.environ.setdefault(AUTH_MODE, "token")  # Ray reads it as it is imported
    try:
        import ray
    except ImportError:
        raise RolloutWorkerError(f"this needs Ray: {install_command('cluster')}") from None
    if tuple(map(int, ray.__version__.split(".")[:2])) < MIN_VERSION:
        raise RolloutWorkerError(
            f"ray {ray.__version__} lets strangers run code: install 'ray>=2.52', on all nodes"
        )
    if os.environ.get(AUTH_MODE) != "token" and not trusted_network:
        raise RolloutWorkerError(
            f"whoever reaches a Ray cluster without tokens may run code on it. Start it with {AUTH_MODE}=token "
            "(`ray get-auth-token --generate` makes one) and set that here too, or say that all who reach it may: "
            "cluster.trusted_network=true, or --trusted-network"
        )
    variables = {name: os.environ[name] for name in SHARED_VARIABLES if name in os.environ}
    settings: dict[str, Any] = {} if address else {"include_dashboard": False}
    try:
        ray.init(
            address=address or "local",
            log_to_driver=False,
            logging_level=logging.WARNING,
            runtime_env={"env_vars": variables},
            **settings,
        )
    except Exception as error:  # as many kinds as reasons
        raise RolloutWorkerError(
            f"no Ray cluster at {address or 'this machine'}: {error}"
        ) from error
    return ray


class RayActor:
    """Plays batches in a process that Ray has placed.

    Args:
        build: A `Build`, pickled.
        threads: Threads of torch, as many as the learner has.
    """

    def __init__(self, build: bytes, threads: int) -> None:
        torch.set_num_threads(threads)
        self._build, self._version = build, 0
        self._site: WorkerState | None = None

    def ready(self) -> WorkerReady:
        """Say that Ray has placed this actor."""
        return WorkerReady()

    def play(self, order: RolloutRequest) -> BatchResult | BatchFailure:
        """Play a batch; errors come back as values, but those of Ray, after which another actor plays it."""
        import ray

        try:
            if self._site is None:
                self._site = pickle.loads(self._build)()
            if order.supply.weights is not None:
                version, (reference,) = order.supply.weights
                if version != self._version:
                    load_states(self._site.team, ray.get(reference))
                    self._version = version
            return play(order.batch, self._site, order.supply.servers)
        except ray.exceptions.RayError:  # such as weights that are lost with their node
            raise
        except Exception as error:
            return BatchFailure.of(error)


class RayRolloutWorkers(RolloutWorkerPool):
    """Plays batches in Ray actors; a batch whose actor or node dies is played again by another.

    Args:
        build: Makes environments and team of an actor, as for `ProcessRolloutWorkers`. All nodes need the same
            package and data.
        workers: Number of actors, at least 1.
        max_retries: Most times that a batch is played again.
        samplers: As of `RolloutWorkerPool`; the servers are where every node reaches them.
        address: As of `connect`; a cluster that is started here ends with the rollout worker.
        trusted_network: As of `connect`.
        cpus: CPUs of a node that an actor takes.
        gpus: GPUs of a node that an actor takes.
    """

    def __init__(
        self,
        build: MakeWorkerState,
        workers: int,
        max_retries: int = 3,
        samplers: Mapping[str, RemoteSampler] | None = None,
        *,
        address: str | None = None,
        trusted_network: bool = False,
        cpus: float = 1.0,
        gpus: float = 0.0,
    ) -> None:
        super().__init__(workers, max_retries, samplers)
        self._build = pickle.dumps(build)
        self._needs = {"num_cpus": cpus, "num_gpus": gpus}
        self._connect = partial(connect, address, trusted_network=trusted_network)
        self._ray = self._connect()
        self._publications = 0
        try:
            self._room()  # says at once what is missing
        except RolloutWorkerError:
            self._ray.shutdown()
            raise

    def update_weights(self, policies: Mapping[str, TrainablePolicy], version: int) -> None:
        """Put new weights where every node finds them; errors as of `RolloutWorkerPool`."""
        if not self._ray.is_initialized():  # the rollout worker was closed
            self._connect()
        super().update_weights(policies, version)

    def _store(self, policies: Mapping[str, TrainablePolicy], version: int) -> Any:
        self._publications += 1
        states = {name: policy.state_dict() for name, policy in policies.items()}
        # In a list, so that Ray brings it to those that ask, not to each call.
        return self._publications, [self._ray.put(states)]

    def _room(self) -> int:
        """Return how many actors the nodes can hold, at most as many as are wanted.

        Raises:
            RolloutWorkerError: If no node can hold one.
        """
        needs = {"CPU": self._needs["num_cpus"], "GPU": self._needs["num_gpus"]}
        nodes = [node["Resources"] for node in self._ray.nodes() if node["Alive"]]
        room = [
            min([self.number, *(int(node.get(name, 0) // n) for name, n in needs.items() if n)])
            for node in nodes
        ]
        if not sum(room):
            supply = "; ".join(
                ", ".join(f"{node.get(name, 0):g} {name}s" for name in needs) for node in nodes
            )
            raise RolloutWorkerError(
                f"a rollout worker needs {needs['CPU']:g} CPUs and {needs['GPU']:g} GPUs of one node, and the "
                f"nodes have: {supply}"
            )
        return min(self.number, sum(room))

    def _start(self) -> RayActorHandle:
        options = {**self._needs, "max_restarts": 0, "scheduling_strategy": "SPREAD"}
        actor = self._ray.remote(RayActor).options(**options)
        return RayActorHandle(self._ray, actor.remote(self._build, torch.get_num_threads()))

    def _speaking(self) -> list[Any]:
        calls = {worker.call: worker for worker in self.workers if worker.call is not None}
        ready, _ = self._ray.wait(list(calls), num_returns=1, timeout=PATIENCE)
        if not ready and not any(worker.placed for worker in self.workers):
            self._room()
            logger.warning("the nodes of the cluster are busy: no rollout worker was placed yet")
        return [calls[call] for call in ready]

    def close(self) -> None:
        """End the actors, and the cluster if it was started here."""
        super().close()
        self._ray.shutdown()


class RayActorHandle(WorkerHandle):
    """An actor as its pool sees it.

    Args:
        ray: The module.
        actor: Its handle.
    """

    def __init__(self, ray: Any, actor: Any) -> None:
        self._ray, self._actor = ray, actor
        self.placed = False
        self.call: Any = actor.ready.remote()
        """What it is asked."""
        self._death = ""

    def give(self, place: int, order: RolloutRequest) -> None:
        """Let the actor play a batch."""
        self.place, self.order = place, order
        self.call = self._actor.play.remote(order)

    def receive(self) -> WorkerReady | BatchResult | BatchFailure | None:
        """Return what the actor says; `None` if it has died."""
        call, self.call = self.call, None
        try:
            message: WorkerReady | BatchResult | BatchFailure = self._ray.get(call)
        except self._ray.exceptions.RayError as error:
            self._death = str(error)
            return None
        self.placed = True
        return message

    def terminate(self) -> None:
        """Kill the actor."""
        self._ray.kill(self._actor)

    def end(self) -> str:
        """Make sure that the actor has ended, and return how, as far as it was told."""
        self.terminate()
        return "the end of its actor"

    def last_lines(self) -> str:
        """Return what Ray says of its death."""
        return self._death or "(it has said nothing)"
