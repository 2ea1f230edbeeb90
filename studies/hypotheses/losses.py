"""Losses: estimators and masks that look harmless."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from llm_decpomdp import make
from llm_decpomdp.agents.inference.options import Sampling
from llm_decpomdp.agents.models.causal_lm import CausalLM
from llm_decpomdp.agents.models.tiny import tiny_causal_lm
from llm_decpomdp.algorithms.learning.learner_options import LearnerOptions
from llm_decpomdp.envs.probes.parts import LETTERS
from llm_decpomdp.policy import Completion
from llm_decpomdp.seeding import stream
from studies.hypotheses.hypothesis import Clause, Hypothesis, Measures
from studies.hypotheses.training import tasks, train, value

ACTIONS = 8

TINY_RATE = 4e-3
"""Learning rate of the tiny language models."""

MAX_TOKENS = 4


def estimators(seed: int) -> Measures:
    """Measure the direction of the exact policy gradient of KL estimators in the reward.

    The cosine to the gradient of KL(pi, ref) for k1 = log pi / ref and for k3 = ref / pi - 1 - log ref / pi, as
    costs of the actions of one random softmax policy against another.
    """
    rng = stream(seed, "softmax")
    logits, reference = torch.tensor(rng.normal(size=(2, ACTIONS)))
    logits.requires_grad_()
    log_p, log_r = logits.log_softmax(0), reference.log_softmax(0)
    p = log_p.exp()
    (exact,) = torch.autograd.grad((p * (log_p - log_r)).sum(), logits, retain_graph=True)
    costs = {
        "k1": (log_p - log_r).detach(),
        "k3": ((log_r - log_p).exp() - 1 - (log_r - log_p)).detach(),
    }
    return {name: _cosine((p * cost).sum(), logits, exact) for name, cost in costs.items()}


def _cosine(objective: Tensor, logits: Tensor, exact: Tensor) -> float:
    (gradient,) = torch.autograd.grad(objective, logits, retain_graph=True)
    return float(torch.nn.functional.cosine_similarity(gradient, exact, dim=0))


class Endless(CausalLM):
    """A language model whose loss leaves out the end of each completion."""

    def log_probs(self, prompt: str, completions: Sequence[Completion]) -> tuple[Tensor, Tensor]:
        """Return log-probabilities, and a mask without ends."""
        values, mask = super().log_probs(prompt, completions)
        mask = mask.clone()
        for row, completion in enumerate(completions):
            if not completion.truncated:
                mask[row, len(completion.tokens) - 1] = 0
        return values, mask


def ends(seed: int) -> Measures:
    """Measure rewards and lengths of tiny language models that learned with ends, and without."""
    measures = {}
    for name in ("whole", "endless"):
        env = make("probe-halves-v0")
        team = {
            agent: tiny_causal_lm(
                LETTERS,
                Sampling(max_new_tokens=MAX_TOKENS),
                seed=int(stream(seed, "policy", agent).integers(2**32)),
            )
            for agent in env.possible_agents
        }
        for policy in team.values():
            policy.__class__ = Endless if name == "endless" else CausalLM
        options = LearnerOptions(learning_rate=TINY_RATE, max_grad_norm=0.3)
        train(env, team, seed=seed, updates=30, group_size=32, options=options)
        measures[f"value, {name}"] = value(env, team)
        prompts = [task.cues[0] for task in tasks(env)]
        answers = team[env.possible_agents[0]].generate(prompts, 64)
        measures[f"length, {name}"] = float(
            np.mean([len(answer.text) for group in answers for answer in group])
        )
    return measures


HYPOTHESES = (
    Hypothesis(
        "H9",
        "As a cost in the reward the estimator k1 pulls a policy towards its reference along KL, and k3 does not.",
        "The expected score-function gradient of k1 is that of the divergence KL(pi, ref); that of k3 belongs "
        "to another one (arXiv 2506.09477).",
        "Softmax policies over 8 actions with standard normal logits against as random references, exact "
        "gradients; cosine to the gradient of KL(pi, ref).",
        (
            Clause("k1: above 0.99", {"k1": 1}, above=0.99),
            Clause("k3: below 0.6", {"k3": 1}, below=0.6),
        ),
        estimators,
        seeds=40,
        untested="how far trained policies end from their references at equal coefficients.",
    ),
    Hypothesis(
        "H13",
        "A loss without the ends of completions makes answers longer, and worse where ending counts.",
        "What was sampled is not all learned from: nothing teaches a model when to stop.",
        "probe-halves-v0, language models of 30 thousand random weights, MAGRPO, G = 32, 30 updates, at most 4 "
        "tokens; length of the first agent's answers, and mean reward.",
        (
            Clause(
                "answers are longer by over 0.2 letters",
                {"length, endless": 1, "length, whole": -1},
                above=0.2,
            ),
            Clause(
                "rewards are lower by over 0.1",
                {"value, whole": 1, "value, endless": -1},
                above=0.1,
            ),
        ),
        ends,
        untested="training on padding. Both learn from equally many completions, not tokens, as lengths are the "
        "outcome.",
    ),
)
