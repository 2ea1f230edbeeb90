from __future__ import annotations

from pathlib import Path

import pytest

from llm_decpomdp.agents import load_policy
from llm_decpomdp.agents.tiny_model import tiny_model


def test_the_tiny_model_is_made_once_and_reads_any_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LLM_DECPOMDP_CACHE", str(tmp_path))
    policy = load_policy("tiny-random")
    (folder,) = tmp_path.iterdir()
    made = (folder / "model.safetensors").stat().st_mtime_ns
    text = "def π(x):\n\treturn '語'\n"
    assert policy.tokenizer.decode(policy.tokenizer(text).input_ids) == text
    ((completion,),) = policy.generate([text])
    assert 0 < len(completion.tokens) <= policy.sampling.max_new_tokens
    assert tiny_model() == folder
    assert (folder / "model.safetensors").stat().st_mtime_ns == made


def test_the_tiny_model_is_the_same_wherever_it_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    weights = []
    for name in ("one", "two"):
        monkeypatch.setenv("LLM_DECPOMDP_CACHE", str(tmp_path / name))
        weights.append((tiny_model() / "model.safetensors").read_bytes())
    assert weights[0] == weights[1]
