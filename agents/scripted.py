"""Policies without a model: bounds, baselines, replays and tests."""

from __future__ import annotations

import string
from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np

from llm_decpomdp.env import DecPOMDPEnv
from llm_decpomdp.policy import Completion


class ScriptedPolicy(ABC):
    """A policy that writes one text at a time."""

    @abstractmethod
    def act(self, prompt: str) -> str:
        """The answer to `prompt`."""

    def generate(self, prompts: Sequence[str], num_samples: int = 1) -> list[list[Completion]]:
        """`num_samples` answers to each prompt, without tokens."""
        return [[Completion(self.act(prompt)) for _ in range(num_samples)] for prompt in prompts]


class Constant(ScriptedPolicy):
    """Always answers the same text."""

    def __init__(self, text: str) -> None:
        self.text = text

    def act(self, prompt: str) -> str:
        """The text."""
        return self.text


class Replay(ScriptedPolicy):
    """Answers a list of texts, in order."""

    def __init__(self, texts: Sequence[str]) -> None:
        self.texts = list(texts)
        self.position = 0

    def act(self, prompt: str) -> str:
        """The next text.

        Raises:
            IndexError: If all texts have been used.
        """
        if self.position >= len(self.texts):
            raise IndexError(f"all {len(self.texts)} texts of the replay have been used")
        self.position += 1
        return self.texts[self.position - 1]


class RandomText(ScriptedPolicy):
    """Answers random printable characters: a lower bound.

    Args:
        seed: At least 0.
        length: Characters of each answer.
    """

    ALPHABET = string.ascii_letters + string.digits + string.punctuation + " \n"

    def __init__(self, seed: int, length: int = 64) -> None:
        self.rng = np.random.default_rng(seed)
        self.length = length

    def act(self, prompt: str) -> str:
        """`length` random characters."""
        return "".join(self.rng.choice(list(self.ALPHABET), self.length))


class Gold(ScriptedPolicy):
    """Answers the data's own solution of the environment's current task: an upper bound.

    Args:
        env: The environment that is being played, not a copy of it.
        agent: The agent to answer for.
    """

    def __init__(self, env: DecPOMDPEnv, agent: str) -> None:
        self.env = env
        self.agent = agent

    def act(self, prompt: str) -> str:
        """The reference completion.

        Raises:
            LookupError: If the data has none.
        """
        return self.env.reference(self.agent)
