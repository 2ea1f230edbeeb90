"""A correct answer earns full marks in every kind of chat, in all families of code."""

from __future__ import annotations

from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import llm_decpomdp
from llm_decpomdp.envs.source_code.completion import FALLBACKS
from llm_decpomdp.interfaces import Episode
from llm_decpomdp.utils.chat_text import TURN_ENDS
from tests.support.processes import ROOT
from tools.quality.reading import (
    BINDINGS,
    FAMILIES,
    FORMS,
    TASK_FORMS,
    block,
    fill_bodies,
    is_class,
    solve,
)

pytestmark = pytest.mark.filterwarnings("ignore:the Hugging Face hub")


@cache
def environment(family):
    env = llm_decpomdp.make(family, num_turns=1, **FAMILIES[family])
    tasks = env.tasks.tasks
    return env, [
        t for t in tasks[:: max(1, len(tasks) // 8)] if solve(env, t.task_id, FORMS["alone"])
    ]


@pytest.mark.parametrize("family", FAMILIES)
def test_a_reference_is_read_in_every_form(family):
    env, tasks = environment(family)
    for number, (name, form) in enumerate(FORMS.items()):
        task = tasks[number % len(tasks)]
        assert solve(env, task.task_id, form), (name, task.task_id)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_prompt_that_is_quoted_costs_nothing(family):
    env, tasks = environment(family)
    for name, form in TASK_FORMS.items():
        for task in tasks:
            assert solve(env, task.task_id, form(task)), (name, task.task_id)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_function_may_be_bound_in_other_ways(family):
    env, tasks = environment(family)
    for task in [task for task in tasks if not is_class(task)][:2]:
        for name, form in BINDINGS.items():
            assert solve(env, task.task_id, form), (name, task.task_id)


PROSE = st.text("abc XYZ'\"().,:;-*\n", max_size=60)
DRAFTS = st.sampled_from(
    [
        name
        for name in FORMS
        if name.startswith(("quoted", "longer", "draft", "prose", "stub", "each"))
    ]
)
ENDS = st.sampled_from(
    ["", "<|im_end|>\n<|im_start|>user\n", "</s>", "<end_of_turn>\nmodel\n", "<|eot_id|>"]
)
LINE_ENDS = st.sampled_from(["\n", "\r\n"])


@settings(derandomize=True, max_examples=25, deadline=None)
@given(st.sampled_from(sorted(FAMILIES)), st.integers(0, 7), PROSE, DRAFTS, PROSE, ENDS, LINE_ENDS)
def test_fenced_references_are_read_amid_prose(family, index, before, name, behind, end, newline):
    env, tasks = environment(family)
    task = tasks[index % len(tasks)]

    def form(code):
        text = f"<think>{before}</think>{before}\n{FORMS[name](code)}\n{behind}"
        return f"{text.rstrip()}\n\n{block(code)}{end}".replace("\n", newline)

    assert solve(env, task.task_id, form)


# Infos report how answers were read, by agent, and the page of environments lists the names


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
