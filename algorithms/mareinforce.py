"""MAREINFORCE: a team without a baseline (REINFORCE, Williams 1992).

As MAGRPO (`magrpo.py`), with the returns themselves for advantages:

    A_g = R_g

Assumption: returns are scaled to lie around 0. The gradient is unbiased, and its variance grows with the square
of the mean return: with an offset every sample is made likelier, and learning is slow or drifts to whatever was
sampled first.

Degenerate case: equal returns other than 0 move the weights without teaching anything; all 0, nothing moves.
"""

from __future__ import annotations

from llm_decpomdp.algorithms.baselines import none
from llm_decpomdp.algorithms.learner import Algorithm

MAREINFORCE = Algorithm("mareinforce", baseline=none)
