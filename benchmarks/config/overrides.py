"""Items such as `model.name=gpt2` from a command line, as a tree.

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

import re
from collections.abc import Callable, Container, Sequence
from typing import Any, ClassVar

import yaml

from llm_decpomdp.benchmarks.config.errors import ConfigError
from llm_decpomdp.benchmarks.config.yaml_text import misleading_numbers


class _Loader(yaml.SafeLoader):  # type: ignore[misc]  # yaml has no types
    """YAML whose scalars mean what they seem to: no dates, no octal or sexagesimal numbers, `1e-5` a number."""

    yaml_implicit_resolvers: ClassVar[dict[str, list[tuple[str, re.Pattern[str]]]]] = {}


_WORDS = {
    "null": r"(?i:null|none)|~|",
    "bool": r"(?i:true|false)",
    "int": r"[-+]?(0|[1-9][0-9]*)",
    "float": r"[-+]?(\.[0-9]+|(0|[1-9][0-9]*)(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(?i:inf)|\.(?i:nan)",
}
for _tag, _words in _WORDS.items():
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(rf"^({_words})$"), None)


_NOTHING = re.compile(_WORDS["null"])


class Whole(dict[str, Any]):
    """A mapping that an item sets as a whole: it replaces what stood there, while items of its parts add to it."""


def merged(below: Any, value: Any) -> Any:
    """Return a value on top of the one below it: mappings are merged, but for those that replace the one below."""
    if not isinstance(value, dict):
        return value
    kept = below if isinstance(below, dict) and not isinstance(value, Whole) else {}
    return {**kept, **{key: merged(kept.get(key), part) for key, part in value.items()}}


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
        value = parse_value(text, item)
        if holds_text(key) and not isinstance(value, list | dict) and _is_plain(text):
            value = text
        else:
            for _, message in misleading_numbers(_as_yaml(text)):
                raise ConfigError(f"{item}: {message}")
        _put(tree, key, Whole(value) if isinstance(value, dict) else value, whole)
        whole.add(key)
    return tree


def _is_plain(text: str) -> bool:
    """Check whether text means itself: it has no quotes around it, and is no word for nothing."""
    return text[:1] not in ("'", '"') and not _NOTHING.fullmatch(text)


def parse_value(text: str, item: str) -> Any:
    """Parse the value that `text` spells.

    Raises:
        ConfigError: If `text` is no YAML; names the whole `item`.
    """
    try:
        return yaml.load(_as_yaml(text), Loader=_Loader)  # a safe loader
    except yaml.YAMLError as error:
        reason = str(error).splitlines()[0]
        key = item.partition("=")[0]
        raise ConfigError(
            f"cannot read the value of {item!r} ({reason}): for the shell, put what has spaces or brackets "
            f"into quotes, as in '{key}={{...}}'"
        ) from None


def _as_yaml(text: str) -> str:
    """Return the text with a tuple of Python as a list."""
    return f"[{text[1:-1]}]" if text.startswith("(") and text.endswith(")") else text


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
