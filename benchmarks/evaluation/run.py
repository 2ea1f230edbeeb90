"""Evaluation: a team plays every task several times, and is measured with intervals; docs/evaluation.md.

An evaluation is a folder:

- `manifest.json`: the team, the data and the versions.
- `episodes.jsonl`: a row for each episode, as in a run, with `sample` and tokens.
- `times.jsonl`: a row for each batch, with its first start and the seconds of agents and environment.
- `failures.jsonl`: a row for each skipped episode, whose request has failed.
- `summary.json`, `summary.csv`, `tasks.csv`: the measures, overall and by task.

A batch has all samples of some tasks, so that a model computes a prompt once for them, and its own random numbers.
For a server each episode is a batch, and policies with texts in order play one sample at a time. An evaluation
that is started again plays only missing batches, with the same result. Samples that are added later have batches
of their own, so `sample_blocks` of the manifest says how many samples are played together. Folders of earlier
versions have batches of one sample.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import asdict
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import track

from llm_decpomdp.algorithms import Start
from llm_decpomdp.algorithms.rollouts.collection import MAX_ROWS, Act
from llm_decpomdp.benchmarks.config.errors import ConfigError, differences, in_short
from llm_decpomdp.benchmarks.config.load import origins_of
from llm_decpomdp.benchmarks.evaluation.baselines import BASELINES, find_baseline_name
from llm_decpomdp.benchmarks.evaluation.folder import (
    FAILURES,
    TIMES,
    EvaluationResult,
    read_evaluation,
    write_summary,
)
from llm_decpomdp.benchmarks.evaluation.play import (
    Batch,
    EpisodePlayer,
    PlayedBatch,
    act_simultaneously,
    episodes_of,
)
from llm_decpomdp.benchmarks.runs.manifest import describe_env, describe_software
from llm_decpomdp.benchmarks.runs.results import make_episode_key, make_start_key, unique_rows
from llm_decpomdp.env import DecPOMDPEnv
from llm_decpomdp.policy import Team, continues_earlier
from llm_decpomdp.utils.storage import RunFolder, append_json_line, keep_json_lines
from llm_decpomdp.validation import unknown

AT_A_TIME = 64

USUAL_K = (1, 5, 10)

MADE_WITH = ("packages", "plugins", "python", "platform", "git")
"""Keys of a manifest that may change between sessions of an evaluation; `earlier` lists their earlier values."""

MAX_SAMPLES = 1_000_000

ON_ERROR = ("raise", "skip")
"""Choices after a request to a server has failed for good: end the evaluation, or skip the episode."""


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
    """Play every start `samples` times, and write the measures into a folder.

    Equal arguments give equal rows on a CPU, also after an interruption, if every policy that samples has `seed`.
    Remote models may answer differently. More tasks and samples can be added to a folder later.

    Args:
        env: The environment.
        team: A policy for each agent; their random streams are restarted.
        starts: Different episode starts, each with a task or a seed.
        samples: Episodes of each start.
        folder: A new folder, or that of the same evaluation.
        seed: Seed of all sampling.
        act: The way in which the team acts.
        about: JSON-able identity of the team; its folder refuses an evaluation of another one.
        k: The k of pass@k; by default 1, 5 and 10, up to the number of samples.
        at_a_time: Episodes in a batch, or the maximum number of parallel requests to a server.
        on_error: After a request to a server has failed for good: `raise` the error, when the running episodes
            have ended; or `skip` the episode, which then counts as failed.
        progress: Whether to show a progress bar on a terminal.

    Raises:
        ConfigError: If an argument is out of its range, or the folder holds another evaluation.
        TypeError: If the environment has no tasks, as one of another library.
        FolderInUse: If another process writes to the folder.
        RunError: If every single episode has failed.
        Exception: What policies and environments raise.
    """
    # Arguments are checked before anything is loaded or written.
    ks = _check_arguments(env, team, starts, samples, k, at_a_time, on_error)
    place = folder if isinstance(folder, RunFolder) else RunFolder(folder)
    identity = {
        "environment": {"id": env.spec_id, **env.spec_kwargs},
        "data": env.metadata["data"]["fingerprint"],
        "team": list(team),
        # Versions are not part of the identity, so that an update of a package keeps the rows.
        "about": dict(about or {}),
        "seed": seed,
        "at_a_time": at_a_time,
    }
    manifest = _manifest(env, starts, samples, ks, identity)
    player = EpisodePlayer(env, team, act, seed)
    # Servers answer requests in any order, so every episode is a separate batch.
    parallel = min(player.waiting, at_a_time)
    # Scripted texts are given sample by sample. More rows than a pass of a model has would need more memory.
    in_order = any(map(continues_earlier, team.values()))
    together = 1 if parallel or in_order else min(at_a_time, MAX_ROWS)
    console = Console(stderr=True)
    # A progress bar in a log file is noise.
    hidden = not progress or not console.is_terminal
    with place.exclusive_access():
        before = _open(place, manifest)
        # Rows are read after the lock is taken: another process may have added some.
        blocks = _sample_blocks(place, before, samples, together)
        batches = _missing(place, starts, samples, blocks, 1 if parallel else at_a_time)
        # The manifest comes before the first row, so that a stopped evaluation knows what it is.
        history = _version_history(before, manifest, bool(batches))
        place.write_manifest({**manifest, "sample_blocks": blocks, **history})
        playing = (
            player.play_apart(batches, parallel, on_error == "skip")
            if parallel
            else player.play(batches)
        )
        for outcome in track(playing, "evaluating", len(batches), console=console, disable=hidden):
            _append(place, outcome)
        # Read from the files, so that results do not depend on the session that played them.
        evaluation = read_evaluation(place.path)
        write_summary(evaluation)
    return evaluation


def _check_arguments(
    env: DecPOMDPEnv,
    team: Team,
    starts: Sequence[Start],
    samples: int,
    k: Sequence[int],
    at_a_time: int,
    on_error: str,
) -> list[int]:
    """Check the arguments of `evaluate`, and return the k of pass@k."""
    if not isinstance(getattr(env, "unwrapped", None), DecPOMDPEnv):
        raise TypeError(
            f"evaluate needs an environment with tasks, roles, a reward and a mode, got {env!r}: write one "
            "(docs/plugins.md), or play its episodes with llm_decpomdp.algorithms.rollouts.play.play_episodes"
        )
    if set(team) != set(env.possible_agents):
        raise ConfigError(
            f"the team plays {', '.join(team)}, and the environment has {', '.join(env.possible_agents)}"
        )
    if not starts or len(set(starts)) < len(starts):
        raise ConfigError(f"an evaluation needs different tasks, at least one; got {len(starts)}")
    if any(start == Start() for start in starts):
        raise ConfigError("every start of an evaluation needs a task_id or a seed")
    check_options(samples, k, at_a_time, on_error)
    return sorted(set(k)) or [size for size in USUAL_K if size <= samples]


def check_options(samples: int, k: Sequence[int], at_a_time: int, on_error: str) -> None:
    """Raise a `ConfigError` for an option of `evaluate` that is out of its range."""
    if not 1 <= samples <= MAX_SAMPLES or at_a_time < 1:
        raise ConfigError(
            f"samples must be from 1 to {MAX_SAMPLES:,}, at_a_time at least 1, got {samples} and {at_a_time}"
        )
    if on_error not in ON_ERROR:
        raise ConfigError(unknown("on_error", on_error, ON_ERROR))
    for size in k:
        if not 1 <= size <= samples:
            raise ConfigError(
                f"pass@{size} needs k from 1 to the number of samples, {samples}: lower k, or raise samples"
            )


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
        # Tuples become lists in a file; the comparison with an earlier manifest needs this form.
        "identity": json.loads(json.dumps(identity)),
        "environment": env.spec_id or env.name,
        "description": describe_env(env),
        "starts": [asdict(start) for start in starts],
        **({"plugins": packages} if packages else {}),
        "samples": samples,
        "k": list(ks),
        "seed": identity["seed"],
        "data": {"eval": env.metadata["data"]},
        **describe_software(),
    }


def _open(place: RunFolder, manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Read the earlier manifest, if there is one; refuse a folder with other content."""
    refuse_run(place)
    if not place.manifest.exists():
        return {}
    before = place.read_manifest()
    changes = list(differences(before["identity"], manifest["identity"]))
    if changes:
        short = in_short([change.removeprefix("about.") for change in changes])
        raise ConfigError(
            f"{place.path} holds another evaluation ({short}): choose another folder with --output, or delete "
            "this one"
        )
    return before


