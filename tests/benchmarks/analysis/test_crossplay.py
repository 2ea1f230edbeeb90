from __future__ import annotations

import csv
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from llm_decpomdp import DecPOMDPEnv, make
from llm_decpomdp.agents import Constant, Gold, PolicySpec, RandomText, load_team, save_team
from llm_decpomdp.benchmarks import load_config, train
from llm_decpomdp.benchmarks.analysis.crossplay import cross_play, matrix, read_crossplay
from llm_decpomdp.benchmarks.config.errors import ConfigError
from llm_decpomdp.benchmarks.evaluation.baselines import EvalConfig
from llm_decpomdp.benchmarks.evaluation.statistics import bootstrap
from llm_decpomdp.benchmarks.evaluation.teams import load_teams, run_names
from llm_decpomdp.policy import Team
from llm_decpomdp.utils.storage import read_json_lines
from tests.benchmarks.evaluations import starts_of
from tests.support.commands import call


def saying(env: DecPOMDPEnv, word: str) -> Team:
    """A team whose agents all say a word."""
    return {agent: Constant(word) for agent in env.possible_agents}


def values(of: Any) -> list[list[float]]:
    return [[one.value for one in columns.values()] for columns in of.cells.values()]


def test_teams_with_conventions_of_their_own_fail_with_each_other(tmp_path: Path) -> None:
    env = make("probe-rendezvous-v0")
    teams = {word: saying(env, word) for word in "abc"}
    found = cross_play(env, teams, starts_of(env), folder=tmp_path, samples=2)
    assert (found.teams, found.agent) == (("a", "b", "c"), "player_1")
    of = found.matrices["last/reward_mean"]
    assert values(of) == np.eye(3).tolist()
    assert (of.self_play.value, of.cross_play.value, of.difference.value) == (1.0, 0.0, -1.0)
    assert of.difference.high == -1.0
    assert values(found.matrices["pass@1"]) == np.eye(3).tolist()
    assert "tests_passed" not in found.matrices
    assert read_crossplay(tmp_path) == found
    with (tmp_path / "matrix.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [row["value"] for row in rows[:3]] == ["1.0", "0.0", "0.0"]


@pytest.mark.parametrize(("agent", "who"), [(None, 2), ("player_0", 0)])
def test_cells_combine_row_and_column(agent: str | None, who: int, tmp_path: Path) -> None:
    env = make("probe-halves-v0", num_agents=3)
    teams = {name: saying(env, name) for name in ("x", "y")}
    cross_play(env, teams, starts_of(env)[:1], folder=tmp_path, agent=agent)
    (row,) = read_json_lines(tmp_path / "cells" / "x+y" / "episodes.jsonl")
    said = [texts[0] for texts in row["groups"][0]["completions"].values()]
    assert said == ["y" if place == who else "x" for place in range(3)]


def test_cross_play_is_the_mean_of_all_cells_off_the_diagonal_paired_by_run_and_task() -> None:
    scores = {
        ("a", "a"): {"s": 1.0, "t": 3.0},
        ("a", "b"): {"s": 0.0, "t": 1.0},
        ("b", "a"): {"s": 0.5, "t": 0.5},
        ("b", "b"): {"s": 2.0, "t": 2.0},
    }
    found = matrix(["a", "b"], scores)
    assert values(found) == [[2.0, 0.5], [0.5, 2.0]]
    assert (found.self_play.value, found.cross_play.value) == (2.0, 0.5)
    # With others, both runs have 0.25 and 0.75 on the tasks.
    assert found.difference == bootstrap([[-0.75, -2.25], [-1.75, -1.25]])


def test_with_three_runs_each_pair_counts_the_same() -> None:
    draw = np.random.default_rng(0)
    names = ("a", "b", "c")
    scores = {(r, c): {"t": float(draw.random()), "u": 0.0} for r in names for c in names}
    off = [one["t"] / 2 for (r, c), one in scores.items() if r != c]
    found = matrix(names, scores)
    assert found.cross_play.value == pytest.approx(float(np.mean(off)))


def test_tasks_are_matched_by_name_and_not_by_place() -> None:
    scores = {
        ("a", "a"): {"s": 1.0, "t": 5.0},
        ("a", "b"): {"t": 5.0, "s": 1.0},
        ("b", "a"): {"t": 5.0, "s": 1.0},
        ("b", "b"): {"s": 1.0, "t": 5.0},
    }
    difference = matrix(["a", "b"], scores).difference
    assert (difference.low, difference.high) == (0.0, 0.0)


def test_a_second_start_plays_only_what_is_missing(tmp_path: Path) -> None:
    env = make("probe-rendezvous-v0")
    teams = {word: saying(env, word) for word in "ab"}
    first = cross_play(env, teams, starts_of(env), folder=tmp_path)
    kept = tmp_path / "cells" / "a+b" / "times.jsonl"
    before = kept.read_text(encoding="utf-8")
    (tmp_path / "cells" / "b+a" / "episodes.jsonl").write_text("", encoding="utf-8")
    assert cross_play(env, teams, starts_of(env), folder=tmp_path) == first
    assert kept.read_text(encoding="utf-8") == before
    with pytest.raises(ConfigError, match="another evaluation"):
        cross_play(env, teams, starts_of(env), folder=tmp_path, about={"a": "another run"})


@pytest.mark.parametrize(
    ("names", "agent", "message"),
    [
        (["a"], None, "two teams of two agents at least, got 1 of 2"),
        (["a", "b"], "player_7", "did you mean 'player_"),
    ],
)
def test_bad_input_refused(
    names: list[str], agent: str | None, message: str, tmp_path: Path
) -> None:
    env = make("probe-rendezvous-v0")
    with pytest.raises(ConfigError, match=message):
        teams = {name: saying(env, name) for name in names}
        cross_play(env, teams, starts_of(env), folder=tmp_path, agent=agent)
    with pytest.raises(ConfigError, match="b plays player_0, and the environment has"):
        teams = {"a": saying(env, "a"), "b": {"player_0": Constant("b")}}
        cross_play(env, teams, starts_of(env), folder=tmp_path)


def test_command_with_saved_teams(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    agents = ("aux_0", "main_0")
    save_team(dict.fromkeys(agents, Gold()), tmp_path / "gold")
    save_team({agent: RandomText() for agent in agents}, tmp_path / "noise")
    teams = [str(tmp_path / name) for name in ("gold", "noise")]
    options = ["--env", "coophumaneval-v0", "--env-option", "source=bundled", "--tasks", "2"]
    output = ["--env-option", "num_turns=1", "--output", str(tmp_path / "out")]
    assert call("crossplay", *teams, *options, *output) == 0
    found = read_crossplay(tmp_path / "out")
    assert found is not None
    assert values(found.matrices["last/reward_mean"]) == pytest.approx(
        np.array([[4.0, 0.4], [1.1, 0.0]])
    )
    assert "cross-play minus self-play" in " ".join(capsys.readouterr().out.split())
    save_team({agent: RandomText() for agent in agents}, tmp_path / "gold")  # another team
    assert call("crossplay", *teams, *options, *output) == 2
    assert "holds another evaluation" in capsys.readouterr().err
    assert call("crossplay", teams[0]) == 2


def test_adapters_of_several_saved_teams_share_one_base(tmp_path: Path, tiny_model: str) -> None:
    lora: dict[str, Any] = {"r": 2, "target_modules": ["q_proj"], "init_lora_weights": False}
    spec = PolicySpec(name=tiny_model, lora=lora, compute_dtype="float32", max_new_tokens=2)
    agents = {"aux_0": "aux", "main_0": "main"}
    for seed in (0, 1):
        team = load_team(agents, {"aux": spec, "main": spec}, seed=seed)
        save_team(team, tmp_path / f"seed-{seed}", agents)
    setting = EvalConfig.from_config(load_config(overrides=["dataset.source=bundled"]))
    paths = {name: tmp_path / name for name in ("seed-0", "seed-1")}
    policies: list[Any] = [p for team in load_teams(paths, setting).values() for p in team.values()]
    assert len({id(policy.engine) for policy in policies}) == 1
    weights = [next(policy.parameters()) for policy in policies]
    assert len({float(weight.detach().sum()) for weight in weights}) == 4


def test_checkpoints_play_with_their_own_weights(tmp_path: Path, quick: list[str]) -> None:
    more = ["output.checkpoint_every=1", "algorithm.max_updates=1", "output.report=false"]
    run = train(load_config(overrides=[*quick, *more]), "tiny").folder.path
    shutil.copytree(run, tmp_path / "other")
    state_file = tmp_path / "other" / "checkpoints" / "update-000001" / "state.pt"
    state = torch.load(state_file, weights_only=True)
    for weight in state["policies"]["main_0"]["weights"].values():
        weight += 1
    torch.save(state, state_file)
    save_team({agent: Constant("x") for agent in ("aux_0", "main_0")}, tmp_path / "saved")
    paths = {
        "saved": tmp_path / "saved",
        "run": run / "checkpoints" / "update-000001",
        "other": state_file.parent,
    }
    teams: Any = load_teams(paths, EvalConfig.from_config(load_config(overrides=quick)))
    assert list(teams) == ["saved", "run", "other"]
    for agent, by in (("aux_0", 0.0), ("main_0", 1.0)):
        both = (teams[name][agent] for name in ("run", "other"))
        one, other = (next(policy.parameters()).detach() for policy in both)
        assert torch.allclose(one + by, other), agent


def test_runs_of_the_same_name_get_names_of_their_own() -> None:
    runs = [Path("a/x"), Path("b/x"), Path("c/x-2"), Path("d/x")]
    names = run_names(runs)
    assert names == ["x", "x-2", "x-2-2", "x-3"]
    assert run_names([Path("a/0/run"), Path("a/1/run")]) == ["0", "1"]  # as of a suite
    assert run_names([Path("a/0/run"), Path("b/0/run")]) == ["a", "b"]
    assert run_names([Path("a/x"), Path("a/x")]) == ["x", "x-2"]
