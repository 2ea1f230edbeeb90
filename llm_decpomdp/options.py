"""Options that are declared once: a dataclass field with its default, its limits, and its meaning below it.

```python
@dataclass(frozen=True)
class WalkOptions(Options):
    speed: float = option(1.0, gt=0)
    '''Metres a second.'''
```

All else reads the field: the class checks it when an instance is made, a section of a configuration inherits it,
a function takes it as a keyword argument, and `help` and the page about configurations print it.
"""

from __future__ import annotations

import ast
import inspect
import math
import operator
import textwrap
from collections import ChainMap
from collections.abc import Callable
from dataclasses import MISSING, Field, dataclass, field, fields, is_dataclass
from functools import cache, wraps
from numbers import Integral, Real
from typing import Any, TypeVar

from llm_decpomdp.validation import unknown

TYPES: dict[str, tuple[str, type]] = {
    "str": ("text", str),
    "int": ("a whole number", Integral),
    "float": ("a number", Real),
    "bool": ("true or false", bool),
    "int | str": ("a whole number, text", object),
    "tuple[float, ...]": ("a list of numbers such as [1.2, 0.8]", object),
    "list[str]": ("a list of texts", object),
    "list[int]": ("a list of whole numbers", object),
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
Result = TypeVar("Result")


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
    refused: dict[str, str] | None = None,
) -> Any:
    """Declare a field with limits.

    Args:
        default: Its default.
        ge: Least value; as all bounds, for each number of a tuple.
        gt: Bound below all values.
        le: Largest value.
        lt: Bound above all values.
        choices: All texts that it may be.
        refused: Texts that users of other libraries may expect, and why each is no choice here.
    """
    bounds = {"ge": ge, "gt": gt, "le": le, "lt": lt}
    limits = {**bounds, "choices": choices, "refused": refused}
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


def as_arguments(
    kind: type[Any],
) -> Callable[[Callable[..., Result]], Callable[..., Result]]:
    """Let a function whose last parameter is a `kind` take the fields of it as keyword arguments instead.

    Its signature has each with type and default, and its docstring ends with their texts: `help` shows all.

    Args:
        kind: A dataclass whose fields have defaults.
    """

    def decorate(build: Callable[..., Result]) -> Callable[..., Result]:
        @wraps(build)
        def call(*positional: Any, **options: Any) -> Result:
            return build(*positional, kind(**options))

        signature = inspect.signature(build)
        options = [
            parameter.replace(kind=parameter.KEYWORD_ONLY)
            for parameter in inspect.signature(kind).parameters.values()
        ]
        texts = documentation(kind)
        lines = (f"{o.name}: {' '.join(texts.get(o.name, '').split())}" for o in options)
        about = "\n".join(textwrap.fill(line, 110, subsequent_indent="    ") for line in lines)
        call.__doc__ = f"{inspect.getdoc(build)}\n\nOptions:\n{textwrap.indent(about, '    ')}"
        parameters = [*list(signature.parameters.values())[:-1], *options]
        call.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
        return call

    return decorate


def documentation(owner: type) -> dict[str, str]:
    """Return the texts below the fields of a dataclass, by the field's name.

    A field that has none, or that another class declares, has the text of a base or of that class. There are none
    where Python runs without sources.
    """
    texts: dict[str, str] = {}
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


def type_in_words(declared: Field[Any]) -> str:
    """Return the type of a field, such as `a whole number, or null` for `int | None`."""
    name = str(declared.type).removesuffix(" | None")
    return TYPES[name][0] + (", or null" if name != declared.type else "")


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
    kind = TYPES[str(declared.type).removesuffix(" | None")][1]
    if not isinstance(value, kind) or (isinstance(value, bool) and kind in (Integral, Real)):
        raise ValueError(f"{name} must be {words}, got {value!r}")
    refused = declared.metadata.get("refused", {})
    if refused and value in refused:
        raise ValueError(f"{name}={value} is refused: {refused[value]}")
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
