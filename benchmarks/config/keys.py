"""Dotted keys of a configuration, such as `algorithm.rollout.mode`: declarations, sections and values.

They follow from the classes of `schema.py`, which declares the keys.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import Field as DataclassField
from dataclasses import fields
from typing import Any

from llm_decpomdp.benchmarks.config.schema import AlgorithmConfig, Config
from llm_decpomdp.option_texts import type_in_words
from llm_decpomdp.options import Options, default_of, names, sections_of


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
