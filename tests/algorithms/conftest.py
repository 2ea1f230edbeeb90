"""Tiny policies and environments for the learners; none of them comes from llm_decpomdp."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium
import pytest
import torch
from pettingzoo import ParallelEnv

from llm_decpomdp.algorithms.rollouts.joint import pairing
from llm_decpomdp.algorithms.rollouts.rollout import Group, Parent, Rollout, Start
from llm_decpomdp.policy import Completion

END = 0  # the end-of-sequence token; token i > 0 is the i-th letter of the alphabet


class TinyPolicy:
    """A character model; `model(prompt_tokens (P,), tokens (N, t))` gives logits (N, t + 1, V)."""

    def __init__(self, model: torch.nn.Module, alphabet: str, max_tokens: int) -> None:
        self.model, self.alphabet, self.max_tokens = model, alphabet, max_tokens
        self.generator = torch.Generator().manual_seed(0)
        self.batches: list[list[str]] = []

    def encode(self, text: str) -> torch.Tensor:
        return torch.tensor([1 + self.alphabet.index(letter) for letter in text])

    def generate(self, prompts: Sequence[str], num_samples: int = 1) -> list[list[Completion]]:
        self.batches.append(list(prompts))
        return [self._sample(self.encode(prompt), num_samples) for prompt in prompts]

    @torch.no_grad()
    def _sample(self, prompt: torch.Tensor, number: int) -> list[Completion]:
        tokens = torch.zeros(number, 0, dtype=torch.long)
        for _ in range(self.max_tokens):
            chances = self.model(prompt, tokens)[:, -1].softmax(-1)
            drawn = torch.multinomial(chances, 1, generator=self.generator)
            tokens = torch.cat([tokens, drawn], 1)
        return [self.completion(row) for row in tokens.tolist()]

    def completion(self, row: Sequence[int]) -> Completion:
        ended = END in row
        sampled = list(row)[: list(row).index(END) + 1] if ended else list(row)
        text = "".join(self.alphabet[token - 1] for token in sampled if token != END)
        return Completion(text, tuple(sampled), finish_reason="stop" if ended else "length")

    def act(self, prompt: str) -> str:
        return self.generate([prompt])[0][0].text

    def log_probs(
        self, prompt: str, completions: Sequence[Completion]
    ) -> tuple[torch.Tensor, torch.Tensor]:
        longest = max(len(c.tokens) for c in completions)
        tokens = torch.tensor(
            [[*c.tokens, *[END] * (longest - len(c.tokens))] for c in completions]
        )
        mask = torch.tensor(
            [[float(t < len(c.tokens)) for t in range(longest)] for c in completions]
        )
        logits = self.model(self.encode(prompt), tokens)[:, :-1]
        return logits.log_softmax(-1).gather(-1, tokens[..., None])[..., 0], mask

    def parameters(self) -> Iterator[torch.nn.Parameter]:
        return self.model.parameters()

    def seed(self, seed: int) -> None:
        self.generator.manual_seed(seed)

    def save(self, folder: Path) -> None:
        torch.save(self.model.state_dict(), folder / "weights.pt")

    def state_dict(self) -> dict[str, Any]:
        return {"weights": self.model.state_dict(), "generator": self.generator.get_state()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.model.load_state_dict(state["weights"])
        self.generator.set_state(state["generator"])


class Recording(TinyPolicy):
    """Records the log-probabilities of what it samples."""

    def _sample(self, prompt: torch.Tensor, number: int) -> list[Completion]:
        sampled = super()._sample(prompt, number)
        text = "".join(self.alphabet[int(token) - 1] for token in prompt)
        with torch.no_grad():
            found, _ = self.log_probs(text, sampled)
        return [
            replace(one, log_probs=tuple(row[: len(one.tokens)].tolist()))
            for one, row in zip(sampled, found, strict=True)
        ]


class Unigram(torch.nn.Module):
    """The same distribution for every token, whatever came before."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.bias = torch.nn.Parameter(torch.linspace(0.0, 0.5, size))

    def forward(self, prompt: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
        return self.bias.expand(len(tokens), tokens.shape[1] + 1, -1)


class Recurrent(torch.nn.Module):
    """A randomly initialised GRU over the prompt and the completion."""

    def __init__(self, size: int, width: int, seed: int) -> None:
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            self.embedding = torch.nn.Embedding(size, width)
            self.memory = torch.nn.GRU(width, width, batch_first=True)
            self.head = torch.nn.Linear(width, size)

    def forward(self, prompt: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
        whole = torch.cat([prompt.expand(len(tokens), -1), tokens], 1)
        hidden, _ = self.memory(self.embedding(whole))
        logits: torch.Tensor = self.head(hidden[:, len(prompt) - 1 :])
        return logits


class Script:
    """Answers with fixed texts: the g-th sample of a prompt is the g-th text."""

    def __init__(self, *texts: str) -> None:
        self.texts = texts
        self.batches: list[list[str]] = []

    def generate(self, prompts: Sequence[str], num_samples: int = 1) -> list[list[Completion]]:
        self.batches.append(list(prompts))
        return [[Completion(text) for text in self.texts[:num_samples]] for _ in prompts]

    def act(self, prompt: str) -> str:
        return self.texts[0]


class EchoEnv(ParallelEnv[str, str, str]):
    """Two agents, some turns: a reward for each `a`; the last joint answer is the next prompt.

    Seed s starts with the prompt `a` or `b`, so that the first prompt tells the start. An answer of
    both agents without any letter ends the episode.
    """

    metadata = {"name": "echo_v0"}  # noqa: RUF012

    def __init__(self, num_turns: int = 2, agents: Sequence[str] = ("x", "y")) -> None:
        self.possible_agents = list(agents)
        self.agents: list[str] = []
        self.num_turns, self.turn = num_turns, 0
        space = gymnasium.spaces.Text(100)
        self.observation_spaces = self.action_spaces = dict.fromkeys(agents, space)

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, str], dict[str, Any]]:
        self.agents, self.turn = list(self.possible_agents), 0
        letter = (options or {}).get("task_id") or "ab"[(seed or 0) % 2]
        return dict.fromkeys(self.agents, letter), {agent: {} for agent in self.agents}

    def step(self, actions: dict[str, str]) -> Any:
        self.turn += 1
        joint = "".join(actions.values())
        reward, over = float(joint.count("a")), self.turn >= self.num_turns or not joint
        acted, self.agents = self.agents, [] if over else self.agents
        infos = {
            agent: {"reward/letters": reward, "solved": not joint, "note": "text"}
            for agent in acted
        }
        prompts = dict.fromkeys(acted, joint or "b")
        every = dict.fromkeys
        return prompts, every(acted, reward), every(acted, over), every(acted, False), infos


