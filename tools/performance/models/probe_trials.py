"""The trials of `probe_curves`: the algorithms, plans and credit that train on each probe."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from llm_decpomdp import make
from llm_decpomdp.agents.inference.options import Sampling
from llm_decpomdp.agents.models.tiny import tiny_causal_lm
from llm_decpomdp.algorithms import ALGORITHMS
from llm_decpomdp.algorithms.critics.options import CriticOptions
from llm_decpomdp.algorithms.learning.learner_options import AggregationOptions, LearnerOptions
from llm_decpomdp.algorithms.rollouts.checks import cost
from llm_decpomdp.algorithms.rollouts.collection import collect_rollouts
from llm_decpomdp.algorithms.rollouts.play import play_episodes
from llm_decpomdp.algorithms.rollouts.rollout import Rollout, Start
from llm_decpomdp.algorithms.rollouts.rollout_options import RolloutOptions
from llm_decpomdp.algorithms.training.metrics import count_tokens
from llm_decpomdp.env import DecPOMDPEnv
from llm_decpomdp.envs.probes.known import PROBES
from llm_decpomdp.envs.probes.parts import MAX_TOKENS
from llm_decpomdp.policy import Team
from llm_decpomdp.seeding import stream
from studies.hypotheses.training import HashedParts, Noise, every_start, make_team

LEARNING_RATE = 4e-3
"""First learning rate of most trials. It falls linearly, since a large late step can destroy a learned task."""

GROUP_SIZE = 32
"""G of most trials."""

SMALL_GROUP_SIZE = 8
"""G of trees, which grow with the turns, and of the relay."""

CROSSED_GROUP_SIZE = 16
"""G of crossed joint samples of two agents."""

TEAMS = tuple(name for name in ALGORITHMS if name != "grpo")
"""The algorithms for teams."""

RELAY = "probe-relay-v0"
"""Its policies are tables: language models do not learn four turns of it (studies/LOG.md)."""

RELAY_GAME = {"length": 2, "num_secrets": 2}
"""Default arguments of the relay."""

JOINT_CHOICES = ("probe-rendezvous-v0", "probe-lazy-v0", "probe-climbing-v0")
"""Probes in which the value of an answer depends on learning partners, so that optimism has an effect."""


class Recipe(NamedTuple):
    """Options of the training on a probe, the same for all algorithms."""

    budget: int = 30
    """Number of completions of a run, in updates of a plain chain with one start of each task."""
    learning_rate: float = LEARNING_RATE
    """First learning rate."""
    starts: int = 1
    """Starts of each task in an update."""
    tabular: bool = False
    """Whether the policies are tables with different first logits instead of language models."""


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
    """A critic in addition to the baseline of the group."""
    features: str = "parts"
    """Features of the critics: `parts` of texts, or `noise`."""
    offset: float = 0.0
    """Constant that is added to each reward in training, not in evaluations."""
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
        """Recipe of the probe."""
        if self.probe == RELAY:
            return RELAYS[self.kwargs["length"]]
        return Recipe(budget=60) if self.probe == "probe-climbing-v0" else Recipe()

    @property
    def learning_rate(self) -> float:
        """First learning rate.

        It is lower for `maremax`. Its advantages are at most 0, so that large steps end the search too early.
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
            mode=self.plan, joint_mode=self.joint_mode, num_partners=self.num_partners
        )

    def starts(self, env: DecPOMDPEnv, rng: np.random.Generator) -> list[Start]:
        """Return the starts of an update: all tasks, or a random one if the tasks are draws of noise."""
        starts = every_start(env) * self.recipe.starts
        return [starts[rng.integers(len(starts))]] if dict(self.game).get("noise") else starts

    def updates(self, budget: int) -> int:
        """Return the updates with as many completions as `budget` updates of a plain chain with G = 32."""
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
    """Return every algorithm on every probe that it can play, and comparisons that explain failures."""
    every = [ProbeTrial(probe, algorithm) for probe in PROBES for algorithm in TEAMS]
    plans = [trial for probe in PROBES for trial in _plans(probe)]
    return [*every, *plans, *_explanations()]


def _plans(probe: str) -> list[ProbeTrial]:
    """Return the trials of plans and credit with MAGRPO."""
    common = ProbeTrial(probe, joint_mode="common", num_partners=4)
    plans = [common]
    if probe in JOINT_CHOICES:
        plans += [replace(common, aggregation=how) for how in ("max", "annealed")]
    if ProbeTrial(probe).env().num_turns > 1:
        plans += [ProbeTrial(probe, plan="episodes"), ProbeTrial(probe, critic="joint")]
    return plans


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


ENOUGH = 0.9
"""Share of the optimum that counts as reached."""

MAX_GRAD_NORM = 0.3

