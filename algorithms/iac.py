"""IAC: independent actor-critics (Foerster et al., arXiv 1705.08926, section 3), one critic for each agent.

As MAGRPO (`magrpo.py`), with the values of agent i's own critic in place of the group:

    A_itg = y_itg - V_i(h_it),    y = r + discount V_i(h'), and TD(lambda) for what goes on (`actor_critic.py`)

h_it is what agent i itself has read and written up to turn t, its prompts and answers, without the environment's
state; V_i is a linear head on frozen features of that text (`head.py`). All agents learn from the team's reward.

Assumption: team-mates are a part of the environment that changes only slowly. V_i averages over what they do, so
that their luck stays in A: `maac.py` reads all texts instead.

Degenerate cases: with G = 1 the advantage is GAE's (arXiv 1506.02438, eq. 16); with one agent this is single-agent
actor-critic; over one turn y = r, and V is a baseline for the prompt. While V_i explains nothing it is the turn's
running mean return, and in the first update the mean of the other samples of the batch. With G > 1 over several
turns only one sample of a group goes on, and the others end with the critic's guess: take G = 1 and more starts.
"""

from __future__ import annotations

from llm_decpomdp.algorithms.actor_critic import ActorCritic

IAC = ActorCritic(
    "iac",
    scope="own",
    input="history",
    min_group_size=1,
    description=(
        "IAC (independent actor-critics): each agent has a critic of its own that learns what its situation is "
        "worth, from the texts it has seen and written; an answer after which the team earned more than that "
        "becomes likelier, one after which it earned less becomes rarer."
    ),
)
