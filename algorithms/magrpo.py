"""MAGRPO: a team against the mean of its group (arXiv 2508.04652).

At turn k every agent i sees its own prompt x_ik and samples G completions y_ik1 .. y_ikG; the g-th
completions of all agents are one joint sample with one team reward r_kg:

    A_kg = r_kg - (1/G) sum_h r_kh
    L_ik = -(w_k/G) sum_g A_kg sum_t log pi_i(y_ikgt | x_ik, y_ikg<t)

The loss of agent i is the mean of L_ik over all groups of the update: every turn of every chain is one.

All agents share the advantage (centralised credit) and condition on their own prompts alone
(decentralised execution). Each turn is credited with its own reward; later rewards and the discount
do not enter. The w_k are `turn_gradient_weights`.

Assumption: as in GRPO, one update for each sampled batch, hence no ratio, clipping or KL term. With
`top_p` or `top_k` samples come from a truncated distribution, and the gradient is that of the full one.

Degenerate cases: equal rewards teach nothing; such a group is counted and skipped. With one agent
and one turn this is GRPO.
"""

from __future__ import annotations

from llm_decpomdp.algorithms.baselines import mean
from llm_decpomdp.algorithms.learner import Algorithm

MAGRPO = Algorithm("magrpo", baseline=mean, multi_agent=True)
