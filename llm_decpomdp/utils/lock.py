"""The lock of a folder: one process at a time writes to it, and readers are not blocked."""

from __future__ import annotations

import fcntl
import json
import logging
import os
import shlex
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime, timezone
from pathlib import Path

LOCK = "lock.json"
"""Name of the file that is locked; it holds host, process id, command and start of the process that writes."""

LONGEST = 500
"""Maximum number of characters of a command in the file."""

logger = logging.getLogger(__name__)


class FolderInUse(RuntimeError):
    """Another process writes to a folder; the text names its host, its process id and its command."""


@contextmanager
def lock(folder: Path) -> Iterator[None]:
    """Hold the lock of an existing folder.

    The kernel releases the lock when the process ends, also if it is killed. A file without a lock blocks nothing.
    On a file system without locks, such as some network file systems, it logs a warning and holds no lock.

    Raises:
        FolderInUse: If another process holds it.
        OSError: If the file cannot be written.
    """
    path = folder / LOCK
    descriptor = _acquire(path)
    try:
        yield
    finally:
        if descriptor is not None:
            path.unlink(missing_ok=True)  # before the lock is released
            os.close(descriptor)


def _acquire(path: Path) -> int | None:
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            content = os.pread(descriptor, 1 << 16, 0)
            os.close(descriptor)
            raise FolderInUse(
                f"{_owner(content)} is writing to {path.parent}: {_remedy(content)}"
            ) from None
        except OSError as error:
            os.close(descriptor)
            path.unlink(missing_ok=True)
            logger.warning(
                "the file system of %s has no locks (%s): make sure that no other process writes to it",
                *(path.parent, error.strerror),
            )
            return None
        if not _is_still_there(path, descriptor):  # its owner has just ended, and removed it
            os.close(descriptor)
            continue
        with suppress(OSError):  # on a full disk the lock holds, and says less
            os.ftruncate(descriptor, 0)
            os.write(descriptor, _about_this_process().encode("utf-8", "replace"))
        return descriptor


def _is_still_there(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _about_this_process() -> str:
    about = {
        "host": socket.gethostname(),
        "process": os.getpid(),
        "command": shlex.join(sys.orig_argv)[:LONGEST],
        "started": datetime.now(timezone.utc).isoformat(timespec="seconds"),
    }
    return json.dumps(about) + "\n"


def _remedy(content: bytes) -> str:
    """Say what to do. A worker that runs the script of its parent from the beginning needs another remedy."""
    with suppress(ValueError, AttributeError):
        if json.loads(content).get("process") == os.getppid():
            return (
                "it has started this process. If this is one of its workers, put what the script does under "
                "`if __name__ == '__main__':`, since workers import the script"
            )
    return "wait until it ends, or choose another folder"


def _owner(content: bytes) -> str:
    try:
        about = json.loads(content)
        return f"process {about['process']} on {about['host']} ({about['command']}, since {about['started']})"
    except (ValueError, KeyError, TypeError):  # it has not written who it is yet
        return "another process"
