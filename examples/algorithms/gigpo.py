"""GiGPO's step advantage (arXiv 2505.10978): a second comparison among completions for the same prompts.

llm-decpomdp train --config demo_tldr --override algorithm.name=examples.algorithms.gigpo:GIGPO \
    algorithm.rollout.mode=episodes model.name=tiny-random
"""

import numpy as np

from llm_decpomdp.algorithms import BASELINES, Algorithm
from llm_decpomdp.options import Options, option


class GiGPOOptions(Options):
    step_weight: float = option(1.0, ge=0)
    """Weight of the step advantage."""


class StepAdvantage(Algorithm):
    Options = GiGPOOptions

    def advantages(self, groups, options):
        episode = super().advantages(groups, options)
        pools = {}
        for group in groups:
            for agent, values in group.values.items():
                pools.setdefault(self.state(agent, group), []).append(values)
        means = {state: np.concatenate(parts).mean() for state, parts in pools.items()}
        return [
            {
                # A completion that is alone in its state equals the mean: its step advantage is 0.
                agent: advantage
                + self.options.step_weight * (group.values[agent] - means[self.state(agent, group)])
                for agent, advantage in advantages.items()
            }
            for group, advantages in zip(groups, episode, strict=True)
        ]

    def state(self, agent, group):
        return agent, group.group.turn, *group.group.prompts.values()


GIGPO = StepAdvantage("own-gigpo", baseline=BASELINES["mean"])
