"""The text of configurations: YAML files, `key=value` items and relative paths.

A value is YAML, with the words of Python too:

| written                                       | means                                                |
|-----------------------------------------------|------------------------------------------------------|
| `true`, `False`                               | a boolean                                            |
| `null`, `none`, `None`, `~`, nothing          | no value                                             |
| `3`, `1e-5`                                   | a number                                             |
| `[1.5, 0.5]`, `(1.5, 0.5)`                    | a list                                               |
| `{r: 8, lora_alpha: 16}`, `{}`                | a mapping, in place of the one that was there        |
| `"..."`, `'...'`                              | text, whatever it looks like                         |
| anything else, such as `test[:16]` and `a=b`  | text                                                 |
| `014`, `1:30`, `0x1f`, `1_000`                | refused: YAML 1.1 takes them for 12, 90, 31 and 1000 |

For a key that holds text, all but nothing is text as it is written: `output.name=007`. A shell takes one pair of
quotes away, so text that must stay quoted needs two: `"output.name='none'"`.
"""

from __future__ import annotations

import io
import os
import re
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import yaml
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from llm_decpomdp.agents.models.pretrained import LOCAL_MODELS
from llm_decpomdp.benchmarks.config.errors import ConfigError
from llm_decpomdp.envs.datasets.loading import ENDINGS
from llm_decpomdp.utils.text import read_utf8

NUMBERS = ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")

DECIMAL = re.compile(r"[-+]?(0|[1-9][0-9]*)|[-+]?[0-9]*\.[0-9]*([eE][-+]?[0-9]+)?|[-+]?\.\w+")
"""A number that everybody reads alike, such as 14, 1.5, 1.e-5 and .inf."""

TAB = "found character '\\t'"
"""Part of an error of the YAML parser where a tab stands for spaces."""


def load_yaml(path: Path) -> Any:
    """Read a YAML file."""
    if path.is_dir():
        raise ConfigError(f"{path} is a folder: name a YAML file")
    try:
        text = read_utf8(path)
        for where, message in misleading_numbers(text):
            raise ConfigError(f"{path}, line {where}: {message}")
        # OmegaConf reads 1e-5 as a number, which PyYAML takes for text.
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
    """Yield the lines, from 1, of numbers that YAML 1.1 reads in another way than they seem to mean.

    These are octal, hexadecimal, binary and sexagesimal ones, and those with underscores.
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
    if isinstance(node, yaml.ScalarNode):
        yield key, node
    elif isinstance(node, yaml.SequenceNode):
        for item in node.value:
            yield from _scalars(item, key)
    elif isinstance(node, yaml.MappingNode):
        for name, value in node.value:
            yield from _scalars(name, key)  # 1:30 misleads as a key, too
            inner = str(name.value) if isinstance(name, yaml.ScalarNode) else "?"
            yield from _scalars(value, f"{key}.{inner}" if key else inner)


class _Loader(yaml.SafeLoader):  # type: ignore[misc]  # yaml has no types
    """YAML whose scalars mean what they seem to: no dates, no octal or sexagesimal numbers, `1e-5` a number."""

    # Without PyYAML's own resolvers, which make a date of 2026-01-01 and 90 of 1:30.
    yaml_implicit_resolvers: ClassVar[dict[str, list[tuple[str, re.Pattern[str]]]]] = {}


_WORDS = {
    "null": r"(?i:null|none)|~|",  # the last one is the empty text
    "bool": r"(?i:true|false)",
    "int": r"[-+]?(0|[1-9][0-9]*)",
    "float": r"[-+]?(\.[0-9]+|(0|[1-9][0-9]*)(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(?i:inf)|\.(?i:nan)",
}
# PyYAML finds resolvers by the first character of a text, and None stands for any.
for _tag, _words in _WORDS.items():
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(rf"^({_words})$"), None)


_NOTHING = re.compile(_WORDS["null"])


class Whole(dict[str, Any]):
    """A mapping that an item sets as a whole: it replaces the one below; items of its parts add to it."""


def parse_overrides(
    items: Sequence[str],
    holds_text: Callable[[str], bool] = lambda key: False,
    wanted: str = "an override must look like section.key=value",
) -> dict[str, Any]:
    """Parse items to a nested mapping; a later item replaces an earlier one of the same key.

    Args:
        items: Such as `model.name=gpt2`.
        holds_text: Tells if the value of a key is text.
        wanted: The form of an item, in errors.

    Raises:
        ConfigError: If an item has no `=`, or one sets a value where another sets a part of it.
    """
    tree: dict[str, Any] = {}
    whole: set[str] = set()
    for item in items:
        key, separator, text = item.partition("=")
        if not separator or not all(key.split(".")):
            raise ConfigError(f"{wanted}, got {item!r}")
        # A tuple of Python is a list of YAML.
        as_yaml = f"[{text[1:-1]}]" if text[:1] == "(" and text[-1:] == ")" else text
        try:
            value = yaml.load(as_yaml, Loader=_Loader)  # a safe loader
        except yaml.YAMLError as error:
            raise ConfigError(
                f"cannot read the value of {item!r} ({str(error).splitlines()[0]}): for the shell, put what has "
                f"spaces or brackets into quotes, as in '{key}={{...}}'"
            ) from None
        is_plain = text[:1] not in ("'", '"') and not _NOTHING.fullmatch(text)
        if holds_text(key) and not isinstance(value, list | dict) and is_plain:
            value = text
        else:
            for _, message in misleading_numbers(as_yaml):
                raise ConfigError(f"{item}: {message}")
        _put(tree, key, Whole(value) if isinstance(value, dict) else value, whole)
        whole.add(key)
    return tree


def _put(tree: dict[str, Any], key: str, value: Any, whole: Container[str]) -> None:
    """Set `key`; replaces its value only if that was set as a `whole`, and not by parts of it."""
    *sections, last = key.split(".")
    node = tree
    for depth, section in enumerate(sections, 1):
        node = node.setdefault(section, {})
        if not isinstance(node, dict):
            outer = ".".join(sections[:depth])
            raise ConfigError(f"overrides {outer!r} and {key!r} exclude each other")
    if isinstance(node.get(last), dict) and key not in whole:
        raise ConfigError(f"override {key!r} excludes others that set parts of it")
    node[last] = value


DATA_KEYS = (
    *("dataset.source", "dataset.train_source", "dataset.eval_source", "warm_start.source"),
    *("algorithm.preferences.source", "algorithm.reward_model.path"),
)
OPPONENT = "algorithm.preferences.opponent"
POOL_KEY = "partners.pool"

PREFIXES = ("./", "../", "~/", "/")
"""Beginnings of texts that only paths have."""


def make_paths_absolute(layer: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Return the dotted keys of a layer with absolute paths; relative ones start at `folder`."""
    # A stored run is found from anywhere only if its paths are absolute.
    values = dict(layer)
    for key in DATA_KEYS:
        if key in values:
            values[key] = absolute_data_path(values[key], folder)
    opponent = values.get(OPPONENT, "current")
    if opponent not in ("current", "history"):
        values[OPPONENT] = _absolute(opponent, folder, Path.is_dir)
    if isinstance(pool := values.get(POOL_KEY), list):
        values[POOL_KEY] = [_absolute(path, folder, Path.is_dir) for path in pool]
    if "model.name" in values:
        values["model.name"] = _absolute_model_path(values["model.name"], folder)
    if isinstance(policies := values.get("policies"), dict):
        changed = {name: _with_path(spec, folder) for name, spec in policies.items()}
        values["policies"] = type(policies)(changed)  # which may be a `Whole`
    return values


