"""Evaluation: a team plays every task several times, and is measured with intervals; docs/evaluation.md.

An evaluation is a folder:

- `manifest.json`: what was evaluated, on which data, with which versions.
- `episodes.jsonl`: one row for each episode, as of a run's evaluations, with `sample` and `tokens` besides.
- `times.jsonl`: one row for each batch, with its first start and the seconds of agents and environment.
- `failures.jsonl`: one row for each episode that a failed request has ended, where such are skipped.
- `summary.json`, `summary.csv`, `tasks.csv`: the measures, overall and of each task.

Episodes are played in batches of tasks, one sample of each, and every batch has random numbers of its own; a team
that asks a server plays each episode by itself. What is missing in a folder is played when the evaluation is
started again, as it would have been at first.
"""

from __future__ import annotations

import json
import platform
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import track

from llm_decpomdp.algorithms.rollouts.rollout import Start
from llm_decpomdp.algorithms.rollouts.sampling import Act
from llm_decpomdp.benchmarks.config.errors import ConfigError, differences, in_short
from llm_decpomdp.benchmarks.config.plugins import origins_of
from llm_decpomdp.benchmarks.evaluation.baselines import BASELINES, find_baseline_name
from llm_decpomdp.benchmarks.evaluation.folder import (
    FAILURES,
    TIMES,
    EvaluationResult,
    read_evaluation,
    write_summary,
)
from llm_decpomdp.benchmarks.evaluation.play import (
    EpisodePlayer,
    PlayedBatch,
    act_simultaneously,
    check_on_error,
)
from llm_decpomdp.benchmarks.runs.manifest import commit_of_package, describe_env, versions
from llm_decpomdp.benchmarks.runs.results import make_episode_key, make_start_key, unique_rows
from llm_decpomdp.env import DecPOMDPEnv
from llm_decpomdp.policy import Team
from llm_decpomdp.utils.storage import RunFolder, append_json_line, keep_json_lines

AT_A_TIME = 64
"""Episodes that are played in step."""

USUAL_K = (1, 5, 10)
"""The k of pass@k where there are as many samples and none are asked for."""

MADE_WITH = ("packages", "plugins", "python", "platform", "git")
"""Keys of a manifest that may change between the sessions of an evaluation; `earlier` lists those before the last
change."""


