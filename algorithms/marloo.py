"""MARLOO: a team against the mean of the others in its group (RLOO, arXiv 2402.14740).

After Kool et al. 2019, and Ahmadian et al. 2024 for language models. As MAGRPO (`magrpo.py`), with a
baseline that leaves the sample itself out:

    A_g = R_g - (1/(G-1)) sum_{h != g} R_h  =  G/(G-1) (R_g - (1/G) sum_h R_h)

Assumption: G >= 2 samples of the same state. The advantage is unbiased, and differs from MAGRPO's by the
factor G/(G-1) alone: a larger step, which Adam or a clipped gradient norm levels out again. Compare the
two under plain gradient descent, or expect equal curves.

Degenerate case: equal returns teach nothing; such a group is counted and skipped.
"""

from __future__ import annotations

from llm_decpomdp.algorithms.learning.advantages import leave_one_out
from llm_decpomdp.algorithms.learning.algorithm import Algorithm

MARLOO = Algorithm(
    "marloo",
    baseline=leave_one_out,
    description=(
        "MARLOO (after RLOO, arXiv 2402.14740): each agent answers the same prompt several times, and the "
        "answers of all agents are combined and rewarded; answers with a return above the mean of the others in "
        "their group become more likely, others less likely, for every agent by the team's reward."
    ),
)
