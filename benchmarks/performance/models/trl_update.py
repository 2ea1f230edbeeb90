"""Updates of TRL's GRPO, in an interpreter that has `trl`; see `trials.py`."""

from __future__ import annotations

import time
from tempfile import TemporaryDirectory

import torch
from datasets import Dataset
from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback
from trl import GRPOConfig, GRPOTrainer

TYPE_CHECKING = False  # this file runs without the package
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any


class Timed(GRPOTrainer):  # type: ignore[misc]
    """The trainer, with a clock around its parts."""

    def __init__(self, **arguments: Any) -> None:
        self.spent = {"sampling": 0.0, "reward": 0.0}
        super().__init__(**arguments)

    def _generate(self, *arguments: Any, **named: Any) -> Any:
        begin = time.perf_counter()
        found = super()._generate(*arguments, **named)
        self.spent["sampling"] += time.perf_counter() - begin
        return found

    def _calculate_rewards(self, *arguments: Any, **named: Any) -> Any:
        begin = time.perf_counter()
        found = super()._calculate_rewards(*arguments, **named)
        self.spent["reward"] += time.perf_counter() - begin
        return found


class Steps(TrainerCallback):
    """What each step took, by part."""

    def __init__(self, trainer: Timed) -> None:
        self.trainer = trainer
        self.seconds: list[dict[str, float]] = []
        self.cpu: list[float] = []

    def on_step_begin(self, *_: Any, **__: Any) -> None:
        self.trainer.spent = {"sampling": 0.0, "reward": 0.0}
        self.begin, self.cpu_begin = time.perf_counter(), time.process_time()

    def on_step_end(self, *_: Any, **__: Any) -> None:
        total, spent = time.perf_counter() - self.begin, self.trainer.spent
        self.cpu.append(time.process_time() - self.cpu_begin)
        self.seconds.append({**spent, "learning": total - sum(spent.values())})


def grpo(
    model: str,
    prompts: Sequence[Sequence[str]],
    group_size: int,
    new_tokens: int,
    bf16: bool,
    gradient_checkpointing: bool,
) -> dict[str, Any]:
    """An update for each prompt; those of the last row of prompts are counted, as one round.

    Args:
        bf16: Whether under autocast; weights are float32 in any case.
    """
    torch.manual_seed(0)
    texts = [text for row in prompts for text in row]
    counted = len(prompts[-1])
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
            args=GRPOConfig(
                output_dir=folder,
                per_device_train_batch_size=group_size,
                num_generations=group_size,
                gradient_accumulation_steps=1,
                max_completion_length=new_tokens,
                max_steps=len(texts),
                temperature=1.0,
                top_p=1.0,
                top_k=0,
                learning_rate=1e-6,
                shuffle_dataset=False,
                use_cpu=True,
                bf16=bf16,
                gradient_checkpointing=gradient_checkpointing,
                save_strategy="no",
                report_to=[],
                disable_tqdm=True,
            ),
        )
        steps = Steps(trainer)
        trainer.add_callback(steps)
        trainer.train()
    last = steps.seconds[-counted:]
    seconds = {part: sum(step[part] for step in last) for part in last[0]}
    return {
        "tokens": sum(tokens[-counted:]),
        "seconds": seconds,
        "cpu_seconds": sum(steps.cpu[-counted:]),
        "figures": {},
    }
