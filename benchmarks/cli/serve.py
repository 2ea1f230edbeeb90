"""The command `serve`."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from typing import Annotated

from typer import Option

from llm_decpomdp.benchmarks.cli.console import EnvId, EnvOptions
from llm_decpomdp.benchmarks.config.errors import ConfigError, raise_config_errors
from llm_decpomdp.utils.extras import how_to_get, installed


def serve(
    env_id: EnvId,
    seat: Annotated[
        str | None,
        Option(help="The agent that clients play; they play the whole team if none is given."),
    ] = None,
    partner: Annotated[
        list[str] | None,
        Option(
            metavar="AGENT=WHO",
            help="Who plays another agent beside the seat: gold, random, or a model.",
        ),
    ] = None,
    env_option: EnvOptions = None,
    host: Annotated[
        str, Option(help="The address to listen at; by default this machine alone reaches it.")
    ] = "127.0.0.1",
    port: Annotated[int, Option(min=0, max=65535, help="The port.")] = 8000,
    max_sessions: Annotated[
        int, Option(min=1, help="Most sessions at the same time; others are refused.")
    ] = 64,
    name: Annotated[
        list[str] | None,
        Option(help="A name by which clients reach it, beside localhost and addresses."),
    ] = None,
) -> None:
    """Serve an environment to clients of OpenEnv, which need nothing of this package."""
    from llm_decpomdp.benchmarks.cli.episode import make_policy
    from llm_decpomdp.benchmarks.evaluation.request import env_arguments

    names = _names(partner or ())
    # Clients that play the whole team leave nobody to be played by a partner.
    if names and seat is None:
        raise ConfigError(f"partners {sorted(names)} play beside a seat: name it with --seat")
    if installed("openenv") is None:
        raise ConfigError(f"this needs openenv, which is not installed: {how_to_get('openenv')}")
    # The port comes first: loading a model takes a minute, a wrong port a moment.
    listener = _listener(host, port)
    from llm_decpomdp.integrations import openenv
    from llm_decpomdp.integrations.openenv.guard import make_server

    partners = {agent: make_policy(policy, None, None) for agent, policy in names.items()}
    options = env_arguments(env_option or ())
    with raise_config_errors():
        application = openenv.app(
            env_id,
            seat=seat,
            partners=partners,
            max_sessions=max_sessions,
            names=name or (),
            **options,
        )
    make_server(application, max_sessions).run(sockets=[listener])


def _listener(host: str, port: int) -> socket.socket:
    """Open the port before anything is loaded; raise a `ConfigError` if it cannot be had."""
    # `create_server` does not tell the family from the address.
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except OSError as error:
        raise ConfigError(
            f"cannot listen on {host}, port {port}: {error.strerror}. Choose another --port (0 takes a free port) "
            "or --host"
        ) from None


def _names(items: Sequence[str]) -> dict[str, str]:
    """Read who plays beside the seat, by agent; raise a `ConfigError` for another form, or an agent twice."""
    names: dict[str, str] = {}
    for item in items:
        agent, _, policy = item.partition("=")
        if not agent or not policy:
            raise ConfigError(f"--partner must look like AGENT=gold, got {item!r}")
        if agent in names:
            raise ConfigError(f"--partner names {agent!r} twice: {names[agent]!r} and {policy!r}")
        names[agent] = policy
    return names
