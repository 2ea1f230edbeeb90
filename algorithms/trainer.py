"""The training loop: sample, update, evaluate, write down, and continue where a run was stopped."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from llm_decpomdp.algorithms import checkpoint
from llm_decpomdp.algorithms.chain import HANDOFFS, rollout_chains
from llm_decpomdp.algorithms.interruption import Interrupted, uninterrupted
from llm_decpomdp.algorithms.learner import Algorithm, Learner
from llm_decpomdp.algorithms.options import LearnerOptions
from llm_decpomdp.algorithms.progress import ProgressBar
from llm_decpomdp.algorithms.records import (
    count_tokens,
    episode_row,
    evaluation_metrics,
    reward_metrics,
)
from llm_decpomdp.algorithms.rollout import Rollout, Start, Stopwatch, distinct_policies
from llm_decpomdp.algorithms.text_env import TextEnv
from llm_decpomdp.env import DecPOMDPEnv
from llm_decpomdp.naming import unknown
from llm_decpomdp.policy import Seedable, Team
from llm_decpomdp.seeding import stream
from llm_decpomdp.storage import RunFolder, append_json_line, keep_json_lines, read_json_lines

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class TrainerOptions:
    """How a run samples and when it evaluates and saves."""

    group_size: int = 4
    """Joint samples of a turn (G), at least 2."""
    handoff: str = "random"
    """Which joint sample goes on to the next turn: `random` or `best`."""
    early_termination_threshold: float | None = None
    """Mean reward of a group at which its chain stops; `None` never stops one."""
    eval_every: int = 0
    """Updates between evaluations; 0 leaves those before the first and after the last update."""
    checkpoint_every: int = 0
    """Updates between checkpoints, and one after the last update; 0 saves on Ctrl-C alone."""
    keep_checkpoints: int = 2
    """How many of the newest checkpoints to keep."""
    seed: int = 0
    """Decides all that is drawn at random, beside the starts."""

    def __post_init__(self) -> None:
        if self.group_size < 2:
            raise ValueError(
                f"group_size must be at least 2, as samples are compared, got {self.group_size}"
            )
        if self.handoff not in HANDOFFS:
            raise ValueError(unknown("handoff", self.handoff, HANDOFFS))
        bounds = {"eval_every": 0, "checkpoint_every": 0, "keep_checkpoints": 1, "seed": 0}
        for name, least in bounds.items():
            if getattr(self, name) < least:
                raise ValueError(f"{name} must be at least {least}, got {getattr(self, name)}")


class Trainer:
    """Trains a team on an environment, and writes the run down.

    Everything random is drawn from streams that are named by the update, so a run that is resumed
    equals one that never stopped, bit for bit, if every start names a seed or a task and every
    policy that samples has `seed` (remote models have none).

    Args:
        env: Any text environment with one team reward.
        team: A policy for each agent.
        algorithm: Which algorithm learns.
        learner_options: How the policies step.
        trainer_options: How to sample, evaluate and save.
        batches: How the chains of each update begin, one batch for each update, in order.
        eval_starts: How the episodes of an evaluation begin; empty for no evaluations.
        folder: Where the run is written down.
        progress: Whether to show a progress bar on stderr; `None` shows it on a terminal.

    Raises:
        ValueError: If there is no batch or an empty one, or the options do not fit the environment
            or team.
    """

    def __init__(
        self,
        env: TextEnv,
        team: Team,
        algorithm: Algorithm,
        learner_options: LearnerOptions,
        trainer_options: TrainerOptions,
        batches: Sequence[Sequence[Start]],
        eval_starts: Sequence[Start],
        folder: RunFolder,
        progress: bool | None = None,
    ) -> None:
        if not batches or not all(batches):
            raise ValueError(
                f"each update needs a batch of at least one start, got {len(batches)} batches "
                f"with {[len(batch) for batch in batches][:10]} starts"
            )
        if isinstance(env, DecPOMDPEnv):
            learner_options.check_horizon(env.num_turns)
        self.env = env
        self.team = team
        self.options = trainer_options
        self.batches = batches
        self.eval_starts = eval_starts
        self.folder = folder
        self.learner = Learner(team, algorithm, learner_options)
        self._policies = distinct_policies(team)
        self._resumed = False
        self._bar = ProgressBar(len(batches), progress)

    def resume(self) -> int:
        """Continue from the folder's newest checkpoint, and drop the rows written after it.

        Returns:
            The number of complete updates.

        Raises:
            FileNotFoundError: If there is no checkpoint.
            ValueError: If the checkpoint is of a run with another algorithm, seed or team.
        """
        found = checkpoint.latest(self.folder.checkpoints)
        if found is None:
            raise FileNotFoundError(
                f"no checkpoint to resume from in {self.folder.checkpoints}; "
                "start the run again in another folder"
            )
        counters, state = checkpoint.load(found)
        expected = self._counters() | {"update": counters["update"]}
        if counters != expected:
            raise ValueError(f"{found} is of another run: it has {counters}, not {expected}")
        for name, policy in self.learner.policies.items():
            policy.load_state_dict(state["policies"][name])
        self.learner.load_state_dict(state["learner"])
        update = self.learner.updates
        # An evaluation after this update is repeated: it may not have been written in full.
        keep_json_lines(self.folder.metrics, lambda row: _precedes(row, row["kind"], update))
        keep_json_lines(self.folder.episodes, lambda row: _precedes(row, row["phase"], update))
        self._bar.resume(update)
        self._resumed = True
        return update

    def train(self) -> dict[str, Any]:
        """Run the remaining updates.

        Returns:
            `updates`, and the first and last rows of `metrics.jsonl` by kind: `first_train`,
            `last_train`, `first_eval`, `last_eval` (`None` where there is none).

        Raises:
            FileExistsError: If the folder holds a run that was not resumed.
            FloatingPointError: If a loss or gradient isn't finite.
            Interrupted: On Ctrl-C. This and any other failure saves the last complete update first.
        """
        if self.folder.metrics.exists() and not self._resumed:
            raise FileExistsError(
                f"{self.folder.path} already holds a run: resume it or choose another folder"
            )
        try:
            with self._bar:
                self._run()
        except KeyboardInterrupt as interrupt:
            self._save_all_the_same()
            raise Interrupted(
                self.folder.path, self.learner.updates, len(self.batches)
            ) from interrupt
        except Exception:  # whatever failed, complete updates are not lost with it
            if self.learner.updates:
                self._save_all_the_same()
            raise
        return self._summary()

    def _save_all_the_same(self) -> None:
        """Save a run that ends too soon; a further Ctrl-C asks for nothing that isn't under way."""
        with suppress(KeyboardInterrupt), uninterrupted():
            self.save()

    def _run(self) -> None:
        options, total = self.options, len(self.batches)
        while True:
            update = self.learner.updates
            if update in (0, total) or (options.eval_every and update % options.eval_every == 0):
                self.evaluate()
            if update >= total:
                return
            self._train_update()
            every, done = options.checkpoint_every, self.learner.updates
            if every and (done % every == 0 or done == total):
                self.save()

    def _train_update(self) -> None:
        update, options, clock = self.learner.updates + 1, self.options, Stopwatch()
        begin = time.perf_counter()
        self._seed_policies("update", update)
        chains = rollout_chains(
            self.env,
            self.team,
            self.batches[update - 1],
            group_size=options.group_size,
            handoff=options.handoff,
            early_termination_threshold=options.early_termination_threshold,
            rng=stream(options.seed, "handoff", update),
            stopwatch=clock,
        )
        with clock("learning"):
            learned = self.learner.accumulate(chains)
        with uninterrupted():
            with clock("learning"):
                self.learner.step()
            tokens, seconds = count_tokens(chains), time.perf_counter() - begin
            row = {
                **reward_metrics(chains),
                "tokens": tokens,
                "tokens_per_second": tokens / seconds,
                **{f"{activity}_seconds": spent for activity, spent in clock.seconds.items()},
                **learned,
            }
            self._write(update, "train", row, chains)

    def evaluate(self) -> dict[str, Any]:
        """Play one episode from each evaluation start, write it down, and return the metrics.

        Every evaluation samples with the same random numbers, so that two of them differ by the
        weights alone; nothing of the training changes.
        """
        if not self.eval_starts:
            return {}
        clock = Stopwatch()
        self._seed_policies("evaluation")
        # As many episodes at a time as an update samples, so that they fit the same memory.
        size = self.options.group_size * max(len(batch) for batch in self.batches)
        chains: list[Rollout] = []
        for first in range(0, len(self.eval_starts), size):
            chains += rollout_chains(
                self.env,
                self.team,
                self.eval_starts[first : first + size],
                group_size=1,
                rng=stream(self.options.seed, "evaluation"),
                stopwatch=clock,
            )
        row = {
            **evaluation_metrics(chains),
            "tokens": count_tokens(chains),
            **{f"{activity}_seconds": spent for activity, spent in clock.seconds.items()},
        }
        with uninterrupted():
            self._write(self.learner.updates, "eval", row, chains)
        return row

    def save(self) -> None:
        """Write a checkpoint of the last complete update."""
        policies = {name: policy.state_dict() for name, policy in self.learner.policies.items()}
        state = {"policies": policies, "learner": self.learner.state_dict()}
        path = checkpoint.save(
            self.folder.checkpoints, self._counters(), state, self.options.keep_checkpoints
        )
        logger.info("saved %s", path)

    def _counters(self) -> dict[str, Any]:
        return {
            "update": self.learner.updates,
            "algorithm": self.learner.algorithm.name,
            "seed": self.options.seed,
            "policies": sorted(self._policies),
        }

    def _seed_policies(self, *names: str | int) -> None:
        for name, policy in self._policies.items():
            if isinstance(policy, Seedable):
                policy.seed(int(stream(self.options.seed, *names, name).integers(2**32)))

    def _write(
        self, update: int, kind: str, row: Mapping[str, Any], chains: Sequence[Rollout]
    ) -> None:
        append_json_line(self.folder.metrics, {"update": update, "kind": kind, **row})
        for chain in chains:
            append_json_line(self.folder.episodes, episode_row(chain, update, kind))
        logger.info("update %d, %s: mean reward %.3f", update, kind, row["reward_mean"])
        if kind == "train":
            self._bar.advance(row["reward_mean"], row["tokens_per_second"])

    def _summary(self) -> dict[str, Any]:
        rows = list(read_json_lines(self.folder.metrics))
        summary: dict[str, Any] = {"updates": self.learner.updates}
        for kind in ("train", "eval"):
            of_kind = [row for row in rows if row["kind"] == kind]
            summary[f"first_{kind}"] = of_kind[0] if of_kind else None
            summary[f"last_{kind}"] = of_kind[-1] if of_kind else None
        return summary


def _precedes(row: Mapping[str, Any], kind: str, update: int) -> bool:
    """Whether a row was written in full before the checkpoint of `update`."""
    return bool(row["update"] < update or (row["update"] == update and kind == "train"))
