"""A reward model in a run: its scores replace the task's reward (RLHF; for teams the MARLHF of CoMLRL)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from llm_decpomdp.algorithms.learning import distributed as processes
from llm_decpomdp.algorithms.rewards.comparisons import (
    JointComparison,
    RewardModelOptions,
    Sample,
    use_scores_as_rewards,
)
from llm_decpomdp.algorithms.rewards.reward_model import Features, RewardModel, fit_reward_model
from llm_decpomdp.algorithms.rollouts.rollout import Group, Rollout, TextEnv, Timer
from llm_decpomdp.algorithms.rollouts.rollout_options import TrainerOptions
from llm_decpomdp.algorithms.training.metrics import turn_mean
from llm_decpomdp.algorithms.training.rollout_source import (
    RolloutSource,
    SourceWrapper,
    TrainBatch,
    UpdateRequest,
)
from llm_decpomdp.algorithms.training.trainer import Trainer
from llm_decpomdp.policy import ReferencedPolicy, Team, distinct_policies, policy_attribute

MOST = 512  # newest pairs that a model is fitted to; more if an update has more
# A model that is fitted to two pairs is no better than chance, and its scores have no scale.
LEAST = 16
PER_GROUP = 4  # largest number of pairs of a group


class RewardModelScorer:
    """Adds the scores of a reward model to joint samples.

    Args:
        model: The reward model.
        features: From texts to the features that it was trained with.
    """

    def __init__(self, model: RewardModel, features: Features) -> None:
        self.model, self.features = model, features

    def add_scores(self, rollouts: Sequence[Rollout]) -> list[Rollout]:
        """Return the rollouts and their opponents with a score of each joint sample; their rewards stay."""
        opponents = [rollout.opponent for rollout in rollouts if rollout.opponent is not None]
        if opponents:
            scored = iter(self.add_scores(opponents))
            rollouts = [
                rollout if rollout.opponent is None else replace(rollout, opponent=next(scored))
                for rollout in rollouts
            ]
        samples = [_texts(self.model, group) for rollout in rollouts for group in rollout.groups]
        # Each different text is read once: groups often repeat completions.
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
    """Yield the features of each policy that gives some, by its present model."""
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
    # The file knows a text and its features, as names of models do not tell weights apart.
    for features in readers(team):
        if model.fits(features):
            return RewardModelScorer(model, features)
    raise ValueError(
        f"no model of the team reads as the one that the reward model {path} was trained with: take that model, "
        "with adapters or with full weights that were not trained before, or train a reward model with this one"
    )


class ScoredSource(SourceWrapper):
    """Gives the learner the scores of a reward model in place of the task's rewards.

    Args:
        source: Samples the rollouts.
        scorer: Scores them.
    """

    def __init__(self, source: RolloutSource, scorer: RewardModelScorer) -> None:
        super().__init__(source, "reward_model")
        self.scorer = scorer
        # Of the first model: a run whose model was fitted again is still the same run.
        self._fingerprint = scorer.model.fingerprint

    @property
    def identity(self) -> Mapping[str, Any]:
        """The reward model that the run begins with."""
        return {"reward_model_is": self._fingerprint}

    def collect(self, request: UpdateRequest, timer: Timer) -> TrainBatch:
        """Sample the rollouts, and add scores to their rewards."""
        batch = self.source.collect(request, timer)
        with timer("judging"):
            shard = [self.scorer.add_scores(rollouts) for rollouts in batch.shard]
        return TrainBatch(shard, [shard])

    def metrics(self, batch: TrainBatch) -> dict[str, float]:
        """Compare scores with rewards."""
        return {**score_metrics(batch.rollouts), **self.source.metrics(batch)}

    def training_view(self, rollouts: Sequence[Rollout]) -> list[Rollout]:
        """Return rollouts that are rewarded by their scores."""
        return [use_scores_as_rewards(rollout) for rollout in self.source.training_view(rollouts)]


def make_scored_source(
    source: RolloutSource, env: TextEnv, team: Team, options: TrainerOptions
) -> ScoredSource:
    """Wrap a source by the reward model of the options; raises the errors of `load_scorer`."""
    scorer = load_scorer(Path(str(options.reward_model.path)), team, env.possible_agents)
    if options.reward_model.update_interval:
        return RewardModelUpdater(
            source, scorer, options.reward_model.update_interval, options.seed
        )
    return ScoredSource(source, scorer)


class RewardModelUpdater(ScoredSource):
    """A `ScoredSource` whose reward model is fitted again every few updates (iterated RLHF).

    The answers of a team that learns drift away from those that its reward model was trained on. After every n
    updates the model is fitted, from scratch, to the newest pairs of the run, of which the task's reward prefers
    one: of a group's J joint samples the best with the worst, the second best with the second worst, and so on, as
    long as rewards differ (arXiv 2203.02155 §3). Scores are centered on the new pairs. With fewer than `LEAST`
    pairs the model stays.

    Args:
        source: Samples the rollouts.
        scorer: Scores them; its model is replaced.
        interval: Number of updates between fits.
        seed: Draws what is held out.
    """

    state_key = "reward_model"

    def __init__(
        self, source: RolloutSource, scorer: RewardModelScorer, interval: int, seed: int
    ) -> None:
        super().__init__(source, scorer)
        self.interval, self.seed = interval, seed
        self.comparisons: list[JointComparison] = []

    def on_optimizer_step(self, trainer: Trainer, batch: TrainBatch, row: dict[str, Any]) -> None:
        """Add the pairs of the update, and fit the model every `interval` updates."""
        # The learner counts an update once it has stepped, which it has here.
        row |= self.observe(trainer.learner.updates, batch.rollouts)

    def observe(self, update: int, rollouts: Sequence[Rollout]) -> dict[str, float]:
        """Add the pairs of an update, and fit the model every `interval` updates; return metrics."""
        pairs = processes.broadcast(
            [
                pair
                for rollout in rollouts
                for group in rollout.groups
                for pair in make_comparisons(str(rollout.start), group)
            ]
        )
        self.comparisons = [*self.comparisons, *pairs][-max(MOST, len(pairs)) :]
        if update % self.interval or len(self.comparisons) < LEAST:
            return {}
        before = self.scorer.model
        options = RewardModelOptions(part_length=before.part_length, seed=self.seed)
        model = fit_reward_model(self.comparisons, before.agents, self.scorer.features, options)
        # Broadcast, as the last digits of a fit may differ between machines.
        self.scorer.model = processes.broadcast(model)
        return {
            "reward_model/pairs": model.report["pairs"],
            "reward_model/held_out_accuracy": model.report["accuracy"],
        }

    def state_dict(self) -> dict[str, Any]:
        """Return the pairs and the model."""
        # Plain tuples, since `torch.load` refuses classes in a checkpoint.
        rows = [(task, tuple(winner), tuple(loser)) for task, winner, loser in self.comparisons]
        return {"comparisons": rows, "model": dict(vars(self.scorer.model))}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from `state_dict`'s value."""
        self.comparisons = [
            JointComparison(task, Sample(*winner), Sample(*loser))
            for task, winner, loser in state["comparisons"]
        ]
        self.scorer.model = RewardModel(**state["model"])


