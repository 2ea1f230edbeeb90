"""Workload of the trials of models: a model that never ends a text, and prompts of CoopHumanEval."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import llm_decpomdp
from llm_decpomdp.agents.loading import load_policy
from llm_decpomdp.agents.models.local_models import OFFLINE_MODEL, offline_model
from llm_decpomdp.agents.models.prompting import end_of_turn

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
    """Tokens of a completion, or of the longest one."""
    dtype: str
    """Type that the model computes in."""
    device: str
    prompts: Sequence[str] = ()
    tasks: Sequence[str] = ()
    """Task of the update that isn't counted, then of the one that is."""
    weights: str = "own"
    """Weights of a team: `own` (a model for each agent), `shared` (one for all), or `adapters` (one, with an
    adapter for each)."""

    def policy(self, dtype: str | None = None) -> CausalLM:
        """Load the model, which computes in another dtype if one is given."""
        return load_policy(self.model, compute_dtype=dtype or self.dtype, device=self.device)


def environment(turns: int = 1) -> Any:
    """Return the environment of the trials: two agents, tasks that come with the package."""
    return llm_decpomdp.make(ENVIRONMENT, source="bundled", num_turns=turns)


@contextmanager
def endless_copy(model: str) -> Iterator[str]:
    """Copy a model to a folder that goes with the block; in the copy every text reaches its limit.

    Contenders count, mask and stop at ends in different ways. So the token that ends a text is made one
    that the model has and doesn't write; where it has none, texts end as they do.

    Args:
        model: The offline model's name, or a folder.
    """
    from transformers import AutoTokenizer, GenerationConfig

    source = offline_model() if model == OFFLINE_MODEL else Path(model)
    with TemporaryDirectory() as folder:
        for file in source.iterdir():
            if file.suffix == ".safetensors":  # contenders only read it
                (Path(folder) / file.name).symlink_to(file.resolve())
            elif file.is_file():
                shutil.copy(file, folder)
        tokenizer = AutoTokenizer.from_pretrained(source)
        special = {tokenizer.eos_token, tokenizer.bos_token, tokenizer.pad_token}
        spare = [token for token in tokenizer.get_added_vocab() if token not in special]
        spare = [token for token in spare if token not in (tokenizer.chat_template or "")]
        if len(spare) > 1:
            turn = end_of_turn(tokenizer)
            if turn is not None:  # it would end a text as well
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
    """Return what each agent sees of a task."""
    observations, _ = env.reset(options={"task_id": task_id})
    return dict(observations)


def to_messages(model: str, texts: Mapping[str, str]) -> dict[str, str]:
    """Return prompts as the model sees them, for contenders that don't use its chat template themselves."""
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
