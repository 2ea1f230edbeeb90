"""Completions that share their prompt in one row: the same numbers and gradients as plain rows."""

from __future__ import annotations

import logging
from typing import Any

import pytest
import torch
from transformers import CONFIG_MAPPING, AutoModelForCausalLM

from llm_decpomdp.agents.inference import log_probs as packed
from llm_decpomdp.agents.inference.log_probs import (
    _TokenLogProbs,
    packed_log_probs,
    padded_log_probs,
    token_log_probs,
)
from llm_decpomdp.agents.models.engine import ModelEngine
from tests.agents.conftest import SIZE, Make

PROMPT = (5, 6, 7, 8, 9)
ROWS = ((4, 3, 2, 0), (7,), (0,), (11, 12, 13, 14, 15, 16, 17), (4, 3, 9))


def gradients(model: torch.nn.Module, log_probs: torch.Tensor) -> torch.Tensor:
    model.zero_grad()
    (log_probs * torch.linspace(-1, 2, len(log_probs))).sum().backward()
    return torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])


def plain(model: torch.nn.Module, divisor: float) -> torch.Tensor:
    """One forward pass for each row."""
    parts = []
    for row in ROWS:
        logits = model(input_ids=torch.tensor([[*PROMPT, *row]])).logits[0, len(PROMPT) - 1 : -1]
        scores = (logits.float() / divisor).log_softmax(-1)
        parts.append(scores.gather(1, torch.tensor(row)[:, None])[:, 0])
    return torch.cat(parts)


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("room", [4096, 14, 1])
@pytest.mark.parametrize("logits", [2**24, 64])
def test_values_and_gradients_are_those_of_plain_rows(
    make_policy: Make, monkeypatch: pytest.MonkeyPatch, attention: str, room: int, logits: int
) -> None:
    monkeypatch.setattr(packed, "ROW_TOKENS", room)
    monkeypatch.setattr(packed, "LOGITS_AT_ONCE", logits)
    model = make_policy().model
    model.set_attn_implementation(attention)
    found, padded = (
        score(model, PROMPT, ROWS, 0.7) for score in (packed_log_probs, padded_log_probs)
    )
    expected = plain(model, 0.7)
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(padded, expected, atol=1e-5, rtol=1e-5)
    reference = gradients(model, expected)
    for scores in (found, padded):
        difference = gradients(model, scores) - reference
        assert difference.norm() <= 1e-4 * reference.norm()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_a_model_in_half_precision_is_scored(make_policy: Make, dtype: torch.dtype) -> None:
    model, tokenizer = make_policy().model, make_policy().tokenizer
    expected = plain(model, 1.0)
    found = ModelEngine(model.to(dtype), tokenizer).log_probs_of_prompts([(PROMPT, ROWS)], 1.0)
    torch.testing.assert_close(found, expected, atol=0.1, rtol=0.02)


def test_completions_of_one_token_need_no_row_of_their_own(make_policy: Make) -> None:
    model = make_policy().model
    found = packed_log_probs(model, PROMPT, [(3,), (4,)], 1.0)
    logits = model(input_ids=torch.tensor([PROMPT])).logits[0, -1]
    torch.testing.assert_close(found, logits.log_softmax(-1)[[3, 4]])


