"""Options that are declared once: a pydantic model with defaults, limits, and the meaning below each field.

```python
class WalkOptions(Options):
    speed: float = option(1.0, gt=0)
    '''Meters a second.'''
```

All else reads the field: the class checks its values, a section of a configuration is an instance of it, a
function takes it as a keyword argument, and `help` and the page about configurations print it. Subclasses are also
dataclasses, so that `dataclasses.replace`, `asdict` and `fields` work. `option_tools.py` checks single values;
`option_texts.py` has the texts of errors and help.
"""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, field, fields
from dataclasses import Field as DataclassField
from functools import partial, wraps
from typing import Annotated, Any, ClassVar, NoReturn, TypeVar

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError, field_validator
from pydantic.dataclasses import dataclass
from pydantic_core import PydanticCustomError
from typing_extensions import dataclass_transform

BOUNDS = {"ge": "at least", "gt": "above", "le": "at most", "lt": "below"}
"""Bounds of numbers, as `option` calls them, in words."""

OF_CLASS = ("unless", "only_with")
"""Parts of a declaration that another class with the same option does not take over."""

FROM_TEXT = "from text"
"""Context of a validation of YAML and command lines, where a text such as "3" may be a number."""

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
        from llm_decpomdp.option_tools import check_choice, check_type

        # Validators of all fields, as if the body of the subclass declared them.
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
        raise PydanticCustomError("no_effect", "no effect", context)


def _explain_errors(kind: type[Options], initialize: Callable[..., None]) -> Callable[..., None]:
    """Return the `__init__` of a class of options with errors that name the section and a remedy."""

    @wraps(initialize)
    def call(self: Any, *values: Any, **options: Any) -> None:
        try:
            initialize(self, *values, **options)
        except ValidationError as error:
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
