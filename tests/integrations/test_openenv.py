"""OpenEnv's own clients play teams and seats; `make openenv` runs this where OpenEnv is installed."""

from __future__ import annotations

import pickle
import socket
from typing import Any

import numpy as np
import pytest

import llm_decpomdp
from llm_decpomdp import answers, check_env, from_single_agent, make, single_agent_view
from llm_decpomdp.agents import Constant, RandomText
from llm_decpomdp.integrations import openenv as adapter
from tests.foreign_envs import Rendezvous

openenv = pytest.importorskip("openenv.core")
ConnectionClosed = pytest.importorskip("websockets.exceptions").ConnectionClosed

from tests.support.openenv import CODE, SEAT, served, session, when_free  # needs OpenEnv

pytestmark = pytest.mark.slow


def test_a_client_of_openenv_plays_the_team_as_it_is_played_here() -> None:
    local = make("coophumaneval-v0", **CODE)
    with served("coophumaneval-v0", **CODE) as address, session(address) as env:
        for seed in range(20):
            assert env.reset(seed=seed).observation["prompts"] == local.reset(seed=seed)[0]
        gold = answers(local)
        written = {agent: gold.reference(agent) for agent in local.possible_agents}
        last = env.step({"actions": written})
        assert (last.reward, last.done) == (4.0, True)
        assert last.observation["infos"] == local.step(written)[4]
        task = local.tasks.tasks[3].task_id
        prompts, _ = local.reset(options={"task_id": task})
        assert env.reset(task_id=task).observation["prompts"] == prompts
        with pytest.raises(RuntimeError, match="no action for agent 'main_0'"):
            env.step({"actions": {"aux_0": "x"}})
        assert env.step({"actions": dict.fromkeys(written, "x")}).observation["prompts"]["main_0"]


def test_a_client_of_openenv_plays_one_seat_and_sees_no_more() -> None:
    partners = {"player_1": RandomText()}
    local = single_agent_view(make("probe-turns-v0"), "player_0", partners)
    options = {"seat": "player_0", "partners": partners}
    with served("probe-turns-v0", **options) as address, session(address) as env:
        first = env.reset(seed=7)
        assert (first.observation["prompt"], first.metadata) == local.reset(seed=7)
        after = env.step({"message": "a"})
        assert (after.observation["prompt"], after.reward) == local.step("a")[:2]
        assert set(env.state()) <= {"episode_id", "step_count"}
        assert set(after.observation) - {"metadata", "reward", "done"} == {"prompt", "truncated"}


class Telling(Rendezvous):
    """Tells each agent a number of its own."""

    def reset(self, seed: int | None = None, options: Any = None) -> Any:
        return super().reset(seed=seed, options=options)[0], {"left_0": {"n": 1}, "right_0": {}}


llm_decpomdp.register("telling-v0", f"{__name__}:Telling")


def test_each_agent_has_its_own_infos() -> None:
    with served("telling-v0") as address:
        env = adapter.client(address)
        assert env.reset(seed=0) == Telling().reset(seed=0)
        env.close()


def test_the_client_keeps_the_contract_of_environments_and_plays_as_the_local_one() -> None:
    local = make("probe-turns-v0")
    with served("probe-turns-v0") as address:
        env = adapter.client(address)
        check_env(env)
        actions = {"player_0": "a", "player_1": "b"}
        for seed in range(5):
            assert env.reset(seed=seed) == local.reset(seed=seed)
            twin = env.fork()
            assert env.step(actions) == local.step(actions) == twin.step(actions)
            assert pickle.loads(pickle.dumps(twin)).step(actions) == local.step(actions)
        env.close()
    with served("probe-turns-v0", **SEAT) as address:
        env = adapter.client(address, agent="me_0")
        assert env.possible_agents == ["me_0"]
        check_env(env)
        env.close()


