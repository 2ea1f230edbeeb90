"""Registered environments: their ids and entry points, and `make`, which builds them.

Wherever an id is accepted, `module:id` first imports `module`, which registers the id (`docs/plugins.md`). Ids of
games of another library begin with the name of their collection, such as `openspiel:tiny_hanabi`.
"""

from __future__ import annotations

import importlib
import inspect
import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import partial
from traceback import extract_tb
from typing import Any

import pettingzoo

from llm_decpomdp.env import DecPOMDPEnv
from llm_decpomdp.interfaces import MODES
from llm_decpomdp.plugins import (
    entry_point_plugins,
    import_by_name,
    is_added,
    only,
    replace_part,
)
from llm_decpomdp.utils.text import warn
from llm_decpomdp.validation import unknown

ID_PATTERN = re.compile(r"[a-z][a-z0-9_-]*-v\d+")

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
        ValueError: If an argument has a bad value, or your own function fails (names its file and line).
    """
    # Older configurations and run folders have the former spelling.
    kwargs = {OLD_ARGUMENTS.get(key, key): value for key, value in kwargs.items()}
    wrappers = {key: kwargs.pop(key) for key in WRAPPERS if key in kwargs}
    parts = {} if reward is None else {"reward": reward}
    if not isinstance(reward, str | None):
        raise TypeError(f"reward must be a text such as 'module:NAME', got {reward!r}")
    mode = kwargs.get("external_mode")
    if mode not in (*MODES, defaults(id).get("external_mode")) and is_added("mode", mode):
        parts["mode"] = kwargs.pop("external_mode")
    for key in kwargs:
        if not accepts_argument(id, key):
            valid = [*inspect.signature(_builder(id)).parameters, *WRAPPERS]
            raise TypeError(f"{id}: {unknown('argument', key, valid)}")
    # Both the caller's arguments and the registered defaults are recorded, so that a run can be repeated.
    arguments = {**spec(id).kwargs, **kwargs}
    env = _build(id, arguments)
    bare = env.unwrapped
    for kind, name in parts.items():
        replace_part(bare, kind, name)
        arguments["external_mode" if kind == "mode" else kind] = name
    bare.spec_id, bare.description = id, description(id)
    # On both: the function of `id` may have put a wrapper around the environment, whose argument is none of `id`.
    env.spec_kwargs = bare.spec_kwargs = arguments
    for key, value in wrappers.items():
        # Off. Its module may not exist, and configurations pass every argument, mostly defaults.
        if value is None or value is False or value in ({}, "simultaneous"):
            continue
        module, _, function = WRAPPERS[key].partition(":")
        env = getattr(importlib.import_module(module), function)(env, value)
        env.unwrapped.spec_kwargs = env.spec_kwargs
    return env


def make_family(id: str, **kwargs: Any) -> DecPOMDPEnv:
    """Build an environment as `make`, for commands and configurations, which need its tasks and other parts.

    Raises:
        TypeError: If it has no parts, as a parallel environment of another library; and as `make`.
    """
    env = make(id, **kwargs)
    if not isinstance(env.unwrapped, DecPOMDPEnv):
        raise TypeError(
            f"{id} builds a {type(env).__name__}, and commands need an environment with tasks, roles, a reward "
            "and a mode (docs/plugins.md): write one, or train in Python as examples/own_environment.py does"
        )
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


def _build(id: str, arguments: dict[str, Any]) -> DecPOMDPEnv:
    """Call the function of an environment; raise a `ValueError` with its line if one of another package fails."""
    build = _builder(id)
    try:
        env = build(**arguments)
    except ImportError:  # it names the package to install
        raise
    except Exception as error:
        # Another package's function may raise anything, such as a bare KeyError.
        if spec(id).entry_point.startswith(f"{__name__.partition('.')[0]}."):
            raise
        frames = extract_tb(error.__traceback__)
        inside = [frame for frame in frames if frame.filename == inspect.getsourcefile(build)]
        place = (inside or frames)[-1]
        raise ValueError(
            f"{id} with {arguments}: {type(error).__name__}: {error} ({place.filename}, line {place.lineno})"
        ) from error
    if not hasattr(env, "unwrapped"):
        raise TypeError(f"the function of {id!r} must return an environment, got {env!r}")
    return env


def _builder(id: str) -> Callable[..., DecPOMDPEnv]:
    """Load the function that builds an environment."""
    entry = spec(id)
    module, _, name = entry.entry_point.partition(":")
    try:
        build: Callable[..., DecPOMDPEnv] = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        package = origin(id)
        if package is None and isinstance(error, AttributeError):
            raise ImportError(f"{id!r} is registered to {entry.entry_point!r}: {error}") from error
        if package is None:
            raise
        raise ImportError(
            f"the environment {entry.id!r} of the package {package}: {error}"
        ) from error
    return build


# Ids


@dataclass(frozen=True)
class EnvSpec:
    """A registered environment."""

    id: str
    entry_point: str
    """`module:function` of a function that builds the environment from keyword arguments."""
    kwargs: dict[str, Any] = field(default_factory=dict)
    """Default arguments, JSON-able."""
    summary: str = field(default="", compare=False)
    """What the team does, in one sentence; empty if it was registered without."""


_registry: dict[str, EnvSpec] = {}

_collections: dict[str, str] = {}
"""Entry points of collections by name."""


def register(id: str, entry_point: str, *, summary: str = "", **kwargs: Any) -> None:
    """Add an environment, also to PettingZoo's registry if it has one (as `llm_decpomdp/<id>`).

    Args:
        id: `name-vN`.
        entry_point: `module:function`, loaded when an environment is first made.
        summary: What the team does, in one sentence, which `llm-decpomdp list` shows.
        **kwargs: Default arguments of the function, JSON-able.

    Raises:
        ValueError: If the id, the entry point or an argument has the wrong form, or the id is taken.
    """
    if not ID_PATTERN.fullmatch(id):
        raise ValueError(f"id must look like 'name-v0' in lower case, got {id!r}")
    if ":" not in entry_point:
        raise ValueError(
            f"entry_point must look like 'package.module:function', got {entry_point!r}"
        )
    try:
        json.dumps(kwargs)
    except TypeError as error:
        raise ValueError(f"the default arguments of {id!r} must be JSON-able: {error}") from None
    entry = EnvSpec(id, entry_point, kwargs, summary)
    if _registry.get(id, entry) != entry:
        raise ValueError(f"{id!r} is already registered to {_registry[id].entry_point!r}")
    # PettingZoo refuses an id that it already has, and a module may be imported twice.
    if id not in _registry and hasattr(pettingzoo, "register"):  # PettingZoo 1.27 and later
        pettingzoo.register(
            "parallel",
            f"llm_decpomdp/{id}",
            entry_point="llm_decpomdp.registry:make",
            kwargs={"id": id, **kwargs},
        )
    _registry.setdefault(id, entry)


def register_collection(name: str, entry_point: str) -> None:
    """Add the games of another library: `NAME:GAME` is then the id of each.

    Args:
        name: Name of the collection. A module of this name is hidden from ids of the form `module:id`.
        entry_point: `module:function`. The function takes the argument `game`, the text after the colon.
    """
    _collections[name] = entry_point


def is_id(text: str) -> bool:
    """Check whether a text has the form of an id, as one in place of a path."""
    name = text.rpartition(":")[2]
    return text.partition(":")[0] in _collections or ID_PATTERN.fullmatch(name) is not None


def spec(id: str) -> EnvSpec:
    """Return the registered environment of this id.

    Args:
        id: A registered id, `module:id` to first import the module that registers it, or `collection:game`.

    Raises:
        ImportError: If the module cannot be imported.
        KeyError: If there is no such id (names the nearest one), or if two packages provide it.
    """
    if not isinstance(id, str):
        raise TypeError(
            f"the id of an environment is a text, such as 'coophumaneval-v0', got {id!r}"
        )
    collection, _, game = id.partition(":")
    if collection in _collections:
        return EnvSpec(id, _collections[collection], {"game": game})
    module, _, name = id.rpartition(":")
    remedy = f"One of your own is 'module:{name}', by the module that registers it"
    if ":" in id:
        file = getattr(import_by_name(module, id), "__file__", None)
        for plugin in entry_point_plugins("environment"):
            if plugin.full_name == id:
                fresh = EnvSpec(name, plugin.path)
                entry = _registry.get(name, fresh)
                # The plain name may be registered to another package. The full name means this one.
                return entry if entry.entry_point == plugin.path else fresh
    # Only for unknown ids: reading all entry points is slow in large installations.
    if name not in _registry:
        _register_entry_points()
    if name not in _registry:
        if is_added("environment", name):
            only("environment", name)  # raises, since two packages provide it
        if module:
            raise KeyError(
                f"{id!r}: the module {module!r} ({file}) registers no environment {name!r}"
                f"{_hint_of_own(name)}: call llm_decpomdp.register({name!r}, '{module}:FUNCTION') in it, outside "
                "of functions; FUNCTION builds the environment"
            )
        listing = "`llm-decpomdp list` shows all"
        raise KeyError(f"{unknown('environment', name, _registry, listing)}. {remedy}")
    return _registry[name]


def _hint_of_own(name: str) -> str:
    """Return a hint at the nearest id of other packages, for errors; empty if none is near."""
    package = __name__.partition(".")[0]
    foreign_ids = [id for id, e in _registry.items() if not e.entry_point.startswith(f"{package}.")]
    near = get_close_matches(name, foreign_ids, cutoff=0.5)
    return f" (did you mean {near[0]!r}?)" if near else ""


def _register_entry_points() -> None:
    """Register the environments that exactly one installed package provides, except those whose id is taken."""
    for plugin in entry_point_plugins("environment"):
        entry = _registry.get(plugin.name)
        if entry is not None and entry.entry_point == plugin.path:
            continue
        try:
            register(plugin.name, only("environment", plugin.name).path)
        except (KeyError, ValueError) as error:
            warn(f"an environment of the package {plugin.origin} is left out: {error.args[0]}")


def origin(id: str) -> str | None:
    """Return the package whose entry point provides an environment, with its version; errors as of `spec`."""
    entry = spec(id)
    for plugin in entry_point_plugins("environment"):
        if (plugin.name, plugin.path) == (entry.id, entry.entry_point):
            return plugin.origin
    return None


def registered_ids() -> list[str]:
    """Return all ids, including those of installed packages, sorted."""
    _register_entry_points()
    return sorted(_registry)


def pprint_registry(*, disable_print: bool = False) -> str | None:
    """Print the registered ids with their entry points, or return them as text with `disable_print`."""
    width = max(map(len, _registry), default=0)
    text = "\n".join(f"{id:<{width}}  {_registry[id].entry_point}" for id in registered_ids())
    if disable_print:
        return text
    print(text)
    return None
