"""Rollout workers as Ray actors, on the nodes of a cluster.

Ray places the actors, and transports weights and rollouts. Batches and retries are those of `RolloutWorkerPool`,
as for processes of this machine.
"""

from __future__ import annotations

import logging
import os
import pickle
import secrets
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from llm_decpomdp.algorithms.rollout_workers.base import WorkerState
from llm_decpomdp.algorithms.rollout_workers.options import RolloutWorkerError
from llm_decpomdp.algorithms.rollout_workers.pool import (
    BatchFailure,
    BatchResult,
    MakeWorkerState,
    RolloutRequest,
    RolloutWorkerPool,
    WorkerHandle,
    WorkerReady,
    load_states,
    sample_batch,
)
from llm_decpomdp.policy import TrainablePolicy
from llm_decpomdp.utils.extras import install_command

if TYPE_CHECKING:
    from llm_decpomdp.agents.remote.sampler import RemoteSampler

# Earlier versions run code that web pages send (CVE-2025-62593), and have no tokens.
MIN_VERSION = (2, 52)
AUTH_MODE = "RAY_AUTH_MODE"
TOKEN_FILE = Path(".ray", "auth_token")  # where Ray looks for a token, in the home of the user

SHARED_VARIABLES = (
    "CUBLAS_WORKSPACE_CONFIG",
    "LLM_DECPOMDP_DATA",
    "OMP_NUM_THREADS",
    "TOKENIZERS_PARALLELISM",
    "HF_HOME",
    "HF_HUB_CACHE",
    "HF_HUB_OFFLINE",
)
"""Environment variables that are copied to actors; none of them is a key."""

PATIENCE = 60.0  # seconds without a message after which the cluster's resources are checked again

logger = logging.getLogger(__name__)


def connect(address: str | None = None, *, trusted_network: bool = False) -> Any:
    """Connect to a cluster, or start one on this machine; return the module `ray`.

    Args:
        address: Of the cluster's head, `auto` for the one of this machine, `None` for a new one of its own.
        trusted_network: Accept a cluster that requires no token: everyone who reaches it can run code on it.

    Raises:
        RolloutWorkerError: If Ray is missing or too old, or the token or the cluster is missing.
    """
    if address is None or (not trusted_network and find_token() is not None):
        os.environ.setdefault(AUTH_MODE, "token")
    loaded = "ray" in sys.modules
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
    if loaded:
        # Ray reads the mode as it is imported, but the processes that it starts read it from their environment.
        # A driver without tokens would wait for a cluster with tokens until it gives up.
        ray._raylet.Config.initialize("")
    if address is None and os.environ.get(AUTH_MODE) == "token" and find_token() is None:
        make_token()
    variables = {name: os.environ[name] for name in SHARED_VARIABLES if name in os.environ}
    settings: dict[str, Any] = {} if address else {"include_dashboard": False}
    try:
        ray.init(
            # Without an address Ray would join a cluster that happens to run on this machine.
            address=address or "local",
            log_to_driver=False,
            logging_level=logging.WARNING,
            runtime_env={"env_vars": variables},
            **settings,
        )
    except Exception as error:  # Ray raises many classes
        raise RolloutWorkerError(
            f"no Ray cluster at {address or 'this machine'}: {error}"
        ) from error
    return ray


def find_token() -> str | Path | None:
    """Return the token in the environment, or the file where Ray looks for one; `None` if there is none."""
    token = os.environ.get("RAY_AUTH_TOKEN")
    if token:
        return token
    path = Path(os.environ.get("RAY_AUTH_TOKEN_PATH") or Path.home() / TOKEN_FILE)
    return path if path.is_file() else None


def make_token() -> None:
    """Write a token for a cluster of this machine that only its user can read; Ray's own could be read by all."""
    path = Path(os.environ.get("RAY_AUTH_TOKEN_PATH") or Path.home() / TOKEN_FILE)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(secrets.token_hex(32))
    except OSError as error:
        if path.is_file():  # another run has just written it
            return
        raise RolloutWorkerError(
            f"a Ray cluster asks for a token, and {path} cannot be written ({error.strerror}): let "
            "RAY_AUTH_TOKEN_PATH name a file that can"
        ) from None


class RayActor:
    """Samples batches in a process that Ray has placed; `threads` of torch, as many as the learner has."""

    def __init__(self, make_state: bytes, threads: int) -> None:
        torch.set_num_threads(threads)
        self._make_state, self._version = make_state, 0
        self._state: WorkerState | None = None

    def ready(self) -> WorkerReady:
        """Say that Ray has placed this actor."""
        return WorkerReady()

    def run_batch(self, request: RolloutRequest) -> BatchResult | BatchFailure:
        """Sample a batch. Errors are returned, except those of Ray, after which another actor samples it."""
        import ray

        try:
            if self._state is None:
                self._state = pickle.loads(self._make_state)()
            if request.weights.weights is not None:
                version, (reference,) = request.weights.weights
                if version != self._version:
                    load_states(self._state.team, ray.get(reference))
                    self._version = version
            return sample_batch(request.batch, self._state, request.weights.servers)
        except ray.exceptions.RayError:  # such as weights that are lost with their node
            raise
        except Exception as error:
            return BatchFailure.from_error(error)


