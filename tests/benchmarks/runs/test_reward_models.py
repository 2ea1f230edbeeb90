"""Reward models from the command line: `reward-model`, and `train` with `algorithm.reward_model`."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from llm_decpomdp.utils.storage import read_json_lines
from tests.benchmarks.runs.conftest import Runs
from tests.support.commands import call

HALVES = ["env.id=probe-halves-v0", "dataset.source=auto", "output.report=false"]
ADAPTERS = "model.lora={r: 4, lora_alpha: 8}"


def write_pairs(path: Path, agents: tuple[str, ...] = ("player_0", "player_1")) -> None:
    """Write pairs in which a word of more `z` is preferred."""
    rng = np.random.default_rng(0)
    with path.open("w") as file:
        for number in range(40):
            place = {"run": "r", "rollout": number, "group": 0, "task": f"halves/{number % 5}"}
            for agent in agents:
                words = ["".join(rng.choice(list(of), 4)) for of in ("zzza", "ab")]
                pair = {"agent": agent, "prompt": "a", "chosen": words[0], "rejected": words[1]}
                samples = {"chosen_sample": 0, "rejected_sample": 1}
                row = {**place, **samples, "environment": "probe-halves-v0", **pair, "others": "{}"}
                file.write(f"{json.dumps(row)}\n")


def learn(pairs: Path, output: Path, override: list[str], *more: str) -> int:
    given = ("--pairs", str(pairs), "--config", "demo", "--output", str(output))
    return call("reward-model", *given, *more, "--override", *override)


def error(capsys: pytest.CaptureFixture[str]) -> str:
    return " ".join(capsys.readouterr().err.replace("│", " ").split())


def test_a_team_learns_by_a_model_of_pairs(
    runs: Runs, quick: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pairs, judge = tmp_path / "train.jsonl", tmp_path / "judge"
    write_pairs(pairs)
    override = [*quick, *HALVES, ADAPTERS]
    assert learn(pairs, judge, override, "--penalty", "0.001") == 0
    lines = capsys.readouterr().out.splitlines()
    assert "pairs: 40, of which held out: 8" in lines
    assert any(line.startswith("held-out pairs: accuracy 1.000, loss") for line in lines)
    assert lines[-1] == str(judge / "reward_model.pt")
    use_scores_as_rewards = [*override, f"algorithm.reward_model={judge / 'reward_model.pt'}"]
    assert call("train", "--config", "demo", "--override", *use_scores_as_rewards) == 0
    rows = runs.rows()
    train = [row for row in rows if row["kind"] == "train"]
    assert all(row["reward_mean"] == 0 and row["reward_model/mean"] != 0 for row in train)
    assert all(row["groups_without_signal"] == 0 for row in train)
    capsys.readouterr()
    assert call("export", str(tmp_path / "run"), "--to", "jsonl") == 0
    exported = read_json_lines(tmp_path / "run" / "trajectories-jsonl" / "train.jsonl")
    assert all(row["advantage"] != 0 and row["reward"] == 0 for row in exported)
    assert learn(pairs, judge, override) != 0
    assert "is there already: name another --output" in error(capsys)


def test_files_and_models_that_do_not_fit_are_refused(
    quick: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    override, pairs = [*quick, *HALVES], tmp_path / "train.jsonl"
    missing = f"algorithm.reward_model={tmp_path / 'none.pt'}"
    assert call("train", "--config", "demo", "--override", *override, missing) != 0
    assert "algorithm.reward_model.path: there is no file" in error(capsys)
    write_pairs(pairs, ("player_0",))
    assert learn(pairs, tmp_path / "judge", override) != 0
    assert "is of the agents player_0, and the environment has player_0, player_1" in error(capsys)
    write_pairs(pairs)
    assert learn(pairs, tmp_path / "judge", override, "--held-out", "1.5") != 0
    assert "held_out must be below 1, got 1.5" in error(capsys)
    assert learn(pairs, tmp_path / "judge", [*quick, "output.report=false"]) != 0
    assert "a pair of probe-halves-v0, and the configuration is of coophumaneval-v0" in error(
        capsys
    )
    assert learn(pairs, tmp_path / "judge", override) == 0
    fitting = f"algorithm.reward_model={tmp_path / 'judge' / 'reward_model.pt'}"
    assert (
        call("train", "--config", "demo", "--override", *quick, fitting, "output.report=false") != 0
    )
    assert "reads the agents player_0, player_1, and the environment has" in error(capsys)