def refuse_run(place: RunFolder) -> None:
    """Refuse a folder with the files of a run.

    Raises:
        ConfigError: If it has some.
    """
    is_evaluation = place.manifest.exists() and place.read_manifest().get("kind") == "evaluation"
    results = (place.manifest, place.config, place.metrics, place.episodes)
    if not is_evaluation and any(path.exists() for path in results):
        raise ConfigError(f"{place.path} holds a run: choose another folder with --output")


def _version_history(
    before: Mapping[str, Any], now: Mapping[str, Any], plays: bool
) -> dict[str, Any]:
    """Return the versions of the rows, with `earlier` ones if new rows are played with others."""
    if not before:
        return {}
    old = {key: before[key] for key in MADE_WITH if key in before}
    earlier = before.get("earlier", [])
    if plays and any(now.get(key) != old.get(key) for key in MADE_WITH):
        return {"earlier": [*earlier, old]}
    return {**old, "earlier": earlier} if earlier else old


def _sample_blocks(
    place: RunFolder, before: Mapping[str, Any], samples: int, together: int
) -> list[int]:
    """Return how many samples are played together, from the first sample on; those of `before` stay.

    New blocks have at most `together` samples.
    """
    blocks: list[int] = before.get("sample_blocks", [])
    if before and not blocks:
        # Folders of earlier versions have batches of one sample, maybe of more samples than asked for last.
        numbers = (int(row["sample"]) for _, row in unique_rows(place.episodes))
        blocks = [1] * max(before["samples"], 1 + max(numbers, default=0))
    missing = range(sum(blocks), samples)
    return [*blocks, *(min(together, samples - number) for number in missing[::together])]


