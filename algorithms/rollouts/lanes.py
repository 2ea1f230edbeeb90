"""Policies by engine, and servers and devices that answer at the same time.

Each server and each device has a lane, whose items go in order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from multiprocessing.pool import ThreadPool
from typing import TypeVar

from llm_decpomdp.algorithms.rollouts.rollout import TextEnv
from llm_decpomdp.policy import Policy, Team, policy_attribute, reads_history, shared_engine

Answer = TypeVar("Answer")
Item = TypeVar("Item")


def find_lanes(policies: Sequence[Policy]) -> list[str]:
    """Return the lane of each policy."""
    several = sum(map(is_remote, policies)) > 1
    # The threads of several servers only wait. A single one is asked by the thread that trains.
    devices = [*map(_device, policies)]
    home = next(filter(None, devices), "")  # of policies without a model too
    return [
        f"server {place}" if several and is_remote(policy) else device or home
        for place, (policy, device) in enumerate(zip(policies, devices, strict=True))
    ]


def _device(policy: Policy) -> str:
    """Return the device of a policy's model; empty without one."""
    model = policy_attribute(shared_engine(policy), "model")
    return str(policy_attribute(model, "device") or "")


def in_lanes(
    call: Callable[[Item], Answer], items: Sequence[Item], lanes: Sequence[str]
) -> list[Answer]:
    """Call a function for each item. Lanes go at the same time; the items of a lane go in order.

    The last lane goes in the thread of the caller. What the function raises is raised after all lanes have ended.
    """
    if len({*lanes}) < 2:
        return [call(item) for item in items]
    answers: dict[int, Answer] = {}

    def follow(lane: str) -> None:
        answers.update((n, call(items[n])) for n, name in enumerate(lanes) if name == lane)

    # Servers first, so that a model computes in the thread of the caller.
    *others, own = sorted(dict.fromkeys(lanes), key=lambda lane: not lane.startswith("server"))
    # A ThreadPool has daemon threads; those of concurrent.futures would let Ctrl-C wait for the servers.
    with ThreadPool(len(others)) as pool:
        results = [pool.apply_async(follow, (lane,)) for lane in others]
        try:
            follow(own)
        finally:
            for result in results:
                result.wait()
        for result in results:
            result.get()  # raises the error of a lane
    return [answers[n] for n in range(len(items))]


def is_remote(policy: Policy) -> bool:
    """Check whether a policy is sampled in another process."""
    return bool(policy_attribute(shared_engine(policy), "is_remote"))


@contextmanager
def reuse_prefixes(team: Team) -> Iterator[None]:
    """Let the engines of a team reuse computations of earlier turns, until the block ends."""
    by_engine: dict[int, list[Policy]] = {}
    for policy in team.values():
        for member in policy_attribute(policy, "members") or (policy,):
            by_engine.setdefault(id(shared_engine(member)), []).append(member)
    with ExitStack() as stack:
        for policies in by_engine.values():
            reuse = policy_attribute(shared_engine(policies[0]), "reuse_prefixes")
            if reuse is not None:
                stack.enter_context(reuse(any(map(reads_history, policies))))
        yield


def playing_policy(policy: Policy, envs: Sequence[TextEnv], state: int) -> Policy:
    """Return the policy that answers in one of some states: a pool stands for several."""
    member = policy_attribute(policy, "member")
    player: Policy = policy if member is None else member(envs[state])
    return player
