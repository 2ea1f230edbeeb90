"""The commands `export`, `demonstrations`, `reward-model` and `publish`: data of runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from llm_decpomdp.benchmarks.cli.console import (
    Checkpoint,
    EnvOptions,
    Folder,
    Overrides,
    Public,
    Push,
    complete_run,
    give_result,
)
from llm_decpomdp.benchmarks.config.errors import ConfigError, check_output_file, raise_run_errors


def export(
    run: Folder,
    to: Annotated[str, Option(help="parquet, jsonl, hub-folder, or inspect for logs.")] = "parquet",
    output: Annotated[
        Path | None, Option(metavar="FOLDER", help="A new folder; by default in the run's.")
    ] = None,
    pairs: Annotated[
        bool, Option("--pairs", help="Preference pairs instead of trajectories.")
    ] = False,
    min_margin: Annotated[
        float, Option(min=0, help="Minimum difference of the returns of a pair.")
    ] = 0,
    pair_kind: Annotated[
        str, Option(help="joint, or single for pairs that differ in the completion of one agent.")
    ] = "joint",
    pairs_per_group: Annotated[int, Option(min=1, help="Most pairs of a group.")] = 1,
    card: Annotated[
        bool, Option("--card", help="Add a card with source and licenses; hub-folder has one.")
    ] = False,
    push: Push = None,
    public: Public = False,
) -> None:
    """Write episodes as a data set: trajectories, or the best against the worst of each group.

    Nothing leaves this machine without --push.
    """
    from llm_decpomdp.benchmarks.export import write as exporting
    from llm_decpomdp.benchmarks.publish import hub

    hub.check_repository(push, public=public)
    result = exporting.export(
        run,
        to,
        output,
        as_pairs=pairs,
        min_margin=min_margin,
        pair_kind=pair_kind,
        pairs_per_group=pairs_per_group,
        card=card or push is not None,
    )
    for split, count in result.rows.items():
        print(f"{split}: {count} rows")
    print(result.folder)
    address = hub.push(result.folder, push, "dataset", public=public) if push else None
    if address:
        print(address)
    give_result({"folder": result.folder, "rows": result.rows, "address": address})


def demonstrations(
    env_id: Annotated[str, Argument(metavar="ENV_ID", help="Such as mbpp-v0.")],
    split: Annotated[str, Option(help="Problems to learn from, such as train.")],
    output: Annotated[Path, Option(metavar="FILE", help="The JSONL file.")],
    source: Annotated[str, Option(help="Where the problems come from.")] = "auto",
    without: Annotated[
        list[str] | None,
        Option(
            metavar="ENV_ID[:SPLIT]",
            help="Problems that are evaluated, which are left out; may be given several times.",
        ),
    ] = None,
    min_shared: Annotated[
        float, Option(min=0, max=1, help="Least share of the tests that need both agents.")
    ] = 0.5,
    first: Annotated[
        str | None,
        Option(
            metavar="AGENT", help="It answers first, and the other reads it, as with env.order."
        ),
    ] = None,
    same_parameters: Annotated[
        bool, Option("--same-parameters", help="Helpers with the parameters of the entry function.")
    ] = False,
    kinds: Annotated[
        list[str] | None,
        Option(
            metavar="KIND ...",
            help="Only these parts of a program: expression, branch, 'loop body', statements or function.",
        ),
    ] = None,
    prefill: Annotated[
        str,
        Option(metavar="TEXT", help="Only parts that begin with this text, as with model.prefill."),
    ] = "",
    prefer_tail: Annotated[
        bool,
        Option(
            "--prefer-tail",
            help="Prefer entry functions that end with return aux(...), and avoid bodies of loops.",
        ),
    ] = False,
    programs: Annotated[
        Path | None,
        Option(
            metavar="FOLDER",
            help="A run or an evaluation of one agent, whose right programs are divided instead of references.",
        ),
    ] = None,
    per_problem: Annotated[int, Option(min=1, help="Most divisions of a problem.")] = 1,
) -> None:
    """Divide programs between two agents, check by running that both parts matter, and write a warm start."""
    from llm_decpomdp.benchmarks.export.demonstrations import write_demonstrations

    check_output_file(output, ".jsonl")
    result = write_demonstrations(
        env_id,
        split,
        output,
        source=source,
        without=without or (),
        min_shared=min_shared,
        first=first,
        same_parameters=same_parameters,
        kinds=kinds or (),
        prefill=prefill,
        prefer_tail=prefer_tail,
        programs=programs,
        per_problem=per_problem,
    )
    print("\n".join(result.lines()))
    give_result(vars(result))


def reward_model(
    pairs: Annotated[
        Path, Option(metavar="FILE", help="Pairs, as export --pairs --to jsonl writes them.")
    ],
    config: Annotated[
        str, Option(help="Name or path of the configuration whose runs are to learn from it.")
    ],
    output: Annotated[Path, Option(metavar="FOLDER", help="Where reward_model.pt goes.")],
    override: Overrides = None,
    held_out: Annotated[
        float, Option(help="Share of the tasks whose pairs judge it, between 0 and 1.")
    ] = 0.2,
    penalty: Annotated[
        float, Option(help="Weight of half the squared norm of its weights.")
    ] = 0.01,
    part_length: Annotated[
        int, Option(help="Most characters of a prompt or an answer that it reads.")
    ] = 4000,
) -> None:
    """Learn to score joint answers from pairs; train --override algorithm.reward_model=FILE learns by it."""
    from llm_decpomdp.benchmarks.config.load import find_config, read_config
    from llm_decpomdp.benchmarks.runs.reward_model import train_reward_model

    settings = read_config(find_config(config), override or ())
    options = {"held_out": held_out, "penalty": penalty, "part_length": part_length}
    path, report = train_reward_model(settings, pairs, output, **options)
    print(f"pairs: {report['pairs']}, of which held out: {report['held_out_pairs']}")
    for part, prefix in (("training", "train_"), ("held-out", "")):
        print(
            f"{part} pairs: accuracy {report[f'{prefix}accuracy']:.3f}, loss {report[f'{prefix}loss']:.3f}, Brier "
            f"score {report[f'{prefix}brier']:.3f}, calibration error "
            f"{report[f'{prefix}calibration_error']:.3f}"
        )
    print(path)
    give_result({"file": path, **report})


def publish(
    team: Annotated[
        str,
        Argument(
            metavar="TEAM|ENV_ID",
            help="A run, a saved team, or an environment of `list`.",
            autocompletion=complete_run,
        ),
    ],
    output: Annotated[
        Path | None,
        Option(
            metavar="FOLDER", help="A new folder; by default `published` in the run, or ENV_ID."
        ),
    ] = None,
    checkpoint: Checkpoint = None,
    seed_run: Annotated[
        list[Path] | None,
        Option(metavar="RUN", help="A run with another seed, which the results cover, too."),
    ] = None,
    base_model: Annotated[
        str | None,
        Option(
            metavar="OWNER/NAME", help="Name on the hub of a base model that was a local folder."
        ),
    ] = None,
    license: Annotated[
        str | None, Option(metavar="NAME", help="License of the weights, such as apache-2.0.")
    ] = None,
    env_option: EnvOptions = None,
    wheel: Annotated[
        Path | None,
        Option(metavar="FILE", help="Wheel of this package, for the entries of an environment."),
    ] = None,
    push: Push = None,
    public: Public = False,
) -> None:
    """Write what a hub needs: a trained team with its card, or entries of an environment for three hubs.

    Nothing leaves this machine without --push.
    """
    from llm_decpomdp.benchmarks.publish import hub
    from llm_decpomdp.registry import is_id

    if is_id(team) and not Path(team).exists():
        from llm_decpomdp.benchmarks.evaluation.request import env_arguments
        from llm_decpomdp.benchmarks.publish.environments import publish_environment

        if any((checkpoint, seed_run, base_model, license, push, public)):
            raise ConfigError("an environment takes only --output, --env-option and --wheel")
        folders = publish_environment(team, output, env_arguments(env_option or ()), wheel)
        for name, folder in folders.items():
            print(f"{name}: {folder}")
        give_result({"folders": folders})
        return
    from llm_decpomdp.benchmarks.publish.team import publish_team

    if env_option or wheel:
        raise ConfigError(
            f"--env-option and --wheel are for environments, and {team!r} is none of `list`"
        )
    hub.check_repository(push, public=public)
    with raise_run_errors():
        folder = publish_team(
            Path(team),
            output,
            checkpoint=checkpoint,
            seeds=seed_run or (),
            base_model=base_model,
            license_name=license,
            repository=push,
        )
    print(folder)
    address = hub.push(folder, push, "model", public=public) if push else None
    if address:
        print(address)
    give_result({"folder": folder, "address": address})
