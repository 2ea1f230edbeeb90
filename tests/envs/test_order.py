"""Every registered family with an order: our own strict check, and PettingZoo's tests of both of its APIs."""

from __future__ import annotations

from functools import partial

import pytest
from pettingzoo.test import api_test, parallel_api_test, parallel_seed_test, seed_test

from llm_decpomdp import aec, check_env, make
from llm_decpomdp.registry import registered_ids
from llm_decpomdp.testing.rules import ConformanceError
from llm_decpomdp.wrappers.turn_order import TurnOrderEnv

CYCLES = 4


def ordered(env_id):
    """Build a family whose agents act one after the other."""
    if env_id.startswith("probe-"):
        return make(env_id, order=make(env_id).possible_agents)
    size = max(2, len(make(env_id).possible_agents))
    agents = make(env_id, source="bundled", num_agents=size).possible_agents
    return make(env_id, source="bundled", num_agents=size, order=agents)


FAMILIES = [env_id for env_id in registered_ids() if not make(env_id).turn_based]

QUICK = ("probe-", "coophumaneval-", "compose-", "tldr-")


@pytest.fixture(
    params=[
        pytest.param(name, marks=() if name.startswith(QUICK) else pytest.mark.slow)
        for name in FAMILIES
    ]
)
def build(request):
    return partial(ordered, request.param)


def test_our_check_passes(build):
    env = build()
    assert isinstance(env, TurnOrderEnv) and len(env.order) == len(env.possible_agents) > 1
    check_env(build)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_the_tests_of_pettingzoo_pass(build, texts_have_no_dtype):
    parallel_api_test(build(), num_cycles=CYCLES)
    parallel_seed_test(build, num_cycles=CYCLES)
    api_test(aec(build()), num_cycles=CYCLES)
    seed_test(lambda: aec(build()), num_cycles=CYCLES)


class Leaky(TurnOrderEnv):
    """Shows the first agent the last answer of the second, which only later agents may read."""

    def _prompt(self, agent):
        turns = self.unwrapped.episode.turns
        last = turns[-1].completions[self.order[-1][0]] if turns else ""
        return super()._prompt(agent) + last * (agent == self.order[0][0])


@pytest.mark.parametrize("env_id", ["coophumaneval-v0", "probe-turns-v0"])
def test_the_audit_accepts_declared_readers_and_reports_others(env_id):
    env = ordered(env_id)
    order, second = [*env.possible_agents], env.possible_agents[1]
    check_env(lambda: TurnOrderEnv(ordered(env_id).env, order))
    with pytest.raises(ConformanceError, match=f"nothing of the completion of '{second}'"):
        check_env(lambda: Leaky(ordered(env_id).env, order))
