"""Every environment says what its agents do and what they are paid for."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

import pytest

import llm_decpomdp
from llm_decpomdp.interfaces import Component
from llm_decpomdp.registry import accepts_argument, description, registered_ids, spec
from llm_decpomdp.rendering import describe_reward

GOLD = {
    "humaneval-v0": {"num_agents": 1},
    "coophumaneval-v0": {},
    "coophumaneval-v1": {},
    "mbpp-v0": {"num_agents": 1},
    "classeval-v0": {},
    "bugfix-v0": {},
    "compose-v0": {},
    "build-word-v0": {},
    "build-house-v0": {"size": "small", "num_agents": 4},
    "pooled-v0": {},
    "probe-halves-v0": {"offset": 0.5},
}
"""Environments whose reference earns full marks, and arguments of theirs."""


def make(env_id: str, **options: Any) -> Any:
    """Make an environment with the bundled problems, if it has a source."""
    source = {"source": "bundled"} if accepts_argument(env_id, "source") else {}
    return llm_decpomdp.make(env_id, **source, **options)


@pytest.mark.parametrize("env_id", registered_ids())
def test_every_family_describes_itself(env_id: str) -> None:
    env = make(env_id)
    metadata = json.loads(json.dumps(env.metadata))
    text = metadata["description"]
    assert text == description(env_id)
    assert len(text) > 60 and text.endswith(".") and not re.search(r"\n|  |##", text)
    assert metadata["reward"]["maximum"] >= 1
    components = metadata["reward"]["components"]
    assert tuple(components) == tuple(env.reward.components)
    assert all(of["text"].endswith(".") for of in components.values())


@pytest.mark.parametrize("env_id", GOLD)
def test_the_maximum_is_what_the_reference_earns(env_id: str) -> None:
    env = make(env_id, **GOLD[env_id])
    env.reset(seed=7)
    gold = llm_decpomdp.answers(env)
    _, rewards, *_ = env.step({agent: gold.reference(agent) for agent in env.agents})
    assert set(rewards.values()) == {env.metadata["reward"]["maximum"]}


def test_the_agents_of_a_family_are_named() -> None:
    # Other tests may have registered environments of other packages in this process.
    ids = [i for i in registered_ids() if spec(i).entry_point.startswith("llm_decpomdp.")]
    for env_id in ids:
        if not env_id.startswith("probe"):
            first = llm_decpomdp.make(env_id).possible_agents[0]
            assert f"`{first}`" in description(env_id)


@dataclass
class Bare:
    """A reward that says no more than the names of its components."""

    components: Any = ("rhyme", "metre")


def test_a_reward_may_say_nothing() -> None:
    nothing = {"text": "", "form": False}
    bare = {"maximum": None, "components": {"rhyme": nothing, "metre": nothing}}
    assert describe_reward(Bare()) == bare
    said = Bare({"rhyme": Component("If it rhymes.", form=True)})
    assert describe_reward(said)["components"] == {"rhyme": {"text": "If it rhymes.", "form": True}}
