"""Tokens computed and time of episodes with several turns: `python -m tools.performance.models.dialogue`.

Two agents with adapters on one base play an episode of CoopHumanEval with every combination of a history
(`model.history`) and reuse of earlier turns (`model.prefix_cache`). Only sampling counts. The computed tokens are
those that pass through the model, including padding.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

import numpy as np
import torch
import typer

from llm_decpomdp.agents.loading import PolicySpec, load_team
from llm_decpomdp.agents.models.pretrained import OFFLINE_MODEL
from llm_decpomdp.algorithms.rollouts.collection import collect_rollouts
from llm_decpomdp.algorithms.rollouts.rollout import Start, Timer
from llm_decpomdp.algorithms.training.metrics import count_tokens
from tools.performance.harness import trials
from tools.performance.models import workload
from tools.performance.models.update import LORA
from tools.performance.models.workload import Case

HISTORIES = ("none", "chat")

GIGABYTES = 1.0
"""Memory for keys and values of earlier turns."""

SECONDS = 60
"""Rough duration of a trial with the defaults."""


def main(
    model: trials.Model = OFFLINE_MODEL,
    group_size: Annotated[int, typer.Option(min=1, help="Completions (G).")] = 4,
    dtype: trials.Dtypes = ["bfloat16"],  # noqa: B006
    turns: Annotated[int, typer.Option(min=1, help="Turns of an episode.")] = 4,
    new_tokens: trials.NewTokens = 64,
    rounds: trials.Rounds = 3,
    device: trials.Device = "cpu",
    threads: trials.Threads = None,
    json_file: trials.JsonFile = None,
) -> None:
    """Measure episodes with and without histories, and with and without reuse of earlier turns."""
    minutes = rounds * 4 * len(dtype) * SECONDS / 60
    trials.progress(f"takes about {minutes:.0f} minutes with the offline model on two cores")
    results = trials.Comparisons(rounds, trials.environment(True, threads))
    tasks = workload.task_ids(workload.environment(), 2)
    with workload.endless_copy(model) as folder:
        common = {"model": folder, "new_tokens": new_tokens, "tasks": tasks, "device": device}
        case = {**common, "group_size": group_size, "turns": turns}
        for precision in dtype:
            variants = [
                trials.Variant(
                    f"{precision}, history {history}, {'reuse' if cache else 'no reuse'}",
                    "models/dialogue.py",
                    "play",
                    {**case, "dtype": precision, "history": history, "prefix_cache": cache},
                )
                for history in HISTORIES
                for cache in (0.0, GIGABYTES)
            ]
            measured = results.compare(variants)
            for history, without, reuse in zip(
                HISTORIES, measured[::2], measured[1::2], strict=True
            ):
                goal = trials.Goal(f"speed: reuse with history {history}, {precision}")
                results.judgements.append(trials.speed(goal, reuse, without))
    settings = {"model": model, "G": group_size, "turns": turns, "new tokens": new_tokens}
    results.finish("Episodes with several turns", {**settings, "rounds": rounds}, json_file)


def play(
    turns: int, history: str, prefix_cache: float, **arguments: Any
) -> Iterator[dict[str, Any]]:
    """Play a chain from each task, and count the tokens that pass through the model."""
    case = Case(**arguments)
    # A dialogue has the earlier answers, which prompts repeat otherwise.
    env = workload.environment(turns, previous_response=history == "none")
    spec = PolicySpec(
        name=case.model,
        max_new_tokens=case.new_tokens,
        compute_dtype=case.dtype,
        device=case.device,
        lora=LORA,
        history=history,
        prefix_cache=prefix_cache,
    )
    team: Any = load_team(
        {agent: agent for agent in env.possible_agents}, dict.fromkeys(env.possible_agents, spec)
    )
    tokens = {"prompt tokens": 0, "answer tokens": 0}

    def count(_: Any, __: Any, options: dict[str, torch.Tensor]) -> None:
        ids = options["input_ids"]
        # A prompt's pass may have one token for each row, too, but then the other passes have more rows.
        kind = "prompt tokens" if ids.shape[1] > 1 else "answer tokens"
        tokens[kind] += ids.numel()

    (engine,) = {policy.engine for policy in team.values()}
    engine.model.register_forward_pre_hook(count, with_kwargs=True)
    try:
        for task in case.tasks:
            clock, tokens_before = Timer(), dict(tokens)
            rollouts = collect_rollouts(
                env,
                team,
                [Start(task_id=task)],
                group_size=case.group_size,
                rng=np.random.default_rng(0),
                timer=clock,
            )
            yield {
                "units": count_tokens(rollouts),
                "parts": {"sampling": clock.seconds["sampling"]},
                "figures": {kind: float(n - tokens_before[kind]) for kind, n in tokens.items()},
            }
    finally:
        env.close()


if __name__ == "__main__":
    trials.run(main)
