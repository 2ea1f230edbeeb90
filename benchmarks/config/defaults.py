"""Defaults of a configuration: its environment is as `make` builds it from the id alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from llm_decpomdp.benchmarks.config.errors import ConfigError
from llm_decpomdp.benchmarks.config.schema import OWNERS, SIZES, EnvConfig, type_of
from llm_decpomdp.registry import defaults

ARGUMENTS = {
    key: "external_mode" if key == "external.mode" else name
    for key, (_, name) in OWNERS.items()
    if key.startswith(("env.", "external.")) and key not in ("env.id", "env.options")
}
"""Keys that are arguments of the environment, and the arguments."""


def own_defaults(env_id: str) -> dict[str, Any]:
    """Return the defaults of an environment's arguments, by the keys of a configuration that can hold them.

    Raises:
        ImportError: If the module of the id cannot be imported.
        KeyError: If there is no such environment.
    """
    values = defaults(env_id)
    return {
        key: values[name]
        for key, name in ARGUMENTS.items()
        if name in values and (values[name] is not None or type_of(key).endswith("or null"))
    }


def above_defaults(layers: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Put layers above the defaults of their environment, which the last layer with an `env.id` names.

    Values for another environment or another source are dropped: sizes below that layer, where the environment
    lacks these arguments; and a split below the layer that gives it a source of its own, of which it then is the
    whole.

    Args:
        layers: Dotted keys and values; later layers win.

    Raises:
        ConfigError: If there is no such environment.
    """
    ids = [layer["env.id"] for layer in layers if "env.id" in layer] or [EnvConfig.id]
    if not isinstance(ids[-1], str):
        return [*layers]  # which `_merge` refuses
    try:
        values = own_defaults(ids[-1])
    except (KeyError, ImportError) as error:
        raise ConfigError(str(error.args[0])) from None
    sizes = [key for key in map("env.{}".format, SIZES) if key not in values]
    layers = _without_below("env.id", layers, sizes)
    for part in ("train", "eval"):
        source, split = f"dataset.{part}_source", f"dataset.{part}_split"
        if any(layer.get(source) for layer in layers):
            layers = _without_below(source, layers, [split])
            values[split] = "all"
    return [values, *layers]


def _without_below(
    key: str, layers: Sequence[Mapping[str, Any]], dropped: Sequence[str]
) -> list[Mapping[str, Any]]:
    """Remove the keys `dropped` from the layers below the last one that gives `key` a value."""
    last = max((number for number, layer in enumerate(layers) if layer.get(key)), default=0)
    below = [{k: v for k, v in layer.items() if k not in dropped} for layer in layers[:last]]
    return [*below, *layers[last:]]
