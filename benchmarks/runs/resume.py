"""An interrupted run that goes on, and one that is to go on for longer."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from llm_decpomdp.algorithms.rollout_workers.options import ClusterOptions
from llm_decpomdp.benchmarks.config.errors import (
    ConfigError,
    differences,
    in_short,
    raise_run_errors,
    writing,
)
from llm_decpomdp.benchmarks.config.load import read_config
from llm_decpomdp.benchmarks.config.schema import KEYS, Config, value_of
from llm_decpomdp.benchmarks.config.teams import check_machine
from llm_decpomdp.benchmarks.runs.checkpoints import has_results
from llm_decpomdp.benchmarks.runs.data import (
    change_of_data,
    plan_batches,
    schedule,
    skip_long_prompts,
)
from llm_decpomdp.benchmarks.runs.manifest import commit_of_package, identify_inputs, versions
from llm_decpomdp.benchmarks.runs.manifest import manifest as new_manifest
from llm_decpomdp.benchmarks.runs.setup import (
    ResolvedRun,
    load_policies,
    resolve,
)
from llm_decpomdp.benchmarks.runs.train import MakeCallback, Result, make_training, run_training
from llm_decpomdp.benchmarks.runs.warm_start import load_demonstrations
from llm_decpomdp.options import names
from llm_decpomdp.utils.storage import DamagedFile, RunFolder, read_json_lines, write_atomically

logger = logging.getLogger(__name__)


def resume(
    path: Path, overrides: Sequence[str] = (), callbacks: Sequence[MakeCallback] = ()
) -> Result:
    """Continue a run from its newest complete checkpoint, as if it had not stopped.

    It warns of damaged checkpoints, of a missing manifest, and of other versions of packages.

    Args:
        path: The run's folder.
        overrides: New values of `CHANGEABLE` keys, which are kept in the folder.
        callbacks: As in `train`.

    Raises:
        ConfigError: If `path` holds no run with a checkpoint, or a finished one that is to last no longer; an
            override is of another key, or would have changed the updates so far; or the data has changed.
        FolderInUse: If another process writes to the folder.
        RunError: As `train`.
        Interrupted: As `train`.
    """
    from llm_decpomdp.agents.inference.determinism import deterministic
    from llm_decpomdp.algorithms.learning import distributed as processes
    from llm_decpomdp.algorithms.training import checkpoint

    if not (path / "config.yaml").is_file():
        raise ConfigError(f"{path} holds no run: there is no config.yaml in it")
    folder = RunFolder(path)
    before, config = read_config(folder.config), read_config(folder.config, overrides)
    processes.initialize(config.learner.process_timeout)
    with ExitStack() as stack:
        with raise_run_errors():
            if config.learner.deterministic:
                stack.enter_context(deterministic())
        if processes.rank() == 0:
            with writing(path):
                stack.enter_context(folder.exclusive_access())
            # Otherwise the updates after the newest complete one could not be saved again.
            checkpoint.set_damaged_aside(folder.checkpoints)
        newest = processes.compute_on_first(lambda: checkpoint.latest(folder.checkpoints))
        if newest is None:
            raise ConfigError(_explain_no_checkpoint(folder, before))
        refuse_other_changes(before, config)
        record = processes.compute_on_first(lambda: _read_manifest(folder))
        # With the commits of the hub's data in the manifest, as branches move on.
        run = resolve(config, record.get("data"))
        if record:
            for part, env in (("train", run.train_env), ("eval", run.eval_env)):
                change = change_of_data(part, record["data"][part], env.metadata["data"])
                if change is not None:
                    raise ConfigError(f"{path} cannot go on: {change}")
            for name, now in identify_inputs(run).items():
                if name in record and now != record[name]:  # earlier versions knew fewer inputs
                    raise ConfigError(
                        f"{path} cannot go on: the {name} of its configuration have changed. Restore their files, "
                        "or begin a new run with the team: --from FOLDER"
                    )
        updates = checkpoint.read_counters(newest)["update"]
        if len(run.batches) < updates:
            raise ConfigError(
                f"{updates} updates are done, and the new budget is {len(run.batches)}: raise "
                "algorithm.max_updates or algorithm.num_train_epochs"
            )
        check_machine(run.config, run.team.policies)
        team = load_policies(run.config, run.envs, run.team, run.config.learner.fsdp_size > 1)
        run = skip_long_prompts(run, team)
        # Without a record of the problems that were left out, those of now stand in for them.
        _check_schedule(before, run, record.get("left_out", run.skipped), updates)
        # After the first update no demonstrations are left to learn.
        warm = run.config.warm_start.source is not None
        demonstrations = [] if warm and updates else load_demonstrations(run)
        training = make_training(run, team, folder, demonstrations)
        with raise_run_errors():
            done_before = training.trainer.resume()
        logger.info("continuing after update %d of %d", done_before, len(run.batches))
        if processes.rank() == 0:
            _record_session(folder, run, record, updates, overrides)
        return run_training(run, training, folder, callbacks)


def _read_manifest(folder: RunFolder) -> dict[str, Any]:
    """Read the manifest of a run; empty, with a warning, if it is missing or damaged."""
    try:
        return folder.read_manifest()
    except DamagedFile as error:
        logger.warning(
            "%s. A new manifest is written. It is not known whether the data are the same as before",
            error,
        )
        return {}


def _record_session(
    folder: RunFolder,
    run: ResolvedRun,
    record: Mapping[str, Any],
    updates: int,
    overrides: Sequence[str],
) -> None:
    """Write the overrides and versions of this session to the manifest; warn if the versions have changed."""
    manifest = dict(record) or {
        **new_manifest(run, folder.path.name),
        "left_out": run.skipped,
        "restored_after": updates,
    }
    now = {"packages": versions(), "git": commit_of_package()}
    sessions = [manifest, *manifest.get("resumed", [])]
    before = {key: next((s[key] for s in reversed(sessions) if key in s), None) for key in now}
    changes = [text for text in differences(before, now) if not text.startswith("git.dirty")]
    if changes:
        logger.warning(
            "the run goes on with other versions, so its results may differ from those of one without a stop: %s",
            in_short([change.removeprefix("packages.") for change in changes]),
        )
    if record and not overrides and not changes:  # nothing new to record
        return
    entry = {"after": updates, "overrides": list(overrides), **(now if changes else {})}
    write_atomically(folder.config, run.config.to_yaml())
    amount = {"left_out": run.skipped, "updates": len(run.batches)}
    later = [*manifest.get("resumed", []), entry]
    folder.write_manifest({**manifest, **amount, "resumed": later})


def _check_schedule(
    before: Config, run: ResolvedRun, left_out: Sequence[str], updates: int
) -> None:
    """Check that the complete updates of a run would have been the same, and that the data last for the others."""
    old, new = plan_batches(before, run.train_env, run.pairs, left_out), run.batches
    if old[:updates] != new[:updates]:
        raise ConfigError(
            f"other problems would be left out from the beginning, while {updates} updates are done: keep the "
            "limit of prompts and what happens to long ones, or begin a new run with the team: --from FOLDER"
        )
    algorithm, budget = run.config.algorithm, run.config.algorithm.max_updates
    if budget != before.algorithm.max_updates and len(new) < (budget or 0):
        raise ConfigError(
            f"algorithm.max_updates={budget}, but the data have {len(new)} updates with "
            f"algorithm.num_train_epochs={algorithm.num_train_epochs}: raise that too"
        )
    lag = algorithm.rollout.max_async_level
    if lag and len(old) < min(len(new), updates + 1 + lag):
        logger.warning(
            "with algorithm.rollout.max_async_level=%d a run samples ahead, and this run was to end after "
            "update %d: the next updates learn from current weights, so the run differs from one that was planned "
            "with this length",
            lag,
            len(old),
        )
    aggregation = run.learner.joint_aggregation.name
    falling = {
        "lr_schedule": (algorithm.lr_schedule, algorithm.lr_schedule != "constant"),
        "joint_aggregation": (aggregation, aggregation == "annealed"),
    }
    for key, (value, falls) in falling.items():
        if not falls or len(new) == len(old):
            continue
        logger.warning(
            "algorithm.%s=%s now falls to the end of %d updates and fell to that of %d before: the run "
            "will not equal one that was this long from the start",
            key,
            value,
            len(new),
            len(old),
        )


def _explain_no_checkpoint(folder: RunFolder, config: Config) -> str:
    if not has_results(folder):
        return (
            f"{folder.path} holds no checkpoint, since the run ended before its first update: start it again with "
            f"the command that started it, or with train --config {folder.config}"
        )
    updates = [row["update"] for row in read_json_lines(folder.metrics) if row["kind"] == "train"]
    if updates and folder.manifest.is_file():
        manifest = folder.read_manifest()
        data = manifest.get("pairs", manifest["data"]["train"])
        rows = data["rows"] - (0 if "pairs" in manifest else len(manifest.get("left_out", ())))
        # Only the number of the problems counts here.
        if max(updates) >= len(schedule(config, [""] * rows)):
            return (
                f"the run {folder.path} is finished: there is no update left to continue with, and no checkpoint "
                "to go on from for longer; a new run that begins with its team, if it has kept one: --from "
                f"{folder.path}"
            )
    return (
        f"{folder.path} holds no checkpoint, so there is nothing to continue from: start the run again with "
        f"another output.name, or delete the folder first (train --config {folder.config} has its settings)"
    )


# Keys of a configuration that a run may change when it goes on


CHANGEABLE = (
    "algorithm.num_train_epochs",
    "algorithm.max_updates",
    *(f"cluster.{key}" for key in names(ClusterOptions)),
    "learner.fsdp_size",
    "learner.reduce_once",
    "learner.gather_for_generation",
    "learner.process_timeout",
    "inference.urls",
    "inference.python",
    "inference.flags",
    "inference.timeout",
    "inference.start_timeout",
    "inference.max_restarts",
    "inference.max_mismatch",
    "output.checkpoint_every",
    "output.checkpoint_minutes",
    "output.keep_checkpoints",
    "output.report_every",
    "output.save_final_model",
    "model.name",
    "model.max_prompt_tokens",
    "model.on_long_prompt",
)
"""Keys that a run may change when it goes on: length, shards, workers, servers, what it saves, long prompts.
The weights below a name are compared with those of the checkpoint, so that only their place may change."""


OF_POLICIES = ("name", "max_prompt_tokens", "on_long_prompt", "sample_on")
"""Keys of single policies that it may change: `policies.<name>.on_long_prompt`."""


def refuse_other_changes(before: Config, now: Config) -> None:
    """Refuse configurations that differ by more than a resumed run may change.

    Raises:
        ConfigError: If a key was changed that is not in `CHANGEABLE` or `OF_POLICIES`.
    """
    changes = [key for key in KEYS if value_of(before, key) != value_of(now, key)]
    keys = [key for key in changes if key not in CHANGEABLE and key != "policies"]
    old, new = value_of(before, "policies"), value_of(now, "policies")
    for name in dict.fromkeys([*old, *new]):
        if _lasting_keys(old.get(name)) != _lasting_keys(new.get(name)):
            keys.append(f"policies.{name}")
    if keys:
        raise ConfigError(
            f"a resumed run keeps its {', '.join(keys)}; it may change {', '.join(CHANGEABLE)}, and of a "
            f"policy {', '.join(OF_POLICIES)}. To change more, begin a new run with its team: --from FOLDER"
        )


def _lasting_keys(policy: Any) -> dict[str, Any]:
    declared = policy or {}
    # The weights below the name of a local model are compared later; other names stand for themselves.
    keeps_name = declared.get("kind", "model") != "model"
    free = [key for key in OF_POLICIES if not (keeps_name and key == "name")]
    return {key: value for key, value in declared.items() if key not in free}
