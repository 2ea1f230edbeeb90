"""Items such as `model.name=gpt2` from a command line, as a tree."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import yaml
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from llm_decpomdp.benchmarks.errors import ConfigError


def parse_overrides(items: Sequence[str]) -> dict[str, Any]:
    """A nested mapping of the items; a later item replaces an earlier one of the same key.

    Values are YAML (`false`, `1e-5`, `[1.5, 0.5]`, `{r: 8}`); Python's `None` means null too.

    Raises:
        ConfigError: If an item has no `=`, or one sets a value where another sets a part of it.
    """
    tree: dict[str, Any] = {}
    for item in items:
        key, separator, text = item.partition("=")
        if not separator or not all(key.split(".")):
            raise ConfigError(f"an override must look like section.key=value, got {item!r}")
        _put(tree, key, parse_value(text, item))
    return tree


def parse_value(text: str, item: str) -> Any:
    """The value that `text` spells.

    Raises:
        ConfigError: If `text` is no YAML; names the whole `item`.
    """
    try:
        parsed = OmegaConf.to_container(OmegaConf.from_dotlist([f"value={text}"]), resolve=True)
    except (yaml.YAMLError, OmegaConfBaseException) as error:
        reason = str(error).splitlines()[0]
        raise ConfigError(f"cannot read the value of {item!r} ({reason}); quote it") from None
    return _without_none(parsed["value"])  # type: ignore[index,call-overload]


def _without_none(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_none(element) for element in value]
    if isinstance(value, dict):
        return {key: _without_none(element) for key, element in value.items()}
    return None if value == "None" else value


def _put(tree: dict[str, Any], key: str, value: Any) -> None:
    *sections, last = key.split(".")
    node = tree
    for depth, section in enumerate(sections, 1):
        node = node.setdefault(section, {})
        if not isinstance(node, dict):
            taken = ".".join(sections[:depth])
            raise ConfigError(f"overrides {taken!r} and {key!r} exclude each other")
    if isinstance(node.get(last), dict) and not isinstance(value, dict):
        raise ConfigError(f"override {key!r} excludes others that set parts of it")
    node[last] = value
