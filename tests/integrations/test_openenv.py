"""OpenEnv's own clients play teams and seats; `make openenv` runs this where OpenEnv is installed."""

from __future__ import annotations

import copy
import json
import os
import pickle
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import llm_decpomdp
from llm_decpomdp import answers, check_env, make, seat, solo
from llm_decpomdp.agents import Constant, RandomText
from llm_decpomdp.integrations import openenv as adapter
from llm_decpomdp.integrations.openenv.guard import MAX_MESSAGE
from llm_decpomdp.validation import MAX_ACTION_LENGTH
from tests.foreign_envs import Rendezvous
from tests.support.processes import ROOT

openenv = pytest.importorskip("openenv.core")
ConnectionClosed = pytest.importorskip("websockets.exceptions").ConnectionClosed

pytestmark = pytest.mark.slow

CODE = {"source": "bundled", "num_turns": 2}


@contextmanager
def served(*arguments: Any, **options: Any) -> Iterator[str]:
    """The address of a server in a thread."""
    import uvicorn

    application = adapter.app(*arguments, **options)
    server = uvicorn.Server(uvicorn.Config(application, port=0, log_level="error"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(10)


def session(address: str) -> Any:
    return openenv.GenericEnvClient(base_url=address).sync()


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
    local = seat(make("probe-turns-v0"), "player_0", partners)
    options = {"seat": "player_0", "partners": partners}
    with served("probe-turns-v0", **options) as address, session(address) as env:
        first = env.reset(seed=7)
        assert (first.observation["prompt"], first.metadata) == local.reset(seed=7)
        after = env.step({"message": "a"})
        assert (after.observation["prompt"], after.reward) == local.step("a")[:2]
        assert set(env.state()) <= {"episode_id", "step_count"}
        assert set(after.observation) - {"metadata", "reward", "done"} == {"prompt", "truncated"}


def test_sixteen_sessions_are_kept_apart_and_another_is_refused() -> None:
    local = make("probe-turns-v0")
    expected = [local.reset(seed=seed)[0] for seed in range(16)]
    with served("probe-turns-v0", max_sessions=16) as address:
        sessions = [session(address) for _ in range(16)]
        with ThreadPoolExecutor(16) as pool:
            list(pool.map(lambda env: env.connect(), sessions))
            for _ in range(3):
                results = pool.map(lambda env, seed: env.reset(seed=seed), sessions, range(16))
                assert [result.observation["prompts"] for result in results] == expected
                steps = [{"actions": {"player_0": "a", "player_1": "b" * n}} for n in range(16)]
                ends = list(pool.map(lambda env, step: env.step(step), sessions, steps))
                for seed, (step, end) in enumerate(zip(steps, ends, strict=True)):
                    local.reset(seed=seed)
                    assert end.reward == local.step(step["actions"])[1]["player_0"]
        with pytest.raises(Exception, match=r"(?i)capacity|session"):
            with session(address) as env:
                env.reset(seed=0)
        sessions[0].close()
        assert _reset_when_free(address) == expected[3]
        for env in sessions[1:]:
            env.close()


def _reset_when_free(address: str) -> Any:
    """The prompts of a session that begins when the place of one that has left is free."""

    def reset() -> Any:
        with session(address) as env:
            return env.reset(seed=3).observation["prompts"]

    return _when_free(reset)


def _when_free(play: Callable[[], Any]) -> Any:
    """Play when the place of a session that has left is free."""
    for _ in range(50):
        try:
            return play()
        except Exception:  # of the client's own kinds, as long as the server is full
            time.sleep(0.1)
    raise TimeoutError


def test_unseeded_sessions_play_different_episodes_and_long_texts_are_refused() -> None:
    with served("coophumaneval-v0", **CODE) as address:
        with session(address) as one, session(address) as two:
            starts = [[str(env.reset().observation) for _ in range(4)] for env in (one, two)]
            assert starts[0] != starts[1]
            with pytest.raises(RuntimeError, match=r"(?i)at most|too_long|valid"):
                one.step({"actions": {"aux_0": "x" * (MAX_ACTION_LENGTH + 1), "main_0": ""}})
            with pytest.raises(RuntimeError, match="may have 255 characters, got 256"):
                one.reset(seed=0, episode_id="x" * 256)


SEAT = {"seat": "player_0", "partners": {"player_1": Constant("a")}}


@pytest.mark.parametrize(
    ("options", "action"),
    [({}, {"actions": {"player_0": "a", "player_1": "b"}}), (SEAT, {"message": "a"})],
)
def test_a_step_outside_an_episode_is_refused(
    options: dict[str, Any], action: dict[str, Any]
) -> None:
    with served("probe-turns-v0", **options) as address, session(address) as env:
        with pytest.raises(RuntimeError, match="no episode is running"):
            env.step(action)
        env.reset(seed=0)
        assert not env.step(action).done and env.step(action).done
        with pytest.raises(RuntimeError, match="no episode is running"):
            env.step(action)


class Sleepy(Rendezvous):
    """Thinks about some answers, and counts its copies that do so at the same time."""

    lock = threading.Lock()
    thinking = most = 0

    def step(self, actions: dict[str, str]) -> Any:
        with Sleepy.lock:
            Sleepy.thinking += 1
            Sleepy.most = max(Sleepy.most, Sleepy.thinking)
        time.sleep(1.0 if actions["left_0"] == "slow" else 0.0)
        with Sleepy.lock:
            Sleepy.thinking -= 1
        return super().step(actions)


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


class Forked(Sleepy):
    """With branches that are safe in threads."""

    def fork(self) -> Any:
        return copy.deepcopy(self)


llm_decpomdp.register("sleepy-v0", f"{__name__}:Sleepy")
llm_decpomdp.register("forked-v0", f"{__name__}:Forked")


@pytest.mark.parametrize(("env_id", "at_a_time"), [("sleepy-v0", 1), ("forked-v0", 2)])
@pytest.mark.parametrize("seated", [False, True])
def test_a_slow_step_holds_up_no_other_session_where_branches_are_safe(
    env_id: str, at_a_time: int, seated: bool
) -> None:
    options = {"seat": "left_0", "partners": {"right_0": Constant("")}} if seated else {}
    Sleepy.most = 0
    with served(env_id, **options) as address, session(address) as one, session(address) as two:
        for env in (one, two):
            env.reset(seed=0)
        texts = {"left_0": "slow", "right_0": ""}
        action = {"message": "slow"} if seated else {"actions": texts}
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(lambda env: env.step(action), (one, two)))
    assert Sleepy.most == at_a_time


def test_nothing_plays_outside_sessions() -> None:
    action = {"action": {"actions": {"player_0": "a", "player_1": "b"}}}
    with served("probe-turns-v0", max_sessions=1) as address:
        for path, body in (("/reset", {}), ("/step", action)):
            assert posted(address + path, json.dumps(body).encode()) == 404
        assert posted(f"{address}/mcp", b"x" * (MAX_MESSAGE + 1)) == 413
        assert posted(f"{address}/mcp", iter([b"x"])) == 411


def posted(url: str, body: Any) -> int:
    """The status of a request with a body."""
    request = urllib.request.Request(url, data=body, headers={"content-type": "application/json"})
    try:
        return int(urllib.request.urlopen(request, timeout=20).status)
    except urllib.error.HTTPError as error:
        return error.code
    except urllib.error.URLError as error:  # the server answers and closes before all is sent
        return 413 if isinstance(error.reason, ConnectionError) else 0


def test_a_session_that_was_closed_for_its_idle_time_plays_no_more() -> None:
    with served("probe-turns-v0", max_sessions=1, session_timeout=1) as address:
        with session(address) as first:
            first.reset(seed=1)
            time.sleep(7)  # OpenEnv looks every five seconds
            with session(address) as second:
                second.reset(seed=2)
                for play in (lambda: first.step({"actions": {}}), lambda: first.reset(seed=1)):
                    with pytest.raises(RuntimeError, match="closed after idle time"):
                        play()


def test_pages_of_other_servers_and_other_names_are_refused() -> None:
    from websockets.exceptions import InvalidStatus
    from websockets.sync.client import connect

    with served("probe-turns-v0", names=["gpu-box"]) as address:
        place = address.removeprefix("http://")
        socket_at = f"ws://{place}/ws"
        for origin in ("http://evil.example", "null"):
            with pytest.raises(InvalidStatus, match="403"):
                connect(socket_at, origin=origin, proxy=None)
        with connect(socket_at, origin=address, proxy=None) as same:
            same.send(json.dumps({"type": "reset", "data": {"seed": 3}}))
            assert "prompts" in same.recv()
        for host, status in (("evil.example", 421), ("gpu-box", 200), (place, 200)):
            request = urllib.request.Request(f"{address}/health", headers={"host": host})
            try:
                assert urllib.request.urlopen(request).status == status
            except urllib.error.HTTPError as error:
                assert error.code == status


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
    local.reset(seed=5), local.step(actions)
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
            assert _when_free(lambda played=played: played.step(actions)) == expected
            played.close()


def test_a_server_that_was_started_anew_goes_on_with_the_same_episode() -> None:
    actions = {"player_0": "a", "player_1": "b"}
    local = make("probe-turns-v0")
    local.reset(seed=5), local.step(actions)
    with served("probe-turns-v0") as address:
        env = adapter.client(address)
        env.reset(seed=5), env.step(actions)
    with served("probe-turns-v0") as address:
        env.base_url = address
        with pytest.raises((OSError, RuntimeError, ConnectionClosed)):
            env.step(actions)
        assert env.step(actions) == local.step(actions)
        env.close()


@pytest.mark.parametrize("env_id", ["probe-halves-v0", "probe-turns-v0"])
def test_a_batch_of_several_groups_plays_as_here(env_id: str) -> None:
    from llm_decpomdp.algorithms import Start, rollout_chains

    local = make(env_id)
    starts = [Start(task_id=task.task_id) for task in local.tasks.tasks[:3]]
    courses = []
    with served(env_id, max_sessions=2 * 3 * 8 + 8) as address:
        env = adapter.client(address)
        for played in (env, local):
            team = {agent: RandomText(n) for n, agent in enumerate(local.possible_agents)}
            rng = np.random.default_rng(0)
            rollouts = rollout_chains(played, team, starts, group_size=8, rng=rng)
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
    here = curve(solo(lambda: seat(make("probe-halves-v0"), "player_0", partners)), tasks, 30)
    assert over_there == here and np.mean(here[:3]) < 0.3 < 0.4 < np.mean(here[-3:])


def curve(env: Any, tasks: list[str], updates: int) -> list[float]:
    """Mean rewards of a tiny model that learns all tasks in every update; 0.5 is the most."""
    from llm_decpomdp.agents import Sampling, tiny_causal_lm
    from llm_decpomdp.algorithms import ALGORITHMS, Learner, LearnerOptions, Start, rollout_chains

    team = {"agent_0": tiny_causal_lm("abc", Sampling(max_new_tokens=2))}
    step = LearnerOptions(learning_rate=4e-3, max_grad_norm=0.3)
    learner, rng = Learner(team, ALGORITHMS["grpo"], step), np.random.default_rng(0)
    means = []
    for _ in range(updates):
        starts = [Start(task_id=task) for task in tasks]
        rollouts = rollout_chains(env, team, starts, group_size=16, rng=rng)
        learner.update(rollouts)
        means.append(float(np.mean([rollout.groups[0].rewards for rollout in rollouts])))
    return means


def test_the_command_serves_until_it_is_stopped() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "llm_decpomdp", "serve", "probe-turns-v0", "--port", str(port)]
    command += ["--seat", "player_0", "--partner", "player_1=gold"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    server = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)
    address = f"http://127.0.0.1:{port}"
    try:
        for _ in range(600):
            try:
                assert urllib.request.urlopen(f"{address}/health").status == 200
                break
            except OSError:
                assert server.poll() is None, server.stderr and server.stderr.read()
                time.sleep(0.1)
        assert b"message" in urllib.request.urlopen(f"{address}/schema").read()
        with session(address) as env:
            assert env.reset(seed=0).observation["prompt"]
    finally:
        server.send_signal(signal.SIGINT)
        server.wait(30)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"partners": {"player_1": Constant("")}}, "play beside a seat: name the seat"),
        ({"seat": "player_0"}, "no partner plays 'player_1'"),
        ({"seat": "nobody_0"}, "unknown agent 'nobody_0'"),
    ],
)
def test_a_seat_that_does_not_fit_is_refused(options: dict[str, Any], text: str) -> None:
    with pytest.raises((KeyError, ValueError), match=text):
        adapter.app("probe-turns-v0", **options)