def evaluate(
    env: DecPOMDPEnv,
    team: Team,
    starts: Sequence[Start],
    *,
    samples: int = 1,
    folder: RunFolder | Path | str,
    seed: int = 0,
    act: Act = act_simultaneously,
    about: Mapping[str, Any] | None = None,
    k: Sequence[int] = (),
    at_a_time: int = AT_A_TIME,
    on_error: str = "raise",
    progress: bool = True,
) -> EvaluationResult:
    """Play every start `samples` times, and write down the measures.

    Equal arguments give equal rows on a CPU, wherever an evaluation was stopped in between, if every policy
    that samples has `seed` (remote models answer as they like). A folder takes more tasks and samples later.

    Args:
        env: The environment.
        team: A policy for each agent; their random streams are restarted.
        starts: Episode starts, all different and each with a task or a seed.
        samples: Episodes of each start.
        folder: A new folder, or one of the same evaluation.
        seed: Decides all that is sampled.
        act: The way to the agents' completions.
        about: The identity of the entry, JSON-able: an evaluation of something else is refused in its folder.
        k: Of pass@k; 1, 5 and 10 as far as there are samples if none is given.
        at_a_time: Episodes in a batch, or the most that wait for a server at once.
        on_error: What to do once a request to a server has failed for good: `raise` the error, after the episodes
            that have begun; or `skip` the episode, which then counts as failed.
        progress: Whether a terminal is to show a progress bar.

    Raises:
        ConfigError: If an argument is out of its range, or the folder holds another evaluation.
        FolderInUse: If another process writes to the folder.
        RunError: If every single episode has failed.
        Exception: What policies and environments raise.
    """
    _check_team(env, team, starts)
    # Arguments are checked before anything is loaded or written.
    ks = _check_numbers(samples, k, at_a_time, on_error)
    place = folder if isinstance(folder, RunFolder) else RunFolder(folder)
    identity = {
        "environment": {"id": env.spec_id, **env.spec_kwargs},
        "data": env.metadata["data"]["fingerprint"],
        "team": list(team),
        # What decides the rows is in the identity; versions are not, so that an update of a package
        # does not throw rows away.
        "about": dict(about or {}),
        "seed": seed,
        "at_a_time": at_a_time,
    }
    manifest = _manifest(env, starts, samples, ks, identity)
    player = EpisodePlayer(env, team, act, seed)
    # Servers answer requests in any order, so every episode is a batch of its own there.
    parallel = min(player.waiting, at_a_time)
    console = Console(stderr=True)
    # A progress bar in a log file is noise.
    hidden = not progress or not console.is_terminal
    with place.exclusive_access():
        before = _open(place, manifest)
        # Rows are read after the lock is taken: another process may have added some.
        batches = _missing(place, starts, samples, 1 if parallel else at_a_time)
        # The manifest comes before the first row, so that a stopped evaluation knows what it is.
        place.write_manifest({**manifest, **_version_history(before, manifest, bool(batches))})
        playing = (
            player.play_apart(batches, parallel, on_error == "skip")
            if parallel
            else player.play(batches)
        )
        for outcome in track(playing, "evaluating", len(batches), console=console, disable=hidden):
            _keep(place, outcome)
        # Read from the files, so that a result is the same whether it was played now or before.
        evaluation = read_evaluation(place.path)
        write_summary(evaluation)
    return evaluation


def _check_team(env: DecPOMDPEnv, team: Team, starts: Sequence[Start]) -> None:
    if set(team) != set(env.possible_agents):
        raise ConfigError(
            f"the team plays {', '.join(team)}, and the environment has {', '.join(env.possible_agents)}"
        )
    if not starts or len(set(starts)) < len(starts):
        raise ConfigError(f"an evaluation needs different tasks, at least one; got {len(starts)}")
    if any(start == Start() for start in starts):
        raise ConfigError("every start of an evaluation needs a task_id or a seed")


def _check_numbers(samples: int, k: Sequence[int], at_a_time: int, on_error: str) -> list[int]:
    """Check the other arguments, and return the k of pass@k."""
    if samples < 1 or at_a_time < 1:
        raise ConfigError(
            f"samples and at_a_time must be at least 1, got {samples} and {at_a_time}"
        )
    check_on_error(on_error)
    for size in k:
        if not 1 <= size <= samples:
            raise ConfigError(f"pass@{size} needs k from 1 to the number of samples, {samples}")
    return sorted(set(k)) or [size for size in USUAL_K if size <= samples]


def _manifest(
    env: DecPOMDPEnv,
    starts: Sequence[Start],
    samples: int,
    ks: Sequence[int],
    identity: Mapping[str, Any],
) -> dict[str, Any]:
    baseline, kwargs = find_baseline_name(identity["about"]), env.spec_kwargs
    names = {
        "environment": env.spec_id,
        "reward": kwargs.get("reward"),
        "mode": kwargs.get("external_mode"),
        "baseline": None if baseline in BASELINES else baseline,
    }
    packages = origins_of((kind, name) for kind, name in names.items() if isinstance(name, str))
    return {
        "kind": "evaluation",
        # Tuples become lists in a file; the comparison with an earlier manifest needs the same
        # form.
        "identity": json.loads(json.dumps(identity)),  # as it is read again
        "environment": env.spec_id or env.name,
        "description": describe_env(env),
        "starts": [asdict(start) for start in starts],
        **({"plugins": packages} if packages else {}),
        "samples": samples,
        "k": list(ks),
        "seed": identity["seed"],
        "data": {"eval": env.metadata["data"]},
        "packages": versions(),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "git": commit_of_package(),
    }


