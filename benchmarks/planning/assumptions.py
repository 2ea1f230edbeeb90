"""The numbers that a plan assumes: each with its unit and source, printed beside the plan, and replaceable."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import Field, dataclass, field, fields, replace
from typing import Any, NamedTuple, TypeVar

from llm_decpomdp.benchmarks.config.errors import ConfigError
from llm_decpomdp.validation import unknown

T = TypeVar("T")

MEASURED = "of the rate measured now, by figures of benchmarks/performance for two cores"


def number(value: float, unit: str, source: str) -> Any:
    """Declare a positive number of a dataclass, with its unit and source."""
    return field(default=value, metadata={"unit": unit, "source": source})


@dataclass(frozen=True)
class Assumptions:
    """Rates and shares that no specification tells."""

    usable_memory: float = number(
        0.9,
        "share",
        "of a device's memory; the default of vLLM, the rest is for libraries and gaps",
    )
    decode_bandwidth: float = number(
        0.6, "share", "of the memory bandwidth, in a decoding step; usual for large models"
    )
    decode_flops: float = number(
        0.5, "share", "of the arithmetic, in a decoding step of many rows and for prompts"
    )
    engine_share: float = number(
        0.5,
        "share",
        "of the rate of full steps that vLLM keeps: published for a 9B model, one H100",
    )
    learn_flops: float = number(
        0.35, "share", "of the arithmetic, in forward and backward passes; usual for packed rows"
    )
    layer_seconds: float = number(
        0.001, "s", "least time of a layer in transformers' loop, measured as 30 ms for 28 layers"
    )
    length: float = number(1.0, "share", "of max_new_tokens that completions have; 1 is the most")
    characters: float = number(3.5, "characters", "of a prompt for each token; English and code")
    program_seconds: float = number(
        0.0037, "s", "of a core for a program with its tests; measured here, HumanEval"
    )
    hanging: float = number(0.02, "share", "of programs that run into their time limit")
    hanging_seconds: float = number(10.0, "s", "until such a program is stopped: its limit")
    folder: float = number(
        2.0, "GB/s", "at which weights are written to files for servers and read by them"
    )


@dataclass(frozen=True)
class OnCPU(Assumptions):
    """The same where rates are measured and not a data sheet's, so that larger shares of them are reached."""

    decode_bandwidth: float = number(0.7, "share", MEASURED)
    decode_flops: float = number(0.7, "share", MEASURED)
    learn_flops: float = number(0.7, "share", MEASURED)
    layer_seconds: float = number(0.0005, "s", "least time of a layer in transformers' loop, here")


class Shown(NamedTuple):
    """An assumption as a table shows it."""

    name: str
    value: float
    unit: str
    source: str


def shown(numbers: Any) -> Iterator[Shown]:
    """Yield the numbers of a dataclass that `number` declares."""
    for declared in declared_numbers(numbers):
        value = getattr(numbers, declared.name)
        yield Shown(declared.name, value, declared.metadata["unit"], declared.metadata["source"])


def declared_numbers(numbers: Any) -> list[Field[Any]]:
    """List the fields of a dataclass, or of one of its objects, that `number` declares."""
    return [declared for declared in fields(numbers) if declared.metadata]


def read_numbers(items: Iterable[str], names: Iterable[str]) -> dict[str, float]:
    """Read `name=value` pairs.

    Args:
        items: The pairs.
        names: Known names.

    Raises:
        ConfigError: If a name is unknown, or a value no finite number of at least 0.
    """
    valid, values = sorted(names), {}
    for item in items:
        name, _, text = item.partition("=")
        if name not in valid:
            raise ConfigError(unknown("assumption", name, valid))
        try:
            values[name] = float(text)
        except ValueError:
            values[name] = math.nan
        if not 0 <= values[name] < math.inf:
            raise ConfigError(f"--assume {name}: needs a number of at least 0, got {text!r}")
        if values[name] == 0 and name != "hanging":
            raise ConfigError(f"--assume {name}: needs a number above 0, got {text!r}")
    return values


def with_numbers(numbers: T, values: dict[str, float]) -> T:
    """Return a dataclass with those of the values that are its own."""
    values_here = {
        declared.name: values[declared.name]
        for declared in declared_numbers(numbers)
        if declared.name in values
    }
    result: T = replace(numbers, **values_here)  # type: ignore[type-var]
    return result
