"""RAE: a team against what each role has earned so far (SPIRAL, arXiv 2506.24119).

As MAGRPO (`magrpo.py`), but a completion is compared with the past instead of with its group. For agent i on turn
k of task m, with R_g the values of its completions and b the running mean of that role before the update:

    A_g = R_g - b_imk        b_imk <- 0.95 b_imk + 0.05 mean(R)

(`learning/running.py`, which says what stands for b on a first visit.) Each role has a baseline of its own: one
over all would credit an agent for the position that it plays in.

Assumption: tasks come back, so that b knows them; a run that sees each once compares with the mean of the role
over all tasks. One completion (G = 1) is enough: all completions of an update may be of different tasks.

Degenerate cases: the first update of a run only begins the baselines. Where all returns are equal to b nothing is
learned; equal returns above or below it do move the weights, as with any baseline that is not the group's.
"""

from __future__ import annotations

from llm_decpomdp.algorithms.learning.algorithm import Algorithm
from llm_decpomdp.algorithms.learning.baselines import none

RAE = Algorithm(
    "rae",
    baseline=none,
    decay=0.95,
    min_group_size=1,
    description=(
        "RAE (SPIRAL, arXiv 2506.24119): the answers of all agents are put together and rewarded; what earned "
        "more than the agent has earned so far on this turn of this task becomes likelier, what earned less "
        "becomes rarer."
    ),
)
