"""One player for all agents: the same as the centralized team, for environments of any class."""

from __future__ import annotations

import gymnasium
import pytest
from gymnasium.utils.env_checker import check_env

from llm_decpomdp import make, merge_agents
from llm_decpomdp.wrappers.centralized import TEAM, join_parts
from tests.foreign_envs import Rendezvous
from tests.wrapper_cases import Paying


@pytest.mark.parametrize("env_id", ["probe-turns-v0", "probe-halves-v0", "probe-relay-v0"])
def test_a_joint_view_is_the_centralised_team(env_id):
    team, view = make(env_id, centralized=True), merge_agents(make(env_id))
    agents = make(env_id).possible_agents
    texts = (join_parts(dict.fromkeys(agents, "a")), "a", join_parts({agents[0]: "b"}))
    for seed in range(50):
        prompts, infos = team.reset(seed=seed)
        assert view.reset(seed=seed) == (prompts[TEAM], infos[TEAM])
        while team.agents:
            text = texts[seed % 3]
            played = team.step({TEAM: text})
            assert view.step(text) == tuple(values[TEAM] for values in played)


def test_a_wrapped_or_foreign_team_has_a_joint_view():
    view = merge_agents(Paying(Rendezvous()))
    prompt, _ = view.reset(seed=0)
    word = prompt.rpartition("Write ")[2].rstrip(".")
    parts = join_parts({"left_0": word, "right_0": word})
    twin = view.fork()
    _, reward, *_, info = view.step(parts)
    assert reward == 1.125 and info["missing_parts"] == 0
    _, reward, *_, info = twin.step(f"<left_0>{word}</left_0>")
    assert reward == 0.625 and (info["missing_parts"], info["untagged"]) == (1, 0)
    check_env(view, skip_render_check=True)


def test_what_is_no_team_has_no_joint_view():
    with pytest.raises(TypeError, match=r"of a pettingzoo.ParallelEnv, got a Env"):
        merge_agents(gymnasium.Env())


def test_players_with_rewards_of_their_own_have_no_joint_view():
    class Rivals(Rendezvous):
        def result(self, actions, found, over):
            prompts, _, *rest = super().result(actions, found, over)
            return prompts, {"left_0": 1.0, "right_0": 0.0}, *rest

    view = merge_agents(Rivals())
    view.reset(seed=0)
    with pytest.raises(ValueError, match=r"one reward for all, got .*'right_0': 0.0"):
        view.step("")
