"""The command `demo`."""

from __future__ import annotations

from dataclasses import replace

from llm_decpomdp.benchmarks.cli.console import Overrides, first_process
from llm_decpomdp.benchmarks.cli.run_text import conclude
from llm_decpomdp.benchmarks.config.errors import raise_run_errors

# Not `demo.yaml`, which trains on coding problems that small models hardly solve: this pair learns to cooperate.
DEMO = "cooperation_demo"


def demo(override: Overrides = None) -> None:
    """Train two small language models to work together, on this machine's CPU, in minutes and without a hub.

    It trains a pair, trains another one with another seed, and then exchanges partners: is the gain lost? It takes
    3 GiB of memory, and leaves the trained pairs to be played with.
    """
    from rich.console import Console

    from llm_decpomdp.benchmarks.analysis.partners import exchange_in_turn, table
    from llm_decpomdp.benchmarks.config.load import find_config, read_config
    from llm_decpomdp.benchmarks.doctor.memory import give_back, require_for_demo
    from llm_decpomdp.benchmarks.report.live import LiveReport
    from llm_decpomdp.benchmarks.runs import train as run

    if not override:  # else it may need less
        require_for_demo()
    # The final team is what the next commands play with.
    settings = read_config(find_config(DEMO), override or (), {"output.save_final_model": True})
    pair = run.train(settings, DEMO, [LiveReport])
    give_back()  # or both teams would be in memory at once
    name = f"{pair.folder.path.name}-other-seed"
    # The second team only lends partners, so it needs neither report nor evaluations.
    output = replace(settings.output, name=name, report=False, save_path=None, keep_best=False)
    evaluation = replace(settings.evaluation, num_tasks=0)
    second = run.train(
        replace(settings, seed=settings.seed + 1, output=output, evaluation=evaluation), DEMO
    )
    give_back()
    if first_process():
        with raise_run_errors():
            evaluations = exchange_in_turn([pair.folder.path, second.folder.path])
        Console(highlight=False).print(table(evaluations))
    conclude(pair)
