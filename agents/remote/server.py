"""Servers that sample: one that runs already, or a `vllm serve` that the run starts."""

from __future__ import annotations

import logging
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from llm_decpomdp.agents.remote.options import BASE, SamplerError

logger = logging.getLogger(__name__)

GUARD = Path(__file__).with_name("guard.py")

LAST_LINES = 25  # lines of a server's log in an error
PAUSE = 0.1  # seconds between two checks whether a server is ready
PORTS = 3  # ports that are tried for a server, if another process takes the free one first
RANKS = (1, 8, 16, 32, 64, 128, 256, 320, 512)  # of adapters for which vLLM can reserve memory

VARIABLES = {
    "VLLM_SERVER_DEV_MODE": "1",  # routes that pause, and load weights
    "VLLM_ALLOW_RUNTIME_LORA_UPDATING": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
}
"""Environment variables of a server."""

GPUS = "CUDA_VISIBLE_DEVICES"
# Variables of this Python, which would break another one.
NOT_INHERITED = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")

IsWell = Callable[[str], bool]
"""Checks whether the server at an address answers, and is ready."""


class RunningServer:
    """A server that the user has started, and restarts.

    Args:
        url: Its address.
        folder: The folder of its weights; removed if this process is killed.
        timeout: Seconds until it answers.
    """

    def __init__(self, url: str, folder: Path, timeout: float) -> None:
        self.url, self.folder, self.timeout = url, folder, timeout
        self._guard: subprocess.Popen[bytes] | None = None

    def launch(self) -> None:
        """Guard the folder, and do not wait; the server runs already."""
        if self._guard is None:
            self._guard = start_guarded_command(self.folder, [])

    def ready(self, is_well: IsWell) -> str:
        """Wait until it is ready, and return its address; raise a `SamplerError` if that takes too long."""
        self.launch()
        deadline = time.monotonic() + self.timeout
        while not is_well(self.url):
            if time.monotonic() > deadline:
                raise SamplerError(
                    f"the server at {self.url} is not ready after {self.timeout:g} s"
                )
            time.sleep(PAUSE)
        return self.url

    def stop(self) -> None:
        """Let the server run; only the guard of the folder ends."""
        if self._guard is not None:
            release(self._guard)
            self._guard = None

    def last_words(self) -> str:
        """Return the place of its log."""
        return f"its log is where it was started ({self.url})"


class StartedServer:
    """A server that the run starts on this machine, at a free port of the loopback address.

    It ends with this process, even if the process is killed.

    Args:
        command: Returns the command for a port.
        folder: Takes its log; removed if this process is killed.
        timeout: Seconds until it answers.
        variables: Further environment variables.
    """

    def __init__(
        self,
        command: Callable[[int], Sequence[str]],
        folder: Path,
        timeout: float,
        variables: Mapping[str, str] | None = None,
    ) -> None:
        self.command, self.folder, self.timeout = command, folder, timeout
        self.variables = variables or {}
        self.log = folder / "server.log"
        self._process: subprocess.Popen[bytes] | None = None
        self._port = 0

    def launch(self) -> None:
        """Begin to start it, unless it runs; do not wait. Raise a `SamplerError` without such a command."""
        if self._process is not None:
            return
        self._port = free_port()
        command = list(self.command(self._port))
        if shutil.which(command[0]) is None:
            raise SamplerError(f"there is no program {command[0]} to start a server with")
        make_private(self.folder)
        inherited = {k: v for k, v in os.environ.items() if k not in NOT_INHERITED}
        environment = {**inherited, **VARIABLES, **self.variables}
        with self.log.open("ab") as log:
            self._process = start_guarded_command(self.folder, command, stdout=log, env=environment)
        logger.info("starting a server that samples: %s", " ".join(command))

    def ready(self, is_well: IsWell) -> str:
        """Start it if needed, wait until it is ready, and return its address, which may change.

        Raises:
            SamplerError: If it ends, or takes too long.
        """
        self.launch()
        begin, ports = time.monotonic(), 1
        while not is_well(url := f"http://127.0.0.1:{self._port}"):
            assert self._process is not None, "it was launched"
            has_ended = self._process.poll() is not None
            if not has_ended and time.monotonic() - begin <= self.timeout:
                time.sleep(PAUSE)
                continue
            words = self.last_words()
            self.stop()
            if not has_ended:
                raise SamplerError(
                    f"a server that samples is not ready after {self.timeout:g} s (raise "
                    f"inference.start_timeout if it loads a large model); the end of its log:\n{words}"
                )
            if ports == PORTS or not is_taken(self._port):
                raise SamplerError(
                    f"a server that samples did not start; the end of its log:\n{words}"
                )
            ports += 1
            self.launch()
        return url

    def stop(self) -> None:
        """End it with all its processes, if it runs."""
        if self._process is not None:
            release(self._process)
            self._process = None

    def last_words(self) -> str:
        """Return the end of its log."""
        text = self.log.read_text(errors="replace") if self.log.exists() else ""
        return "\n".join(text.splitlines()[-LAST_LINES:]) or "(it is empty)"


