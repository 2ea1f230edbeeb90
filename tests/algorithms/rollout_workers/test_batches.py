"""Rollout batches: how starts are split, and what each is a function of."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from llm_decpomdp.agents.scripted import Replay
from llm_decpomdp.algorithms import (
    ALGORITHMS,
    Learner,
    LearnerOptions,
    Rollout,
    Start,
    TrainerOptions,
    WorkerState,
)
from llm_decpomdp.algorithms.learning import distributed as processes
from llm_decpomdp.algorithms.rollout_workers.base import RolloutBatch
from llm_decpomdp.algorithms.rollout_workers.process_workers import ProcessRolloutWorkers
from llm_decpomdp.algorithms.rollouts.play import seed_update
from llm_decpomdp.algorithms.rollouts.rollout import Timer
from llm_decpomdp.algorithms.training.rollout_source import (
    SampledSource,
    UpdateRequest,
    split_into_batches,
)
from llm_decpomdp.algorithms.training.worker_source import UpdateBatch, WorkerSource
from tests.algorithms.conftest import EchoEnv
from tests.algorithms.rollout_workers import worker_states
from tests.algorithms.runs import LocalWorker, build, make_team, require_equal
from tests.algorithms.training.test_dynamic_sampling import BATCHES as THREES
from tests.algorithms.training.test_dynamic_sampling import PROBLEMS, SilentEnv

STARTS = tuple(Start(seed=n) for n in range(5))


def batch(seed: int = 0, **values: Any) -> UpdateBatch:
    options = TrainerOptions(rollout_batch_size=2, group_size=4, seed=seed)
    given = {"index": 1, "starts": STARTS[:2], "update": 3, "options": options, "views": False}
    return UpdateBatch(**{**given, **values})


def test_starts_are_split_in_order_and_the_last_batch_takes_the_rest() -> None:
    assert split_into_batches(STARTS, 2) == [STARTS[:2], STARTS[2:4], STARTS[4:]]
    assert split_into_batches(STARTS, 9) == [STARTS]
    assert split_into_batches((), 2) == []


def test_without_a_size_each_process_has_its_share(monkeypatch: pytest.MonkeyPatch) -> None:
    assert split_into_batches(STARTS, None) == [STARTS]
    monkeypatch.setattr(processes, "world_size", lambda: 2)
    assert split_into_batches(STARTS, None) == [STARTS[::2], STARTS[1::2]]
    assert split_into_batches(STARTS[:1], None) == [STARTS[:1], ()]
    assert split_into_batches(STARTS, 2) == [STARTS[:2], STARTS[2:4], STARTS[4:]]


def test_a_batch_does_not_depend_on_what_was_played_before() -> None:
    state, other = (WorkerState(EchoEnv(2), EchoEnv(2), make_team()) for _ in range(2))
    one, two = batch(), batch(index=2)
    first = [one.play(state, Timer()), two.play(state, Timer())]
    assert [two.play(other, Timer()), one.play(other, Timer())] == first[::-1]
    assert one.play(state, Timer()) == first[0]


def test_a_worker_gets_weights_of_a_new_version_after_a_resume_and_without_a_trainer() -> None:
    class Counted(LocalWorker):
        updates = 0

        def update_weights(self, policies: Any, version: int) -> None:
            self.updates += 1

    env, team = EchoEnv(2), make_team()
    options = TrainerOptions(rollout_batch_size=2, group_size=4)
    learner = Learner(team, ALGORITHMS["magrpo"], LearnerOptions())
    worker = Counted(WorkerState(env, env, team))
    arguments = (env, team, learner, options, [STARTS])
    source, plain = WorkerSource(*arguments, worker=worker), SampledSource(*arguments)
    request = UpdateRequest(1, STARTS, 2)
    for updates in (1, 2):
        found = source.collect(request, Timer()).shard
        assert found == plain.collect(request, Timer()).shard
        assert worker.updates == updates
        source.prefetch(request)
        assert worker.updates == updates  # it samples, so its weights must not change
        learner.updates += 1  # as after a step
    trainer: Any = SimpleNamespace(version=7)
    source.on_init_end(trainer)
    for updates in (3, 3):
        source.collect(request, Timer())
        assert worker.updates == updates
    source.on_resume(trainer)  # the version is the same, the weights are those of a checkpoint
    source.collect(request, Timer())
    assert worker.updates == 4


def test_the_place_of_a_rollout_counts_over_all_batches_of_the_update() -> None:
    env, team = EchoEnv(2), make_team()
    options = TrainerOptions(rollout_batch_size=2, group_size=4)
    source = SampledSource(
        env, team, Learner(team, ALGORITHMS["magrpo"], LearnerOptions()), options, [STARTS]
    )
    shard = source.collect(UpdateRequest(1, STARTS, 2), Timer()).shard
    assert [[rollout.place for rollout in batch] for batch in shard] == [[0, 1], [2, 3], [4]]


@pytest.mark.parametrize("size", [None, 2])
def test_a_round_goes_on_with_the_streams_of_its_update_only_without_rollout_batches(
    size: int | None,
) -> None:
    env, team = EchoEnv(2), make_team()
    options = TrainerOptions(rollout_batch_size=size, group_size=4)
    first = seed_update(env, team, options, 3, 0)
    again = seed_update(env, team, options, 3, 0, round=1, newest=first)
    assert (again is first) == (size is None)
    assert seed_update(env, team, options, 4, 0, newest=first) is not first


def test_purposes_have_streams_of_their_own() -> None:
    env, team, options = EchoEnv(2), make_team(), TrainerOptions()
    update = seed_update(env, team, options, 3, 0)
    comparator = seed_update(env, team, options, 3, 0, purpose="comparator")
    assert update.integers(2**62) != comparator.integers(2**62)


@pytest.mark.parametrize("change", [{"index": 2}, {"update": 4}, {"seed": 1}, {"round": 1}])
def test_batches_of_another_name_sample_otherwise(change: dict[str, int]) -> None:
    state = WorkerState(EchoEnv(2), EchoEnv(2), make_team())
    assert batch().play(state, Timer()) != batch(**change).play(state, Timer())


class Listed(LocalWorker):
    """Notes what it is told to do, and plays batches from the last to the first."""

    def __init__(self, state: WorkerState) -> None:
        super().__init__(state)
        self.calls: list[Any] = []

    def update_weights(self, policies: Any, version: int) -> None:
        assert set(policies) == {"x", "y"}
        self.calls.append(("publish", version))

    def run_batches(self, batches: Sequence[RolloutBatch], timer: Timer) -> list[list[Rollout]]:
        self.calls.append([(b.purpose, b.index, len(b.starts)) for b in batches])
        return super().run_batches(batches[::-1], timer)[::-1]

    def close(self) -> None:
        self.calls.append("close")


def test_a_worker_gets_each_version_of_the_weights_before_batches_of_it(tmp_path: Path) -> None:
    rollout_worker = Listed(WorkerState(EchoEnv(2), EchoEnv(2), team := make_team()))
    run = build(
        tmp_path,
        [STARTS, STARTS],
        team=team,
        eval_every=2,
        eval_starts=[Start(seed=n) for n in range(7)],
        rollout_batch_size=2,
        rollout_worker=rollout_worker,
    )
    run.run_updates()
    update = [("update 1", 0, 2), ("update 1", 1, 2), ("update 1", 2, 1)]
    second = [("update 2", *rest) for _, *rest in update]
    # As many completions at a time as in a batch of an update: 2 starts with groups of 3.
    evaluation = [("an evaluation", 0, 6), ("an evaluation", 1, 1)]
    versions = [[("publish", version)] for version in range(3)]
    first = [*versions[0], evaluation, update, *versions[1], second]
    last = [*versions[2], evaluation, "close", "close"]  # by the source and by the evaluations
    assert rollout_worker.calls == [*first, *last]


@pytest.mark.parametrize(
    "options",
    [
        *({"mode": "tree"}, {"max_resample_rounds": 2}, {"algorithm": "rae"}),
        *(pytest.param(plan, marks=pytest.mark.slow) for plan in ({}, {"mode": "episodes"})),
    ],
)
def test_the_order_of_batches_changes_nothing(tmp_path: Path, options: dict[str, Any]) -> None:
    def trainer(folder: str, kind: type[LocalWorker], batches: Any = THREES) -> Any:
        env: Any = SilentEnv(2)
        team = make_team()
        return build(
            tmp_path / folder,
            batches,
            **{"env": env, "team": team, "problems": PROBLEMS, "rollout_batch_size": 2},
            **{"group_size": 4, "checkpoint_every": 1, "record_tokens": True, **options},
            rollout_worker=kind(WorkerState(env, env, team)),
        )

    straight = trainer("straight", LocalWorker)
    straight.run_updates()
    backwards = trainer("backwards", Listed)
    backwards.run_updates()
    require_equal(straight, backwards)
    trainer("parts", LocalWorker, THREES[:2]).run_updates()
    again = trainer("parts", Listed)
    again.resume()
    again.run_updates()
    require_equal(straight, again)


def test_the_size_of_batches_belongs_to_a_run(tmp_path: Path) -> None:
    build(tmp_path, checkpoint_every=4).run_updates()
    with pytest.raises(ValueError, match="rollout_batch_size was None, not 2"):
        build(tmp_path, rollout_batch_size=2).resume()


def test_what_would_depend_on_the_order_of_batches_is_refused(tmp_path: Path) -> None:
    team: Any = {**make_team(), "y": Replay(["a", "b"])}
    with pytest.raises(ValueError, match="the policy of y, a Replay, continues from its earlier"):
        build(tmp_path, team=team, rollout_batch_size=1)
    with pytest.raises(ValueError, match="a start with neither seed nor task_id"):
        build(tmp_path, [[Start()]], rollout_batch_size=1)
    with pytest.raises(ValueError, match="rollout workers share the batches of an update"):
        build(tmp_path, rollout_worker=ProcessRolloutWorkers(worker_states.echo, 1))