def make_comparisons(task: str, group: Group) -> Iterator[JointComparison]:
    """Yield the pairs of a group by the task's reward, at most `PER_GROUP`."""
    order = np.argsort(group.rewards, kind="stable").tolist()
    for worse, better in list(zip(order, reversed(order), strict=True))[
        : min(PER_GROUP, len(order) // 2)
    ]:
        if group.rewards[better] > group.rewards[worse]:
            yield JointComparison(task, _sample(group, better), _sample(group, worse))


def _sample(group: Group, joint: int) -> Sample:
    texts = {
        agent: completions[index].text
        for (agent, completions), index in zip(
            group.completions.items(), group.joint[joint], strict=True
        )
    }
    # Plain texts: `torch.load` refuses the class of a prompt with a history in a checkpoint.
    return Sample({agent: str(text) for agent, text in group.prompts.items()}, texts)


def score_metrics(rollouts: Sequence[Rollout]) -> dict[str, float]:
    """Compare the scores of a reward model with the task's rewards, over joint samples (`docs/metrics.md`)."""
    groups = [group for rollout in rollouts for group in rollout.groups]
    pairs = [pair for group in groups for pair in zip(group.scores, group.rewards, strict=True)]
    scores, rewards = np.array(pairs, dtype=np.float64).T
    varied = scores.std() > 0 and rewards.std() > 0
    metrics = {
        "reward_model/mean": float(
            np.mean([turn_mean(rollout.turns, lambda group: group.scores) for rollout in rollouts])
        ),
        "reward_model/correlation": float(np.corrcoef(scores, rewards)[0, 1]) if varied else 0.0,
    }
    orders = np.concatenate([_orders(group) for group in groups])
    if len(orders):
        metrics["reward_model/agreement"] = float(np.mean((1 + orders) / 2))
    return metrics


def _orders(group: Group) -> NDArray[np.float64]:
    """Return 1 for each pair of joint samples that score and reward order alike, -1 unlike, 0 for equal scores."""
    scores, rewards = (
        np.sign(np.subtract.outer(values, values)) for values in (group.scores, group.rewards)
    )
    return np.asarray(scores[rewards > 0], np.float64)
