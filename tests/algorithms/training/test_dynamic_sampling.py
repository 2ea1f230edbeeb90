"""Refills: what is replaced, by what, at which cost; and runs that resume."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from llm_decpomdp.algorithms.rollouts.rollout import Start
from llm_decpomdp.algorithms.training import dynamic_sampling
from llm_decpomdp.algorithms.training.dynamic_sampling import (
    DynamicSamplingSource,
    draw_replacements,
)
from llm_decpomdp.algorithms.training.rollout_source import (
    RolloutSource,
    TrainBatch,
    UpdateRequest,
)
from llm_decpomdp.utils.storage import read_json_lines
from tests.algorithms.conftest import EchoEnv
from tests.algorithms.runs import build, require_exact_resume

PROBLEMS = [Start(seed=n) for n in range(12)]
BATCHES = [PROBLEMS[first : first + 3] for first in range(0, 12, 3)]


class SilentEnv(EchoEnv):
    """Starts of an even seed earn nothing, whatever is said."""

    def reset(self, seed: int | None = None, options: Any = None) -> Any:
        self.silent = not (seed or 0) % 2
        return super().reset(seed, options)

    def step(self, actions: dict[str, str]) -> Any:
        prompts, rewards, *rest = super().step(actions)
        return (
            prompts,
            {agent: value * (not self.silent) for agent, value in rewards.items()},
            *rest,
        )


def play(starts: Sequence[Start]) -> list[Any]:
    return [SimpleNamespace(start=start) for start in starts]


class PlayedSource(RolloutSource):
    """Plays every start, and notes the requests."""

    batches = BATCHES

    def __init__(self) -> None:
        self.requests: list[UpdateRequest] = []

    def collect(self, request: UpdateRequest, timer: Any) -> TrainBatch:
        self.requests.append(request)
        shard = [play(starts) for _, starts in request.shard]
        return TrainBatch(shard, [shard])


def resample(
    monkeypatch: pytest.MonkeyPatch, starts: Any, rounds: int, fresh: Any, size: int | None = None
) -> tuple[list[list[int]], list[list[int]], list[UpdateRequest]]:
    """The seeds of what is kept and of what was sampled further, by rollout batch, and the requests for it."""
    monkeypatch.setattr(dynamic_sampling, "draw_replacements", lambda *_: [*map(iter, fresh)])
    learner: Any = SimpleNamespace(has_learning_signal=lambda rollout: rollout.start.seed % 2)
    source = PlayedSource()
    sampling = DynamicSamplingSource(source, learner, PROBLEMS, rounds, 0)
    batch = sampling.collect(UpdateRequest(1, starts, size), None)  # type: ignore[arg-type]
    first, further = batch.rounds
    assert [seeds(of) for of in first] == [seeds(play(of)) for _, of in source.requests[0].shard]
    return [seeds(of) for of in batch.shard], [seeds(of) for of in further], source.requests[1:]


def seeds(rollouts: Sequence[Any]) -> list[int]:
    return [rollout.start.seed for rollout in rollouts]


@pytest.mark.parametrize(
    ("rounds", "kept", "further"),
    [
        (0, [0, 1, 2], []),
        (1, [4, 1, 5], [4, 5]),
        (2, [6, 1, 5], [4, 5, 6]),
        (3, [7, 1, 5], [4, 5, 6, 7]),
        (9, [7, 1, 5], [4, 5, 6, 7]),
    ],
)
def test_starts_without_a_signal_are_replaced_round_by_round(
    rounds: int, kept: list[int], further: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = resample(monkeypatch, PROBLEMS[:3], rounds, [PROBLEMS[4:]])
    assert found[:2] == ([kept], [further])


def test_where_no_problem_is_left_the_rest_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    found = resample(monkeypatch, PROBLEMS[:5], 5, [[Start(seed=7)]])
    assert found[:2] == ([[7, 1, 2, 3, 4]], [[7]])


def test_rollout_batches_have_their_own_replacements(monkeypatch: pytest.MonkeyPatch) -> None:
    fresh = [PROBLEMS[4:8:2], PROBLEMS[5:8:2]]
    kept, further, requests = resample(monkeypatch, PROBLEMS[:4], 2, fresh, size=2)
    assert [(request.round, request.shard) for request in requests] == [
        (1, [(0, (Start(seed=4),)), (1, (Start(seed=5),))]),
        (2, [(0, (Start(seed=6),)), (1, ())]),
    ]
    assert kept == [[6, 1], [5, 3]] and further == [[4, 6], [5]]


def test_rollout_batches_draw_different_problems_that_the_batch_lacks() -> None:
    fresh = draw_replacements(PROBLEMS, BATCHES[0], np.random.default_rng(0), 2)
    first, second = map(list, fresh)
    assert len(first) == 5 and not set(first) & set(second)
    assert {*first, *second} == set(PROBLEMS) - set(BATCHES[0])


def test_a_run_replaces_silent_starts_and_tells_the_cost(tmp_path: Path) -> None:
    env: Any = SilentEnv(1)
    trainer = build(tmp_path, BATCHES, env=env, max_resample_rounds=4, eval_starts=[], group_size=6)
    trainer.run_updates()
    rows = list(read_json_lines(trainer.folder.metrics))
    episodes = list(read_json_lines(trainer.folder.episodes))
    for row, batch in zip(rows, BATCHES, strict=True):
        played = [e for e in episodes if e["update"] == row["update"]]
        further = played[len(batch) :]
        assert [e["start"]["seed"] for e in played[: len(batch)]] == [s.seed for s in batch]
        assert not {e["start"]["seed"] for e in further} & {s.seed for s in batch}
        assert row["refilled_starts"] == len(further) > 0
        assert row["refilled_completions"] == 2 * 6 * len(further)
        silent = [len(set(e["groups"][0]["rewards"])) == 1 for e in played]
        left = sum(silent) - len(further)
        assert row["groups_without_signal"] == max(left, 0) and row["groups"] == len(batch)
    assert sum(row["groups_without_signal"] for row in rows) < len(BATCHES)


def test_the_cost_is_announced_with_all_rounds(tmp_path: Path) -> None:
    plain, more = (
        build(tmp_path / str(n), BATCHES, max_resample_rounds=n).source.cost for n in (0, 2)
    )
    assert plain is not None and more is not None
    assert more.update == plain.update.times(3) and more.training == plain.training.times(3)
    assert more.start == plain.start


def test_a_refilled_run_resumes_exactly_also_if_it_is_to_be_longer(tmp_path: Path) -> None:
    options: Any = {"env": SilentEnv(2), "max_resample_rounds": 2, "problems": PROBLEMS}
    require_exact_resume(tmp_path, BATCHES, **options)


def test_a_refill_without_further_problems_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"every update has all 3 of the run: take fewer problems"):
        build(tmp_path, [PROBLEMS[:3]] * 2, max_resample_rounds=1)
