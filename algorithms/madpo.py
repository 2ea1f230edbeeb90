"""MADPO: a team learns from pairs of a better and a worse joint sample (DPO, arXiv 2305.18290, for teams).

For two joint samples w and l for the same prompts, with the returns R_w > R_l,

    L = -log sigmoid(beta sum_i [Delta_i(w_i) - Delta_i(l_i)]) - alpha sum_{i: w_i != l_i} log pi_i(w_i | h_i)
    Delta_i(y) = log pi_i(y | h_i) - log ref_i(y | h_i)

with log-probabilities of whole completions including their ends. The loss of an update is the mean over its pairs,
each weighted by the share of the episodes that reach its group. The reference is the team at the start of the run,
or its models without adapters. Each agent conditions on its own prompt, and its gradient uses the log-ratios of
its partners from before the step.

Pairs: any two joint samples of a group (`pair_kind=joint`), or two in which only one agent differs (`single`),
which then has the whole credit (`preferences/pairs.py`). With `joint`, an agent whose partner made the difference
learns its own answer of the better sample, good or bad. Both sides come from the group, or one of them from
another team, such as an earlier version of the same team (`opponent`): repeated, the team has to improve on
itself.

Assumption: none about the policy that sampled the pairs. They may be stored; beta limits how far the team moves
from the reference.

Degenerate cases: equal returns make no pair. An agent with equal completions in both samples learns nothing from
them. In a chain of several turns, each turn makes pairs of its own group by its own reward.
"""

from __future__ import annotations

from llm_decpomdp.algorithms.preferences.algorithm import PreferenceAlgorithm

MADPO = PreferenceAlgorithm(
    "madpo",
    description=(
        "MADPO (DPO, arXiv 2305.18290, for teams): of two joint samples for the same prompts, the answers of the "
        "better one become more likely than those of the worse one, relative to the team before training, for "
        "every agent whose answers differ."
    ),
)
