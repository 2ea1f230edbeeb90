"""Wrappers as users write them, around environments of texts."""

from __future__ import annotations

import threading

from pettingzoo.utils.wrappers import BaseParallelWrapper

from tests.conftest import word_env


def words():
    """An environment of three turns for two agents that must write a word."""
    return word_env(num_turns=3, stop_when_solved=False)


class Greeting(BaseParallelWrapper):
    """Changes prompts."""

    def reset(self, seed=None, options=None):
        prompts, infos = self.env.reset(seed=seed, options=options)
        return greeted(prompts), infos

    def step(self, actions):
        prompts, *rest = self.env.step(actions)
        return (greeted(prompts), *rest)


def greeted(prompts):
    return {agent: f"Hello. {prompt}" for agent, prompt in prompts.items()}


class Quoting(BaseParallelWrapper):
    """Changes actions."""

    def step(self, actions):
        return self.env.step({agent: f"> {text}" for agent, text in actions.items()})


class Paying(BaseParallelWrapper):
    """Changes rewards."""

    def __init__(self, env, bonus=0.125):
        super().__init__(env)
        self.bonus = bonus

    def step(self, actions):
        prompts, rewards, *rest = self.env.step(actions)
        return (prompts, {agent: reward + self.bonus for agent, reward in rewards.items()}, *rest)


class CountingActions(BaseParallelWrapper):
    """Says how many actions there were, those of agents that wait included."""

    def step(self, actions):
        prompts, *rest = self.env.step(actions)
        count = len(actions)
        return ({agent: text and f"{count}: {text}" for agent, text in prompts.items()}, *rest)


class Counting(BaseParallelWrapper):
    """Keeps something: how often the agents acted in the episode, which it tells them."""

    def __init__(self, env):
        super().__init__(env)
        self.seen = self.same = []

    def reset(self, seed=None, options=None):
        self.seen.clear()
        return self.env.reset(seed=seed, options=options)

    def step(self, actions):
        self.seen += actions
        prompts, *rest = self.env.step(actions)
        return ({agent: f"{text} ({len(self.same)})" for agent, text in prompts.items()}, *rest)


class Locked(BaseParallelWrapper):
    """Holds what cannot be copied."""

    def __init__(self, env):
        super().__init__(env)
        self.lock = threading.Lock()
