"""Limits of what is served to OpenEnv: sessions, texts, threads and pages; run by `make openenv` too."""

from __future__ import annotations

import copy
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import llm_decpomdp
from llm_decpomdp import make
from llm_decpomdp.agents import Constant
from llm_decpomdp.integrations import openenv as adapter
from llm_decpomdp.integrations.openenv import guard
from llm_decpomdp.spaces import MAX_ACTION_LENGTH
from tests.foreign_envs import Rendezvous
from tests.support.processes import ROOT

openenv = pytest.importorskip("openenv.core")

from tests.support.openenv import CODE, SEAT, served, session, when_free  # needs OpenEnv

pytestmark = pytest.mark.slow


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

    return when_free(reset)


def test_unseeded_sessions_play_different_episodes_and_long_texts_are_refused() -> None:
    with served("coophumaneval-v0", **CODE) as address:
        with session(address) as one, session(address) as two:
            starts = [[str(env.reset().observation) for _ in range(4)] for env in (one, two)]
            assert starts[0] != starts[1]
            with pytest.raises(RuntimeError, match=r"(?i)at most|too_long|valid"):
                one.step({"actions": {"aux_0": "x" * (MAX_ACTION_LENGTH + 1), "main_0": ""}})
            with pytest.raises(RuntimeError, match="may have 255 characters, got 256"):
                one.reset(seed=0, episode_id="x" * 256)


@pytest.mark.parametrize(
    ("options", "action"),
    [({}, {"actions": {"player_0": "a", "player_1": "b"}}), (SEAT, {"message": "a"})],
)
def test_steps_outside_episodes_fail(options: dict[str, Any], action: dict[str, Any]) -> None:
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
            text = json.dumps(body)
            assert posted(address, path, f"Content-Length: {len(text)}", body=text) == 404
        assert posted(address, "/mcp", f"Content-Length: {guard.MAX_BODY + 1}") == 413
        assert posted(address, "/mcp", "Transfer-Encoding: chunked") == 411


def posted(address: str, path: str, *headers: str, body: str = "") -> int:
    """The status of a request, of which nothing follows these headers and this body."""
    place = address.removeprefix("http://")
    with socket.create_connection(place.rsplit(":", 1), timeout=20) as wire:
        lines = [f"POST {path} HTTP/1.1", f"Host: {place}", *headers, "", body]
        wire.sendall("\r\n".join(lines).encode())
        return int(wire.recv(64).split()[1])


def test_a_client_that_sends_no_request_or_no_body_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "HEADER_SECONDS", 0.3)
    monkeypatch.setattr(guard, "BODY_SECONDS", 0.3)
    with served("probe-turns-v0") as address:
        place = address.removeprefix("http://")
        with socket.create_connection(place.rsplit(":", 1), timeout=20) as wire:
            wire.sendall(b"GET /health HTTP/1.1\r\nHost: ")
            assert wire.recv(64) == b""  # closed
        assert posted(address, "/mcp", "Content-Length: 5") == 408
        with session(address) as env:  # a session stays
            env.reset(seed=0)
            time.sleep(1)
            assert env.step({"actions": {"player_0": "a", "player_1": "b"}}).observation


def test_connections_and_requests_have_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "MAX_REQUESTS", 2)
    with served("probe-turns-v0", max_sessions=1) as address:
        place = address.removeprefix("http://").rsplit(":", 1)
        wires = [socket.create_connection(place, timeout=20) for _ in range(3)]
        with socket.create_connection(place, timeout=20) as further:
            assert further.recv(64) == b""  # closed
        for wire in wires:
            wire.close()
        for wire in (waiting := [socket.create_connection(place, timeout=20) for _ in range(2)]):
            wire.sendall(
                f"POST /mcp HTTP/1.1\r\nHost: {place[0]}\r\nContent-Length: 5\r\n\r\n".encode()
            )
        assert when_free(lambda: _status(address)) == 503
        for wire in waiting:
            wire.close()
        assert when_free(lambda: _healthy(address))


def _status(address: str) -> int:
    """The status of a request; raises unless the server is full."""
    try:
        urllib.request.urlopen(f"{address}/health").close()
    except urllib.error.HTTPError as error:
        return error.code
    raise RuntimeError("not yet full")


def _healthy(address: str) -> bool:
    return bool(urllib.request.urlopen(f"{address}/health").status == 200)


def test_a_busy_port_is_named_before_anything_is_loaded() -> None:
    with socket.create_server(("127.0.0.1", 0)) as busy:
        port = busy.getsockname()[1]
        command = [sys.executable, "-m", "llm_decpomdp", "serve", "probe-turns-v0"]
        done = subprocess.run(
            [*command, "--port", str(port)],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            timeout=120,
        )
    assert done.returncode == 2 and f"port {port}: Address already in use" in done.stderr
    assert "--port" in done.stderr and "startup" not in done.stderr


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
