"""The learner of an algorithm."""

from __future__ import annotations

from llm_decpomdp.algorithms.critics.states import Features
from llm_decpomdp.algorithms.learning.algorithm import Algorithm
from llm_decpomdp.algorithms.learning.base_learner import BaseLearner
from llm_decpomdp.algorithms.learning.learner import Learner
from llm_decpomdp.algorithms.learning.learner_options import LearnerOptions
from llm_decpomdp.algorithms.preferences.algorithm import PreferenceAlgorithm
from llm_decpomdp.algorithms.preferences.learner import PreferenceLearner
from llm_decpomdp.policy import Team


def make_learner(
    team: Team,
    algorithm: Algorithm,
    options: LearnerOptions,
    seed: int = 0,
    features: Features | None = None,
) -> BaseLearner:
    """Build the learner of an algorithm: from preferences, or from advantages; errors as of either.

    Args:
        team: Agent to policy.
        algorithm: The declaration of the algorithm.
        options: How to step.
        seed: Seed of what a learner draws.
        features: As of `Learner`.
    """
    if isinstance(algorithm, PreferenceAlgorithm):
        return PreferenceLearner(team, algorithm, options, seed)
    return Learner(team, algorithm, options, features)
