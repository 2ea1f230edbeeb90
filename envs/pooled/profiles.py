"""Profiles of the family `pooled-v0`: how many facts of each agent speak for each candidate, and exact scores.

A profile is a tuple of views, one for each agent. A view counts the agent's facts for each candidate. The best
candidate has the most facts over all agents. All numbers are sums over all profiles of a kind.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from itertools import product

View = tuple[int, ...]
Profile = tuple[View, ...]


def leader(counts: Sequence[int]) -> int | None:
    """Return the candidate with the most facts, or `None` for a tie."""
    most = max(counts)
    return counts.index(most) if list(counts).count(most) == 1 else None


def total(profile: Sequence[View]) -> View:
    """Return the sum of views."""
    return tuple(map(sum, zip(*profile, strict=True)))


def is_hidden(profile: Profile) -> bool | None:
    """Check whether the majority of private views misleads; `None` if this profile is no task.

    In a task each view and the whole have a leader, most views have the same one, and no agent is dispensable:
    with other facts of any one of them, another candidate could be the best.
    """
    whole, size = total(profile), sum(profile[0])
    best, leaders = leader(whole), [leader(view) for view in profile]
    if best is None or None in leaders:
        return None
    for view in profile:
        rest = [a - b for a, b in zip(whole, view, strict=True)]
        if rest[best] > size + max(n for i, n in enumerate(rest) if i != best):
            return None
    favorite = max(set(leaders), key=leaders.count)
    return favorite != best if 2 * leaders.count(favorite) > len(leaders) else None


@lru_cache(maxsize=8)
def profiles(num_agents: int, candidates: int, facts: int) -> tuple[list[Profile], list[Profile]]:
    """Return all profiles of tasks: those in which the majority is right, and those in which it misleads."""
    counts = (c for c in product(range(facts + 1), repeat=candidates) if sum(c) == facts)
    views = [view for view in counts if leader(view) is not None]
    kinds: tuple[list[Profile], list[Profile]] = ([], [])
    for profile in product(views, repeat=num_agents):
        hidden = is_hidden(profile)
        if hidden is not None:
            kinds[hidden].append(profile)
    return kinds


@lru_cache(maxsize=8)
def best_guesses(num_agents: int, candidates: int, facts: int) -> dict[View, tuple[int, float]]:
    """Return the likeliest best candidate for each view of an agent, and the probability of both.

    Half of the tasks mislead; within a half all profiles are equally likely. Agents are interchangeable.
    """
    weights: Counter[tuple[View, int]] = Counter()
    for kind in profiles(num_agents, candidates, facts):
        for profile in kind:
            whole = total(profile)
            weights[profile[0], whole.index(max(whole))] += 0.5 / len(kind)  # type: ignore[assignment]
    guesses: dict[View, tuple[int, float]] = {}
    for (view, best), weight in sorted(weights.items()):
        if weight > guesses.get(view, (0, 0.0))[1] + 1e-12:
            guesses[view] = (best, weight)
    return guesses


def silent_value(num_agents: int, candidates: int, facts: int) -> float:
    """Return the best expected score without messages: the share of agents that name the best candidate.

    The score is a mean over the agents, so each of them can be optimized by itself.
    """
    return sum(weight for _, weight in best_guesses(num_agents, candidates, facts).values())
