"""Checkpoints of a run: the state that it continues from, and its best policies."""

from __future__ import annotations

import json
import logging
import shutil
import time
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import torch
from rich.filesize import decimal

from llm_decpomdp.algorithms.learning import distributed as processes
from llm_decpomdp.algorithms.learning.learner_options import LearnerOptions
from llm_decpomdp.algorithms.rollouts.rollout_options import StorageOptions, TrainerOptions
from llm_decpomdp.algorithms.training import checkpoint
from llm_decpomdp.algorithms.training.callbacks import Interrupted, TrainerCallback
from llm_decpomdp.algorithms.training.trainer import Trainer
from llm_decpomdp.options import flatten, names
from llm_decpomdp.policy import Stateful, TrainablePolicy, distinct_policies, policy_attribute
from llm_decpomdp.utils.storage import RunFolder

logger = logging.getLogger(__name__)

FREE = (*names(StorageOptions), "eval_every", "total_updates")
"""Options that a run may change when it goes on: its records and its length."""

BaseModels = Mapping[str, Mapping[str, str]]
"""For each policy the `name` and `weights` (a digest) of its model, and the `revision` of a model on the hub."""

# Minimum ratio of the time between two checkpoints by time to the time of writing one: at most a twentieth.
PATIENCE = 20


class CheckpointManager(TrainerCallback):
    """Writes and reads the checkpoints of a run, and locks its folder; only the first process writes.

    A checkpoint holds the learner, the policies that learn, stateful partners, and callbacks with a `state_key`.

    Args:
        folder: The run folder.
    """

    option_names = ("checkpoint_every", "checkpoint_minutes", "keep_checkpoints", "keep_best")

    def __init__(self, folder: RunFolder) -> None:
        self.run_folder, self.folder = folder, folder.checkpoints
        self.newest: int | None = None
        """The newest update with a checkpoint, if any."""
        self._lock = ExitStack()
        self._saved: tuple[int, int] | None = None
        self._saved_at, self._seconds_of_saving = time.monotonic(), 0.0

    def on_init_end(self, trainer: Trainer) -> None:
        """Note the identity of the run, which a checkpoint must have."""
        self.trainer, self.learner, self.options = trainer, trainer.learner, trainer.options
        policies = distinct_policies(trainer.team)
        self._partners = {
            name: policy
            for name, policy in policies.items()
            if isinstance(policy, Stateful) and not isinstance(policy, TrainablePolicy)
        }
        self._parts: dict[str, Stateful] = {"learner": self.learner}
        self._parts |= {part.state_key: part for part in trainer.callbacks if part.state_key}
        self.base_models: BaseModels = {
            name: dict(model)
            for name, policy in policies.items()
            if (model := policy_attribute(policy, "base_model"))
        }
        """The frozen models of the policies."""
        options = {**flatten(self.options), **flatten(self.learner.options)}
        self._identity: dict[str, Any] = {
            "algorithm": self.learner.algorithm.name,
            "policies": sorted(policies),
            **{name: value for name, value in options.items() if name not in FREE},
        }
        for part in trainer.callbacks:
            self._identity |= part.identity
        self.on_update_end(trainer)

    def on_update_end(self, trainer: Trainer) -> None:
        """Note the state of the partners."""
        # Copied now: evaluations and later samples change it before the checkpoint is written.
        self._partner_states = {
            name: policy.state_dict() for name, policy in self._partners.items()
        }

    def on_train_begin(self, trainer: Trainer) -> None:
        """Lock the folder, and check that the disk will hold all checkpoints of a new run at once.

        Raises:
            FolderInUse: If another process writes to the folder.
            OSError: If the disk has no room.
        """
        self._lock_folder()
        if self.newest is not None:
            return
        parameters = [p for policy in self.learner.policies.values() for p in policy.parameters()]
        saves = self.options.checkpoint_every or self.options.checkpoint_minutes
        number = self.options.keep_checkpoints if saves else 0
        # A new checkpoint is written before an old one is removed.
        size = (number + 1) * checkpoint_bytes(parameters)
        if self.options.keep_best:
            size += 2 * state_bytes(parameters)  # the best so far, and the one that replaces it
        require_room(self.folder.parent, size, "the run with its checkpoints")

    def _lock_folder(self) -> None:
        if processes.rank() == 0:
            self._lock.enter_context(self.run_folder.exclusive_access())

    def on_train_end(self, trainer: Trainer) -> None:
        """Unlock the folder."""
        self._lock.close()

    def on_step_end(self, trainer: Trainer) -> None:
        """Write a checkpoint if the options want one.

        With weights in shards all processes call this at the same time. Raises the errors of `save`.

        Raises:
            TypeError: If a state cannot be loaded again, after the first update.
        """
        every, minutes = self.options.checkpoint_every, self.options.checkpoint_minutes
        update, total = self.learner.updates, trainer.total
        if update == 1:  # and not hours later, by a checkpoint that cannot be loaded
            self._require_loadable()
        wait = max(60 * minutes, PATIENCE * self._seconds_of_saving)
        late = time.monotonic() - self._saved_at >= wait
        due = bool(every and update and (update % every == 0 or update == total))
        if minutes and not due:
            # The clocks of processes differ, so the first one decides for all.
            due = processes.compute_on_first(lambda: late) or (
                update == total and self.newest is not None
            )
        if due:
            self.save()

    def _require_loadable(self) -> None:
        algorithm = self.learner.algorithm
        checkpoint.require_loadable(algorithm.name, algorithm.state_dict())
        for name, state in self._partner_states.items():
            checkpoint.require_loadable(f"the policy of {name}", state)
        for name, part in self._parts.items():
            if part is not self.learner:
                checkpoint.require_loadable(f"the callback {name!r}", part.state_dict())

    def on_evaluate(self, trainer: Trainer, row: Mapping[str, Any]) -> None:
        """Keep the policies of the best evaluation, if the options want it."""
        if self.options.keep_best:
            self.save_best(row["reward_mean"])

    def on_exception(self, trainer: Trainer, failure: BaseException) -> None:
        """Save the last complete update. A state that cannot be loaded again is logged.

        Raises:
            Interrupted: If a signal ends the run; names the folder to continue from.
            OSError: If the disk has no room.
            RuntimeError: If an update failed half way.
        """
        interrupted = isinstance(failure, KeyboardInterrupt)
        if self.learner.is_sharded:
            logger.error(
                "weights in shards are not saved on the way out, as that takes all processes at the same "
                "time: the newest checkpoint is that of update %s",
                self.newest,
            )
        elif interrupted or self.learner.updates:
            try:
                self.save()
            except TypeError as error:  # must not hide the failure, which may be the same
                logger.error("update %s is not saved: %s", self.learner.updates, error)
        if interrupted and self.newest is not None:
            raise Interrupted(self.run_folder.path, self.newest, trainer.total) from failure

    def save(self) -> None:
        """Write a checkpoint of the last complete update, unless there is one.

        With weights in shards all processes call this at the same time.

        Raises:
            OSError: If the disk has no room for it.
            RuntimeError: If an update failed half way.
        """
        if not self.trainer.is_complete:
            raise RuntimeError("an update failed half way, and the weights are those of no update")
        first = processes.rank() == 0
        begin = time.monotonic()
        is_new = self._saved != self._progress
        if is_new and (first or self.learner.is_sharded):
            state = {
                "policies": self._policy_states(),
                "partners": self._partner_states,
                **{name: part.state_dict() for name, part in self._parts.items()},
            }
            if first:
                require_room(self.folder.parent, state_bytes(state), "a checkpoint")
                keep = self.options.keep_checkpoints
                logger.info("saved %s", checkpoint.save(self.folder, self._counters(), state, keep))
        self._note_saved()
        self._seconds_of_saving = self._saved_at - begin
        if is_new:
            self.trainer.notify("on_save")

    def on_resume(self, trainer: Trainer) -> None:
        """Lock the folder, and load its newest complete checkpoint; damaged newer ones are set aside.

        Raises:
            FileNotFoundError: If there is none.
            FolderInUse: If another process writes to the folder.
            ValueError: If it is of a run with another algorithm, team or options, but for `FREE` ones.
        """
        self._lock_folder()
        if processes.rank() == 0:
            checkpoint.set_damaged_aside(self.folder)
        newest = processes.compute_on_first(lambda: checkpoint.latest(self.folder))
        if newest is None:
            raise FileNotFoundError(
                f"no checkpoint to resume from in {self.folder}; start the run again in another folder"
            )
        counters, state = checkpoint.load(newest)
        self._require_same_run(checkpoint.translate_counters(counters), newest)
        self._load_policies(state)
        for name, partner in self._partners.items():
            partner.load_state_dict(state["partners"][name])
        self.on_update_end(trainer)
        # After the policies: the optimizers of the learner may copy their weights.
        for name, part in self._parts.items():
            part.load_state_dict(state[name])
        trainer.num_sft_steps = counters.get("lessons", 0)
        self._note_saved()

    def _require_same_run(self, counters: dict[str, Any], path: Path) -> None:
        """Check that a checkpoint is of this run; raises the `ValueError` of `on_resume`."""
        identity = json.loads(json.dumps(self._identity))  # tuples become lists, as in the file
        # What an earlier version lacked was as it is by default now.
        counters = {**flatten(TrainerOptions()), **flatten(LearnerOptions()), **counters}
        keys = [*identity, *({"warm_start"} & counters.keys() - identity.keys())]
        differing = [name for name in keys if counters.get(name) != identity.get(name)]
        if differing:
            changes = "; ".join(
                f"{name} was {counters.get(name)}, not {identity.get(name)}" for name in differing
            )
            raise ValueError(f"{path} is of another run: {changes}")
        require_same_models(counters.get("base_models"), self.base_models, path)
        if counters["processes"] != processes.world_size():
            # Without rollout batches, the random streams are those of the processes.
            differs = "it will not equal"
            if self.options.rollout_batch_size is not None:
                differs = "the last digits of its weights may differ from"
            logger.warning(
                "the run goes on in %d processes and began in %d, so %s one that never stopped",
                processes.world_size(),
                counters["processes"],
                differs,
            )

    @property
    def _progress(self) -> tuple[int, int]:
        """Complete updates and, before the first, steps of the warm start."""
        updates = self.learner.updates
        return updates, 0 if updates else self.trainer.num_sft_steps

    def _note_saved(self) -> None:
        self.newest, self._saved = self.learner.updates, self._progress
        self._saved_at = time.monotonic()

    def save_best(self, reward: float) -> None:
        """Keep the policies as they are if no evaluation before had a mean reward as high.

        Raises:
            OSError: If the disk has no room for them.
        """
        if self.learner.is_sharded:
            best = processes.compute_on_first(lambda: self._is_best(reward))
        else:
            best = processes.rank() == 0 and self._is_best(reward)
        if best:
            state = {"policies": self._policy_states()}
            if processes.rank() == 0:
                require_room(self.folder.parent, state_bytes(state), "keeping the best policies")
                checkpoint.save_best(self.folder, self._counters() | {"reward_mean": reward}, state)

    def _is_best(self, reward: float) -> bool:
        before = checkpoint.best(self.folder)
        return before is None or reward > checkpoint.read_counters(before)["reward_mean"]

    def load_best(self) -> dict[str, Any]:
        """Load the policies of `save_best`, and return the `update` and `reward_mean` of their evaluation.

        Raises:
            FileNotFoundError: If there are none.
        """
        best = checkpoint.best(self.folder)
        if best is None:
            raise FileNotFoundError(f"no best policies in {self.folder}: keep_best was not set")
        counters, state = checkpoint.load(best)
        self._load_policies(state)
        return {key: counters[key] for key in ("update", "reward_mean")}

    def _load_policies(self, state: dict[str, Any]) -> None:
        for name, policy in self.learner.policies.items():
            policy.load_state_dict(state["policies"][name])

    def _policy_states(self) -> dict[str, dict[str, Any]]:
        return {name: policy.state_dict() for name, policy in self.learner.policies.items()}

    def _counters(self) -> dict[str, Any]:
        updates, lessons = self._progress
        counters: dict[str, Any] = {"update": updates, "processes": processes.world_size()}
        counters["base_models"] = self.base_models
        return counters | ({"lessons": lessons} if lessons else {}) | self._identity


