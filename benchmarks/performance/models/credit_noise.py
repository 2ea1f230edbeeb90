"""Noise of team-mates in an agent's advantages, by the number of agents and the joint samples.

    python -m llm_decpomdp.benchmarks.performance.models.credit_noise

Random teams play `probe-noisy-partners-v0`, whose reward is a sum of what each agent earns by itself, so the
advantage A' that an agent should be given is known: that of its reward with silent partners (a difference reward,
Wolpert and Tumer 2001). Noise is the mean of (A - A')^2, signal that of A'^2, over completions of one agent; all
ways sample the same completions.
"""

from __future__ import annotations

from typing import Annotated

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

from llm_decpomdp import make
from llm_decpomdp.agents.scripted import Scripted
from llm_decpomdp.algorithms.learning.advantages import group_advantages
from llm_decpomdp.algorithms.learning.baselines import advantages, leave_one_out
from llm_decpomdp.algorithms.learning.learner_options import LearnerOptions
from llm_decpomdp.algorithms.rollouts.plans import rollout_chains
from llm_decpomdp.algorithms.rollouts.rollout import Start
from llm_decpomdp.env import DecPOMDPEnv
from llm_decpomdp.envs.probes.credit import GRADES
from llm_decpomdp.seeding import stream


class RandomLetter(Scripted):
    """Gives a random letter."""

    def __init__(self, agent: str) -> None:
        self._rng = stream(0, "letters", agent)

    def act(self, prompt: str) -> str:
        """Draw a letter."""
        return str(self._rng.choice(list(GRADES)))


WAYS = {"aligned": ("aligned", 1), "common, K = 1": ("common", 1), "common, K = 4": ("common", 4)}
"""Joint mode and K of each way."""


def noise_to_signal(way: str, num_agents: int, *, group_size: int, groups: int) -> float:
    """Return the mean squared error of one agent's advantages, as a share of their mean square."""
    env = make("probe-noisy-partners-v0", num_agents=num_agents)
    team = {agent: RandomLetter(agent) for agent in env.possible_agents}
    mode, partners = WAYS[way]
    starts = [Start(task_id=env.tasks.tasks[0].task_id)] * groups
    rollouts = rollout_chains(
        *(env, team, starts),
        group_size=group_size,
        joint_mode=mode,
        num_partners=partners,
        rng=stream(0, "partners"),
    )
    first = env.possible_agents[0]
    errors, squares = [], []
    for credit in group_advantages(rollouts, [first], leave_one_out, LearnerOptions()):
        words = [completion.text for completion in credit.group.completions[first]]
        right = advantages(np.array([_alone(env, first, word) for word in words]), leave_one_out)
        errors.append((credit.advantages[first] - right) ** 2)
        squares.append(right**2)
    return float(np.mean(errors) / np.mean(squares))


def _alone(env: DecPOMDPEnv, agent: str, word: str) -> float:
    """Return the reward of a word beside silent partners."""
    words = {other: word if other == agent else "" for other in env.possible_agents}
    return env.reward(env.tasks.tasks[0], words).reward


def main(
    groups: Annotated[int, typer.Option(min=1, help="Groups of each cell of the table.")] = 400,
    group_size: Annotated[int, typer.Option(min=2, help="Completions of each agent.")] = 4,
) -> None:
    """Print noise over signal of an agent's advantages."""
    table = Table("agents", *WAYS)
    for num_agents in (2, 4, 8, 16):
        ratios = [
            noise_to_signal(way, num_agents, group_size=group_size, groups=groups) for way in WAYS
        ]
        table.add_row(str(num_agents), *(f"{ratio:.3f}" for ratio in ratios))
    Console().print(table)


if __name__ == "__main__":
    typer.run(main)
