"""A critic for the agents that learn, with the features of their own models.

| role             | what its values are for                                               | file                |
|------------------|-----------------------------------------------------------------------|---------------------|
| `future`         | the returns of chains: what follows a joint sample                    | `critic.py`         |
| `baseline`       | the same, and what a return is compared with: actor-critics           | `actor_critic.py`   |
| `counterfactual` | the future, and what an agent's other answers would have been worth   | `counterfactual.py` |
"""

from __future__ import annotations

from collections.abc import Mapping

from llm_decpomdp.algorithms.critics.actor_critic import BaselineCritic
from llm_decpomdp.algorithms.critics.counterfactual import CounterfactualCritic
from llm_decpomdp.algorithms.critics.critic import Critic, Gather
from llm_decpomdp.algorithms.critics.options import CriticOptions
from llm_decpomdp.algorithms.critics.states import Features
from llm_decpomdp.algorithms.critics.trunk import Trunk, TrunkOptimizer
from llm_decpomdp.policy import ReferencedPolicy, TrainablePolicy, policy_attribute

ROLES: Mapping[str, type[Critic]] = {
    "future": Critic,
    "baseline": BaselineCritic,
    "counterfactual": CounterfactualCritic,
}
"""Critic by role."""


def build_critic(
    options: CriticOptions,
    agents: Mapping[str, TrainablePolicy],
    features: Features | None,
    *,
    role: str,
    discount: float,
    gather: Gather,
) -> Critic:
    """Build the critic that the options ask for.

    Args:
        options: Scope, input, targets, steps.
        agents: The agents that learn, and their policies.
        features: Featuriser; by default each agent's own model reads for its own critic, and the first one that
            can for the team's.
        role: One of `ROLES`.
        discount: Weight of a turn later.
        gather: As of `Critic`.

    Raises:
        TypeError: If no policy gives features.
        ValueError: If the trunk is to be trained, and no model takes an adapter, or features are given.
    """
    readers = (
        {agent: [policy] for agent, policy in agents.items()}
        if options.critic == "own"
        else {"team": list(agents.values())}
    )
    if options.critic_trunk == "lora":
        if features is not None:
            raise ValueError(
                "critic_trunk=lora trains an adapter of a policy's model, and features are given: set "
                "critic_trunk=frozen, or leave them out"
            )
        rate = options.critic_learning_rate
        reading: dict[str, Features] = {
            name: TrunkOptimizer(_trunk(policies, seed), rate)
            for seed, (name, policies) in enumerate(readers.items())
        }
    else:
        reading = {name: features or _featuriser(policies) for name, policies in readers.items()}
    return ROLES[role](
        options,
        reading,
        agents,
        discount=discount,
        gather=gather,
    )


def _featuriser(policies: list[TrainablePolicy]) -> Features:
    """Return the features of the first model that gives some, as it is now."""
    for policy in policies:
        if isinstance(policy, ReferencedPolicy) and policy_attribute(policy, "features"):
            # The reference stays as it is: features that move with the policy would mislead the heads.
            policy.keep_reference()
            features: Features = policy_attribute(policy, "features")
            return features
    kinds = ", ".join(sorted({type(policy).__name__ for policy in policies}))
    raise TypeError(
        f"a critic reads with the hidden states of a model, and {kinds} has no features(): set critic=none, or "
        "give the Learner a function from texts to features"
    )


def _trunk(policies: list[TrainablePolicy], seed: int) -> Trunk:
    """Return a trunk of its own on the first model that stays as it is below adapters."""
    for policy in policies:
        new_trunk = policy_attribute(policy, "new_trunk")
        trunk: Trunk | None = new_trunk(seed) if new_trunk is not None else None
        if trunk is not None:
            return trunk
    raise ValueError(
        "critic_trunk=lora adds an adapter to a model that is frozen below adapters, and that of no policy is: "
        "full weights would move under what the critic learns. Train adapters (lora), or set critic_trunk=frozen"
    )