def require_same_models(before: BaseModels | None, now: BaseModels, checkpoint: Path) -> None:
    """Check that the frozen models have the same weights as at the start of a run. Their names may differ.

    Args:
        before: Frozen models in the checkpoint; `None` if an older version without them wrote it.
        now: Frozen models that were loaded.
        checkpoint: The checkpoint, for the message.

    Raises:
        ValueError: If a model has other weights.
    """
    if before is None:
        if now:
            logger.warning("%s has no digests of its frozen models: not compared", checkpoint)
        return
    for policy in (policy for policy in before if policy in now):
        old, new = before[policy], now[policy]
        if old["weights"] == new["weights"]:
            continue
        if "revision" in old:
            known = f"revision {old['revision']} of {old['name']!r}"
            remedy = (
                f"get it with hf download {old['name']} --revision {old['revision']} --local-dir FOLDER, and "
                "resume with --override model.name=FOLDER (or policies.<name>.name)"
            )
        else:
            known = f"{old['name']!r} (digest {old['weights'][:12]})"
            remedy = (
                "restore its files, or name a folder that has them: --override model.name=FOLDER (or "
                "policies.<name>.name)"
            )
        is_now = new.get("revision") or f"digest {new['weights'][:12]}"
        raise ValueError(
            f"{checkpoint} cannot go on: the model {new['name']!r} below the policy of {policy} has other weights "
            f"({is_now}) than at the start of the run, when it was {known}; {remedy}"
        )


