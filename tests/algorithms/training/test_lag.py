"""A fixed lag: whose rollouts an update learns from, that it resumes exactly, and that it learns."""

from __future__ import annotations

import logging
import signal
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from llm_decpomdp.agents.scripted import Replay
from llm_decpomdp.algorithms.crews.worker_crew import WorkerCrew
from llm_decpomdp.algorithms.learning import distributed as processes
from llm_decpomdp.algorithms.rollouts.as_text import from_text, to_text
from llm_decpomdp.algorithms.rollouts.rollout import Rollout, Start
from llm_decpomdp.algorithms.training import checkpoint
from llm_decpomdp.algorithms.training.interruption import Interrupted
from llm_decpomdp.algorithms.training.trainer import Trainer
from llm_decpomdp.policy import Completion, Usage
from llm_decpomdp.utils.storage import read_json_lines
from tests.algorithms.conftest import TinyPolicy
from tests.algorithms.crews import sites
from tests.algorithms.runs import build, make_team, on_call, require_equal, sampled, weights

BATCHES = [[Start(seed=n), Start(seed=n + 1)] for n in range(6)]
CORRECTED = {"correction": "truncate"}


class Recording(TinyPolicy):
    """Records the log-probabilities of what it samples, and its text tells how often its weights have changed."""

    def _sample(self, prompt: torch.Tensor, number: int) -> list[Completion]:
        sampled = super()._sample(prompt, number)
        text = "".join(self.alphabet[int(token) - 1] for token in prompt)
        with torch.no_grad():
            found, _ = self.log_probs(text, sampled)
        return [
            replace(one, log_probs=tuple(row[: len(one.tokens)].tolist()))
            for one, row in zip(sampled, found, strict=True)
        ]


def team() -> dict[str, TinyPolicy]:
    return {
        agent: Recording(policy.model, policy.alphabet, policy.max_tokens)
        for agent, policy in make_team().items()
    }


def lagged(folder: Path, lag: int = 2, batches: Any = BATCHES, **options: Any) -> Trainer:
    given = {"record_tokens": True, "learner": CORRECTED, "eval_every": 2, "team": team()}
    return build(folder, batches, lag=lag, **{**given, **options})


def learned_from(trainer: Trainer) -> list[list[Rollout]]:
    """Let a trainer note what each update learns from."""
    found: list[list[Rollout]] = []
    learn = trainer.learner.accumulate

    def accumulate(rollouts: Sequence[Rollout]) -> dict[str, float]:
        found.append(list(rollouts))
        return learn(rollouts)

    trainer.learner.accumulate = accumulate  # type: ignore[method-assign]
    return found


def train_rows(trainer: Trainer) -> list[dict[str, Any]]:
    return [row for row in read_json_lines(trainer.folder.metrics) if row["kind"] == "train"]


@pytest.mark.parametrize("lag", [1, 2, 9])
def test_an_update_learns_from_what_the_weights_of_lag_updates_before_have_sampled(
    tmp_path: Path, lag: int
) -> None:
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
def straight(tmp_path_factory: pytest.TempPathFactory) -> Trainer:
    run = lagged(tmp_path_factory.mktemp("straight"))
    run.run_updates()
    assert all(row["groups_without_signal"] < row["groups"] for row in train_rows(run))
    return run


def interrupt(*_: Any) -> None:
    signal.raise_signal(signal.SIGINT)


@pytest.mark.parametrize("call", [4, 12, 15, 18, 22])
def test_a_run_that_was_stopped_equals_one_that_was_not(
    straight: Trainer, tmp_path: Path, call: int
) -> None:
    stopped = lagged(tmp_path)
    policy: Any = stopped.team["y"]
    policy.generate = on_call(call, policy.generate, interrupt)
    with pytest.raises(Interrupted):
        stopped.run_updates()
    again = lagged(tmp_path)
    assert again.resume() == stopped.saved
    again.run_updates()
    require_equal(straight, again)
    assert straight.folder.episodes.read_bytes() == again.folder.episodes.read_bytes()