def _missing(
    place: RunFolder, starts: Sequence[Start], samples: int, blocks: Sequence[int], at_a_time: int
) -> list[Batch]:
    """List the batches that lack rows, and drop their other rows and all failures."""
    batches: list[Batch] = []
    for number, end in pairwise(accumulate(blocks, initial=0)):
        size = max(1, at_a_time // (end - number))
        parts = (starts[first : first + size] for first in range(0, len(starts), size))
        if number < samples:
            batches += [(range(number, end), part) for part in parts]
    rows = {make_episode_key(row) for _, row in unique_rows(place.episodes)}
    missing = [batch for batch in batches if not rows.issuperset(_episode_keys(batch))]
    (place.path / FAILURES).unlink(missing_ok=True)  # failed episodes are tried again
    # A batch shares random numbers, so a batch that was stopped is played again as a whole.
    torn = {key for batch in missing for key in _episode_keys(batch)}
    keep_json_lines(place.episodes, _first_of_each(torn))
    # Another one, as each remembers which episodes it has seen.
    times = _first_of_each(torn)
    # Rows of early versions have no start.
    keep_json_lines(place.path / TIMES, lambda row: "start" not in row or times(row))
    return missing


def _first_of_each(dropped: Container[Any]) -> Callable[[Mapping[str, Any]], bool]:
    """Return a rule that keeps the first row of each episode, except of the dropped ones."""
    keys: set[Any] = set()

    def keep(row: Mapping[str, Any]) -> bool:
        key = make_episode_key(row)
        first = key not in dropped and key not in keys
        keys.add(key)
        return first

    return keep


def _episode_keys(batch: Batch) -> list[tuple[int, tuple[Any, Any]]]:
    return [(number, make_start_key(asdict(start))) for number, start in episodes_of(batch)]


def _append(place: RunFolder, outcome: PlayedBatch) -> None:
    episodes = episodes_of(outcome.batch)
    if outcome.error is not None:
        for number, start in episodes:
            row = {"sample": number, "start": asdict(start), "error": str(outcome.error)}
            append_json_line(place.path / FAILURES, row)
        return
    for row in outcome.rows:
        append_json_line(place.episodes, row)
    # The row of times comes last: without it a batch counts as unfinished.
    number, start = episodes[0]
    counts = {"samples": len(outcome.batch[0]), "episodes": len(episodes)}
    times = {"sample": number, "start": asdict(start), **counts}
    append_json_line(place.path / TIMES, {**times, "seconds": outcome.seconds})