@pytest.fixture
def make_policy() -> Callable[..., TinyPolicy]:
    """Build a tiny policy: `kind` is `unigram` or `recurrent`."""

    def build(
        kind: str = "recurrent",
        *,
        seed: int = 0,
        alphabet: str = "ab",
        max_tokens: int = 3,
        width: int = 8,
    ) -> TinyPolicy:
        size = 1 + len(alphabet)
        model = Unigram(size) if kind == "unigram" else Recurrent(size, width, seed)
        return TinyPolicy(model, alphabet, max_tokens)

    return build


@pytest.fixture
def make_env() -> Callable[..., EchoEnv]:
    """Build the two-agent environment that rewards the letter `a`."""
    return EchoEnv


@pytest.fixture
def make_chain() -> Callable[..., Rollout]:
    """Build a chain of groups from token rows: `turns` holds (rewards, {agent: rows}) pairs."""

    def build(
        policy: TinyPolicy,
        turns: Sequence[tuple[Sequence[float], Mapping[str, Sequence[Sequence[int]]]]],
        *,
        stopped_early: bool = False,
        start: Start = Start(task_id="task/7"),  # noqa: B008
    ) -> Rollout:
        groups = [
            Group(
                turn=turn,
                parent=Parent(turn - 1, 0) if turn else None,
                prompts=dict.fromkeys(rows, "a"),
                completions={
                    agent: tuple(policy.completion(row) for row in group)
                    for agent, group in rows.items()
                },
                joint=pairing("aligned", len(rewards), len(rows))(len(rows)).joint,
                rewards=tuple(rewards),
                infos=tuple({} for _ in rewards),
                chosen=0,
                stopped_early=stopped_early and turn == len(turns) - 1,
            )
            for turn, (rewards, rows) in enumerate(turns)
        ]
        return Rollout(start, tuple(groups), None)

    return build
