"""A tiny random model in transformers' own format, for runs from end to end."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The folder of a model that reads bytes and knows nothing."""
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    folder = tmp_path_factory.mktemp("tiny-model")
    vocabulary = {letter: i for i, letter in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    tokenizer = Tokenizer(models.BPE(vocabulary, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<end>").save_pretrained(folder)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        config = LlamaConfig(
            vocab_size=len(vocabulary) + 1,
            hidden_size=16,
            intermediate_size=16,
            num_hidden_layers=1,
            num_attention_heads=2,
            max_position_embeddings=16384,
            eos_token_id=len(vocabulary),
        )
        LlamaForCausalLM(config).save_pretrained(folder)
    return str(folder)


CHAT_TEMPLATE = (
    "{% for message in messages %}{% if message.role != 'assistant' %}[{{ message.role }}]{% endif %}"
    "{{ message.content }}"
    "{% if message.role == 'user' %}{% if mood is defined %}[{{ mood }}]{% endif %}[assistant]{% endif %}"
    "{% endfor %}"
)


@pytest.fixture(scope="session")
def chat_model(tiny_model: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The same with a chat template, which reads the variable `mood`."""
    folder = tmp_path_factory.mktemp("chat-model")
    shutil.copytree(tiny_model, folder, dirs_exist_ok=True)
    (folder / "chat_template.jinja").write_text(CHAT_TEMPLATE)
    return str(folder)


@pytest.fixture
def quick(tiny_model: str, tmp_path: Path) -> list[str]:
    """Overrides that make any configuration a matter of seconds, in a folder `run`."""
    return quick_overrides(tiny_model, tmp_path)


def quick_overrides(model: str, folder: Path) -> list[str]:
    """Return the overrides of `quick` for runs in another folder, such as that of a module's fixture."""
    return [
        f"model.name={model}",
        "model.max_new_tokens=4",
        "model.compute_dtype=float32",
        "dataset.source=bundled",
        "algorithm.max_updates=2",
        "algorithm.num_generations=2",
        "evaluation.num_tasks=2",
        f"output.base_dir={folder}",
        "output.name=run",
    ]


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nothing waits for a hub."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.delenv("LLM_DECPOMDP_DATA", raising=False)
    yield
