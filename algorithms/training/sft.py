"""Warm start: supervised learning (SFT) of a team's policies before reinforcement learning.

The loss of a step is the mean of -log pi over the tokens of its completions, the end of each included, at the
sampling temperature, for each policy apart (maximum likelihood, as in the first stage of arXiv 2203.02155). It
assumes that the completions are good answers to the prompts. It ignores rewards.
"""

from __future__ import annotations

import hashlib
import logging
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, NamedTuple

from llm_decpomdp.algorithms.learning import distributed as processes
from llm_decpomdp.algorithms.learning.base_learner import PolicyOptimizer, trainable_policies
from llm_decpomdp.algorithms.rollouts.checks import overflow
from llm_decpomdp.algorithms.rollouts.rollout import Timer
from llm_decpomdp.algorithms.training.callbacks import TrainerCallback
from llm_decpomdp.algorithms.training.checkpoint_manager import CheckpointManager
from llm_decpomdp.algorithms.training.metrics import UNTRAINED, WARM_START
from llm_decpomdp.algorithms.training.sft_data import Demonstration, SFTExample, batches
from llm_decpomdp.algorithms.training.trainer import PeriodicEvaluation, Trainer
from llm_decpomdp.algorithms.training.warm_start import WarmStartOptions
from llm_decpomdp.policy import Completion, Team, TrainablePolicy, policy_attribute

logger = logging.getLogger(__name__)


class EncodedExample(NamedTuple):
    """An example in the tokens of its agent's policy."""

    agent: str
    prompt: str
    completion: Completion


