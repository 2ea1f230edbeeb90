"""Runs with Ray actors: equal to the last bit, whatever plays them, and whichever nodes die."""

from __future__ import annotations

import logging
import os
import stat
import sys
from functools import partial
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from llm_decpomdp.algorithms.rollout_workers import ray_workers
from llm_decpomdp.algorithms.rollout_workers.options import ClusterOptions, RolloutWorkerError
from llm_decpomdp.algorithms.rollout_workers.ray_workers import (
    AUTH_MODE,
    RayRolloutWorkers,
    connect,
)
from tests.algorithms.rollout_workers import worker_states
from tests.algorithms.rollout_workers.test_process_workers import require_same, trainer
from tests.algorithms.runs import Run
from tests.support.processes import python

slow = pytest.mark.slow


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Run:
    run = trainer(tmp_path_factory.mktemp("local"))
    run.run_updates()
    return run


def rollout_worker(build: Any, workers: int, cluster: Any = None) -> RayRolloutWorkers:
    address = cluster and cluster.address
    return RayRolloutWorkers(build, workers, address=address, trusted_network=cluster is not None)


@slow
@pytest.mark.parametrize("workers", [1, 2, 3])
def test_actors_equal_one_process(local: Run, tmp_path: Path, cluster: Any, workers: int) -> None:
    run = trainer(tmp_path, rollout_worker=rollout_worker(worker_states.echo, workers, cluster))
    run.run_updates()
    require_same(local, run)


@slow
@pytest.mark.parametrize("node", [False, True])
def test_a_bundle_whose_actor_or_node_is_killed_is_played_again(
    local: Run, tmp_path: Path, cluster: Any, caplog: pytest.LogCaptureFixture, node: bool
) -> None:
    deaths = tmp_path / "deaths"
    deaths.mkdir()
    build = partial(worker_states.fatal, deaths, 1, node=node)
    run = trainer(tmp_path / "run", rollout_worker=rollout_worker(build, 2, cluster))
    with caplog.at_level(logging.WARNING):
        run.run_updates()
    require_same(local, run)
    assert "batch 2 of update 2 (starts: seed 12, seed 13) is sampled again" in caplog.text


@slow
def test_a_bundle_that_kills_every_actor_ends_the_run(tmp_path: Path, cluster: Any) -> None:
    deaths = tmp_path / "deaths"
    deaths.mkdir()
    run = trainer(
        tmp_path / "run",
        rollout_worker=rollout_worker(partial(worker_states.fatal, deaths, 9), 2, cluster),
    )
    with pytest.raises(RolloutWorkerError, match="4 workers have died of batch 2 of update"):
        run.run_updates()
    assert run.saved == 1


@slow
def test_what_fails_for_everyone_is_told_as_it_is(tmp_path: Path, cluster: Any) -> None:
    run = trainer(
        tmp_path, rollout_worker=rollout_worker(worker_states.broken, 1, cluster), eval_starts=[]
    )
    with pytest.raises(FloatingPointError, match=r"^the task has a fault$"):
        run.run_updates()


@slow
def test_a_cluster_without_room_is_told_at_once(cluster: Any) -> None:
    address = {"address": cluster.address, "trusted_network": True}
    with pytest.raises(RolloutWorkerError, match="needs 2 CPUs and 0 GPUs of one node"):
        RayRolloutWorkers(worker_states.echo, 1, cpus=2, **address)  # two nodes have one each
    with pytest.raises(
        RolloutWorkerError, match="needs 1 CPUs and 4 GPUs of one node, and the nodes have"
    ):
        RayRolloutWorkers(worker_states.echo, 1, gpus=4, **address)
    rollout_worker(worker_states.echo, 1, cluster).close()