CRITIC_LEARNING_RATE = 1e-2

POINT_EVERY = 5
"""Distance of the points of a curve, in updates of a plain chain."""

MOST_POINTS = 20
"""Most points of a curve without the first one."""

EVALUATION_EPISODES = 192


@dataclass(frozen=True)
class Curve:
    """Values of a team during training."""

    trial: ProbeTrial
    seed: int
    updates: Sequence[int]
    values: Sequence[float]
    """Mean sum of the rewards of an episode, without discount and offset."""
    completions: Sequence[int]
    """Completions of all agents that were sampled for training before each point."""
    tokens: int
    """Tokens of all of them."""
    seconds: float

    @property
    def reach(self) -> float:
        """Completions before the team had 90 % of the optimum; infinite if it never had."""
        goal = ENOUGH * PROBES[self.trial.probe].optimum
        points = zip(self.completions, self.values, strict=True)
        return next((completions for completions, value in points if value >= goal), np.inf)


def train(trial: ProbeTrial, *, budget: int, seed: int, marks: int | None = None) -> Curve:
    """Train a team of tiny models on a probe, with the completions of `budget` updates of a plain chain.

    Its value is measured before the training and `marks` times in it. The default of `marks` follows from
    `POINT_EVERY` and `MOST_POINTS`.
    """
    marks = marks or min(MOST_POINTS, -(-budget // POINT_EVERY))
    begin = time.perf_counter()
    updates = trial.updates(budget)
    env, plain = trial.env(trial.offset), trial.env()
    team = new_team(trial, env, seed)
    features = Noise(seed) if trial.features == "noise" else HashedParts()
    options = _options(trial, env.discount, updates)
    learner = ALGORITHMS[trial.algorithm].make_learner(team, options, seed, features)
    rng, views = stream(seed, "handoff"), learner.critic is not None
    points, completions, tokens = [(0, value(plain, team), 0)], 0, 0
    for update in range(1, updates + 1):
        rollouts = collect_rollouts(
            env,
            team,
            trial.starts(env, stream(seed, "starts", update)),
            trial.rollouts,
            group_size=trial.group_size,
            rng=rng,
            views=views,
        )
        completions += _completions(rollouts)
        tokens += count_tokens(rollouts)
        learner.update(rollouts)
        if update * marks // updates > (update - 1) * marks // updates:
            points.append((update, value(plain, team), completions))
    seconds = time.perf_counter() - begin
    updates_done, values, sampled = zip(*points, strict=True)
    return Curve(trial, seed, updates_done, values, sampled, tokens, seconds)


def new_team(trial: ProbeTrial, env: DecPOMDPEnv, seed: int) -> Team:
    """Return the policies of a trial, each with other first weights."""
    letters = PROBES[trial.probe].letters
    if trial.recipe.tabular:
        return make_team(env, letters[: trial.kwargs["num_secrets"]], seed, spread=1.0)
    return {
        agent: tiny_causal_lm(
            letters,
            Sampling(max_new_tokens=MAX_TOKENS),
            seed=int(stream(seed, "policy", agent).integers(2**32)),
        )
        for agent in env.possible_agents
    }


def _completions(rollouts: Sequence[Rollout]) -> int:
    groups = (group for rollout in rollouts for group in rollout.groups)
    return sum(len(samples) for group in groups for samples in group.completions.values())


def _options(trial: ProbeTrial, discount: float, updates: int) -> LearnerOptions:
    critic = CriticOptions(scope=trial.critic)
    completed = ALGORITHMS[trial.algorithm].complete_options(LearnerOptions(critic=critic))
    if completed.critic.exists:
        critic = replace(critic, learning_rate=CRITIC_LEARNING_RATE)
    return LearnerOptions(
        learning_rate=trial.learning_rate,
        max_grad_norm=MAX_GRAD_NORM,
        discount=discount,
        lr_schedule="linear",
        total_updates=updates,
        joint_aggregation=AggregationOptions(trial.aggregation),
        critic=critic,
    )


def value(env: DecPOMDPEnv, team: Team) -> float:
    """Return the mean sum of the rewards of sampled episodes, with equally many of each task."""
    starts = every_start(env)
    each = EVALUATION_EPISODES // len(starts)
    # Aligned joint samples of one turn are independent episodes, and are sampled faster.
    if env.num_turns == 1:
        rollouts = collect_rollouts(
            env, team, starts, group_size=each, rng=np.random.default_rng(0)
        )
        return float(np.mean([rollout.groups[0].rewards for rollout in rollouts]))
    rollouts = play_episodes(env, team, starts * each)
    sums = [sum(group.rewards[0] for group in rollout.groups) for rollout in rollouts]
    return float(np.mean(sums))
