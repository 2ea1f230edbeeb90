"""COMA: a team credited by a critic of joint answers (arXiv 1705.08926, eq. 4).

Like MAGRPO (`magrpo.py`), with the counterfactual advantage in place of the group's mean:

    A_ig = Q(x, a_g) - (1/G) sum_h Q(x, (a_ih, a_-ig))

x is the state with the histories of all agents, a_g the joint sample g, a_-ig the answers of agent i's partners in
it. COMA sums over all actions by their probabilities. Completions cannot be enumerated, so the agent's own G
samples, drawn from these probabilities, replace the sum. The partners are fixed in each sum, so their luck
cancels, as with `joint_mode=common`; the price is a critic instead of further environment steps.

Q is regressed to returns, and evaluated before it learns from them (`critics/counterfactual.py`). In a turn in
which Q explains no differences within groups, the advantages are those of MAGRPO with a critic of later states;
`critic/counterfactual` is the share of the other turns.

Assumption: Q is accurate for joint answers that were not played. The mean over the agent's own samples contains
the sample itself, so the expected gradient is (G-1)/G times that of COMA.

Degenerate cases: G = 1 is refused, because every advantage is 0. With one agent this is Q minus its mean. Equal
returns teach nothing while the gate is closed.
"""

from __future__ import annotations

from llm_decpomdp.algorithms.actor_critic import CounterfactualActorCritic

COMA = CounterfactualActorCritic(
    "coma",
    scope="joint",
    input="history+state",
    description=(
        "COMA (arXiv 1705.08926) over own samples: a critic learns the value of the answers of all agents "
        "together; an agent's answer becomes more likely if its value exceeds that of the agent's other answers "
        "with the same answers of its teammates."
    ),
)
