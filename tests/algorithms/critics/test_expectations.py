"""Targets, gates and baselines of critics by enumeration, and the order of what they learn from."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from llm_decpomdp import make
from llm_decpomdp.algorithms import ALGORITHMS
from llm_decpomdp.algorithms.critics.critic import Critic, Gather
from llm_decpomdp.algorithms.critics.head import ValueHead
from llm_decpomdp.algorithms.learning.distributed import _interleave
from llm_decpomdp.algorithms.learning.learner import Learner
from llm_decpomdp.algorithms.learning.learner_options import LearnerOptions
from llm_decpomdp.algorithms.rollouts.collection import collect_rollouts
from llm_decpomdp.algorithms.rollouts.rollout import Rollout, Start
from llm_decpomdp.algorithms.rollouts.rollout_options import RolloutOptions
from llm_decpomdp.envs.probes.topology import SECRETS
from llm_decpomdp.seeding import stream
from tests.algorithms.conftest import TinyPolicy
from tests.algorithms.critics.readers import HashedParts
from tests.algorithms.critics.test_critic import StateEnv
from tests.algorithms.enumeration import (
    Game,
    History,
    expected_gradient,
    make_tables,
    true_gradient,
)
from tests.algorithms.runs import make_team

STARTS = [Start(seed=0)]


class OneHot:
    """Features that tell all texts apart."""

    def __init__(self, size: int = 64) -> None:
        self.size, self.rows = size, dict[str, int]()

    def __call__(self, texts: Sequence[str]) -> torch.Tensor:
        found = torch.zeros(len(texts), self.size, dtype=torch.float32)
        for row, text in enumerate(texts):
            found[row, self.rows.setdefault(text, len(self.rows))] = 1.0
        return found


def late(history: History, joint: tuple[str, ...]) -> float:
    return float(bool(history))


def ends(history: History, joint: tuple[str, ...]) -> bool:
    return joint[0] == "a"


def learner(name: str, team: Any, features: Any = None, **options: Any) -> Learner:
    settings = LearnerOptions(**{"learning_rate": 0.0, **options})
    return Learner(team, ALGORITHMS[name], settings, features or OneHot())


@pytest.mark.parametrize("size", [1, 2, 3])
def test_the_target_of_a_state_is_its_value_where_a_part_of_the_group_ends(size: int) -> None:
    game = Game(late, ends)
    team, oracle = make_tables(game, seed=3)
    critic = learner("maac", team, critic={"td_lambda": 1.0}).critic
    assert critic is not None
    expected = 0.0
    for _ in oracle.paths():
        rollouts = collect_rollouts(
            game,
            team,
            STARTS,
            group_size=size,
            rng=oracle,
            views=True,  # type: ignore[arg-type]
        )
        critic.assess(rollouts)
        first = next(
            record for key, found in critic._pending.items() for record in found if not key[1]
        )
        expected += oracle.chance * first.target
    assert expected == pytest.approx(team["x"].chances("start")[0])  # the second turn earns 1


def uneven(history: History, joint: tuple[str, ...]) -> float:
    return [0.3, 1.0, -0.4, 0.7][2 * bool(joint[0]) + bool(joint[1])]


@pytest.mark.parametrize("name", ["iac", "maac"])
@pytest.mark.parametrize("mode", ["aligned", "common", "cross"])
def test_the_first_update_is_unbiased_however_completions_are_paired(name: str, mode: str) -> None:
    game = Game(uneven, num_turns=1, agents=("x", "y"))
    team, oracle = make_tables(game)
    rng: Any = oracle

    def play() -> list[Rollout]:
        return collect_rollouts(
            game,
            team,
            STARTS,
            RolloutOptions(joint_mode=mode),
            group_size=2,
            rng=rng,
            views=True,
        )

    found = expected_gradient(learner(name, team), oracle, play)
    torch.testing.assert_close(found, true_gradient(game, team))


class Judge:
    """A head whose gate the present batch would open or close."""

    mean = 0.0

    def __init__(self, explained: float) -> None:
        self.explained = explained

    def predict(self, features: torch.Tensor) -> torch.Tensor:
        return torch.full((len(features),), 5.0, dtype=torch.float64)

    def differences(self, features: torch.Tensor) -> torch.Tensor:
        return torch.full((len(features),), 5.0, dtype=torch.float64)

    def evaluate(self, pairs: torch.Tensor) -> float:
        return -self.explained


@pytest.mark.parametrize("name", ["magrpo", "maac", "coma"])
@pytest.mark.parametrize("explained", [0.5, -0.5])
def test_the_gate_is_that_of_the_batches_before(name: str, explained: float) -> None:
    game = Game(uneven, agents=("x", "y"))
    team, _ = make_tables(game)
    rollouts = collect_rollouts(
        game, team, STARTS, group_size=2, rng=np.random.default_rng(0), views=True
    )
    gated, fixed = (
        learner(name, team, critic={"scope": "joint", "gate": gate}).critic
        for gate in (True, False)
    )
    assert gated is not None and fixed is not None
    heads = {(of, turn): Judge(explained) for of in ("team", "answers") for turn in range(2)}
    gated._heads = fixed._heads = heads  # type: ignore[assignment]
    (outlook,), metrics = gated.assess(rollouts)
    (always,), _ = fixed.assess(rollouts)
    assert (
        metrics["critic/gate"]
        == metrics.get("critic/counterfactual", explained > 0)
        == (explained > 0)
    )
    assert metrics["turn_2/explained_variance"] == -explained
    same = [a.tolist() == b.tolist() for a, b in zip(outlook["x"], always["x"], strict=True)]
    assert all(same) == (explained > 0)


# -------------------------------------------------------------- processes that share the starts of an update


def in_processes(number: int, work: Callable[[int, Gather], Critic]) -> Critic:
    """The critic of the first of some processes, each a thread here, that collect items from each other."""
    barrier, parts = threading.Barrier(number), list[Sequence[Any]]([[]] * number)
    results: dict[int, Critic] = {}

    def run(rank: int) -> None:
        def gather(items: Sequence[Any]) -> list[Any]:
            parts[rank] = list(items)
            barrier.wait()
            found: list[Any] = _interleave(parts)
            barrier.wait()
            return found

        results[rank] = work(rank, gather)

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(number)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results[0]


def chains_of_unequal_length(size: int, batch_size: int | None) -> list[Rollout]:
    """Chains of one and of two turns; in rollout batches of so many starts, the place of each is known."""
    starts, rng = [Start(seed=n) for n in range(48)], np.random.default_rng(0)
    rollouts = collect_rollouts(
        StateEnv(2), make_team(), starts, group_size=size, rng=rng, views=True
    )
    if batch_size is None:
        return rollouts
    return [replace(rollout, place=place) for place, rollout in enumerate(rollouts)]


@pytest.mark.parametrize(
    ("name", "batch_size", "number"),
    [("iac", None, 2), ("iac", 5, 3), ("maac", None, 3), ("maac", 1, 2), ("coma", 5, 2)],
)
def test_critics_learn_alike_in_processes(name: str, batch_size: int | None, number: int) -> None:
    rollouts = chains_of_unequal_length(2 if name == "coma" else 1, batch_size)
    assert {len(rollout.groups) for rollout in rollouts} == {1, 2}
    size = batch_size or 1
    batches = [rollouts[first : first + size] for first in range(0, len(rollouts), size)]

    def heads(processes: int) -> list[torch.Tensor]:
        def work(rank: int, gather: Gather) -> Critic:
            options = {"critic": {"learning_rate": 0.1, "gate": False}}
            critic = learner(name, make_team(), HashedParts(size=16), **options).critic
            assert critic is not None
            critic._gather = gather
            mine = [rollout for part in batches[rank::processes] for rollout in part]
            for _ in range(3):
                critic.assess(mine)
                critic.learn()
            return critic

        found = in_processes(processes, work)._heads
        return [found[key].weight.detach() for key in sorted(found)]

    alone, together = heads(1), heads(number)
    for one, other in zip(alone, together, strict=True):
        # Features are read in other batches.
        torch.testing.assert_close(one, other, atol=1e-5, rtol=0)
    assert any(weight.any() for weight in alone)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_a_head_is_the_same_whatever_torch_s_default_dtype_is(dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(0)
    features = torch.randn(20, 4, generator=generator, dtype=torch.float32)
    pairs = torch.randn(20, 2, generator=generator, dtype=torch.float64)

    def trained() -> ValueHead:
        head = ValueHead(4, 0.1)
        head.learn(features, pairs, 2)
        return head

    usual = trained()
    torch.set_default_dtype(dtype)
    try:
        head = trained()
    finally:
        torch.set_default_dtype(torch.float32)
    assert head.weight.dtype == torch.float32
    assert torch.equal(head.weight, usual.weight)
    assert torch.equal(head.predict(features), usual.predict(features))


EVALUATION_EPISODES = 128


class Table(torch.nn.Module):
    """Probabilities of a single letter by the first letter of a prompt, or for any that is longer.

    Over many turns `spread`, by which logits differ at first, matters. If all letters were equally likely, what
    an agent writes would say nothing about the secret, and nobody would gain by listening to it: the gradient
    grows with the product of what all agents let through.
    """

    def __init__(self, letters: int, spread: float, generator: torch.Generator) -> None:
        super().__init__()
        logits = torch.randn(letters + 1, letters + 1, generator=generator)
        self.logits = torch.nn.Parameter(spread * logits)

    def forward(self, prompt: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
        row = int(prompt[0]) if len(prompt) == 1 else 0
        return self.logits[row].expand(len(tokens), tokens.shape[1] + 1, -1)


def relay_value(
    length: int,
    rollouts: RolloutOptions,
    *,
    spread: float = 0.0,
    starts: int = 1,
    group_size: int,
    updates: int,
    learning_rate: float,
    seed: int = 0,
    **critic: Any,
) -> float:
    """Train a team on the relay of two secrets; the mean reward that its episodes end with afterwards.

    `starts` are those of an update with each secret; the learning rate falls linearly.
    """
    env = make("probe-relay-v0", length=length, num_secrets=2)
    team = {}
    for agent in env.possible_agents:
        generator = torch.Generator().manual_seed(_seed(seed, "start", agent))
        table = Table(len(SECRETS), spread, generator)
        team[agent] = TinyPolicy(table, SECRETS, 1)
        team[agent].seed(_seed(seed, agent))
    options = LearnerOptions(
        learning_rate=learning_rate, lr_schedule="linear", total_updates=updates, **critic
    )
    learner = Learner(team, ALGORITHMS["magrpo"], options, HashedParts())
    secrets = [Start(task_id=f"relay/{secret}") for secret in SECRETS[:2]]
    rng, views = stream(seed, "handoff"), learner.critic is not None
    for _ in range(updates):
        played = collect_rollouts(
            *(env, team, secrets * starts, rollouts), group_size=group_size, rng=rng, views=views
        )
        learner.update(played)
    episodes = secrets * (EVALUATION_EPISODES // 2)
    played = collect_rollouts(env, team, episodes, RolloutOptions(), group_size=1, rng=rng)
    return float(np.mean([chain.groups[-1].rewards[0] for chain in played]))


def _seed(seed: int, *names: str) -> int:
    return int(stream(seed, *names).integers(2**32))


CHAIN = RolloutOptions()
CRITIC: dict[str, Any] = {"critic": {"scope": "joint", "learning_rate": 0.01}}


TWO_TURNS: dict[str, Any] = {"starts": 2, "updates": 50, "learning_rate": 0.3}


def test_a_secret_is_handed_on_over_two_turns_with_a_critic() -> None:
    assert relay_value(2, CHAIN, group_size=8, **TWO_TURNS, **CRITIC) >= 0.9


@pytest.mark.slow
def test_without_a_critic_nothing_is_handed_on_but_by_luck_of_the_partners() -> None:
    crossed = RolloutOptions(joint_mode="cross")
    assert relay_value(2, crossed, group_size=4, **TWO_TURNS) <= 0.4


# Three of the seeds 0 to 4 learn it, and four of tables without letters that cannot be handed on (studies/LOG.md).
FOUR_TURNS: dict[str, Any] = {"spread": 1.0, "updates": 400, "learning_rate": 0.05}


@pytest.mark.slow
def test_a_secret_is_handed_on_over_four_turns_with_a_critic() -> None:
    assert relay_value(4, CHAIN, starts=4, group_size=8, **FOUR_TURNS, **CRITIC) >= 0.9


@pytest.mark.slow
def test_nothing_is_handed_on_over_four_turns_by_a_chain() -> None:
    assert relay_value(4, CHAIN, starts=4, group_size=8, **FOUR_TURNS) <= 0.3