Server = RunningServer | StartedServer


def start_guarded_command(
    folder: Path, command: Sequence[str], **options: Any
) -> subprocess.Popen[bytes]:
    """Start a command, or none, that ends with this process; then the folder is removed. Options of `Popen`."""
    return subprocess.Popen(
        [sys.executable, str(GUARD), str(folder), *command],
        stdin=subprocess.PIPE,  # ends with this process
        stderr=subprocess.STDOUT if "stdout" in options else None,
        start_new_session=True,  # so that Ctrl-C ends it only through this process
        **options,
    )


def release(process: subprocess.Popen[bytes]) -> None:
    """End a process of `start_guarded_command`, with its command; the folder stays."""
    with suppress(BrokenPipeError):  # it has ended by itself
        process.communicate(b".")
    process.wait()


def make_private(folder: Path) -> None:
    """Make a folder that other users cannot read, unless it exists."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)


def vllm_command(
    python: str, model: str, flags: Mapping[str, Any]
) -> Callable[[int], Sequence[str]]:
    """Return the function from a port to the command of a vLLM server.

    Args:
        python: Path of its Python.
        model: Name or folder of the model.
        flags: Flags of `vllm serve`; true and false turn a switch on and off.
    """

    def command(port: int) -> list[str]:
        words = [python, "-m", "vllm.entrypoints.cli.main", "serve", model]
        for name, value in {"host": "127.0.0.1", "port": port, **flags}.items():
            flag = name.replace("_", "-")
            if isinstance(value, bool):
                words.append(f"--{flag}" if value else f"--no-{flag}")
            else:
                words += [f"--{flag}", str(value)]
        return words

    return command


def vllm_flags(dtype: str, ranks: Sequence[int], cpu: bool, context: int | None) -> dict[str, Any]:
    """Return the flags that sampling for a learner needs.

    Args:
        dtype: `float32` or `bfloat16`.
        ranks: The rank of each adapter; empty if all weights are trained.
        cpu: Whether the server computes on a CPU.
        context: Most tokens of a prompt with its completion, if known.

    Raises:
        ValueError: If vLLM takes no adapter of such a rank.
    """
    flags: dict[str, Any] = {
        "served_model_name": BASE,
        "dtype": dtype,
        "logprobs_mode": "processed_logprobs",  # at the temperature, as the learner's
        "generation_config": "vllm",  # no defaults of the model
        "scheduling_policy": "priority",
        "enable_server_load_tracking": True,
    }
    if ranks:
        room = [rank for rank in RANKS if rank >= max(ranks)]
        if not room:
            raise ValueError(f"vLLM takes adapters of a rank up to {RANKS[-1]}, got {max(ranks)}")
        flags |= {"enable_lora": True, "max_loras": len(ranks), "max_lora_rank": room[0]}
    if cpu:  # where a prompt with a seed must be computed in one piece
        flags |= {"enforce_eager": True, "enable_chunked_prefill": False}
        flags |= {"max_num_batched_tokens": max(8192, context or 0)}
    return flags


def visible(gpus: Sequence[int]) -> dict[str, str]:
    """Return the variable that shows a process only some of the GPUs that this process sees, by their numbers."""
    inherited = os.environ.get(GPUS)
    names = inherited.split(",") if inherited else None
    return {GPUS: ",".join(names[gpu] if names else str(gpu) for gpu in gpus)}


def free_port() -> int:
    """Return a free port of the loopback address, which another process may take a moment later."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def is_taken(port: int) -> bool:
    """Check whether another process has a port of the loopback address."""
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return True
    return False
