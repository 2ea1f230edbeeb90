"""The comparator of a run that learns from pairs, where it is a team of its own, which plays beside the other."""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from llm_decpomdp.algorithms.learning.learner_options import LearnerOptions
from llm_decpomdp.algorithms.learning.preference_options import CURRENT, HISTORY
from llm_decpomdp.algorithms.preferences.stored import tokenised
from llm_decpomdp.algorithms.rollout_workers.rollout_worker import UpdateBatch, seed_policies
from llm_decpomdp.algorithms.rollouts.collection import collect_rollouts
from llm_decpomdp.algorithms.rollouts.environment import TextEnv
from llm_decpomdp.algorithms.rollouts.rollout import Group, Rollout, Start
from llm_decpomdp.algorithms.rollouts.rollout_options import RolloutOptions
from llm_decpomdp.algorithms.rollouts.sampling import Timer
from llm_decpomdp.algorithms.training.trainer_options import TrainerOptions
from llm_decpomdp.branching import seed_noise
from llm_decpomdp.policy import Policy, Team, TrainablePolicy, policy_attribute
from llm_decpomdp.seeding import stream

logger = logging.getLogger(__name__)


class Comparator:
    """A team that stays as it is, and plays the starts of another one, from random streams of its own.

    Args:
        env: The environment.
        team: Its policies, one for each agent.
        learners: The team that learns. What the comparator's agents say has the tokens that were sampled where
            both have one vocabulary, and else those that the learner's policy makes of the text.
        options: How to sample: as the team that learns.
    """

    def __init__(self, env: TextEnv, team: Team, learners: Team, options: TrainerOptions) -> None:
        self.env = env
        self.team = team
        self.options = options
        self._tokenising = {
            agent: policy
            for agent, policy in learners.items()
            if isinstance(policy, TrainablePolicy) and not _read_alike(policy, team[agent])
        }
        self._rng = np.random.default_rng(0)
        if self._tokenising:
            logger.warning(
                "what the comparator says is tokenised anew for %s, as its models have other tokens",
                ", ".join(self._tokenising),
            )

    def beside(
        self, rollout_batch: UpdateBatch, rollouts: Sequence[Rollout], timer: Timer
    ) -> list[Rollout]:
        """Return the rollouts of a bundle, each with what this team plays from its start.

        In a tree that is a whole tree, as what follows counts there; in a chain the first turn alone.

        Raises:
            TypeError: If an agent's policy makes no tokens of texts, and has to.
        """
        options, starts = self.options, rollout_batch.starts
        if rollout_batch.has_own_streams:
            seed_policies(
                self.team,
                rollout_batch.seed,
                "comparator",
                *rollout_batch.names,
                index=rollout_batch.index,
            )
            self._rng = stream(
                rollout_batch.seed, "comparator handoff", *rollout_batch.names, rollout_batch.index
            )
            seed_noise(
                self.env,
                rollout_batch.seed,
                "comparator",
                *rollout_batch.names,
                rollout_batch.index,
            )
        size, rng = options.group_size, self._rng
        rollout_options: RolloutOptions = options
        if options.plan != "tree":  # pairs are made of the first group, so nothing follows it
            rollout_options = RolloutOptions(
                joint_mode=options.joint_mode,
                num_partners=options.num_partners,
                early_termination_threshold=-sys.float_info.max,
            )
        rivals = collect_rollouts(
            self.env, self.team, starts, rollout_options, group_size=size, rng=rng, timer=timer
        )
        return [
            replace(rollout, comparator=self._readable(rival))
            for rollout, rival in zip(rollouts, rivals, strict=True)
        ]

    def _readable(self, rollout: Rollout) -> Rollout:
        """Return a rollout whose first completions have tokens of the policies that learn."""
        first, *later = rollout.groups
        return replace(rollout, groups=(self._with_tokens(first), *later))

    def _with_tokens(self, group: Group) -> Group:
        completions = {
            agent: tuple(
                c if c.skipped else tokenised(c, policy, agent) for c in group.completions[agent]
            )
            for agent, policy in self._tokenising.items()
        }
        return replace(group, completions={**group.completions, **completions})


def _read_alike(one: Policy, other: Policy) -> bool:
    first, second = (policy_attribute(policy, "vocabulary") for policy in (one, other))
    return first is not None and bool(first == second)


def check_comparator(
    options: LearnerOptions,
    team: Team | None,
    batches: Sequence[Sequence[Start]],
    stored: bool,
    refitted: bool = False,
) -> None:
    """Raise a `ValueError` if a run cannot compare as its options say.

    Args:
        options: Those of the learner.
        team: The comparator's policies, if it is a team of its own.
        batches: The starts of each update.
        stored: Whether rollouts are stored, and none played.
        refitted: Whether the rewards that are learned are those of a reward model that is fitted anew.
    """
    name = options.comparator
    if (team is None) != (options.named_comparator is None):
        raise ValueError(
            f"comparator={name} and a comparator's team need each other: give the Trainer the team that the "
            "option names, or set comparator=current"
        )
    if name == CURRENT:
        return
    if stored:
        raise ValueError(
            f"comparator={name} means nothing with stored rollouts, as nothing is sampled: set comparator=current"
        )
    if name == HISTORY and refitted:
        raise ValueError(
            "comparator=history compares returns of different updates, and a reward model that is fitted anew "
            "scores them on different scales: set reward_model_every=0, or name a team as comparator"
        )
    if any(start == Start() for batch in batches for start in batch):
        raise ValueError(
            f"comparator={name} compares answers in the same state: every start needs a seed or a task"
        )