def test_after_a_lost_connection_the_same_episode_goes_on() -> None:
    actions = {"player_0": "a", "player_1": "b"}
    local = make("probe-turns-v0")
    local.reset(seed=5)
    local.step(actions)
    with served("probe-turns-v0", max_sessions=2) as address:
        env, twin = adapter.client(address), None
        env.reset(seed=5), env.step(actions)
        wire = env._session._async._ws.transport.get_extra_info("socket")
        wire.shutdown(socket.SHUT_RDWR)  # the connection is lost, and both sides notice
        with pytest.raises((OSError, RuntimeError, ConnectionError, ConnectionClosed)):
            env.step(actions)
        twin = env.fork()
        with session(address) as one, session(address) as two:
            one.reset(seed=0), two.reset(seed=0)
            with pytest.raises(Exception, match=r"(?i)capacity|session"):
                twin.step(actions)  # there is no place for the replay
        expected = local.step(actions)
        for played in (env, twin):
            assert when_free(lambda played=played: played.step(actions)) == expected
            played.close()


def test_a_server_that_was_started_anew_goes_on_with_the_same_episode() -> None:
    actions = {"player_0": "a", "player_1": "b"}
    local = make("probe-turns-v0")
    local.reset(seed=5)
    local.step(actions)
    with served("probe-turns-v0") as address:
        env = adapter.client(address)
        env.reset(seed=5)
        env.step(actions)
    with served("probe-turns-v0") as address:
        env.base_url = address
        with pytest.raises((OSError, RuntimeError, ConnectionClosed)):
            env.step(actions)
        assert env.step(actions) == local.step(actions)
        env.close()


@pytest.mark.parametrize("env_id", ["probe-halves-v0", "probe-turns-v0"])
def test_a_batch_of_several_groups_plays_as_here(env_id: str) -> None:
    from llm_decpomdp.algorithms import Start, collect_rollouts

    local = make(env_id)
    starts = [Start(task_id=task.task_id) for task in local.tasks.tasks[:3]]
    courses = []
    with served(env_id, max_sessions=2 * 3 * 8 + 8) as address:
        env = adapter.client(address)
        for played in (env, local):
            team = {agent: RandomText(n) for n, agent in enumerate(local.possible_agents)}
            rng = np.random.default_rng(0)
            rollouts = collect_rollouts(played, team, starts, group_size=8, rng=rng)
            courses.append([[group.rewards for group in each.groups] for each in rollouts])
        env.close()
    assert str(courses[0]) == str(courses[1])


def test_a_tiny_model_learns_over_the_connection_what_it_learns_here() -> None:
    partners = {"player_1": Constant("")}
    tasks = [task.task_id for task in make("probe-halves-v0").tasks.tasks]
    with served("probe-halves-v0", seat="player_0", partners=partners) as address:
        env = adapter.client(address)
        over_there = curve(env, tasks, updates=30)
        env.close()
    here = curve(
        from_single_agent(lambda: single_agent_view(make("probe-halves-v0"), "player_0", partners)),
        tasks,
        30,
    )
    assert over_there == here and np.mean(here[:3]) < 0.3 < 0.4 < np.mean(here[-3:])


def curve(env: Any, tasks: list[str], updates: int) -> list[float]:
    """Mean rewards of a tiny model that learns all tasks in every update; 0.5 is the most."""
    from llm_decpomdp.agents import Sampling, tiny_causal_lm
    from llm_decpomdp.algorithms import ALGORITHMS, Learner, LearnerOptions, Start, collect_rollouts

    team = {"agent_0": tiny_causal_lm("abc", Sampling(max_new_tokens=2))}
    step = LearnerOptions(learning_rate=4e-3, max_grad_norm=0.3)
    learner, rng = Learner(team, ALGORITHMS["grpo"], step), np.random.default_rng(0)
    means = []
    for _ in range(updates):
        starts = [Start(task_id=task) for task in tasks]
        rollouts = collect_rollouts(env, team, starts, group_size=16, rng=rng)
        learner.update(rollouts)
        means.append(float(np.mean([rollout.groups[0].rewards for rollout in rollouts])))
    return means
