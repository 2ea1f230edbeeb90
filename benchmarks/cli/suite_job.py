"""The process of one job of a suite: `python -m llm_decpomdp.benchmarks.cli.suite_job FOLDER`.

`llm_decpomdp.benchmarks.suites.pool` starts it, with a pipe as its input, whose end means that nobody waits for it
any more.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import sys
import threading
import time
import traceback
from dataclasses import replace
from pathlib import Path

from llm_decpomdp.agents.saved_team import MANIFEST
from llm_decpomdp.algorithms.training import checkpoint
from llm_decpomdp.algorithms.training.callbacks import Interrupted
from llm_decpomdp.benchmarks.cli.console import prepare_process
from llm_decpomdp.benchmarks.evaluation import teams as eval_teams
from llm_decpomdp.benchmarks.evaluation.baselines import EvalConfig, TeamUnderTest, find_baseline
from llm_decpomdp.benchmarks.evaluation.run import evaluate
from llm_decpomdp.benchmarks.runs import checkpoints as kept_teams
from llm_decpomdp.benchmarks.runs import initial_team
from llm_decpomdp.benchmarks.runs import train as run
from llm_decpomdp.benchmarks.runs.resume import resume
from llm_decpomdp.benchmarks.suites.job import DONE, FAILED, Job, read_job
from llm_decpomdp.benchmarks.suites.suite import UNTRAINED

INTERRUPTED = 130
"""The exit code of a job that was stopped, and goes on when it is started again."""


def end_with_parent() -> None:
    """Stop this process as by Ctrl-C once its input ends, as when the process that started it was killed."""

    def wait() -> None:
        # The parent never writes, so this waits until its end closes the pipe.
        while os.read(0, 1):
            pass
        os.kill(os.getpid(), signal.SIGTERM)

    # A daemon, so that a finished job does not wait for its parent.
    threading.Thread(target=wait, daemon=True).start()


def main() -> None:
    """Do the job of the folder on the command line, and leave its status there."""
    # SIGTERM ends like Ctrl-C, so that a training saves a checkpoint.
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
    # Whatever a user's code raises is the result of this job; the other jobs go on.
    except Exception:
        job.end(FAILED, error=traceback.format_exc())
        raise SystemExit(1) from None
    job.end(DONE, seconds=time.perf_counter() - begin)


def work(job: Job) -> None:
    """Train the team of a job if its arm asks for it, and evaluate it; results that exist are kept."""
    arm = job.arm
    if arm.trains:
        train(job)
    setting = EvalConfig.from_config(job.config)
    entry = load_entry(job, setting)
    if arm.greedy:
        eval_teams.make_greedy(entry.team)
    evaluate(
        entry.env,
        entry.team,
        setting.starts(arm.tasks),
        samples=arm.samples,
        folder=job.folder,
        seed=job.seed,
        at_a_time=arm.at_a_time,
        act=entry.act,
        about={"cell": arm.name, **job.identity},
        progress=False,
    )


def load_entry(job: Job, setting: EvalConfig) -> TeamUnderTest:
    """Build the team of a job, or its baseline, in the environment that it plays."""
    if job.arm.trains:
        path = kept_teams.locate(job.training.path, "final", setting.config)
        return eval_teams.load_stored_team(path, setting)
    if job.arm.method == UNTRAINED:
        return eval_teams.load_configured_team(setting)
    return find_baseline(job.arm.method, setting).load()


def train(job: Job) -> None:
    """Train the team, from the newest checkpoint if there is one; only the final team is kept."""
    folder = job.training
    if not (job.final_team / MANIFEST).is_file():
        if checkpoint.latest(folder.checkpoints) is not None:
            resume(folder.path)
        else:
            shutil.rmtree(folder.path)  # stopped before there was anything to keep
            output = replace(
                job.config.output,
                base_dir=str(job.folder),
                name=folder.path.name,
                save_final_model=True,
                save_path=None,
            )
            config = replace(job.training_config, output=output)
            if job.initial_team is None:
                run.train(config, job.arm.name)
            else:
                initial_team.train_initial_team(job.initial_team, config, job.arm.name)
    # Checkpoints are large, and the final team is all that is measured.
    shutil.rmtree(folder.checkpoints, ignore_errors=True)


if __name__ == "__main__":
    main()
