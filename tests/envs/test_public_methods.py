"""Other libraries offer the public methods of an environment to the model as tools: none tells answers."""

from __future__ import annotations

import inspect
import json

import pytest

import llm_decpomdp
from llm_decpomdp.registry import registered_ids

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

FAMILIES = ("coophumaneval-v0", "mbpp-v0", "classeval-v0", "bugfix-v0", "compose-v0")


def told(env) -> list[str]:
    """All that the methods that give texts tell about the current state."""
    return [env.state(), env.render(), json.dumps(env.snapshot()), str(env), repr(env.fork())]


@pytest.mark.parametrize("id", registered_ids())
def test_the_public_methods_of_an_environment_are_these(id):
    found = inspect.getmembers(type(llm_decpomdp.make(id)), inspect.isroutine)
    assert {name for name, _ in found if not name.startswith("_")} == METHODS


@pytest.mark.parametrize("id", FAMILIES)
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


@pytest.mark.parametrize("id", FAMILIES)
def test_no_public_method_tells_a_secret_before_it_was_judged_by(id):
    """Afterwards the global state holds the verdict, with the tests that failed: it is for a central critic."""
    env = llm_decpomdp.make(id, source="bundled", render_mode="ansi")
    env.reset(seed=0)
    secrets = [text for text in llm_decpomdp.answers(env).secrets if text.strip()]
    assert secrets
    for secret in secrets:
        for text in told(env):
            assert secret not in text and json.dumps(secret)[1:-1] not in text
