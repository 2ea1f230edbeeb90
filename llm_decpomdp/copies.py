"""The checks that every kind of copy of an environment continues exactly as the original."""

from __future__ import annotations

import copy
import json
import pickle
from typing import Any

from llm_decpomdp.conformance import ConformanceError, require, short
from llm_decpomdp.trial import TextEnv, Trial, difference


def check_copies(trial: Trial) -> None:
    """Pickles and deep copies of an environment continue as it does."""
    for how, duplicate in (("pickle", _pickled), ("copy.deepcopy", copy.deepcopy)):
        for is_reset in (False, True):
            original = trial.make()
            if is_reset:
                original.reset(seed=trial.seed)
            try:
                twin = duplicate(original)
            except Exception as error:
                raise ConformanceError(
                    f"{how} to copy the environment {'after' if is_reset else 'before'} reset()",
                    f"{type(error).__name__}: {error}",
                    "Keep processes, files, locks, lambdas and local classes out of it.",
                ) from error
            if not is_reset:
                original.reset(seed=trial.seed)
                twin.reset(seed=trial.seed)
            _require_continues(trial, original, twin, f"a copy made by {how}")


def _pickled(env: TextEnv) -> TextEnv:
    copied: TextEnv = pickle.loads(pickle.dumps(env))
    return copied


def check_snapshots(trial: Trial) -> None:
    """A snapshot survives JSON and continues the same episode in a new environment."""
    for turns in (0, 1):
        env = _advanced(trial, turns)
        snapshot = env.snapshot()
        try:
            stored = json.loads(json.dumps(snapshot, allow_nan=False))
        except (TypeError, ValueError) as error:
            raise ConformanceError(
                "snapshot() to return a dictionary that is JSON",
                f"{type(error).__name__}: {error}",
                "Store strings, finite numbers, lists and dicts with string keys.",
            ) from error
        twin: Any = trial.make().unwrapped
        twin.restore(stored)
        require(
            _canonical(twin) == _canonical(env),
            "an environment restored from a snapshot to give an equal snapshot",
            short(twin.snapshot()),
            "Restore everything that snapshot() stores.",
        )
        _require_continues(trial, env, twin, "an environment restored from a snapshot")


def check_forks(trial: Trial) -> None:
    """A fork continues the same episode, and neither sees what the other does."""
    for turns in (0, 1):
        env = _advanced(trial, turns)
        reference, twin, spare = _advanced(trial, turns), env.fork(), env.fork()
        before = _canonical(env)
        _require_continues(trial, reference, twin, "a fork")
        for other in (env, spare):
            require(
                _canonical(other) == before,
                "stepping and resetting a fork to change nothing in its original and other forks",
                "another snapshot of them than before",
                "Copy all mutable state in fork().",
            )
        _require_continues(trial, env, spare, "a fork")


def _advanced(trial: Trial, turns: int) -> Any:
    env = trial.make().unwrapped
    env.reset(seed=trial.seed)
    for turn in range(turns):
        if env.agents:
            env.step(trial.actions(env, turn))
    return env


def _canonical(env: Any) -> str:
    return json.dumps(env.snapshot(), sort_keys=True)


def _require_continues(trial: Trial, original: TextEnv, twin: TextEnv, what: str) -> None:
    """`twin` plays on, and starts its next episodes, exactly as `original`."""
    records = []
    for env in (original, twin):
        watched = trial.watch(env)
        records.append([*trial.play(watched, 1), *(watched.reset() for _ in range(3))])
    require(
        records[0] == records[1],
        f"{what} to continue exactly as its original, generator included",
        f"{difference(*records)}",
        "Copy everything that decides what comes next.",
    )
