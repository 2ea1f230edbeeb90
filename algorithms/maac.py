"""MAAC: a team with one centralised critic (actor-critic with centralised training, decentralised execution).

As IAC (`iac.py`), with one critic of the team for all agents:

    A_tg = y_tg - V(x_t),    y = r + discount V(x'), and TD(lambda) for what goes on (`actor_critic.py`)

x_t is the environment's `state()` with the prompts and answers of all agents up to turn t: with the state alone
the gradient is biased where agents see less (arXiv 2105.11674), and with histories it is not (arXiv 2509.26000).
The critic learns once from each group, not once for each agent, and exists in training alone.

Assumption: a value of states (V). With values of actions, r + discount V' - Q, the advantage of every action goes
to 0 as Q becomes right; `coma.py` has the baseline that Q is good for.

Degenerate cases: as of IAC. Over one turn and before the critic has seen anything this is `marloo.py` with the
batch as its group: with one start, MARLOO itself.
"""

from __future__ import annotations

from llm_decpomdp.algorithms.actor_critic import ActorCritic

MAAC = ActorCritic(
    "maac",
    scope="joint",
    input="history+state",
    min_group_size=1,
    description=(
        "MAAC (multi-agent actor-critic): one critic, which reads what all agents have seen and written and the "
        "environment's state, learns what a situation is worth; answers after which the team earned more than "
        "that become likelier, those after which it earned less become rarer."
    ),
)
