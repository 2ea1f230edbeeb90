"""Small teams with references, groups and pairs, for tests of preferences."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from llm_decpomdp.algorithms.preferences.algorithm import PreferenceAlgorithm
from llm_decpomdp.algorithms.preferences.learner import PreferenceLearner
from llm_decpomdp.algorithms.preferences.pairs import PreferencePair, rollout_pairs
from llm_decpomdp.algorithms.rollouts.rollout import Group, Joint, Rollout, Start
from llm_decpomdp.policy import Completion
from tests.algorithms.conftest import Recurrent, TinyPolicy, Unigram
from tests.algorithms.steps import declare

START = Start(task_id="task/7")


class ReferencedTiny(TinyPolicy):
    """A tiny policy that keeps its weights from before training."""

    def keep_reference(self) -> None:
        self.reference = copy.deepcopy(self.model)

    @torch.no_grad()
    def reference_log_probs(
        self, prompt: str, completions: Sequence[Completion]
    ) -> tuple[torch.Tensor, torch.Tensor]:
        before = type(self)(self.reference, self.alphabet, self.max_tokens)
        return before.log_probs(prompt, completions)


def unigram() -> ReferencedTiny:
    """A softmax over three actions: the end, `a` and `b`."""
    return ReferencedTiny(Unigram(3), "ab", 3)


def recurrent(seed: int) -> ReferencedTiny:
    return ReferencedTiny(Recurrent(3, 8, seed=seed), "ab", 3)


class LexicalTiny(ReferencedTiny):
    """A tiny policy that tells its tokens."""

    @property
    def vocabulary(self) -> dict[str, int]:
        return {letter: 1 + number for number, letter in enumerate(self.alphabet)}


def lexical(seed: int) -> LexicalTiny:
    return LexicalTiny(Recurrent(3, 8, seed=seed), "ab", 3)


def learner_of(team: Mapping[str, Any], seed: int = 0, **options: Any) -> PreferenceLearner:
    algorithm, settings = declare("madpo", {"pair_min_gap": 0.0, **options})
    learner = algorithm.make_learner(team, settings, seed)
    assert isinstance(learner, PreferenceLearner)
    return learner


def pairs_of(
    rollout: Rollout, agents: Sequence[str] = ("x", "y"), seed: int = 0, **options: Any
) -> list[list[PreferencePair]]:
    """Return the pairs of each group that a learner of these agents makes."""
    algorithm, settings = declare("madpo", {"pair_min_gap": 0.0, **options})
    assert isinstance(algorithm, PreferenceAlgorithm)
    rng = np.random.default_rng(seed)
    return rollout_pairs(rollout, agents, algorithm.pair_options, settings, rng)


def group_of(
    rows: Mapping[str, Sequence[Sequence[int]]], joint: Joint, rewards: Sequence[float]
) -> Group:
    """A group of token rows, whose joint samples have these rewards; the prompt is `a`."""
    policy = unigram()
    return Group(
        turn=0,
        parent=None,
        prompts=dict.fromkeys(rows, "a"),
        completions={a: tuple(policy.completion(row) for row in of) for a, of in rows.items()},
        joint=joint,
        rewards=tuple(rewards),
        infos=tuple({} for _ in rewards),
        chosen=0,
    )


def rollout_of(
    rows: Mapping[str, Sequence[Sequence[int]]], joint: Joint, rewards: Sequence[float]
) -> Rollout:
    return Rollout(START, (group_of(rows, joint, rewards),))
