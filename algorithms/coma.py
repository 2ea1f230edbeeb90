"""COMA: a team whose members are credited by a critic of joint answers (arXiv 1705.08926, eq. 4).

As MAGRPO (`magrpo.py`), with the counterfactual advantage in place of the group's mean:

    A_ig = Q(x, a_g) - (1/G) sum_h Q(x, (a_ih, a_-ig))

x is the state with all agents' histories, a_g the joint sample g, a_-ig the answers of agent i's partners in it.
COMA sums over all actions by their probabilities; completions cannot be enumerated, so that the agent's own G
samples, which are drawn by them, stand for that sum. Partners stay as they are in each sum: their luck cancels, as
under `joint_mode=common`, at the price of a critic in place of further runs of the environment.

Q is regressed to returns, and judged before it learns from them (`counterfactual.py`). Of a turn in which it
explains no differences within groups the advantages are MAGRPO's, with the critic of states for the future
(`critic.py`); `critic/counterfactual` says how often they are not.

Assumption: what Q says of joint answers that were not played holds. The mean over the agent's own samples contains
the sample itself, so that the expected gradient is (G-1)/G times COMA's.

Degenerate cases: G = 1 is refused, as every advantage is 0; with one agent this is Q less its mean; equal returns
teach nothing while the gate is closed.
"""

from __future__ import annotations

from llm_decpomdp.algorithms.actor_critic import CounterfactualActorCritic

COMA = CounterfactualActorCritic(
    "coma",
    scope="joint",
    input="history+state",
    description=(
        "COMA (arXiv 1705.08926) over own samples: a critic learns what the answers of all agents are worth "
        "together; an agent's answer becomes likelier if the critic holds it for better than the agent's other "
        "answers beside the same answers of its team-mates."
    ),
)
