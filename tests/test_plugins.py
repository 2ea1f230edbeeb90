"""Names that installed packages announce, and paths of objects, stand for what is in their modules."""

from __future__ import annotations

import subprocess
import sys

import pytest

import llm_decpomdp
from llm_decpomdp import check_env, make, registry
from llm_decpomdp.algorithms import ALGORITHMS
from llm_decpomdp.envs.bugfix.feedback import REPAIR_FEEDBACK as REPAIR
from llm_decpomdp.envs.classeval.feedback import CLASS_FEEDBACK as CLASS
from llm_decpomdp.envs.coding.feedback import FEEDBACK as CODE
from llm_decpomdp.envs.compose.feedback import FEEDBACK as COMPOSE
from llm_decpomdp.envs.feedback.code_mode import EXPERT
from llm_decpomdp.envs.writing.feedback import SIGNALS
from llm_decpomdp.interfaces import MODES
from llm_decpomdp.plugins import entry_point_plugins, find, plugin_origin, plugins
from tests.support.packages import looked_up_anew, write_example, write_package


@pytest.fixture
def site(tmp_path, monkeypatch):
    """A folder of packages, where Python looks."""
    folder = tmp_path / "site"
    folder.mkdir()
    with looked_up_anew(folder, monkeypatch):
        yield folder


@pytest.fixture
def example(site):
    write_example(site)
    return site


def test_a_package_announces_one_thing_of_each_kind(example):
    assert [(plugin.kind, plugin.name) for plugin in plugins()] == [
        ("environment", "terse-v0"),
        ("algorithm", "mamedian"),
        ("policy", "parrot"),
        ("reward", "brief"),
        ("mode", "cheerful"),
        ("tracker", "lines"),
        ("baseline", "parrots"),
    ]
    assert {plugin.origin for plugin in plugins()} == {"terse-agents 0.1.0"}
    assert plugin_origin("policy", "parrot") == "terse-agents 0.1.0"
    assert plugin_origin("policy", "terse_agents:Parrot") is None


def test_looking_names_up_imports_nothing(example):
    assert "terse-v0" in registry.registered_ids() and entry_point_plugins("algorithm")
    assert "terse_agents" not in sys.modules


@pytest.mark.filterwarnings("ignore:Overriding environment")
def test_an_announced_environment_is_made_by_its_id(example):
    env = make("terse-v0")
    assert env.metadata["id"] == "terse-v0" and "few characters" in env.description
    check_env("terse-v0")


def test_an_announced_algorithm_is_looked_up_by_its_name(example):
    assert ALGORITHMS["mamedian"].name == "mamedian"
    text = r"did you mean 'mamedian'.* One of your own is 'module:NAME'"
    with pytest.raises(KeyError, match=text):
        ALGORITHMS["mamedia"]


@pytest.mark.parametrize(
    "names", [("brief", "cheerful"), ("terse_agents:Brief", "terse_agents:Cheerful")]
)
def test_reward_and_mode_of_an_environment_are_replaced(example, names):
    reward, mode = names
    env = make("probe-turns-v0", reward=reward, external_mode=mode)
    env.reset(seed=0)
    prompts, rewards, _, _, infos = env.step({"player_0": "abc", "player_1": ""})
    assert infos["player_0"]["reward/length"] == -0.03
    assert rewards["player_0"] == pytest.approx(
        sum(v for k, v in infos["player_0"].items() if "/" in k)
    )
    assert all(prompt.endswith("You can do it.") for prompt in prompts.values())
    assert env.spec_kwargs == {"reward": reward, "external_mode": mode}
    twin = make(env.spec_id, **env.spec_kwargs)
    assert twin.metadata == env.metadata and "length" in env.metadata["reward"]["components"]


def test_a_centralised_team_has_the_other_reward_too(example):
    env = make("probe-turns-v0", reward="brief", centralized=True)
    env.reset(seed=0)
    infos = env.step({"team_0": "<player_0>ab</player_0><player_1>c</player_1>"})[4]
    assert infos["team_0"]["reward/length"] == -0.03


NUMBER = "import llm_decpomdp\nNUMBER = 3\ndef three(part): return 3\n"


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"reward": "breif"}, KeyError, "unknown reward 'breif'; did you mean 'brief'"),
        ({"reward": "mine:NUMBER"}, KeyError, "has no reward 'NUMBER': define a function"),
        ({"reward": "mine:three"}, TypeError, "a int, which is no reward: it lacks"),
        ({"external_mode": "mine:three"}, TypeError, "no mode: it lacks info_keys, first"),
        ({"external_mode": "absent_mine:x"}, ImportError, "there is no module 'absent_mine'"),
    ],
)
def test_what_is_no_part_is_refused(example, monkeypatch, arguments, error, text):
    monkeypatch.setitem(sys.modules, "mine", sys)  # so that the end of the test removes the module
    monkeypatch.delitem(sys.modules, "mine")
    (example / "mine.py").write_text(NUMBER)
    with pytest.raises(error, match=text):
        make("probe-turns-v0", **arguments)


