"""Runs with workers: equal to the last bit, whatever plays them and whatever dies."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from llm_decpomdp.algorithms.rollout_workers.options import RolloutWorkerError
from llm_decpomdp.algorithms.rollout_workers.process_workers import ProcessRolloutWorkers
from llm_decpomdp.algorithms.training.callbacks import Interrupted
from llm_decpomdp.policy import PromptTooLong
from llm_decpomdp.utils.storage import read_json_lines
from tests.algorithms.rollout_workers import worker_states
from tests.algorithms.runs import Run, build, on_call, rows, weights
from tests.support.processes import ROOT, alive, python

OPTIONS: dict[str, Any] = {
    "rollout_batch_size": 2,
    "record_tokens": True,
    "eval_starts": worker_states.EVAL_STARTS,
    "group_size": 6,
}


def trainer(folder: Path, batches: Any = worker_states.BATCHES, **options: Any) -> Run:
    return build(folder, batches, **{**OPTIONS, **options})


def require_same(one: Run, other: Run) -> None:
    """Check that two runs have left equal bytes of episodes and weights, and equal metrics."""
    assert one.folder.episodes.read_bytes() == other.folder.episodes.read_bytes()
    assert rows(one.folder.metrics) == rows(other.folder.metrics)
    assert all(torch.equal(a, b) for a, b in zip(weights(one), weights(other), strict=True))


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """The run that one process plays alone."""
    run = trainer(tmp_path_factory.mktemp("local"))
    run.run_updates()
    loud = [r for r in read_json_lines(run.folder.metrics) if r["kind"] == "train"]
    assert all(r["groups_without_signal"] <= r["groups"] / 2 for r in loud)  # weights do change
    return run


@pytest.mark.slow  # the next test has two workers, and a third in place of one
@pytest.mark.parametrize("workers", [1, 2, 3])
def test_workers_play_what_one_process_plays(local: Run, tmp_path: Path, workers: int) -> None:
    run = trainer(tmp_path, rollout_worker=ProcessRolloutWorkers(worker_states.echo, workers))
    run.run_updates()
    require_same(local, run)


def test_a_bundle_whose_worker_is_killed_is_played_again(
    local: Run, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    deaths = tmp_path / "deaths"
    deaths.mkdir()
    run = trainer(
        tmp_path / "run",
        rollout_worker=ProcessRolloutWorkers(partial(worker_states.fatal, deaths, 1), 2),
    )
    with caplog.at_level(logging.WARNING):
        run.run_updates()
    require_same(local, run)
    (message,) = [record.message for record in caplog.records if "worker" in record.message]
    assert "died by SIGKILL: batch 2 of update 2 (starts: seed 12, seed 13) is sampled" in message


@pytest.mark.slow
def test_a_bundle_that_kills_every_worker_ends_the_run_and_is_named(tmp_path: Path) -> None:
    deaths = tmp_path / "deaths"
    deaths.mkdir()
    rollout_worker = ProcessRolloutWorkers(
        partial(worker_states.fatal, deaths, 9), 1, max_retries=1
    )
    run = trainer(tmp_path / "run", rollout_worker=rollout_worker, eval_starts=[])
    with pytest.raises(RolloutWorkerError) as caught:
        run.run_updates()
    message = str(caught.value)
    assert message.startswith("2 workers have died of batch 2 of update 2 (starts")
    assert "seed 13" in message and "by SIGKILL" in message
    assert message.endswith("the last words of a worker")
    assert run.saved == 1 and not rollout_worker.workers


@pytest.mark.slow
def test_a_run_goes_on_with_another_number_of_workers(local: Run, tmp_path: Path) -> None:
    rollout_worker: Any = ProcessRolloutWorkers(worker_states.echo, 2)
    first = trainer(tmp_path, rollout_worker=rollout_worker)
    rollout_worker.run_batches = on_call(
        4, rollout_worker.run_batches, lambda *_: signal.raise_signal(signal.SIGINT)
    )
    with pytest.raises(Interrupted, match="after update 3 of 4"):
        first.run_updates()
    assert not rollout_worker.workers
    second = trainer(tmp_path, rollout_worker=ProcessRolloutWorkers(worker_states.echo, 1))
    assert second.resume() == 3
    second.run_updates()
    require_same(local, second)


@pytest.mark.slow
def test_what_fails_for_everyone_is_told_at_once_and_as_it_is(tmp_path: Path) -> None:
    run = trainer(
        tmp_path / "1",
        rollout_worker=ProcessRolloutWorkers(worker_states.broken, 1),
        eval_starts=[],
    )
    with pytest.raises(FloatingPointError, match=r"^the task has a fault$"):
        run.run_updates()
    run = trainer(tmp_path / "2", rollout_worker=ProcessRolloutWorkers(worker_states.absent, 1))
    with pytest.raises(OSError, match="no model of that name"):
        run.run_updates()


def test_a_crew_has_workers_and_an_end() -> None:
    with pytest.raises(ValueError, match="got 0 and 3"):
        ProcessRolloutWorkers(worker_states.echo, 0)
    with pytest.raises(ValueError, match="got 1 and -1"):
        ProcessRolloutWorkers(worker_states.echo, 1, -1)
    rollout_worker = ProcessRolloutWorkers(worker_states.echo, 1)
    folder = rollout_worker.folder
    assert folder.is_dir()
    rollout_worker.close()
    assert not folder.exists()


def test_an_error_of_a_long_prompt_comes_from_a_worker_whole() -> None:
    import pickle

    again = pickle.loads(pickle.dumps(PromptTooLong("too long: shorten it", "a prompt")))
    assert (str(again), again.prompt) == ("too long: shorten it", "a prompt")


ORPHAN = """
import sys
from functools import partial
from pathlib import Path
from llm_decpomdp.algorithms.rollout_workers.process_workers import ProcessRolloutWorkers
from tests.algorithms.rollout_workers import worker_states
from tests.algorithms.runs import build

