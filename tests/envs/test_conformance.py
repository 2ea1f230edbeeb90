"""Every registered family of texts in every mode: our own strict check, and PettingZoo's tests.

`test_probes.py` checks the probes, which have no modes, and families with a known optimum have tests of their own.
"""

from __future__ import annotations

import inspect
import json
import os
import pydoc
from functools import partial

import pytest
from pettingzoo.test import (
    api_test,
    parallel_api_test,
    parallel_seed_test,
    render_test,
    seed_test,
    state_test,
)
from pettingzoo.utils import parallel_to_aec

import llm_decpomdp
from llm_decpomdp import check_env
from llm_decpomdp.envs.bugfix.env import BugOptions, FixOptions, bugfix, humanevalfix
from llm_decpomdp.envs.classeval.env import ClassOptions, classeval
from llm_decpomdp.envs.coding.env import CodingOptions, coding_env
from llm_decpomdp.envs.datasets.humaneval import HUMANEVAL
from llm_decpomdp.envs.feedback.code_mode import CodeOptions
from llm_decpomdp.registry import accepts_argument, registered_ids
from tests.support.processes import python

CYCLES = 6
SIZES = (1, 2)

CODE_MODES = ("level_feedback", "level_passed", "passed", "plain", "expert_edits")
WRITING = [env_id for env_id in registered_ids() if env_id.startswith(("tldr-", "arxiv-"))]
CODING = [
    env_id
    for env_id in registered_ids()
    if accepts_argument(env_id, "external_mode") and env_id not in WRITING
]
WORLDS = {
    env_id: 3 if env_id.startswith("pooled-") else 2
    for env_id in registered_ids()
    if env_id.startswith(("build-", "gather-", "pooled-"))
}
"""Generated worlds, which have no modes, and a number of agents that each allows."""

LONG = {"num_turns": 3, "stop_when_solved": False}
ALL_TESTS = {"original_prompt": True, "sandbox_slice": -1}

