"""Opponents: preference pairs compare the team with another team that plays the same starts."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from llm_decpomdp.algorithms.learning.base_learner import BaseLearner
from llm_decpomdp.algorithms.preferences.options import CURRENT, HISTORY, PreferenceOptions
from llm_decpomdp.algorithms.preferences.stored import tokenize
from llm_decpomdp.algorithms.rollouts.checks import require_short, run_cost
from llm_decpomdp.algorithms.rollouts.collection import collect_rollouts
from llm_decpomdp.algorithms.rollouts.play import seed_update
from llm_decpomdp.algorithms.rollouts.rollout import Rollout, Start, TextEnv, Timer
from llm_decpomdp.algorithms.rollouts.rollout_options import RolloutOptions, TrainerOptions
from llm_decpomdp.algorithms.training.metrics import count_tokens
from llm_decpomdp.algorithms.training.rollout_source import (
    NumberedBatch,
    RolloutSource,
    SourceWrapper,
    TrainBatch,
    UpdateRequest,
)
from llm_decpomdp.policy import Policy, Team, TrainablePolicy, policy_attribute

logger = logging.getLogger(__name__)


class OpponentSource(SourceWrapper):
    """Adds rollouts of an untrained team from the same starts, with their own random streams.

    Args:
        source: Samples the rollouts of the team that learns.
        env: The environment.
        opponents: A policy for each agent. Their completions keep the sampled tokens if both models have one
            vocabulary; otherwise the learner's policy tokenizes the texts.
        team: The team that learns.
        options: How to sample, for both teams.

    Raises:
        ValueError: If a first prompt is too long for an opponent.
    """

    def __init__(
        self,
        source: RolloutSource,
        env: TextEnv,
        opponents: Team,
        team: Team,
        options: TrainerOptions,
    ) -> None:
        super().__init__(source, "an opponent's team")
        require_short(env, opponents, source.starts)
        self.env, self.opponents, self.options = env, opponents, options
        self.cost = run_cost(env, options, options.group_size, source.batches, opponent=True)
        self._tokenizers = {
            agent: policy
            for agent, policy in team.items()
            if isinstance(policy, TrainablePolicy)
            and not _share_vocabulary(policy, opponents[agent])
        }
        self._rng: np.random.Generator | None = None
        if self._tokenizers:
            logger.warning(
                "completions of the opponent are tokenized again for %s: its models have another vocabulary",
                ", ".join(self._tokenizers),
            )

    def collect(self, request: UpdateRequest, timer: Timer) -> TrainBatch:
        """Sample the starts of a request, and the same starts with the opponents."""
        sampled = self.source.collect(request, timer).shard
        shard = [
            self.add_opponents(request, batch, rollouts, timer) if rollouts else []
            for batch, rollouts in zip(request.shard, sampled, strict=True)
        ]
        return TrainBatch(shard, [shard])

    def metrics(self, batch: TrainBatch) -> dict[str, float]:
        """Count the tokens of the opponents."""
        rollouts = [of.opponent for of in batch.rollouts if of.opponent is not None]
        return {**self.source.metrics(batch), "comparator_tokens": count_tokens(rollouts)}

    def add_opponents(
        self,
        request: UpdateRequest,
        batch: NumberedBatch,
        rollouts: Sequence[Rollout],
        timer: Timer,
    ) -> list[Rollout]:
        """Return the rollouts of a rollout batch, each with a rollout of the opponents from its start.

        In a tree the opponents play a whole tree, as later rewards count there; otherwise only the first turn.
        """
        options, (index, starts) = self.options, batch
        update, round = request.update, request.round
        self._rng = seed_update(
            self.env, self.opponents, options, update, index, round, self._rng, "comparator"
        )
        rollout_options: RolloutOptions = options
        if options.mode != "tree":
            # Pairs are made of the first group, and this threshold ends every rollout after it.
            rollout_options = RolloutOptions(
                joint_mode=options.joint_mode,
                num_partners=options.num_partners,
                early_termination_threshold=-np.inf,
            )
        opponent_rollouts = collect_rollouts(
            self.env,
            self.opponents,
            starts,
            rollout_options,
            group_size=options.group_size,
            rng=self._rng,
            timer=timer,
        )
        return [
            replace(rollout, opponent=self._retokenize(opponent_rollout))
            for rollout, opponent_rollout in zip(rollouts, opponent_rollouts, strict=True)
        ]

    def _retokenize(self, rollout: Rollout) -> Rollout:
        """Return a rollout whose first completions have tokens of the policies that learn."""
        first, *later = rollout.groups
        completions = {
            agent: tuple(
                c if c.skipped else tokenize(c, first.prompts[agent], policy, agent)
                for c in first.completions[agent]
            )
            for agent, policy in self._tokenizers.items()
        }
        first = replace(first, completions={**first.completions, **completions})
        return replace(rollout, groups=(first, *later))


def _share_vocabulary(one: Policy, other: Policy) -> bool:
    first, second = (policy_attribute(policy, "vocabulary") for policy in (one, other))
    return first is not None and bool(first == second)


def check_opponents(
    learner: BaseLearner, options: TrainerOptions, source: RolloutSource, opponents: Team | None
) -> None:
    """Raise a `ValueError` if a run cannot compare as its options say.

    Args:
        learner: The learner.
        options: Options of the run.
        source: The rollouts of the team that learns.
        opponents: The team that `opponent` names, if it names one.
    """
    pair_options = learner.algorithm.options
    pairs = pair_options if isinstance(pair_options, PreferenceOptions) else PreferenceOptions()
    name = pairs.opponent
    if (opponents is None) != (pairs.named_opponent is None):
        raise ValueError(
            f"opponent={name} and an opponent's team need each other: give the team that the option names, or "
            "set opponent=current"
        )
    if name == CURRENT:
        return
    if not source.is_sampled:
        raise ValueError(
            f"opponent={name} means nothing with stored rollouts, as nothing is sampled: set opponent=current"
        )
    if name == HISTORY and options.reward_model.update_interval:
        raise ValueError(
            "opponent=history compares returns of different updates, and a reward model that is fitted anew "
            "scores them on different scales: set reward_model.update_interval=0, or name a team as opponent"
        )
    if Start() in source.starts:
        raise ValueError(
            f"opponent={name} compares answers in the same state: every start needs a seed or a task"
        )
