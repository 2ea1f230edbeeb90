"""Cost of credit compared with a plain update: `python -m tools.performance.models.credit_overhead`.

A whole update of a team over two turns, with a critic or common partners. A critic reads a text for each joint
sample of the first turn. Common partners sample and learn as much as aligned ones, but play K * N times as many
joint samples. The relative cost of both falls with the length of completions.
"""

from __future__ import annotations

from typing import Annotated, Any

import typer

from llm_decpomdp.agents.models.pretrained import OFFLINE_MODEL
from tools.performance.harness import trials
from tools.performance.models import workload

PLAIN = "chain"

WAYS: dict[str, tuple[dict[str, Any], dict[str, Any], float]] = {
    # name: options of the critic, of joint samples, largest processor time beside a plain update
    PLAIN: ({}, {}, 1.0),
    "critic": ({"critic": "joint"}, {}, 1.25),
    "critic of the state": ({"critic": {"scope": "joint", "input": "state"}}, {}, 1.25),
    "4 common partners": ({}, {"joint_mode": "common", "num_partners": 4}, 1.1),
}

SECONDS_A_TOKEN = 1.0
"""Rough duration of a trial for each token of a completion, with the defaults."""


def main(
    model: trials.Model = OFFLINE_MODEL,
    group_size: Annotated[int, typer.Option(min=2, help="Joint samples (G).")] = 4,
    new_tokens: Annotated[
        list[int], typer.Option(min=1, help="Tokens of a completion; give it again for more.")
    ] = [64, 256],  # noqa: B006
    rounds: trials.Rounds = 3,
    device: trials.Device = "cpu",
    threads: trials.Threads = None,
    json_file: trials.JsonFile = None,
) -> None:
    """Measure an update with each way of credit, and judge what it adds to a plain one."""
    minutes = rounds * len(WAYS) * sum(new_tokens) * SECONDS_A_TOKEN / 60
    trials.progress(f"takes about {minutes:.0f} minutes with the offline model on two cores")
    results = trials.Comparisons(rounds, trials.environment(True, threads))
    env = workload.environment(turns=2)
    common = {"tasks": workload.task_ids(env, 2), "group_size": group_size, "dtype": "auto"}
    with workload.endless_copy(model) as folder:
        for tokens in new_tokens:
            case = {**common, "model": folder, "new_tokens": tokens, "device": device, "turns": 2}
            contenders = [
                trials.Variant(
                    f"{name}, {tokens} tokens",
                    "models/update.py",
                    "update_with_critic",
                    {**case, "critic": critic, "joint": joint, "weights": "adapters"},
                )
                for name, (critic, joint, _) in WAYS.items()
            ]
            plain, *rivals = results.compare(contenders)
            for (name, (_, _, most)), rival in zip(list(WAYS.items())[1:], rivals, strict=True):
                goal = trials.Goal(f"processor time: {name}, {tokens} tokens", at_most=most)
                results.judgements.append(trials.Judgement(goal, rival.times_cpu(plain)))
    settings = {"model": model, "G": group_size, "rounds": rounds, "device": device}
    results.finish("Credit compared with a plain update", settings, json_file)


if __name__ == "__main__":
    trials.run(main)
