"""Environment ids."""

from __future__ import annotations

import pettingzoo
import pytest

import llm_decpomdp
from llm_decpomdp import registry
from llm_decpomdp.env import DecPOMDPEnv

CODING = "llm_decpomdp.envs.coding:coophumaneval"


@pytest.fixture
def own_registry(monkeypatch):
    """Ids that a test adds are gone after it."""
    monkeypatch.setattr(registry, "_registry", dict(registry._registry))


def test_importing_the_package_registers_the_ids():
    assert {"coophumaneval-v0", "humaneval-v0"} <= set(registry.registered())
    assert registry.registered() == sorted(registry.registered())


def test_make_builds_and_marks_the_environment():
    env = llm_decpomdp.make("coophumaneval-v0", source="bundled", num_turns=3)
    assert isinstance(env, DecPOMDPEnv)
    assert env.num_turns == 3
    assert env.metadata["id"] == "coophumaneval-v0"
    assert env.metadata["kwargs"] == {"source": "bundled", "num_turns": 3}


def test_registered_defaults_apply_and_give_way(own_registry):
    registry.register("three-turns-v0", CODING, num_turns=3, source="bundled")
    assert llm_decpomdp.make("three-turns-v0").num_turns == 3
    env = llm_decpomdp.make("three-turns-v0", num_turns=1)
    assert env.spec_kwargs == {"num_turns": 1, "source": "bundled"}
    assert llm_decpomdp.spec("three-turns-v0").kwargs == {"num_turns": 3, "source": "bundled"}


@pytest.mark.skipif(
    not hasattr(pettingzoo, "make"), reason="PettingZoo has no registry before 1.27"
)
def test_pettingzoo_makes_the_same_environment(own_registry):
    registry.register("five-turns-v0", CODING, num_turns=5)
    env = pettingzoo.make("parallel", "llm_decpomdp/five-turns-v0", source="bundled")
    assert isinstance(env, DecPOMDPEnv)
    assert env.num_turns == 5


def test_an_unknown_id_names_the_nearest():
    for call in (llm_decpomdp.make, llm_decpomdp.spec):
        with pytest.raises(KeyError, match="did you mean 'coophumaneval-v0'"):
            call("coop-humaneval-v0")


def test_an_unknown_argument_names_the_nearest():
    with pytest.raises(
        TypeError, match="coophumaneval-v0: unknown argument 'num_turn'; did you mean"
    ):
        llm_decpomdp.make("coophumaneval-v0", num_turn=1)


@pytest.mark.parametrize("id", ["nover", "Upper-v0", "x-v", "-v0", "a b-v0", "x-v0.1", ""])
def test_ids_of_the_wrong_form_are_refused(own_registry, id):
    with pytest.raises(ValueError, match="id must look like"):
        registry.register(id, CODING)


def test_bad_entries_are_refused(own_registry):
    with pytest.raises(ValueError, match="entry_point must look like"):
        registry.register("new-v0", "just_a_module")
    with pytest.raises(ValueError, match="JSON"):
        registry.register("new-v0", CODING, split=object())
    with pytest.raises(ValueError, match="already registered"):
        registry.register("coophumaneval-v0", "elsewhere:build")
    assert "new-v0" not in registry.registered()


def test_registering_the_same_twice_is_harmless(own_registry):
    before = registry.registered()
    registry.register("coophumaneval-v0", CODING)
    assert registry.registered() == before


def test_pprint_registry_lists_ids_and_entry_points(capsys):
    text = llm_decpomdp.pprint_registry(disable_print=True)
    assert capsys.readouterr().out == ""
    llm_decpomdp.pprint_registry()
    assert capsys.readouterr().out == text + "\n"
    assert "coophumaneval-v0" in text and CODING in text


def test_an_environment_of_pettingzoos_registry_knows_what_it_is() -> None:
    env = pettingzoo.make(
        "parallel", "llm_decpomdp/coophumaneval-v0", num_turns=1, source="bundled"
    )
    assert env.metadata["id"] == "coophumaneval-v0"
    assert env.metadata["kwargs"] == {"num_turns": 1, "source": "bundled"}