def test_errors_name_the_package(site):
    names = {
        "environment.broken-v0": "broken_one:make",
        "algorithm.gone": "broken_one.learning:GONE",
    }
    names["algorithm.empty"] = "llm_decpomdp.plugins:KINDS"
    write_package(site, "broken-one", names)
    package = "of the package broken-one 0.1.0:"
    with pytest.raises(ImportError, match=f"environment 'broken-v0' {package} No module"):
        make("broken-v0")
    with pytest.raises(ImportError, match=f"algorithm 'gone' {package} .*no module"):
        ALGORITHMS["gone"]
    with pytest.raises(KeyError, match=f"{package} llm_decpomdp.plugins has no algorithm"):
        ALGORITHMS["empty"]


def test_a_name_of_two_packages_is_refused_and_its_paths_are_told(site):
    for name in ("first-one", "second-one"):
        write_package(site, name, {"policy.same": f"{name.replace('-', '_')}:Same"})
    text = r"by first-one 0\.1\.0 \(first_one:Same\) and second-one .*: name one by its path"
    with pytest.raises(KeyError, match=text):
        find("policy", "same")


def test_entry_points_of_another_form_are_left_out_and_named(site):
    names = {"algorithms.x": "a:B", "policy.y": "only_a_module", "policy.z": "a:B"}
    write_package(site, "odd-one", names)
    text = "the package odd-one announces .* a kind one of environment"
    with pytest.warns(UserWarning, match=text):
        assert [plugin.name for plugin in plugins()] == ["z"]


def test_an_id_that_is_taken_stays_what_it_was_and_is_meant_where_its_module_is_named(site):
    write_package(site, "greedy-one", {"environment.probe-turns-v0": "greedy:make"})
    (site / "greedy.py").write_text("")
    assert llm_decpomdp.spec("greedy:probe-turns-v0").entry_point == "greedy:make"
    text = r"of the package greedy-one 0\.1\.0 is left out: .* already"
    with pytest.warns(UserWarning, match=text):
        assert "probe-turns-v0" in registry.registered_ids()
    assert llm_decpomdp.spec("probe-turns-v0").entry_point.startswith("llm_decpomdp.")


@pytest.mark.filterwarnings("ignore:an environment of the package")
def test_an_id_of_two_packages_is_refused_and_module_and_id_say_which_one_is_meant(site):
    for name in ("aaa", "zzz"):
        write_package(site, name, {"environment.same-v0": f"{name}_m:build"})
        (site / f"{name}_m.py").write_text(f"{name} = True\ndef build(): ...\n")
    assert "same-v0" not in registry.registered_ids()
    text = r"by aaa 0\.1\.0 \(aaa_m:same-v0\) and zzz 0\.1\.0 \(zzz_m:same-v0\): name one"
    with pytest.raises(KeyError, match=text):
        make("same-v0")
    for name in ("aaa", "zzz"):
        entry = llm_decpomdp.spec(f"{name}_m:same-v0")
        assert (entry.id, entry.entry_point) == ("same-v0", f"{name}_m:build")
    with pytest.raises(KeyError, match="announced by aaa"):
        llm_decpomdp.spec("llm_decpomdp.seeding:same-v0")


def test_a_mode_of_this_library_stays_what_it_was(site):
    write_package(site, "greedy-one", {f"mode.{mode}": "terse_agents:Cheerful" for mode in MODES})
    modes = ("level_passed", "passed", "plain", "level_feedback")
    for id in ("coophumaneval-v0", "tldr-v1"):
        envs = [make(id, source="bundled", external_mode=mode) for mode in modes]
        assert [env.mode.name for env in envs] == list(modes)
    assert make("classeval-v0", source="bundled").mode.name == "code_feedback"


def test_all_modes_of_this_library_are_known():
    names = {*REPAIR, *CLASS, *CODE, *COMPOSE, *SIGNALS, EXPERT}
    assert names == set(MODES) and len(MODES) == len(names)


def test_nothing_is_looked_up_where_all_names_are_of_this_package():
    code = (
        "import llm_decpomdp, llm_decpomdp.plugins as p; llm_decpomdp.make('probe-turns-v0');"
        "llm_decpomdp.make('coophumaneval-v0', source='bundled', external_mode='passed');"
        "assert p.plugins.cache_info().misses == 0"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
