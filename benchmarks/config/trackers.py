"""Which trackers a configuration wants, and whether it can have them."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from typing import Any

from llm_decpomdp.benchmarks.config.errors import ConfigError
from llm_decpomdp.validation import unknown

TRACKERS = ("tensorboard", "wandb", "trackio")
"""Named after the package that each needs."""


def check_trackers(wanted: Mapping[str, Any]) -> None:
    """Raise a `ConfigError` for an unknown tracker or an invalid value."""
    for name, options in wanted.items():
        if name not in TRACKERS:
            raise ConfigError(unknown("tracker in output.trackers", name, TRACKERS))
        if not isinstance(options, (bool, Mapping)):
            raise ConfigError(
                f"output.trackers.{name} must be true, false or options such as {{project: mine}}, "
                f"got {options!r}"
            )


def options_of(wanted: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The options of each tracker that is on.

    Examples:
        >>> options_of({"tensorboard": True, "wandb": False, "trackio": {"project": "mine"}})
        {'tensorboard': {}, 'trackio': {'project': 'mine'}}
    """
    on = {name: given for name, given in wanted.items() if given is not False}
    return {name: {} if given is True else dict(given) for name, given in on.items()}


def require_packages(wanted: Mapping[str, Any]) -> None:
    """Raise a `ConfigError` where the package of a tracker is missing."""
    for name in options_of(wanted):
        spec = importlib.util.find_spec(name)
        if spec is None or spec.origin is None:  # a folder of that name is no package
            raise ConfigError(f"output.trackers: {name} is not installed: pip install {name}")
