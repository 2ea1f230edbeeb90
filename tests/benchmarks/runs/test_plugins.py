"""Runs with names that a package announces: trained, resumed, evaluated, and missed where it is gone."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from llm_decpomdp.agents import Gold, PolicySpec, load_saved_team, load_team, save_team
from llm_decpomdp.benchmarks.cli.suite_job import work
from llm_decpomdp.benchmarks.config.errors import ConfigError, RunError
from llm_decpomdp.benchmarks.config.load import origins
from llm_decpomdp.benchmarks.evaluation.baselines import (
    EvalConfig,
    find_baseline,
    find_baseline_name,
)
from llm_decpomdp.benchmarks.evaluation.teams import load_stored_team, load_teams
from llm_decpomdp.benchmarks.runs.resume import resume
from llm_decpomdp.benchmarks.runs.setup import load_config, load_stored_config
from llm_decpomdp.benchmarks.runs.train import train
from llm_decpomdp.benchmarks.suites.job import make_jobs
from llm_decpomdp.benchmarks.suites.suite import load_suite
from llm_decpomdp.plugins import plugins
from tests.benchmarks.runs.conftest import Runs
from tests.support.commands import call
from tests.support.packages import looked_up_anew, write_example, write_package

OWN = [
    "env.id=probe-turns-v0",
    "env.reward=brief",
    "external.mode=cheerful",
    "algorithm.name=mamedian",
    "team={player_0: learner, player_1: partner}",
    "policies={partner: {kind: parrot, arguments: {words: 2}}}",
    "output.trackers={lines: {title: rows}, 'nested_of_mine.lines:Lines': true}",
    "output.report=false",
]
"""One name of each kind."""


@pytest.fixture
def about(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """What pip keeps of the example package."""
    folder = tmp_path / "site"
    folder.mkdir()
    with looked_up_anew(folder, monkeypatch):
        (folder / "nested_of_mine").mkdir()
        (folder / "nested_of_mine" / "lines.py").write_text("from terse_agents import Lines")
        yield write_example(folder)


def test_a_run_with_one_name_of_each_kind_is_resumed_while_the_package_is_there(
    about: Path, quick: list[str], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    own = [*quick, *OWN, "output.checkpoint_every=1", "algorithm.max_updates=1"]
    train(load_config(None, own), "own")
    folder = tmp_path / "run"
    manifest = json.loads((folder / "manifest.json").read_text())
    names = (
        "reward.brief",
        "mode.cheerful",
        "algorithm.mamedian",
        "policy.parrot",
        "tracker.lines",
    )
    assert manifest["plugins"] == dict.fromkeys(names, "terse-agents 0.1.0")
    lines = (folder / "lines.txt").read_text()
    assert "rows of probe-turns-v0" in lines and "metrics of probe-turns-v0" in lines
    assert resume(folder, ["algorithm.max_updates=2"]).summary["updates"] == 2
    newer = about.with_name("terse_agents-0.2.0.dist-info")
    about.rename(newer)
    (newer / "METADATA").write_text("Metadata-Version: 2.1\nName: terse-agents\nVersion: 0.2.0\n")
    plugins.cache_clear()
    load_stored_config(folder / "config.yaml")
    assert (
        "reward 'brief' of terse-agents 0.1.0, and here it is of terse-agents 0.2.0" in caplog.text
    )
    shutil.rmtree(newer)
    plugins.cache_clear()
    text = "made with the .* of the package terse-agents 0.1.0, which is not installed here: pip install terse"
    for read in (lambda: resume(folder), lambda: load_stored_config(folder / "config.yaml")):
        with pytest.raises(ConfigError, match=text):
            read()


def test_a_team_with_an_announced_policy_is_saved_and_loaded(about: Path, tmp_path: Path) -> None:
    spec = PolicySpec("parrot", arguments={"words": 2})
    save_team(load_team({"a_0": "p"}, {"p": spec}), tmp_path / "team")
    assert load_saved_team(tmp_path / "team")["a_0"].act("one two three") == "one two"
    shutil.rmtree(about)
    plugins.cache_clear()
    with pytest.raises(
        ValueError, match=r"unknown kind 'parrot'.* of the package terse-agents 0\.1\.0"
    ):
        load_saved_team(tmp_path / "team")


def test_a_saved_team_runs_no_code_its_reader_does_not_name(about: Path, tmp_path: Path) -> None:
    folder, code = tmp_path / "team", "terse_agents:Parrot"
    spec = PolicySpec(code, arguments={"words": 2})
    save_team(load_team({"player_0": "p", "player_1": "p"}, {"p": spec}), folder)
    with pytest.raises(ValueError, match=rf"is code, '{code}'.*allow_code=\['{code}'\]"):
        load_saved_team(folder)
    assert load_saved_team(folder, allow_code=[code])["player_0"].act("one two three") == "one two"
    names = ["team={player_0: p, player_1: learner}", f"policies={{p: {{kind: '{code}'}}}}"]
    stranger = EvalConfig.from_config(load_config(None, ["env.id=probe-turns-v0"]))
    reader = EvalConfig.from_config(load_config(None, ["env.id=probe-turns-v0", *names]))
    paths = {"a": folder}
    assert set(load_stored_team(folder, reader).team) == set(load_teams(paths, reader)["a"])
    for load in (lambda: load_stored_team(folder, stranger), lambda: load_teams(paths, stranger)):
        with pytest.raises(ValueError, match="is code"):
            load()


def test_a_saved_team_runs_no_command(about: Path, tmp_path: Path) -> None:
    sign = tmp_path / "ran"
    policy = {"kind": "subprocess:run", "arguments": {"args": ["touch", str(sign)]}}
    manifest = {"format": 1, "agents": {"a_0": "p"}, "policies": {"p": policy}, "versions": {}}
    (tmp_path / "team.json").write_text(json.dumps(manifest))
    for allowed in ((), ["subprocess:run"]):
        with pytest.raises(ValueError, match=r"is code|no class of policies"):
            load_saved_team(tmp_path, allow_code=allowed)
    assert not sign.exists()


POLICIES = """
class Silent:
    def act(self, prompt): return ""
    def generate(self, prompts, num_samples=1): return []
