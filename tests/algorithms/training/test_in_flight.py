"""Updates whose rollouts continue under new weights: what is begun when, metrics, resuming, and a real run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from llm_decpomdp.agents import Sampling, tiny_causal_lm
from llm_decpomdp.algorithms.rollout_workers.base import RolloutBatch, WorkerState
from llm_decpomdp.algorithms.rollout_workers.in_flight import InFlightWorkers
from llm_decpomdp.algorithms.rollout_workers.process_workers import ProcessRolloutWorkers
from llm_decpomdp.algorithms.rollouts.rollout import Rollout, Timer
from llm_decpomdp.algorithms.rollouts.serialization import from_text, to_text
from llm_decpomdp.algorithms.training import checkpoint
from llm_decpomdp.algorithms.training.in_flight import version_metrics
from llm_decpomdp.utils.storage import read_json_lines
from tests.algorithms.conftest import EchoEnv
from tests.algorithms.rollout_workers import worker_states
from tests.algorithms.runs import LocalWorker, Run, build, on_call, recording_team, sampled

LEARNER = {"importance_sampling": "truncate"}
OPTIONS: dict[str, Any] = {
    "rollout_batch_size": 2,
    "eval_starts": worker_states.EVAL_STARTS,
    "max_async_level": 2,
    "in_flight": True,
    "learner": LEARNER,
}


class NotedWorkers(InFlightWorkers):
    """Samples here, and notes the calls."""

    def __init__(self, team: Any) -> None:
        super().__init__(worker_states.echo, 1)
        self.local = LocalWorker(WorkerState(EchoEnv(2), EchoEnv(2), team))
        self.calls: list[str] = []

    def update_weights(self, policies: Any, version: int) -> None:
        self.calls.append(f"weights {version}")

    def prefetch(self, batches: Sequence[RolloutBatch]) -> None:
        self.calls.append(f"begin {batches[0].purpose}")

    def run_batches(self, batches: Sequence[RolloutBatch], timer: Timer) -> list[list[Rollout]]:
        self.calls.append(batches[0].purpose)
        return self.local.run_batches(batches, timer)


def noted(folder: Path, **options: Any) -> tuple[Run, list[str]]:
    team = recording_team()
    workers = NotedWorkers(team)
    given = {**OPTIONS, "team": team, "rollout_worker": workers, **options}
    run = build(folder, worker_states.BATCHES, **given)
    step = run.learner.step
    run.learner.step = lambda: (workers.calls.append("step"), step())[1]  # type: ignore[method-assign]
    return run, workers.calls


def test_the_learner_waits_for_the_batch_of_its_own_update_alone(tmp_path: Path) -> None:
    run, calls = noted(tmp_path, eval_starts=())
    run.run_updates()
    first = ["weights 0", "begin update 1", "begin update 2", "begin update 3", "update 1", "step"]
    second = ["weights 1", "begin update 4", "update 2", "step"]
    rest = ["weights 2", "update 3", "step", "weights 3", "update 4", "step"]
    assert calls == [*first, *second, *rest]


def test_a_run_that_goes_on_samples_the_open_batches_again(tmp_path: Path) -> None:
    run, _ = noted(tmp_path, checkpoint_every=1)
    run.learner.accumulate = on_call(2, run.learner.accumulate, fail)  # type: ignore[method-assign]
    with pytest.raises(RuntimeError, match="in update 3"):
        run.run_updates()
    newest = max(run.folder.checkpoints.iterdir())
    assert "waiting" not in checkpoint.load(newest)[1]
    again, calls = noted(tmp_path, checkpoint_every=1)
    assert again.resume() == 2
    again.run_updates()
    played = [call for call in calls if "evaluation" not in call]
    assert played[:4] == ["weights 2", "begin update 3", "begin update 4", "update 3"]
    rows = [row for row in read_json_lines(again.folder.metrics) if row["kind"] == "train"]
    assert [row["update"] for row in rows] == [1, 2, 3, 4]


def fail(*_: Any) -> None:
    raise RuntimeError("a failure in update 3")


def test_other_workers_and_stored_rollouts_are_refused(tmp_path: Path) -> None:
    told = r"set cluster\.rollout_workers with cluster\.engine=local"
    for workers in (None, ProcessRolloutWorkers(worker_states.echo, 1)):
        with pytest.raises(ValueError, match=told):
            build(tmp_path, worker_states.BATCHES, **{**OPTIONS, "rollout_worker": workers})
    with pytest.raises(ValueError, match="in_flight means nothing with stored rollouts"):
        noted(tmp_path, stored=[sampled(2)])


def written(*versions: tuple[int, ...]) -> Rollout:
    """A rollout in which the completions of `x` have these versions, and those of `y` version 0."""
    rollout = sampled()[0]
    group = rollout.groups[0]
    completions = {
        "x": tuple(replace(group.completions["x"][0], versions=one) for one in versions),
        "y": tuple(replace(one, versions=(0,)) for one in group.completions["y"]),
    }
    return replace(rollout, groups=(replace(group, completions=completions),))


def test_metrics_of_versions() -> None:
    rollouts = [written((3, 3), (3, 4, 5), ()), written((5,))]
    assert version_metrics(rollouts, ["x"], 5) == {
        "lag": 2,
        "older_tokens": 4 / 6,
        "mixed_completions": 1 / 3,
    }
    assert version_metrics(rollouts, ["z"], 5) == {}
    (rollout, _) = rollouts
    assert from_text(to_text(rollout)) == rollout
    assert "versions" not in to_text(sampled()[0])


def long_answers() -> WorkerState:
    """Two tiny models with answers of some hundred tokens."""
    team = {
        agent: tiny_causal_lm("ab", Sampling(max_new_tokens=90), context=512, seed=seed)
        for agent, seed in (("x", 1), ("y", 2))
    }
    for policy in team.values():  # the end becomes rare
        policy.model.lm_head.weight.data[0] *= 0
        policy.model.model.norm.weight.data *= 3
    return WorkerState(EchoEnv(2), EchoEnv(2), team)


@pytest.mark.slow
def test_workers_write_answers_with_weights_of_at_most_the_largest_lag(tmp_path: Path) -> None:
    state = long_answers()
    batches = [batch[:4] for batch in worker_states.BATCHES * 2]
    run = build(
        tmp_path,
        batches,
        **{**OPTIONS, "record_tokens": True, "team": state.team},
        rollout_worker=InFlightWorkers(long_answers, 2),
    )
    seen: list[tuple[int, set[int]]] = []
    learn: Any = run.learner.accumulate

    def accumulate(rollouts: Sequence[Rollout]) -> Any:
        groups = [group for rollout in rollouts for group in rollout.groups]
        said = [one for group in groups for of in group.completions.values() for one in of]
        assert all(len(one.versions) == len(one.tokens) == len(one.log_probs) for one in said)
        seen.append((run.learner.updates, {v for one in said for v in one.versions}))
        return learn(rollouts)

    run.learner.accumulate = accumulate  # type: ignore[method-assign]
    run.run_updates()
    assert all(max(0, now - 2) <= min(of) <= max(of) <= now for now, of in seen)
    assert len(seen) == 8 and any(len(of) > 1 for _, of in seen)
    rows = [row for row in read_json_lines(run.folder.metrics) if row["kind"] == "train"]
    assert [row["lag"] for row in rows] == [now - min(of) for now, of in seen]
    assert max(row["mixed_completions"] for row in rows) > 0
