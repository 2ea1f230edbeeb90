"""Dotted keys of a configuration, such as `algorithm.rollout.mode`: declarations, sections and values.

They follow from the classes of `schema.py`. `add_env_defaults` adds the defaults of an environment to them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import Field as DataclassField
from dataclasses import fields
from typing import Any

from llm_decpomdp.benchmarks.config.errors import ConfigError
from llm_decpomdp.benchmarks.config.schema import SIZES, AlgorithmConfig, Config, EnvConfig
from llm_decpomdp.option_texts import type_in_words
from llm_decpomdp.option_tools import sections_of
from llm_decpomdp.options import Options, default_of, names
from llm_decpomdp.registry import defaults as arguments_of


def _owners(
    owner: type[Options] = Config, prefix: str = ""
) -> Iterator[tuple[str, tuple[type[Options], str]]]:
    for name in names(owner):
        sections = sections_of(owner, name)
        for section in sections:
            yield from _owners(section, f"{prefix}{name}.")
        if not sections:
            yield prefix + name, (owner, name)


OWNERS = dict(_owners())
"""Class and name of the option behind each dotted key."""

FIELDS: dict[str, DataclassField[Any]] = {
    key: owner.__dataclass_fields__[name] for key, (owner, name) in OWNERS.items()
}
"""Declaration of each dotted key."""

KEYS = tuple(FIELDS)

SECTIONS = tuple(dict.fromkeys(key.rpartition(".")[0] for key in KEYS if "." in key))
"""Dotted names of all sections."""


OPTIONAL = tuple(
    f"algorithm.{declared.name}"
    for declared in fields(AlgorithmConfig)
    if declared.default is None and sections_of(AlgorithmConfig, declared.name)
)
"""Sections of features, which null turns off."""

SWITCHES = {
    section: key
    for key, (owner, name) in OWNERS.items()
    if (section := key.rpartition(".")[0]) and owner.switch == name
} | {"algorithm.kl": "algorithm.kl.placement"}
"""Keys that the bare values of sections set, as in `objective: gspo`; `kl: reward` is of earlier versions."""


def flatten(tree: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the values of nested mappings by dotted keys; the bare value of a section is that of its switch."""
    for name, value in tree.items():
        key = f"{prefix}{name}"
        if key in SECTIONS and isinstance(value, Mapping):
            yield from flatten(value, f"{key}.")
        elif value is not None:
            yield SWITCHES.get(key, key), value
        elif key in OPTIONAL or key not in SECTIONS:  # an empty section of a file says nothing
            yield key, None


def value_of(config: Config, key: str) -> Any:
    """Return the value of a dotted key; that of a section that is off is its default."""
    *sections, name = key.split(".")
    node: Any = config
    for section in sections:
        node = node and getattr(node, section)
    return default_of(FIELDS[key]) if node is None else getattr(node, name)


def type_of(key: str) -> str:
    """Return the type of a key's value in words."""
    return type_in_words(*OWNERS[key])


def holds_text(key: str) -> bool:
    """Check whether a key's value is text, or perhaps null."""
    return key in FIELDS and str(FIELDS[key].type).partition(" | ")[0] == "str"


ARGUMENTS = {
    key: "external_mode" if key == "external.mode" else name
    for key, (_, name) in OWNERS.items()
    if key.startswith(("env.", "external.")) and key not in ("env.id", "env.options")
}
"""Keys that are arguments of the environment, and the arguments."""


def add_env_defaults(layers: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Put layers above the defaults of their environment, which the last layer with an `env.id` names.

    Values for another environment or another source are dropped: sizes below that layer, where the environment
    lacks these arguments; and a split below the layer that gives it a source of its own, of which it then is the
    whole.
    """
    env_id = next((x["env.id"] for x in reversed(layers) if "env.id" in x), EnvConfig.id)
    if not isinstance(env_id, str):
        return [*layers]  # the check of values refuses it
    try:
        arguments = arguments_of(env_id)
    except (KeyError, ImportError) as error:  # other errors of a user's module keep their traceback
        raise ConfigError(str(error.args[0])) from None
    values = {
        key: arguments[name]
        for key, name in ARGUMENTS.items()
        # Keys that cannot be null keep their own default where the environment's is None.
        if name in arguments and (arguments[name] is not None or type_of(key).endswith("or null"))
    }
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
