"""Values of options: checks, comparison with defaults, and other values."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import reduce
from numbers import Integral, Real
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, get_args, get_origin

from pydantic import ValidationInfo
from pydantic_core import PydanticCustomError

from llm_decpomdp.options import BOUNDS, FROM_TEXT, Options, is_changed, names

Result = TypeVar("Result")
Same = TypeVar("Same", bound=Options)


def former_names(owner: type[Any], prefix: str = "") -> dict[str, str]:
    """Return names of options in earlier versions, and their dotted names now, with those of the sections."""
    bases = [vars(base).get("former_names", {}) for base in owner.__mro__]
    found = {former: prefix + name for base in bases for former, name in base.items()}
    for name in names(owner):
        for section in sections_of(owner, name):
            found |= former_names(section, f"{prefix}{name}.")
    return found


def replace_in(options: Same, section: str, **values: Any) -> Same:
    """Return options with other values in one of their sections; errors name the section."""
    changed: dict[str, Any] = {**vars(getattr(options, section)), **values}
    return replace(options, **{section: changed})


def flatten(options: Options, prefix: str = "") -> dict[str, Any]:
    """Return the values of options, and of those in sections, by dotted names."""
    values: dict[str, Any] = {}
    for name in names(type(options)):
        value = getattr(options, name)
        inner = flatten(value, f"{prefix}{name}.") if isinstance(value, Options) else None
        values |= {prefix + name: value} if inner is None else inner
    return values


def sections_of(owner: type[Any], name: str) -> list[type[Options]]:
    """Return the classes of options that a field may hold; none where it is a single value."""
    kinds = types_of(owner, name)
    return [kind for kind in kinds if isinstance(kind, type) and issubclass(kind, Options)]


def types_of(owner: type[Any], name: str) -> list[Any]:
    """Return the types that a field may have, the members of a union one by one; `NoneType` for null."""
    annotation = owner.__pydantic_fields__[name].annotation
    is_union = get_origin(annotation) in (Union, UnionType)
    return [*get_args(annotation)] if is_union else [annotation]


def refuse_changes(
    options: Options, names: Iterable[str], without: str, remedy: str = "drop it"
) -> None:
    """Refuse options that have no effect; `without` names the cause, for the error.

    Args:
        options: The options.
        names: Names of those that must have their defaults, dotted where they are in sections.
        without: What makes them useless, such as the value of another option, perhaps with the reason.
        remedy: What to do about it.

    Raises:
        ValueError: If one is set; names it, its value and the remedy.
    """
    for path in names:
        *sections, name = path.split(".")
        owner = reduce(getattr, sections, options)
        if is_changed(owner, name):
            from llm_decpomdp.option_texts import useless

            raise ValueError(useless(path, getattr(owner, name), without, remedy))


def check_type(cls: type[Options], value: Any, info: ValidationInfo) -> Any:
    """Refuse what pydantic would convert, such as True to 1, and convert numbers of numpy."""
    name = str(info.field_name)
    types, limits = types_of(cls, name), cls.__dataclass_fields__[name].metadata
    # True is an int in Python, and would count as 1.
    is_number = isinstance(value, Real) and not isinstance(value, bool)
    for section in sections_of(cls, name):
        if value is None and NoneType not in types:
            return {}  # a section that is off
        if section.switch and (isinstance(value, str) or is_number):
            return {section.switch: value}
    if isinstance(value, list) and any(get_origin(kind) is list for kind in types):
        is_text = all(isinstance(item, str) for item in value)
        if list[str] in types and info.context != FROM_TEXT and not is_text:
            raise PydanticCustomError("type", "wrong type")  # pydantic would make "3" of 3
        return value
    if value is None and types == [str] and "none" in limits.get("choices", ()):
        return "none"  # which YAML reads as null
    kinds = {bool, int, float, str} & {*types}
    if not kinds or value is None:
        return value
    if is_number:
        value = int(value) if isinstance(value, Integral) else float(value)
    accepted_as: set[type] = {type(value)} | ({float} if type(value) is int else set())
    if info.context == FROM_TEXT and not isinstance(value, bool):
        accepted_as |= {bool, int, float} if isinstance(value, str) else {str}
    if not kinds & accepted_as:
        raise PydanticCustomError("type", "wrong type")
    if BOUNDS.keys() & limits and str(value).lower().lstrip("+-.") in ("inf", "infinity", "nan"):
        raise PydanticCustomError("finite", "not finite")
    return value


def check_choice(cls: type[Options], value: Any, info: ValidationInfo) -> Any:
    """Refuse a text that is no choice of its option."""
    limits = cls.__dataclass_fields__[str(info.field_name)].metadata
    if isinstance(value, str) and value not in limits.get("choices", (value,)):
        raise PydanticCustomError("choice", "no choice")
    return value
