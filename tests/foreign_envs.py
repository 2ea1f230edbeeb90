"""Correct environments as somebody else might write them, without this package's classes."""

from __future__ import annotations

from gymnasium.utils import seeding
from pettingzoo import ParallelEnv

from llm_decpomdp.spaces import UnicodeText

WORDS = ("apple", "brook", "cedar", "delta", "ember")


class Rendezvous(ParallelEnv):
    """Somebody else's correct environment: both agents must write the word that they are shown."""

    metadata = {"name": "rendezvous_v0", "render_modes": []}  # noqa: RUF012

    def __init__(self):
        self.possible_agents = ["left_0", "right_0"]
        self.agents = []
        self.state_space = UnicodeText(100)
        self.spaces = {agent: UnicodeText(200_000) for agent in self.possible_agents}
        self.rng = seeding.np_random(0)[0]
        self.word = ""
        self.turn = 0

    def observation_space(self, agent):
        return self.spaces[agent]

    def action_space(self, agent):
        return self.spaces[agent]

    def state(self):
        return f"{self.word} {self.turn}"

    def reset(self, seed=None, options=None):
        if seed is not None:
            self.rng = seeding.np_random(seed)[0]
        self.agents = list(self.possible_agents)
        self.word = WORDS[int(self.rng.integers(len(WORDS)))]
        self.turn = 0
        return dict.fromkeys(self.agents, f"Write {self.word}."), self.infos(0.0, 0)

    def step(self, actions):
        if not actions and not self.agents:
            return {}, {}, {}, {}, {}
        found = sum(self.word in text for text in actions.values())
        self.turn += 1
        over = self.turn == 3
        result = self.result(actions, found, over)
        if over:
            self.agents = []
        return result

    def result(self, actions, found, over):
        reward = found / 2
        return (
            {agent: self.prompt(agent, actions, found) for agent in actions},
            dict.fromkeys(actions, reward),
            dict.fromkeys(actions, over),
            dict.fromkeys(actions, False),
            self.infos(reward, found),
        )

    def prompt(self, agent, actions, found):
        return f"{found} found it. Write {self.word}."

    def infos(self, reward, found):
        return {
            agent: {"reward/words": reward, "found": found, "any": found > 0}
            for agent in self.possible_agents
        }


class Plain(Rendezvous):
    """Correct, without a state, components or anything optional; ends by truncation."""

    def __init__(self):
        super().__init__()
        del self.state_space

    def result(self, actions, found, over):
        observations, rewards, ends, nothing, _ = super().result(actions, found, over)
        return observations, rewards, nothing, ends, {agent: {} for agent in actions}

    def reset(self, seed=None, options=None):
        observations, _ = super().reset(seed)
        return observations, {agent: {} for agent in observations}