SETUPS = [
    (env_id, SIZES[(i + j) % 2], mode, ({}, {**LONG, **ALL_TESTS})[(i + j // 2) % 2])
    for i, env_id in enumerate(CODING)
    for j, mode in enumerate(CODE_MODES)
]
"""Every environment of code in every mode: alone or as a team and for one turn or several, in turn."""
TEAM_OF_THREE = {"classeval-v0": {"original_prompt": True}, "mbpp-v0": {}, "bugfix-v0": {}}
TEAM_OF_THREE["coophumaneval-v0"] = {"roles": {"aux_1": {"name": "tester_0"}}}
SETUPS += [(env_id, 3, "level_feedback", more) for env_id, more in TEAM_OF_THREE.items()]
SETUPS += [(env_id, size, None, {}) for env_id in WRITING if "v0" in env_id for size in SIZES]
SETUPS += [
    (env_id, size, mode, LONG)
    for env_id in WRITING
    if "v1" in env_id
    for size in SIZES
    for mode in CODE_MODES[:-1]
]
SETUPS += [(*world, None, {}) for world in WORLDS.items()]
# The default map of gather-v0 needs four turns.
SETUPS += [(*w, None, {**LONG, "size": 5} if "gather" in w[0] else LONG) for w in WORLDS.items()]
FORMS = [(e, size, CODE_MODES[i % 5], {}) for i, e in enumerate(CODING) for size in SIZES]
FORMS += [*((env_id, 2, None, {}) for env_id in WRITING), *((*w, None, {}) for w in WORLDS.items())]
"""Every environment, alone and as a team, for rules that do not depend on the mode."""


@pytest.fixture
def build(request, expert):
    """Builds the environment, as users do."""
    env_id, num_agents, mode, settings = request.param
    modes = {} if mode is None else {"external_mode": mode}
    model = {"expert_model": "an expert"} if mode == "expert_edits" else {}
    fixed = {"source": "bundled", "num_agents": num_agents, **modes, **model, **settings}
    return partial(llm_decpomdp.make, env_id, **fixed)


def aec(build, **kwargs):
    return parallel_to_aec(build(**kwargs))


def each(setups):
    return pytest.mark.parametrize("build", setups, indirect=True, ids=lambda setup: str(setup))


@each(SETUPS)
def test_our_strict_check_passes(build):
    check_env(build)


@each(FORMS)
@pytest.mark.filterwarnings("ignore::UserWarning")  # of no concern for text: no shapes, no dtypes
def test_the_tests_of_pettingzoo_pass(build):
    parallel_api_test(build(), num_cycles=CYCLES)
    parallel_seed_test(build, num_cycles=CYCLES)  # compares one step; check_env compares episodes
    seed_test(partial(aec, build), num_cycles=CYCLES)
    state_test(aec(build), build(), num_cycles=CYCLES)


@each(FORMS)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_the_sequential_form_passes_the_test_of_pettingzoo(build, texts_have_no_dtype):
    api_test(aec(build), num_cycles=CYCLES)


@each(FORMS)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_every_render_mode_gives_what_it_promises(build):
    render_test(partial(aec, build))


@each([form for form in FORMS if not form[0].endswith(("tldr-v0", "arxiv-v0", "gather-v0"))])
@pytest.mark.parametrize("num_turns", [1, 4])
def test_the_horizon_is_the_argument_and_a_foreign_attribute_cannot_move_it(build, num_turns):
    env = build(num_turns=num_turns)
    env.max_cycles = 1000  # as parallel_api_test does
    env.reset(seed=0)
    turns = 0
    while env.agents:
        env.step(dict.fromkeys(env.agents, "no code"))
        turns += 1
    assert turns == num_turns


# Options of environments: what is declared once is an argument of `make`, with default and documentation


FAMILIES = [
    (coding_env, CodingOptions),
    (classeval, ClassOptions),
    (bugfix, BugOptions),
    (humanevalfix, FixOptions),
]


@pytest.mark.parametrize(("family", "kind"), FAMILIES)
def test_help_shows_every_option_with_its_type_default_and_text(family, kind) -> None:
    page = pydoc.plain(pydoc.render_doc(family))
    for name, field in kind.__dataclass_fields__.items():
        assert f"{name}: {field.type!r} = {field.default!r}" in page, name
        (text,) = (
            line for line in page.splitlines() if line.split("=")[0].strip().startswith(f"{name}: ")
        )
        assert len(text.split()) > 1, name
    options = [line for line in page.partition("Options:\n")[2].splitlines() if ": " in line]
    documented = {line.split(":")[0].strip(" |") for line in options}
    assert set(kind.__dataclass_fields__) <= documented


@pytest.mark.parametrize(("family", "kind"), FAMILIES)
def test_an_option_is_a_keyword_and_nothing_else(family, kind) -> None:
    parameters = inspect.signature(family).parameters.values()
    keywords = {p.name: p.default for p in parameters if p.kind is p.KEYWORD_ONLY}
    assert keywords == vars(kind())
    assert "options" not in inspect.signature(family).parameters


def test_a_family_is_called_as_a_function_with_keywords() -> None:
    env = coding_env(HUMANEVAL, "mine", num_turns=3, source="bundled")
    assert env.num_turns == 3 and env.name == "mine"
    with pytest.raises(TypeError, match="num_turn"):
        coding_env(HUMANEVAL, "mine", num_turn=3)
    with pytest.raises(TypeError, match="positional"):
        coding_env(HUMANEVAL, "mine", 3)


@pytest.mark.parametrize("flag", ["exception_text", "exclude_known_issues", "stop_when_solved"])
def test_every_flag_is_true_or_false(flag: str) -> None:
    with pytest.raises(ValueError, match=f"{flag} must be true or false, got 'no'"):
        CodeOptions(**{flag: "no"})
    with pytest.raises(ValueError, match="allow_forgeable must be true or false, got 1"):
        llm_decpomdp.make("classeval-v0", allow_forgeable=1)


# Other libraries offer the public methods of an environment to the model as tools: none tells answers


METHODS = {
    "action_space",
    "close",
    "fork",
    "observation_space",
    "render",
    "reset",
    "restore",
    "snapshot",
    "state",
    "step",
}
"""All public methods of an environment; another one belongs here only if no answer can come out of it."""

FAMILIES_WITH_REFERENCES = (
    "coophumaneval-v0",
    "mbpp-v0",
    "classeval-v0",
    "bugfix-v0",
    "compose-v0",
    "build-word-v0",
    "build-house-v0",
)


def told(env) -> list[str]:
    """All that the methods that give texts tell about the current state."""
    return [env.state(), env.render(), json.dumps(env.snapshot()), str(env), repr(env.fork())]


@pytest.mark.parametrize("id", registered_ids())
def test_the_public_methods_of_an_environment_are_these(id):
    found = inspect.getmembers(type(llm_decpomdp.make(id)), inspect.isroutine)
    assert {name for name, _ in found if not name.startswith("_")} == METHODS


@pytest.mark.parametrize("id", FAMILIES_WITH_REFERENCES)
def test_no_public_method_tells_a_reference(id):
    env = llm_decpomdp.make(id, source="bundled", num_turns=2, render_mode="ansi")
    observations, _ = env.reset(seed=0)
    references = [text.strip() for text in llm_decpomdp.answers(env).references.values()]
    assert references and all(len(text) > 10 for text in references)
    texts = [*told(env), *observations.values()]
    observations, *_ = env.step(dict.fromkeys(env.agents, "I do not know."))
    texts += [*told(env), *observations.values()]
    for reference in references:
        for text in texts:
            assert reference not in text and json.dumps(reference)[1:-1] not in text


@pytest.mark.parametrize("id", [id for id in FAMILIES_WITH_REFERENCES if id not in WORLDS])
def test_no_public_method_tells_a_secret_before_it_was_judged_by(id):
    """Afterwards the global state holds the verdict, with the tests that failed: it is for a central critic."""
    env = llm_decpomdp.make(id, source="bundled", render_mode="ansi")
    env.reset(seed=0)
    secrets = [text for text in llm_decpomdp.answers(env).secrets if text.strip()]
    assert secrets
    for secret in secrets:
        for text in told(env):
            assert secret not in text and json.dumps(secret)[1:-1] not in text


# Environments stay light: heavy libraries load only when they are needed


PROGRAM = """
import sys
import llm_decpomdp
llm_decpomdp.make("coophumaneval-v0")
env = llm_decpomdp.make("humaneval-v0")
env.reset(seed=0)
env.step({agent: "def f(): pass" for agent in env.agents})
heavy = {"torch", "transformers", "peft", "datasets", "pyarrow", "openai", "anthropic"}
print(sorted(heavy & set(sys.modules)))
"""


def test_playing_an_episode_loads_no_heavy_library():
    process = python("-c", PROGRAM, env={**os.environ, "HF_HUB_OFFLINE": "1"}, timeout=120)
    assert process.stdout.strip() == "[]"
