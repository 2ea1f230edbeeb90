from __future__ import annotations

import signal
from collections import deque
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from llm_decpomdp.agents.scripted import Replay
from llm_decpomdp.algorithms import (
    BASELINES,
    Algorithm,
    LearnerOptions,
    TrainerCallback,
    TrainerOptions,
)
from llm_decpomdp.algorithms.training import checkpoint
from llm_decpomdp.algorithms.training import checkpoint_manager as saver_module
from llm_decpomdp.algorithms.training.callbacks import Interrupted
from llm_decpomdp.utils.storage import FolderInUse, append_json_line
from tests.algorithms.runs import (
    BATCHES,
    KILLED,
    MOMENTS,
    Run,
    build,
    make_team,
    on_call,
    require_equal,
    require_exact_resume,
    require_resumed,
    rows,
    start,
    stop,
)


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folders of runs that were killed, each named by the moment."""
    folder = tmp_path_factory.mktemp("killed")
    start("kill", folder, *MOMENTS)
    return folder


@pytest.fixture(scope="module")
def straight(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """The same run, which nothing stopped."""
    trainer = build(tmp_path_factory.mktemp("straight"), **KILLED)
    trainer.run_updates()
    return trainer


@pytest.fixture(scope="module")
def evaluated(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run with evaluations, which nothing stopped."""
    trainer = build(tmp_path_factory.mktemp("evaluated"), eval_every=2)
    trainer.run_updates()
    return trainer


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_killed_run_goes_on_exactly(killed: Path, straight: Run, moment: str) -> None:
    again = build(killed / moment, **KILLED)
    require_resumed(straight, again)
    folders = [run.folder.checkpoints for run in (straight, again)]
    names = [sorted(path.name for path in folder.iterdir()) for folder in folders]
    assert names[0] == names[1]
    best = [checkpoint.best(folder) for folder in folders]
    assert best[0] is not None and best[1] is not None
    assert checkpoint.read_counters(best[0]) == checkpoint.read_counters(best[1])


@pytest.mark.parametrize(
    "options",
    [
        {"mode": "tree", "joint_mode": "cross", "group_size": 2},
        {"joint_mode": "common", "num_partners": 2, "eval_every": 1},
        pytest.param({"mode": "episodes"}, marks=pytest.mark.slow),
    ],
)
def test_a_run_of_any_plan_resumes_exactly(tmp_path: Path, options: Any) -> None:
    again = require_exact_resume(tmp_path, **options)
    assert again.summary()["updates"] == again.saved == 4  # a run with a checkpoint ends with one


def test_rows_written_after_the_checkpoint_are_dropped_on_resuming(tmp_path: Path) -> None:
    straight = build(tmp_path / "straight", checkpoint_every=3)
    straight.run_updates()
    killed = build(tmp_path / "killed", checkpoint_every=2)
    killed.run_updates()
    newest = checkpoint.latest(killed.folder.checkpoints)
    assert newest is not None
    newest.rename(tmp_path / "lost")
    append_json_line(killed.folder.metrics, {"update": 5, "kind": "train"})
    require_resumed(straight, build(tmp_path / "killed"), 2)


SIGNALS = {
    0: signal.SIGINT,
    3: signal.SIGTERM,
    7: signal.SIGINT,
    9: signal.SIGHUP,
    12: signal.SIGTERM,
}


@pytest.fixture
def number(request: pytest.FixtureRequest) -> Iterator[signal.Signals]:
    """A signal that is not ignored: under nohup, SIGHUP is, and a run then goes on by intention."""
    before = signal.getsignal(request.param)
    if before is signal.SIG_IGN:
        signal.signal(request.param, signal.SIG_DFL)
    yield request.param
    signal.signal(request.param, before)


@pytest.mark.parametrize(
    ("call", "number"),
    [
        (call, SIGNALS[call])
        if call in (3, 7, 9)
        else pytest.param(call, SIGNALS[call], marks=pytest.mark.slow)
        for call in SIGNALS
    ],
    indirect=["number"],
)
def test_a_signal_while_sampling_saves_the_last_update(
    evaluated: Run, tmp_path: Path, call: int, number: signal.Signals
) -> None:
    stopped = build(tmp_path / "stopped", eval_every=2)
    policy: Any = stopped.team["y"]
    policy.generate = on_call(call, policy.generate, lambda *_: signal.raise_signal(number))
    with pytest.raises(Interrupted, match=r"after update \d of 4.*resume the run") as caught:
        stopped.run_updates()
    assert caught.value.folder == tmp_path / "stopped"
    assert caught.value.update == stopped.saved
    require_resumed(evaluated, build(tmp_path / "stopped", eval_every=2), stopped.saved)


