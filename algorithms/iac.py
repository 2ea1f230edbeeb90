"""IAC: independent actor-critics, one critic for each agent (Foerster et al., arXiv 1705.08926, section 3).

Like MAGRPO (`magrpo.py`), with the values of agent i's own critic in place of the group:

    A_itg = y_itg - V_i(h_it),    y = r + discount V(x'), and TD(lambda) for the sample that continues

h_it is the text that agent i has read and written up to turn t, without the environment's state. V_i is a linear
head on frozen features of that text (`critics/head.py`). All agents learn from the team's reward.

Assumption: teammates are a part of the environment that changes slowly. V_i averages over their actions, so their
luck stays in A; `maac.py` reads the texts of all agents instead.

Degenerate cases: with G = 1 the advantage is that of GAE (arXiv 1506.02438, eq. 16). With one agent this is
single-agent actor-critic. With one turn y = r, and V is a baseline for the prompt. While V_i explains nothing, it
is the turn's running mean return, and in the first update the mean of the other samples of the batch. With G > 1
over several turns, only one sample of a group continues, and the others end with the critic's estimate: use G = 1
and more starts.
"""

from __future__ import annotations

from llm_decpomdp.algorithms.actor_critic import ActorCritic

IAC = ActorCritic(
    "iac",
    scope="own",
    input="history",
    min_group_size=1,
    description=(
        "IAC (independent actor-critics): the critic of each agent learns the value of a situation from the "
        "texts that the agent has read and written; answers with a higher return become more likely, answers "
        "with a lower return less likely."
    ),
)
