"""Exact expectations of what a learner computes: a walk through every random choice of a small game.

The policies are tables of logits, and their choices, those of handoffs and those of partners come from one oracle,
which plays the game once for each path of choices and knows how likely it is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch

from llm_decpomdp.algorithms import Learner, Rollout
from llm_decpomdp.policy import Completion

END = 0
ANSWERS = ("", "a")
History = tuple[tuple[str, ...], ...]
"""The joint answers of the turns before."""


class Oracle:
    """Makes random choices, and visits all combinations of them."""

    def __init__(self) -> None:
        self._path: list[int] = []
        self._sizes: list[int] = []
        self._place, self.chance = 0, 1.0

    def choose(self, chances: Sequence[float]) -> int:
        """Return the next choice of the present path."""
        if self._place == len(self._path):
            self._path.append(0)
            self._sizes.append(len(chances))
        index = self._path[self._place]
        self._place += 1
        self.chance *= chances[index]
        return index

    def integers(self, high: int, size: int | None = None) -> Any:
        """Stand in for `np.random.Generator.integers`."""
        if size is None:
            return self.choose([1 / high] * high)
        return np.array([self.choose([1 / high] * high) for _ in range(size)], dtype=int)

    def paths(self) -> Iterator[None]:
        """Yield once for each path; after its choices were made `chance` is its probability."""
        while True:
            self._place, self.chance = 0, 1.0
            yield
            while self._path and self._path[-1] + 1 == self._sizes[-1]:
                self._path.pop()
                self._sizes.pop()
            if not self._path:
                return
            self._path[-1] += 1


class Table:
    """A policy with logits of all its answers for each prompt. The first token of an answer decides it."""

    def __init__(
        self, oracle: Oracle, prompts: Sequence[str], answers: Sequence[str], seed: int
    ) -> None:
        self.oracle, self.answers = oracle, list(answers)
        self.rows = {prompt: row for row, prompt in enumerate(prompts)}
        generator = torch.Generator().manual_seed(seed)
        logits = torch.randn(len(prompts), len(answers), generator=generator, dtype=torch.float64)
        self.logits = torch.nn.Parameter(logits)

    def chances(self, prompt: str) -> list[float]:
        found: list[float] = self.logits[self.rows[prompt]].detach().softmax(0).tolist()
        return found

    def generate(self, prompts: Sequence[str], num_samples: int = 1) -> list[list[Completion]]:
        return [
            [self.completion(self.oracle.choose(self.chances(p))) for _ in range(num_samples)]
            for p in prompts
        ]

    def completion(self, answer: int) -> Completion:
        text = self.answers[answer]
        return Completion(text, (1 + answer,) * len(text) + (END,))

    def act(self, prompt: str) -> str:
        return self.generate([prompt])[0][0].text

    def log_probs(
        self, prompt: str, completions: Sequence[Completion]
    ) -> tuple[torch.Tensor, torch.Tensor]:
        longest = max(len(completion.tokens) for completion in completions)
        logs = self.logits[self.rows[prompt]].log_softmax(0)
        chosen = logs[torch.tensor([self.answers.index(one.text) for one in completions])]
        rest = torch.zeros(len(completions), longest - 1, dtype=torch.float64)
        lengths = torch.tensor([len(completion.tokens) for completion in completions])
        mask = (torch.arange(longest) < lengths[:, None]).double()
        return torch.cat([chosen[:, None], rest], 1), mask

    def keep_reference(self) -> None:
        self.reference = self.logits.detach().clone()

    def reference_log_probs(
        self, prompt: str, completions: Sequence[Completion]
    ) -> tuple[torch.Tensor, torch.Tensor]:
        now, self.logits.data = self.logits.data, self.reference
        with torch.no_grad():
            found = self.log_probs(prompt, completions)
        self.logits.data = now
        return found

    def parameters(self) -> Iterator[torch.nn.Parameter]:
        yield self.logits

    def seed(self, seed: int) -> None: ...

    def save(self, folder: Path) -> None: ...

    def state_dict(self) -> dict[str, Any]:
        return {"logits": self.logits.detach().clone()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.logits.data.copy_(state["logits"])


class Game:
    """Some turns, whose prompts are the joint answer before.

    Args:
        reward: Reward of a joint answer after a history.
        over: Whether the episode ends with it, before the last turn.
        num_turns: Number of turns at most.
        agents: The agents.
        acting: The agents that act after a history, by default all; joint answers hold those of acting agents.
        infos: Numbers in the infos of an agent, such as its own points.
    """

    def __init__(
        self,
        reward: Callable[[History, tuple[str, ...]], float],
        over: Callable[[History, tuple[str, ...]], bool] = lambda *_: False,
        num_turns: int = 2,
        agents: Sequence[str] = ("x",),
        acting: Callable[[History], Sequence[str]] | None = None,
        infos: Callable[[str, History, tuple[str, ...]], dict[str, float]] = lambda *_: {},
    ) -> None:
        self.metadata = {"name": "game_v0", "turn_based": acting is not None}
        self.acts, self.infos = acting, infos
        self.possible_agents, self.agents = list(agents), list[str]()
        self.num_turns, self.reward, self.over = num_turns, reward, over
        self.history: History = ()

    def fork(self) -> Game:
        twin = Game(
            self.reward, self.over, self.num_turns, self.possible_agents, self.acts, self.infos
        )
        twin.agents, twin.history = list(self.agents), self.history
        return twin

    def acting_after(self, history: History) -> Sequence[str]:
        return self.possible_agents if self.acts is None else self.acts(history)

    @property
    def acting(self) -> Sequence[str]:
        return self.acting_after(self.history) if self.agents else ()

    def state(self) -> str:
        return self.prompt(self.history)

    @staticmethod
    def prompt(history: History) -> str:
        return f"{len(history)} {' '.join(history[-1])}" if history else "start"

    def ends(self, history: History, joint: tuple[str, ...]) -> bool:
        return len(history) + 1 >= self.num_turns or self.over(history, joint)

    def prompts(self, answers: Sequence[str] = ANSWERS) -> list[str]:
        """All prompts that there can be."""
        sizes = range(1 if self.acts else len(self.possible_agents), 1 + len(self.possible_agents))
        joints = [joint for size in sizes for joint in product(answers, repeat=size)]
        return ["start"] + [
            self.prompt(((),) * turn + (joint,))
            for turn in range(self.num_turns - 1)
            for joint in joints
        ]

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, str], dict[str, Any]]:
        self.agents, self.history = list(self.possible_agents), ()
        return dict.fromkeys(self.agents, "start"), {agent: {} for agent in self.agents}

    def step(self, actions: dict[str, str]) -> Any:
        joint = tuple(actions[agent] for agent in self.acting)
        reward, over = self.reward(self.history, joint), self.ends(self.history, joint)
        infos = {agent: self.infos(agent, self.history, joint) for agent in self.agents}
        self.history = (*self.history, joint)
        acted, self.agents = self.agents, [] if over else self.agents
        every = dict.fromkeys
        prompts = every(acted, self.prompt(self.history))
        return prompts, every(acted, float(reward)), every(acted, over), every(acted, False), infos


def make_tables(
    game: Game, answers: Sequence[str] = ANSWERS, seed: int = 0
) -> tuple[dict[str, Table], Oracle]:
    """A team of tables for a game, and its oracle."""
    oracle = Oracle()
    team = {
        agent: Table(oracle, game.prompts(answers), answers, seed + n)
        for n, agent in enumerate(game.possible_agents)
    }
    return team, oracle


def gradient(team: Mapping[str, Table]) -> torch.Tensor:
    """The accumulated gradients of all policies, (N, prompts, answers)."""
    grads = (table.logits.grad for table in team.values())
    found = [
        torch.zeros_like(table.logits) if grad is None else grad
        for table, grad in zip(team.values(), grads, strict=True)
    ]
    return torch.stack(found).detach().clone()


def expected_gradient(
    learner: Learner, oracle: Oracle, play: Callable[[], list[Rollout]]
) -> torch.Tensor:
    """The expectation of the gradient that the learner accumulates over what is played, (N, prompts, answers)."""
    team: Any = learner.policies
    total, chance = torch.zeros(()), 0.0
    for _ in oracle.paths():
        rollouts = play()
        learner.accumulate(rollouts)
        total = total + oracle.chance * gradient(team)
        chance += oracle.chance
    assert math.isclose(chance, 1.0), chance
    return total


def true_gradient(
    game: Game,
    team: Mapping[str, Table],
    credit: Callable[[int, list[float]], float] = lambda turn, rewards: sum(rewards[turn:]),
) -> torch.Tensor:
    """-E[sum_t credit(t, rewards) grad log pi_t], by default minus the gradient of the expected return."""
    for table in team.values():
        table.logits.grad = None
    terms: list[torch.Tensor] = []

    def visit(history: History, logs: list[torch.Tensor], rewards: list[float]) -> None:
        prompt = game.prompt(history)
        tables = [team[agent] for agent in game.acting_after(history)]
        for indices in product(*(range(len(table.answers)) for table in tables)):
            log = torch.stack(
                [
                    table.logits[table.rows[prompt]].log_softmax(0)[index]
                    for table, index in zip(tables, indices, strict=True)
                ]
            ).sum()
            joint = tuple(t.answers[i] for t, i in zip(tables, indices, strict=True))
            passed, earned = [*logs, log], [*rewards, game.reward(history, joint)]
            if not game.ends(history, joint):
                visit((*history, joint), passed, earned)
                continue
            chance = torch.stack(passed).sum().exp().item()
            terms.extend(-chance * credit(t, earned) * of for t, of in enumerate(passed))

    visit((), [], [])
    torch.stack(terms).sum().backward()  # type: ignore[no-untyped-call]
    found = gradient(team)
    for table in team.values():
        table.logits.grad = None
    return found


def cosine(one: torch.Tensor, other: torch.Tensor) -> float:
    return float((one * other).sum() / (one.norm() * other.norm()))
