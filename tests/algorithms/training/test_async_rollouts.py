"""A fixed lag: whose rollouts an update learns from, that it resumes exactly, and that it learns."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from llm_decpomdp import make
from llm_decpomdp.agents import Replay, Sampling, tiny_causal_lm
from llm_decpomdp.algorithms.learning import distributed as processes
from llm_decpomdp.algorithms.rollout_workers.base import RolloutBatch, WorkerState
from llm_decpomdp.algorithms.rollout_workers.process_workers import (
    ProcessHandle,
    ProcessRolloutWorkers,
)
from llm_decpomdp.algorithms.rollouts.rollout import Rollout, Start, Timer
from llm_decpomdp.algorithms.rollouts.serialization import from_text, to_text
from llm_decpomdp.algorithms.rollouts.views import View
from llm_decpomdp.algorithms.training import checkpoint
from llm_decpomdp.algorithms.training.callbacks import Interrupted
from llm_decpomdp.envs.probes.known import PROBES
from llm_decpomdp.envs.probes.parts import MAX_TOKENS
from llm_decpomdp.policy import Usage
from llm_decpomdp.utils.storage import read_json_lines
from studies.hypotheses.training import every_start, value
from tests.algorithms.conftest import EchoEnv
from tests.algorithms.critics.readers import reading_team
from tests.algorithms.preferences.teams import lexical
from tests.algorithms.rewards.reward_models import write_reward_model
from tests.algorithms.rollout_workers import worker_states
from tests.algorithms.runs import (
    LocalWorker,
    Run,
    build,
    interrupt,
    on_call,
    recording_team,
    require_equal,
    require_resumed,
    sampled,
    stop,
)
from tests.algorithms.training.test_dynamic_sampling import PROBLEMS, SilentEnv

BATCHES = [[Start(seed=n), Start(seed=n + 1)] for n in range(6)]
CORRECTED = {"importance_sampling": "truncate"}


def lagged(folder: Path, lag: int = 2, batches: Any = BATCHES, **options: Any) -> Run:
    given = {"record_tokens": True, "learner": CORRECTED, "eval_every": 2, "team": recording_team()}
    return build(folder, batches, max_async_level=lag, **{**given, **options})


def learned_from(trainer: Run) -> list[list[Rollout]]:
    """Let a trainer note what each update learns from."""
    found: list[list[Rollout]] = []
    learn = trainer.learner.accumulate

    def accumulate(rollouts: Sequence[Rollout]) -> dict[str, float]:
        found.append(list(rollouts))
        return learn(rollouts)

    trainer.learner.accumulate = accumulate  # type: ignore[method-assign]
    return found


def train_rows(trainer: Run) -> list[dict[str, Any]]:
    return [row for row in read_json_lines(trainer.folder.metrics) if row["kind"] == "train"]


@pytest.mark.parametrize("lag", [1, pytest.param(2, marks=pytest.mark.slow), 9])
def test_an_update_learns_from_samples_of_lag_updates_before(tmp_path: Path, lag: int) -> None:
    trainer = lagged(tmp_path, lag)
    found = learned_from(trainer)
    policy: Any = trainer.team["x"]
    versions: list[list[torch.Tensor]] = []
    step = trainer.learner.step

    def note() -> None:
        versions.append([weight.clone() for weight in policy.parameters()])
        step()

    trainer.learner.step = note  # type: ignore[method-assign]
    trainer.run_updates()
    assert len(found) == len(versions) == 6
    for update, rollouts in enumerate(found, 1):
        assert [rollout.start for rollout in rollouts] == BATCHES[update - 1]
        version = max(0, update - 1 - lag)
        with torch.no_grad():
            for weight, value in zip(policy.parameters(), versions[version], strict=True):
                weight.copy_(value)
            for group in (group for rollout in rollouts for group in rollout.groups):
                said = group.completions["x"]
                again, _ = policy.log_probs(group.prompts["x"], said)
                for row, one in zip(again, said, strict=True):
                    assert row[: len(one.tokens)].tolist() == list(one.log_probs)
    rows = train_rows(trainer)
    assert [row["lag"] for row in rows] == [min(lag, n) for n in range(6)]
    assert rows[0]["mismatch/x"] == 0 < rows[1]["mismatch/x"]
    assert all("sampling_seconds" in row for row in rows)


def test_without_a_lag_nothing_is_new(tmp_path: Path) -> None:
    plain, lagging = lagged(tmp_path / "0", 0), lagged(tmp_path / "1", 1)
    plain.run_updates()
    lagging.run_updates()
    assert not any("lag" in row for row in train_rows(plain))
    episodes = [list(read_json_lines(run.folder.episodes)) for run in (plain, lagging)]
    first = [[row for row in of_one if row["update"] < 2] for of_one in episodes]
    assert first[0] == first[1] and episodes[0] != episodes[1]
    newest = lagged(tmp_path / "2", 0, checkpoint_every=6)
    newest.run_updates()
    (saved,) = newest.folder.checkpoints.iterdir()
    assert "waiting" not in checkpoint.load(saved)[1]


@pytest.fixture(scope="module")
def straight(tmp_path_factory: pytest.TempPathFactory) -> Run:
    run = lagged(tmp_path_factory.mktemp("straight"))
    run.run_updates()
    assert all(row["groups_without_signal"] < row["groups"] for row in train_rows(run))
    return run


@pytest.mark.parametrize(
    "call", [12, 18, *(pytest.param(call, marks=pytest.mark.slow) for call in (4, 15, 22))]
)
def test_a_stopped_run_equals_one_that_was_not(straight: Run, tmp_path: Path, call: int) -> None:
    stopped = lagged(tmp_path)
    stop(stopped, stopped.team["y"], "generate", call)
    again = lagged(tmp_path)
    require_resumed(straight, again, stopped.saved)
    assert straight.folder.episodes.read_bytes() == again.folder.episodes.read_bytes()


KINDS: dict[str, dict[str, Any]] = {
    "refilled": {
        "env": SilentEnv(2),
        "max_resample_rounds": 2,
        "problems": PROBLEMS,
        "group_size": 4,
    },
    "several steps": {"learner": {**CORRECTED, "num_iterations": 2}},
    "tree": {"mode": "tree", "joint_mode": "cross", "group_size": 2},
    "batches": {"rollout_batch_size": 1, "max_resample_rounds": 1, "problems": PROBLEMS},
    "critic": {"learner": {"critic": "own"}},
    "running baseline": {"algorithm": "rae"},
    "pairs": {"algorithm": "madpo", "learner": {"opponent": "history"}},
    "rival": {"algorithm": "madpo", "learner": {"opponent": "there"}},
    "judged": {"group_size": 8, "learner": {}},
}
"""Options of runs whose batches hold one more thing each."""


@pytest.mark.parametrize(
    "kind",
    [
        *("refilled", "tree", "critic", "pairs", "judged"),
        *(
            pytest.param(kind, marks=pytest.mark.slow)
            for kind in ("several steps", "batches", "running baseline", "rival")
        ),
    ],
)
def test_whatever_a_run_plays_it_resumes_with_what_waits(tmp_path: Path, kind: str) -> None:
    judge: dict[str, Any] = {}
    if kind == "judged":
        judge = {"path": str(write_reward_model(tmp_path)), "update_interval": 2}

    def trainer(folder: str) -> Run:
        options: dict[str, Any] = {"reward_model": judge, "team": recording_team(), **KINDS[kind]}
        if kind in ("critic", "judged"):
            options["team"] = reading_team()
        if options.get("algorithm") == "madpo":
            options["team"] = {"x": lexical(1), "y": lexical(2)}
        if kind == "rival":
            options["opponent"] = {"x": lexical(3), "y": lexical(4)}
        return lagged(tmp_path / folder, **{"eval_starts": BATCHES[0], "eval_every": 0, **options})

    straight = trainer("straight")
    straight.run_updates()
    stopped = trainer("stopped")
    learner, source = stopped.learner, stopped.source
    if kind == "several steps":  # nothing is saved of an update that has begun to learn
        source.source.collect = on_call(5, source.source.collect, fail)  # type: ignore
    else:
        learner.accumulate = on_call(3, learner.accumulate, fail)  # type: ignore[method-assign]
    with pytest.raises(RuntimeError, match="in update 4"):
        stopped.run_updates()
    assert stopped.saved == 3
    require_resumed(straight, trainer("stopped"), 3)


def fail(*_: Any) -> None:
    raise RuntimeError("a failure in update 4")


def test_a_partner_that_goes_on_from_what_it_said_resumes_with_what_waits(tmp_path: Path) -> None:
    def trainer(folder: str) -> Run:
        texts = [f"{number:b}".replace("0", "a").replace("1", "b") for number in range(1000)]
        return lagged(tmp_path / folder, team={**recording_team(), "y": Replay(texts)})

    straight = trainer("straight")
    straight.run_updates()
    stopped = trainer("stopped")
    stop(stopped, stopped.team["x"], "generate", 15)
    assert 0 < (stopped.saved or 0) < 6
    require_resumed(straight, trainer("stopped"))


# ------------------------------------------------------------------------- workers that sample ahead

CREWED: dict[str, Any] = {
    "rollout_batch_size": 2,
    "eval_starts": worker_states.EVAL_STARTS,
    "group_size": 4,
}


class Eager(LocalWorker):
    """Notes when it is told to begin, and to play."""

    def __init__(self, state: WorkerState, calls: list[str]) -> None:
        super().__init__(state)
        self.calls = calls

    def prefetch(self, rollout_batches: Sequence[RolloutBatch]) -> None:
        self.calls.append(f"begin {rollout_batches[0].purpose}")

    def run_batches(
        self, rollout_batches: Sequence[RolloutBatch], timer: Timer
    ) -> list[list[Rollout]]:
        self.calls.append(rollout_batches[0].purpose)
        return super().run_batches(rollout_batches, timer)


@pytest.mark.parametrize("steps", [1, 2])
def test_a_crew_begins_later_updates_before_the_learner(tmp_path: Path, steps: int) -> None:
    calls: list[str] = []
    rollout_worker = Eager(WorkerState(EchoEnv(2), EchoEnv(2), players := recording_team()), calls)
    learner = {**CORRECTED, "num_iterations": steps}
    run = lagged(
        tmp_path,
        1,
        worker_states.BATCHES[:3],
        team=players,
        rollout_worker=rollout_worker,
        **{**CREWED, "learner": learner},
    )
    learn: Any = run.learner.accumulate
    run.learner.accumulate = lambda rollouts: (calls.append("learn"), learn(rollouts))[1]  # type: ignore[method-assign]
    step = run.learner.step
    run.learner.step = lambda: (calls.append("step"), step())[1]  # type: ignore[method-assign]
    run.run_updates()
    during = [call for call in calls if call != "an evaluation"]
    if steps == 1:
        assert during == [
            *("update 1", "begin update 2", "learn", "update 2", "step"),
            *("begin update 3", "learn", "update 3", "step", "learn", "step"),
        ]
    else:  # weights change while it learns, and who waits for rollouts cannot be interrupted then
        played = ("update 1", "update 2", "learn", "step"), ("update 3", "learn", "step")
        assert during == [*played[0], *played[1], "learn", "step"]


@pytest.mark.slow
def test_workers_that_sample_ahead_and_die_play_what_one_process_plays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders: list[Any] = []
    give = ProcessHandle.assign
    monkeypatch.setattr(
        ProcessHandle, "assign", lambda *a: (orders.append(a[-1].batch), give(*a))[1]
    )
    deaths = tmp_path / "deaths"
    deaths.mkdir()
    options = {**CREWED, "team": None, "learner": {}}
    local = lagged(tmp_path / "local", 1, worker_states.BATCHES, **options)
    local.run_updates()
    rollout_worker: Any = ProcessRolloutWorkers(partial(worker_states.fatal, deaths, 1), 2)
    run = lagged(
        tmp_path / "crew", 1, worker_states.BATCHES, rollout_worker=rollout_worker, **options
    )
    run.run_updates()
    assert len(list(deaths.iterdir())) == 1
    assert len(orders) == 4 * 4 + 3 + 1  # of updates and evaluations, and the one that was redone
    require_equal(local, run)
    assert local.folder.episodes.read_bytes() == run.folder.episodes.read_bytes()


@pytest.mark.slow
def test_a_run_that_is_stopped_while_workers_sample_ahead_goes_on_exactly(tmp_path: Path) -> None:
    options = {**CREWED, "team": None, "learner": {}}
    local = lagged(tmp_path / "local", 1, worker_states.BATCHES, **options)
    local.run_updates()
    rollout_worker: Any = ProcessRolloutWorkers(worker_states.echo, 2)
    stopped = lagged(
        tmp_path / "crew", 1, worker_states.BATCHES, rollout_worker=rollout_worker, **options
    )
    learner: Any = stopped.learner
    learner.accumulate = on_call(2, learner.accumulate, interrupt)
    prefetch, begun = rollout_worker.prefetch, []
    rollout_worker.prefetch = lambda rollout_batches: (
        begun.append(len(rollout_batches)),
        prefetch(rollout_batches),
    )
    with pytest.raises(Interrupted, match="after update 2 of 4"):
        stopped.run_updates()
    assert begun == [4, 4, 4] and not rollout_worker.workers  # of updates 2, 3 and 4
    again = lagged(
        tmp_path / "crew",
        1,
        worker_states.BATCHES,
        rollout_worker=ProcessRolloutWorkers(worker_states.echo, 1),
        **options,
    )
    require_resumed(local, again, 2)


# --------------------------------------------------------------------------- what waits, as it is saved


def test_a_rollout_is_read_as_it_was_written() -> None:
    rollout = sampled()[0]
    first = rollout.groups[0]
    said = {
        agent: (
            replace(group[0], log_probs=(-1 / 3, -1e-300, float("-inf")), usage=Usage(1, 2)),
            *group[1:],
        )
        for agent, group in first.completions.items()
    }
    view = View("state", {"x": "a", "y": "\u00e9\ud800"})
    full = replace(
        first,
        completions=said,
        drafts=(said,),
        anchors=((0, 1),),
        view=view,
        views=(view, None),
        scores=(0.1, 1.0),
        stopped_early=True,
    )
    whole = replace(rollout, groups=(full, *rollout.groups[1:]), pooled=True, final={"a": [1]})
    for one in (rollout, whole, replace(whole, opponent=rollout)):
        assert from_text(to_text(one)) == one
    assert len(rollout.groups) == 2 and rollout.groups[1].parent is not None


def test_what_waits_is_saved_once_and_as_text(straight: Run, tmp_path: Path) -> None:
    run = lagged(tmp_path, checkpoint_every=1, keep_checkpoints=6)
    run.run_updates()
    require_equal(straight, run)
    updates = {}
    for saved in sorted(run.folder.checkpoints.iterdir()):
        counters, state = checkpoint.load(saved)  # of torch.load, with weights_only
        assert counters["max_async_level"] == 2
        batches = state["waiting"]["batches"]
        updates[counters["update"]] = [(row["update"], row["version"]) for row in batches]
        assert all(len(row["texts"]) == 2 and row["shares"] == [[0, 1]] for row in batches)
    assert updates == {
        **{1: [(2, 0), (3, 0)], 2: [(3, 0), (4, 1)], 3: [(4, 1), (5, 2)]},
        **{4: [(5, 2), (6, 3)], 5: [(6, 3)], 6: []},
    }


def test_what_waits_is_collected_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[int] = []

    def gather_to_first(items: Sequence[Any]) -> list[Any]:
        sent.extend(sum(isinstance(one, Rollout) for one in item) for item in items)
        return list(items)

    monkeypatch.setattr(processes, "gather_to_first", gather_to_first)
    lagged(tmp_path, eval_every=0, eval_starts=[]).run_updates()
    assert sum(sent) == sum(map(len, BATCHES))


def test_batches_of_other_processes_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lagged(tmp_path, checkpoint_every=4, batches=BATCHES).run_updates()
    newest = checkpoint.latest(tmp_path / "checkpoints")
    assert newest is not None and newest.name == "update-000006"
    newest.rename(tmp_path / "lost")
    again = lagged(tmp_path)
    monkeypatch.setattr(processes, "world_size", lambda: 2)
    with pytest.raises(
        ValueError, match=r"\(max_async_level=2\) are those of 1 processes, and there are 2"
    ):
        again.resume()
    with pytest.raises(ValueError, match="max_async_level was 2, not 1"):
        lagged(tmp_path, 1).resume()


def test_a_longer_run_learns_from_present_weights_where_none_waited(tmp_path: Path) -> None:
    lagged(tmp_path, batches=BATCHES[:3], checkpoint_every=3).run_updates()
    longer = lagged(tmp_path)
    longer.resume()
    longer.run_updates()
    assert [row["lag"] for row in train_rows(longer)] == [0, 1, 2, 0, 1, 2]


# --------------------------------------------------------------------------------- what is refused


def test_one_warning_of_uncorrected_lags(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    refused: list[dict[str, Any]] = [{"learner": {}}, {}, {"lag": 0, "learner": {}}]
    for options in refused:
        lagged(tmp_path, **options)
    lagged(tmp_path, team={"x": lexical(1), "y": lexical(2)}, algorithm="madpo", learner={})
    (record,) = [record for record in caplog.records if record.levelname == "WARNING"]
    assert record.levelno == logging.WARNING
    assert "with max_async_level=2 updates learn from rollouts of earlier weights" in record.message


def test_stored_rollouts_do_not_lag(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="max_async_level=1 means nothing with stored rollouts"):
        build(
            tmp_path,
            [[rollout.start] for rollout in sampled()],
            max_async_level=1,
            stored=[sampled()],
        )


RENDEZVOUS = next(iter(PROBES))


def reached(
    folder: Path, *, updates: int, lag: int, seed: int = 0, rate: float = 4e-3, **learner: Any
) -> tuple[float, list[dict[str, Any]]]:
    """The share of the optimum that a team has after some updates, and their rows."""
    env, probe = make(RENDEZVOUS), PROBES[RENDEZVOUS]
    team = {
        agent: tiny_causal_lm(
            probe.letters, Sampling(max_new_tokens=MAX_TOKENS), seed=10 * seed + index
        )
        for index, agent in enumerate(env.possible_agents)
    }
    settings = {"learning_rate": rate, "max_grad_norm": 1.0, **learner}
    starts: dict[str, Any] = {"env": env, "team": team, "eval_starts": []}
    batches = [every_start(env)] * updates
    trainer = build(
        folder, batches, learner=settings, group_size=32, max_async_level=lag, seed=seed, **starts
    )
    trainer.run_updates()
    return value(env, team) / probe.optimum, list(read_json_lines(trainer.folder.metrics))


def test_a_team_learns_with_a_lag_of_one_about_as_fast_as_without(tmp_path: Path) -> None:
    share, rows = reached(tmp_path / "1", updates=16, lag=1, importance_sampling="truncate")
    without, _ = reached(tmp_path / "0", updates=16, lag=0)
    assert without > 0.9 and share > without - 0.1
    assert rows[0]["reward_mean"] < 0.5  # there was something to learn
    agents = [name.removeprefix("ess/") for name in rows[0] if name.startswith("ess/")]
    assert len(agents) == 2
    for agent in agents:  # the sampler itself at first, and then a policy that is one update older
        assert rows[0][f"mismatch/{agent}"] < 1e-5
        assert rows[0][f"ess/{agent}"] == pytest.approx(1, abs=1e-5)
        assert rows[1][f"mismatch/{agent}"] > 0.01 and rows[1][f"ess/{agent}"] < 0.999


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["truncate", "mask"])
@pytest.mark.parametrize("lag", [1, 4])
@pytest.mark.parametrize("seed", range(3))
def test_teams_reach_optima_with_a_lag(tmp_path: Path, mode: str, lag: int, seed: int) -> None:
    share, _ = reached(tmp_path, updates=30, lag=lag, seed=seed, importance_sampling=mode)
    assert share > 0.95
