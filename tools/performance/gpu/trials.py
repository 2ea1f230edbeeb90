"""Trials on a device; each runs in a process of its own (see `host.py`).

A trial waits for its device before it answers, and tells the device's peak of memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from llm_decpomdp import make
from llm_decpomdp.agents.inference.options import Sampling
from llm_decpomdp.agents.loading import PolicySpec, load_policy, load_team
from llm_decpomdp.agents.models.tiny import tiny_causal_lm
from llm_decpomdp.algorithms import ALGORITHMS
from llm_decpomdp.algorithms.learning.learner import Learner
from llm_decpomdp.algorithms.learning.learner_options import LearnerOptions
from llm_decpomdp.algorithms.rollouts.collection import collect_rollouts
from llm_decpomdp.algorithms.rollouts.rollout import Start
from llm_decpomdp.envs.probes.known import PROBES
from llm_decpomdp.envs.probes.parts import MAX_TOKENS
from tools.performance.models import learning, sampling, update, workload
from tools.performance.models.workload import Case

PEAK = "device GB"

PROBE = "probe-rendezvous-v0"

VARIANTS: dict[str, Callable[..., Iterator[dict[str, Any]]]] = {
    "sampling": sampling.ours,
    "generate": sampling.transformers_generate,
    "packed": learning.ours,
    "padded": learning.padded_batch,
    "update": update.ours,
}
"""Trials that know no device's memory."""


def on_device(work: str, device: str, **arguments: Any) -> Iterator[dict[str, Any]]:
    """Run one of `VARIANTS`, and tell the device's peak of memory in GB."""
    cuda = device.startswith("cuda")
    for answer in VARIANTS[work](device=device, **arguments):
        figures = dict(answer.get("figures", {}))
        if cuda:
            torch.cuda.synchronize(device)
            figures[PEAK] = torch.cuda.max_memory_allocated(device) / 1e9
        yield {**answer, "figures": figures}


def gradients(
    model: str, device: str, dtype: str, attention: str, group_size: int, new_tokens: int
) -> Iterator[dict[str, Any]]:
    """Compute a group's gradient on the CPU in float32, then on a device, and tell their relative distance."""
    reference, tokens = gradient(model, "cpu", "float32", "sdpa", group_size, new_tokens)
    yield {"units": tokens}
    found, tokens = gradient(model, device, dtype, attention, group_size, new_tokens)
    distance = float((found - reference).norm() / reference.norm())
    yield {"units": tokens, "figures": {"distance": distance}}


def gradient(
    model: str, device: str, dtype: str, attention: str, group_size: int, new_tokens: int
) -> tuple[Tensor, int]:
    """Return the gradient of all weights, on the CPU in float32, and the number of tokens."""
    case = Case(model, group_size, new_tokens, dtype, device, prompts=["a prompt of a few bytes"])
    policy = load_policy(model, compute_dtype=dtype, device=device, attn_implementation=attention)
    ((prompt, rows),) = learning.synthetic(policy, case)
    log_probs = policy.engine.log_probs(policy.encode(prompt), rows, 1.0)
    log_probs.sum().backward()  # type: ignore[no-untyped-call]
    parts = [p.grad.float().cpu().flatten() for p in policy.parameters() if p.grad is not None]
    return torch.cat(parts), sum(map(len, rows))


def probe(device: str, updates: int, group_size: int) -> Iterator[dict[str, Any]]:
    """Train tiny models on a probe, and tell the mean rewards of the first and last fifth of the updates."""
    env = make(PROBE)
    team = {}
    for index, agent in enumerate(env.possible_agents):
        team[agent] = tiny_causal_lm(
            PROBES[PROBE].letters, Sampling(max_new_tokens=MAX_TOKENS), seed=index
        )
        team[agent].model.to(device)
    learner = Learner(team, ALGORITHMS["magrpo"], LearnerOptions(4e-3, max_grad_norm=0.3))
    yield {"units": 1}
    rng, rewards = np.random.default_rng(0), []
    for number in range(updates):
        rollouts = collect_rollouts(env, team, [Start(seed=number)], group_size=group_size, rng=rng)
        learner.update(rollouts)
        rewards.append(float(np.mean([r for o in rollouts for g in o.groups for r in g.rewards])))
    part = max(1, updates // 5)
    figures = {"first": float(np.mean(rewards[:part])), "last": float(np.mean(rewards[-part:]))}
    yield {"units": updates * group_size * len(team), "figures": figures}


def two_policies(devices: list[str], **arguments: Any) -> Iterator[dict[str, Any]]:
    """Update two policies, each on a device of its own or both on one."""
    case = Case(device=devices[0], **arguments)
    env = workload.environment()
    specs = {
        agent: PolicySpec(
            name=case.model,
            max_new_tokens=case.new_tokens,
            compute_dtype=case.dtype,
            device=device,
            lora=update.LORA,
        )
        for agent, device in zip(env.possible_agents, devices, strict=True)
    }
    team = load_team({agent: agent for agent in specs}, specs)
    try:
        starts = [Start(task_id=task) for task in case.tasks]
        yield from update.updates(env, team, starts, case.group_size)
    finally:
        env.close()