class RayRolloutWorkers(RolloutWorkerPool):
    """Samples batches in Ray actors; the batch of an actor or node that dies is sampled again by another.

    Args:
        make_state: Makes environments and team of an actor, as for `ProcessRolloutWorkers`. All nodes need the
            same package and data.
        workers: Number of actors, at least 1.
        max_retries: Maximum number of times that a batch is sampled again.
        samplers: As for `RolloutWorkerPool`; every node must reach the servers.
        address: As for `connect`; a cluster that is started here ends with the pool.
        trusted_network: As for `connect`.
        cpus: CPUs of a node that an actor takes.
        gpus: GPUs of a node that an actor takes.
    """

    def __init__(
        self,
        make_state: MakeWorkerState,
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
        self._make_state = pickle.dumps(make_state)
        self._needs = {"num_cpus": cpus, "num_gpus": gpus}
        self._connect = partial(connect, address, trusted_network=trusted_network)
        self._ray = self._connect()
        self._updates = 0
        try:
            self._capacity()  # an error before anything is sampled
        except RolloutWorkerError:
            self._ray.shutdown()
            raise

    def update_weights(self, policies: Mapping[str, TrainablePolicy], version: int) -> None:
        """Put new weights into the object store; raises the errors of `RolloutWorkerPool`."""
        if not self._ray.is_initialized():  # the pool was closed
            self._connect()
        super().update_weights(policies, version)

    def _store(self, policies: Mapping[str, TrainablePolicy], version: int) -> Any:
        self._updates += 1
        states = {name: policy.state_dict() for name, policy in policies.items()}
        # In a list, because Ray would resolve a bare reference for each call: so only a new version is
        # transported.
        return self._updates, [self._ray.put(states)]

    def _capacity(self) -> int:
        """Return how many actors the nodes can hold, at most `workers`; raise an error if none can."""
        needs = {"CPU": self._needs["num_cpus"], "GPU": self._needs["num_gpus"]}
        nodes = [node["Resources"] for node in self._ray.nodes() if node["Alive"]]
        room = [
            min([self.number, *(int(node.get(name, 0) // n) for name, n in needs.items() if n)])
            for node in nodes
        ]
        if not sum(room):
            resources = "; ".join(
                ", ".join(f"{node.get(name, 0):g} {name}s" for name in needs) for node in nodes
            )
            raise RolloutWorkerError(
                f"a rollout worker needs {needs['CPU']:g} CPUs and {needs['GPU']:g} GPUs of one node, and the "
                f"nodes have: {resources}"
            )
        return min(self.number, sum(room))

    def _start(self) -> RayActorHandle:
        # The pool starts actors itself. Ray's default strategy prefers nodes that are in use already.
        options = {**self._needs, "max_restarts": 0, "scheduling_strategy": "SPREAD"}
        actor = self._ray.remote(RayActor).options(**options)
        return RayActorHandle(self._ray, actor.remote(self._make_state, torch.get_num_threads()))

    def _wait(self) -> list[Any]:
        calls = {worker.call: worker for worker in self.workers if worker.call is not None}
        ready, _ = self._ray.wait(list(calls), num_returns=1, timeout=PATIENCE)
        if not ready and not any(worker.is_placed for worker in self.workers):
            self._capacity()
            logger.warning("the nodes of the cluster are busy: no rollout worker was placed yet")
        return [calls[call] for call in ready]

    def close(self) -> None:
        """End the actors, and the cluster if it was started here."""
        super().close()
        self._ray.shutdown()


class RayActorHandle(WorkerHandle):
    """An actor as its pool sees it."""

    def __init__(self, ray: Any, actor: Any) -> None:
        self._ray, self._actor = ray, actor
        self.is_placed = False
        self.call: Any = actor.ready.remote()
        """The call that it works on."""
        self._death = ""

    def assign(self, index: int, request: RolloutRequest) -> None:
        """Let the actor sample a batch."""
        self.index, self.request = index, request
        self.call = self._actor.run_batch.remote(request)

    def receive(self) -> WorkerReady | BatchResult | BatchFailure | None:
        """Return the newest message of the actor; `None` if it has died."""
        call, self.call = self.call, None
        try:
            message: WorkerReady | BatchResult | BatchFailure = self._ray.get(call)
        except self._ray.exceptions.RayError as error:
            self._death = str(error)
            return None
        self.is_placed = True
        return message

    def terminate(self) -> None:
        """Kill the actor."""
        self._ray.kill(self._actor)

    def end(self) -> str:
        """Make sure that the actor has ended, and return the cause as far as it is known."""
        self.terminate()
        return "the end of its actor"

    def log_tail(self) -> str:
        """Return what Ray reports about its death."""
        return self._death or "(it has written nothing)"