def test_few_logits_live_at_a_time(make_policy: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    model = make_policy().model
    seen: list[int] = []
    model.lm_head.register_forward_hook(lambda _, __, logits: seen.append(logits.numel()))
    monkeypatch.setattr(packed, "LOGITS_AT_ONCE", 4 * model.config.vocab_size)
    packed_log_probs(model, PROMPT, ROWS, 1.0).sum().backward()
    tokens = sum(map(len, ROWS))
    assert max(seen) <= 4 * model.config.vocab_size
    # Once, and again in the backward pass; those of the first four tokens are kept.
    assert sum(seen) == (2 * tokens - 4) * model.config.vocab_size


FEW = {"vocab_size": 40, "initializer_range": 0.5, "bos_token_id": None, "eos_token_id": 0}
MODELS: dict[str, tuple[str, dict[str, Any], str]] = {
    "qwen3": ("qwen3", SIZE, ""),
    "gpt2": ("gpt2", {**FEW, "n_embd": 16, "n_layer": 2, "n_head": 2}, ""),
    "mistral": ("mistral", {**SIZE, "sliding_window": 64}, ""),
    "a window of a few tokens": ("mistral", {**SIZE, "sliding_window": 4}, "differ by"),
    "soft caps": ("gemma2", {**SIZE, "final_logit_softcapping": 1.0, "sliding_window": 64}, ""),
    "alibi": ("bloom", {**FEW, "hidden_size": 16, "n_layer": 2, "n_head": 2}, ""),
    "recurrent": (
        "mamba",
        {**FEW, "hidden_size": 16, "state_size": 4, "num_hidden_layers": 2},
        "padded rows",
    ),
}
"""Kind and configuration of models, and the reason for padded rows."""


def build(kind: str, **options: Any) -> Any:
    torch.manual_seed(0)
    config = CONFIG_MAPPING[kind](**options)
    return AutoModelForCausalLM.from_config(config, dtype=torch.float32)


@pytest.mark.parametrize("name", MODELS)
def test_every_model_gives_what_plain_rows_give_and_refusals_are_said_once(
    make_policy: Make, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    kind, options, refusal = MODELS[name]
    model, tokenizer = build(kind, **options), make_policy().tokenizer
    engine = ModelEngine(model, tokenizer, compute_dtype="float32")
    with caplog.at_level(logging.WARNING, "llm_decpomdp"):
        found = engine.log_probs_of_prompts([(PROMPT, ROWS)], 0.7)
        engine.log_probs_of_prompts([(PROMPT, ROWS)], 0.7)
    expected = plain(engine.model, 0.7)
    torch.testing.assert_close(found, expected, atol=1e-4, rtol=1e-4)
    reference = gradients(engine.model, expected)
    difference = gradients(engine.model, found) - reference
    assert difference.norm() <= 1e-4 * reference.norm()
    if refusal:
        assert caplog.text.count("learns from padded rows") == 1 and refusal in caplog.text
    elif name != "alibi":
        assert not caplog.records


def test_texts_beyond_a_window_padded(make_policy: Make, caplog: pytest.LogCaptureFixture) -> None:
    model = build("mistral", **SIZE, sliding_window=20)
    engine = ModelEngine(model, make_policy().tokenizer, compute_dtype="float32")
    short, long = [PROMPT[:15]], [tuple(range(1, 19))]
    for rows in (short, long, short, long):
        found = engine.log_probs_of_prompts([(PROMPT, rows)], 1.0)
        torch.testing.assert_close(found, padded_log_probs(model, PROMPT, rows, 1.0))
    assert caplog.text.count("longer than what its attention sees, 20 tokens") == 1
    assert engine._packs  # short rows still are


def test_rows_are_packed_only_with_masks_of_pairs(
    make_policy: Make, caplog: pytest.LogCaptureFixture
) -> None:
    policy = make_policy()
    expected = policy.engine.log_probs_of_prompts([(PROMPT, ROWS)], 1.0)
    again = make_policy()
    again.model.config._attn_implementation = "flash_attention_2"
    with caplog.at_level(logging.WARNING), pytest.MonkeyPatch.context() as patch:
        patch.setattr(again.model, "forward", policy.model.forward)  # no GPU is needed for this
        found = again.engine.log_probs_of_prompts([(PROMPT, ROWS)], 1.0)
    assert "'flash_attention_2' does not accept a mask over pairs" in caplog.text
    torch.testing.assert_close(found, expected)


def test_activations_computed_twice_give_the_same_gradient(make_policy: Make) -> None:
    policy = make_policy()
    expected = gradients(policy.model, policy.engine.log_probs_of_prompts([(PROMPT, ROWS)], 1.0))
    passes = []
    policy.model.model.layers[0].mlp.register_forward_pre_hook(lambda *_: passes.append(1))
    engine = ModelEngine(
        policy.model, policy.tokenizer, compute_dtype="float32", gradient_checkpointing=True
    )
    engine.log_probs_of_prompts([(PROMPT, ROWS)], 1.0)  # probes on the first use
    passes.clear()
    found = gradients(policy.model, engine.log_probs_of_prompts([(PROMPT, ROWS)], 1.0))
    assert len(passes) == 2
    torch.testing.assert_close(found, expected)
    assert not any(module.training for module in policy.model.modules())


def test_activations_are_not_computed_twice_with_dropout(make_policy: Make) -> None:
    policy = make_policy()
    policy.model.config.attention_dropout = 0.1
    with pytest.raises(ValueError, match=r"attention_dropout is 0.1; set it to 0"):
        ModelEngine(
            policy.model, policy.tokenizer, compute_dtype="float32", gradient_checkpointing=True
        )


def test_the_same_pass_on_two_threads_gives_the_same_gradients() -> None:
    wide = {"vocab_size": 64, "hidden_size": 512, "intermediate_size": 256, "num_hidden_layers": 1}
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 32}
    model = build("qwen3", **wide, **heads).eval()
    rows = [[number % 60 + 2, 5, 3] for number in range(100)]
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        passes = {
            gradients(model, packed_log_probs(model, PROMPT, rows, 1.0)).numpy().tobytes()
            for _ in range(5)
        }
    finally:
        torch.set_num_threads(threads)
    assert len(passes) == 1


@pytest.mark.parametrize("divisor", [1.0, 0.7])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_gradient_of_the_head_is_the_plain_formula(divisor: float, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    logits, tokens = torch.randn(20, 30).to(dtype).requires_grad_(), torch.randint(30, (20,))
    weights, tensors = torch.randn(20), []
    weights[3] = 0.0
    for score in (token_log_probs, _TokenLogProbs.apply):
        values = score(logits, tokens, divisor)
        tensors.append((values, *torch.autograd.grad(values, logits, weights)))
    assert all(map(torch.equal, *tensors))


def test_first_chunk_is_computed_once(make_policy: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    policy, read = make_policy(), []
    head = policy.model.get_output_embeddings()
    head.register_forward_hook(lambda _, args, out: read.append(len(out)))
    monkeypatch.setattr(packed, "LOGITS_AT_ONCE", 6 * policy.model.config.vocab_size)
    values = packed_log_probs(policy.model, [5, 6], [[7] * 8, [8] * 6], 1.0)
    values.sum().backward()  # type: ignore[no-untyped-call]
    assert sorted(read) == [2, 2, 6, 6, 6]  # of 14 tokens
