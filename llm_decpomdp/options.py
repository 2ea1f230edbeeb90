"""Options that are declared once: a pydantic model with defaults, limits, and the meaning below each field.

```python
class WalkOptions(Options):
    speed: float = option(1.0, gt=0)
    '''Meters a second.'''
```

All else reads the field: the class checks its values, a section of a configuration is an instance of it, a
function takes it as a keyword argument, and `help` and the page about configurations print it. Subclasses are also
dataclasses, so that `dataclasses.replace`, `asdict` and `fields` work. `option_texts.py` has the texts of errors
and help.
"""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, field, fields, replace
from dataclasses import Field as DataclassField
from functools import partial, reduce, wraps
from numbers import Integral, Real
from types import NoneType, UnionType
from typing import Annotated, Any, ClassVar, NoReturn, TypeVar, Union, get_args, get_origin

from pydantic import (
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
    ValidationInfo,
    field_validator,
)
from pydantic.dataclasses import dataclass
from pydantic_core import PydanticCustomError
from typing_extensions import dataclass_transform

BOUNDS = {"ge": "at least", "gt": "above", "le": "at most", "lt": "below"}
"""Bounds of numbers, as `option` calls them, in words."""

OF_CLASS = ("unless", "only_with")
"""Parts of a declaration that another class with the same option does not take over."""

FROM_TEXT = "from text"
"""Context of a validation of YAML and command lines, where a text such as "3" may be a number."""

# Numbers become texts, as YAML reads a name such as 7 as a number. `check_type` refuses them in Python.
_SETTINGS = ConfigDict(extra="forbid", coerce_numbers_to_str=True)

NonNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
"""A number of a list that is at least 0."""

Kind = TypeVar("Kind")
Result = TypeVar("Result")
Same = TypeVar("Same", bound="Options")


def option(
    default: Any,
    *,
    ge: float | None = None,
    gt: float | None = None,
    le: float | None = None,
    lt: float | None = None,
    choices: tuple[str, ...] = (),
    refused: dict[str, str] | None = None,
    unless: tuple[Any, ...] = (),
    only_with: tuple[Any, ...] = (),
    neutral: tuple[Any, ...] = (),
) -> Any:
    """Declare a field with limits.

    Args:
        default: Its default.
        ge: Least value.
        gt: Bound below all values.
        le: Largest value.
        lt: Bound above all values.
        choices: All texts that it may be.
        refused: Texts that users of other libraries may expect, and why each is no choice here.
        unless: Another option of the class, and the values of it with which this one does nothing; or several such
            tuples.
        only_with: Another option of the class, and the values of it without which this one does nothing.
        neutral: Values that do as little as the default.
    """
    limits: dict[str, Any] = {"ge": ge, "gt": gt, "le": le, "lt": lt, "choices": choices}
    limits |= {"refused": refused, "only_with": only_with, "neutral": neutral}
    limits["unless"] = (unless,) if unless and isinstance(unless[0], str) else unless
    return field(default=default, metadata={k: v for k, v in limits.items() if v not in (None, ())})


def option_of(owner: type[Any], name: str, default: Any = MISSING, **limits: float) -> Any:
    """Declare a field as the option `name` of another class, perhaps with another default or bounds.

    Args:
        owner: The other class, a dataclass.
        name: The name of the option there.
        default: Its default, if not that of the other class.
        **limits: Bounds, if not those of the other class.
    """
    declared = owner.__dataclass_fields__[name]
    return field(
        default=declared.default if default is MISSING else default,
        metadata={
            **(limits or {k: v for k, v in declared.metadata.items() if k not in OF_CLASS}),
            "declared": (owner, name),
        },
    )


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
class Options:
    """Base of options: a subclass is a frozen pydantic dataclass, whose instances have values within their limits.

    Raises:
        ValueError: If a value is out of its range, or of another type.
        TypeError: If there is no option of a name.
    """

    __dataclass_fields__: ClassVar[dict[str, DataclassField[Any]]]
    switch: ClassVar[str | None] = None
    """The option whose value alone may stand for a section of this class, as in `objective: gspo`."""
    former_names: ClassVar[Mapping[str, str]] = {}
    """Names of options in earlier versions, and the names of these options now."""

    def __init_subclass__(cls, *, frozen: bool = True, eq: bool = True) -> None:
        # Validators of all fields, as if the body of the subclass declared them.
        # `mode="before"` sees what the caller gave, and not what pydantic has made of it.
        cls._types = field_validator("*", mode="before")(classmethod(check_type))  # type: ignore[attr-defined]
        cls._choices = field_validator("*")(classmethod(check_choice))  # type: ignore[attr-defined]
        dataclass(cls, frozen=frozen, eq=eq, config=_SETTINGS)  # changes the class itself
        cls.__init__ = _explain_errors(cls, cls.__init__)  # type: ignore[method-assign]

    def __post_init__(self) -> None:
        """Check that each option has an effect; subclasses add checks of values that have to fit together."""
        for name in filter(partial(is_changed, self), names(type(self))):
            limits = self.__dataclass_fields__[name].metadata
            for other, *without in limits.get("unless", ()):
                if getattr(self, other) in without:
                    self._refuse(name, other, without=without)
            for other, *only in filter(None, [limits.get("only_with")]):
                if getattr(self, other) not in only:
                    self._refuse(name, other, only=only)

    def _refuse(
        self, name: str, other: str, without: Sequence[Any] = (), only: Sequence[Any] = ()
    ) -> NoReturn:
        """Raise the error of an option that has no effect with the present value of another one."""
        values = {"value": getattr(self, name), "present": getattr(self, other)}
        context = {"name": name, "other": other, "without": without, "only": only, **values}
        # A custom error carries the values to `explanation`, which knows the section that its text must name.
        raise PydanticCustomError("no_effect", "no effect", context)


