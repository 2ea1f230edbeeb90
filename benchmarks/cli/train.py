"""The command `train`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from typer import Option

from llm_decpomdp.benchmarks.cli.console import Overrides, complete_config, complete_run
from llm_decpomdp.benchmarks.cli.run_text import conclude, describe_cost
from llm_decpomdp.benchmarks.config.errors import ALONE, ConfigError


def train_(
    config: Annotated[
        str | None, Option(help="Name or path of a configuration.", autocompletion=complete_config)
    ] = None,
    override: Overrides = None,
    seed: Annotated[
        int | None, Option(min=0, help="Decides what is drawn at random; the key seed.")
    ] = None,
    output: Annotated[
        Path | None,
        Option(metavar="FOLDER", help="The run folder; the keys output.base_dir and name."),
    ] = None,
    resume: Annotated[
        Path | None,
        Option(
            autocompletion=complete_run,
            metavar="FOLDER",
            help="Continue an interrupted run, or with --override a longer one: the budget, checkpoints and what "
            "happens to long prompts may change.",
        ),
    ] = None,
    from_: Annotated[
        Path | None,
        Option(
            "--from",
            autocompletion=complete_run,
            metavar="RUN",
            help="Begin a new run with the team of another, by its configuration if --config names none.",
        ),
    ] = None,
    warm_start: Annotated[
        str | None,
        Option(
            metavar="gold|passes|FILE",
            help="Imitate references, what the team itself solves, or the completions of a JSONL file, before the "
            "first update; the key warm_start.source.",
        ),
    ] = None,
    pairs: Annotated[
        Path | None,
        Option(
            metavar="FILE",
            help="Learn from stored pairs, as export --pairs --to jsonl writes them, with madpo; the key "
            "algorithm.preferences.source.",
        ),
    ] = None,
    dry_run: Annotated[
        bool, Option("--dry-run", help="Check the configuration, and say what it would cost.")
    ] = False,
) -> None:
    """Train a team of language models, and write a report."""
    from llm_decpomdp.benchmarks.config.load import find_config, read_config
    from llm_decpomdp.benchmarks.report.live import LiveReport
    from llm_decpomdp.benchmarks.runs import initial_team
    from llm_decpomdp.benchmarks.runs import resume as resuming
    from llm_decpomdp.benchmarks.runs import train as run

    if resume is not None:
        # A flag that is not given is False, the other options are None.
        arguments = (config, from_, dry_run or None, seed, output, warm_start, pairs)
        if any(value is not None for value in arguments):
            raise ConfigError(ALONE)
        conclude(resuming.resume(resume, override or (), [LiveReport]))
        return
    if config is None and from_ is None:
        raise ConfigError(
            "give --config NAME_OR_PATH, such as demo; `llm-decpomdp list` shows all names"
        )
    flags: dict[str, Any] = {} if seed is None else {"seed": seed}
    if warm_start is not None:
        flags["warm_start.source"] = warm_start
    if pairs is not None:
        flags |= {"algorithm.preferences.source": str(pairs), "algorithm.name": "madpo"}
    if output is not None:
        if not output.name:  # such as an empty variable of a shell
            raise ConfigError(f"--output names the run folder, such as runs/mine, got '{output}'")
        flags |= {"output.base_dir": str(output.parent), "output.name": output.name}
    if from_ is not None:
        settings, name = initial_team.settings(from_, config, override or (), flags)
    else:
        path = find_config(str(config))
        settings, name = read_config(path, override or (), flags), path.stem
    if dry_run:
        print("\n".join(describe_cost(settings, name)))
    elif from_ is not None:
        conclude(initial_team.train_initial_team(from_, settings, name, [LiveReport]))
    else:
        conclude(run.train(settings, name, [LiveReport]))
