"""Warm start: supervised learning of a team's policies before reinforcement.

The loss of a step is the mean of -log pi over the tokens of its completions, the end of each included, at the
sampling temperature, for each policy apart (maximum likelihood, as in the first stage of arXiv 2203.02155). It
assumes that the completions are good ones to the prompts: nothing here looks at a reward.
"""

from __future__ import annotations

import hashlib
import logging
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, NamedTuple

from llm_decpomdp.algorithms.learning import distributed as processes
from llm_decpomdp.algorithms.learning.base_learner import PolicyOptimizer, trainable_policies
from llm_decpomdp.algorithms.rollouts.long_prompts import overflow
from llm_decpomdp.algorithms.rollouts.sampling import Timer
from llm_decpomdp.algorithms.training.callbacks import TrainerCallback
from llm_decpomdp.algorithms.training.checkpoint_manager import CheckpointManager
from llm_decpomdp.algorithms.training.metrics import UNTRAINED, WARM_START
from llm_decpomdp.algorithms.training.rollout_source import PeriodicEvaluation
from llm_decpomdp.algorithms.training.sft_data import Demonstration, SFTExample, batches
from llm_decpomdp.algorithms.training.trainer import Trainer
from llm_decpomdp.algorithms.training.trainer_options import WarmStartOptions
from llm_decpomdp.policy import (
    Completion,
    Team,
    TrainablePolicy,
    policy_attribute,
)

logger = logging.getLogger(__name__)


class SFTPhase(TrainerCallback, ABC):
    """Steps of supervised learning before the first update, with the run's log and checkpoints."""

    state_key = "warm_start"
    options: WarmStartOptions

    @property
    @abstractmethod
    def steps(self) -> int:
        """Number of complete steps."""

    @property
    @abstractmethod
    def total(self) -> int:
        """Number of all steps that are known of."""

    @property
    @abstractmethod
    def done(self) -> bool:
        """True if no step is left."""

    def announce(self) -> None:
        """Log the cost of the phase before it begins, if it has any beside its steps."""

    def prepare(self, timer: Timer) -> None:
        """Do what comes before a step; the timer is given the seconds of each activity."""

    @abstractmethod
    def accumulate(self) -> dict[str, float]:
        """Compute the gradient of the next step, and return its row of `metrics.jsonl`.

        Raises:
            FloatingPointError: If the loss or a gradient isn't finite.
        """

    @abstractmethod
    def step(self) -> None:
        """Step along the gradient."""

    @property
    def identity(self) -> Mapping[str, Any]:
        """The options, which a run keeps."""
        return {"warm_start": asdict(self.options)}

    def on_resume(self, trainer: Trainer) -> None:
        """Tell the trainer how many steps are done."""
        trainer.num_sft_steps = self.steps

    def on_train_begin(self, trainer: Trainer) -> None:
        """Take the remaining steps, after an evaluation of the untrained team."""
        if trainer.learner.updates:
            return
        trainer.activity = "the warm start"
        if not self.steps:
            if processes.rank() == 0:
                self.announce()
            for callback in trainer.callbacks:
                if isinstance(callback, PeriodicEvaluation):
                    callback.evaluate(trainer, UNTRAINED)
        while not self.done:
            timer = Timer()
            self.prepare(timer)
            with timer("learning"):
                row = self.accumulate()
            row |= {f"{activity}_seconds": seconds for activity, seconds in timer.seconds.items()}
            with trainer.updating():
                self.step()
                trainer.num_sft_steps = self.steps
                trainer.log(WARM_START, row)
            if processes.rank() == 0:
                losses = [f"{key} {row[key]:.3f}" for key in row if key.startswith("nll/")]
                values = row["step"], self.total, ", ".join(losses)
                logger.info("warm start, step %d of %d: %s", *values)
            trainer.notify("on_step_end")
        # The learner's optimizers may hold copies of the weights in higher precision.
        trainer.learner.reload_master_weights()
        if trainer.options.checkpoint_every:
            for callback in trainer.callbacks:
                if isinstance(callback, CheckpointManager):
                    callback.save()


class Encoded(NamedTuple):
    """An example in the tokens of its agent's policy."""

    agent: str
    prompt: str
    completion: Completion


