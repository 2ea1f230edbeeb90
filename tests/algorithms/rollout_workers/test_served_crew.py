"""Bundles that a thread plays while servers sample: asked for, failed, and left."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from typing import Any

import pytest

from llm_decpomdp.agents.models.tiny import tiny_causal_lm
from llm_decpomdp.algorithms.rollout_workers.bundles import Site
from llm_decpomdp.algorithms.rollout_workers.served_crew import ServedCrew
from llm_decpomdp.algorithms.rollouts.sampling import Stopwatch


@dataclass
class FakeBundle:
    """Plays nothing, `rounds` times; None: for ever."""

    rounds: int | None = 1
    error: Exception | None = None
    ended: threading.Event = field(default_factory=threading.Event)

    def roll(self, site: Site, clock: Stopwatch) -> list[Any]:
        try:
            done = 0
            while self.rounds is None or done < self.rounds:
                with clock("sampling"):
                    time.sleep(0.01)
                done += 1
            if self.error:
                raise self.error
            return [threading.current_thread().name]
        finally:
            self.ended.set()


def crew(team: Any = ()) -> ServedCrew:
    env: Any = None
    return ServedCrew(Site(env, env, dict(team)), {})


def test_what_was_begun_is_what_is_asked_for_and_its_seconds_count() -> None:
    bundles: Any = [FakeBundle(3), FakeBundle()]
    served, clock = crew(), Stopwatch()
    served.begin(bundles)
    rolled = served.roll(bundles, clock)
    assert rolled[0] != ["MainThread"] and clock.seconds["sampling"] >= 0.04
    assert served.roll(bundles, clock)[0] == ["MainThread"]
    served.begin(bundles)
    with pytest.raises(AssertionError, match="others were begun"):
        served.roll(bundles[:1], clock)
    served.close()


def test_what_fails_in_the_thread_is_told_to_who_asks() -> None:
    bundles: Any = [FakeBundle(error=FloatingPointError("the task has a fault"))]
    served = crew()
    served.begin(bundles)
    with pytest.raises(FloatingPointError, match="the task has a fault"):
        served.roll(bundles, Stopwatch())
    served.close()


def test_a_crew_that_is_closed_leaves_what_it_plays() -> None:
    bundles: Any = [FakeBundle(rounds=None)]
    served = crew()
    served.begin(bundles)
    served.close()
    assert bundles[0].ended.is_set()
    assert served.roll([FakeBundle()], Stopwatch()) == [["MainThread"]]  # type: ignore[list-item]


def test_nothing_is_begun_where_a_model_is_sampled_here() -> None:
    bundles: Any = [FakeBundle()]
    served = crew({"main_0": tiny_causal_lm("ab")})
    served.begin(bundles)
    assert served.roll(bundles, Stopwatch()) == [["MainThread"]]
