"""The saving of a run: the state that it continues from, and its best policies."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from llm_decpomdp.algorithms.learning import distributed as processes
from llm_decpomdp.algorithms.learning.base_learner import BaseLearner
from llm_decpomdp.algorithms.rewards.refitting import RewardModelUpdater
from llm_decpomdp.algorithms.rewards.reward_model import RewardModel
from llm_decpomdp.algorithms.training import checkpoint
from llm_decpomdp.algorithms.training.async_rollouts import Lagged
from llm_decpomdp.algorithms.training.base_models import base_models, require_same_models
from llm_decpomdp.algorithms.training.curriculum import Curriculum
from llm_decpomdp.algorithms.training.expert_iteration import ExpertIteration
from llm_decpomdp.algorithms.training.interruption import uninterrupted
from llm_decpomdp.algorithms.training.resources import checkpoint_bytes, require_room, state_bytes
from llm_decpomdp.algorithms.training.sft import SupervisedTraining
from llm_decpomdp.algorithms.training.sft_data import WarmStartOptions
from llm_decpomdp.algorithms.training.trainer_options import TrainerOptions
from llm_decpomdp.policy import Policy, Stateful, TrainablePolicy

logger = logging.getLogger(__name__)

FREE = (
    "eval_every",
    "keep_best",
    "checkpoint_every",
    "checkpoint_minutes",
    "keep_checkpoints",
    "record_tokens",
    "total_updates",
)
"""Options that a run may change when it goes on: its records and its length."""

PATIENCE = 20
"""Minimum ratio of the time between two checkpoints by time to the time of writing one."""


class CheckpointManager:
    """Writes and reads the checkpoints of a learner; the first of several processes alone writes.

    Args:
        folder: The run's `checkpoints/`.
        learner: The learner to save.
        options: The number of checkpoints to keep, and the identity of the run.
        policies: All policies of the team, by name.
        warm_start: What comes before the first update, if anything does.
        reward_model: What the learner is given scores of, if that is not the task's reward.
        refitting: What fits it anew, if it changes.
        lagged: What holds the batches of later updates, if any wait.
        curriculum: What draws problems by measured pass rates, if anything does.
    """

    def __init__(
        self,
        folder: Path,
        learner: BaseLearner,
        options: TrainerOptions,
        policies: Mapping[str, Policy],
        warm_start: SupervisedTraining | ExpertIteration | None = None,
        reward_model: RewardModel | None = None,
        refitting: RewardModelUpdater | None = None,
        lagged: Lagged | None = None,
        curriculum: Curriculum | None = None,
    ) -> None:
        self.folder = folder
        self.warm_start = warm_start
        self.curriculum = curriculum
        self.learner = learner
        parts = {"warm_start": warm_start, "reward_model": refitting, "waiting": lagged}
        self._parts: dict[str, Stateful] = {
            "learner": learner,
            **{name: part for name, part in parts.items() if part is not None},
        }
        self.options = options
        self.newest: int | None = None
        """The newest update with a checkpoint, if any."""
        self._saved: tuple[int, int] | None = None
        self._saved_at, self._seconds_of_saving = time.monotonic(), 0.0
        self._torn = False  # True while weights or records are those of no complete update
        self._partners = {
            name: policy
            for name, policy in policies.items()
            if isinstance(policy, Stateful) and not isinstance(policy, TrainablePolicy)
        }
        self._mark()
        self.base_models = base_models(policies)
        """The frozen models of the policies."""
        self._identity = {
            "algorithm": learner.algorithm.name,
            "policies": sorted(policies),
            **{name: value for name, value in asdict(options).items() if name not in FREE},
            **{name: value for name, value in asdict(learner.options).items() if name not in FREE},
            **({} if warm_start is None else {"warm_start": asdict(warm_start.options)}),
            **({} if reward_model is None else {"reward_model_is": reward_model.fingerprint}),
        }

    def require_room(self) -> None:
        """Check that the disk will hold all checkpoints at once, before anything is spent on them.

        Raises:
            OSError: If it won't.
        """
        parameters = [p for policy in self.learner.policies.values() for p in policy.parameters()]
        saves = self.options.checkpoint_every or self.options.checkpoint_minutes
        number = self.options.keep_checkpoints if saves else 0
        # A new one comes before an old one goes.
        size = (number + 1) * checkpoint_bytes(parameters)
        if self.options.keep_best:
            size += 2 * state_bytes(parameters)
        require_room(self.folder.parent, size, "the run with its checkpoints")

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Change weights and records in this context, from those of one complete update to those of the next.

        It isn't interrupted, but may fail: then nothing more can be saved.
        """
        with uninterrupted():
            self._torn = True
            yield
            self._mark()
            self._torn = False

    def _mark(self) -> None:
        """Note that an update is complete: what is sampled or measured later is not saved with it."""
        self._partner_states = {
            name: policy.state_dict() for name, policy in self._partners.items()
        }
        self._measured = self.curriculum.state_dict() if self.curriculum else None

    def save_if_due(self, total: int) -> None:
        """Write a checkpoint of the last complete update or step if the options want one.

        With weights in shards all processes call this at the same time; errors as of `save`.
        """
        every, minutes = self.options.checkpoint_every, self.options.checkpoint_minutes
        update = self.learner.updates
        pause = time.monotonic() - self._saved_at
        late = pause >= max(60 * minutes, PATIENCE * self._seconds_of_saving)
        due = bool(every and update and (update % every == 0 or update == total))
        if minutes and not due:
            due = processes.compute_on_first(lambda: late) or (
                update == total and self.newest is not None
            )
        if due:
            self.save()

    def save(self) -> None:
        """Write a checkpoint of the last complete update, unless there is one.

        With weights in shards all processes call this at the same time.

        Raises:
            OSError: If the disk has no room for it.
            RuntimeError: If an update failed half way.
        """
        if self._torn:
            raise RuntimeError("an update failed half way, and the weights are those of no update")
        first = processes.rank() == 0
        begin = time.monotonic()
        if (first or self.learner.is_sharded) and self._saved != self._progress:
            state = {
                "policies": self._states(),
                "partners": self._partner_states,
                **({} if self._measured is None else {"curriculum": self._measured}),
                **{name: part.state_dict() for name, part in self._parts.items()},
            }
            if first:
                require_room(self.folder.parent, state_bytes(state), "a checkpoint")
                keep = self.options.keep_checkpoints
                logger.info("saved %s", checkpoint.save(self.folder, self._counters(), state, keep))
        self._note_saved()
        self._seconds_of_saving = self._saved_at - begin

    def resume(self) -> int:
        """Load the newest complete checkpoint, and return the number of complete updates.

        Damaged newer ones are set aside.

        Raises:
            FileNotFoundError: If there is none.
            ValueError: If it is of a run with another algorithm, team or options, but for `FREE` ones.
        """
        if processes.rank() == 0:
            checkpoint.set_damaged_aside(self.folder)
        newest = processes.compute_on_first(lambda: checkpoint.latest(self.folder))
        if newest is None:
            raise FileNotFoundError(
                f"no checkpoint to resume from in {self.folder}; start the run again in another folder"
            )
        counters, state = checkpoint.load(newest)
        if "warm_start" in counters:  # perhaps of a version with fewer options
            counters["warm_start"] = asdict(WarmStartOptions()) | counters["warm_start"]
        identity = json.loads(json.dumps(self._identity))  # as it is read again
        names = [*identity, *({"warm_start"} & counters.keys() - identity.keys())]
        differing = [name for name in names if counters.get(name) != identity.get(name)]
        if differing:
            changes = "; ".join(
                f"{name} was {counters.get(name)}, not {identity.get(name)}" for name in differing
            )
            raise ValueError(f"{newest} is of another run: {changes}")
        require_same_models(counters.get("base_models"), self.base_models, newest)
        if counters["processes"] != processes.world_size():
            bundled = self.options.starts_per_bundle is not None
            logger.warning(
                "the run goes on in %d processes and began in %d, so %s one that never stopped",
                *(processes.world_size(), counters["processes"]),
                "the last digits of its weights may differ from"
                if bundled
                else "it will not equal",
            )
        self._load(state)
        for name, partner in self._partners.items():
            partner.load_state_dict(state["partners"][name])
        if self.curriculum is not None:
            self.curriculum.load_state_dict(state["curriculum"])
        self._mark()
        for name, part in self._parts.items():
            part.load_state_dict(state[name])
        self._note_saved()
        return self.learner.updates

    @property
    def _progress(self) -> tuple[int, int]:
        """Complete updates and, before the first, steps of the warm start."""
        updates = self.learner.updates
        return updates, self.warm_start.steps if self.warm_start and not updates else 0

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
            state = {"policies": self._states()}
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
        self._load(state)
        return {key: counters[key] for key in ("update", "reward_mean")}

    def _load(self, state: dict[str, Any]) -> None:
        for name, policy in self.learner.policies.items():
            policy.load_state_dict(state["policies"][name])

    def _states(self) -> dict[str, dict[str, Any]]:
        return {name: policy.state_dict() for name, policy in self.learner.policies.items()}

    def _counters(self) -> dict[str, Any]:
        updates, lessons = self._progress
        counters: dict[str, Any] = {
            "update": updates,
            "processes": processes.world_size(),
            "base_models": self.base_models,
        }
        return counters | ({"lessons": lessons} if lessons else {}) | self._identity
