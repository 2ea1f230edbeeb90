"""Updates of TRL's GRPO, in an interpreter that has `trl`; see `host.py`."""

from __future__ import annotations

import time
from tempfile import TemporaryDirectory

import torch
from datasets import Dataset
from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback
from trl import GRPOConfig, GRPOTrainer

TYPE_CHECKING = False  # this file runs without the package
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any


class Timed(GRPOTrainer):  # type: ignore[misc]
    """The trainer, with a clock around its parts."""

    def __init__(self, **arguments: Any) -> None:
        self.spent = {"sampling": 0.0, "reward": 0.0}
        super().__init__(**arguments)

    def _generate(self, *arguments: Any, **named: Any) -> Any:
        begin = time.perf_counter()
        completions = super()._generate(*arguments, **named)
        self.spent["sampling"] += time.perf_counter() - begin
        return completions

    def _calculate_rewards(self, *arguments: Any, **named: Any) -> Any:
        begin = time.perf_counter()
        rewards = super()._calculate_rewards(*arguments, **named)
        self.spent["reward"] += time.perf_counter() - begin
        return rewards


class Steps(TrainerCallback):
    """Duration of each step, by part."""

    def __init__(self, trainer: Timed) -> None:
        self.trainer = trainer
        self.seconds: list[dict[str, float]] = []
        self.cpu: list[float] = []

    def on_step_begin(self, *_: Any, **__: Any) -> None:
        """Start the clocks."""
        self.trainer.spent = {"sampling": 0.0, "reward": 0.0}
        self.begin, self.cpu_begin = time.perf_counter(), time.process_time()

    def on_step_end(self, *_: Any, **__: Any) -> None:
        """Note the times of the step."""
        total, parts = time.perf_counter() - self.begin, self.trainer.spent
        self.cpu.append(time.process_time() - self.cpu_begin)
        self.seconds.append({**parts, "learning": total - sum(parts.values())})


def grpo(
    model: str,
    prompts: Sequence[Sequence[str]],
    group_size: int,
    new_tokens: int,
    device: str,
    bf16: bool,
    gradient_checkpointing: bool,
) -> Iterator[dict[str, Any]]:
    """Make an update for each prompt; those of the last row of prompts are counted, as one round.

    All are made at once, so both answers are the same, with the trainer's clock.

    Args:
        model: Folder of the model.
        prompts: A row for each round, with a prompt for each agent.
        group_size: Completions of a prompt (G).
        new_tokens: Tokens of a completion.
        device: `cpu`, or else the GPU that accelerate takes, whose peak of memory is then told, too.
        bf16: Whether under autocast; weights are float32 in any case.
        gradient_checkpointing: Whether activations are computed again instead of kept.
    """
    torch.manual_seed(0)
    texts = [text for row in prompts for text in row]
    agents = len(prompts[-1])
    tokens: list[int] = []

    def reward(completion_ids: list[list[int]], **_: Any) -> list[float]:
        tokens.append(sum(map(len, completion_ids)))
        return [float(index % 2) for index in range(len(completion_ids))]

    with TemporaryDirectory() as folder:
        trainer = Timed(
            model=AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32),
            processing_class=AutoTokenizer.from_pretrained(model),
            reward_funcs=reward,
            train_dataset=Dataset.from_list([{"prompt": text} for text in texts]),
            args=_config(
                output_dir=folder,
                per_device_train_batch_size=group_size,
                num_generations=group_size,
                max_completion_length=new_tokens,
                max_steps=len(texts),
                use_cpu=device == "cpu",
                bf16=bf16,
                gradient_checkpointing=gradient_checkpointing,
            ),
        )
        steps = Steps(trainer)
        trainer.add_callback(steps)
        trainer.train()
    last = steps.seconds[-agents:]
    seconds = {part: sum(step[part] for step in last) for part in last[0]}
    figures = {} if device == "cpu" else {"device GB": torch.cuda.max_memory_allocated() / 1e9}
    while True:
        yield {
            "units": sum(tokens[-agents:]),
            "parts": seconds,
            "cpu_seconds": sum(steps.cpu[-agents:]),
            "figures": figures,
        }


def _config(**sizes: Any) -> Any:
    return GRPOConfig(
        **sizes,
        gradient_accumulation_steps=1,
        temperature=1.0,
        top_p=1.0,
        top_k=0,
        learning_rate=1e-6,
        shuffle_dataset=False,
        save_strategy="no",
        report_to=[],
        disable_tqdm=True,
    )
