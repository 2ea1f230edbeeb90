"""Chains with a critic where agents take turns, leave or join: the gradient, and what is learned."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch

from llm_decpomdp import make
from llm_decpomdp.algorithms import ALGORITHMS
from llm_decpomdp.algorithms.critics.states import WAITS, Exchange, critic_text
from llm_decpomdp.algorithms.learning.learner import Learner
from llm_decpomdp.algorithms.learning.learner_options import LearnerOptions
from llm_decpomdp.algorithms.rollouts.collection import collect_rollouts
from llm_decpomdp.algorithms.rollouts.rollout import Rollout, Start
from llm_decpomdp.algorithms.rollouts.views import View
from llm_decpomdp.envs.probes.parts import LETTERS
from studies.hypotheses.training import make_team, train, value
from tests.algorithms.enumeration import (
    Game,
    History,
    expected_gradient,
    make_tables,
    true_gradient,
)
from tests.algorithms.learning.test_turn_weights import (
    one_after_the_other,
    one_joins,
    one_leaves,
)

ANSWERS = ("", "a")


class Exact:
    """A head that predicts the value that is the only feature."""

    mean, explained = 0.0, 1.0

    def predict(self, features: torch.Tensor) -> torch.Tensor:
        return features[:, 0].double()

    def evaluate(self, pairs: torch.Tensor) -> float:
        return 1.0


@pytest.mark.parametrize(
    ("acting", "name"),
    [
        (one_after_the_other, "marloo"),
        (one_leaves, "maac"),
        (one_joins, "maac"),
    ],
)
def test_the_gradient_of_a_chain_with_the_values_of_states_is_exact(
    acting: Callable[[History], Sequence[str]], name: str
) -> None:
    def points(history: History, joint: tuple[str, ...]) -> float:
        return len("".join(text for turn in history for text in turn)) * (0.5 + bool(joint[-1]))

    game = Game(points, agents=("x", "y"), acting=acting)
    team, oracle = make_tables(game)

    def state_value(joint: tuple[str, ...]) -> float:
        """Return the expected reward of the second turn."""
        total, prompt = 0.0, game.prompt((joint,))
        chances = [team[agent].chances(prompt) for agent in acting((joint,))]
        for row in range(2 ** len(chances)):
            chosen = [row >> place & 1 for place in range(len(chances))]
            chance = 1.0
            for of, choice in zip(chances, chosen, strict=True):
                chance *= of[choice]
            total += chance * points((joint,), tuple(ANSWERS[choice] for choice in chosen))
        return total

    def features(texts: Sequence[str]) -> torch.Tensor:
        found = []
        for text in texts:
            prompt = text.removeprefix("[state]\n")
            found.append(0.7 if prompt == "start" else state_value(tuple(prompt.split(" ")[1:])))
        return torch.tensor(found)[:, None]

    options = LearnerOptions(learning_rate=0.0, critic={"scope": "joint", "input": "state"})
    learner = Learner(team, ALGORITHMS[name], options, features)
    assert learner.critic is not None
    learner.critic._heads = {("team", turn): Exact() for turn in range(2)}  # type: ignore[attr-defined]
    rng: Any = oracle

    def play() -> list[Rollout]:
        return collect_rollouts(game, team, [Start(seed=0)], group_size=2, rng=rng, views=True)

    found = expected_gradient(learner, oracle, play)
    torch.testing.assert_close(found, true_gradient(game, team), atol=1e-6, rtol=1e-5)


def test_a_critic_reads_the_answers_of_agents_that_wait_now_and_its_own_agent_may_wait() -> None:
    past = [Exchange({"x": "goal"}, {"x": "told"})]
    view = View("", {"y": "heard"})
    team, _ = critic_text("history", view, past, None, 100)
    assert team == "[x saw in turn 1]\ngoal\n\n[x answered in turn 1]\ntold\n\n[y sees]\nheard"
    own, _ = critic_text("history", view, past, ["x"], 100)
    assert own.endswith(f"told\n\n[{WAITS[0]}]\n{WAITS[1]}") and "heard" not in own
    first, _ = critic_text("history", View("", {"x": "goal"}), [], ["y"], 100)
    assert first == f"[{WAITS[0]}]\n{WAITS[1]}"


RELAY = {"updates": 25, "starts": 4, "group_size": 8}


@pytest.mark.parametrize(
    ("name", "options", "least"),
    [
        ("maac", {}, 0.75),
        pytest.param("iac", {}, 0.75, marks=pytest.mark.slow),
        pytest.param("coma", {}, 0.4, marks=pytest.mark.slow),
        pytest.param("magrpo", {"scope": "joint"}, 0.4, marks=pytest.mark.slow),
        pytest.param("magrpo", {"scope": "own"}, 0.4, marks=pytest.mark.slow),
    ],
)
def test_first_agents_learn_by_a_critic(name: str, options: dict[str, Any], least: float) -> None:
    env = make("probe-relay-turns-v0")
    team = make_team(env, LETTERS, 0)
    settings = LearnerOptions(learning_rate=0.3, critic={"learning_rate": 0.01, **options})
    train(env, team, seed=0, algorithm=name, options=settings, **RELAY)
    assert value(env, team) > least