def _explain_errors(kind: type[Options], initialize: Callable[..., None]) -> Callable[..., None]:
    """Return the `__init__` of a class of options with errors that name the section and a remedy."""

    @wraps(initialize)
    def call(self: Any, *values: Any, **options: Any) -> None:
        try:
            initialize(self, *values, **options)
        except ValidationError as error:
            # Imported here, because option_texts imports this module.
            from llm_decpomdp.option_texts import explanation

            problem = explanation(error, kind)
            unknown = "unexpected" in error.errors()[0]["type"]
            raise (TypeError if unknown else ValueError)(problem) from None

    return call


def from_text(kind: type[Kind], values: Mapping[str, Any], prefix: str = "") -> Kind:
    """Build options from values of a YAML file or a command line, where "3" may be a number.

    Args:
        kind: A class of options.
        values: The options by name, nested as the classes are.
        prefix: Name of their section in errors, with a dot at its end.

    Raises:
        ValueError: If there is no option of a name, or a value is of another type or out of its range.
    """
    try:
        return TypeAdapter(kind).validate_python(values, context=FROM_TEXT)
    except ValidationError as error:
        from llm_decpomdp.option_texts import explanation

        raise ValueError(explanation(error, kind, prefix)) from None


def pick(kind: type[Kind], source: object, **values: Any) -> Kind:
    """Build options of a class from `values`; `source`, such as one of a subclass, has the other fields."""
    rest = {name: getattr(source, name) for name in names(kind) if name not in values}
    return kind(**values, **rest)


def as_arguments(kind: type[Any]) -> Callable[[Callable[..., Result]], Callable[..., Result]]:
    """Let a function whose last parameter is a `kind` take the fields of it as keyword arguments instead.

    Its signature has each with type and default, and its docstring ends with their texts: `help` shows all.
    """

    def decorate(build: Callable[..., Result]) -> Callable[..., Result]:
        @wraps(build)
        def call(*positional: Any, **options: Any) -> Result:
            return build(*positional, kind(**options))

        from llm_decpomdp.option_texts import documentation

        signature = inspect.signature(build)
        keyword = inspect.Parameter.KEYWORD_ONLY
        options = [
            inspect.Parameter(f.name, keyword, default=f.default, annotation=f.type)
            for f in fields(kind)
        ]
        texts = documentation(kind)
        lines = (f"{o.name}: {' '.join(texts.get(o.name, '').split())}" for o in options)
        about = "\n".join(textwrap.fill(line, 110, subsequent_indent="    ") for line in lines)
        call.__doc__ = f"{inspect.getdoc(build)}\n\nOptions:\n{textwrap.indent(about, '    ')}"
        parameters = [*list(signature.parameters.values())[:-1], *options]
        call.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
        return call

    return decorate


def names(kind: type[Any]) -> tuple[str, ...]:
    """Return the names of a dataclass's fields."""
    return tuple(declared.name for declared in fields(kind))


def default_of(declared: DataclassField[Any]) -> Any:
    """Return the default of a field."""
    return declared.default if declared.default_factory is MISSING else declared.default_factory()


def is_changed(options: Options, name: str) -> bool:
    """Check whether an option has another value than its default and those that do as little."""
    declared = options.__dataclass_fields__[name]
    unchanged = (default_of(declared), *declared.metadata.get("neutral", ()))
    return getattr(options, name) not in unchanged


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
    # A mapping and not an instance: pydantic then checks it as a part of the whole, and names the section.
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
    # Not `Field.type`: that of a dataclass is a text where a module postpones annotations.
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
    # Pydantic makes a number of the text "inf", too, and infinity is within a bound such as `ge=0`.
    if BOUNDS.keys() & limits and str(value).lower().lstrip("+-.") in ("inf", "infinity", "nan"):
        raise PydanticCustomError("finite", "not finite")
    return value


def check_choice(cls: type[Options], value: Any, info: ValidationInfo) -> Any:
    """Refuse a text that is no choice of its option."""
    limits = cls.__dataclass_fields__[str(info.field_name)].metadata
    if isinstance(value, str) and value not in limits.get("choices", (value,)):
        raise PydanticCustomError("choice", "no choice")
    return value
