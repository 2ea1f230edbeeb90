"""The process of one job of a suite: `python -m llm_decpomdp.benchmarks.cli.cell FOLDER`.

`llm_decpomdp.benchmarks.suites.pool` starts it, with a pipe as its input, whose end means that nobody waits for it
any more.
"""

from __future__ import annotations

import fcntl
import os
import signal
import sys
import threading
import time
import traceback
from pathlib import Path

from llm_decpomdp.algorithms.training.interruption import Interrupted
from llm_decpomdp.benchmarks.cli.console import prepare_process
from llm_decpomdp.benchmarks.suites.job import DONE, FAILED, read_job
from llm_decpomdp.benchmarks.suites.work import work

INTERRUPTED = 130
"""The exit code of a job that was stopped, and goes on when it is started again."""


def end_with_parent() -> None:
    """Stop this process as by Ctrl-C once its input ends, as when the process that started it was killed."""

    def wait() -> None:
        while os.read(0, 1):
            pass
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=wait, daemon=True).start()


def main() -> None:
    """Do the job of the folder on the command line, and leave its status there."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    prepare_process()
    end_with_parent()
    job, begin = read_job(Path(sys.argv[1])), time.perf_counter()
    try:
        with (job.folder / ".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # an earlier process may still save what it has
            work(job)
    except (KeyboardInterrupt, Interrupted):
        raise SystemExit(INTERRUPTED) from None
    except Exception:
        job.end(FAILED, error=traceback.format_exc())
        raise SystemExit(1) from None
    job.end(DONE, seconds=time.perf_counter() - begin)


if __name__ == "__main__":
    main()
