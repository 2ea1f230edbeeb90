"""Building of environments by their ids, which `specs.py` holds."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable
from functools import partial
from typing import Any

from llm_decpomdp.env import DecPOMDPEnv
from llm_decpomdp.interfaces import MODES
from llm_decpomdp.plugins import is_added, replace_part
from llm_decpomdp.specs import origin, spec
from llm_decpomdp.validation import unknown

WRAPPERS = {
    "centralized": "llm_decpomdp.wrappers.centralized:centralize",
    "channel": "llm_decpomdp.wrappers.channel:add_channel",
    "order": "llm_decpomdp.wrappers.turn_order:set_order",
    "other_play": "llm_decpomdp.wrappers.other_play:rename_for_agents",
}
"""Optional wrappers by argument of `make`: a function from the environment and the argument's value to the wrapped
environment. They are applied in this order, and loaded at first use."""

OLD_ARGUMENTS = {"centralised": "centralized"}
"""Former spellings of arguments of `make`."""


def make(id: str, *, reward: str | None = None, **kwargs: Any) -> DecPOMDPEnv:
    """Build an environment.

    Args:
        id: A registered id, such as `coophumaneval-v0`; `module:id` to first import the module that registers it;
            or a game of another library, such as `openspiel:tiny_hanabi`.
        reward: Your own reward: `module:NAME` of a function from the environment's reward to yours, or the name of
            one in an installed package.
        **kwargs: Arguments of the environment, which override the registered defaults. Your own `external_mode` is
            such a name too, of a function from the environment's mode to yours. Every environment also takes the
            arguments of `WRAPPERS`: `centralized=True` replaces all agents by one, `team_0`
            (`llm_decpomdp.wrappers.centralized`), `channel={...}` lets agents send each other messages (with the
            fields of `llm_decpomdp.wrappers.channel.ChannelOptions`; without any there is no channel),
            `order=["aux_0", "main_0"]` lets them act one after the other (`llm_decpomdp.wrappers.turn_order`), and
            `other_play=True` renames interchangeable words for each agent (`llm_decpomdp.wrappers.other_play`).

    Raises:
        ImportError: If a module cannot be imported.
        KeyError: If the id or the reward is unknown.
        TypeError: If an argument is unknown (names the nearest valid one), or a part cannot be replaced.
        ValueError: If an argument has a bad value.
    """
    # Older configurations and run folders have the former spelling.
    kwargs = {OLD_ARGUMENTS.get(key, key): value for key, value in kwargs.items()}
    wrappers = {key: kwargs.pop(key) for key in WRAPPERS if key in kwargs}
    parts = {} if reward is None else {"reward": reward}
    mode = kwargs.get("external_mode")
    if mode not in (*MODES, defaults(id).get("external_mode")) and is_added("mode", mode):
        parts["mode"] = kwargs.pop("external_mode")
    for key in kwargs:
        if not accepts_argument(id, key):
            valid = [*inspect.signature(_builder(id)).parameters, *WRAPPERS]
            raise TypeError(f"{id}: {unknown('argument', key, valid)}")
    # Both the caller's arguments and the registered defaults are recorded, so that a run can be repeated.
    arguments = {**spec(id).kwargs, **kwargs}
    env: DecPOMDPEnv = _builder(id)(**arguments)
    bare = env.unwrapped
    for kind, name in parts.items():
        replace_part(bare, kind, name)
        arguments["external_mode" if kind == "mode" else kind] = name
    bare.spec_id, bare.spec_kwargs, bare.description = id, arguments, description(id)
    for key, value in wrappers.items():
        # Off. Its module may not exist, and configurations pass every argument, mostly defaults.
        if value is None or value is False or value in ({}, "simultaneous"):
            continue
        module, _, function = WRAPPERS[key].partition(":")
        env = getattr(importlib.import_module(module), function)(env, value)
    return env


def description(id: str) -> str:
    """Describe the task of the agents of an environment; errors as of `make`.

    Returns:
        The first paragraph under `## Description` in the docstring of the function that builds the environment, or
        else the docstring's first paragraph; empty if there is none.
    """
    build = _builder(id)
    text = inspect.getdoc(build.func if isinstance(build, partial) else build) or ""
    _, _, described = text.partition("## Description\n")
    return " ".join((described or text).partition("\n\n")[0].split())


def accepts_argument(id: str, argument: str) -> bool:
    """Check whether an environment has an argument of this name; errors as of `make`."""
    parameters = inspect.signature(_builder(id)).parameters
    return argument in parameters or any(p.kind is p.VAR_KEYWORD for p in parameters.values())


def defaults(id: str) -> dict[str, Any]:
    """Return the arguments of an environment that have a default, with the defaults that `make(id)` uses.

    Raises:
        ImportError, KeyError: As `make`.
    """
    parameters = inspect.signature(_builder(id)).parameters.values()
    values = {p.name: p.default for p in parameters if p.default is not p.empty}
    return {**values, **spec(id).kwargs}


def _builder(id: str) -> Callable[..., DecPOMDPEnv]:
    """Load the function that builds an environment."""
    entry = spec(id)
    module, _, name = entry.entry_point.partition(":")
    try:
        build: Callable[..., DecPOMDPEnv] = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        package = origin(id)
        if package is None:
            raise
        raise ImportError(
            f"the environment {entry.id!r} of the package {package}: {error}"
        ) from error
    return build
