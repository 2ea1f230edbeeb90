"""The command `publish`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from llm_decpomdp.benchmarks.cli.completion import complete_run
from llm_decpomdp.benchmarks.cli.console import Checkpoint, EnvOptions, Public, Push
from llm_decpomdp.benchmarks.cli.output import give_result
from llm_decpomdp.benchmarks.config.errors import ConfigError, raise_run_errors


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
    if push is not None:
        hub.check_repository(push)
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
