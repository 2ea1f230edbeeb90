"""The command `play`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from llm_decpomdp.benchmarks.cli.options import START, Command, EnvOptions

app = typer.Typer()


@app.command(
    cls=Command, rich_help_panel=START, epilog="Example: llm-decpomdp play bugfix-v0 --policy gold"
)
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
        typer.Option("--all", help="Show what all agents see and write, and the hidden tests."),
    ] = False,
    file: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE", help="Read your answer from a file; one for each turn, then you type."
        ),
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
    from llm_decpomdp.benchmarks.cli.episode import Game, play_episode

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
