"""GRPO: one agent against the mean of its group (arXiv 2402.03300; Dr. GRPO, arXiv 2503.20783).

For a prompt x, G completions y_1 .. y_G with rewards r_1 .. r_G:

    A_g = r_g - (1/G) sum_h r_h
    L   = -(1/G) sum_g A_g sum_t log pi(y_gt | x, y_g<t)

Assumption: one update for each sampled batch, so that the completions come from the policy that is updated. Then
the ratio of the paper is 1 and its clipping has no effect; `num_iterations` adds both, and `kl.coefficient` the
reference. (With `top_p` or `top_k`, samples come from a truncated distribution, and the gradient is that of the
full one.) As in Dr. GRPO, nothing is divided by the length of a completion, nor by the group's standard deviation
unless `normalize_advantages` is set, as in the paper.

Degenerate case: equal rewards teach nothing; such a group is counted and skipped.
"""

from __future__ import annotations

from llm_decpomdp.algorithms.learning.advantages import mean
from llm_decpomdp.algorithms.learning.algorithm import Algorithm

GRPO = Algorithm(
    "grpo",
    baseline=mean,
    multi_agent=False,
    description=(
        "GRPO (arXiv 2402.03300): one agent answers the same prompt several times; answers with a reward above "
        "the mean of their group become more likely, others less likely."
    ),
)