@slow
def test_a_run_of_the_command_starts_a_cluster_of_its_own_and_ends_it(tmp_path: Path) -> None:
    pytest.importorskip("ray")
    tiny = "model.name=tiny-random algorithm.max_updates=2 algorithm.prompts_per_update=4 evaluation.num_tasks=0"
    tiny += " algorithm.rollout.rollout_batch_size=2 algorithm.num_generations=4 output.record_tokens=true"
    ray = "cluster.engine=ray cluster.rollout_workers=2"
    for folder, items in (("alone", tiny), ("actors", f"{tiny} {ray}")):
        arguments = ["train", "--config", "demo_tldr", "--output", str(tmp_path / folder)]
        python("-m", "llm_decpomdp.benchmarks", *arguments, "--override", *items.split())
    alone, actors = (tmp_path / name / "episodes.jsonl" for name in ("alone", "actors"))
    assert alone.read_bytes() == actors.read_bytes()


class FakeRay(ModuleType):
    """Notes what it is asked for."""

    __version__ = "2.52.0"

    def __init__(self) -> None:
        super().__init__("ray")
        self.calls: list[str] = []
        config = SimpleNamespace(initialize=lambda _: self.calls.append(f"mode {mode()}"))
        self._raylet = SimpleNamespace(Config=config)

    def init(self, address: str, **_: Any) -> None:
        self.calls.append(f"init {address}")


def mode() -> str | None:
    return os.environ.get(AUTH_MODE)


@pytest.fixture
def ray(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> FakeRay:
    """A module that the user has imported before, and a home without a token."""
    module = FakeRay()
    monkeypatch.setitem(sys.modules, "ray", module)
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in (AUTH_MODE, "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"):
        monkeypatch.setenv(name, "")  # so that what is set here is removed
        monkeypatch.delenv(name)
    return module


def test_its_own_cluster_has_a_token_others_cannot_read(ray: FakeRay, tmp_path: Path) -> None:
    connect()
    token = tmp_path / ".ray" / "auth_token"
    assert stat.S_IMODE(token.stat().st_mode) == 0o600
    text = token.read_text()
    assert len(text) == 64
    assert ray.calls == ["mode token", "init local"]
    connect()
    assert token.read_text() == text


@pytest.mark.parametrize("name", ["RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"])
def test_the_token_of_the_user_is_taken(
    ray: FakeRay, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    (tmp_path / "mine").write_text("a" * 64)
    monkeypatch.setenv(name, str(tmp_path / "mine"))
    connect()
    assert not (tmp_path / ".ray").exists()


def test_a_token_that_cannot_be_written_is_told(
    ray: FakeRay, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".ray").write_text("a file")
    with pytest.raises(RolloutWorkerError, match="let RAY_AUTH_TOKEN_PATH name a file that can"):
        connect()
    monkeypatch.setenv(AUTH_MODE, "disabled")
    connect(trusted_network=True)
    assert ray.calls == ["mode token", "mode disabled", "init local"]


def test_a_cluster_without_token_is_refused(ray: FakeRay, tmp_path: Path) -> None:
    with pytest.raises(RolloutWorkerError, match=r"may run code on it.*trusted_network=true"):
        connect("10.0.0.1:6379")
    assert mode() is None
    connect("10.0.0.1:6379", trusted_network=True)
    assert mode() is None
    (tmp_path / ".ray").mkdir()
    (tmp_path / ".ray" / "auth_token").write_text("a" * 64)
    connect("10.0.0.1:6379")
    assert mode() == "token"


def test_an_old_ray_is_refused(ray: FakeRay, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray, "__version__", "2.51.1")
    with pytest.raises(RolloutWorkerError, match=r"ray 2\.51\.1 lets strangers run code"):
        connect()


def test_options_of_ray_are_refused_where_they_mean_nothing() -> None:
    with pytest.raises(ValueError, match="engine=ray means nothing with rollout_workers=0: change"):
        ClusterOptions(engine="ray")
    with pytest.raises(
        ValueError, match="worker_gpus=1 means nothing with engine=local: set engine to ray"
    ):
        ClusterOptions(rollout_workers=1, worker_gpus=1)


def test_actors_get_the_variables_that_decide_what_is_read_and_no_keys() -> None:
    assert "LLM_DECPOMDP_DATA" in ray_workers.SHARED_VARIABLES
    assert not {"RAY_AUTH_TOKEN", "HF_TOKEN", "HF_HUB_TOKEN"} & {*ray_workers.SHARED_VARIABLES}
