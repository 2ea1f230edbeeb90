"""Runs a command that must not outlive the process that started it: `python guard.py FOLDER [COMMAND...]`.

Standard input is a pipe. It ends with the process at its other end, even if that is killed. Then the command ends
with all of its processes, and FOLDER is removed. A byte from the pipe ends the command alone. Without a command
the guard only removes FOLDER. This file imports the standard library alone, so that it starts fast.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
import time

PATIENCE = 5.0  # seconds between the request to end and the kill


def main() -> None:
    """Run the command, and end as it does."""
    folder, *command = sys.argv[1:]
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process that started this handles Ctrl-C
    byte = run(command) if command else os.read(0, 1)
    if not byte:
        shutil.rmtree(folder, ignore_errors=True)


def run(command: list[str]) -> bytes:
    """Run a command until a byte or the end of the pipe; return it."""
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True)
    ending = threading.Event()

    def leave() -> None:
        code = process.wait()
        signal_group(process.pid, signal.SIGKILL)  # what is left of it
        if not ending.is_set():
            os._exit(code if code >= 0 else 128 - code)

    threading.Thread(target=leave, daemon=True).start()
    byte = os.read(0, 1)
    ending.set()
    signal_group(process.pid, signal.SIGTERM)
    deadline = time.monotonic() + PATIENCE
    while process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.02)
    signal_group(process.pid, signal.SIGKILL)
    return byte


def signal_group(leader: int, number: signal.Signals) -> None:
    """Send a signal to all processes of a group, if there are any."""
    try:
        os.killpg(leader, number)
    except ProcessLookupError:
        pass


if __name__ == "__main__":
    main()
