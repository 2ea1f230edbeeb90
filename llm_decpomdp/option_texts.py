"""Texts about options: errors of values, types in words, and the documentation of fields."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Mapping
from dataclasses import Field as DataclassField
from dataclasses import fields, is_dataclass
from functools import cache
from types import NoneType
from typing import Any, get_origin

from pydantic import ValidationError

from llm_decpomdp.options import BOUNDS, former_names, names, sections_of, types_of
from llm_decpomdp.validation import unknown

TYPES: dict[Any, str] = {
    str: "text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    tuple: "a list of numbers such as [1.2, 0.8]",
    list[str]: "a list of texts",
    list[int]: "a list of whole numbers",
    list[Any]: "a list such as [aux_0, main_0]",
    dict[str, str]: "a mapping of names such as {aux_0: helper}",
    dict[str, Any]: "a mapping such as {name: value}",
}
"""Types of options in words."""


ITEMS = {"float": "a number", "int": "a whole number", "string": "text"}
"""Types of a list's items in words, by the beginning of pydantic's names of errors."""


def explanation(error: ValidationError, owner: type[Any], prefix: str = "") -> str:
    """Describe the first error of a validation: the option, its value, and what it may be.

    Args:
        error: The error.
        owner: The class of options that was validated.
        prefix: Name of the section that holds them, with a dot at its end.
    """
    # One mistake at a time: later ones often follow from the first.
    first = error.errors()[0]
    value, kind, context = first["input"], first["type"], first.get("ctx", {})
    path, declared = [prefix.rstrip(".")] if prefix else [], None
    section: type[Any] | None = owner
    for part in map(str, first["loc"]):
        if section and part in section.__dataclass_fields__:
            declared, holder = section.__dataclass_fields__[part], section
            section = next(iter(sections_of(section, part)), None)
            path.append(part)
        elif part.isdecimal() and path:
            path[-1] += f"[{part}]"
        # Pydantic calls an unknown field of a dataclass `unexpected_keyword_argument`. Parts of a place that are
        # no fields are its names for the members of a union, such as `list[int]`.
        elif "unexpected" in kind:
            if section and part in (now := former_names(section)):
                return f"the option {part!r} is called {now[part]!r} now"
            valid = names(section) if section else ()
            return unknown("option", ".".join([*path, part]), valid)
    key = ".".join(path)
    if kind == "no_effect":
        text = _without_effect(section or owner, context)
        return f"section {key}: {text}" if key else text
    if kind == "value_error":
        return f"section {key}: {context['error']}" if key else str(context["error"])
    if declared is None:
        return str(first["msg"])
    limits = declared.metadata
    if kind == "choice" and value in limits.get("refused", {}):
        return f"{key}={value} is refused: {limits['refused'][value]}"
    if kind == "choice":
        return unknown(key, value, limits["choices"])
    # `finite` of `check_type`, and pydantic's `finite_number` for the items of a list.
    if kind.startswith("finite"):
        return f"{key} must be a finite number, got {value!r}"
    for bound, words in BOUNDS.items():
        if bound in context:
            # In pydantic's errors the bounds of a float are floats: 12 digits write 1.0 as 1.
            return f"{key} must be {words} {context[bound]:.12g}, got {value!r}"
    item = ITEMS.get(kind.partition("_")[0]) if key.endswith("]") else None
    return f"{key} must be {item or type_in_words(holder, declared.name)}, got {value!r}"


def _without_effect(owner: type[Any], context: Mapping[str, Any]) -> str:
    """Describe an option that does nothing with the value of another one."""
    name, other = context["name"], context["other"]
    choices = owner.__dataclass_fields__[other].metadata.get("choices", ())
    choices = context["only"] or [c for c in choices if c not in context["without"]]
    remedy = f"set {other} to {' or '.join(choices)}" if choices else f"change {other}"
    without = f"{other}={context['present']}"
    return useless(name, context["value"], without, f"{remedy}, or drop it")


def useless(name: str, value: Any, without: str, remedy: str) -> str:
    """Return the text of an error about an option that has no effect, as `refuse_changes` raises it."""
    value = f"{value:.12g}" if isinstance(value, float) else value  # 1 for 1.0, as users write it
    return f"{name}={value} means nothing with {without}: {remedy}"


def type_in_words(owner: type[Any], name: str) -> str:
    """Return the type of a field, such as `a whole number, or null` for `int | None`."""
    types = types_of(owner, name)
    kinds = (tuple if get_origin(kind) is tuple else kind for kind in types if kind is not NoneType)
    words = dict.fromkeys(TYPES.get(kind, "a mapping of options") for kind in kinds)
    return ", ".join(words) + (", or null" if NoneType in types else "")


def limits_in_words(declared: DataclassField[Any]) -> str:
    """Return the bounds of a field, such as `above 0 and at most 1`; empty where it has none."""
    limits = declared.metadata
    return " and ".join(f"{word} {limits[key]}" for key, word in BOUNDS.items() if key in limits)


def documentation(owner: type) -> dict[str, str]:
    """Return the texts below the fields of a dataclass, by the field's name.

    A field that has none, or that another class declares, has the text of a base or of that class. There are none
    where Python runs without sources. They are read when they are needed: pydantic's `use_attribute_docstrings`
    would read the sources of all classes at each start.
    """
    texts: dict[str, str] = {}
    # Bases first, so that a subclass may say something else about an option.
    for base in filter(is_dataclass, reversed(owner.__mro__)):
        texts |= _texts(base)
        for declared in fields(base):
            if declared.name not in texts and "declared" in declared.metadata:
                declaring, name = declared.metadata["declared"]
                texts[declared.name] = documentation(declaring)[name]
    return texts


@cache
def _texts(owner: type) -> dict[str, str]:
    """Return the texts below the fields in the body of a class."""
    try:
        source = inspect.getsource(owner)
    except OSError:
        return {}
    (tree,) = ast.parse(textwrap.dedent(source)).body
    assert isinstance(tree, ast.ClassDef), owner
    texts = {}
    for line, below in zip(tree.body, tree.body[1:], strict=False):
        match line, below:
            case ast.AnnAssign(target=ast.Name(name)), ast.Expr(ast.Constant(str(text))):
                texts[name] = inspect.cleandoc(text)
    return texts
