"""What an update costs, before it is paid for."""

from __future__ import annotations

from dataclasses import dataclass

MOST_SAMPLES = 100_000
"""Joint samples, which are steps of the environment, from one start that are still taken for meant."""


@dataclass(frozen=True)
class Cost:
    """Of one start, if no episode ends before the horizon."""

    groups: int
    completions: int
    """Of each agent."""
    joint_samples: int
    """Steps of the environment."""

    def times(self, starts: int) -> Cost:
        """The cost of so many starts."""
        return Cost(self.groups * starts, self.completions * starts, self.joint_samples * starts)


def cost(plan: str, joint_mode: str, group_size: int, num_agents: int, num_turns: int) -> Cost:
    """The cost of growing one start.

    A chain has one group a turn, T in all. In a tree every joint sample leads to a group: 1 + J + ... + J^(T-1)
    groups with J = G joint samples if aligned, and J = G^N if crossed.

    Raises:
        ValueError: If it is more than `MOST_SAMPLES` joint samples; names them, and what to change.
    """
    joint = group_size**num_agents if (plan, joint_mode) == ("tree", "cross") else group_size
    groups = num_turns if plan == "chain" else sum(joint**turn for turn in range(num_turns))
    found = Cost(groups, groups * group_size, groups * joint)
    if found.joint_samples > MOST_SAMPLES:
        raise ValueError(
            f"a {plan} of {num_turns} turns with G = {group_size} and {num_agents} agents ({joint_mode}) takes "
            f"{found.completions:,} completions of each agent and {found.joint_samples:,} steps of the "
            f"environment for every start; more than {MOST_SAMPLES:,} is refused: use fewer turns or samples, "
            "joint_mode='aligned' or plan='chain'"
        )
    return found
