"""MAREINFORCE: a team without a baseline (REINFORCE, Williams 1992).

Like MAGRPO (`magrpo.py`), with the returns as advantages:

    A_g = R_g

Assumption: returns are scaled to lie around 0. The gradient is unbiased, and its variance grows with the square
of the mean return: with an offset every sample becomes more likely, and learning is slow or drifts to the first
samples.

Degenerate cases: equal returns other than 0 change the weights without a learning signal. G may be 1.
"""

from __future__ import annotations

from llm_decpomdp.algorithms.learning.advantages import none
from llm_decpomdp.algorithms.learning.algorithm import Algorithm

MAREINFORCE = Algorithm(
    "mareinforce",
    baseline=none,
    min_group_size=1,
    description=(
        "MAREINFORCE (after REINFORCE, Williams 1992): each agent answers the same prompt several times, and the "
        "answers of all agents are combined and rewarded; every answer becomes more likely in proportion to its "
        "return, without a comparison."
    ),
)
