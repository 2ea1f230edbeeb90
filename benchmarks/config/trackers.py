"""Trackers of a configuration: their names, options and packages."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from typing import Any

from llm_decpomdp.benchmarks.config.errors import ConfigError
from llm_decpomdp.plugins import entry_point_plugins, find, is_added
from llm_decpomdp.validation import unknown

TRACKERS = ("tensorboard", "wandb", "trackio")
"""Names of trackers and of the packages that they need."""


def check_trackers(wanted: Mapping[str, Any]) -> None:
    """Raise a `ConfigError` for an unknown tracker or an invalid value."""
    for name, options in wanted.items():
        if name not in TRACKERS and not is_added("tracker", name):
            names = [*TRACKERS, *(plugin.name for plugin in entry_point_plugins("tracker"))]
            text = unknown("tracker in output.trackers", name, names)
            raise ConfigError(f"{text}. One of your own is 'module:NAME'")
        if not isinstance(options, (bool, Mapping)):
            raise ConfigError(
                f"output.trackers.{name} must be true, false or options such as {{project: mine}}, "
                f"got {options!r}"
            )


def options_of(wanted: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the options of each tracker that is on.

    Examples:
        >>> options_of({"tensorboard": True, "wandb": False, "trackio": {"project": "mine"}})
        {'tensorboard': {}, 'trackio': {'project': 'mine'}}
    """
    return {
        name: {} if options is True else dict(options)
        for name, options in wanted.items()
        if options is not False
    }


def tracker_class(name: str) -> Any:
    """Return the class of somebody else's tracker, called with the run's folder, its configuration and options.

    Raises:
        ConfigError: If it cannot be imported.
    """
    try:
        return find("tracker", name, TRACKERS)
    except (KeyError, ImportError) as error:
        raise ConfigError(f"output.trackers: {error.args[0]}") from None


def require_packages(wanted: Mapping[str, Any]) -> None:
    """Raise a `ConfigError` where the package of a tracker is missing."""
    for name in options_of(wanted):
        if name not in TRACKERS:
            tracker_class(name)
            continue
        spec = importlib.util.find_spec(name)
        if spec is None or spec.origin is None:  # a folder of that name is no package
            raise ConfigError(f"output.trackers: {name} is not installed: pip install {name}")
