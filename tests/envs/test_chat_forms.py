"""A correct answer earns full marks in every kind of chat, in all families of code."""

from __future__ import annotations

from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import llm_decpomdp
from tools.quality.reading import (
    BINDINGS,
    FAMILIES,
    FORMS,
    TASK_FORMS,
    block,
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
@pytest.mark.parametrize("name", FORMS)
def test_a_reference_is_read_in_every_form(family, name):
    env, tasks = environment(family)
    for task in tasks[:2]:
        assert solve(env, task.task_id, FORMS[name]), task.task_id


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("name", TASK_FORMS)
def test_a_prompt_that_is_quoted_costs_nothing(family, name):
    env, tasks = environment(family)
    for task in tasks:
        assert solve(env, task.task_id, TASK_FORMS[name](task)), task.task_id


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("name", BINDINGS)
def test_a_function_may_be_bound_in_other_ways(family, name):
    env, tasks = environment(family)
    for task in [task for task in tasks if not is_class(task)][:2]:
        assert solve(env, task.task_id, BINDINGS[name]), task.task_id


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
def test_a_fenced_reference_is_read_amid_reasoning_and_prose(
    family, index, before, name, behind, end, newline
):
    env, tasks = environment(family)
    task = tasks[index % len(tasks)]

    def form(code):
        text = f"<think>{before}</think>{before}\n{FORMS[name](code)}\n{behind}"
        return f"{text.rstrip()}\n\n{block(code)}{end}".replace("\n", newline)

    assert solve(env, task.task_id, form)