class Learning(Silent):
    def seed(self, seed): pass
    def state_dict(self): return {}
    def load_state_dict(self, state): pass
    def log_probs(self, prompt, completions): pass
    def parameters(self): return iter(())
    def save(self, folder): pass
class Slotted:
    __slots__ = ()
    act, generate = Silent.act, Silent.generate
class Nothing: pass
def nobody(env): return {"player_0": Silent()}
"""


@pytest.mark.parametrize(
    ("policy", "text"),
    [
        (
            "{kind: 'policies_of_mine:Silent', arguments: {words: 2}}",
            "takes no arguments|unexpected",
        ),
        (
            "{kind: 'policies_of_mine:Nothing'}",
            "Nothing'> is no class of policies, with generate and act",
        ),
        (
            "{kind: 'subprocess:run', arguments: {args: [touch, ran_by_a_config]}}",
            "run .* is no class of policies",
        ),
        ("{kind: 'policies_of_mine:Slotted'}", "no `spec` can be set.*drop __slots__"),
        ("{kind: 'policies_of_mine:Learning'}", "can be trained, which only a Learner or Trainer"),
        ("{kind: 'policies_of_mine:Absent'}", "policies_of_mine has no policy 'Absent': define"),
        ("{kind: 'policies_of_mine:Silent', text: a}", "unknown key of .* 'text'.*arguments"),
        ("{kind: parot}", "unknown kind 'parot'; did you mean 'parrot'"),
    ],
)
def test_what_is_no_partner_is_refused(about: Path, policy: str, text: str) -> None:
    about.with_name("policies_of_mine.py").write_text(POLICIES)
    from llm_decpomdp.benchmarks.runs.setup import load_policies

    scripted = f"policies={{a: {policy}, b: {{kind: random}}}}"
    overrides = ["env.id=probe-turns-v0", "team={player_0: a, player_1: b}", scripted]
    with pytest.raises((ConfigError, RunError), match=text):
        config = load_config(None, overrides)
        load_policies(config, [config.make_train_env()])


def test_a_baseline_is_found_by_its_name_and_by_its_path(about: Path) -> None:
    about.with_name("policies_of_mine.py").write_text(POLICIES)
    setting = EvalConfig.from_config(load_config(None, ["env.id=probe-turns-v0"]))
    for name in ("parrots", "terse_agents:parrots"):
        entry = find_baseline(name, setting).load()
        assert set(entry.team) == {"player_0", "player_1"} and entry.about == {"baseline": name}
    for name, text in (
        ("parots", "did you mean 'parrots'"),
        ("policies_of_mine:nobody", r"must return a policy for each of \['player_0', 'player_1'\]"),
        ("absent_mine:x", "there is no module 'absent_mine'"),
    ):
        with pytest.raises(ConfigError, match=text):
            find_baseline(name, setting)


@pytest.mark.filterwarnings("ignore:an environment of the package greedy-one .* is left out")
def test_no_package_gets_credit_for_a_name_of_this_one(
    about: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    names = ("environment.probe-turns-v0", "mode.plain", "algorithm.magrpo")
    names += ("policy.gold", "tracker.wandb")
    write_package(about.parent, "greedy-one", dict.fromkeys(names, "terse_agents:Parrot"))
    plugins.cache_clear()
    team = "team={player_0: learner, player_1: p}"
    overrides = ["env.id=probe-turns-v0", "output.trackers={wandb: true}"]
    config = load_config(None, [*overrides, team, "policies={p: {kind: gold}}"])
    assert origins(replace(config, external=replace(config.external, mode="plain"))) == {}
    save_team({"a_0": Gold()}, tmp_path / "team")
    assert "greedy" not in (tmp_path / "team" / "team.json").read_text()
    assert call("list") == 0
    assert "(greedy-one" not in capsys.readouterr().out.partition("Of installed packages")[0]


def test_an_unknown_tracker_is_refused_before_anything_is_loaded(about: Path) -> None:
    with pytest.raises(ConfigError, match="did you mean 'lines'"):
        load_config(None, [*OWN[:-2], "output.trackers={line: true}"])


@pytest.mark.filterwarnings("ignore:an environment of the package greedy-one .* is left out")
def test_announced_methods_take_no_name_of_another_kind(about: Path, tmp_path: Path) -> None:
    names = (
        "algorithm.gold",
        "baseline.train",
        "baseline.random",
        "algorithm.both",
        "baseline.both",
    )
    write_package(about.parent, "greedy-one", dict.fromkeys(names, "terse_agents:parrots"))
    plugins.cache_clear()
    path = tmp_path / "mine.yaml"
    path.write_text("config: demo\ncells:\n  - {method: [gold, train, random]}\n")
    assert [arm.trains for arm in load_suite(path).arms] == [False, True, False]
    assert [find_baseline_name({"method": m}) for m in ("gold", "train")] == ["gold", None]
    path.write_text("config: demo\ncells:\n  - {method: both}\n")
    with pytest.raises(ConfigError, match="both an algorithm and a baseline named 'both'"):
        load_suite(path)


def test_suites_have_announced_algorithms_and_baselines(about: Path, tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    text = "config: probe\ntasks: 1\ncells:\n  - {method: [parrots, mamedian]}\n"
    (tmp_path / "probe").write_text("env: {id: probe-turns-v0}\n")
    path.write_text(text)
    parrots, mamedian = make_jobs(load_suite(path), tmp_path / "out")
    assert (parrots.arm.trains, mamedian.arm.trains) == (False, True)
    assert mamedian.config.algorithm.name == "mamedian"
    parrots.folder.mkdir(parents=True)
    work(parrots)
    manifest = json.loads((parrots.folder / "manifest.json").read_text())
    assert manifest["plugins"] == {"baseline.parrots": "terse-agents 0.1.0"}
    path.write_text(text.replace("parrots", "parots"))
    with pytest.raises(ConfigError, match="did you mean 'parrots'"):
        load_suite(path)


def test_eval_and_list_know_the_names(
    runs: Runs, about: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = str(tmp_path / "measured")
    assert call("eval", "--baseline", "parrots", "--env", "terse-v0", "--output", out) == 0
    path = tmp_path / "measured" / "manifest.json"
    names, first = ("environment.terse-v0", "baseline.parrots"), "terse-agents 0.1.0"
    assert json.loads(path.read_text())["plugins"] == dict.fromkeys(names, first)
    changed = ["--env-option", "reward=brief", "--env-option", "external_mode=cheerful"]
    other = str(tmp_path / "other")
    command = ["eval", "--baseline", "random", "--env", "probe-turns-v0", *changed]
    assert call(*command, "--output", other) == 0
    manifest = runs.manifest("other")
    assert manifest["plugins"] == dict.fromkeys(("reward.brief", "mode.cheerful"), first)
    capsys.readouterr()
    assert call("list") == 0
    shown = capsys.readouterr().out
    assert "terse_agents:terse (terse-agents 0.1.0)" in shown
    assert "tracker" in shown and "terse_agents:Lines (terse-agents 0.1.0)" in shown