class SupervisedTraining(TrainerCallback):
    """Steps of supervised learning before the first update, with the run's log and checkpoints.

    Args:
        team: Agent to policy. Examples of agents whose policy is not trained are ignored.
        demonstrations: What to learn; none are needed to load the state of a phase that is done.
        options: How to learn.
        max_grad_norm: Largest norm of a policy's gradient; `None` for no limit.
        seed: Decides the order of the demonstrations.

    Raises:
        ValueError: If no example is left: too long, or of agents that do not learn.
        TypeError: If a policy cannot encode a text that it did not sample.
    """

    state_key = "warm_start"

    def __init__(
        self,
        team: Team,
        demonstrations: Sequence[Demonstration],
        options: WarmStartOptions,
        *,
        max_grad_norm: float | None = None,
        seed: int = 0,
    ) -> None:
        self.options, self.max_grad_norm, self.seed = options, max_grad_norm, seed
        self.policies = trainable_policies(team)
        self.policy_names = {
            agent: name
            for agent in team
            for name, policy in self.policies.items()
            if policy is team[agent]
        }
        """The name of the policy of each agent that learns."""
        self.steps = 0
        """Number of complete steps."""
        self.begin_round(demonstrations, self.encode(demonstrations), seed)

    def begin_round(
        self,
        demonstrations: Sequence[Demonstration],
        encoded: Sequence[Sequence[EncodedExample]],
        seed: int,
    ) -> None:
        """Prepare the steps that learn these demonstrations; `encoded` is what `encode` makes of them."""
        self._encoded = [examples for examples in encoded if examples]
        self._batches = list(batches(len(self._encoded), self.options, seed))
        self._first = self.steps
        self.total = self.steps + len(self._batches)
        """Number of all steps that are known of."""
        # Without `disjoint`, which changes what reinforcement learns and nothing here.
        about = {key: value for key, value in asdict(self.options).items() if key != "disjoint"}
        text = repr([demonstrations, about, seed])
        self._fingerprint = hashlib.sha256(text.encode()).hexdigest()
        self._optimizers: dict[str, PolicyOptimizer] = {}

    @property
    def done(self) -> bool:
        """True if no step is left."""
        return self.steps >= self.total

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
                losses = ", ".join(f"{k} {row[k]:.3f}" for k in row if k.startswith("nll/"))
                step = int(row["step"])
                logger.info("warm start, step %d of %d: %s", step, self.total, losses)
            trainer.notify("on_step_end")
        # The learner's optimizers may hold copies of the weights in higher precision.
        trainer.learner.reload_master_weights()
        if trainer.options.checkpoint_every:
            for callback in trainer.callbacks:
                if isinstance(callback, CheckpointManager):
                    callback.save()

    def announce(self) -> None:
        """Log the cost of the phase before it begins, if it has any in addition to its steps."""

    def prepare(self, timer: Timer) -> None:
        """Do what comes before a step; the timer adds up the seconds of each activity."""

    def accumulate(self) -> dict[str, float]:
        """Compute the gradient of the next step, and return its row of `metrics.jsonl`.

        Raises:
            FloatingPointError: If the loss or a gradient isn't finite.
        """
        self._optimizers = self._optimizers or self._make_optimizers()
        self._clear_gradients()
        batch = [self._encoded[position] for position in self._batches[self.steps - self._first]]
        # Of all processes: the sum of their gradients is then that of the mean over the whole batch.
        tokens: Counter[str] = Counter()
        for example in (example for examples in batch for example in examples):
            tokens[self.policy_names[example.agent]] += len(example.completion.tokens)
        # Completions of equal prompts are scored in one batch.
        by_prompt: dict[tuple[str, str], list[Completion]] = {}
        for example in (example for examples in processes.shard(batch) for example in examples):
            by_prompt.setdefault((example.agent, example.prompt), []).append(example.completion)
        sums = {agent: [0.0, 0.0] for agent in self.policy_names}
        for (agent, prompt), completions in by_prompt.items():
            name = self.policy_names[agent]
            log_probs, mask = self.policies[name].log_probs(prompt, completions)  # (G, T)
            loss = -(log_probs * mask).sum()
            (loss / tokens[name]).backward()  # type: ignore[no-untyped-call]
            sums[agent][0] += float(loss.detach())
            sums[agent][1] += float(mask.sum())
        row: dict[str, float] = {"step": self.steps + 1, "lessons": len(batch)}
        row["completion_tokens"] = 0.0
        for agent, (total_loss, number) in sums.items():
            number_of_all = processes.total(number)
            row["completion_tokens"] += number_of_all
            if number_of_all:
                row[f"nll/{agent}"] = processes.total(total_loss) / number_of_all
        for name, optimizer in self._optimizers.items():
            processes.sum_gradients(optimizer.parameters)
            row[f"grad_norm/{name}"] = optimizer.clip(self.max_grad_norm)
        for key, value in row.items():
            if not math.isfinite(value):
                self._clear_gradients()
                raise FloatingPointError(
                    f"step {self.steps + 1} of the warm start: {key} is {value}; no weight was changed by it. "
                    "Lower warm_start.learning_rate, or set max_grad_norm"
                )
        return {**row, "learning_rate": self.options.learning_rate}

    def step(self) -> None:
        """Step along the gradient; the last step frees the optimizers' memory."""
        for optimizer in self._optimizers.values():
            optimizer.step()
        self.steps += 1
        if self.steps >= self.total:
            self._optimizers = {}

    def state_dict(self) -> dict[str, Any]:
        """Return the number of steps and the optimizers' state; the policies keep their own."""
        return {
            "steps": self.steps - self._first,
            "total": self.total - self._first,
            "fingerprint": self._fingerprint,
            "optimizers": {name: one.state_dict() for name, one in self._optimizers.items()},
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from `state_dict`'s value, after the policies' weights were loaded.

        Raises:
            ValueError: If it is not done, and the demonstrations or their order were others.
        """
        steps, total = state["steps"], state["total"]
        if steps < total and state["fingerprint"] != self._fingerprint:
            raise ValueError(
                f"the warm start was stopped after {steps} of {total} steps, and its demonstrations are others "
                "now: restore them, or begin a new run"
            )
        self.steps, self.total = self._first + steps, self._first + total
        if state["optimizers"]:
            self._optimizers = self._make_optimizers()
            for name, optimizer in self._optimizers.items():
                optimizer.load_state_dict(state["optimizers"][name])

    def _make_optimizers(self) -> dict[str, PolicyOptimizer]:
        rate = self.options.learning_rate
        return {
            name: PolicyOptimizer([p for p in policy.parameters() if p.requires_grad], rate, 0.0)
            for name, policy in self.policies.items()
        }

    def _clear_gradients(self) -> None:
        for optimizer in self._optimizers.values():
            optimizer.clear()

    def encode(self, demonstrations: Sequence[Demonstration]) -> list[list[EncodedExample]]:
        """Encode the examples of agents that learn, without those that their policies could not write.

        Raises:
            ValueError: If there are examples and none is left, or a prompt is too long for its policy.
            TypeError: If a policy cannot encode a text that it did not sample.
        """
        encoded: list[list[EncodedExample]] = []
        number = number_kept = 0
        for examples in demonstrations:
            encoded.append([])
            for example in examples:
                if (name := self.policy_names.get(example.agent)) is None:
                    continue
                number += 1
                if (completion := _encode_completion(example, self.policies[name])) is not None:
                    number_kept += 1
                    encoded[-1].append(EncodedExample(example.agent, example.prompt, completion))
        if demonstrations and not number_kept:
            raise ValueError(
                f"no demonstration of the warm start can be learned: {number} of its examples are of agents that "
                "learn, and each is too long: raise max_new_tokens"
            )
        if number_kept < number:
            logger.warning(
                "%d of %d examples of the warm start are left out, as they are longer than max_new_tokens or "
                "their prompts are too long",
                number - number_kept,
                number,
            )
        return encoded


def _encode_completion(example: SFTExample, policy: TrainablePolicy) -> Completion | None:
    """Encode a completion; `None` if it or its prompt is too long. A sampled completion keeps its tokens."""
    completion = example.completion
    if isinstance(completion, Completion) and completion.tokens:
        return None if completion.truncated else completion
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
    text = getattr(completion, "text", completion)
    encoded: Completion = encode_completion(text, example.prompt)
    return None if encoded.truncated else encoded
