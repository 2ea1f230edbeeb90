"""Servers of one's own: their command, their start, their end, and their last words."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from http.server import HTTPServer, SimpleHTTPRequestHandler
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import pytest

from llm_decpomdp.agents.remote import server as server_module
from llm_decpomdp.agents.remote.options import SamplerError, SamplerOptions
from llm_decpomdp.agents.remote.server import RunningServer, StartedServer, vllm_command, vllm_flags
from tests.support.processes import ROOT, alive

SERVE = """
import os, subprocess, sys
from http.server import HTTPServer, SimpleHTTPRequestHandler
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(100)"])
open("pids", "w").write(f"{os.getpid()} {child.pid}")
print("hello from", os.environ.get("VLLM_SERVER_DEV_MODE"), os.environ.get("PYTHONPATH"), flush=True)
HTTPServer(("127.0.0.1", int(sys.argv[1])), SimpleHTTPRequestHandler).serve_forever()
"""
"""A server with a child."""

FAIL = "print('no such model', flush=True); raise SystemExit(3)"


def is_well(url: str) -> bool:
    try:
        with urlopen(url, timeout=5):
            return True
    except URLError:
        return False


def started(
    tmp_path: Path, script: str, monkeypatch: pytest.MonkeyPatch, timeout: float = 60
) -> StartedServer:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("llm_decpomdp.agents.remote.server.PAUSE", 0.02)
    command: Callable[[int], list[str]] = lambda port: [sys.executable, "-c", script, str(port)]  # noqa: E731
    return StartedServer(command, tmp_path / "of server", timeout)


def test_servers_end_with_all_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", "/of/this/python")
    server = started(tmp_path, SERVE, monkeypatch)
    server.launch()
    server.launch()
    url = server.ready(is_well)
    assert is_well(url) and server.last_words().startswith("hello from 1 None")
    processes = pids(tmp_path)
    server.stop()
    assert not any(map(alive, processes)) and not is_well(url)
    assert "hello from" in server.last_words()
    assert is_well(server.ready(is_well))  # again
    os.kill(pids(tmp_path)[0], signal.SIGKILL)
    wait_for(lambda: not alive(pids(tmp_path)[1]))  # its child went with it
    server.stop()


def test_a_failed_server_has_last_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server = started(tmp_path, FAIL, monkeypatch)
    with pytest.raises(SamplerError, match="did not start; the end of its log:\nno such model"):
        server.ready(is_well)
    server = started(tmp_path, "import time; time.sleep(100)", monkeypatch, timeout=0.3)
    with pytest.raises(SamplerError, match=r"not ready after 0.3 s.*start_timeout"):
        server.ready(is_well)
    with pytest.raises(SamplerError, match=r"http://127.0.0.1:9 is not ready after 0.1 s"):
        RunningServer("http://127.0.0.1:9", tmp_path, 0.1).ready(is_well)
    absent = StartedServer(lambda port: ["/no/python"], tmp_path, 1)
    with pytest.raises(SamplerError, match="there is no program /no/python"):
        absent.launch()


ORPHAN = """
import os, signal, sys
from pathlib import Path
from llm_decpomdp.agents.remote.server import StartedServer
from tests.agents.remote.test_server import SERVE, is_well

server = StartedServer(lambda port: [sys.executable, "-c", SERVE, str(port)], Path("of server"), 60)
server.ready(is_well)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_server_ends_when_the_process_that_started_it_is_killed(tmp_path: Path) -> None:
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    environment = {**os.environ, "PYTHONPATH": path}
    done = subprocess.run(
        [sys.executable, "-c", ORPHAN], cwd=tmp_path, env=environment, timeout=300
    )
    assert done.returncode == -signal.SIGKILL
    wait_for(lambda: not any(map(alive, pids(tmp_path))))
    wait_for(lambda: not (tmp_path / "of server").exists())


def test_the_command_has_the_flags_that_a_learner_needs() -> None:
    flags = vllm_flags("float32", [4, 9], cpu=True, context=9000)
    command = vllm_command("/bin/py", "a/model", {**flags, "max_model_len": 100})(8123)
    assert command[:5] == ["/bin/py", "-m", "vllm.entrypoints.cli.main", "serve", "a/model"]
    text = " ".join(command)
    for words in (
        "--host 127.0.0.1 --port 8123",
        "--logprobs-mode processed_logprobs",
        "--enable-lora --max-loras 2 --max-lora-rank 16",
        "--no-enable-chunked-prefill --max-num-batched-tokens 9000 --max-model-len 100",
    ):
        assert words in text
    plain = vllm_flags("bfloat16", [], cpu=False, context=None)
    assert "enable_lora" not in plain and "enforce_eager" not in plain
    with pytest.raises(ValueError, match="a rank up to 512, got 600"):
        vllm_flags("float32", [600], cpu=True, context=None)


def test_the_interpreter_is_an_option_or_a_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LLM_DECPOMDP_VLLM_PYTHON", raising=False)
    with pytest.raises(ValueError, match="vLLM needs a separate environment"):
        SamplerOptions(engine="vllm").interpreter()
    monkeypatch.setenv("LLM_DECPOMDP_VLLM_PYTHON", "/a/python")
    assert SamplerOptions(engine="vllm").interpreter() == "/a/python"
    assert SamplerOptions(engine="vllm", python="/b").interpreter() == "/b"


def pids(folder: Path) -> list[int]:
    return [int(word) for word in (folder / "pids").read_text().split()]


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert condition()


def test_a_port_that_was_taken_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ports: list[int] = []
    real = server_module.free_port

    def free_port() -> int:
        ports.append(real() if ports else thief.server_address[1])
        return ports[-1]

    monkeypatch.setattr(server_module, "free_port", free_port)
    with HTTPServer(("127.0.0.1", 0), SimpleHTTPRequestHandler) as thief:  # which answers nothing
        server = started(tmp_path, SERVE, monkeypatch)
        url = server.ready(lambda url: url.endswith(f":{ports[-1]}") and ports[1:] and is_well(url))
        server.stop()
    assert len(ports) == 2 and url == f"http://127.0.0.1:{ports[1]}"
    assert "Address already in use" in server.log.read_text()


def test_a_failing_server_keeps_its_port(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    starts = tmp_path / "starts"
    server = started(tmp_path, f"open({str(starts)!r}, 'a').write('.')\n{FAIL}", monkeypatch)
    with pytest.raises(SamplerError, match="no such model"):
        server.ready(is_well)
    assert starts.read_text() == "."


LEAVES = """
import sys, time
from pathlib import Path
from llm_decpomdp.agents.remote.server import RunningServer, make_private
folder = Path(sys.argv[1])
make_private(folder)
(folder / "weights").write_text("many")
RunningServer("http://127.0.0.1:9", folder, 1).launch()
print("ready", flush=True)
time.sleep(100)
"""


def test_the_folder_of_a_killed_run_goes_though_the_server_is_another(tmp_path: Path) -> None:
    folder = tmp_path / "published"
    command = [sys.executable, "-c", LEAVES, str(folder)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE) as run:
        assert run.stdout is not None and run.stdout.readline() == b"ready\n"
        assert folder.stat().st_mode & 0o777 == 0o700
        run.kill()
    deadline = time.monotonic() + 20
    while folder.exists():
        assert time.monotonic() < deadline
        time.sleep(0.02)
