"""Workload of the trials of models: a model whose texts never end early, and prompts of CoopHumanEval."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import llm_decpomdp
from llm_decpomdp.agents.inference.options import Caching
from llm_decpomdp.agents.models.gguf import offline_model
from llm_decpomdp.agents.models.pretrained import OFFLINE_MODEL
from llm_decpomdp.agents.models.prompting import end_of_turn
from llm_decpomdp.agents.single_model import load_policy

if TYPE_CHECKING:
    from llm_decpomdp.agents.models.causal_lm import CausalLM

ENVIRONMENT = "coophumaneval-v0"


@dataclass(frozen=True)
class Case:
    """Arguments of a trial."""

    model: str
    """Folder of the model."""
    group_size: int
    """Completions of a prompt, or joint samples (G)."""
    new_tokens: int
    """Most tokens of a completion."""
    dtype: str
    """Type of the computations of the model."""
    device: str
    prompts: Sequence[str] = ()
    tasks: Sequence[str] = ()
    """Tasks of the warm-up update and of the measured update."""
    weights: str = "own"
    """Weights of a team: `own` (a model for each agent), `shared` (one for all), or `adapters` (one, with an
    adapter for each)."""
    static_cache: bool | None = None
    fused_kernels: bool = False
    compile: bool = False
    fused_adamw: bool = False
    tokens_per_pass: int | None = None
    """Most tokens of a pass of learning with several prompts; `None` for a prompt a pass."""

    def policy(self, dtype: str | None = None) -> CausalLM:
        """Load the model, with another dtype of its computations if one is given."""
        return load_policy(
            self.model,
            compute_dtype=dtype or self.dtype,
            device=self.device,
            caching=Caching(static_cache=self.static_cache),
            fused_kernels=self.fused_kernels,
            compile=self.compile,
        )


def environment(turns: int = 1, **options: Any) -> Any:
    """Return the environment of the trials, with two agents and bundled tasks."""
    return llm_decpomdp.make(ENVIRONMENT, source="bundled", num_turns=turns, **options)


@contextmanager
def endless_copy(model: str) -> Iterator[str]:
    """Copy a model to a temporary folder, with another end token, so that every text reaches its limit.

    The libraries handle ends of texts in different ways. The copy therefore has an end token that the model never
    writes. If the model has no such token, its texts end as before.

    Args:
        model: The offline model's name, or a folder.
    """
    from transformers import AutoTokenizer, GenerationConfig

    source = offline_model() if model == OFFLINE_MODEL else Path(model)
    with TemporaryDirectory() as folder:
        for file in source.iterdir():
            if file.suffix == ".safetensors":  # only read
                (Path(folder) / file.name).symlink_to(file.resolve())
            elif file.is_file():
                shutil.copy(file, folder)
        tokenizer = AutoTokenizer.from_pretrained(source)
        special = {tokenizer.eos_token, tokenizer.bos_token, tokenizer.pad_token}
        spare = [token for token in tokenizer.get_added_vocab() if token not in special]
        # Tokens of the chat template mark turns.
        spare = [token for token in spare if token not in (tokenizer.chat_template or "")]
        # Two tokens are needed: the end and the padding.
        if len(spare) > 1:
            turn = end_of_turn(tokenizer)
            if turn is not None:  # it also ends texts
                token = tokenizer.convert_ids_to_tokens(turn)
                tokenizer.chat_template = tokenizer.chat_template.replace(token, spare[-1])
            tokenizer.eos_token, tokenizer.pad_token = spare[-1], spare[-2]
            tokenizer.save_pretrained(folder)
            GenerationConfig(  # type: ignore[no-untyped-call]
                eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id
            ).save_pretrained(folder)
        yield folder


def task_ids(env: Any, number: int) -> list[str]:
    """Return the first tasks of the environment."""
    return [task.task_id for task in env.tasks.tasks[:number]]


def prompts(env: Any, task_id: str) -> dict[str, str]:
    """Return the prompts of a task by agent."""
    observations, _ = env.reset(options={"task_id": task_id})
    return dict(observations)


def to_messages(model: str, texts: Mapping[str, str]) -> dict[str, str]:
    """Return prompts in the chat template of the model, for libraries that do not apply it."""
    from transformers import AutoTokenizer

    tokenizer: Any = AutoTokenizer.from_pretrained(model)
    if not tokenizer.chat_template:
        return dict(texts)
    return {
        agent: tokenizer.apply_chat_template(
            [{"role": "user", "content": text}], tokenize=False, add_generation_prompt=True
        )
        for agent, text in texts.items()
    }
