"""A run warns while its updates teach nothing."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from llm_decpomdp.algorithms.rollouts.rollout import Start
from llm_decpomdp.algorithms.training.run_log import PATIENCE, SignalMonitor
from tests.algorithms.conftest import EchoEnv
from tests.algorithms.runs import build, make_team


class Dull(EchoEnv):
    """Rewards nothing."""

    def step(self, actions: dict[str, str]) -> Any:
        prompts, rewards, *rest = super().step(actions)
        return prompts, dict.fromkeys(rewards, 0.0), *rest


BATCHES = [[Start(seed=number)] for number in range(8)]


def row(silent: int = 1, cut: float = 0.0) -> dict[str, Any]:
    return {"groups": 1, "groups_without_signal": silent, "truncated/x": cut, "truncated/y": cut}


def test_five_silent_updates_in_a_row_are_warned_of_once(caplog: pytest.LogCaptureFixture) -> None:
    monitor = SignalMonitor()
    for silent in (1, 1, 1, 1, 0, 1, 1, 1, 1):
        monitor.observe(row(silent))
    assert not caplog.records
    for _ in range(2 * PATIENCE):
        monitor.observe(row())
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert "5 updates in a row taught nothing" in record.message
    assert "raise temperature or num_generations" in record.message
    assert "easier ones" in record.message and "max_new_tokens" not in record.message


def test_where_completions_are_cut_off_the_limit_is_named(caplog: pytest.LogCaptureFixture) -> None:
    monitor = SignalMonitor()
    for _ in range(PATIENCE):
        monitor.observe(row(cut=0.875))
    assert "88% of the completions are cut off" in caplog.text
    assert "raise max_new_tokens" in caplog.text


def test_a_run_that_cannot_learn_says_so(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    trainer = build(tmp_path, BATCHES, env=Dull(1), eval_starts=[])
    with caplog.at_level(logging.INFO, "llm_decpomdp"):
        summary = trainer.run_updates()
    assert caplog.text.count("taught nothing") == 1
    assert "update 1, train: mean reward 0.000, 1 of 1 groups without signal" in caplog.text
    assert summary["silent_updates"] == summary["groups_without_signal"] == 8
    assert 0 <= summary["cut_off"] <= 1


def test_lines_say_how_long_it_will_take(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "llm_decpomdp"):
        build(tmp_path, BATCHES, team=make_team()).run_updates()
    lines = [line for line in caplog.messages if ", train: " in line]
    assert len(lines) == 8
    assert all(line.endswith(" left") and ", about " in line for line in lines[:-1])
    assert not lines[-1].endswith(" left")
