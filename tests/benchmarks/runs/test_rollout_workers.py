"""Configurations with rollout workers: the same run, and sandboxes of the workers' own."""

from __future__ import annotations

import logging
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from llm_decpomdp.agents.loading import PolicySpec, TeamSpec
from llm_decpomdp.algorithms.rollout_workers.in_flight import InFlightWorkers
from llm_decpomdp.algorithms.rollout_workers.process_workers import ProcessRolloutWorkers
from llm_decpomdp.algorithms.rollouts.rollout import Start, Timer
from llm_decpomdp.algorithms.training.worker_source import EvaluationBatch
from llm_decpomdp.benchmarks.config.errors import ConfigError
from llm_decpomdp.benchmarks.runs import workers as worker_module
from llm_decpomdp.benchmarks.runs.resume import resume
from llm_decpomdp.benchmarks.runs.setup import load_config, resolve
from llm_decpomdp.benchmarks.runs.train import Result, train
from llm_decpomdp.benchmarks.runs.workers import make_rollout_worker, make_worker_state
from llm_decpomdp.utils.storage import read_json_lines
from tests.benchmarks.runs.conftest import Runs

ROLLOUT_BATCHES = ["algorithm.prompts_per_update=4", "algorithm.rollout.rollout_batch_size=2"]
LOUD = [
    "env.id=tldr-v1",
    "dataset.train_split=test[2:]",
    "dataset.eval_split=test[:2]",
    "model.max_new_tokens=40",
    "model.lora={r: 2}",
    "algorithm.learning_rate=0.01",
    "output.record_tokens=true",
    "output.checkpoint_every=1",
    "output.save_final_model=true",
]


def adapters(result: Result) -> list[bytes]:
    return [path.read_bytes() for path in sorted(result.team.rglob("*.safetensors"))]


@pytest.mark.slow
def test_a_configuration_with_workers_is_the_same_run_and_may_change_their_number(
    quick: list[str], tmp_path: Path
) -> None:
    values = [*quick, *ROLLOUT_BATCHES, *LOUD]
    alone = train(load_config(None, [*values, "output.name=alone"]), "alone")
    loud = [r for r in read_json_lines(alone.folder.metrics) if r["kind"] == "train"]
    assert any(r["groups_without_signal"] < r["groups"] for r in loud)
    begun = ["algorithm.max_updates=1", "cluster.rollout_workers=1", "output.name=begun"]
    train(load_config(None, [*values, *begun, "output.save_final_model=false"]), "begun")
    further = ["algorithm.max_updates=2", "cluster.rollout_workers=0"]
    again = resume(tmp_path / "begun", [*further, "output.save_final_model=true"])
    trained = [
        [r for r in read_json_lines(result.folder.episodes) if r["phase"] == "train"]
        for result in (alone, again)
    ]
    assert trained[0] == trained[1] and len(trained[0]) == 8
    assert adapters(alone) == adapters(again) and len(adapters(alone)) == 2


def test_workers_without_work_are_told(runs: Runs, caplog: pytest.LogCaptureFixture) -> None:
    config = runs.config(*ROLLOUT_BATCHES, "cluster.rollout_workers=3", "cluster.max_retries=0")
    with caplog.at_level(logging.WARNING):
        rollout_worker = make_rollout_worker(resolve(config), {})
    assert "3 rollout workers share updates of 2 rollout batches" in caplog.text
    assert isinstance(rollout_worker, ProcessRolloutWorkers)
    assert (rollout_worker.number, rollout_worker.max_retries) == (3, 0)
    assert make_rollout_worker(resolve(runs.config()), {}) is None


def test_workers_use_the_gpus_that_sample(runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    workers = [*ROLLOUT_BATCHES, "cluster.rollout_workers=1", "policies.aux_0.sample_on=[1]"]
    run = resolve(runs.config(*workers))
    loaded: list[TeamSpec] = []
    monkeypatch.setattr(worker_module, "load_policies", lambda *given: loaded.append(given[-1]))
    make_worker_state(run.config, run.team, *run.envs)
    devices = {name: spec.device for name, spec in loaded[0].policies.items()}
    assert devices == {"aux_0": "cuda:1", "main_0": "auto"}
    assert run.team.policies["aux_0"].device == "auto"  # where it learns


def test_workers_without_rollout_batches_are_refused(runs: Runs) -> None:
    with pytest.raises(ConfigError, match="rollout_workers=2: workers share the rollout batches"):
        runs.config("cluster.rollout_workers=2")
    with pytest.raises(ConfigError, match="must be at least 1, got 0"):
        runs.config("algorithm.rollout.rollout_batch_size=0")


IN_FLIGHT = [
    *ROLLOUT_BATCHES,
    "algorithm.rollout.max_async_level=2",
    "algorithm.rollout.in_flight=true",
]


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ([], "needs workers that sample while the learner learns: set cluster.rollout_workers"),
        (["cluster.engine=ray", "cluster.rollout_workers=1"], "set cluster.engine=local"),
        (["learner.deterministic=true", "cluster.rollout_workers=1"], "no equal bytes"),
        (["model.static_cache=true", "cluster.rollout_workers=1"], "static_cache=True: drop it"),
        (["model.continuous_batching=4", "cluster.rollout_workers=1"], "continuous_batching=4"),
        (["model.prefix_cache=1", "cluster.rollout_workers=1"], "prefix_cache=1.0: drop it"),
    ],
)
def test_weights_in_flight_are_refused_where_they_cannot_be_or_break_a_promise(
    runs: Runs, values: list[str], told: str
) -> None:
    with pytest.raises(ConfigError, match=rf"in_flight=true .*{told}.*in_flight=false"):
        runs.config(*IN_FLIGHT, *values)


def test_weights_in_flight_need_a_lag_and_have_workers_of_their_own(runs: Runs) -> None:
    with pytest.raises(ConfigError, match=r"in_flight=True means nothing with max_async_level=0"):
        runs.config(
            *ROLLOUT_BATCHES, "algorithm.rollout.in_flight=true", "cluster.rollout_workers=1"
        )
    config = runs.config(*IN_FLIGHT, "cluster.rollout_workers=1")
    assert isinstance(make_rollout_worker(resolve(config), {}), InFlightWorkers)


def test_a_worker_runs_programs_in_a_sandbox_of_its_own(runs: Runs) -> None:
    run = resolve(runs.config())
    gold = dict.fromkeys(run.team.policies, PolicySpec("gold"))
    run = replace(run, team=TeamSpec(run.team.agents, gold))
    starts = tuple(Start(task_id=task.task_id) for task in run.eval_env.tasks.tasks[:3])
    rollout_worker = ProcessRolloutWorkers(
        partial(make_worker_state, run.config, run.team, *run.envs), 1
    )
    try:
        (rollouts,) = rollout_worker.run_batches([EvaluationBatch(0, starts, 0, 3)], Timer())
    finally:
        rollout_worker.close()
    assert [rollout.start for rollout in rollouts] == list(starts)
    assert [rollout.groups[-1].rewards for rollout in rollouts] == [(4.0,)] * 3
