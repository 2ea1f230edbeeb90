"""One update of comlrl's MAGRPO, in an interpreter that has `comlrl`; see `host.py`."""

from __future__ import annotations

import time
from contextlib import contextmanager

import torch
from comlrl.trainers.reinforce.magrpo import MAGRPOConfig, MAGRPOTrainer
from datasets import Dataset
from transformers import AutoModelForCausalLM, AutoTokenizer

TYPE_CHECKING = False  # this file runs without the package
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any


class Timed(MAGRPOTrainer):  # type: ignore[misc]
    """The trainer, with a clock around its parts."""

    def __init__(self, **arguments: Any) -> None:
        super().__init__(**arguments)
        self.restart()

    def restart(self) -> None:
        """Set the clock and the number of tokens to 0."""
        self.seconds = {"sampling": 0.0, "reward": 0.0, "learning": 0.0}
        self.tokens = 0

    @contextmanager
    def clock(self, part: str) -> Iterator[None]:
        """Add the time of a block to a part."""
        begin = time.perf_counter()
        yield
        self.seconds[part] += time.perf_counter() - begin

    def _generate_completions(self, *arguments: Any, **named: Any) -> dict[str, Any]:
        with self.clock("sampling"):
            completions: dict[str, Any] = super()._generate_completions(*arguments, **named)
        rows = completions["completion_input_ids"][0]
        self.tokens += sum(int((row != self.tokenizer.pad_token_id).sum()) for row in rows)
        return completions

    def _compute_rewards(self, *arguments: Any, **named: Any) -> list[float]:
        with self.clock("reward"):
            rewards: list[float] = super()._compute_rewards(*arguments, **named)
        return rewards

    def _update_from_samples(self, *arguments: Any, **named: Any) -> None:
        with self.clock("learning"):
            super()._update_from_samples(*arguments, **named)


def magrpo(
    model: str, prompts: Sequence[Sequence[str]], group_size: int, new_tokens: int
) -> Iterator[dict[str, Any]]:
    """Make an update for each row of prompts (one for each agent) in float32."""
    torch.manual_seed(0)
    number = len(prompts[0])
    calls = iter(range(10**9))
    trainer = Timed(
        agents=[
            AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32) for _ in range(number)
        ],
        num_agents=number,
        tokenizer=AutoTokenizer.from_pretrained(model),
        reward_func=lambda *completions: [float(next(calls) % 2)],
        formatters=[
            lambda row, agent=agent: row["prompt"].split("\0")[agent] for agent in range(number)
        ],
        args=MAGRPOConfig(
            num_agents=number,
            num_turns=1,
            num_train_epochs=1,
            num_generations=group_size,
            max_new_tokens=new_tokens,
            temperature=1.0,
            top_p=1.0,
            top_k=0,
            early_termination_threshold=None,
            eval_interval=0,
            rollout_buffer_size=1,
            agent_learning_rate=1e-6,
        ),
    )
    for row in prompts:
        trainer.restart()
        trainer.train_dataset = Dataset.from_list([{"prompt": "\0".join(row)}])
        trainer.train()
        yield {"units": trainer.tokens, "parts": trainer.seconds}