def _with_path(spec: Any, folder: Path) -> Any:
    if not isinstance(spec, dict) or "name" not in spec or spec.get("kind", "model") != "model":
        return spec
    return type(spec)({**spec, "name": _absolute_model_path(spec["name"], folder)})


def absolute_data_path(source: Any, folder: Path) -> Any:
    """Return a source of problems: the absolute path of a file, and any other source as it is."""
    return _absolute(source, folder, lambda path: path.suffix in ENDINGS or path.is_file())


def _absolute_model_path(name: Any, folder: Path) -> Any:
    return name if str(name).lower() in LOCAL_MODELS else _absolute(name, folder, Path.is_dir)


def _absolute(value: Any, folder: Path, is_path: Callable[[Path], bool]) -> Any:
    # Not addresses, nor references that are resolved later.
    if not isinstance(value, str) or "://" in value or "${" in value:
        return value
    # Not `resolve`: the name of a link stays, as users know it.
    path = Path(os.path.abspath(folder / Path(value).expanduser()))
    return str(path) if value.startswith(PREFIXES) or is_path(path) else value


def resolve_references(tree: Mapping[str, Any], defaults: Mapping[str, Any]) -> Mapping[str, Any]:
    """Replace references such as `${model.name}` in a tree by values of it, or of the defaults."""
    if "${" not in str(tree):
        return tree
    try:
        whole = OmegaConf.merge(OmegaConf.create(dict(defaults)), OmegaConf.create(dict(tree)))
        values: Any = OmegaConf.to_container(whole, resolve=True)
    except OmegaConfBaseException as error:
        raise ValueError(str(error)) from None
    # Without the defaults, which were merged for the sake of references alone.
    return {key: _within(values[key], part) for key, part in tree.items()}


def _within(values: Any, tree: Any) -> Any:
    """Return the part of nested values whose keys a tree has."""
    if not isinstance(tree, Mapping):
        return values
    return {key: _within(values[key], part) for key, part in tree.items()}
