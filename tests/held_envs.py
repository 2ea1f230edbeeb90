"""A probe that waits behind its first batch of episodes while the file exists that `TEST_HOLD` names.

Only processes of their own import this: it registers an environment.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

from llm_decpomdp import DecPOMDPEnv, make, register
from llm_decpomdp.benchmarks.evaluation.run import AT_A_TIME


class Held:
    """Another reward, for which one has to wait."""

    judged = 0

    def __init__(self, reward):
        self.reward = reward
        self.components = reward.components

    def __call__(self, task, completions):
        Held.judged += 1
        while Held.judged > AT_A_TIME and Path(os.environ["TEST_HOLD"]).is_file():
            time.sleep(0.01)
        return self.reward(task, completions)


def held() -> DecPOMDPEnv:
    env = make("probe-rendezvous-v0")
    env.reward = Held(env.reward)
    return env


register("held-v0", "tests.held_envs:held")
