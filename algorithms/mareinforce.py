"""MAREINFORCE: a team without a baseline (REINFORCE, Williams 1992).

As MAGRPO (`magrpo.py`), with the returns themselves for advantages:

    A_g = R_g

Assumption: returns are scaled to lie around 0. The gradient is unbiased, and its variance grows with the square
of the mean return: with an offset every sample is made likelier, and learning is slow or drifts to whatever was
sampled first.

Degenerate cases: equal returns other than 0 move the weights without teaching anything; all 0, nothing moves.
G may be 1.
"""

from __future__ import annotations

from llm_decpomdp.algorithms.learning.advantages import none
from llm_decpomdp.algorithms.learning.algorithm import Algorithm

MAREINFORCE = Algorithm(
    "mareinforce",
    baseline=none,
    min_group_size=1,
    description=(
        "MAREINFORCE (after REINFORCE, Williams 1992): each agent answers the same prompt several times, "
        "and the answers of all agents are put together and rewarded; every answer becomes likelier by as "
        "much as the team earned with it, and is compared with nothing."
    ),
)
