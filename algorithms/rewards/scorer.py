"""Scores of a reward model in place of the task's reward, for learners (RLHF; for teams the MARLHF of CoMLRL)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from llm_decpomdp.algorithms.critics.states import Features
from llm_decpomdp.algorithms.rewards.comparisons import Sample
from llm_decpomdp.algorithms.rewards.reward_model import RewardModel
from llm_decpomdp.algorithms.rollouts.rollout import Group, Rollout
from llm_decpomdp.algorithms.rollouts.sampling import distinct_policies
from llm_decpomdp.policy import ReferencedPolicy, Team, policy_attribute


class RewardModelScorer:
    """Writes the scores of a reward model beside the rewards of joint samples.

    Args:
        model: The reward model.
        features: From texts to the features that it was trained with.
    """

    def __init__(self, model: RewardModel, features: Features) -> None:
        self.model, self.features = model, features

    def judged(self, rollouts: Sequence[Rollout]) -> list[Rollout]:
        """Return the rollouts with a score of each joint sample; their rewards stay those of the task.

        What a rollout is compared with is given scores too.
        """
        rivals = [rollout.comparator for rollout in rollouts if rollout.comparator is not None]
        if rivals:
            of_rivals = iter(self.judged(rivals))
            rollouts = [
                rollout
                if rollout.comparator is None
                else replace(rollout, comparator=next(of_rivals))
                for rollout in rollouts
            ]
        samples = [_texts(self.model, group) for rollout in rollouts for group in rollout.groups]
        rows = {t: row for row, t in enumerate(dict.fromkeys(t for of in samples for t in of))}
        scores = self.model.scores(self.features(list(rows))).tolist() if rows else []
        of_groups = iter(samples)
        return [
            replace(
                rollout,
                groups=tuple(
                    replace(group, scores=tuple(scores[rows[text]] for text in next(of_groups)))
                    for group in rollout.groups
                ),
            )
            for rollout in rollouts
        ]


def _texts(model: RewardModel, group: Group) -> list[str]:
    """Return the text of each joint sample."""
    texts = {agent: [c.text for c in of] for agent, of in group.completions.items()}
    return [
        model.text(Sample(group.prompts, {a: texts[a][g] for a, g in zip(texts, j, strict=True)}))
        for j in group.joint
    ]


def readers(team: Team) -> Iterator[Features]:
    """Yield the features of each policy that gives some, by its model as it is now."""
    for policy in distinct_policies(team).values():
        if isinstance(policy, ReferencedPolicy) and policy_attribute(policy, "features"):
            policy.keep_reference()
            features: Features = policy_attribute(policy, "features")
            yield features


def load_scorer(path: Path, team: Team, agents: Sequence[str]) -> RewardModelScorer:
    """Read a reward model, and find the policy of the team whose frozen model gives its features.

    Args:
        path: The file of the reward model.
        team: A policy for each agent; their references are kept.
        agents: The agents of the environment.

    Raises:
        ValueError: If the file holds none, it is of other agents, or no policy's model is the one that it was
            trained with.
    """
    model = RewardModel.load(path)
    if set(model.agents) != set(agents):
        raise ValueError(
            f"the reward model {path} reads the agents {', '.join(model.agents)}, and the environment has "
            f"{', '.join(agents)}: train one on pairs of this environment"
        )
    for features in readers(team):
        if model.fits(features):
            return RewardModelScorer(model, features)
    raise ValueError(
        f"no model of the team reads as the one that the reward model {path} was trained with: take that model, "
        "with adapters or with full weights that were not trained before, or train a reward model with this one"
    )
