"""The process of one job of a suite: `python -m llm_decpomdp.benchmarks.cli.cell FOLDER`.

`llm_decpomdp.benchmarks.suites.pool` starts it, with a pipe as its input, whose end means that nobody waits for it
any more.
"""

from __future__ import annotations

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
from llm_decpomdp.algorithms.rollouts.rollout import Start
from llm_decpomdp.algorithms.training.interruption import Interrupted
from llm_decpomdp.benchmarks.cli.console import prepare_process
from llm_decpomdp.benchmarks.evaluation import teams as eval_teams
from llm_decpomdp.benchmarks.evaluation.baselines import Contestant, Setting, contestant
from llm_decpomdp.benchmarks.evaluation.run import evaluate
from llm_decpomdp.benchmarks.runs import train as run
from llm_decpomdp.benchmarks.runs.resume import resume
from llm_decpomdp.benchmarks.suites.job import DONE, FAILED, Job, read_job
from llm_decpomdp.benchmarks.suites.suite import UNTRAINED

INTERRUPTED = 130
"""The exit code of a job that was stopped, and goes on when it is started again."""


def work(job: Job) -> None:
    """Train what is to be trained, and measure it; what is there already is not done again.

    Raises:
        Exception: Whatever goes wrong.
    """
    cell = job.cell
    if cell.trained:
        train(job)
    config = replace(
        job.config, output=replace(job.config.output, report=False)
    )  # of an evaluation
    setting = Setting.of(config)
    found = team_of(job, setting)
    if cell.greedy:
        eval_teams.make_greedy(found.team)
    starts = [Start(task_id=task.task_id) for task in setting.env.tasks.tasks]
    evaluate(
        found.env,
        found.team,
        starts[: cell.tasks],
        samples=cell.samples,
        folder=job.folder,
        seed=job.seed,
        act=found.act,
        about={"cell": cell.name, **job.identity},
        progress=False,
    )


def team_of(job: Job, setting: Setting) -> Contestant:
    """Who is measured."""
    if job.cell.trained:
        return eval_teams.of_folder(job.training.path, "final", setting)
    if job.cell.method == UNTRAINED:
        return eval_teams.of_config(setting)
    return contestant(job.cell.method, setting)


def train(job: Job) -> None:
    """Train the team, from the newest checkpoint if there is one; only the final team is kept."""
    folder = job.training
    if not (folder.path / "final_model" / MANIFEST).is_file():
        if any(folder.checkpoints.glob("update-*")):
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
            run.train(replace(job.config, output=output), job.cell.name)
    shutil.rmtree(folder.checkpoints, ignore_errors=True)


def end_with_parent() -> None:
    """Let this process stop as by Ctrl-C once its input ends, as when the process that started it was killed."""

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
        work(job)
    except (KeyboardInterrupt, Interrupted):
        raise SystemExit(INTERRUPTED) from None
    except Exception:
        job.end(FAILED, error=traceback.format_exc())
        raise SystemExit(1) from None
    job.end(DONE, seconds=time.perf_counter() - begin)


if __name__ == "__main__":
    main()
