"""The probes of team topologies are proper environments, and have the values that they claim."""

from __future__ import annotations

import json

import pytest

from llm_decpomdp import check_env, make
from llm_decpomdp.agents.scripted import Constant
from llm_decpomdp.algorithms.rollouts.play import play_episodes
from llm_decpomdp.algorithms.rollouts.rollout import Start
from llm_decpomdp.algorithms.training.metrics import episode_row
from llm_decpomdp.benchmarks.evaluation.play import read_rollout
from llm_decpomdp.envs.probes.known import TOPOLOGY_PROBES
from llm_decpomdp.envs.probes.parts import probe_env
from llm_decpomdp.envs.probes.topology import EarlyExit
from llm_decpomdp.envs.worlds.game import GameMode

LETTERS = "abc"
COPY = {letter: letter for letter in LETTERS}
BEST = {
    "probe-relay-turns-v0": [COPY, COPY],
    "probe-early-exit-v0": [COPY, COPY],
    "probe-late-entry-v0": [COPY, COPY],
    "probe-verifier-v0": [{"ab": "a"}, {"aa": "a", "ab": "b"}],
}
"""What each agent says to each prompt in a team that earns the optimum; nothing to any other prompt."""


def episodes(probe, answer):
    """Play all tasks; yield the rewards of each episode, and the agents that acted in each turn."""
    env = make(probe)
    for task in env.tasks.tasks:
        prompts, _ = env.reset(options={"task_id": task.task_id})
        rewards, acted = [], []
        while env.agents:
            acted.append(env.acting)
            actions = {a: answer(env, a, prompts[a]) for a in env.acting}
            prompts, earned, *_ = env.step(actions)
            rewards.append(set(earned.values()))
        assert all(len(values) == 1 for values in rewards)
        yield sum(values.pop() for values in rewards), acted


@pytest.mark.parametrize("probe", TOPOLOGY_PROBES)
def test_a_probe_keeps_the_contract(probe):
    check_env(probe)


@pytest.mark.parametrize("probe", BEST)
def test_the_best_team_earns_the_optimum(probe):
    best = BEST[probe]
    found = [
        value
        for value, _ in episodes(
            probe, lambda env, agent, prompt: best[int(agent[-1])].get(prompt, "")
        )
    ]
    assert found == [TOPOLOGY_PROBES[probe].optimum] * len(found)


@pytest.mark.parametrize("probe", [p for p in TOPOLOGY_PROBES if p != "probe-verifier-v0"])
def test_a_constant_last_answer_is_worth_nothing_on_average(probe):
    for letter in LETTERS:
        values = [value for value, _ in episodes(probe, lambda env, agent, prompt: letter)]  # noqa: B023
        assert sum(values) == pytest.approx(0.0)


def test_memory_needs_the_first_prompt():
    seen = {}

    def answer(env, agent, prompt):
        return seen.setdefault((env.episode.task_id, agent), prompt)

    assert [value for value, _ in episodes("probe-memory-v0", answer)] == [1.0] * 3


@pytest.mark.parametrize(
    ("probe", "turns"),
    [
        ("probe-relay-turns-v0", [("player_0",), ("player_1",)]),
        ("probe-early-exit-v0", [("player_0", "player_1"), ("player_1",), ("player_1",)]),
        ("probe-late-entry-v0", [("player_0",), ("player_0", "player_1")]),
        ("probe-verifier-v0", 4 * [("player_0",), ("player_1",)]),
    ],
)
def test_the_right_agents_act(probe, turns):
    assert all(acted == turns for _, acted in episodes(probe, lambda env, agent, prompt: ""))


def test_an_agent_that_left_is_done_and_the_other_goes_on():
    env = make("probe-early-exit-v0")
    env.reset(seed=0)
    _, rewards, ends, _, _ = env.step({"player_0": "a", "player_1": ""})
    assert ends == {"player_0": True, "player_1": False} and env.agents == ["player_1"]
    assert rewards == {"player_0": 0.0, "player_1": 0.0}
    with pytest.raises(KeyError, match="player_0"):
        env.step({"player_0": "a", "player_1": ""})


def test_an_agent_that_joins_gets_its_first_prompt_and_no_flag():
    env = make("probe-late-entry-v0")
    prompts, infos = env.reset(options={"task_id": "late-entry/a"})
    assert set(prompts) == set(infos) == {"player_0"}
    prompts, rewards, ends, cuts, infos = env.step({"player_0": "a"})
    assert prompts == {"player_0": "a", "player_1": "a"} and set(infos) == {"player_0", "player_1"}
    assert not any({**ends, **cuts}.values()) and len(rewards) == 2


def test_own_points_are_in_the_infos_of_their_agent_and_no_part_of_the_reward():
    env = make("probe-verifier-v0")
    env.reset(options={"task_id": "verifier/aaaa"})
    env.step({"player_0": "a"})
    _, rewards, _, _, infos = env.step({"player_1": "a"})
    assert set(rewards.values()) == {0.0}
    own = {agent: info["own/judgement"] for agent, info in infos.items()}
    assert own == {"player_0": 0.0, "player_1": pytest.approx(1 / 4)}
    twin = make("probe-verifier-v0")
    twin.restore(env.snapshot())
    assert twin.episode == env.episode and twin.episode.turns[-1].verdict.own


class LeavingMode(GameMode):
    """A mode that names who is there, and not who acts."""

    def present(self, task, turns):
        return self.game.members(task, turns)


def test_agents_that_leave_do_not_need_turns():
    game, probe = EarlyExit(), make("probe-early-exit-v0")

    def build():
        turns = {"mode": LeavingMode(game), "num_turns": 3, "stop_when_solved": False}
        return probe_env("leaving", probe.tasks.tasks, game, **turns)

    check_env(build)
    env = build()
    prompts, infos = env.reset(options={"task_id": "early-exit/b"})
    assert not env.turn_based and "acting" not in infos["player_0"]
    prompts, _, ends, *_ = env.step(prompts)
    assert ends["player_0"] and env.acting == ("player_1",)
    prompts, *_ = env.step({"player_1": ""})
    assert prompts == {"player_1": "b"}
    _, rewards, *_ = env.step({"player_1": "b"})
    assert rewards == {"player_1": 1.0} and not env.agents


def test_stored_episodes_keep_own_points():
    env = make("probe-verifier-v0")
    team = {agent: Constant("a") for agent in env.possible_agents}
    (rollout,) = play_episodes(env, team, [Start(task_id="verifier/abab")])
    row = json.loads(json.dumps(episode_row(rollout, 1, "eval")))
    read = [group.own for group in read_rollout(row).groups]
    assert read == [group.own for group in rollout.groups]
    assert [own["player_1"] for own in read[1::2]] == [(0.25,), (0.0,)] * 2
