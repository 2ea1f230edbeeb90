"""A worker: the process that plays batches for a rollout worker, with environments and a team of its own."""

from __future__ import annotations

import faulthandler
import os
import pickle
import shutil
import signal
import threading
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from multiprocessing import parent_process
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from llm_decpomdp.algorithms.rollout_workers.batches import RolloutBatch, WorkerState
from llm_decpomdp.algorithms.rollouts.rollout import Rollout
from llm_decpomdp.algorithms.rollouts.sampling import Timer, distinct_policies
from llm_decpomdp.policy import EnginePolicy, Stateful, Team

if TYPE_CHECKING:
    from llm_decpomdp.agents.remote.served_weights import ServedWeights

MakeWorkerState = Callable[[], WorkerState]
"""Makes the state of a worker. It can be pickled: a function of a module, or `functools.partial` of one."""


@dataclass(frozen=True)
class WorkerSetup:
    """What a worker begins with."""

    build: bytes
    """A `Build`, pickled."""
    threads: int
    """Threads of torch, as many as the learner has: sums of several threads may differ in their last digits."""
    device: int | None
    """The CUDA device of the process that learns, if there are any."""


class WeightUpdate(NamedTuple):
    """The weights to play with, as they were published."""

    weights: Any
    """Where those are that workers load, by the kind of rollout worker; `None` where there are none."""
    servers: Mapping[str, ServedWeights]
    """What sampling at a server needs, by agent."""


class RolloutRequest(NamedTuple):
    """A batch to play."""

    batch: RolloutBatch
    supply: WeightUpdate


class WorkerReady(NamedTuple):
    """A worker has built its state, and can be given orders."""


class BatchResult(NamedTuple):
    """A batch was played."""

    rollouts: list[Rollout]
    seconds: dict[str, float]
    """Spent by activity."""


class BatchFailure(NamedTuple):
    """The state could not be built, or a batch cannot be played: whoever tries, or while a server is lost."""

    error: BaseException
    cause: BaseException | None

    @classmethod
    def of(cls, error: BaseException) -> BatchFailure:
        """Return an error in a form that can be sent."""
        return cls(_portable(error), error.__cause__ and _portable(error.__cause__))


def work(log: Path, connection: Connection) -> None:
    """Receive a `Setup`, then play the batches that come in, until the other end is closed or the parent ends.

    Args:
        log: File that takes whatever the worker says.
        connection: Its end of the connection to the rollout worker.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends Ctrl-C to workers too
    _end_with_parent(log.parent)
    _write_to(log)
    newest: Path | None = None
    try:
        setup: WorkerSetup = connection.recv()
        torch.set_num_threads(setup.threads)
        if setup.device:  # 0 is torch's own choice, and costs memory only where it is used
            torch.cuda.set_device(setup.device)
        state: WorkerState = pickle.loads(setup.build)()
        connection.send(WorkerReady())
        while True:
            batch, supply = connection.recv()
            if supply.weights is not None and supply.weights != newest:
                states = torch.load(supply.weights, map_location="cpu", weights_only=True)
                load_states(state.team, states)
                newest = supply.weights
            connection.send(play(batch, state, supply.servers))
    except (EOFError, BrokenPipeError):  # the rollout worker was closed
        return
    except Exception as error:
        traceback.print_exc()
        connection.send(BatchFailure.of(error))


def play(
    batch: RolloutBatch, state: WorkerState, servers: Mapping[str, ServedWeights]
) -> BatchResult:
    """Play a batch by policies that are sampled here or at servers; errors as of `Bundle.roll`."""
    attach(state.team, servers)
    timer = Timer()
    return BatchResult(batch.sample(state, timer), timer.seconds)


def attach(team: Team, servers: Mapping[str, ServedWeights]) -> None:
    """Let agents' policies be sampled at servers."""
    for agent, weights in servers.items():
        policy = team[agent]
        assert isinstance(policy, EnginePolicy), agent
        engine: Any = policy.engine  # of a kind that only `agents` knows
        engine.remote = weights


def save_weights(policies: Mapping[str, Stateful], path: Path) -> None:
    """Write the states of policies, by name, for `load_states`."""
    torch.save({name: policy.state_dict() for name, policy in policies.items()}, path)


def load_states(team: Team, states: Mapping[str, Any]) -> None:
    """Give the policies of a team their states, by name.

    Raises:
        KeyError: If there is the state of a policy that the team lacks.
    """
    policies = distinct_policies(team)
    for name, state in states.items():
        policy = policies[name]
        assert isinstance(policy, Stateful), policy
        policy.load_state_dict(state)


def _end_with_parent(folder: Path) -> None:
    """End this process as soon as its parent has ended, also in the middle of a batch, and clear up for it.

    Args:
        folder: The pool's folder, with weights that may be large.
    """
    parent = parent_process()
    assert parent is not None, "a worker is started by multiprocessing"

    def watch() -> None:
        wait([parent.sentinel])
        shutil.rmtree(folder, ignore_errors=True)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _write_to(log: Path) -> None:
    """Write all that this process says, and what it says when it crashes, to a file."""
    target = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for stream in (1, 2):
        os.dup2(target, stream)
    os.close(target)
    faulthandler.enable()


def _portable(error: BaseException) -> BaseException:
    """Return an error, or its text where it cannot be pickled and read again."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error