def require_room(folder: Path, needed: int, purpose: str) -> None:
    """Raise an `OSError` unless the disk of `folder`, which must exist, has `needed` bytes left."""
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise OSError(
            f"{purpose} needs {decimal(needed)}, and {decimal(free)} are free on the disk of "
            f"{folder}: free some, choose a folder on another disk, lower keep_checkpoints, or train "
            "adapters (lora), whose checkpoints are small"
        )


def checkpoint_bytes(parameters: Iterable[torch.nn.Parameter]) -> int:
    """Estimate the size of a checkpoint in bytes: weights, moments and float32 copies of trainable parameters."""
    # AdamW has two float32 moments (8 bytes), and 16-bit weights a float32 copy (4 more).
    return sum(
        parameter.numel() * (parameter.element_size() + (8 if parameter.element_size() > 2 else 12))
        for parameter in parameters
        if parameter.requires_grad
    )


def state_bytes(state: Any) -> int:
    """Add up the bytes of the tensors and texts within a container of containers."""
    if isinstance(state, torch.Tensor):
        return state.nbytes
    if isinstance(state, str):
        return len(state)
    if isinstance(state, Mapping):
        return sum(map(state_bytes, state.values()))
    return sum(map(state_bytes, state)) if isinstance(state, (list, tuple)) else 0
