"""MADPO: a team learns from pairs of joint samples, one better than the other (DPO, arXiv 2305.18290, for teams).

Of two joint samples w and l for the same prompts, with the returns R_w > R_l,

    L = -log sigmoid(beta sum_i [Delta_i(w_i) - Delta_i(l_i)]) - alpha sum_{i: w_i != l_i} log pi_i(w_i | h_i)
    Delta_i(y) = log pi_i(y | h_i) - log ref_i(y | h_i)

with log-probabilities of whole completions, their ends included, and the loss of an update the mean over its
pairs, in which each counts by the share of the episodes that come to its group. The reference is the team at the
start of the run, or its models without adapters. Each agent conditions on its own prompt alone, and its gradient
takes those of its partners as they were before anybody moved.

Which pairs: any two joint samples of a group (`pair_kind=joint`), or two in which one agent alone said something
else (`single`), which has the whole credit (`preferences/pairs.py`). Under `joint` an agent whose partner made the
difference is taught its own answer of the better sample, good or bad.

Whose samples: those of a group, or one side of each pair from another team, such as the same team before
(`comparator`, `preferences/pairs.py`): iterated, the team has to become better than it was.

Assumption: none on who sampled the pairs. They need not come from the policy that is updated, so that stored ones
will do; how far the team may move from the reference is up to beta.

Degenerate cases: equal returns make no pair; an agent that said the same in both samples learns nothing from
them. In a chain of several turns pairs are made within the group of each turn, by its own reward.
"""

from __future__ import annotations

from llm_decpomdp.algorithms.preferences.algorithm import PreferenceAlgorithm

MADPO = PreferenceAlgorithm(
    "madpo",
    description=(
        "MADPO (DPO, arXiv 2305.18290, for teams): of two joint samples for the same prompts the answers of the "
        "better one become likelier than those of the worse one, compared with the team before training, for "
        "every agent that said different things in the two."
    ),
)
