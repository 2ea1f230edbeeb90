"""An interrupted run that goes on, and one that is to go on for longer."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from operator import attrgetter
from pathlib import Path
from typing import Any

from llm_decpomdp.benchmarks.config import teams
from llm_decpomdp.benchmarks.config.errors import ConfigError
from llm_decpomdp.benchmarks.config.load import load_config, load_stored_config
from llm_decpomdp.benchmarks.config.options import schedule
from llm_decpomdp.benchmarks.config.schema import KEYS, Config
from llm_decpomdp.benchmarks.config.trackers import require_packages
from llm_decpomdp.benchmarks.runs import train as run
from llm_decpomdp.benchmarks.runs.splits import change_of_data
from llm_decpomdp.utils.storage import RunFolder, read_json_lines, write_atomically

CHANGEABLE = (
    "algorithm.num_train_epochs",
    "algorithm.max_updates",
    "output.checkpoint_every",
    "output.keep_checkpoints",
    "output.save_final_model",
    "model.max_prompt_tokens",
    "model.on_long_prompt",
)
"""What a run may change when it goes on: how long it lasts, what it saves, and what it does with long prompts."""

OF_POLICIES = ("max_prompt_tokens", "on_long_prompt")
"""The same of single policies: `policies.<name>.on_long_prompt`."""

logger = logging.getLogger(__name__)


def resume(path: Path, overrides: Sequence[str] = ()) -> run.Result:
    """Continue a run from its newest checkpoint, as if it had not stopped.

    Args:
        path: The run's folder.
        overrides: New values of `CHANGEABLE` keys, which are kept in the folder.

    Raises:
        ConfigError: If `path` holds no run with a checkpoint, or a finished one that is to last no longer; an
            override is of another key, or would have changed the updates so far; or the data has changed.
        RunError: As `run.train`.
        Interrupted: As `run.train`.
    """
    from llm_decpomdp.algorithms.learning import distributed as processes
    from llm_decpomdp.algorithms.training import checkpoint

    processes.initialize()
    if not (path / "config.yaml").is_file():
        raise ConfigError(f"{path} holds no run: there is no config.yaml in it")
    newest, folder = checkpoint.latest(path / "checkpoints"), RunFolder(path)
    if newest is None:
        raise ConfigError(_why_not(folder))
    before = load_config(folder.config)
    config = load_config(folder.config, overrides)
    _refuse_others(before, config)
    require_packages(config.output.trackers)
    manifest = folder.read_manifest()
    train_env, eval_env = run.load_envs(config, manifest["data"])
    for part, env in (("train", train_env), ("eval", eval_env)):
        change = change_of_data(part, manifest["data"][part], env.metadata["data"])
        if change is not None:
            raise ConfigError(f"{path} cannot go on: {change}")
    team = teams.load(config, (train_env, eval_env))
    skipped = run.left_out(config, train_env, eval_env, team)
    done = checkpoint.read_counters(newest)["update"]
    tasks = [task.task_id for task in train_env.tasks.tasks]
    old = schedule(before, tasks, manifest.get("left_out", ()))
    new = schedule(config, tasks, skipped)
    _require_same_past(old, new, done)
    asked = config.algorithm.max_updates
    if asked != before.algorithm.max_updates and len(new) < (asked or 0):
        raise ConfigError(
            f"algorithm.max_updates={asked}, but the data have {len(new)} updates with algorithm.num_train_epochs="
            f"{config.algorithm.num_train_epochs}: raise that too"
        )
    if config.algorithm.lr_schedule != "constant" and len(new) != len(old):
        logger.warning(
            "algorithm.lr_schedule=%s now falls to the end of %d updates and fell to that of %d before: the run "
            "will not equal one that was this long from the start",
            *(config.algorithm.lr_schedule, len(new), len(old)),
        )
    trainer = run.make_trainer(config, train_env, eval_env, team, folder, skipped)
    logger.info("continuing after update %d of %d", trainer.resume(), len(new))
    if overrides and processes.rank() == 0:
        resumed = [*manifest.get("resumed", []), {"after": done, "overrides": list(overrides)}]
        write_atomically(folder.config, config.to_yaml())
        folder.write_manifest({**manifest, "left_out": skipped, "resumed": resumed})
    return run.finish(config, trainer, folder)


def _why_not(folder: RunFolder) -> str:
    """Why a run without checkpoints does not go on."""
    if not _finished(folder):
        return f"{folder.path} holds no checkpoint, so there is nothing to continue from"
    return (
        f"the run {folder.path} is finished: there is no update left to continue with, and no checkpoint to go on "
        f"from for longer; a new run that begins with its team, if it has kept one: --from {folder.path}"
    )


def _finished(folder: RunFolder) -> bool:
    """Whether the rows of a run are those of all its updates."""
    done = [row["update"] for row in read_json_lines(folder.metrics) if row["kind"] == "train"]
    if not done or not folder.manifest.is_file():
        return False
    manifest = folder.read_manifest()
    tasks = manifest["data"]["train"]["rows"] - len(manifest.get("left_out", ()))
    return bool(max(done) >= len(schedule(load_stored_config(folder.config), [""] * tasks)))


def _refuse_others(before: Config, now: Config) -> None:
    """Raise a `ConfigError` if two configurations differ by more than a resumed run may change."""
    changed = [key for key in _changed(before, now) if key not in CHANGEABLE]
    if changed:
        raise ConfigError(
            f"a resumed run keeps its {', '.join(changed)}; it may change {', '.join(CHANGEABLE)}, and of a "
            f"policy {', '.join(OF_POLICIES)}. To change more, begin a new run with its team: --from FOLDER"
        )


def _changed(before: Config, now: Config) -> Iterator[str]:
    for key in KEYS:
        old, new = attrgetter(key)(before), attrgetter(key)(now)
        if key != "policies":
            if old != new:
                yield key
            continue
        for name in dict.fromkeys([*old, *new]):
            if _lasting(old.get(name)) != _lasting(new.get(name)):
                yield f"policies.{name}"


def _lasting(policy: Any) -> dict[str, Any]:
    """What of a policy's declaration stays."""
    return {key: value for key, value in (policy or {}).items() if key not in OF_POLICIES}


def _require_same_past(before: Sequence[Any], now: Sequence[Any], done: int) -> None:
    """Raise a `ConfigError` unless the updates so far would have been the same."""
    if len(now) < done:
        raise ConfigError(
            f"{done} updates are done, and the new budget is {len(now)}: raise algorithm.max_updates or "
            "algorithm.num_train_epochs"
        )
    if before[:done] != now[:done]:
        raise ConfigError(
            f"other problems would be left out from the beginning, while {done} updates are done: keep the "
            "limit of prompts and what happens to long ones, or begin a new run with the team: --from FOLDER"
        )
