"""Checks that every kind of copy of an environment continues exactly as the original."""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Callable, Mapping
from typing import Any

from llm_decpomdp.branching import Restorable, branch
from llm_decpomdp.testing.player import StepRecord, TextEnv, Trial, difference
from llm_decpomdp.testing.rules import ConformanceError, errors_as_rule, require, short


def check_copies(trial: Trial) -> None:
    """Check that pickles and deep copies of an environment continue as it does."""
    for method in COPIES:
        for is_reset in (False, True):
            original = trial.make()
            if is_reset:
                original.reset(seed=trial.seed)
            twin = make_copy(original, method, "after reset()" if is_reset else "before reset()")
            if not is_reset:
                original.reset(seed=trial.seed)
                twin.reset(seed=trial.seed)
            _require_continues(trial, _course(trial, original), twin, f"a copy made by {method}")


COPIES: Mapping[str, Callable[[TextEnv], TextEnv]] = {
    "pickle": lambda env: pickle.loads(pickle.dumps(env)),
    "copy.deepcopy": copy.deepcopy,
}
"""Methods to copy an environment, by name."""


def make_copy(env: TextEnv, method: str, when: str) -> TextEnv:
    """Copy an environment, or raise a `ConformanceError` that says when it was tried."""
    remedy = "Keep processes, files, locks, lambdas and local classes out of it."
    with errors_as_rule(f"{method} to copy the environment {when}", remedy):
        return COPIES[method](env)


def check_snapshots(trial: Trial) -> None:
    """Check that a snapshot survives JSON and continues the same episode in a new environment."""
    for turns in (0, 1):
        env = _restorable(_play_turns(trial, turns))
        snapshot = env.snapshot()
        remedy = "Store strings, finite numbers, lists and dicts with string keys."
        with errors_as_rule("snapshot() to return a dictionary that is JSON", remedy):
            state = json.loads(json.dumps(snapshot, allow_nan=False))
        twin = _restorable(trial.make())
        twin.restore(state)
        require(
            json.dumps(twin.snapshot(), sort_keys=True)
            == json.dumps(env.snapshot(), sort_keys=True),
            "an environment restored from a snapshot to give an equal snapshot",
            short(twin.snapshot()),
            "Restore everything that snapshot() stores.",
        )
        course = _course(trial, env)
        _require_continues(trial, course, twin, "an environment restored from a snapshot")


def _restorable(env: Any) -> Any:
    """Return an environment that has snapshots: a wrapper that has its own, or else the innermost."""
    return env if isinstance(env, Restorable) else env.unwrapped


def check_branches(trial: Trial) -> None:
    """Check that branches continue the same episode, and are independent of their original.

    A branch is a fork where the environment's class has `fork`, and else a copy.
    """
    for turns in (0, 1):
        env = _play_turns(trial, turns)
        try:
            twin, spare = branch(env), branch(env)
        except TypeError as error:
            raise ConformanceError(
                "learners to be able to branch the environment", str(error), "Do as it says."
            ) from error
        require(
            type(twin) is type(env) and twin is not env,
            f"a branch of a {type(env).__name__} to be another {type(env).__name__}",
            f"the same object, or a {type(twin).__name__}",
            "Let fork() return a new environment of the same class; a wrapper needs none.",
        )
        # Of another environment, as `env` is played last: it shows what playing `twin` has changed in it.
        expected = _course(trial, _play_turns(trial, turns))
        _require_continues(trial, expected, twin, "a fork")
        for relative in (env, spare):
            course = _course(trial, relative)
            require(
                course == expected,
                "stepping and resetting a fork to change nothing in its original and other forks",
                difference(expected, course),
                "Copy all mutable state in fork().",
            )


def _play_turns(trial: Trial, turns: int) -> Any:
    env = trial.make()
    env.reset(seed=trial.seed)
    for turn in range(turns):
        if env.agents:
            env.step(trial.actions(env, turn))
    return env


def _require_continues(trial: Trial, expected: list[StepRecord], twin: TextEnv, name: str) -> None:
    """Check that `twin` continues, and starts its next episodes, exactly as expected."""
    course = _course(trial, twin)
    require(
        course == expected,
        f"{name} to continue exactly as its original, generator included",
        difference(expected, course),
        "Copy everything that decides what comes next.",
    )


def _course(trial: Trial, env: TextEnv) -> list[StepRecord]:
    """Play the rest of an episode, and reset three times; return the records."""
    watched = trial.watch(env)
    return [*trial.play(watched, 1), *(watched.reset() for _ in range(3))]
