"""Configurations with probes, and with environments and algorithms of one's own by their paths."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from llm_decpomdp import registry
from llm_decpomdp.agents.loading import TeamSpec
from llm_decpomdp.algorithms import ALGORITHMS, NAMES
from llm_decpomdp.benchmarks import load_config, train
from llm_decpomdp.benchmarks.analysis.replay import regrade
from llm_decpomdp.benchmarks.cli.play import play
from llm_decpomdp.benchmarks.config.errors import ConfigError
from llm_decpomdp.benchmarks.config.load import find_config
from llm_decpomdp.benchmarks.runs.data import load_envs
from llm_decpomdp.benchmarks.runs.resume import resume
from llm_decpomdp.benchmarks.runs.setup import learner_options
from llm_decpomdp.benchmarks.runs.setup_checks import start_cost
from llm_decpomdp.envs.probes.known import PROBES
from tests.benchmarks.report_runs import html

TURNS = ["env.id=probe-turns-v0", "algorithm.turn_gradient_weights=[1.5, 0.5]"]


@pytest.mark.parametrize("probe", PROBES)
def test_a_probe_is_configured_by_its_id_alone(probe: str, tmp_path: Path) -> None:
    config = load_config(find_config("demo"), [f"env.id={probe}"])
    env, same = load_envs(config)
    assert env.spec_id == same.spec_id == probe
    assert (config.env.num_agents, config.env.num_turns) == (
        len(env.possible_agents),
        env.num_turns,
    )
    stored = tmp_path / "config.yaml"
    stored.write_text(config.to_yaml())
    assert load_config(stored) == config


def test_turns_that_nobody_chooses_are_known_all_the_same() -> None:
    config = load_config(None, TURNS)
    assert config.env.num_turns == 2
    assert start_cost(config).groups == 2
    assert learner_options(config, 1, TeamSpec({}, {})).turn_gradient_weights == (1.5, 0.5)
    assert load_config(None, [*TURNS, "env.num_turns=2"]) == config


def test_the_same_problems_in_both_splits_are_warned_of_where_nobody_can_split_them(
    caplog: pytest.LogCaptureFixture,
) -> None:
    load_envs(load_config(None, [TURNS[0]]))
    (record,) = caplog.records
    assert "trained on too" in record.getMessage()
    assert "probe-turns-v0 takes no split; a family of your own does" in record.getMessage()
    assert "dataset.train_split" not in record.getMessage()


def test_a_single_agent_is_trained_with_grpo() -> None:
    alone = ["env.id=probe-halves-v0", "env.num_agents=1", "algorithm.name=grpo"]
    assert load_config(None, alone).env.num_agents == 1


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("env.num_turns=3", "env.num_turns=3: probe-turns-v0 always has 2; drop it"),
        ("env.num_agents=3", "env.num_agents=3: probe-turns-v0 always has 2; drop it"),
        ("dataset.source=x.jsonl", "takes no source, got '.*x.jsonl': keep the defaults"),
        ("dataset.train_split=train", "takes no split, got 'train': keep the defaults"),
        ("dataset.eval_split=test", "takes no split, got 'test': keep the defaults"),
        ("env.isolation=require", "probe-turns-v0: unknown argument 'isolation'"),
        ("env.id=absent:x-v0", "there is no module 'absent'"),
    ],
)
def test_what_an_environment_cannot_do_is_refused(override: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load_config(None, [TURNS[0], override])


def test_a_probe_is_trained_and_reported(quick: list[str]) -> None:
    config = load_config(None, [*quick, TURNS[0]])
    result = train(config, "probe")
    assert result.summary["updates"] == 2
    assert "probe-turns-v0" in html(result.folder)


PAID = """
import llm_decpomdp
from tests.wrapper_cases import Paying

def paid(discount=1.0):
    return Paying(llm_decpomdp.make("probe-turns-v0", discount=discount), 16.0)

llm_decpomdp.register("paid-v0", "paid_here:paid")
"""


@pytest.fixture
def paid(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The id of a wrapped environment that a module in the current folder registers."""
    (tmp_path / "paid_here.py").write_text(PAID)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(registry, "_registry", dict(registry._registry))
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield "paid_here:paid-v0"
    sys.modules.pop("paid_here", None)


@pytest.mark.filterwarnings("ignore:Overriding environment")
def test_a_wrapper_with_an_id_is_trained_and_graded_again(quick: list[str], paid: str) -> None:
    result = train(load_config(None, [*quick, f"env.id={paid}"]), "paid")
    for name in ("first_train", "last_train", "first_eval", "last_eval"):
        assert 16.0 <= result.summary[name]["reward_mean"] <= 17.0
    assert result.folder.read_manifest()["environment"] == paid
    assert regrade(result.folder.path).differences == ()


@pytest.mark.filterwarnings("ignore:Overriding environment")
def test_wrappers_with_ids_play_in_terminals(paid: str, capsys: pytest.CaptureFixture[str]) -> None:
    play(paid, policy="gold", seed=0)
    shown = capsys.readouterr().out
    assert "player_0 sees" in shown and "total reward 33.00 in 2 turns" in shown


SOURCE = """
import numpy as np
from llm_decpomdp.algorithms import Algorithm

def half(returns):
    return np.full_like(returns, 0.5)

HALF = Algorithm("half", baseline=half, description="Half a point.")
NUMBER = 3
"""


@pytest.fixture
def half(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Name of an algorithm in a module in the current folder."""
    (tmp_path / "mine_of_a_user.py").write_text(SOURCE, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield "mine_of_a_user:HALF"
    sys.modules.pop("mine_of_a_user", None)


def test_it_trains_and_its_folder_resumes(half: str, quick: list[str], tmp_path: Path) -> None:
    own = [f"algorithm.name={half}", "output.checkpoint_every=1", "output.report=false"]
    result = train(load_config(find_config("demo"), [*quick, *own]), "demo")
    manifest = json.loads((tmp_path / "run" / "manifest.json").read_text())
    assert manifest["algorithm"] == half
    assert manifest["description"]["algorithm"] == "Half a point."
    updates = result.summary["updates"]
    longer = resume(tmp_path / "run", [f"algorithm.max_updates={updates + 1}"])
    assert longer.summary["updates"] == updates + 1
    assert longer.config.algorithm.name == half


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("absent_module:HALF", "algorithm.name: .*there is no module 'absent_module'"),
        ("mine_of_a_user:WHOLE", "mine_of_a_user has no algorithm 'WHOLE': assign an .*Algorithm"),
        ("mine_of_a_user:NUMBER", "mine_of_a_user has no algorithm 'NUMBER'"),
        ("magrp", "algorithm.name: .*did you mean 'magrpo'.* One of your own is 'module:NAME'"),
    ],
)
def test_no_algorithm_is_refused_with_the_remedy(half: str, name: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load_config(None, [f"algorithm.name={name}"])


def test_it_is_found_as_the_others_are_and_not_among_them(half: str) -> None:
    assert ALGORITHMS[half].name == "half"
    assert half not in ALGORITHMS and len(ALGORITHMS) == len(NAMES)
