"""Engines that sample elsewhere, and models on different devices, are asked at the same time."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from llm_decpomdp.algorithms.rollouts.collection import sample_groups
from llm_decpomdp.algorithms.rollouts.lanes import in_lanes
from llm_decpomdp.policy import Completion


class Far:
    """An engine of one policy, which answers once all engines were asked."""

    is_remote = True

    def __init__(self, name: str, asked: threading.Barrier | None) -> None:
        self.name, self.asked, self.engine = name, asked, self

    def generate(self, requests: Sequence[Any], num_samples: int = 1) -> list[list[Completion]]:
        if self.asked is not None:
            self.asked.wait(120)
        return [[Completion(f"{self.name} {text}")] * num_samples for _, text in requests]

    def act(self, prompt: str) -> str:
        return prompt


class Near(Far):
    is_remote = False


class OnDevice(Near):
    def __init__(self, device: str, asked: threading.Barrier | None) -> None:
        super().__init__(device, asked)
        self.model = SimpleNamespace(device=device)


class Broken(Far):
    def generate(self, requests: Sequence[Any], num_samples: int = 1) -> list[list[Completion]]:
        raise ConnectionError("no server")


PROMPTS = [{"x": "1", "y": "2", "z": "3"}, {"x": "4", "z": "5"}]


def test_servers_answer_at_the_same_time_and_in_the_order_of_the_agents() -> None:
    both = threading.Barrier(2)  # breaks, if the second is asked after the first has answered
    team: Any = {"x": Far("far", both), "y": Near("near", None), "z": Far("other", both)}
    answers = sample_groups(team, [], PROMPTS, 2)
    texts = [{agent: [c.text for c in group] for agent, group in said.items()} for said in answers]
    assert texts == [
        {"x": ["far 1"] * 2, "y": ["near 2"] * 2, "z": ["other 3"] * 2},
        {"x": ["far 4"] * 2, "z": ["other 5"] * 2},
    ]


def test_one_server_is_asked_by_the_thread_that_trains() -> None:
    alone: Any = {"x": Far("far", threading.Barrier(1)), "y": Near("n", None), "z": Near("o", None)}
    before = threading.active_count()
    sample_groups(alone, [], PROMPTS, 1)
    assert threading.active_count() == before


def test_an_error_of_a_server_is_raised() -> None:
    team: Any = {"x": Far("far", None), "y": Near("n", None), "z": Broken("broken", None)}
    with pytest.raises(ConnectionError, match="no server"):
        sample_groups(team, [], PROMPTS, 1)


def test_models_on_two_devices_sample_at_the_same_time() -> None:
    both = threading.Barrier(2)
    team: Any = {"x": OnDevice("gpu:0", both), "y": OnDevice("gpu:1", both)}
    answers = sample_groups(team, [], [{"x": "1", "y": "2"}], 1)
    assert [answers[0][agent][0].text for agent in "xy"] == ["gpu:0 1", "gpu:1 2"]
    same: Any = {name: OnDevice("gpu:0", None) for name in "xy"}
    before = threading.active_count()
    sample_groups(same, [], [{"x": "1", "y": "2"}], 1)
    assert threading.active_count() == before


def test_all_lanes_end_before_an_error_is_raised() -> None:
    done: list[int] = []
    failed = threading.Event()

    def call(item: int) -> int:
        if item == 3:
            failed.set()
            raise FloatingPointError("three")
        if item % 2 == 0:
            failed.wait(120)
        done.append(item)
        return item

    with pytest.raises(FloatingPointError, match="three"):
        in_lanes(call, [0, 1, 2, 3], ["even", "odd", "even", "odd"])
    assert sorted(done) == [0, 1, 2]
    assert in_lanes(call, [5, 1], ["a", "b"]) == [5, 1]
