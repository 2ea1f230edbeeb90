"""The trials of the probes' curves: which algorithm, plan and credit learns which probe."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from llm_decpomdp import make
from llm_decpomdp.algorithms import ALGORITHMS
from llm_decpomdp.algorithms.rollouts.rollout_options import RolloutOptions
from llm_decpomdp.env import DecPOMDPEnv
from llm_decpomdp.envs.probes.known import PROBES

LEARNING_RATE = 4e-3
"""Learning rate at first, of most trials; it falls linearly, as a late large step can unlearn a task for good."""

GROUP_SIZES = {"chain": 32, "tree": 8, "episodes": 32}
"""G of each plan: over two turns 64, 72 and 64 joint samples a start."""

CROSSED_GROUP_SIZE = 16
"""G where each completion of two agents is played with each: 256 joint samples a turn."""

TEAMS = ("magrpo", "marloo", "maremax", "mareinforce")


@dataclass(frozen=True)
class Trial:
    """Algorithm, plan and probe of some runs."""

    probe: str
    algorithm: str
    plan: str = "chain"
    offset: float = 0.0
    """Reward of each turn besides, in training; evaluations are without it."""
    joint_mode: str = "aligned"
    num_partners: int = 1
    aggregation: str = "mean"
    game: tuple[tuple[str, Any], ...] = ()
    """Arguments of the probe that differ from its defaults."""

    @property
    def pace(self) -> int:
        """Number of steps to take where others take one; each is as much shorter, or more for `maremax`.

        No advantage of `maremax` is above 0: what is sampled is only ever made less likely, and long steps
        end the search before it has found anything. Trees compare few samples.
        """
        return 2 if self.plan == "tree" or self.algorithm == "maremax" else 1

    @property
    def learning_rate(self) -> float:
        """Learning rate at first."""
        return LEARNING_RATE / (
            4 if (self.algorithm, self.plan) == ("maremax", "chain") else self.pace
        )

    @property
    def group_size(self) -> int:
        """G."""
        return CROSSED_GROUP_SIZE if self.joint_mode == "cross" else GROUP_SIZES[self.plan]

    @property
    def rollouts(self) -> RolloutOptions:
        """Plan and joint samples."""
        return RolloutOptions(
            plan=self.plan, joint_mode=self.joint_mode, num_partners=self.num_partners
        )

    def __str__(self) -> str:
        parts = [f"{self.algorithm} over {self.plan.rstrip('s')}s"]
        if self.joint_mode == "common":
            parts.append(f"{self.num_partners} common partners")
        if self.joint_mode == "cross":
            parts.append(f"crossed, {self.aggregation}")
        parts += [f"{name} {value}" for name, value in self.game]
        parts += [f"offset {self.offset:g}"] if self.offset else []
        return ", ".join(parts)

    def env(self, offset: float) -> DecPOMDPEnv:
        """Return the environment; single-agent algorithms play it alone."""
        alone = not ALGORITHMS[self.algorithm].multi_agent
        kwargs: dict[str, Any] = {"num_agents": 1} if alone else {}
        return make(self.probe, offset=offset, **kwargs, **dict(self.game))


def trials() -> list[Trial]:
    """Return every algorithm on every probe that it can play, and the comparisons that explain a failure."""
    paid_later = ("probe-delayed-v0", "probe-speaker-listener-v0")
    relay, partners, climbing = "probe-relay-v0", "probe-noisy-partners-v0", "probe-climbing-v0"
    eight: dict[str, Any] = {"game": (("num_agents", 8),)}
    noise: dict[str, Any] = {"game": (("noise", True),)}
    short = [probe for probe in PROBES if probe not in paid_later]
    return [
        *(Trial(probe, algorithm) for probe in short for algorithm in TEAMS),
        Trial("probe-halves-v0", "grpo"),
        *(Trial(probe, algorithm, "tree") for probe in paid_later for algorithm in TEAMS),
        Trial("probe-delayed-v0", "grpo", "tree"),
        Trial("probe-delayed-v0", "magrpo", "chain"),
        Trial("probe-halves-v0", "magrpo", offset=2.0),
        Trial("probe-halves-v0", "mareinforce", offset=2.0),
        *(Trial(probe, "magrpo", "episodes") for probe in (*paid_later, relay)),
        *(Trial(relay, "magrpo", plan, game=(("length", 2),)) for plan in GROUP_SIZES),
        Trial(partners, "magrpo", **eight),
        Trial(partners, "magrpo", joint_mode="common", num_partners=4, **eight),
        *(
            Trial(climbing, "magrpo", joint_mode="cross", aggregation=aggregation, **game)
            for game in ({}, noise)
            for aggregation in ("mean", "max", "annealed")
        ),
    ]
