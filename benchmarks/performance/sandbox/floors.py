"""What the same programs cost without any protection."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from pathlib import Path

TYPE_CHECKING = False  # see host.py
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def source(program: Mapping[str, str]) -> str:
    """Program and tests as one module."""
    return (
        f"{program['prompt']}{program['canonical_solution']}\n"
        f"{program['test']}\ncheck({program['entry_point']})\n"
    )


class InProcess:
    """`exec` in the calling process: no isolation of any kind."""

    def __init__(self, programs: Sequence[Mapping[str, str]], workers: int) -> None:
        if workers != 1:
            raise ValueError(f"one process runs one program at a time, got workers={workers}")
        self.sources = [source(program) for program in programs]

    def run(self, indices: Sequence[int]) -> list[bool]:
        return [self._passes(self.sources[index]) for index in indices]

    def _passes(self, text: str) -> bool:
        try:
            exec(compile(text, "<program>", "exec"), {"__name__": "__program__"})
        except Exception:
            return False
        return True

    def close(self) -> None:
        """Nothing is open."""


class BareZygotes:
    """Minimal processes that fork for each program; the next free one takes the next program.

    Args:
        programs: Rows of HumanEval.
        workers: Number of processes.
        warmed: Whether they compile something before they fork: see `bare_zygote.py`.
    """

    def __init__(
        self, programs: Sequence[Mapping[str, str]], workers: int, warmed: bool = False
    ) -> None:
        self.sources = [source(program) for program in programs]
        self.socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        command = [
            sys.executable,
            "-I",
            "-S",
            "-B",
            str(Path(__file__).with_name("bare_zygote.py")),
        ]
        command += ["warmed"] if warmed else []
        self.processes = [
            subprocess.Popen(command, stdin=theirs.fileno(), env={}) for _ in range(workers)
        ]
        theirs.close()

    def run(self, indices: Sequence[int]) -> list[bool]:
        for index in indices:
            self.socket.send(json.dumps([index, self.sources[index]]).encode())
        passed = dict(json.loads(self.socket.recv(4096)) for _ in indices)
        return [passed[index] for index in indices]

    def close(self) -> None:
        self.socket.close()
        for process in self.processes:
            process.wait()