class SupervisedTraining(SFTPhase):
    """Steps of supervised learning, of all policies of a team that can be trained.

    Args:
        team: Agent to policy. Examples of agents whose policy is not trained are ignored.
        lessons: What to learn; none are needed to load the state of one that is done.
        options: How to learn.
        max_grad_norm: Largest norm of a policy's gradient; `None` shortens none.
        seed: Decides the order of the lessons.

    Raises:
        ValueError: If no example is left: too long, or of agents that do not learn.
        TypeError: If a policy cannot encode a text that it did not sample.
    """

    def __init__(
        self,
        team: Team,
        lessons: Sequence[Demonstration],
        options: WarmStartOptions,
        *,
        max_grad_norm: float | None = None,
        seed: int = 0,
    ) -> None:
        self.options = options
        self.max_grad_norm = max_grad_norm
        self.policies = trainable_policies(team)
        self._steps = 0
        trained = {
            agent: policy for agent in team if (policy := _find_trained(self.policies, team[agent]))
        }
        encoded = [_encode(lesson, trained) for lesson in lessons]
        self._lessons = [lesson for lesson in encoded if lesson]
        self._agents: dict[str, TrainablePolicy] = trained
        self._batches = list(batches(len(self._lessons), options, seed))
        self._total = len(self._batches)
        about = {
            key: v for key, v in asdict(options).items() if key != "disjoint"
        }  # about what follows
        self._fingerprint = hashlib.sha256(repr([lessons, about, seed]).encode()).hexdigest()
        self._optimizers: dict[str, PolicyOptimizer] = {}
        if lessons:
            self._check(lessons)

    def _check(self, lessons: Sequence[Demonstration]) -> None:
        examples = sum(example.agent in self._agents for lesson in lessons for example in lesson)
        kept = sum(map(len, self._lessons))
        if not kept:
            raise ValueError(
                f"no lesson of the warm start can be learned: {examples} of its examples are of agents that "
                "learn, and each is too long: raise max_new_tokens"
            )
        if kept < examples:
            logger.warning(
                "%d of %d examples of the warm start are left out, as they are longer than max_new_tokens or "
                "their prompts are too long",
                *(examples - kept, examples),
            )

    @property
    def steps(self) -> int:
        """Number of complete steps."""
        return self._steps

    @property
    def total(self) -> int:
        """Number of all steps."""
        return self._total

    @property
    def done(self) -> bool:
        """True if no step is left."""
        return self.steps >= self.total

    def accumulate(self) -> dict[str, float]:
        """Compute the gradient of the next step, and return its row of `metrics.jsonl`.

        Raises:
            FloatingPointError: If the loss or a gradient isn't finite.
        """
        if not self._optimizers:
            self._optimizers = self._new_optimizers()
        self._clear()
        batch = [self._lessons[position] for position in self._batches[self.steps]]
        tokens = {
            name: sum(
                len(e.completion.tokens) for e in _flat(batch) if self._agents[e.agent] is policy
            )
            for name, policy in self.policies.items()
        }
        sums: dict[str, list[float]] = {agent: [0.0, 0.0] for agent in self._agents}
        for (agent, prompt), completions in _group_by_prompt(processes.shard(batch)).items():
            policy = self._agents[agent]
            name = next(name for name, one in self.policies.items() if one is policy)
            log_probs, mask = policy.log_probs(prompt, completions)  # (G, T)
            loss = -(log_probs * mask).sum()
            (loss / tokens[name]).backward()  # type: ignore[no-untyped-call]
            sums[agent][0] += float(loss.detach())
            sums[agent][1] += float(mask.sum())
        return self._row(sums, len(batch))

    def _row(self, sums: Mapping[str, Sequence[float]], lessons: int) -> dict[str, float]:
        row: dict[str, float] = {"step": self.steps + 1, "lessons": lessons}
        row["completion_tokens"] = 0.0
        for agent, (loss, count) in sums.items():
            tokens = processes.total(count)
            row["completion_tokens"] += tokens
            if tokens:
                row[f"nll/{agent}"] = processes.total(loss) / tokens
        for name, optimizer in self._optimizers.items():
            processes.sum_gradients(optimizer.parameters)
            row[f"grad_norm/{name}"] = optimizer.clip(self.max_grad_norm)
        for key, value in row.items():
            if not math.isfinite(value):
                self._clear()
                raise FloatingPointError(
                    f"step {self.steps + 1} of the warm start: {key} is {value}; no weight was changed by it. "
                    "Lower warm_start.learning_rate, or set max_grad_norm"
                )
        return {**row, "learning_rate": self.options.learning_rate}

    def step(self) -> None:
        """Step along the gradient; the last step frees the optimizers' memory."""
        for optimizer in self._optimizers.values():
            optimizer.step()
        self._steps += 1
        if self.done:
            self._optimizers = {}

    def state_dict(self) -> dict[str, Any]:
        """Return the number of steps and the optimizers' state; the policies keep their own."""
        optimizers = {name: one.state_dict() for name, one in self._optimizers.items()}
        return {
            "steps": self.steps,
            "total": self.total,
            "fingerprint": self._fingerprint,
            "optimizers": optimizers,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from `state_dict`'s value, after the policies' weights were loaded.

        Raises:
            ValueError: If it is not done, and the lessons or their order were others.
        """
        self._steps, total = state["steps"], state["total"]
        if self.steps >= total:
            self._total = total
            return
        if state["fingerprint"] != self._fingerprint:
            raise ValueError(
                f"the warm start was stopped after {self.steps} of {total} steps, and its lessons are others now: "
                "restore them, or begin a new run"
            )
        if state["optimizers"]:
            self._optimizers = self._new_optimizers()
            for name, optimizer in self._optimizers.items():
                optimizer.load_state_dict(state["optimizers"][name])

    def _new_optimizers(self) -> dict[str, PolicyOptimizer]:
        return {
            name: PolicyOptimizer(
                [p for p in policy.parameters() if p.requires_grad], self.options.learning_rate, 0.0
            )
            for name, policy in self.policies.items()
        }

    def _clear(self) -> None:
        for optimizer in self._optimizers.values():
            optimizer.clear()


def _find_trained(policies: Mapping[str, TrainablePolicy], policy: Any) -> TrainablePolicy | None:
    return next((one for one in policies.values() if one is policy), None)


def _encode(lesson: Demonstration, trained: Mapping[str, TrainablePolicy]) -> list[Encoded]:
    """Encode the examples of agents that learn; those that their policies could not write are left out."""
    return [
        Encoded(example.agent, example.prompt, completion)
        for example in lesson
        if example.agent in trained
        and (completion := _completion(example, trained[example.agent])) is not None
    ]


def _completion(example: SFTExample, policy: TrainablePolicy) -> Completion | None:
    """Encode a completion; `None` where it or its prompt is too long. A sampled one keeps its tokens.

    Raises:
        ValueError: If the prompt is too long, and its policy neither skips nor cuts such ones.
    """
    if isinstance(example.completion, Completion) and example.completion.tokens:
        return None if example.completion.truncated else example.completion
    encode_completion = policy_attribute(policy, "encode_completion")
    if encode_completion is None:
        raise TypeError(
            f"a warm start needs policies that encode a text: give the class {type(policy).__name__} of "
            f"{example.agent!r} a method encode_completion, or drop the warm start"
        )
    over = overflow(policy, example.prompt)
    if over is not None:
        treatment = policy_attribute(policy, "on_long_prompt")
        if treatment == "skip":
            return None
        if treatment == "raise":
            raise ValueError(
                f"a prompt of {example.agent!r} in the warm start has {over[0]} tokens, and {over[1]} fit: "
                "leave it out, or set on_long_prompt to skip or truncate_left"
            )
    text = example.completion
    completion: Completion = encode_completion(text if isinstance(text, str) else text.text)
    return None if completion.truncated else completion


def _flat(lessons: Sequence[Sequence[Encoded]]) -> list[Encoded]:
    return [example for lesson in lessons for example in lesson]


def _group_by_prompt(
    lessons: Sequence[Sequence[Encoded]],
) -> dict[tuple[str, str], list[Completion]]:
    """Collect the completions of equal prompts, which are scored together."""
    groups: dict[tuple[str, str], list[Completion]] = {}
    for example in _flat(lessons):
        groups.setdefault((example.agent, example.prompt), []).append(example.completion)
    return groups
