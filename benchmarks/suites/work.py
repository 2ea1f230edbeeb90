"""The work of one job of a suite: training, where its cell asks for it, then evaluation."""

from __future__ import annotations

import shutil
from dataclasses import replace

from llm_decpomdp.agents.saved_team import MANIFEST
from llm_decpomdp.algorithms.training import checkpoint
from llm_decpomdp.benchmarks.evaluation import teams as eval_teams
from llm_decpomdp.benchmarks.evaluation.baselines import Entry, Setting, find_baseline
from llm_decpomdp.benchmarks.evaluation.run import evaluate
from llm_decpomdp.benchmarks.runs import checkpoints as kept_teams
from llm_decpomdp.benchmarks.runs import train as run
from llm_decpomdp.benchmarks.runs.resume import resume
from llm_decpomdp.benchmarks.suites.job import Job
from llm_decpomdp.benchmarks.suites.suite import UNTRAINED


def work(job: Job) -> None:
    """Train the team of a job if its cell asks for it, and evaluate it; results that exist are kept.

    Raises:
        Exception: Whatever goes wrong.
    """
    cell = job.cell
    if cell.trained:
        train(job)
    setting = Setting.of(job.config)
    entry = entry_of(job, setting)
    if cell.greedy:
        eval_teams.make_greedy(entry.team)
    evaluate(
        entry.env,
        entry.team,
        setting.starts(cell.tasks),
        samples=cell.samples,
        folder=job.folder,
        seed=job.seed,
        act=entry.act,
        about={"cell": cell.name, **job.identity},
        progress=False,
    )


def entry_of(job: Job, setting: Setting) -> Entry:
    """Build the team of a job, or its baseline, in the environment that it plays."""
    if job.cell.trained:
        path = kept_teams.locate(job.training.path, "final", setting.config)
        return eval_teams.of_folder(path, setting)
    if job.cell.method == UNTRAINED:
        return eval_teams.of_config(setting)
    return find_baseline(job.cell.method, setting).load()


def train(job: Job) -> None:
    """Train the team, from the newest checkpoint if there is one; only the final team is kept."""
    folder = job.training
    if not (folder.path / "final_model" / MANIFEST).is_file():
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
            run.train(replace(job.config, output=output), job.cell.name)
    shutil.rmtree(folder.checkpoints, ignore_errors=True)
