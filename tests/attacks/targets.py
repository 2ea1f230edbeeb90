"""Targets of attacks besides files: sockets, a process in the place of the caller, processes below this one."""

from __future__ import annotations

import ctypes
import os
import select
import signal
import socket
import subprocess
import sys
import time
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
PR_SET_CHILD_SUBREAPER = 36
LOOKS = 10  # most looks at the processes until two agree


class Listeners:
    """Sockets that wait for callers; the kernel keeps these waiting, so no thread needs to answer.

    Args:
        path: Of the Unix socket; the one for datagrams has `.datagram` appended, and on Linux there are abstract
            ones of both names.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        tcp = socket.create_server(("127.0.0.1", 0))
        udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        udp.bind(("127.0.0.1", 0))
        self._sockets = {"TCP": tcp, "UDP": udp}
        self.tcp_port: int = tcp.getsockname()[1]
        self.udp_port: int = udp.getsockname()[1]
        for prefix in ("", "\0") if sys.platform == "linux" else ("",):
            for kind, suffix in ((socket.SOCK_STREAM, ""), (socket.SOCK_DGRAM, ".datagram")):
                listener = socket.socket(socket.AF_UNIX, kind)
                listener.bind(f"{prefix}{path}{suffix}")
                if kind == socket.SOCK_STREAM:
                    listener.listen()
                self._sockets[f"{'abstract' if prefix else 'unix'} socket{suffix}"] = listener
        for name in ("", ".datagram"):  # for programs that run as another user
            os.chmod(f"{path}{name}", 0o777)
        for listener in self._sockets.values():
            listener.setblocking(False)

    def contacts(self) -> list[str]:
        """List the sockets that were reached since the last call."""
        contacts = []
        for name, listener in self._sockets.items():
            while True:
                try:
                    if listener.type == socket.SOCK_STREAM:
                        listener.accept()[0].close()
                    else:
                        listener.recv(4096)
                except BlockingIOError:
                    break
                contacts.append(f"contact by {name}")
        return list(dict.fromkeys(contacts))

    def close(self) -> None:
        for listener in self._sockets.values():
            listener.close()


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
        changed = [name for name in settings if settings[name] != self.settings[name]]
        return complaints + [f"the victim's {name} changed" for name in changed]

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


# The processes below this one, by way of Linux' /proc; elsewhere none are seen


def adopt_orphans() -> None:
    """Make processes below this one its children when their parents end: they cannot slip away."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def descendants() -> set[int]:
    """Return the living processes below this one.

    A process that ends during a look hands its children over to this one behind the look's back, so only what
    two looks agree on counts; where processes start and end all the time, the last look.
    """
    states: dict[int, bool] = {}
    for _ in range(LOOKS):
        before, states = states, _look()
        if states == before:
            break
    return {pid for pid, living in states.items() if living}


def end(processes: set[int]) -> None:
    """Kill processes below this one, and those that they start meanwhile."""
    deadline = time.monotonic() + 10
    while processes and time.monotonic() < deadline:
        for pid in processes:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass  # it was quicker
        time.sleep(0.01)
        processes = descendants()


def _look() -> dict[int, bool]:
    """Return the processes below this one, and whether each lives or waits to be reaped."""
    states: dict[int, bool] = {}
    waiting = [os.getpid()]
    while waiting:
        for child in _children(waiting.pop()):
            states[child] = not _ended(child)
            if states[child]:
                waiting.append(child)
    return states


def _children(pid: int) -> list[int]:
    try:
        tasks = list(Path(f"/proc/{pid}/task").iterdir())
        return [int(child) for task in tasks for child in (task / "children").read_text().split()]
    except OSError:
        return []


def _ended(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return True
