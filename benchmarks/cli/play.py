"""The command `play`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from llm_decpomdp.benchmarks.cli.console import AllowEndpoint, EnvOptions, complete_environment
from llm_decpomdp.benchmarks.config.errors import ConfigError, raise_config_errors


def play(
    env_id: Annotated[
        str | None,
        Argument(
            help="An environment of `list`, or your own as MODULE:ID; by default the team's.",
            autocompletion=complete_environment,
        ),
    ] = None,
    agent: Annotated[
        str | None, Option(help="The agent that you are; by default the last one.")
    ] = None,
    team: Annotated[
        Path | None,
        Option(
            metavar="FOLDER",
            help="A run or a saved team, which plays all agents, or all but --agent.",
        ),
    ] = None,
    partner: Annotated[str, Option(help="Who the others are: gold, random, or a model.")] = "gold",
    policy: Annotated[
        str | None, Option(help="Who all agents are: gold, random, or a model. You only watch.")
    ] = None,
    task_id: Annotated[str | None, Option(help="The problem; drawn if not given.")] = None,
    seed: Annotated[int | None, Option(min=0, help="Decides the drawn problem.")] = None,
    num_turns: Annotated[
        int | None, Option(min=1, help="Turns of the episode; the environment's own if not given.")
    ] = None,
    num_agents: Annotated[int | None, Option(help="Size of the team.")] = None,
    source: Annotated[str | None, Option(help="Where the problems come from.")] = None,
    split: Annotated[
        str | None,
        Option(
            help="Which problems, such as test[:16]; by default the usual, of a run the held-out."
        ),
    ] = None,
    external_mode: Annotated[
        str | None, Option(help="What comes after a turn, such as level_feedback or plain.")
    ] = None,
    env_option: EnvOptions = None,
    show_all: Annotated[
        bool, Option("--all", help="Show what all agents see and write, and the hidden tests.")
    ] = False,
    file: Annotated[
        list[Path] | None,
        Option(
            metavar="FILE",
            help="Read your answers from files, one for each turn; after the last file, you type.",
        ),
    ] = None,
    base_url: Annotated[
        str | None,
        Option(metavar="URL", help="The server of the model, where it is behind an API."),
    ] = None,
    key_variable: Annotated[
        str | None,
        Option(
            metavar="VARIABLE",
            help="The environment variable with its key; alone it means OpenAI's own API.",
        ),
    ] = None,
    allow_endpoint: AllowEndpoint = None,
) -> None:
    """Play an episode as one of the agents, or watch a policy or a trained team play it.

    Type an answer, and end it with a line that is a single dot.
    """
    from llm_decpomdp.benchmarks.cli.episode import (
        load_run_team,
        make_policy,
        play_episode,
        read_answers,
        require_agent,
    )
    from llm_decpomdp.benchmarks.evaluation.request import env_arguments
    from llm_decpomdp.registry import make_family

    # Checked at once and before anything is loaded: models take minutes.
    mistakes = {
        "name an environment of `llm-decpomdp list`, or a run with --team": not (env_id or team),
        "--policy and --partner name gold, random, or a model, and one is empty": ""
        in (policy, partner),
        "--policy and --team exclude each other: each plays all agents": policy and team,
        "--policy plays all agents: leave out --agent and --file": policy and (agent or file),
        "--team says itself where its models are: leave out --base-url": team
        and (base_url or key_variable),
        "--team plays all agents: say with --agent which one your --file is of": team
        and file
        and not agent,
    }
    for text, wrong in mistakes.items():
        if wrong:
            raise ConfigError(text)
    texts = read_answers(file or ())
    options = {
        "num_turns": num_turns,
        "num_agents": num_agents,
        "source": source,
        "split": split,
        "external_mode": external_mode,
    }
    arguments = env_arguments(env_option or ())
    arguments |= {name: value for name, value in options.items() if value is not None}
    if team is not None:
        env, players = load_run_team(team, env_id, arguments, allow_endpoint or (), agent)
    else:
        with raise_config_errors():
            env = make_family(str(env_id), **arguments)  # the first mistake excludes None
        require_agent(env, agent)
        player = make_policy(policy or partner, base_url, key_variable)
        players = dict.fromkeys(env.possible_agents, player)
    # A person types only where some agent is left to them.
    watched = policy is not None or (team is not None and agent is None)
    person = None if watched else agent or env.possible_agents[-1]
    play_episode(env, players, person, texts, task_id=task_id, seed=seed, show_all=show_all)
