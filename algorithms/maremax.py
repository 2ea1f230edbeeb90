"""MAReMax: a team against the best sample of its group (after ReMax, arXiv 2310.10505).

As MAGRPO (`magrpo.py`), with the group's best return for a baseline:

    A_g = R_g - max_h R_h  <=  0

ReMax compares with a greedy sample, which costs a further episode; here the best of the group stands in for
it. No completion becomes more likely by its own advantage, only by the probability that the others lose.

Assumption: the softmax redistributes the removed probability. The baseline depends on the samples, so the gradient
is biased. A policy that is certain of a bad answer leaves it slowly; with too high a learning rate, probability
leaks to completions that were never sampled.

Degenerate case: equal returns teach nothing; such a group is counted and skipped.
"""

from __future__ import annotations

from llm_decpomdp.algorithms.learning.advantages import maximum
from llm_decpomdp.algorithms.learning.algorithm import Algorithm

MAREMAX = Algorithm(
    "maremax",
    baseline=maximum,
    description=(
        "MAReMax (after ReMax, arXiv 2310.10505): each agent answers the same prompt several times, and the "
        "answers of all agents are combined and rewarded; answers with a return below the best of their group "
        "become less likely, for every agent by the team's reward."
    ),
)
