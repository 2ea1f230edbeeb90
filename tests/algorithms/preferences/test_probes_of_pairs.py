"""MADPO on probes: it learns, and pairs in which one agent differs leave a bystander at rest."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from llm_decpomdp import make
from llm_decpomdp.agents import CausalLM, Sampling, tiny_causal_lm
from llm_decpomdp.algorithms import RolloutOptions, Start, collect_rollouts
from llm_decpomdp.envs.probes.known import PROBES
from llm_decpomdp.envs.probes.parts import MAX_TOKENS
from llm_decpomdp.seeding import stream
from tests.algorithms.steps import declare
from tools.performance.models.probe_trials import MAX_GRAD_NORM, value

RENDEZVOUS, MIXED = "probe-rendezvous-v0", "probe-mixed-pairs-v0"


def trained(
    probe: str, *, updates: int, group_size: int, joint_mode: str, **options: Any
) -> tuple[dict[str, CausalLM], float]:
    """Train a team of tiny models by pairs; the team, and the value that it has then."""
    env = make(probe)
    team = {
        agent: tiny_causal_lm(
            PROBES[probe].letters,
            Sampling(max_new_tokens=MAX_TOKENS),
            seed=int(stream(0, "policy", agent).integers(2**32)),
        )
        for agent in env.possible_agents
    }
    settings = {"learning_rate": 4e-3, "max_grad_norm": MAX_GRAD_NORM, "lr_schedule": "linear"}
    settings |= {"total_updates": updates, "pairs_per_group": 16, **options}
    algorithm, learner_options = declare("madpo", settings)
    learner, rng = algorithm.make_learner(team, learner_options), stream(0, "handoff")
    starts = [Start(task_id=task.task_id) for task in env.tasks.tasks]
    rollouts = RolloutOptions(joint_mode=joint_mode)
    for _ in range(updates):
        learner.update(
            collect_rollouts(env, team, starts, rollouts, group_size=group_size, rng=rng)
        )
    return team, value(env, team)


def divergence(policy: CausalLM, prompts: list[str]) -> float:
    """Estimate KL(pi || reference) of whole completions, in nats."""
    parts = []
    for prompt in prompts:
        completions = policy.generate([prompt], 128)[0]
        with torch.no_grad():
            now, mask = policy.log_probs(prompt, completions)
        before, _ = policy.reference_log_probs(prompt, completions)
        parts.append(float(((now - before) * mask).sum(-1).mean()))
    return sum(parts) / len(parts)


@pytest.mark.parametrize(
    ("joint_mode", "options"),
    [
        ("aligned", {"pair_kind": "joint"}),
        ("aligned", {"opponent": "history"}),
        pytest.param("common", {"pair_kind": "single"}, marks=pytest.mark.slow),
    ],
)
def test_pairs_teach_a_team_a_common_letter(joint_mode: str, options: dict[str, Any]) -> None:
    _, reached = trained(RENDEZVOUS, updates=20, group_size=32, joint_mode=joint_mode, **options)
    assert reached >= 0.85 * PROBES[RENDEZVOUS].optimum


def test_joint_pairs_move_a_bystander_by_its_partners_luck_and_single_ones_do_not() -> None:
    prompts = [
        next(iter(make(MIXED).reset(options={"task_id": f"mixed-pairs/{c}"})[0].values()))
        for c in "ab"
    ]
    for joint_mode, kind in (("aligned", "joint"), ("common", "single")):
        team, reached = trained(
            MIXED, updates=10, group_size=16, joint_mode=joint_mode, pair_kind=kind
        )
        assert reached >= 0.75 * PROBES[MIXED].optimum
        bystander, decider = team.values()
        assert divergence(decider, prompts) > 0.2
        weights = {name: weight.detach() for name, weight in bystander.model.named_parameters()}
        fresh = tiny_causal_lm(
            PROBES[MIXED].letters, seed=int(stream(0, "policy", "player_0").integers(2**32))
        )
        at_rest = all(torch.equal(weights[n], w) for n, w in fresh.model.named_parameters())
        if kind == "joint":
            assert divergence(bystander, prompts) > 0.2
        else:
            assert at_rest