if __name__ == "__main__":
    folder = Path(sys.argv[1])
    workers = ProcessRolloutWorkers(partial(worker_states.orphaned, folder / "note"), 1)
    print(workers.folder, flush=True)
    build(folder / "run", rollout_worker=workers, eval_starts=[], rollout_batch_size=1).run_updates()
"""


UNGUARDED = """
import sys
from functools import partial
from pathlib import Path
from llm_decpomdp.algorithms.rollout_workers.process_workers import ProcessRolloutWorkers
from tests.algorithms.runs import build

workers = ProcessRolloutWorkers(partial(dict, more_than_a_pipe_holds=bytes(1_000_000)), 1, max_retries=0)
build(Path(sys.argv[1]), rollout_worker=workers, eval_starts=[], rollout_batch_size=1).run_updates()
"""


@pytest.mark.slow
def test_a_script_whose_workers_cannot_import_it_ends_with_an_error(tmp_path: Path) -> None:
    script = tmp_path / "unguarded.py"
    script.write_text(UNGUARDED)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    run = python(str(script), str(tmp_path / "run"), env=environment, timeout=600, check=False)
    assert run.returncode == 1
    assert "if __name__ == '__main__'" in run.stderr
    assert "1 worker has died of batch 0 of update 1" in run.stderr
    assert "the reason why the worker could not start is printed further up" in run.stderr


def test_a_worker_ends_at_once_when_the_process_that_learns_is_killed(tmp_path: Path) -> None:
    script = tmp_path / "orphan.py"
    script.write_text(ORPHAN)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, str(script), str(tmp_path)]
    done = subprocess.run(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True, timeout=600
    )
    assert done.returncode == -signal.SIGKILL
    worker, _ = map(int, (tmp_path / "note").read_text().split())
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and alive(worker):
        time.sleep(0.05)
    assert not alive(worker)
    assert not Path(done.stdout.strip()).exists()
