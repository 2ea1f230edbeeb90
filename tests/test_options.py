from __future__ import annotations

from dataclasses import FrozenInstanceError, field, fields
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest

from llm_decpomdp.algorithms.learning.learner_options import LearnerOptions
from llm_decpomdp.option_texts import limits_in_words, type_in_words
from llm_decpomdp.options import (
    NonNegative,
    Options,
    flatten,
    option,
    option_of,
    pick,
    refuse_changes,
    replace_in,
)


class WalkOptions(Options):
    speed: float = option(1.0, gt=0, le=9)
    steps: int | None = option(None, ge=1)
    gait: str = option("trot", choices=("trot", "canter"))
    weights: tuple[NonNegative, ...] | None = None
    alone: bool = False
    extra: dict[str, Any] | None = None


class RideOptions(WalkOptions):
    pace: float = option_of(WalkOptions, "speed")
    least: float = option_of(WalkOptions, "speed", 2.0, ge=2)


def test_values_within_their_limits_are_taken() -> None:
    options = WalkOptions(speed=9, steps=1, gait="canter", weights=(0.0, 1.5), alone=True)
    assert (options.speed, options.steps, options.weights) == (9, 1, (0.0, 1.5))
    assert WalkOptions(np.float32(2.0), np.int64(3)).steps == 3  # type: ignore[arg-type]
    with pytest.raises(FrozenInstanceError):
        options.speed = 2.0  # type: ignore[misc]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"speed": 0}, "speed must be above 0, got 0"),
        ({"speed": 10.0}, "speed must be at most 9, got 10.0"),
        ({"speed": float("nan")}, "speed must be a finite number, got nan"),
        ({"speed": True}, "speed must be a number, got True"),
        ({"speed": None}, "speed must be a number, got None"),
        ({"steps": 0}, "steps must be at least 1, got 0"),
        ({"steps": 1.5}, "steps must be a whole number, or null, got 1.5"),
        ({"gait": "cantre"}, "unknown gait 'cantre'; did you mean 'canter'?"),
        ({"weights": (1.0, -2.0)}, r"weights\[1\] must be at least 0, got -2.0"),
        ({"weights": (float("inf"),)}, r"weights\[0\] must be a finite number"),
        ({"alone": "no"}, "alone must be true or false, got 'no'"),
        ({"pace": -1.0}, "pace must be above 0, got -1.0"),
        ({"least": 1.0}, "least must be at least 2, got 1.0"),
    ],
)
def test_other_values_are_refused_by_name(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        RideOptions(**options)


class TripOptions(Options):
    former_names: ClassVar = {"rush": "haste"}
    haste: bool = False
    walk: WalkOptions = field(default_factory=WalkOptions)


def test_a_section_is_an_object_or_a_mapping_and_errors_name_it() -> None:
    trip = TripOptions(walk={"steps": 3})  # type: ignore[arg-type]
    assert (
        trip == TripOptions(walk=WalkOptions(steps=3)) == replace_in(TripOptions(), "walk", steps=3)
    )
    assert flatten(trip)["walk.steps"] == 3 and flatten(trip)["haste"] is False
    with pytest.raises(ValueError, match=r"walk\.steps must be at least 1, got 0"):
        replace_in(trip, "walk", steps=0)
    with pytest.raises(ValueError, match=r"^walk\.steps=3 means nothing with rain: drop it"):
        refuse_changes(trip, ["walk.speed", "walk.steps"], "rain")


def test_a_section_is_off_with_none_and_on_with_the_value_of_its_switch() -> None:
    assert TripOptions(walk=None) == TripOptions()  # type: ignore[arg-type]
    kl = LearnerOptions(kl=0.1).kl  # type: ignore[arg-type]
    assert kl.coefficient == 0.1
    with pytest.raises(ValueError, match="walk must be a mapping of options, got 3"):
        TripOptions(walk=3)  # type: ignore[arg-type]


def test_the_error_for_a_former_name_has_the_present_one() -> None:
    with pytest.raises(TypeError, match="the option 'rush' is called 'haste' now"):
        TripOptions(rush=True)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"the option 'critic_gate' is called 'critic\.gate' now"):
        LearnerOptions(critic_gate=False)  # type: ignore[call-arg]


def test_null_is_the_choice_none_where_there_is_no_null() -> None:
    class Harness(Options):
        bit: str = option("none", choices=("none", "snaffle"))
        reins: str | None = option("none", choices=("none", "split"))

    assert (Harness(bit=None).bit, Harness(reins=None).reins) == ("none", None)  # type: ignore[arg-type]


def test_an_option_of_another_class_has_its_default_and_limits_unless_it_says_others() -> None:
    words = {field.name: limits_in_words(field) for field in fields(RideOptions)}
    assert (RideOptions().pace, RideOptions().least) == (1.0, 2.0)
    assert words["pace"] == words["speed"] == "above 0 and at most 9"
    assert words["least"] == "at least 2" and words["alone"] == ""
    types = {field.name: type_in_words(RideOptions, field.name) for field in fields(RideOptions)}
    assert (types["steps"], types["alone"]) == ("a whole number, or null", "true or false")


def test_options_are_picked_from_an_object_unless_they_are_given() -> None:
    source = SimpleNamespace(speed=2.0, steps=4, other=0)
    rest = {"gait": "canter", "weights": None, "alone": True, "extra": None}
    assert pick(WalkOptions, source, **rest) == WalkOptions(2.0, 4, "canter", None, True)
    assert pick(WalkOptions, source, **rest, speed=5.0).speed == 5.0
    with pytest.raises(AttributeError, match="gait"):
        pick(WalkOptions, source)
