"""Policies without a model: for tests, demonstrations, and lower and upper bounds."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from llm_decpomdp.oracle import answers
from llm_decpomdp.policy import Completion
from llm_decpomdp.seeding import stream

CHARACTERS = "abcdefghijklmnopqrstuvwxyz0123456789_ \n\"'#=+-*/%<>()[]{}:,.`\\éπ語🙂"


class Scripted(ABC):
    """A policy with the method `act`; `generate` calls it once for each completion, in order."""

    @abstractmethod
    def act(self, prompt: str) -> str:
        """Return the text of one completion of `prompt`."""

    def generate(self, prompts: Sequence[str], num_samples: int = 1) -> list[list[Completion]]:
        """Return `num_samples` completions for each prompt, without tokens."""
        return [[Completion(self.act(prompt)) for _ in range(num_samples)] for prompt in prompts]


class Constant(Scripted):
    """Always returns the same text."""

    def __init__(self, text: str) -> None:
        self.text = text

    def act(self, prompt: str) -> str:
        """Return the text."""
        return self.text


class Replay(Scripted):
    """Returns the texts of a list, in order, for any prompts."""

    def __init__(self, texts: Sequence[str]) -> None:
        self.texts = tuple(texts)
        self.played = 0
        """Number of texts so far."""

    def act(self, prompt: str) -> str:
        """Return the next text.

        Raises:
            IndexError: If there is none.
        """
        if self.played == len(self.texts):
            raise IndexError(
                f"all {len(self.texts)} texts of the replay were given; it needs one for each completion"
            )
        self.played += 1
        return self.texts[self.played - 1]

    def state_dict(self) -> dict[str, Any]:
        """Return the number of texts so far."""
        return {"played": self.played}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from `state_dict`'s value."""
        self.played = state["played"]


class RandomText(Scripted):
    """Returns random characters of code, prose and other scripts: a lower bound.

    Args:
        seed: At least 0.
        length: Characters of each text.
    """

    def __init__(self, seed: int = 0, length: int = 64) -> None:
        self.length = length
        self.seed(seed)

    def seed(self, seed: int) -> None:
        """Restart the random stream; raise a `ValueError` if `seed` is negative."""
        self._rng = stream(seed, "random text")

    def act(self, prompt: str) -> str:
        """Draw a random text."""
        return "".join(self._rng.choice(list(CHARACTERS), size=self.length))


class Gold(Scripted):
    """Returns the correct completion of the data: an upper bound.

    Group rollouts call `generate_with_envs`. `act` and `generate` see a prompt alone, so they need an environment
    and an agent.

    Args:
        env: The environment of `act`, which answers for its state at the call.
        agent: The agent of `act`.
    """

    def __init__(self, env: Any = None, agent: str | None = None) -> None:
        self.env, self.agent = env, agent

    def act(self, prompt: str) -> str:
        """Return the reference for the agent in the environment's current task.

        Raises:
            ValueError: If it has no environment and agent.
            LookupError: If the data has none.
        """
        if self.env is None or self.agent is None:
            raise ValueError(
                "a prompt does not tell which correct completion is asked for: write "
                "Gold(env, agent), or sample with generate_with_envs"
            )
        return answers(self.env).reference(self.agent)

    def generate_with_envs(
        self, envs: Sequence[Any], agents: Sequence[str], num_samples: int = 1
    ) -> list[list[Completion]]:
        """Return the reference of each pair of an environment and an agent, `num_samples` times.

        Raises:
            LookupError: If an environment has none.
        """
        pairs = zip(envs, agents, strict=True)
        references = [answers(env).reference(agent) for env, agent in pairs]
        return [[Completion(reference)] * num_samples for reference in references]
