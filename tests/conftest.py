"""A small environment of four simple parts for tests of the core: two agents must write a word."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import pytest

from llm_decpomdp.env import DecPOMDPEnv
from llm_decpomdp.interfaces import Task, TaskSet, Turn, Verdict
from llm_decpomdp.utils import text

# A test that needs the hub fails at once, and not after its retries.
os.environ.setdefault("HF_HUB_OFFLINE", "1")

# Before torch: the models are too small for more, and threads of several workers wait for each other.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# A script's background ignores Ctrl-C, and so would what the tests start, stop and look at.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int | None:
    """Run half as many workers again as there are cores: tests of processes wait a third of their time."""
    if "PYTEST_XDIST_AUTO_NUM_WORKERS" in os.environ:
        return None
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return max(1, 3 * (cores or 1) // 2)


# No test cuts the power: what is written need not reach the disk, which takes longer than most checkpoints.
os.fsync = lambda descriptor: None


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Collect without the garbage collector, which would look at all modules and tests a quarter of that time."""
    gc.disable()
    yield
    gc.freeze()
    gc.enable()


WORDS = ("apple", "brook", "cedar", "delta", "ember", "fjord")


@dataclass(frozen=True)
class Writer:
    """Writes a word."""

    agent: str

    def reference(self, task: Task) -> str | None:
        return task.references.get(self.agent)


@dataclass(frozen=True)
class WordReward:
    """One point if both wrote the word, a quarter off for each empty answer."""

    components: tuple[str, ...] = ("word", "empty")
    info_keys: tuple[str, ...] = ("tests_passed", "tests_total")

    def __call__(self, task: Task, completions: Mapping[str, str]) -> Verdict:
        word = task.references["left_0"]
        right = {f"{agent} wrote {word}": word in text for agent, text in completions.items()}
        solved = all(right.values())
        empty = sum(not text for text in completions.values())
        points = {"word": float(solved), "empty": -0.25 * empty}
        details = {
            "tests_passed": sum(right.values()),
            "tests_total": len(right),
            "cases": list(right),
        }
        return Verdict(points, solved, details, analysis=right)

    def notes(self, details: Mapping[str, Any]) -> list[str]:
        return [f"{details['tests_passed']} of {details['tests_total']} wrote it"]


@dataclass(frozen=True)
class CountMode:
    """Tells how many agents wrote the word."""

    agents: tuple[str, ...] = ("left_0", "right_0")
    info_keys: tuple[str, ...] = ("hints",)

    def first(self, task: Task) -> dict[str, str]:
        asked = f"write a fruit, a river, a tree or the like. Hint: {task.prompt}"
        return {agent: f"{agent}: {asked}" for agent in self.agents}

    def __call__(self, task: Task, turn: Turn) -> tuple[dict[str, str], dict[str, float]]:
        right = sum(turn.verdict.analysis.values())
        return {
            agent: f"You wrote: {text}\n{right} of you found the word."
            for agent, text in turn.completions.items()
        }, {"hints": 1.0}

    def secrets(self, task: Task) -> list[str]:
        return [f"wrote {task.references['left_0']}"]


def word_tasks() -> TaskSet:
    """Six problems, each with references."""
    return TaskSet(
        tuple(
            Task(
                f"word/{index}",
                index,
                f"its letters are {sorted(word)}",
                references={"left_0": word, "right_0": f"It is {word}."},
            )
            for index, word in enumerate(WORDS)
        ),
        name="words",
        source="bundled",
        split="test",
    )


def word_env(mode: Any = None, **kwargs: Any) -> DecPOMDPEnv:
    """The environment; `mode` replaces how later prompts are written."""
    roles = (Writer("left_0"), Writer("right_0"))
    return DecPOMDPEnv("word_v0", word_tasks, roles, WordReward(), mode or CountMode(), **kwargs)


@pytest.fixture
def make_word_env() -> Callable[..., DecPOMDPEnv]:
    """Builds the environment from keyword arguments."""
    return word_env


@pytest.fixture
def texts_have_no_dtype(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let PettingZoo's `api_test` accept texts: since 1.25 it reads the dtype of every observation."""
    api = import_module("pettingzoo.test.api_test")
    original = api._test_observation_space_compatibility
    monkeypatch.setattr(
        api,
        "_test_observation_space_compatibility",
        lambda space, seen, **more: (
            None if isinstance(seen, str) else original(space, seen, **more)
        ),
    )


@pytest.fixture(autouse=True)
def warnings_of_earlier_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let each test log its warnings as a fresh process would."""
    monkeypatch.setattr(text, "_logged", set())
