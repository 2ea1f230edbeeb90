"""Time of sampling with shards, beside that of sampling with a gathered copy of all weights.

python -m tools.performance.models.shards_speed [--hidden 768] [--layers 12] [--rows 16] [--tokens 32] [--lora 16]

Two processes on this CPU share a random Llama (`shards.py`), one thread each. In each round both ways take turns:
`learner.gather_for_generation=true` gathers a copy and samples with it, `false` samples with the shards. Seconds
are from `gather` until all processes have sampled, of the slower process. Processor seconds are those of both.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

from tools.performance.models.shards import parser_of_model, run_processes, save_model

PROCESSES = 2
WAYS = {"copy": True, "shards": False}


def work(folder: Path, arguments: argparse.Namespace) -> None:
    """Do the work of one process, and print the seconds and processor seconds of each way and round."""
    from torch import distributed

    from llm_decpomdp.agents.loading import PolicySpec, load_team
    from llm_decpomdp.agents.models.sharded import shard_team
    from llm_decpomdp.algorithms.learning import distributed as processes

    processes.initialize(10)
    spec = PolicySpec(
        name=str(folder),
        compute_dtype=arguments.dtype,
        max_new_tokens=arguments.tokens,
        lora={"r": arguments.lora, "target_modules": "all-linear"} if arguments.lora else None,
    )
    policies: dict[str, Any] = {}
    for way, gathers in WAYS.items():
        team = load_team({"x": "x"}, {"x": spec}, hollow=True)
        shard_team(team, PROCESSES, gather_for_generation=gathers)
        policies[way] = team["x"]
    seconds: dict[str, list[tuple[float, float, float]]] = {way: [] for way in WAYS}
    for number in range(arguments.rounds + 1):
        for way in [*WAYS][:: 1 - 2 * (number % 2)]:
            policy = policies[way]
            policy.seed(number)
            policy.engine.free()  # as before a pass of the learner
            distributed.barrier()
            start, used = time.perf_counter(), time.process_time()
            policy.gather()
            gathered = time.perf_counter()
            policy.generate(["ab" * arguments.prompt], arguments.rows)
            policy.finish_sampling()
            distributed.barrier()
            spent = (time.perf_counter() - start, time.process_time() - used, gathered - start)
            if number:  # the first round loads kernels and checks the model
                seconds[way].append(spent)
    print(json.dumps(seconds), flush=True)
    os._exit(0)


def spread(values: Sequence[float]) -> str:
    """Return the median, the lowest and the highest value in words."""
    return f"{median(values):.2f} ({min(values):.2f} to {max(values):.2f})"


def main() -> None:
    """Compare both ways, and print the table."""
    parser = parser_of_model(__doc__)
    parser.add_argument("--prompt", type=int, default=64, help="half of the tokens of the prompt")
    parser.add_argument("--rows", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    if arguments.work:
        work(arguments.work, arguments)
    with tempfile.TemporaryDirectory() as folder:
        weights, words = save_model(Path(folder), arguments, arguments.layers), sys.argv[1:]
        module, words = "tools.performance.models.shards_speed", ["--work", folder, *words]
        figures = run_processes(module, PROCESSES, words, on_cpu=True)
    print(
        f"{weights / 1e6:.0f} M weights, {' '.join(words[2:]) or 'defaults'}; seconds of sampling"
    )
    rounds: dict[str, list[float]] = {}
    for way in WAYS:
        every = [*zip(*(each[way] for each in figures), strict=True)]
        rounds[way] = [max(spent[0] for spent in both) for both in every]
        used = [sum(spent[1] for spent in both) for both in every]
        gathering = [max(spent[2] for spent in both) for both in every]
        print(
            f"{way:8}{spread(rounds[way]):>24}   processor {spread(used)}   gathering {spread(gathering)}"
        )
    ratios = [b / a for a, b in zip(*rounds.values(), strict=True)]
    print(f"shards / copy: {spread(ratios)} times as long")


if __name__ == "__main__":
    main()