def _open(place: RunFolder, manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Read the manifest that was there before, if there was one; refuse a folder that holds something else."""
    refuse_run(place)
    if place.manifest.exists():
        before = place.read_manifest()
        old, new = before["identity"], manifest["identity"]
        changes = [change.removeprefix("about.") for change in differences(old, new)]
        if changes:
            raise ConfigError(
                f"{place.path} holds another evaluation ({in_short(changes)}): choose another folder with "
                "--output, or delete this one"
            )
        return before
    return {}


def refuse_run(place: RunFolder) -> None:
    """Refuse a folder that holds something else than an evaluation.

    Raises:
        ConfigError: If it does.
    """
    is_evaluation = place.manifest.exists() and place.read_manifest().get("kind") == "evaluation"
    results = (place.manifest, place.config, place.metrics, place.episodes)
    if not is_evaluation and any(path.exists() for path in results):
        raise ConfigError(f"{place.path} holds a run: choose another folder with --output")


def _version_history(
    before: Mapping[str, Any], now: Mapping[str, Any], plays: bool
) -> dict[str, Any]:
    """Return the versions behind the rows: as they were where nothing is played, else with the `earlier` ones."""
    if not before:
        return {}
    old = {key: before[key] for key in MADE_WITH if key in before}
    earlier = before.get("earlier", [])
    # Rows of several versions stay, and all versions are listed.
    if plays and any(now.get(key) != old.get(key) for key in MADE_WITH):
        return {"earlier": [*earlier, old]}
    return {**old, "earlier": earlier} if earlier else old


def _missing(
    place: RunFolder, starts: Sequence[Start], samples: int, at_a_time: int
) -> list[tuple[int, Sequence[Start]]]:
    """List the batches that lack rows; the rows that they have are dropped, as failures are."""
    batches = [
        (number, starts[first : first + at_a_time])
        for number in range(samples)
        for first in range(0, len(starts), at_a_time)
    ]
    rows = {make_episode_key(row) for _, row in unique_rows(place.episodes)}
    missing = [(n, batch) for n, batch in batches if not rows.issuperset(_places(n, batch))]
    (place.path / FAILURES).unlink(missing_ok=True)  # they are tried again
    # A batch shares random numbers, so a batch that was stopped in its middle is played again as a
    # whole.
    torn = {place for n, batch in missing for place in _places(n, batch)}
    keep_json_lines(place.episodes, _first_of_each(torn))
    times = _first_of_each(torn)
    keep_json_lines(  # older rows do not tell their start
        place.path / TIMES, lambda row: "start" not in row or times(row)
    )
    return missing


def _first_of_each(dropped: Container[Any]) -> Callable[[Mapping[str, Any]], bool]:
    """Return a rule that keeps the first row of each place, but none of the dropped places."""
    places: set[Any] = set()

    def keep(row: Mapping[str, Any]) -> bool:
        place = make_episode_key(row)
        first = place not in dropped and place not in places
        places.add(place)
        return first

    return keep


def _places(number: int, starts: Iterable[Start]) -> list[tuple[int, tuple[Any, Any]]]:
    return [(number, make_start_key(asdict(start))) for start in starts]


def _keep(place: RunFolder, outcome: PlayedBatch) -> None:
    """Write down the outcome of a batch."""
    number, starts = outcome.batch
    if outcome.error is not None:
        for start in starts:
            row = {"sample": number, "start": asdict(start), "error": str(outcome.error)}
            append_json_line(place.path / FAILURES, row)
        return
    for row in outcome.rows:
        append_json_line(place.episodes, row)
    # The row of times comes last: without it a batch counts as unfinished.
    times = {"sample": number, "start": asdict(starts[0]), "episodes": len(starts)}
    append_json_line(place.path / TIMES, {**times, "seconds": outcome.seconds})
