"""The trials of the probes' curves: which algorithm, plan and credit learns which probe."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from llm_decpomdp import make
from llm_decpomdp.algorithms import ALGORITHMS
from llm_decpomdp.algorithms.rollouts.cost import cost
from llm_decpomdp.algorithms.rollouts.rollout import Start
from llm_decpomdp.algorithms.rollouts.rollout_options import RolloutOptions
from llm_decpomdp.env import DecPOMDPEnv
from llm_decpomdp.envs.probes.known import PROBES
from studies.hypotheses.training import every_start

LEARNING_RATE = 4e-3
"""Learning rate at first, of most trials; it falls linearly, as a late large step can unlearn a task for good."""

GROUP_SIZE = 32
"""G of most trials."""

SMALL_GROUP_SIZE = 8
"""G of trees, which grow, and of the relay: one sample of a group goes on, so that many groups say more."""

CROSSED_GROUP_SIZE = 16
"""G where each completion of two agents is played with each."""

TEAMS = tuple(name for name in ALGORITHMS if name != "grpo")
"""The algorithms for teams."""

RELAY = "probe-relay-v0"
"""Played by tables: language models do not learn it over four turns (studies/LOG.md)."""

RELAY_GAME = {"length": 2, "num_secrets": 2}
"""Arguments of the relay, unless a trial says otherwise."""

JOINT_CHOICES = ("probe-rendezvous-v0", "probe-lazy-v0", "probe-climbing-v0")
"""Probes where what an answer is worth depends on team-mates who learn as well: there optimism says something."""


class Recipe(NamedTuple):
    """How a probe is learned, whatever the algorithm."""

    budget: int = 30
    """Updates of a plain chain, with a start of each task, whose completions a run has."""
    learning_rate: float = LEARNING_RATE
    """At first."""
    starts: int = 1
    """Starts of each task in an update."""
    tabular: bool = False
    """Whether the policies are tables with logits that differ at first, and no language models."""


RELAYS = {2: Recipe(50, 0.1, 2, tabular=True), 4: Recipe(400, 0.1, 4, tabular=True)}
"""Recipes of the relay, by its length."""


@dataclass(frozen=True)
class ProbeTrial:
    """Algorithm, plan and probe of some runs."""

    probe: str
    algorithm: str = "magrpo"
    plan: str = "chain"
    joint_mode: str = "aligned"
    num_partners: int = 1
    aggregation: str = "mean"
    critic: str | None = None
    """A critic beside a group's baseline."""
    features: str = "parts"
    """What critics read with: `parts` of texts, or `noise`."""
    offset: float = 0.0
    """Reward of each turn besides, in training; evaluations are without it."""
    game: tuple[tuple[str, Any], ...] = ()
    """Arguments of the probe that differ from its defaults."""

    @property
    def group_size(self) -> int:
        """G."""
        if self.joint_mode == "cross":
            return CROSSED_GROUP_SIZE
        return SMALL_GROUP_SIZE if self.plan == "tree" or self.probe == RELAY else GROUP_SIZE

    @property
    def recipe(self) -> Recipe:
        """How the probe is learned."""
        if self.probe == RELAY:
            return RELAYS[self.kwargs["length"]]
        return Recipe(budget=60) if self.probe == "probe-climbing-v0" else Recipe()

    @property
    def learning_rate(self) -> float:
        """Learning rate at first.

        No advantage of `maremax` is above 0: long steps end its search before it has found anything.
        """
        return self.recipe.learning_rate / (2 if self.algorithm == "maremax" else 1)

    @property
    def kwargs(self) -> dict[str, Any]:
        """Arguments of the probe; single-agent algorithms play it alone."""
        usual = RELAY_GAME if self.probe == RELAY else {}
        alone = {} if ALGORITHMS[self.algorithm].multi_agent else {"num_agents": 1}
        return {**usual, **alone, **dict(self.game)}

    @property
    def rollouts(self) -> RolloutOptions:
        """Plan and joint samples."""
        return RolloutOptions(
            plan=self.plan, joint_mode=self.joint_mode, num_partners=self.num_partners
        )

    def starts(self, env: DecPOMDPEnv, rng: np.random.Generator) -> list[Start]:
        """Return the starts of an update: all tasks, but one of those that are a draw of noise."""
        starts = every_start(env) * self.recipe.starts
        return [starts[rng.integers(len(starts))]] if dict(self.game).get("noise") else starts

    def updates(self, budget: int) -> int:
        """Return for how many updates the completions of `budget` updates of a plain chain with G = 32 last."""
        env = self.env()
        agents, turns = len(env.possible_agents), env.num_turns
        plain = cost(RolloutOptions(), GROUP_SIZE, agents, turns).completions
        own = cost(self.rollouts, self.group_size, agents, turns).completions
        return max(1, round(budget * plain / own / self.recipe.starts))

    def __str__(self) -> str:
        parts = [f"{self.algorithm} over {self.plan.rstrip('s')}s"]
        if self.joint_mode == "common":
            parts.append(f"{self.num_partners} common partners")
        if self.joint_mode == "cross":
            parts.append("crossed")
        parts += [self.aggregation] if self.aggregation != "mean" else []
        parts += [f"{self.critic} critic"] if self.critic else []
        parts += ["of noise"] if self.features == "noise" else []
        parts += [f"{name} {value}" for name, value in self.game]
        parts += [f"offset {self.offset:g}"] if self.offset else []
        return ", ".join(parts)

    def env(self, offset: float = 0.0) -> DecPOMDPEnv:
        """Return the environment."""
        return make(self.probe, offset=offset, **self.kwargs)


