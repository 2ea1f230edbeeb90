"""Options that are declared once: a dataclass field with its default, its limits, and its meaning below it.

```python
@dataclass(frozen=True)
class WalkOptions(Options):
    speed: float = option(1.0, gt=0)
    '''Metres a second.'''
```

All else reads the field: the class checks it when an instance is made, a section of a configuration inherits it,
and the page about configurations prints it.
"""

from __future__ import annotations

import math
import operator
from collections import ChainMap
from dataclasses import MISSING, Field, dataclass, field, fields
from numbers import Integral, Real
from typing import Any, TypeVar

from llm_decpomdp.validation import unknown

TYPES: dict[str, tuple[str, type]] = {
    "str": ("text", str),
    "int": ("a whole number", Integral),
    "float": ("a number", Real),
    "bool": ("true or false", bool),
    "Any": ("a whole number, text", object),
    "tuple[float, ...]": ("a list of numbers such as [1.2, 0.8]", object),
    "list[str]": ("a list of texts", object),
    "dict[str, str]": ("a mapping of names such as {aux_0: helper}", object),
    "dict[str, Any]": ("a mapping such as {name: value}", object),
}
"""Annotations of options: their words, and the type of their values."""

BOUNDS = {
    "ge": ("at least", operator.ge),
    "gt": ("above", operator.gt),
    "le": ("at most", operator.le),
    "lt": ("below", operator.lt),
}
"""Bounds of numbers, as `option` calls them: their words, and the relation of a value to its bound."""

Kind = TypeVar("Kind")


@dataclass(frozen=True)
class Options:
    """Base of options: an instance has values of their types and within their limits.

    Raises:
        ValueError: If a value is out of its range, or of another type.
    """

    def __post_init__(self) -> None:
        check_options(self)


def option(
    default: Any,
    *,
    ge: float | None = None,
    gt: float | None = None,
    le: float | None = None,
    lt: float | None = None,
    choices: tuple[str, ...] = (),
) -> Any:
    """Declare a field with limits.

    Args:
        default: Its default.
        ge: Least value; as all bounds, for each number of a tuple.
        gt: Bound below all values.
        le: Largest value.
        lt: Bound above all values.
        choices: All texts that it may be.
    """
    limits = {"ge": ge, "gt": gt, "le": le, "lt": lt, "choices": choices}
    return field(default=default, metadata={k: v for k, v in limits.items() if v not in (None, ())})


def option_of(owner: type[Any], name: str, default: Any = MISSING, **limits: float) -> Any:
    """Declare a field as another class does, under another name perhaps.

    Args:
        owner: The other class, a dataclass.
        name: The name of the option there.
        default: Its default, if not that of the other class.
        **limits: Bounds, if not those of the other class.
    """
    declared = owner.__dataclass_fields__[name]
    return field(
        default=declared.default if default is MISSING else default,
        metadata={**(limits or declared.metadata), "declared": (owner, name)},
    )


def pick(kind: type[Kind], *sources: object, **values: Any) -> Kind:
    """Build options from objects that have attributes of the same names.

    Args:
        kind: A dataclass.
        *sources: Objects; where several have an attribute, the first counts.
        **values: Values that count before those of all objects.

    Raises:
        KeyError: If none of them has an attribute that `kind` needs.
    """
    attributes = ChainMap(values, *(dict(vars(source)) for source in sources))
    return kind(**{name: attributes[name] for name in names(kind)})


def names(kind: type[Any]) -> tuple[str, ...]:
    """Return the names of a dataclass's fields."""
    return tuple(declared.name for declared in fields(kind))


def type_in_words(declared: Field[Any]) -> str:
    """Return the type of a field, such as `a whole number, or null` for `int | None`."""
    name, _, optional = str(declared.type).partition(" | ")
    return TYPES[name][0] + (", or null" if optional or name == "Any" else "")


def limits_in_words(declared: Field[Any]) -> str:
    """Return the bounds of a field, such as `above 0 and at most 1`; empty where it has none."""
    limits = declared.metadata
    return " and ".join(
        f"{word} {limits[key]}" for key, (word, _) in BOUNDS.items() if key in limits
    )


def check_options(instance: Any) -> None:
    """Check the values of all fields of a dataclass's instance; errors as of `check_value`."""
    for declared in fields(instance):
        check_value(declared, getattr(instance, declared.name), declared.name)


def check_value(declared: Field[Any], value: Any, name: str) -> None:
    """Check a value of a field.

    Args:
        declared: The field.
        value: The value.
        name: The name of the option in errors.

    Raises:
        ValueError: If the value is of another type, out of its range, or none of the choices.
    """
    words = type_in_words(declared)
    if value is None and words.endswith("or null"):
        return
    kind = TYPES[str(declared.type).partition(" | ")[0]][1]
    if not isinstance(value, kind) or (isinstance(value, bool) and kind in (Integral, Real)):
        raise ValueError(f"{name} must be {words}, got {value!r}")
    choices = declared.metadata.get("choices")
    if choices and value not in choices:
        raise ValueError(unknown(name, value, choices))
    for key, (word, holds) in BOUNDS.items():
        if (bound := declared.metadata.get(key)) is None:
            continue
        for number in value if isinstance(value, tuple | list) else (value,):
            if not math.isfinite(number):
                raise ValueError(f"{name} must be a finite number, got {value!r}")
            if not holds(number, bound):
                raise ValueError(f"{name} must be {word} {bound}, got {value!r}")
