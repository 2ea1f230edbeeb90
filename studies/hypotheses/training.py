"""Tabular policies, a softmax over a few answers for each prompt, and their training by the code for real models.

A policy learns a probe in a second and has no prior knowledge, so that only the effects of credit remain.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from llm_decpomdp.algorithms import ALGORITHMS
from llm_decpomdp.algorithms.learning.learner import Learner
from llm_decpomdp.algorithms.learning.learner_options import LearnerOptions
from llm_decpomdp.algorithms.rollouts.collection import collect_rollouts
from llm_decpomdp.algorithms.rollouts.play import play_episodes
from llm_decpomdp.algorithms.rollouts.rollout import Start
from llm_decpomdp.algorithms.rollouts.rollout_options import RolloutOptions
from llm_decpomdp.env import DecPOMDPEnv
from llm_decpomdp.envs.probes.parts import ProbeTask
from llm_decpomdp.policy import Completion, Team
from llm_decpomdp.seeding import stream


class HashedParts:
    """Random Fourier features of the parts of a text: texts are near that have most of their parts in common.

    (Rahimi and Recht 2007, with a Gaussian kernel of a width in parts.)
    """

    def __init__(self, width: float = 2.0, size: int = 512) -> None:
        self.width, self.size = width, size
        self._directions: dict[str, torch.Tensor] = {}

    def __call__(self, texts: Sequence[str]) -> torch.Tensor:
        """Return the features of each text, (B, size)."""
        return torch.stack([self._feature(sorted(set(text.split("\n\n")))) for text in texts])

    def _feature(self, parts: Sequence[str]) -> torch.Tensor:
        phase = math.pi * self._direction("phase")
        total = torch.stack([self._direction(part) for part in parts]).sum(0)
        return math.sqrt(2) * torch.cos(phase + total / self.width)

    def _direction(self, word: str) -> torch.Tensor:
        if word not in self._directions:
            generator = torch.Generator().manual_seed(zlib.crc32(word.encode()))
            self._directions[word] = torch.randn(self.size, generator=generator)
        return self._directions[word]


class Noise:
    """Features that say nothing: others each time."""

    def __init__(self, seed: int, size: int = 32) -> None:
        self.generator, self.size = torch.Generator().manual_seed(seed), size

    def __call__(self, texts: Sequence[str]) -> torch.Tensor:
        """Return the features of each text, (B, size)."""
        return torch.randn(len(texts), self.size, generator=self.generator)


ROWS = 64
"""Most prompts that a policy can tell apart."""


class TabularPolicy:
    """A policy with a table of logits, a row for each prompt.

    Args:
        answers: The texts that it can say; each counts as one token.
        seed: Of its first logits, and of what it samples.
        spread: Standard deviation of the logits at first; 0 gives equal chances.
    """

    def __init__(self, answers: Sequence[str], seed: int, spread: float = 0.0) -> None:
        self.answers = list(answers)
        self._generator = torch.Generator().manual_seed(seed)
        logits = torch.randn(ROWS, len(answers), generator=self._generator)
        self.logits = torch.nn.Parameter(spread * logits)
        self._rows: dict[str, int] = {}

    def generate(self, prompts: Sequence[str], num_samples: int = 1) -> list[list[Completion]]:
        """Sample answers; as of `Policy`."""
        with torch.no_grad():
            chances = self.logits[[self._row(prompt) for prompt in prompts]].log_softmax(-1)
        samples = torch.multinomial(
            chances.exp(), num_samples, replacement=True, generator=self._generator
        )
        return [
            [Completion(self.answers[token], (token,), (log_probs[token],)) for token in tokens]
            for tokens, log_probs in zip(samples.tolist(), chances.tolist(), strict=True)
        ]

    def act(self, prompt: str) -> str:
        """Sample one answer."""
        return self.generate([prompt])[0][0].text

    def log_probs(self, prompt: str, completions: Sequence[Completion]) -> tuple[Tensor, Tensor]:
        """Return log-probabilities of the answers, and a mask of ones, both (G, 1)."""
        return self._log_probs(self.logits, prompt, completions)

    def _log_probs(
        self, logits: Tensor, prompt: str, completions: Sequence[Completion]
    ) -> tuple[Tensor, Tensor]:
        tokens = torch.tensor([completion.tokens[0] for completion in completions])
        values = logits[self._row(prompt)].log_softmax(-1)[tokens]
        return values[:, None], torch.ones(len(tokens), 1)

    def keep_reference(self) -> None:
        """Make the present table the reference."""
        self._reference = self.logits.detach().clone()

    def reference_log_probs(
        self, prompt: str, completions: Sequence[Completion]
    ) -> tuple[Tensor, Tensor]:
        """`log_probs` under the reference, without a gradient."""
        return self._log_probs(self._reference, prompt, completions)

    def probabilities(self, prompt: str) -> dict[str, float]:
        """Return the probability of each answer."""
        chances = self.logits[self._row(prompt)].detach().softmax(-1).tolist()
        return dict(zip(self.answers, chances, strict=True))

    def parameters(self) -> Iterator[torch.nn.Parameter]:
        """Return the table."""
        yield self.logits

    def seed(self, seed: int) -> None:
        """Restart the sampler's random stream."""
        self._generator.manual_seed(seed)

    def save(self, folder: Path) -> None:
        """Write the table."""
        torch.save(self.state_dict(), folder / "table.pt")

    def state_dict(self) -> dict[str, Any]:
        """Return the state from which `load_state_dict` continues exactly."""
        return {
            "logits": self.logits.detach().clone(),
            "rows": dict(self._rows),
            "generator": self._generator.get_state(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from `state_dict`'s value."""
        with torch.no_grad():
            self.logits.copy_(state["logits"])
        self._rows = dict(state["rows"])
        self._generator.set_state(state["generator"])

    def _row(self, prompt: str) -> int:
        row = self._rows.setdefault(prompt, len(self._rows))
        if row >= ROWS:
            raise ValueError(
                f"a tabular policy tells {ROWS} prompts apart, and {prompt!r} is one more"
            )
        return row


LEARNING_RATE = 0.3
"""Of AdamW on logits, where an experiment says nothing else; it falls linearly."""

EPISODES = 192
"""Episodes of an evaluation, shared by all tasks."""

Watch = Callable[[int, Mapping[str, float]], bool]
"""Sees the number of updates and the metrics of the last one; true ends the training."""


def make_team(
    env: DecPOMDPEnv, letters: Sequence[str], seed: int, spread: float = 0.0
) -> dict[str, TabularPolicy]:
    """Return new policies that say a letter (or a longer answer, if `letters` is a list of such), or nothing."""
    return {
        agent: TabularPolicy(
            [*letters, ""], int(stream(seed, "policy", agent).integers(2**32)), spread
        )
        for agent in env.possible_agents
    }


def train(
    env: DecPOMDPEnv,
    team: Team,
    *,
    seed: int,
    updates: int,
    group_size: int = 8,
    algorithm: str = "magrpo",
    rollouts: RolloutOptions | None = None,
    options: LearnerOptions | None = None,
    starts: int = 1,
    num_tasks: int | None = None,
    watch: Watch | None = None,
) -> None:
    """Train a team on all tasks of a probe, each `starts` times an update, or on `num_tasks` random ones."""
    options = replace(
        options or LearnerOptions(learning_rate=LEARNING_RATE),
        lr_schedule="linear",
        total_updates=updates,
        discount=env.discount,
    )
    learner = Learner(dict(team), ALGORITHMS[algorithm], options, HashedParts())
    episodes, rng = every_start(env) * starts, stream(seed, "handoff")
    for update in range(1, updates + 1):
        batch = collect_rollouts(
            env,
            team,
            episodes if num_tasks is None else _draw(episodes, num_tasks, seed, update),
            rollouts or RolloutOptions(),
            group_size=group_size,
            rng=rng,
            views=learner.critic is not None,
        )
        metrics = learner.update(batch)
        if watch is not None and watch(update, metrics):
            return


def _draw(starts: Sequence[Start], number: int, seed: int, update: int) -> list[Start]:
    order = stream(seed, "starts", update).permutation(len(starts))
    return [starts[int(place)] for place in order[:number]]


def value(env: DecPOMDPEnv, team: Team) -> float:
    """Return the mean sum of rewards of `EPISODES` episodes."""
    starts = every_start(env)
    rollouts = play_episodes(env, team, starts * (EPISODES // len(starts)))
    return float(
        np.mean([sum(group.rewards[0] for group in rollout.groups) for rollout in rollouts])
    )


def tasks(env: DecPOMDPEnv) -> list[ProbeTask]:
    """Return the tasks of a probe."""
    return [task for task in env.tasks.tasks if isinstance(task, ProbeTask)]


def every_start(env: DecPOMDPEnv) -> list[Start]:
    """Return a start of each task."""
    return [Start(task_id=task.task_id) for task in env.tasks.tasks]
