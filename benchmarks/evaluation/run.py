"""Evaluation: a team plays every task several times, and is measured with intervals; docs/evaluation.md.

An evaluation is a folder:

- `manifest.json`: what was evaluated, on which data, with which versions.
- `episodes.jsonl`: one row for each episode, as of a run's evaluations, with `sample` and `tokens` besides.
- `times.jsonl`: one row for each batch, with its first start and the seconds of agents and environment.
- `summary.json`, `summary.csv`, `tasks.csv`: the measures, overall and of each task.

Episodes are played in batches of tasks, one sample of each, and every batch has random numbers of its own. What
is missing in a folder is played when the evaluation is started again, as it would have been at first.
"""

from __future__ import annotations

import json
import platform
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import track

import llm_decpomdp
from llm_decpomdp.algorithms.rollout import Start, Stopwatch, distinct_policies
from llm_decpomdp.benchmarks.errors import ConfigError
from llm_decpomdp.benchmarks.evaluation.folder import (
    TIMES,
    Evaluation,
    key_of,
    place_of,
    read_evaluation,
)
from llm_decpomdp.benchmarks.evaluation.play import Act, at_once, play_episodes
from llm_decpomdp.benchmarks.evaluation.summary import write_summary
from llm_decpomdp.benchmarks.manifest import commit, versions
from llm_decpomdp.env import DecPOMDPEnv
from llm_decpomdp.policy import Seedable, Team
from llm_decpomdp.seeding import stream
from llm_decpomdp.storage import RunFolder, append_json_line, keep_json_lines, read_json_lines

__all__ = ["Evaluation", "evaluate", "read_evaluation"]

AT_A_TIME = 64
"""Episodes that are played in step."""

USUAL_K = (1, 5, 10)
"""The k of pass@k where there are as many samples and none are asked for."""

MADE_WITH = ("packages", "python", "platform", "git")
"""Keys of a manifest that may change between the sessions of an evaluation; `earlier` lists those before the last
change."""


def evaluate(
    env: DecPOMDPEnv,
    team: Team,
    starts: Sequence[Start],
    *,
    samples: int = 1,
    folder: Path | str,
    seed: int = 0,
    act: Act = at_once,
    about: Mapping[str, Any] | None = None,
    k: Sequence[int] = (),
    at_a_time: int = AT_A_TIME,
    progress: bool = True,
) -> Evaluation:
    """Play every start `samples` times, and write down what is measured.

    Equal arguments give equal rows on a CPU, wherever an evaluation was stopped in between, if every policy
    that samples has `seed` (remote models answer as they like). A folder takes more tasks and samples later.

    Args:
        env: The environment.
        team: A policy for each agent; their random streams are restarted.
        starts: How the episodes begin, all different and each with a task or a seed.
        samples: Episodes of each start.
        folder: Where to; a new folder, or one of the same evaluation.
        seed: Decides all that is sampled.
        act: How the agents come to their completions.
        about: What is evaluated, JSON-able: an evaluation of something else is refused in its folder.
        k: Of pass@k; 1, 5 and 10 as far as there are samples if none is given.
        at_a_time: Episodes in a batch.
        progress: Whether a terminal is to show a progress bar.

    Raises:
        ConfigError: If an argument is out of its range, or the folder holds another evaluation.
        Exception: What policies and environments raise.
    """
    ks = _check(env, team, starts, samples, k, at_a_time)
    place = RunFolder(folder)
    manifest = _manifest(env, team, starts, samples, seed, about or {}, ks, at_a_time)
    before = _open(place, manifest)
    batches = _missing(place, starts, samples, at_a_time)
    place.write_manifest({**manifest, **_made_with(before, manifest, bool(batches))})
    console = Console(stderr=True)
    shown = progress and sys.stderr.isatty()
    for number, some in track(batches, "evaluating", console=console, disable=not shown):
        _seed(team, seed, number, some[0])
        clock = Stopwatch()
        for row in play_episodes(env, team, act, some, number, clock):
            append_json_line(place.episodes, row)
        spent = {"sample": number, "start": asdict(some[0]), "seconds": clock.seconds}
        append_json_line(place.path / TIMES, spent)
    found = read_evaluation(place.path)
    write_summary(found)
    return found


