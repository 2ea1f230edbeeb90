"""Training runs: from a configuration to a folder, and back to numbers; and how a training process is started."""

from __future__ import annotations

import os
import signal
import sys

SETTINGS = {
    # Threads that wait without spinning: on a few cores a busy neighbour costs a tenfold otherwise.
    "OMP_WAIT_POLICY": "PASSIVE",
    # glibc gives large blocks back to the kernel at once, and the logits of a vocabulary are such blocks:
    # keeping them made learning on a CPU 1.6 times as fast (studies/LOG.md).
    "MALLOC_MMAP_THRESHOLD_": str(2**32),
    "MALLOC_TRIM_THRESHOLD_": str(2**34),
    "MALLOC_TOP_PAD_": str(2**28),
}


def restart_with_settings() -> None:
    """Start this process again with `SETTINGS`, which are read before Python runs; keeps those that are set.

    Ctrl-C waits until the new process calls this again, or unblocks it. This process goes on where they are set
    already, or mean nothing.
    """
    missing = {name: value for name, value in SETTINGS.items() if name not in os.environ}
    if missing and sys.platform.startswith("linux"):
        os.environ.update(missing)
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
        # `orig_argv` has the options of Python, such as `-m`, which `argv` lacks.
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
