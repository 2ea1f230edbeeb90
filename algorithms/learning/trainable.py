"""The policies of a team that can be trained, and what a learner needs of them."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from typing_extensions import get_protocol_members

from llm_decpomdp.algorithms.rollouts.sampling import distinct_policies
from llm_decpomdp.policy import (
    CuttingPolicy,
    LimitedPolicy,
    Policy,
    ReferencedPolicy,
    Team,
    TrainablePolicy,
)

logger = logging.getLogger(__name__)

TRAINABLE = get_protocol_members(TrainablePolicy)
"""Names of the members of a trainable policy."""


def trainable_policies(team: Team) -> dict[str, TrainablePolicy]:
    """Return the distinct policies with parameters that require gradients, named by their agents."""
    return {
        name: policy
        for name, policy in distinct_policies(team).items()
        if isinstance(policy, TrainablePolicy) and any(p.requires_grad for p in policy.parameters())
    }


def warn_of_delegates(team: Team) -> None:
    """Warn of policies whose instances answer to `parameters` while their classes lack a member of `TRAINABLE`."""
    for agents, policy in distinct_policies(team).items():
        if hasattr(policy, "parameters") and not isinstance(policy, TrainablePolicy):
            missing = sorted(name for name in TRAINABLE if not hasattr(type(policy), name))
            logger.warning(
                "the policy of %s is not trained: its class %s has no %s; what it hands on by __getattr__ "
                "does not count",
                *(agents, type(policy).__name__, ", ".join(missing)),
            )


def referenced(
    name: str,
    policy: TrainablePolicy,
    needed_by: str = "kl_coefficient",
    remedy: str = "set kl_coefficient=0",
) -> ReferencedPolicy:
    """Return a policy that keeps a reference; raise a `TypeError` if it does not."""
    if not isinstance(policy, ReferencedPolicy):
        raise TypeError(
            f"{needed_by} needs policies that keep a reference, and {name!r} is a "
            f"{type(policy).__name__}; {remedy}"
        )
    return policy


def token_limit(agent: str, policy: Policy, overlong: int) -> int:
    """Return the token limit of an agent's policy, for a deduction that grows over its last `overlong` tokens.

    Raises:
        TypeError: If the policy does not tell it.
        ValueError: If there are not so many tokens.
    """
    if not isinstance(policy, LimitedPolicy):
        raise TypeError(
            f"overlong_tokens={overlong} needs policies with max_new_tokens, and that of {agent!r} is a "
            f"{type(policy).__name__}; set overlong_tokens=0"
        )
    if overlong > policy.max_new_tokens:
        raise ValueError(
            f"overlong_tokens={overlong} is more than max_new_tokens={policy.max_new_tokens} of {agent!r}: every "
            "completion would be penalised; lower it"
        )
    return policy.max_new_tokens


def require_whole_distribution(agents: Mapping[str, Policy]) -> None:
    """Check that policies sample from all of the distribution whose log-probabilities they record.

    Raises:
        ValueError: If `top_p` or `top_k` cut: what was kept has more probability than is recorded, by a factor
            that nobody has noted and that changes with the weights, so that no ratio is that of the samples.
    """
    for agent, policy in agents.items():
        if isinstance(policy, CuttingPolicy) and policy.cuts:
            raise ValueError(
                f"a correction compares log-probabilities of the whole distribution, and the policy of {agent!r} "
                "samples from a part of it: set model.top_p=1 and model.top_k=null (of policies, their own), and "
                "a temperature above 0; or set correction=none"
            )
