"""The command line: `llm-decpomdp`, or `python -m llm_decpomdp.benchmarks`.

Commands load what they need when they run.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from llm_decpomdp import __version__
from llm_decpomdp.benchmarks.cli import bench as suites
from llm_decpomdp.benchmarks.cli import cooperation as cooperation
from llm_decpomdp.benchmarks.cli import evaluation_options as evaluation
from llm_decpomdp.benchmarks.cli.evaluation_options import EnvOptions, Overrides

app = typer.Typer(no_args_is_help=True, add_completion=True, pretty_exceptions_enable=False)
app.add_typer(evaluation.app)
app.add_typer(suites.app)
app.add_typer(cooperation.app)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"llm-decpomdp {__version__}")
        raise typer.Exit()


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", metavar="", is_eager=True, callback=_version, help="Show the version."
        ),
    ] = False,
) -> None:
    """Cooperative language-model agents as Dec-POMDPs: play, train, evaluate and report."""


@app.command(
    rich_help_panel="Train and measure",
    epilog="Example: llm-decpomdp train --config demo --override algorithm.name=marloo env.num_turns=2",
)
def train(
    config: Annotated[str | None, typer.Option(help="Name or path of a configuration.")] = None,
    override: Overrides = None,
    seed: Annotated[
        int | None, typer.Option(min=0, help="Decides what is drawn at random; the key seed.")
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="The run folder; the keys output.base_dir and name."),
    ] = None,
    resume: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Continue an interrupted run, or with --override a longer one: the budget, checkpoints and what "
            "happens to long prompts may change.",
        ),
    ] = None,
    from_: Annotated[
        Path | None,
        typer.Option(
            "--from",
            metavar="RUN",
            help="Begin a new run with the team of another, by its configuration if --config names none.",
        ),
    ] = None,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run", metavar="", help="Check the configuration, and say what it would cost."
        ),
    ] = False,
) -> None:
    """Train a team of language models, and write a report."""
    from llm_decpomdp.benchmarks.cli.console import exit_codes, prepare_process, tell
    from llm_decpomdp.benchmarks.config.catalogue import find_config, shipped
    from llm_decpomdp.benchmarks.config.errors import ALONE, ConfigError
    from llm_decpomdp.benchmarks.config.load import read_config
    from llm_decpomdp.benchmarks.runs import dry_run as trial
    from llm_decpomdp.benchmarks.runs import resume as resuming
    from llm_decpomdp.benchmarks.runs import train as run
    from llm_decpomdp.benchmarks.runs import warm_start

    prepare_process()
    with exit_codes():
        if resume is not None:
            if config or from_ or dry_run or seed is not None or output is not None:
                raise ConfigError(ALONE)
            tell(resuming.resume(resume, override or ()))
            return
        if config is None and from_ is None:
            raise ConfigError(f"give --config NAME_OR_PATH; names: {', '.join(shipped())}")
        flags: dict[str, Any] = {} if seed is None else {"seed": seed}
        if output is not None:
            flags |= {"output.base_dir": str(output.parent), "output.name": output.name}
        if from_ is not None:
            settings, name = warm_start.settings(from_, config, override or (), flags)
        else:
            path = find_config(str(config))
            settings, name = read_config(path, override or (), flags), path.stem
        if dry_run:
            for line in trial.dry_run(settings, name):
                print(line)
        elif from_ is not None:
            tell(warm_start.train_from(from_, settings, name))
        else:
            tell(run.train(settings, name))


@app.command(rich_help_panel="Start", epilog="Example: llm-decpomdp demo")
def demo(override: Overrides = None) -> None:
    """Train two small language models on this machine's CPU, in minutes and without a hub.

    It takes 8.5 GiB of memory, and leaves the trained pair (1.1 GB) to be played with.
    """
    from llm_decpomdp.benchmarks.cli.console import exit_codes
    from llm_decpomdp.benchmarks.doctor.memory import require_for_demo

    if not override:  # else it may need less
        with exit_codes():
            require_for_demo()
    train(config="demo", override=override)


@app.command(
    rich_help_panel="After a run",
    epilog="Example: llm-decpomdp report runs/a runs/b --output both.html",
)
def report(
    runs: Annotated[
        list[Path], typer.Argument(metavar="RUN", help="Folders of runs, evaluations.")
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="The page; by default report.html, of one run in its folder."
        ),
    ] = None,
    files: Annotated[
        bool,
        typer.Option("--files", metavar="", help="Tables as CSV and figures as SVG and PNG, too."),
    ] = False,
) -> None:
    """Write one HTML page of runs: what they learned, what it cost, and every transcript.

    Runs whose configurations differ by the seed alone are shown as one.
    """
    from llm_decpomdp.benchmarks.cli.console import exit_codes, prepare_process

    prepare_process()
    with exit_codes():
        from llm_decpomdp.benchmarks.report.document import report as write

        print(write(runs, output, files))


@app.command(rich_help_panel="Start", epilog="Example: llm-decpomdp play bugfix-v0 --policy gold")
def play(
    env_id: Annotated[
        str | None,
        typer.Argument(
            help="An environment of `list`, or your own as MODULE:ID; by default the team's."
        ),
    ] = None,
    agent: Annotated[
        str | None, typer.Option(help="The agent that you are; by default the last one.")
    ] = None,
    team: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="A run or a saved team, which plays all agents, or all but --agent.",
        ),
    ] = None,
    partner: Annotated[
        str, typer.Option(help="Who the others are: gold, random, or a model.")
    ] = "gold",
    policy: Annotated[
        str | None,
        typer.Option(help="Who all agents are: gold, random, or a model. You only watch."),
    ] = None,
    task_id: Annotated[str | None, typer.Option(help="The problem; drawn if not given.")] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Decides the drawn problem.")] = None,
    num_turns: Annotated[
        int | None,
        typer.Option(min=1, help="Turns of the episode; the environment's own if not given."),
    ] = None,
    num_agents: Annotated[int | None, typer.Option(help="Size of the team.")] = None,
    source: Annotated[str | None, typer.Option(help="Where the problems come from.")] = None,
    split: Annotated[
        str | None,
        typer.Option(
            help="Which problems, such as test[:16]; by default the usual, of a run the held-out."
        ),
    ] = None,
    external_mode: Annotated[
        str | None, typer.Option(help="What comes after a turn, such as level_feedback or plain.")
    ] = None,
    env_option: EnvOptions = None,
    show_all: Annotated[
        bool,
        typer.Option(
            "--all", metavar="", help="Show what all agents see and write, and the hidden tests."
        ),
    ] = False,
    file: Annotated[
        list[Path] | None,
        typer.Option(help="Read your answer from a file; one for each turn, then you type."),
    ] = None,
    base_url: Annotated[
        str | None,
        typer.Option(metavar="URL", help="The server of the model, where it is behind an API."),
    ] = None,
    key_variable: Annotated[
        str | None,
        typer.Option(
            metavar="VARIABLE",
            help="The environment variable with its key; alone it means OpenAI's own API.",
        ),
    ] = None,
) -> None:
    """Play an episode as one of the agents, or watch a policy or a trained team play it.

    Type an answer, and end it with a line that is a single dot.
    """
    from llm_decpomdp.benchmarks.cli.console import exit_codes, prepare_process
    from llm_decpomdp.benchmarks.cli.play import Game, play_episode

    prepare_process()
    with exit_codes():
        play_episode(
            Game(
                env_id,
                agent=agent,
                partner=partner,
                policy=policy,
                team=team,
                task_id=task_id,
                seed=seed,
                env_options=env_option or (),
                num_turns=num_turns,
                num_agents=num_agents,
                source=source,
                split=split,
                external_mode=external_mode,
                files=file or (),
                show_all=show_all,
                base_url=base_url,
                key_variable=key_variable,
            )
        )


@app.command(
    rich_help_panel="After a run", epilog="Example: llm-decpomdp export runs/a --pairs --to jsonl"
)
def export(
    run: Annotated[Path, typer.Argument(metavar="FOLDER", help="A run or an evaluation.")],
    to: Annotated[str, typer.Option(help="parquet, jsonl or hub-folder.")] = "parquet",
    output: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="A new folder; by default in the run's.")
    ] = None,
    pairs: Annotated[
        bool, typer.Option("--pairs", metavar="", help="Preference pairs instead of trajectories.")
    ] = False,
    min_margin: Annotated[
        float, typer.Option(min=0, help="The least difference in reward of a pair.")
    ] = 0,
) -> None:
    """Write episodes as a data set: trajectories, or the best against the worst of each group."""
    from llm_decpomdp.benchmarks.cli.console import exit_codes, prepare_process
    from llm_decpomdp.benchmarks.export import write as exporting

    prepare_process()
    with exit_codes():
        made = exporting.export(run, to, output, as_pairs=pairs, min_margin=min_margin)
        for split, count in made.rows.items():
            print(f"{split}: {count} rows")
        print(made.folder)


@app.command("list", rich_help_panel="Start")
def list_() -> None:
    """Show the environments and the configurations."""
    from llm_decpomdp.benchmarks.config.catalogue import description, shipped
    from llm_decpomdp.registry import registered, spec

    width = max(map(len, [*shipped(), *registered()]))
    print("Environments: llm_decpomdp.make(ID)\n")
    for env_id in registered():
        print(f"{env_id:<{width}}  {spec(env_id).entry_point}")
    print("\nConfigurations: llm-decpomdp train --config NAME\n")
    for name, path in shipped().items():
        print(f"{name:<{width}}  {description(path)}")


@app.command(rich_help_panel="Start")
def doctor() -> None:
    """Check what works on this machine, and say how to get the rest."""
    from llm_decpomdp.benchmarks.cli.console import prepare_process
    from llm_decpomdp.benchmarks.doctor.examine import examine

    prepare_process()
    raise SystemExit(0 if examine() else 1)


@app.command(
    rich_help_panel="Data", epilog="Example: llm-decpomdp audit classeval-v0 --output audit.json"
)
def audit(
    env_id: Annotated[str, typer.Argument(help="An environment of `list` with tests.")],
    source: Annotated[str, typer.Option(help="Where the problems come from.")] = "auto",
    split: Annotated[
        str | None, typer.Option(help="Which of them, such as test[16:]; by default the usual.")
    ] = None,
    episodes: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Grade the programs of a run's episodes.jsonl too."),
    ] = None,
    repeats: Annotated[int, typer.Option(help="How often each program is graded.")] = 3,
    as_json: Annotated[bool, typer.Option("--json", metavar="", help="Print JSON.")] = False,
    output: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Save the result as JSON, too.")
    ] = None,
) -> None:
    """Check a data set: references, tests, chance, and whether the examples agree with the tests.

    The exit code is 1 if there are faults that no known issue explains.
    """
    from llm_decpomdp.benchmarks.audit import run as auditing
    from llm_decpomdp.benchmarks.cli.console import exit_codes, prepare_process

    prepare_process()
    with exit_codes():
        result = auditing.audit(env_id, source, split, episodes, repeats)
        if output is not None:
            auditing.save(result, output)
        if as_json:
            print(auditing.as_json(result))
        else:
            auditing.show(result)
        raise SystemExit(0 if result.healthy else 1)


WITH_MODELS = ("train", "demo", "eval", "play", "crossplay")
"""Commands in whose process models compute."""


def spread(arguments: Sequence[str]) -> list[str]:
    """Repeat `--override` before each of several values, as the parser wants it.

    Examples:
        >>> spread(["train", "--override", "a=1", "b=2", "--config", "demo"])
        ['train', '--override', 'a=1', '--override', 'b=2', '--config', 'demo']
    """
    result: list[str] = []
    values = -1  # since the last --override; -1 elsewhere
    for argument in arguments:
        if argument.startswith("-"):
            values = 0 if argument == "--override" else -1
        elif values >= 0:
            values += 1
            if values > 1:
                result.append("--override")
        result.append(argument)
    return result


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command.

    Args:
        arguments: The command line; by default that of the process, which may be started anew.
    """
    if arguments is None and sys.argv[1:] and sys.argv[1] in WITH_MODELS:
        from llm_decpomdp.benchmarks.runs.environment import restart_with_settings

        restart_with_settings()
    app(spread(sys.argv[1:] if arguments is None else arguments), prog_name="llm-decpomdp")


if __name__ == "__main__":
    main()
