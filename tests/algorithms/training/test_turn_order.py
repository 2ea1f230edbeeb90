"""Runs in which agents take turns, leave early or join late: resumed, and with rollout workers."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from llm_decpomdp.algorithms.rollout_workers.process_workers import ProcessRolloutWorkers
from llm_decpomdp.algorithms.rollout_workers.ray_workers import RayRolloutWorkers
from llm_decpomdp.algorithms.rollouts.rollout import Start
from tests.algorithms.rollout_workers.test_process_workers import require_same
from tests.algorithms.rollout_workers.worker_states import TURN_GAMES, take_turns
from tests.algorithms.runs import BATCHES, EVAL_STARTS, Run, build, require_resumed

GAMES = [*TURN_GAMES]
OPTIONS: dict[str, Any] = {"mode": "episodes", "eval_starts": EVAL_STARTS[:4], "eval_every": 2}
ROLLOUT_BATCHES = {"rollout_batch_size": 1, "record_tokens": True}


def run(folder: Path, game: str, batches: Sequence[Sequence[Start]] = BATCHES, **more: Any) -> Run:
    state = take_turns(game)
    return build(folder, batches, env=state.env, team=state.team, **{**OPTIONS, **more})


def weights(trainer: Run) -> list[torch.Tensor]:
    return [w.detach().clone() for p in trainer.team.values() for w in p.parameters()]  # type: ignore[attr-defined]


MORE: tuple[dict[str, Any], ...] = (
    {},
    {"mode": "tree"},
    {"mode": "chain", "algorithm": "maac"},
    {"mode": "tree", "algorithm": "madpo"},
)


@pytest.mark.parametrize(("game", "more"), list(zip(GAMES, MORE, strict=True)))
def test_a_run_with_turns_resumes_exactly(tmp_path: Path, game: str, more: dict[str, Any]) -> None:
    straight = run(tmp_path / "straight", game, **more)
    before = weights(straight)
    straight.run_updates()
    assert not all(map(torch.equal, before, weights(straight)))
    run(tmp_path / "parts", game, BATCHES[:2], checkpoint_every=2, **more).run_updates()
    require_resumed(straight, run(tmp_path / "parts", game, **more), 2)


@pytest.mark.slow
@pytest.mark.parametrize("workers", [ProcessRolloutWorkers, RayRolloutWorkers])
@pytest.mark.parametrize("game", GAMES)
def test_workers_play_turns_as_one_process_does(
    tmp_path: Path, game: str, workers: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    if workers is RayRolloutWorkers:
        pytest.importorskip("ray")
        monkeypatch.setenv("RAY_AUTH_TOKEN", "b" * 64)  # a process keeps the first that it has read
    local = run(tmp_path / "local", game, **ROLLOUT_BATCHES)
    local.run_updates()
    two = workers(partial(take_turns, game), 2)
    spread = run(tmp_path / "workers", game, rollout_worker=two, **ROLLOUT_BATCHES)
    spread.run_updates()
    require_same(local, spread)