def trials() -> list[ProbeTrial]:
    """Return every algorithm on every probe that it can play, and the comparisons that explain a failure."""
    every = [ProbeTrial(probe, algorithm) for probe in PROBES for algorithm in TEAMS]
    ways = [trial for probe in PROBES for trial in _ways(probe)]
    return [*every, *ways, *_explanations()]


def _ways(probe: str) -> list[ProbeTrial]:
    """Return the ways of credit and over turns, with MAGRPO."""
    common = ProbeTrial(probe, joint_mode="common", num_partners=4)
    ways = [common]
    if probe in JOINT_CHOICES:
        ways += [replace(common, aggregation=how) for how in ("max", "annealed")]
    if ProbeTrial(probe).env().num_turns > 1:
        ways += [ProbeTrial(probe, plan="episodes"), ProbeTrial(probe, critic="joint")]
    return ways


def _explanations() -> list[ProbeTrial]:
    delayed, halves = "probe-delayed-v0", "probe-halves-v0"
    eight = (("num_agents", 8),)
    partners, climbing = "probe-noisy-partners-v0", "probe-climbing-v0"
    crossed = ProbeTrial(climbing, joint_mode="cross")
    return [
        ProbeTrial(halves, "grpo"),
        ProbeTrial(delayed, "grpo", "tree"),
        *(ProbeTrial(probe, plan="tree") for probe in (delayed, "probe-speaker-listener-v0")),
        *(ProbeTrial(halves, algorithm, offset=2.0) for algorithm in ("magrpo", "mareinforce")),
        ProbeTrial("probe-turns-v0", critic="joint", features="noise"),
        *(
            ProbeTrial(RELAY, critic=critic, plan=plan, game=(("length", 4),))
            for critic, plan in ((None, "chain"), ("joint", "chain"), (None, "episodes"))
        ),
        ProbeTrial(partners, game=eight),
        ProbeTrial(partners, joint_mode="common", num_partners=4, game=eight),
        *(
            replace(crossed, aggregation=aggregation, game=game)
            for game in ((), (("noise", True),))
            for aggregation in ("mean", "max", "annealed")
        ),
    ]
