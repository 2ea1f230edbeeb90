"""MAGRPO: a team against the mean of its group (arXiv 2508.04652).

At turn k every agent i sees its own prompt x_ik and samples G completions y_ik1 .. y_ikG. They are combined into
joint samples, each with one team reward. R_ikg is the mean return of those that contain y_ikg (`advantages.py`):

    A_ikg = R_ikg - (1/G) sum_h R_ikh
    L_ik  = -(w_k/G) sum_g A_ikg sum_t log pi_i(y_ikgt | x_ik, y_ikg<t)

The loss of agent i is the mean of L_ik over the groups of the update, each weighted by the share of the episodes
that reach it. In a chain (`rollouts/collection.py`) the g-th completions of all agents are one joint sample, whose
reward is the return of all agents; later rewards and the discount have no effect. In a tree they do. The w_k are
`turn_gradient_weights`.

Agents are credited together (centralized) and condition on their own prompts only (decentralized execution).

Assumption: with one update for each sampled batch, the completions come from the updated policy, so there is no
ratio; with several, ratios are clipped as in PPO. With `top_p` or `top_k`, samples come from a truncated
distribution, and the gradient is that of the full one.

Degenerate cases: equal returns teach nothing; such a group is counted and skipped. With one agent and one turn
this is GRPO.
"""

from __future__ import annotations

from llm_decpomdp.algorithms.learning.advantages import mean
from llm_decpomdp.algorithms.learning.algorithm import Algorithm

MAGRPO = Algorithm(
    "magrpo",
    baseline=mean,
    description=(
        "MAGRPO (arXiv 2508.04652): each agent answers the same prompt several times, and the answers of all "
        "agents are combined and rewarded; answers with a return above the mean of their group become more "
        "likely, others less likely, for every agent by the team's reward."
    ),
)
