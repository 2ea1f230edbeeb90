"""The checkout, interpreters that run in it, and whether a process is alive."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
"""Folder of the checkout."""


def python(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run an interpreter with these arguments in the checkout, and capture what it prints.

    Args:
        *arguments: Of the command line, such as `-c` and a program.
        **options: For `subprocess.run`.

    Raises:
        AssertionError: If it fails, with its error output; not with `check=False`.
    """
    check = options.pop("check", True)
    command = [sys.executable, *arguments]
    options = {"cwd": ROOT, "capture_output": True, "text": True, **options}
    process = subprocess.run(command, check=False, **options)
    assert process.returncode == 0 or not check, process.stderr
    return process


def alive(process: int) -> bool:
    """Check whether a process is there, and no zombie that nobody waits for."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    status = Path(f"/proc/{process}/stat")
    return not status.exists() or status.read_text().rpartition(")")[2].split()[0] != "Z"
