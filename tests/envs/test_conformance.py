"""Every registered code environment in every mode: our own strict check, and PettingZoo's tests.

The probes have no modes; `test_probes.py` checks them. The writing families have others: see `test_writing.py`.
"""

from __future__ import annotations

import sys
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

from llm_decpomdp import check_env, registry
from tests.envs.conftest import make_known

MODES = ("level_feedback", "level_passed", "passed", "plain", "expert_edits")
CYCLES = 6


OTHERS = ("probe-", "tldr-", "arxiv-")
CODING = [env_id for env_id in registry.registered_ids() if not env_id.startswith(OTHERS)]


SIZES = (1, 2)
SETUPS = [
    (env_id, SIZES[(i + j) % 2], mode)
    for i, env_id in enumerate(CODING)
    for j, mode in enumerate(MODES)
]
"""Every environment in every mode; alone and as a team in turn, so that each mode has been played by both."""
FORMS = [(env_id, size, MODES[i % 5]) for i, env_id in enumerate(CODING) for size in SIZES]
"""Every environment alone and as a team, for what is the same in every mode."""


class QuietExpert:
    """An expert that is never reached over a network and always says the same."""

    def edits(self, task_prompt, completions):
        return dict.fromkeys(completions, "Perfect! No changes needed!")


@pytest.fixture
def build(request, monkeypatch):
    """Builds the environment, as users do."""
    env_id, num_agents, mode = request.param
    monkeypatch.setattr(
        "llm_decpomdp.envs.feedback.code_mode.RemoteExpert", lambda model, base_url: QuietExpert()
    )
    expert = {"expert_model": "an expert"} if mode == "expert_edits" else {}
    return partial(make_known, env_id, num_agents=num_agents, external_mode=mode, **expert)


def aec(build, **kwargs):
    return parallel_to_aec(build(**kwargs))


def each(setups):
    return pytest.mark.parametrize("build", setups, indirect=True, ids=lambda setup: str(setup))


@each(SETUPS)
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"num_turns": 3, "original_prompt": True, "sandbox_slice": -1, "stop_when_solved": False},
    ],
    ids=("defaults", "long"),
)
def test_our_strict_check_passes(build, settings):
    check_env(partial(build, **settings))


@each(FORMS)
@pytest.mark.filterwarnings("ignore::UserWarning")  # of no concern for text: no shapes, no dtypes
def test_the_tests_of_pettingzoo_pass(build):
    parallel_api_test(build(), num_cycles=CYCLES)
    parallel_seed_test(build, num_cycles=CYCLES)  # compares one step; check_env compares episodes
    seed_test(partial(aec, build), num_cycles=CYCLES)
    state_test(aec(build), build(), num_cycles=CYCLES)


@each(FORMS)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_the_sequential_form_passes_the_test_of_pettingzoo(build, monkeypatch):
    # api_test reads the dtype of every observation since PettingZoo 1.25, and a str has none.
    api = sys.modules["pettingzoo.test.api_test"]
    original = api._test_observation_space_compatibility
    monkeypatch.setattr(
        api,
        "_test_observation_space_compatibility",
        lambda space, seen, **more: (
            None if isinstance(seen, str) else original(space, seen, **more)
        ),
    )
    api_test(aec(build), num_cycles=CYCLES)


@each(FORMS)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_every_render_mode_gives_what_it_promises(build):
    render_test(partial(aec, build))


@each(FORMS)
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
