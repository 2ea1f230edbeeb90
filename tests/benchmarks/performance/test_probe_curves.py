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
from llm_decpomdp.benchmarks.performance.models.probe_trials import TEAMS, Trial, trials
from llm_decpomdp.envs.probes.known import PROBES
from llm_decpomdp.envs.probes.parts import MAX_TOKENS

RENDEZVOUS = "probe-rendezvous-v0"


def test_every_algorithm_of_groups_is_tried_and_every_probe_by_every_team_algorithm() -> None:
    tried = {(trial.probe, trial.algorithm) for trial in trials()}
    of_groups = [name for name in ALGORITHMS if ALGORITHMS[name].critic is None]
    assert {algorithm for _, algorithm in tried} == set(of_groups)
    teams = [name for name in of_groups if ALGORITHMS[name].multi_agent]
    assert {(probe, name) for probe in PROBES for name in teams} <= tried
    assert len(set(trials())) == len(trials())


def test_equal_seeds_give_equal_curves_and_others_do_not() -> None:
    curves = [train(Trial(RENDEZVOUS, "magrpo"), budget=3, seed=seed) for seed in (0, 0, 1)]
    assert curves[0].updates == (0, 1, 2, 3)
    assert curves[0].values == curves[1].values != curves[2].values


def test_all_ways_have_the_same_budget_of_completions() -> None:
    game = (("length", 2),)
    taken = []
    for plan in ("chain", "episodes", "tree"):
        curve = train(Trial("probe-relay-v0", plan=plan, game=game), budget=1, seed=0)
        taken.append(curve.completions[-1])
        assert curve.completions[-1] <= curve.tokens <= MAX_TOKENS * curve.completions[-1]
    assert 512 == taken[0] == taken[1] > taken[2] > 256  # trees end where the baton is lost


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
        (
            Trial("p", "magrpo", critic="joint", features="noise"),
            "magrpo over chains, joint critic, of noise",
        ),
    ],
)
def test_a_trial_says_what_it_differs_by(trial: Trial, name: str) -> None:
    assert str(trial) == name


def test_an_offset_is_trained_with_and_not_measured() -> None:
    curve = train(Trial(RENDEZVOUS, "magrpo", offset=50.0), budget=1, seed=0)
    assert all(0 <= value <= 1 for value in curve.values)


def test_a_line_counts_the_seeds_that_reached_nine_tenths_of_the_optimum() -> None:
    trial = Trial("probe-turns-v0", "magrpo")
    rows = [(0.1, 1.9, 2.0), (0.1, 1.7, 1.8), (0.1, 1.0, 1.79)]
    curves = [
        Curve(trial, seed, (0, 5, 10), values, (0, 640, 1280), 1900, 1.0)
        for seed, values in enumerate(rows)
    ]
    assert [curve.reached for curve in curves] == [640, 1280, math.inf]
    line = summarise(curves)
    assert line["completions to 90 %"] == "1,280" and line["seeds there"] == "2/3"
    assert line["value"] == "1.86 (1.79 to 2.00)" and line["tokens"] == "1,900"


def test_the_command_prints_a_table_and_writes_the_curves(tmp_path: Path) -> None:
    app = probes.typer.Typer()
    app.command()(probes.main)
    arguments = ["--seeds", "1", "--budget", "1", "--probe", "rendezvous", "--folder"]
    result = CliRunner().invoke(app, [*arguments, str(tmp_path)])
    assert result.exit_code == 0, result.output
    assert "mareinforce over chains" in result.output and "random" in result.output
    with (tmp_path / "curves.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert {row["algorithm"] for row in rows} == set(TEAMS)
    assert {row["update"] for row in rows if row["algorithm"] == "magrpo"} == {"0", "1"}
    assert (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG")


def test_an_unknown_probe_is_refused_with_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="probe-halves-v0"):
        probes.main(seeds=1, budget=1, probe="tennis", folder=tmp_path)
