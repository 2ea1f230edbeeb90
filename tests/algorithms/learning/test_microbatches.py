"""Groups with equal prompts share a pass of a policy, and learn what they learn alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch

from llm_decpomdp import make
from llm_decpomdp.agents.inference.options import Sampling
from llm_decpomdp.agents.models.tiny import tiny_causal_lm
from llm_decpomdp.algorithms import ALGORITHMS
from llm_decpomdp.algorithms.learning import learner as learning
from llm_decpomdp.algorithms.learning.learner import Learner, group_by_prompt
from llm_decpomdp.algorithms.learning.learner_options import LearnerOptions
from llm_decpomdp.algorithms.rollouts.collection import collect_rollouts
from llm_decpomdp.algorithms.rollouts.rollout import Rollout, Start
from llm_decpomdp.algorithms.rollouts.rollout_options import RolloutOptions
from llm_decpomdp.envs.probes.known import PROBES
from llm_decpomdp.policy import Completion

PROBE = "probe-turns-v0"
EPISODES = 6


def team() -> dict[str, Any]:
    agents = make(PROBE).possible_agents
    sampling = Sampling(max_new_tokens=2)
    return {
        agent: tiny_causal_lm(PROBES[PROBE].letters, sampling, seed=seed)
        for seed, agent in enumerate(agents)
    }


def episodes(policies: Any) -> list[Rollout]:
    env = make(PROBE)
    starts = [Start(task_id=env.tasks.tasks[0].task_id)] * 2
    options, rng = RolloutOptions(plan="episodes"), np.random.default_rng(0)
    return collect_rollouts(env, policies, starts, options, group_size=EPISODES, rng=rng)


def learn(**options: Any) -> tuple[dict[str, float], list[torch.Tensor], int]:
    """Metrics and gradients of an update with whole episodes, and the number of passes."""
    policies = team()
    rollouts = episodes(policies)
    number = 0
    for policy in policies.values():
        score = policy.log_probs

        def count(*args: Any, score: Any = score) -> Any:
            nonlocal number
            number += 1
            return score(*args)

        policy.log_probs = count
    learner = Learner(policies, ALGORITHMS["magrpo"], LearnerOptions(learning_rate=1e-3, **options))
    with torch.no_grad():  # away from the reference, and from what has sampled
        generator = torch.Generator().manual_seed(0)
        for policy in policies.values():
            for weight in policy.parameters():
                weight += 0.1 * torch.randn(weight.shape, generator=generator)
    metrics = learner.accumulate(rollouts)
    gradients = [p.grad.clone() for policy in policies.values() for p in policy.parameters()]
    return metrics, gradients, number


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"loss": "token_mean", "kl_coefficient": 0.1},
        {"updates_per_batch": 2, "truncated": "mask", "correction": "truncate"},
    ],
    ids=["plain", "reference", "steps"],
)
def test_shared_passes_teach_what_single_ones_do(
    options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    metrics, gradients, passes = learn(**options)
    monkeypatch.setattr(learning, "group_by_prompt", lambda items: [[item] for item in items])
    alone, expected, more_passes = learn(**options)
    assert passes < more_passes / 2
    if "kl_coefficient" in options:
        assert metrics["kl/player_0"] > 0.01
    if "correction" in options:
        assert metrics["ess/player_0"] < 0.99
    assert metrics.keys() == alone.keys() and any(metrics[f"loss/{agent}"] for agent in team())
    assert metrics == pytest.approx(alone, rel=1e-4, abs=1e-6)
    torch.testing.assert_close(gradients, expected, rtol=1e-4, atol=1e-6)


class Item:
    """The parts of a loss item that decide on passes."""

    def __init__(self, agent: str, prompt: str, size: int) -> None:
        self.agent, self.prompt, self.completions = agent, prompt, [Completion("a")] * size


def sizes(items: Sequence[Any]) -> list[tuple[str, str, list[int]]]:
    return [
        (one[0].agent, one[0].prompt, [len(item.completions) for item in one])
        for one in group_by_prompt(items)
    ]


def test_passes_have_one_agent_one_prompt_and_no_more_characters_than_its_largest_group() -> None:
    items = [
        *[Item("x", "p", 3), Item("y", "p", 2), *[Item("x", "q", 1)] * 4],
        *[Item("y", "p", 1), *[Item("x", "longer", 1)] * 2, Item("y", "p", 1)],
    ]
    assert sizes(items) == [
        ("x", "p", [3]),
        ("y", "p", [2]),
        ("x", "q", [1, 1, 1]),
        ("x", "q", [1]),
        ("y", "p", [1, 1]),
        ("x", "longer", [1]),
        ("x", "longer", [1]),
    ]
    assert group_by_prompt([]) == []
