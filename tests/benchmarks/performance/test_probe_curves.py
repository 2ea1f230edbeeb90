"""The curves of the probes: what the command trains, prints and writes."""

from __future__ import annotations

import csv
import math
from pathlib import Path

import pytest
from typer.testing import CliRunner

from llm_decpomdp.algorithms import ALGORITHMS
from llm_decpomdp.benchmarks.performance.models import probe_curves as probes
from llm_decpomdp.benchmarks.performance.models.probe_curves import Curve, summarise, train
from llm_decpomdp.benchmarks.performance.models.probe_trials import Trial, trials
from llm_decpomdp.envs.probes.known import PROBES

RENDEZVOUS = "probe-rendezvous-v0"


def test_every_algorithm_is_tried_and_every_probe_by_every_team_algorithm() -> None:
    tried = {(trial.probe, trial.algorithm) for trial in trials()}
    compared = set(ALGORITHMS) - {"rae"}  # in tests/algorithms/learning/test_running.py
    assert {algorithm for _, algorithm in tried} == compared
    teams = [name for name in compared if ALGORITHMS[name].multi_agent]
    assert {(probe, name) for probe in PROBES for name in teams} <= tried
    assert len(set(trials())) == len(trials())


def test_equal_seeds_give_equal_curves_and_others_do_not() -> None:
    curves = [train(Trial(RENDEZVOUS, "magrpo"), updates=3, seed=seed) for seed in (0, 0, 1)]
    assert curves[0].updates == (0, 3)
    assert curves[0].values == curves[1].values != curves[2].values


def test_completions_are_those_of_all_agents_and_turns() -> None:
    game = (("length", 2),)
    for plan, of_an_agent in (("chain", 64), ("episodes", 64), ("tree", 72)):
        curve = train(Trial("probe-relay-v0", "magrpo", plan, game=game), updates=1, seed=0)
        assert 0 < curve.completions[-1] <= 4 * 2 * of_an_agent  # four tasks, two agents


@pytest.mark.parametrize(
    ("trial", "name"),
    [
        (Trial("p", "magrpo", "episodes"), "magrpo over episodes"),
        (
            Trial("p", "magrpo", joint_mode="common", num_partners=4, game=(("num_agents", 8),)),
            "magrpo over chains, 4 common partners, num_agents 8",
        ),
        (
            Trial("p", "magrpo", joint_mode="cross", aggregation="max"),
            "magrpo over chains, crossed, max",
        ),
    ],
)
def test_a_trial_says_what_it_differs_by(trial: Trial, name: str) -> None:
    assert str(trial) == name


def test_an_offset_is_trained_with_and_not_measured() -> None:
    curve = train(Trial(RENDEZVOUS, "magrpo", offset=50.0), updates=1, seed=0)
    assert all(0 <= value <= 1 for value in curve.values)


def test_a_line_counts_the_seeds_that_reached_nine_tenths_of_the_optimum() -> None:
    trial = Trial("probe-turns-v0", "magrpo")
    rows = [(0.1, 1.9, 2.0), (0.1, 1.7, 1.8), (0.1, 1.0, 1.79)]
    curves = [
        Curve(trial, seed, (0, 5, 10), values, (0, 640, 1280), 1.0)
        for seed, values in enumerate(rows)
    ]
    assert [curve.reached for curve in curves] == [640, 1280, math.inf]
    line = summarise(curves)
    assert line["completions to 90 %"] == "1,280" and line["seeds there"] == "2/3"
    assert line["final"] == "1.86" and line["seeds from .. to"] == "1.79 .. 2.00"


def test_the_command_prints_a_table_and_writes_the_curves(tmp_path: Path) -> None:
    app = probes.typer.Typer()
    app.command()(probes.main)
    arguments = ["--seeds", "1", "--updates", "1", "--probe", "rendezvous", "--folder"]
    result = CliRunner().invoke(app, [*arguments, str(tmp_path)])
    assert result.exit_code == 0, result.output
    assert "mareinforce over chains" in result.output and "random" in result.output
    with (tmp_path / "curves.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert {row["algorithm"] for row in rows} == {"magrpo", "marloo", "maremax", "mareinforce"}
    assert {row["update"] for row in rows if row["algorithm"] == "magrpo"} == {"0", "1"}
    assert (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG")


def test_an_unknown_probe_is_refused_with_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="probe-halves-v0"):
        probes.main(seeds=1, updates=1, probe="tennis", folder=tmp_path)
