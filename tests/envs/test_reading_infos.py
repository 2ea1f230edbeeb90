"""Infos report how answers were read, by agent, and the page of environments lists the names."""

from __future__ import annotations

import pytest

import llm_decpomdp
from llm_decpomdp.envs.source_code.completion import FALLBACKS
from llm_decpomdp.envs.source_code.extraction import TURN_ENDS
from llm_decpomdp.interfaces import Episode
from tests.support.processes import ROOT
from tools.quality.reading import FAMILIES, block, fill_bodies

pytestmark = pytest.mark.filterwarnings("ignore:the Hugging Face hub")


def readings(info):
    return {key: value for key, value in info.items() if key.startswith("reading/")}


@pytest.mark.parametrize("family", FAMILIES)
def test_infos_say_of_each_agent_how_its_answer_was_read(family):
    env = llm_decpomdp.make(family, num_turns=2, **FAMILIES[family])
    _, infos = env.reset(seed=1)
    keys = {f"reading/{agent}/{name}" for agent in env.possible_agents for name in FALLBACKS}
    for info in infos.values():
        assert readings(info) == dict.fromkeys(keys, 0)
    last = env.possible_agents[-1]
    code = llm_decpomdp.answers(env).reference(last)
    draft = fill_bodies(code, "return None")
    text = f"<think>Hm.</think>\ufeff{block(draft)}\n{block(code)}<|im_end|>\n"
    *_, infos = env.step({**dict.fromkeys(env.agents, ""), last: text})
    for info in infos.values():
        found = readings(info)
        assert set(found) == keys
        assert {key for key, value in found.items() if value} == {
            f"reading/{last}/{name}"
            for name in ("reasoning", "after_turn", "invisible", "fences", "drafts")
        }
        assert found[f"reading/{last}/reasoning"] == len("<think>Hm.</think>")
        assert found[f"reading/{last}/fences"] == 2


def test_episodes_that_were_stored_without_the_numbers_are_read():
    env = llm_decpomdp.make("compose-v0", num_turns=2)
    env.reset(seed=1)
    env.step(dict.fromkeys(env.agents, ""))
    snapshot = env.snapshot()
    for turn in snapshot["episode"]["turns"]:
        details = turn["verdict"]["details"]
        for key in [key for key in details if key.startswith("reading/")]:
            del details[key]
    Episode.from_json(snapshot["episode"])
    env.restore(snapshot)
    *_, infos = env.step(dict.fromkeys(env.agents, ""))
    assert set(readings(infos["main_0"]).values()) == {0}


def test_the_page_lists_the_names_and_the_markers():
    page = (ROOT / "docs/environments.md").read_text(encoding="utf-8")
    for name in FALLBACKS:
        assert f"| `{name}` |" in page
    for family, markers in TURN_ENDS.items():
        assert f"`{markers[0]}`" in page, family
