"""Horizon: what pays only on a later turn."""

from __future__ import annotations

from typing import Any

import numpy as np

from llm_decpomdp import make
from llm_decpomdp.algorithms.learning.learner_options import LearnerOptions
from llm_decpomdp.algorithms.rollouts.checks import cost
from llm_decpomdp.algorithms.rollouts.rollout_options import RolloutOptions
from llm_decpomdp.envs.probes.parts import LETTERS
from llm_decpomdp.envs.probes.topology import SECRETS
from llm_decpomdp.seeding import stream
from studies.hypotheses.hypothesis import Clause, Hypothesis, Measures
from studies.hypotheses.training import make_team, train, value

CHAIN, TREE = RolloutOptions(), RolloutOptions(mode="tree")

RELAY_RATE = 0.3
"""Learning rate of the relay."""


def plans(seed: int) -> Measures:
    """Measure the values of chains and trees after equal completions, where reward is late and where it is not."""
    values = {}
    for name, game in {"delayed": "probe-delayed-v0", "dense": "probe-turns-v0"}.items():
        env = make(game)
        agents, turns = len(env.possible_agents), env.num_turns
        budget = 20 * cost(CHAIN, 32, agents, turns).completions
        for plan, rollouts, group in (("chain", CHAIN, 32), ("tree", TREE, 8)):
            updates = round(budget / cost(rollouts, group, agents, turns).completions)
            team = make_team(env, LETTERS, seed)
            train(env, team, seed=seed, updates=updates, group_size=group, rollouts=rollouts)
            values[f"{plan}, {name}"] = value(env, team)
    return values


def critic(seed: int) -> Measures:
    """Measure the values of relays of one to three turns with a critic and without."""
    values = {}
    for length in (1, 2, 3):
        for name, extra in {"plain": {}, "critic": CRITIC}.items():
            env = make("probe-relay-v0", length=length, num_secrets=2)
            team = make_team(env, SECRETS, seed, spread=1.0)
            options = LearnerOptions(learning_rate=RELAY_RATE, **extra)
            train(env, team, seed=seed, updates=40, starts=2, options=options)
            values[f"{name}, {length}"] = value(env, team)
    return {
        f"gain, {length}": values[f"critic, {length}"] - values[f"plain, {length}"]
        for length in (1, 2, 3)
    } | {"change, 1": abs(values["critic, 1"] - values["plain, 1"])}


CRITIC: dict[str, Any] = {"critic": {"scope": "joint", "learning_rate": 0.01}}

ACTION_PAIRS = 4


def action_critic(seed: int) -> Measures:
    """Measure the values of a game of two by two actions by what is subtracted from the reward.

    Both agents earn 1 if both choose their second action. The advantage is the reward minus a running estimate: of
    the joint action that was taken (a Q), or of the game (a V).
    """
    values = {}
    for name, cells in {"q": ACTION_PAIRS, "v": 1}.items():
        rng = stream(seed, "actions")
        logits, estimate = np.zeros((2, 2)), np.zeros(cells)
        for _ in range(400):
            chances = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
            actions = (rng.random(2) < chances[:, 1]).astype(int)
            reward = float(actions.all())
            cell = int(actions @ [1, 2]) if cells > 1 else 0
            advantage = reward - estimate[cell]
            estimate[cell] += 0.3 * advantage
            logits += 0.3 * advantage * (np.eye(2)[actions] - chances)
        chances = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
        values[name] = float(chances[:, 1].prod())
    return values


HYPOTHESES = (
    Hypothesis(
        "H3",
        "Trees learn more from a completion than chains where reward comes late, and less where it does not.",
        "The returns of a tree reach over turns; those of a chain are a turn's own reward, and cost less.",
        "probe-delayed-v0 and probe-turns-v0, tabular policies, MAGRPO; the completions of 20 updates of a "
        "chain with G = 32; trees have G = 8. Mean return afterwards.",
        (
            Clause(
                "late reward: a tree is better by over 0.2",
                {"tree, delayed": 1, "chain, delayed": -1},
                above=0.2,
            ),
            Clause(
                "dense reward: a chain is better", {"chain, dense": 1, "tree, dense": -1}, above=0
            ),
        ),
        plans,
        untested="horizons of more than two turns.",
    ),
    Hypothesis(
        "H4",
        "What a critic adds to a chain is nothing with one turn, and grows with the horizon.",
        "A critic stands for the reward of later turns, of which one turn has none.",
        "probe-relay-v0 of one to three turns with two secrets, tabular policies with logits that differ at "
        "first, MAGRPO, G = 8, 40 updates of 4 starts; mean return with a critic minus that without.",
        (
            Clause("one turn: no difference at all", {"change, 1": 1}, below=1e-9),
            Clause("two turns: a gain above 0.2", {"gain, 2": 1}, above=0.2),
            Clause("three turns: a gain above 0.2", {"gain, 3": 1}, above=0.2),
            Clause("three turns gain more than two", {"gain, 3": 1, "gain, 2": -1}, above=0),
        ),
        critic,
        untested="more than three turns, and noise.",
    ),
    Hypothesis(
        "H10",
        "A critic of joint actions, used as the baseline, erases learning.",
        "Once it has learned what each joint action is worth, no advantage is left.",
        "A game of two by two actions, softmax policies, 400 steps of REINFORCE with a running estimate of "
        "rate 0.3; probability of the best pair afterwards.",
        (
            Clause("a baseline of states is better by over 0.2", {"v": 1, "q": -1}, above=0.2),
            Clause("with a critic of actions it stays below 0.7", {"q": 1}, below=0.7),
        ),
        action_critic,
    ),
)
