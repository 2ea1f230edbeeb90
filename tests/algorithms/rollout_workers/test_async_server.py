"""Rollout batches that a thread plays while servers sample: asked for, failed, and left."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from typing import Any

import pytest

from llm_decpomdp.agents.models.tiny import tiny_causal_lm
from llm_decpomdp.algorithms.rollout_workers.async_server import AsyncServerRollouts
from llm_decpomdp.algorithms.rollout_workers.base import WorkerState
from llm_decpomdp.algorithms.rollouts.rollout import Timer


@dataclass
class FakeBatch:
    """Plays nothing, `rounds` times; None: for ever."""

    rounds: int | None = 1
    error: Exception | None = None
    ended: threading.Event = field(default_factory=threading.Event)

    def play(self, state: WorkerState, timer: Timer) -> list[Any]:
        try:
            done = 0
            while self.rounds is None or done < self.rounds:
                with timer("sampling"):
                    time.sleep(0.01)
                done += 1
            if self.error:
                raise self.error
            return [threading.current_thread().name]
        finally:
            self.ended.set()


def rollout_worker(team: Any = ()) -> AsyncServerRollouts:
    env: Any = None
    return AsyncServerRollouts(WorkerState(env, env, dict(team)), {})


def test_what_was_begun_is_what_is_asked_for_and_its_seconds_count() -> None:
    batches: Any = [FakeBatch(3), FakeBatch()]
    served, timer = rollout_worker(), Timer()
    served.prefetch(batches)
    rolled = served.run_batches(batches, timer)
    assert rolled[0] != ["MainThread"] and timer.seconds["sampling"] >= 0.04
    assert served.run_batches(batches, timer)[0] == ["MainThread"]
    served.prefetch(batches)
    with pytest.raises(AssertionError, match="other batches were prefetched"):
        served.run_batches(batches[:1], timer)
    served.close()


def test_what_fails_in_the_thread_is_told_to_who_asks() -> None:
    batches: Any = [FakeBatch(error=FloatingPointError("the task has a fault"))]
    served = rollout_worker()
    served.prefetch(batches)
    with pytest.raises(FloatingPointError, match="the task has a fault"):
        served.run_batches(batches, Timer())
    served.close()


def test_a_crew_that_is_closed_leaves_what_it_plays() -> None:
    batches: Any = [FakeBatch(rounds=None)]
    served = rollout_worker()
    served.prefetch(batches)
    served.close()
    assert batches[0].ended.is_set()
    assert served.run_batches([FakeBatch()], Timer()) == [["MainThread"]]  # type: ignore[list-item]


def test_nothing_is_begun_where_a_model_is_sampled_here() -> None:
    batches: Any = [FakeBatch()]
    served = rollout_worker({"main_0": tiny_causal_lm("ab")})
    served.prefetch(batches)
    assert served.run_batches(batches, Timer()) == [["MainThread"]]
