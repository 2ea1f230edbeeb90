"""A process that attacks may try to hurt, in the place of the trainer."""

from __future__ import annotations

import os
import select
import subprocess
import sys
from pathlib import Path

SOURCE = """
import signal, sys

memory = bytearray(b"memory of the victim")
received = []
for name in ("SIGURG", "SIGUSR1", "SIGUSR2", "SIGIO", "SIGWINCH", "SIGCONT"):
    if hasattr(signal, name):
        signal.signal(getattr(signal, name), lambda number, frame: received.append(number))
for line in sys.stdin:
    print(memory.decode("latin-1"), *received, sep=",", flush=True)
"""
UNHURT = "memory of the victim"
ANSWER_SECONDS = 10.0


class Victim:
    """A child process with a secret in its environment and arguments, in a session of its own."""

    def __init__(self, secret: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-S", "-c", SOURCE, secret],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={"LLM_API_KEY": secret},
            cwd="/",
            start_new_session=True,
        )
        self.pid = self.process.pid
        self._answer(60.0)
        self.settings = self._settings()

    def complaints(self) -> list[str]:
        """List damage to the victim."""
        if self.process.poll() is not None:
            return [f"the victim died (exit code {self.process.returncode})"]
        answer = None if self._stopped() else self._answer(ANSWER_SECONDS)
        if answer is None:
            return ["the victim was stopped or died"]
        memory, *signals = answer.split(",")
        complaints = [f"the victim received signal {number}" for number in signals]
        if memory != UNHURT:
            complaints.append("the victim's memory was changed")
        settings = self._settings()
        complaints += [
            f"the victim's {name} changed"
            for name in settings
            if settings[name] != self.settings[name]
        ]
        return complaints

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            assert stream is not None
            try:
                stream.close()
            except BrokenPipeError:
                pass  # the question to a dead victim

    def _stopped(self) -> bool:
        """True if the process is known to be stopped, so that no answer is worth waiting for."""
        stat = Path("/proc", str(self.pid), "stat")
        return stat.exists() and stat.read_text().rpartition(")")[2].split()[0] in "Tt"

    def _answer(self, seconds: float) -> str | None:
        """Ask for memory and signals; None without an answer in time."""
        assert self.process.stdin is not None and self.process.stdout is not None
        try:
            os.write(self.process.stdin.fileno(), b"?\n")
        except BrokenPipeError:
            return None
        if not select.select([self.process.stdout], [], [], seconds)[0]:
            return None
        return os.read(self.process.stdout.fileno(), 65536).decode().strip() or None

    def _settings(self) -> dict[str, object]:
        """Return the settings that other processes could change."""
        settings: dict[str, object] = {"priority": os.getpriority(os.PRIO_PROCESS, self.pid)}
        if sys.platform != "linux":
            return settings
        proc = Path("/proc", str(self.pid))
        status = dict(line.split(":", 1) for line in (proc / "status").read_text().splitlines())
        return settings | {
            "processors": os.sched_getaffinity(self.pid),
            "scheduling": os.sched_getscheduler(self.pid),
            "limits": (proc / "limits").read_text(),
            "chance with the memory killer": (proc / "oom_score_adj").read_text(),
            "tracer": status["TracerPid"],
        }
