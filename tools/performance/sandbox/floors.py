"""The benchmark's programs without any protection."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from pathlib import Path

TYPE_CHECKING = False  # see host.py
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

ZYGOTE = Path(__file__).with_name("bare_zygote.py")


def source(program: Mapping[str, str]) -> str:
    """Return program and tests as one module."""
    return (
        f"{program['prompt']}{program['canonical_solution']}\n"
        f"{program['test']}\ncheck({program['entry_point']})\n"
    )


def run_in_process(programs: Sequence[Mapping[str, str]], workers: int) -> Iterator[dict[str, Any]]:
    """Run all programs by `exec` in this process, without isolation."""
    if workers != 1:
        raise ValueError(f"one process runs one program at a time, got workers={workers}")
    while True:
        names = [program["task_id"] for program in programs if not _passes(source(program))]
        yield {"units": len(programs), "wrong": names}


def _passes(text: str) -> bool:
    try:
        exec(compile(text, "<program>", "exec"), {"__name__": "__program__"})
    except Exception:
        return False
    return True


def bare_zygotes(
    programs: Sequence[Mapping[str, str]], workers: int, warmed: bool = False
) -> Iterator[dict[str, Any]]:
    """Run each program in a fork of a minimal process; the next free process takes the next program.

    Args:
        programs: Rows of HumanEval.
        workers: Number of processes that fork.
        warmed: Whether they compile a program before they fork; see `bare_zygote.py`.
    """
    requests = [json.dumps([row, source(p)]).encode() for row, p in enumerate(programs)]
    # Packets keep requests apart, and each process takes a whole one.
    end, far_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    command = [sys.executable, "-I", "-S", "-B", str(ZYGOTE), *(["warmed"] if warmed else [])]
    processes = [subprocess.Popen(command, stdin=far_end.fileno(), env={}) for _ in range(workers)]
    far_end.close()
    try:
        while True:
            for request in requests:
                end.send(request)
            passed = dict(json.loads(end.recv(4096)) for _ in requests)
            names = [p["task_id"] for row, p in enumerate(programs) if not passed[row]]
            yield {"units": len(programs), "wrong": names}
    finally:
        end.close()
        for process in processes:
            process.wait()
