from __future__ import annotations

import csv
import math
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from llm_decpomdp.algorithms import ALGORITHMS
from llm_decpomdp.algorithms.rollouts.checks import cost
from llm_decpomdp.envs.probes.known import PROBES
from llm_decpomdp.envs.probes.parts import MAX_TOKENS
from studies.hypotheses.training import every_start
from tools.performance.models import probe_curves as probes
from tools.performance.models.probe_curves import markdown, summarise
from tools.performance.models.probe_trials import Curve, ProbeTrial, train, trials

RENDEZVOUS = "probe-rendezvous-v0"


def test_every_algorithm_is_tried_and_every_probe_by_every_team_algorithm() -> None:
    tried = {(trial.probe, trial.algorithm) for trial in trials()}
    assert {algorithm for _, algorithm in tried} == set(ALGORITHMS)
    teams = [name for name in ALGORITHMS if ALGORITHMS[name].multi_agent]
    assert {(probe, name) for probe in PROBES for name in teams} <= tried
    assert len(set(trials())) == len(trials())


def test_equal_seeds_give_equal_curves_and_others_do_not() -> None:
    trial = ProbeTrial(RENDEZVOUS, "magrpo")
    curves = [train(trial, budget=3, seed=seed, marks=3) for seed in (0, 0, 1)]
    assert curves[0].updates == (0, 1, 2, 3)
    assert curves[0].values == curves[1].values != curves[2].values


def test_all_lines_of_a_probe_have_the_same_budget_of_completions() -> None:
    for trial in trials():
        env = trial.env()
        agents, turns = len(env.possible_agents), env.num_turns
        starts = trial.recipe.starts
        own = starts * cost(trial.rollouts, trial.group_size, agents, turns).completions
        assert trial.updates(60) * own == pytest.approx(60 * 32 * turns, rel=0.02), trial
        drawn = trial.starts(env, np.random.default_rng(0))
        assert len(drawn) == starts * len(every_start(ProbeTrial(trial.probe).env())), trial


def test_completions_and_tokens_are_those_of_all_agents() -> None:
    curve = train(ProbeTrial(RENDEZVOUS), budget=1, seed=0)
    assert curve.completions == (0, 64)
    assert 64 <= curve.tokens <= 64 * MAX_TOKENS


@pytest.mark.parametrize(
    ("trial", "name"),
    [
        (ProbeTrial("p", "magrpo", "episodes"), "magrpo over episodes"),
        (
            ProbeTrial(
                "p", "magrpo", joint_mode="common", num_partners=4, game=(("num_agents", 8),)
            ),
            "magrpo over chains, 4 common partners, num_agents 8",
        ),
        (
            ProbeTrial("p", "magrpo", joint_mode="cross", aggregation="max"),
            "magrpo over chains, crossed, max",
        ),
        (
            ProbeTrial("p", "magrpo", critic="joint", features="noise"),
            "magrpo over chains, joint critic, of noise",
        ),
    ],
)
def test_a_trial_says_what_it_differs_by(trial: ProbeTrial, name: str) -> None:
    assert str(trial) == name


def test_an_offset_is_not_measured() -> None:
    curve = train(ProbeTrial(RENDEZVOUS, "magrpo", offset=50.0), budget=1, seed=0)
    assert all(0 <= value <= 1 for value in curve.values)


def test_a_line_counts_the_seeds_at_the_goal() -> None:
    trial = ProbeTrial("probe-turns-v0", "magrpo")
    rows = [(0.1, 1.9, 2.0), (0.1, 1.7, 1.8), (0.1, 1.0, 1.79)]
    curves = [
        Curve(trial, seed, (0, 5, 10), values, (0, 640, 1280), 1900, 1.0)
        for seed, values in enumerate(rows)
    ]
    assert [curve.reach for curve in curves] == [640, 1280, math.inf]
    line = summarise(curves)
    assert line["completions to 90 %"] == "1,280" and line["seeds at 90 %"] == "2/3"
    assert line["value"] == "1.86 (1.79 to 2.00)" and line["tokens"] == "1,900"
    *_, row = markdown(curves).splitlines()
    assert row == "| magrpo | 1.86 (1.79 to 2.00); 1,280 |"


def test_probes_of_several_turns_have_their_own_table() -> None:
    curves = [Curve(ProbeTrial(name), 0, (0,), (0.5,), (0,), 0, 1.0) for name in PROBES]
    short, long = markdown(curves).split("\n\n")
    assert "`rendezvous`, 0.19 to 1 |" in short and "`relay`, 0.00 to 1 |" in long
    assert len(short.splitlines()) == len(long.splitlines()) == 3


def test_command_resumes_and_writes_curves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    app = probes.typer.Typer()
    app.command()(probes.main)
    options = "--seeds 1 --budget 1 --probe rendezvous --folder".split()
    arguments = ["--algorithm", "chains, 4", *options, str(tmp_path)]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    assert "annealed" in result.output and "random" in result.output
    with (tmp_path / "curves.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len({row["trial"] for row in rows}) == 3
    assert {row["algorithm"] for row in rows} == {"magrpo"}
    assert {row["update"] for row in rows if row["algorithm"] == "magrpo"} == {"0", "1"}
    assert (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG")
    assert "| magrpo, 4 common partners, max |" in (tmp_path / "table.md").read_text()
    trained = []
    again = probes.train
    monkeypatch.setattr(probes, "train", lambda *a, **k: trained.append(a) or again(*a, **k))
    next((tmp_path / "runs").glob("*max*")).unlink()
    assert CliRunner().invoke(app, arguments).exit_code == 0
    assert [str(trial) for (trial,) in trained] == ["magrpo over chains, 4 common partners, max"]


def test_an_unknown_probe_is_refused_with_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="probe-halves-v0"):
        probes.main(seeds=1, budget=1, probe="tennis", folder=tmp_path)