@pytest.mark.parametrize(
    "learner",
    [
        {"num_iterations": 3, "normalize_advantages": "role"},
        pytest.param({}, marks=pytest.mark.slow),
    ],
)
def test_a_signal_between_two_policies_finishes_the_update(tmp_path: Path, learner: Any) -> None:
    straight = build(tmp_path / "straight", learner=learner)
    straight.run_updates()
    stopped = build(tmp_path / "stopped", learner=learner)
    optimizer = stopped.learner._optimizers["x"]._adamw
    optimizer.register_step_post_hook(lambda *arguments: signal.raise_signal(signal.SIGTERM))
    with pytest.raises(Interrupted, match="after update 1 of 4"):
        stopped.run_updates()
    assert stopped.saved == 1
    require_resumed(straight, build(tmp_path / "stopped", learner=learner), 1)


@pytest.mark.parametrize(("call", "saved"), [(12, True), (0, False)])
def test_a_failure_saves_the_complete_updates_and_is_told(
    evaluated: Run, tmp_path: Path, call: int, saved: bool
) -> None:
    def fail(*_: Any) -> None:
        raise RuntimeError("no room on the disk")

    failing = build(tmp_path / "failing", eval_every=2)
    policy: Any = failing.team["y"]
    policy.generate = on_call(call, policy.generate, fail)
    with pytest.raises(RuntimeError, match="no room on the disk"):
        failing.run_updates()
    assert bool(failing.saved) == saved
    if saved:
        require_resumed(evaluated, build(tmp_path / "failing", eval_every=2), failing.saved)


@pytest.mark.parametrize("learner", [{}, {"num_iterations": 2}])
def test_weights_of_half_an_update_are_never_saved(
    tmp_path: Path, learner: Any, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: Any) -> None:
        raise RuntimeError("a failure between two policies")

    failing = build(tmp_path, learner=learner, checkpoint_every=1)
    optimizer: Any = failing.learner._optimizers["y"]
    optimizer.step = on_call(2 * learner.get("num_iterations", 1), optimizer.step, fail)
    with pytest.raises(RuntimeError, match="between two policies"):
        failing.run_updates()
    assert failing.saved == 2 and "failed half way" in caplog.text
    newest = checkpoint.latest(failing.folder.checkpoints)
    assert newest is not None and newest.name == "update-000002"


def test_a_signal_that_is_ignored_as_under_nohup_stops_nothing(tmp_path: Path) -> None:
    previous = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        trainer = build(tmp_path)
        policy: Any = trainer.team["y"]
        policy.generate = on_call(
            3, policy.generate, lambda *a: (signal.raise_signal(signal.SIGHUP), generate(*a))[1]
        )
        generate = make_team()["y"].generate
        assert trainer.run_updates()["updates"] == 4
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, previous)


def test_checkpoints_by_time_follow_any_update_and_change_nothing(tmp_path: Path) -> None:
    runs = {
        minutes: build(tmp_path / str(minutes), eval_every=1, checkpoint_minutes=minutes)
        for minutes in (0, 1e-9, 10)
    }
    for trainer in runs.values():
        trainer.checkpoints._seconds_of_saving = 0.0
        trainer.run_updates()
        require_equal(runs[0], trainer)
    assert runs[0].saved is None and runs[10].saved is None
    assert runs[1e-9].saved == 4


