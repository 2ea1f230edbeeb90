"""MAAC: a team with one centralized critic (actor-critic with centralized training and decentralized execution).

Like IAC (`iac.py`), with one critic for all agents:

    A_tg = y_tg - V(x_t),    y = r + discount V(x'), and TD(lambda) for the sample that continues

x_t is the environment's `state()` with the prompts and answers of all agents up to turn t. With the state alone
the gradient is biased under partial observability (arXiv 2105.11674); with histories it is not (arXiv 2509.26000).
The critic learns once from each group, not once for each agent, and exists in training only.

Assumption: V values states. With values of actions, the advantage r + discount V' - Q of every action goes to 0 as
Q becomes accurate; `coma.py` has a baseline for which Q is suited.

Degenerate cases: those of IAC. With one turn, before the critic has seen any state, this is `marloo.py` with the
batch as its group; with one start it is MARLOO.
"""

from __future__ import annotations

from llm_decpomdp.algorithms.actor_critic import ActorCritic

MAAC = ActorCritic(
    "maac",
    scope="joint",
    input="history+state",
    min_group_size=1,
    description=(
        "MAAC (multi-agent actor-critic): one critic learns the value of a situation from the texts of all "
        "agents and the environment's state; answers with a higher return become more likely, answers with a "
        "lower return less likely."
    ),
)
