"""Configured runs with an order of turns: every way to learn, and every command after a run."""

from __future__ import annotations

from pathlib import Path

import pytest

from llm_decpomdp.benchmarks.config.errors import ConfigError
from tests.benchmarks.runs.conftest import Runs
from tests.support.commands import call

ORDER = ["env.order=[aux_0,main_0]", "output.report=false", "evaluation.num_tasks=1"]
ORDER += ["algorithm.group_size=2", "algorithm.max_updates=1"]


@pytest.mark.parametrize(
    "learning",
    [
        ["rollout.mode=episodes", "step_advantage_weight=0.5"],
        ["rollout.mode=tree", "rollout.joint_mode=common", "rollout.num_partners=1"],
        ["name=iac"],
        pytest.param(["name=coma"], marks=pytest.mark.slow),
    ],
)
def test_agents_that_take_turns_learn_with(learning: list[str], runs: Runs) -> None:
    runs.train(*ORDER, *(f"algorithm.{value}" for value in learning), config="demo")
    (row,) = runs.rows("train")
    assert row["groups"] > 1


def test_a_chain_without_a_critic_is_refused(runs: Runs) -> None:
    with pytest.raises(ConfigError, match="take an algorithm with a critic, such as maac"):
        runs.train(*ORDER, config="demo")


def test_commands_after_a_run_accept_turns(runs: Runs, tmp_path: Path) -> None:
    plan = "algorithm.rollout.mode=episodes"
    for seed, name in enumerate(("run", "other")):
        more = [f"output.name={name}", f"seed={seed}", "output.save_final_model=true"]
        runs.train(*ORDER, plan, *more, config="demo")
    folder, other = tmp_path / "run", tmp_path / "other"
    assert call("report", folder) == 0
    assert call("export", folder, "--to", "jsonl", "--output", tmp_path / "rows.jsonl") == 0
    assert call("analyze", "credit", folder) == 2
    assert call("analyze", "crossplay", folder, other, "--tasks", 1) == 0
    assert call("check", "rewards", folder) == 0