def _check(
    env: DecPOMDPEnv,
    team: Team,
    starts: Sequence[Start],
    samples: int,
    k: Sequence[int],
    at_a_time: int,
) -> list[int]:
    """The k of pass@k, if all is well."""
    if set(team) != set(env.possible_agents):
        raise ConfigError(
            f"the team plays {', '.join(team)}, and the environment has {', '.join(env.possible_agents)}"
        )
    if not starts or len(set(starts)) < len(starts):
        raise ConfigError(f"an evaluation needs different tasks, at least one; got {len(starts)}")
    if any(start == Start() for start in starts):
        raise ConfigError("every start of an evaluation needs a task_id or a seed")
    if samples < 1 or at_a_time < 1:
        raise ConfigError(
            f"samples and at_a_time must be at least 1, got {samples} and {at_a_time}"
        )
    for one in k:
        if not 1 <= one <= samples:
            raise ConfigError(f"pass@{one} needs k from 1 to the number of samples, {samples}")
    return sorted(set(k)) or [one for one in USUAL_K if one <= samples]


def _manifest(
    env: DecPOMDPEnv,
    team: Team,
    starts: Sequence[Start],
    samples: int,
    seed: int,
    about: Mapping[str, Any],
    ks: Sequence[int],
    at_a_time: int,
) -> dict[str, Any]:
    data = env.metadata["data"]
    identity = {
        "environment": {"id": env.spec_id, **env.spec_kwargs},
        "data": data["fingerprint"],
        "team": list(team),
        "about": dict(about),
        "seed": seed,
        "at_a_time": at_a_time,
    }
    return {
        "kind": "evaluation",
        "identity": json.loads(json.dumps(identity)),  # as it is read again
        "environment": env.spec_id or env.name,
        "starts": [asdict(start) for start in starts],
        "samples": samples,
        "k": list(ks),
        "seed": seed,
        "data": {"eval": data},
        "packages": versions(),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "git": commit(Path(llm_decpomdp.__file__).resolve().parents[1]),
    }


def _open(place: RunFolder, manifest: Mapping[str, Any]) -> dict[str, Any]:
    """The manifest that was there before, if there was one, unless the folder holds something else."""
    if place.manifest.exists():
        before = place.read_manifest()
        if before.get("kind") != "evaluation":
            raise ConfigError(f"{place.path} holds a run: choose another folder with --output")
        old, new = before["identity"], manifest["identity"]
        differing = [key for key in new if old[key] != new[key]]
        if differing:
            told = "; ".join(f"{key} was {old[key]} and is {new[key]}" for key in differing)
            raise ConfigError(
                f"{place.path} holds another evaluation ({told}): choose another folder with --output"
            )
        return before
    if place.episodes.exists():
        raise ConfigError(f"{place.path} holds a run: choose another folder with --output")
    return {}


def _made_with(before: Mapping[str, Any], now: Mapping[str, Any], plays: bool) -> dict[str, Any]:
    """What the rows are made with: as it was where nothing is played, else with what was used earlier."""
    if not before:
        return {}
    old = {key: before[key] for key in MADE_WITH}
    earlier = before.get("earlier", [])
    if plays and any(now[key] != old[key] for key in MADE_WITH):
        return {"earlier": [*earlier, old]}
    return {**old, "earlier": earlier} if earlier else old


def _missing(
    place: RunFolder, starts: Sequence[Start], samples: int, at_a_time: int
) -> list[tuple[int, Sequence[Start]]]:
    """The batches that are to be played: those without all of their rows, which are dropped."""
    batches = [
        (number, starts[first : first + at_a_time])
        for number in range(samples)
        for first in range(0, len(starts), at_a_time)
    ]
    done = {place_of(row) for row in read_json_lines(place.episodes)}
    missing = [(n, some) for n, some in batches if not done.issuperset(_places(n, some))]
    torn = {place for n, some in missing for place in _places(n, some)}
    keep_json_lines(place.episodes, lambda row: place_of(row) not in torn)
    keep_json_lines(  # older rows do not tell their start
        place.path / TIMES, lambda row: "start" not in row or place_of(row) not in torn
    )
    return missing


def _places(number: int, starts: Iterable[Start]) -> list[tuple[int, tuple[Any, Any]]]:
    return [(number, key_of(asdict(start))) for start in starts]


def _seed(team: Team, seed: int, number: int, first: Start) -> None:
    """Give a batch, known by its sample and its first start, random numbers of its own."""
    task = str(first.task_id if first.task_id is not None else first.seed)
    for name, policy in distinct_policies(team).items():
        if isinstance(policy, Seedable):
            policy.seed(int(stream(seed, "evaluation", number, task, name).integers(2**32)))
