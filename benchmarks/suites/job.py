"""A job of a suite: one arm with one seed, and its folder.

The folder is that of an evaluation (docs/evaluation.md), with four further entries:

- `job.json`: the job, which the job's process reads.
- `status.json`: `done` or `failed`, with the traceback.
- `log.txt`: the output of the process.
- `training/`: the run of the evaluated team, if the arm trains one.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from llm_decpomdp.agents.saved_team import MANIFEST
from llm_decpomdp.benchmarks.config.errors import (
    ConfigError,
    differences,
    in_short,
    raise_config_errors,
)
from llm_decpomdp.benchmarks.config.legacy import canonical, flat
from llm_decpomdp.benchmarks.config.load import find_config
from llm_decpomdp.benchmarks.config.schema import Config
from llm_decpomdp.benchmarks.runs.setup import load_config
from llm_decpomdp.benchmarks.suites.suite import Arm, EvalSize, Suite, is_algorithm
from llm_decpomdp.utils.storage import RunFolder, write_atomically
from llm_decpomdp.validation import unknown

DONE, FAILED = "done", "failed"

TRAINING = "training"
"""The folder of the run of an arm that trains."""


@dataclass(frozen=True)
class Job:
    """One arm with one seed."""

    arm: Arm
    seed: int
    config: Config
    folder: Path

    @property
    def training(self) -> RunFolder:
        """The run of an arm that trains."""
        return RunFolder(self.folder / TRAINING)

    @property
    def final_team(self) -> Path:
        """The folder of the team that the job has trained."""
        # A `RunFolder` makes its folder, and the job of an initial team may not have begun.
        return self.folder / TRAINING / "final_model"

    @property
    def initial_job(self) -> Path | None:
        """The folder of the job whose trained team this one trains further."""
        name = self.arm.initial_team
        return None if name is None else self.folder.with_name(f"{name}-seed-{self.seed}")

    @property
    def initial_team(self) -> Path | None:
        """The folder of that team."""
        first = self.initial_job
        return None if first is None else replace(self, folder=first).final_team

    @property
    def training_config(self) -> Config:
        """The configuration of the training, in the arm's own environment if it has one."""
        env_id = self.arm.train_env or self.config.env.id
        return replace(self.config, env=replace(self.config.env, id=env_id))

    @property
    def identity(self) -> dict[str, Any]:
        """Settings that decide the episodes of the job, without the seed and their number."""
        config = flat(self.config)
        # The seed and the output are in the name of the folder. The algorithm has no effect without
        # training.
        ignored = ["seed", "output", *([] if self.arm.trains else ["algorithm", "evaluation"])]
        settings = {key: value for key, value in config.items() if key not in ignored}
        if self.arm.trains and self.config.output.keep_best:
            settings["output"] = {"keep_best": True}  # decides the final team
        identity = {"method": self.arm.method, "greedy": self.arm.greedy, "config": settings}
        # Absent by default, so that folders of earlier versions fit. The size of a batch decides what is sampled.
        optional = ("train_env", "initial_team", "at_a_time")
        own = {key: getattr(self.arm, key) for key in optional}
        return identity | {key: own[key] for key in optional if own[key] != getattr(EvalSize, key)}

    @property
    def amount(self) -> dict[str, Any]:
        """Numbers of tasks and samples, which may be increased later."""
        return {"tasks": self.arm.tasks, "samples": self.arm.samples}

    def status(self) -> dict[str, Any]:
        """Return the content of `status.json`; empty if the job has not ended."""
        return read_status(self.folder)

    @property
    def done(self) -> bool:
        """True if the job has ended with its numbers of tasks and samples."""
        return is_done(self.status(), self.amount)

    def end(self, state: str, **details: Any) -> None:
        """Write `status.json`."""
        content = {"state": state, "amount": self.amount, **details}
        write_atomically(self.folder / "status.json", json.dumps(content, indent=2) + "\n")

    def write(self) -> None:
        """Write `job.json`, and remove the earlier `status.json`."""
        self.folder.mkdir(parents=True, exist_ok=True)
        # A job that starts again has not ended.
        (self.folder / "status.json").unlink(missing_ok=True)
        content = {"cell": asdict(self.arm), "seed": self.seed, "identity": self.identity}
        content |= {"config": flat(self.config)}
        if self.initial_job is not None:
            content["initial_identity"] = _read_identity(self.initial_job)
        write_atomically(self.folder / "job.json", json.dumps(content, indent=2) + "\n")


def read_status(folder: Path) -> dict[str, Any]:
    """Return the content of `status.json`; empty if a job has not ended."""
    path = folder / "status.json"
    status: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    return status


def is_done(status: Mapping[str, Any], target: Mapping[str, Any]) -> bool:
    """Check whether a job has ended with the tasks and samples of its arm or of `Job.amount`."""
    amount = {"tasks": target["tasks"], "samples": target["samples"]}
    return status.get("state") == DONE and status["amount"] == amount


