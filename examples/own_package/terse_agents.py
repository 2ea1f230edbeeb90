"""One thing of each kind that a package can add to llm_decpomdp; pyproject.toml announces their names."""

from dataclasses import replace

import numpy as np

import llm_decpomdp
from llm_decpomdp.algorithms import Algorithm

COST = 0.01
"""Points that a character costs."""


def terse(discount=1.0):
    """Write in two turns, and with few characters, the letters that the probe of two turns asks for."""
    env = llm_decpomdp.make("probe-turns-v0", discount=discount)
    env.reward = Brief(env.reward)
    return env


def median(returns):
    """A baseline of groups: returns of shape (..., G) to baselines of the same shape."""
    return np.broadcast_to(np.median(returns, -1, keepdims=True), returns.shape)


MAMEDIAN = Algorithm("mamedian", baseline=median, description="Compares with the group's median.")


class Parrot:
    """A policy: repeats the first words of its prompt."""

    def __init__(self, words=1):
        self.words = words

    def act(self, prompt):
        return " ".join(prompt.split()[: self.words])

    def generate(self, prompts, num_samples=1):
        return [[llm_decpomdp.Completion(self.act(p)) for _ in range(num_samples)] for p in prompts]


def parrots(env):
    """A baseline of evaluations: a policy for each agent of an environment."""
    return {agent: Parrot() for agent in env.possible_agents}


class Brief:
    """A reward made of the environment's own: each character costs a little."""

    def __init__(self, reward):
        self.reward = reward
        self.components = (*reward.components, "length")
        self.info_keys = getattr(reward, "info_keys", ())

    def __call__(self, task, completions):
        verdict = self.reward(task, completions)
        cost = COST * sum(map(len, completions.values()))
        return replace(verdict, components={**verdict.components, "length": -cost})


class Cheerful:
    """A mode made of the environment's own: later prompts end with a kind word."""

    def __init__(self, mode):
        self.mode = mode
        self.info_keys = mode.info_keys
        self.first, self.secrets = mode.first, mode.secrets

    def __call__(self, task, turn):
        prompts, infos = self.mode(task, turn)
        return {agent: f"{prompt}\nYou can do it." for agent, prompt in prompts.items()}, infos


class Lines:
    """A tracker: a line of text for each row of metrics, in the run's folder."""

    def __init__(self, run, config, title="metrics"):
        self.file = (run.path / "lines.txt").open("a", encoding="utf-8")
        self.file.write(f"{title} of {config['env']['id']}\n")

    def log(self, values, step):
        self.file.write(f"{step}: {len(values)} values\n")

    def close(self):
        self.file.close()
