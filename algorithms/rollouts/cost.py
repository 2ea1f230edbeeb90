"""Cost of a rollout plan in completions and environment steps, computed before a run."""

from __future__ import annotations

from dataclasses import dataclass

MAX_JOINT_SAMPLES = 100_000
"""Largest plan per start, in environment steps; a larger one is refused as a likely mistake."""


@dataclass(frozen=True)
class Cost:
    """Cost of one start or several, if no episode ends before the horizon."""

    groups: int
    completions: int
    """Completions of each agent."""
    joint_samples: int
    """Steps of the environment."""

    def scaled(self, starts: int) -> Cost:
        """Return the cost of `starts` starts."""
        return Cost(self.groups * starts, self.completions * starts, self.joint_samples * starts)


def cost(plan: str, joint_mode: str, group_size: int, num_agents: int, num_turns: int) -> Cost:
    """Compute the cost of one start.

    A chain has one group a turn, T in all. In a tree every joint sample leads to a group: 1 + J + ... + J^(T-1)
    groups with J = G joint samples if aligned, and J = G^N if crossed.

    Raises:
        ValueError: If it is more than `MAX_JOINT_SAMPLES` joint samples; names them, and what to change.
    """
    joint = group_size**num_agents if (plan, joint_mode) == ("tree", "cross") else group_size
    groups = num_turns if plan == "chain" else sum(joint**turn for turn in range(num_turns))
    total = Cost(groups, groups * group_size, groups * joint)
    if total.joint_samples > MAX_JOINT_SAMPLES:
        raise ValueError(
            f"a {plan} of {num_turns} turns with G = {group_size} and {num_agents} agents ({joint_mode}) takes "
            f"{total.completions:,} completions of each agent and {total.joint_samples:,} steps of the "
            f"environment for every start; more than {MAX_JOINT_SAMPLES:,} is refused: use fewer turns or "
            "samples, joint_mode='aligned' or plan='chain'"
        )
    return total
