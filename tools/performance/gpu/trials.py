"""Trials on a device; each runs in a process of its own (see `host.py`).

A trial waits for its device before it answers, and tells the device's peak of memory.
"""

from __future__ import annotations

import hashlib
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

import llm_decpomdp
from llm_decpomdp import make
from llm_decpomdp.agents.inference.determinism import deterministic
from llm_decpomdp.agents.inference.options import Sampling
from llm_decpomdp.agents.loading import PolicySpec, load_team
from llm_decpomdp.agents.models.tiny import tiny_causal_lm
from llm_decpomdp.agents.single_model import load_policy
from llm_decpomdp.algorithms import ALGORITHMS
from llm_decpomdp.algorithms.learning.learner import Learner
from llm_decpomdp.algorithms.learning.learner_options import LearnerOptions
from llm_decpomdp.algorithms.rollouts.collection import collect_rollouts
from llm_decpomdp.algorithms.rollouts.play import seed_policies
from llm_decpomdp.algorithms.rollouts.rollout import Start
from llm_decpomdp.envs.probes.known import PROBES
from llm_decpomdp.envs.probes.parts import MAX_TOKENS
from tools.performance.gpu.settings import PEAK
from tools.performance.models import evaluation, learning, sampling, update, workload
from tools.performance.models.workload import Case

PROBE = "probe-rendezvous-v0"

VARIANTS: dict[str, Callable[..., Iterator[dict[str, Any]]]] = {
    "sampling": sampling.ours,
    "generate": sampling.transformers_generate,
    "continuous": sampling.transformers_continuous,
    "packed": learning.ours,
    "padded": learning.padded_batch,
    "update": update.ours,
    "evaluation": evaluation.ours,
    "evaluation by generate": evaluation.transformers_generate,
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


def synchronizations(work: str, **arguments: Any) -> Iterator[dict[str, Any]]:
    """Count waits for a device: for each further token of sampling, or in an update of a team.

    Args:
        work: `sampling`, or `update` and the weights of the team.
        arguments: As of `Case`.
    """
    case = Case(**arguments)
    if work != "sampling":
        trial = update.ours(**arguments, weights=work.rpartition(" ")[2])
        yield next(trial)
        with count_synchronizations(case.device) as places:
            answer = next(trial)
        yield {**_waits(places, 1), "units": answer["units"]}
        return
    policy, tokens = case.policy(), case.new_tokens
    prompts = [*workload.prompts(workload.environment(), case.tasks[0]).values()]
    before: Counter[str] = Counter()
    for limit in (tokens, 2 * tokens):
        policy.sampling = Sampling(max_new_tokens=limit)
        with count_synchronizations(case.device) as places:
            policy.generate(prompts[:1], case.group_size)
        yield {**_waits(places - before, tokens), "units": case.group_size * limit}
        before = places


def _waits(places: Counter[str], units: int) -> dict[str, Any]:
    """Print the most frequent places, and return the number of waits for each unit."""
    for place, count in places.most_common(12):
        print(f"{count} x {place}")
    return {"figures": {"waits": places.total() / units}}


@contextmanager
def count_synchronizations(device: str) -> Iterator[Counter[str]]:
    """Count the operations that wait for a GPU, by file and line; other devices have none."""
    places: Counter[str] = Counter()
    if not device.startswith("cuda"):
        yield places
        return
    here = Path(llm_decpomdp.__file__).parents[1]
    with warnings.catch_warnings():
        warnings.simplefilter("always")

        def count(message: Warning | str, *_: Any, **__: Any) -> None:
            if "synchroniz" in str(message):
                own = (__file__, warnings.__file__)
                frames = [f for f in traceback.extract_stack()[:-1] if f.filename not in own]
                ours = [f for f in frames if here in Path(f.filename).resolve().parents]
                outer, inner = (ours or frames)[-1], frames[-1]
                places[f"{outer.filename}:{outer.lineno}, in {inner.name}"] += 1

        warnings.showwarning = count
        torch.cuda.set_sync_debug_mode("warn")
        try:
            yield places
        finally:
            torch.cuda.set_sync_debug_mode("default")


def digest(switch: bool, **arguments: Any) -> Iterator[dict[str, Any]]:
    """Update a team, and tell a digest of its weights; `switch` asks for deterministic kernels."""
    case = Case(**arguments)
    env = workload.environment()
    with deterministic() if switch else nullcontext():
        team = update.build_team(case, env.possible_agents)
        seed_policies(team, 0, "digest", index=0)
        trial = update.updates(env, team, [Start(task_id=t) for t in case.tasks], case.group_size)
        yield next(trial)
        answer = next(trial)
    found = hashlib.sha256()
    policies: list[Any] = [*team.values()]
    for policy in policies:
        for weight in policy.parameters():
            found.update(weight.detach().float().cpu().numpy().tobytes())
    yield {"units": answer["units"], "figures": {"digest": int(found.hexdigest()[:12], 16)}}


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
    log_probs = policy.engine.log_probs_of_prompts([(policy.encode(prompt), rows)], 1.0)
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


def two_policies(
    devices: list[str], quantization: str = "none", **arguments: Any
) -> Iterator[dict[str, Any]]:
    """Update two policies with adapters on two devices or one, and tell the peak of the first device's memory."""
    case = Case(device=devices[0], **arguments)
    env = workload.environment()
    specs = {
        agent: PolicySpec(
            name=case.model,
            max_new_tokens=case.new_tokens,
            compute_dtype=case.dtype,
            device=device,
            quantization=quantization,
            static_cache=case.static_cache,
            lora=update.LORA,
        )
        for agent, device in zip(env.possible_agents, devices, strict=True)
    }
    team = load_team({agent: agent for agent in specs}, specs)
    try:
        starts = [Start(task_id=task) for task in case.tasks]
        for answer in update.updates(env, team, starts, case.group_size):
            peak = {}
            if case.device.startswith("cuda"):
                peak[PEAK] = torch.cuda.max_memory_allocated(case.device) / 1e9
            yield {**answer, "figures": {**answer.get("figures", {}), **peak}}
    finally:
        env.close()