def test_saving_takes_at_most_a_twentieth(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trainer, now = build(tmp_path, checkpoint_minutes=1), [0.0]
    saver, saved = trainer.checkpoints, list[float]()
    monkeypatch.setattr(saver_module.time, "monotonic", lambda: now[0])

    def save() -> None:
        saved.append(now[0])
        now[0] += 10  # seconds
        saver._saved_at, saver._seconds_of_saving = now[0], 10.0

    monkeypatch.setattr(saver, "save", save)
    saver._saved_at = 0.0
    for _ in range(100):
        now[0] += 30
        saver.on_step_end(trainer)
    assert saved[0] == 60 and [b - a for a, b in pairwise(saved)] == [220] * (len(saved) - 1)


def test_damaged_checkpoints_are_skipped(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    straight = build(tmp_path / "straight", checkpoint_every=1)
    straight.run_updates()
    build(tmp_path / "damaged", BATCHES[:3], checkpoint_every=1).run_updates()
    state = tmp_path / "damaged" / "checkpoints" / "update-000003" / "state.pt"
    state.write_bytes(state.read_bytes()[:1000])
    again = build(tmp_path / "damaged", checkpoint_every=1)
    require_resumed(straight, again, 2)
    assert f"the checkpoint {state.parent} is damaged" in caplog.text
    found = checkpoint.latest(again.folder.checkpoints)
    assert found is not None and checkpoint.damage(found) is None


def test_two_trainers_do_not_write_to_one_folder(tmp_path: Path) -> None:
    build(tmp_path, BATCHES[:2], checkpoint_every=2).run_updates()
    first, second = build(tmp_path), build(tmp_path)
    first.resume()
    for call in (second.resume, second.run_updates):
        with pytest.raises(FolderInUse, match=f"is writing to {tmp_path}"):
            call()
    assert first.run_updates()["updates"] == 4
    assert second.resume() == 4  # it is free again
    trained = [row["update"] for row in rows(first.folder.metrics) if row["kind"] == "train"]
    assert trained == [1, 2, 3, 4]


def test_resuming_needs_a_checkpoint_of_this_run(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no checkpoint"):
        build(tmp_path).resume()
    build(tmp_path, checkpoint_every=4).run_updates()
    others: dict[str, dict[str, Any]] = {
        r"is of another run: seed was 0, not 1$": {"seed": 1},
        "mode was chain, not tree": {"mode": "tree"},
        "group_size was 3, not 4": {"group_size": 4},
        r"learning_rate was 0\.05, not 0\.1": {"learner": {"learning_rate": 0.1}},
    }
    for message, options in others.items():
        with pytest.raises(ValueError, match=message):
            build(tmp_path, **options).resume()


def test_what_an_earlier_version_lacked_was_as_it_is_by_default(tmp_path: Path) -> None:
    build(tmp_path, checkpoint_every=6).run_updates()
    newest = checkpoint.latest(tmp_path / "checkpoints")
    assert newest is not None
    counters = checkpoint.read_counters(newest)
    del counters["rollout_batch_size"]
    build(tmp_path).checkpoints._require_same_run(counters, newest)
    with pytest.raises(ValueError, match=r"rollout_batch_size was None, not 1$"):
        build(tmp_path, rollout_batch_size=1).checkpoints._require_same_run(counters, newest)


@pytest.mark.parametrize("call", [None, pytest.param(2, marks=pytest.mark.slow), 5])
def test_a_partner_that_replays_texts_resumes_exactly(tmp_path: Path, call: int | None) -> None:
    def trainer(folder: str, batches: Any = BATCHES, **options: Any) -> Run:
        texts = [f"{number:b}".replace("0", "a").replace("1", "b") for number in range(1000)]
        team = {**make_team(), "y": Replay(texts)}
        return build(tmp_path / folder, batches, team=team, **options)

    every: dict[str, Any] = {} if call is None else {"eval_every": 1}
    straight = trainer("straight", **every)
    straight.run_updates()
    if call is None:
        trainer("parts", BATCHES[:2], checkpoint_every=2).run_updates()
    else:  # stopped after the partner was asked for the next update's texts, or an evaluation's
        stopped = trainer("parts", **every)
        stop(stopped, stopped.team["x"], "generate", call)
        assert stopped.team["y"].played > 0
    require_resumed(straight, trainer("parts", **every))


class Forgetful(Algorithm):
    """Has a state of numpy, which `torch.load` refuses."""

    def state_dict(self) -> dict[str, Any]:
        return {"mean": np.float64(0.5)}


class Counting(TrainerCallback):
    """Has a state of another class."""

    state_key = "counts"

    def state_dict(self) -> dict[str, Any]:
        return {"counts": deque([1])}


def test_a_state_that_cannot_be_loaded_again_ends_the_run_after_its_first_update(
    tmp_path: Path,
) -> None:
    algorithm = Forgetful("mine", BASELINES["mean"])
    options = LearnerOptions(), TrainerOptions()
    own = Run(tmp_path / "own", BATCHES, *options, algorithm=algorithm)
    with pytest.raises(
        TypeError, match=r"state_dict\(\) of mine has objects of numpy.*float\(value\)"
    ):
        own.run_updates()
    counting = build(tmp_path / "counting")
    counting.callbacks.append(Counting())
    counting.checkpoints.on_init_end(counting)
    with pytest.raises(
        TypeError, match=r"of the callback .counts. has objects of collections\.deque"
    ):
        counting.run_updates()
    with pytest.raises(TypeError, match="of a policy or a callback has objects of numpy"):
        checkpoint.save(tmp_path, {"update": 1}, {"policies": {"x": np.zeros(2)}})
    assert checkpoint.latest(tmp_path) is None


class Changing(TrainerCallback):
    """Has a state of numpy after the second update; a signal stops the run after the third."""

    state_key = "changing"
    value: Any = 1.0

    def on_step_begin(self, trainer: Any) -> None:
        if trainer.learner.updates == 2:
            self.value = np.float64(1)
        if trainer.learner.updates == 3:
            signal.raise_signal(signal.SIGINT)

    def state_dict(self) -> dict[str, Any]:
        return {"value": self.value}


def test_a_state_that_cannot_be_saved_does_not_hide_a_signal(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    run = build(tmp_path, checkpoint_every=2)
    run.callbacks.append(Changing())
    run.checkpoints.on_init_end(run)
    with pytest.raises(Interrupted, match="after update 2 of 4"):
        run.run_updates()
    assert "update 3 is not saved: state_dict() of a policy or a callback" in caplog.text
