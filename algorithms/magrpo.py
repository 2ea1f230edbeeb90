"""MAGRPO: a team against the mean of its group (arXiv 2508.04652).

At turn k every agent i sees its own prompt x_ik and samples G completions y_ik1 .. y_ikG. Joint samples are made
of them, each with one team reward, and R_ikg is the mean return of those that contain y_ikg (`advantages.py`):

    A_ikg = R_ikg - (1/G) sum_h R_ikh
    L_ik  = -(w_k/G) sum_g A_ikg sum_t log pi_i(y_ikgt | x_ik, y_ikg<t)

The loss of agent i is the mean of L_ik over the groups of the update, each counted by the share of the episodes
that come to it. In a chain (`rollouts/collection.py`) the g-th completions of all agents are one joint sample, all
agents share its reward as their advantage's return, and later rewards and the discount do not enter; in a tree
they do. The w_k are `turn_gradient_weights`.

Agents are credited together (centralised) and condition on their own prompts alone (decentralised execution).

Assumption: with one update for each sampled batch the completions come from the policy that is updated, hence no
ratio; with several, ratios are clipped as in PPO. With `top_p` or `top_k` samples come from a truncated
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
        "MAGRPO (arXiv 2508.04652): each agent answers the same prompt several times, and the answers of "
        "all agents are put together and rewarded; what earned more than the mean of its group becomes "
        "likelier, what earned less becomes rarer, for every agent by the team's reward."
    ),
)
