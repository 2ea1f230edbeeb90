"""YAML of files and of command lines: its encoding, and numbers that mean something else than they seem to."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from llm_decpomdp.benchmarks.config.errors import ConfigError
from llm_decpomdp.utils.text import read_utf8

NUMBERS = ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")

DECIMAL = re.compile(r"[-+]?(0|[1-9][0-9]*)|[-+]?[0-9]*\.[0-9]*([eE][-+]?[0-9]+)?|[-+]?\.\w+")
"""A number that everybody reads alike, such as 14, 1.5, 1.e-5 and .inf."""

TAB = "found character '\\t'"
"""Part of an error of the YAML parser where a tab stands for spaces."""


def load_yaml(path: Path) -> Any:
    """Read a YAML file.

    Raises:
        ConfigError: If it cannot be read, is not in UTF-8, is no YAML, or has a number of YAML 1.1 that seems to
            be another one, such as `014`, which is 12.
    """
    if path.is_dir():
        raise ConfigError(f"{path} is a folder: name a YAML file")
    try:
        text = read_utf8(path)
        for where, message in misleading_numbers(text):
            raise ConfigError(f"{path}, line {where}: {message}")
        return OmegaConf.to_container(OmegaConf.load(io.StringIO(text)), resolve=True)
    except (OSError, yaml.YAMLError, OmegaConfBaseException) as error:
        mark = getattr(error, "problem_mark", None)
        if mark is not None and TAB in str(error):
            raise ConfigError(
                f"cannot read {path}: line {mark.line + 1}, column {mark.column + 1} is a tab, and YAML indents "
                "only with spaces: replace it by spaces"
            ) from None
        raise ConfigError(f"cannot read {path}: {error}") from None
    except UnicodeError as error:
        raise ConfigError(str(error)) from None


def misleading_numbers(text: str) -> Iterator[tuple[int, str]]:
    """Yield the numbers that YAML 1.1 reads in another way than they seem to mean, each with its line, from 1.

    These are octal, hexadecimal, binary and sexagesimal ones, and those with underscores.

    Raises:
        YAMLError: If the text is no YAML.
    """
    for key, node in _scalars(yaml.compose(text, Loader=yaml.SafeLoader)):
        is_plain = node.style is None and node.tag in NUMBERS
        if is_plain and not DECIMAL.fullmatch(node.value):
            value = yaml.safe_load(node.value)
            place = f"{key}: " if key else ""
            yield (
                node.start_mark.line + 1,
                f"{place}{node.value} is the number {value} in YAML 1.1: write {value}, or put it in quotes if "
                "it is text",
            )


def _scalars(node: yaml.Node | None, key: str = "") -> Iterator[tuple[str, yaml.ScalarNode]]:
    """Yield the scalars of a tree by their dotted keys."""
    if isinstance(node, yaml.ScalarNode):
        yield key, node
    elif isinstance(node, yaml.SequenceNode):
        for item in node.value:
            yield from _scalars(item, key)
    elif isinstance(node, yaml.MappingNode):
        for name, value in node.value:
            yield from _scalars(name, key)
            inner = str(name.value) if isinstance(name, yaml.ScalarNode) else "?"
            yield from _scalars(value, f"{key}.{inner}" if key else inner)