def read_job(folder: Path) -> Job:
    """Read the job that `job.json` in a folder describes."""
    content = json.loads((folder / "job.json").read_text(encoding="utf-8"))
    arm = content["cell"]
    tuples = {key: tuple(arm[key]) for key in ("override", "seeds")}  # JSON has lists
    config = load_config(flags=canonical(content["config"]))
    return Job(Arm(**{**arm, **tuples}), content["seed"], config, folder)


def make_jobs(suite: Suite, output: Path, only: Sequence[str] = ()) -> list[Job]:
    """Return the jobs of a suite, with their configurations loaded and checked.

    The first seeds of all arms come first, so that an interrupted suite has measured all arms equally often. A job
    stands behind that of its initial team.

    Args:
        suite: The suite.
        output: Its folder.
        only: Names of arms; by default all.

    Raises:
        ConfigError: If `only` has an unknown name, or an arm's configuration is wrong.
    """
    names = [arm.name for arm in suite.arms]
    for name in only:
        if name not in names:
            raise ConfigError(unknown("arm", name, names))
    arms = [arm for arm in suite.arms if not only or arm.name in only]
    jobs = [job for arm in arms for job in _jobs(suite, arm, output)]
    arm_of = {arm.name: arm for arm in suite.arms}

    def rank(arm: Arm, seed: int) -> int:
        """Return the place of a seed in the arm, and never before the same seed of the initial team."""
        place = arm.seeds.index(seed)
        return max(place, rank(arm_of[arm.initial_team], seed)) if arm.initial_team else place

    return sorted(jobs, key=lambda job: rank(job.arm, job.seed))


def _jobs(suite: Suite, arm: Arm, output: Path) -> Iterator[Job]:
    beside = suite.path.parent / arm.config
    algorithm = [f"algorithm.name={arm.method}"] if is_algorithm(arm.method) else []
    try:
        path = beside if beside.is_file() else find_config(arm.config)
        config = load_config(path, [*arm.override, *algorithm], folder=suite.path.parent)
        if arm.split is not None:
            dataset = replace(config.dataset, eval_split=arm.split)
            config = replace(config, dataset=dataset)
        first = Job(arm, arm.seeds[0], config, output)
        # A wrong split or environment is an error before any job starts.
        with raise_config_errors():
            if arm.split is not None:
                config.make_eval_env()
            if arm.train_env is not None:
                first.training_config.make_train_env()
    except (ConfigError, ValueError) as error:
        raise ConfigError(f"arm {arm.name!r} of {suite.path}: {error}") from None
    for seed in arm.seeds:
        yield Job(arm, seed, replace(config, seed=seed), output / f"{arm.name}-seed-{seed}")


def _read_identity(folder: Path) -> dict[str, Any] | None:
    """Return the identity in `job.json`; `None` if there is no such file."""
    path = folder / "job.json"
    if not path.is_file():
        return None
    identity: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))["identity"]
    return identity


def require_initial_teams(jobs: Sequence[Job]) -> None:
    """Raise a `ConfigError` if jobs train the team of a job that has none and will not run."""
    unfinished = {job.folder for job in jobs if not job.done}
    for job in jobs:
        first, team = job.initial_job, job.initial_team
        if first is None or team is None or job.done or first in unfinished:
            continue
        if not (team / MANIFEST).is_file():
            name = job.arm.initial_team
            is_over = read_status(first).get("state") == DONE
            raise ConfigError(
                f"arm {job.arm.name} trains the team of {name}, and {team} does not exist: "
                + (f"remove {first}, and train it again" if is_over else f"add --only {name}")
            )


def refuse_others(jobs: Sequence[Job]) -> None:
    """Raise a `ConfigError` if a folder holds results of another arm, as after a change of the suite.

    Results of an arm are also those of another one if the arm of its initial team was changed.
    """
    planned = {job.folder: json.loads(json.dumps(job.identity)) for job in jobs}
    for job in jobs:
        # A folder without results may be replaced.
        results = (job.folder / name for name in ("manifest.json", "training/config.yaml"))
        if not any(path.exists() for path in results):
            continue
        content = json.loads((job.folder / "job.json").read_text(encoding="utf-8"))
        before, first = content["identity"], job.initial_job
        if first is not None and content.get("initial_identity") is not None:
            now = planned.get(first) or _read_identity(first)
            if now is not None and any(differences(content["initial_identity"], now)):
                raise ConfigError(
                    f"{job.folder} holds results of a team that another {job.arm.initial_team} had trained: "
                    "choose another --output, or remove that folder"
                )
        if not job.arm.trains:  # earlier versions stored it there, too
            before.pop("train_env", None)
        # JSON has lists in place of tuples.
        changes = differences(before, json.loads(json.dumps(job.identity)))
        differing = [key.removeprefix("config.") for key in changes]
        if differing:
            raise ConfigError(
                f"{job.folder} holds results of another arm ({in_short(differing)}): choose another "
                "--output, or remove that folder"
            )
