"""Samples have the log-probabilities that a learner computes, or the model is refused."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from peft import LoraConfig, get_peft_model
from transformers import CONFIG_MAPPING, AutoModelForCausalLM

from llm_decpomdp.agents import CausalLM, ModelEngine, Prompting, Sampling
from llm_decpomdp.agents.inference.log_probs import plain_log_probs
from llm_decpomdp.agents.models import methods
from llm_decpomdp.agents.models.methods import FixedFormatError, MismatchError, disagreement
from llm_decpomdp.agents.models.prompting import context_length, make_encoder
from llm_decpomdp.agents.models.tiny import character_tokenizer
from llm_decpomdp.policy import Completion, PromptTooLong
from tests.agents.conftest import Make

ALPHABET = "abcdefghijklmnopqrstuvwxyz .,:"
PROMPTS = ["ab", "the quick brown fox jumps over the lazy dog. again."]
LONGROPE = {
    "rope_theta": 10000.0,
    "rope_type": "longrope",
    "short_factor": [1.0] * 4,
    "long_factor": [4.0] * 4,
    "original_max_position_embeddings": 32,
}
SMALL = {
    **{"intermediate_size": 64, "num_hidden_layers": 2},
    **{"num_attention_heads": 4, "num_key_value_heads": 2},
}
MAMBA = {"n_groups": 2, "expand": 2, "state_size": 8, "head_dim": 8, "num_heads": 8}
HYBRID = {"mamba_d_state": 8, "n_mamba_heads": 8, "mamba_ngroups": 1, "num_mem_blocks": 1}
RECURRENT = {"lru_width": 32, "attention_window_size": 256, "intermediate_size": 96}
LAYERS = {"layers_block_type": ["mamba", "hybrid", "mamba", "mamba"], "hybrid_layer_ids": [1]}
LONG = {"max_position_embeddings": 256, "original_max_position_embeddings": 32}
CAPS = {"final_logit_softcapping": 2.0, "attn_logit_softcapping": 5.0, "sliding_window": 128}
KINDS: dict[str, dict[str, Any]] = {
    "rwkv": {"num_hidden_layers": 2, "attention_hidden_size": 32, "context_length": 256},
    "recurrent_gemma": {
        **RECURRENT,
        **{"num_hidden_layers": 3, "num_attention_heads": 4, "head_dim": 8},
    },
    "zamba2": {**SMALL, **HYBRID, **LAYERS, "num_hidden_layers": 4, "chunk_size": 16},
    "mamba2": {"num_hidden_layers": 2, **MAMBA, "chunk_size": 16},
    "phi3": {**SMALL, **LONG, "rope_parameters": LONGROPE},
    "gemma2": {**SMALL, "head_dim": 8, **CAPS},
    "llama": {"intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4},
}


def random_model(kind: str, **changes: Any) -> Any:
    """A small model of an architecture, with random weights that are far from uniform distributions."""
    tokens = {"eos_token_id": 0, "pad_token_id": 0, "bos_token_id": 0}
    vocabulary = len(ALPHABET) + 1
    options = {**KINDS[kind], **changes}
    config = CONFIG_MAPPING[kind](vocab_size=vocabulary, hidden_size=32, **tokens, **options)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model: Any = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
        for weight in model.parameters():
            if weight.dim() > 1:
                torch.nn.init.normal_(weight, std=0.25)
    return model


def policy_of(model: Any, compute_dtype: str = "float32", **sampling: Any) -> CausalLM:
    engine = ModelEngine(model, character_tokenizer(ALPHABET), compute_dtype=compute_dtype)
    return on_engine(engine, **{"max_new_tokens": 24, **sampling})


def on_engine(engine: ModelEngine, adapter: str | None = None, **sampling: Any) -> CausalLM:
    policy = CausalLM(engine, Sampling(**sampling), adapter=adapter)
    policy.encoder = make_encoder(Prompting(), engine.tokenizer, "x", 256, ())
    return policy


@torch.no_grad()
def distance(policy: CausalLM, prompt: str, group: Sequence[Completion]) -> tuple[float, float]:
    """Mean difference of the sampler's log-probabilities from plain passes, and from the learner's."""
    sampled = torch.tensor([value for completion in group for value in completion.log_probs])
    rows = [completion.tokens for completion in group]
    plain = plain_log_probs(policy.model, policy.encode(prompt), rows, policy.sampling.divisor)
    learned, mask = policy.log_probs(prompt, group)
    return (
        float((plain - sampled).abs().mean()),
        float((learned[mask.bool()] - sampled).abs().mean()),
    )


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "phi3"])
def test_samples_have_the_log_probabilities_of_a_plain_pass(kind: str) -> None:
    policy = policy_of(random_model(kind))
    for prompts in (PROMPTS[:1], PROMPTS, PROMPTS[::-1], PROMPTS[1:]):
        for prompt, group in zip(prompts, policy.generate(prompts, 4), strict=True):
            assert max(distance(policy, prompt, group)) <= 1e-3


@pytest.mark.parametrize(
    ("kind", "words", "prompts"),
    [
        ("rwkv", "(rwkv) is sampled without a cache", PROMPTS[:1]),
        ("recurrent_gemma", "in batches of prompts of equal length", PROMPTS),
    ],
)
def test_slower_methods_are_announced_and_draw_by_the_same_random_numbers(
    kind: str, words: str, prompts: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    first, second = (policy_of(random_model(kind)) for _ in range(2))
    second.engine.sampling_method = methods.sample_without_cache
    with caplog.at_level(logging.WARNING, "llm_decpomdp"):
        groups = first.generate(prompts, 4)
    for prompt, group in zip(prompts, groups, strict=True):
        assert max(distance(first, prompt, group)) <= 1e-5
    (warning,) = [text for text in caplog.messages if "plain pass" in text]
    assert words in warning and kind in warning
    assert ("keeps state" in warning) == (kind == "rwkv")
    expected = [[c.text for c in group] for group in second.generate(prompts, 4)]
    assert [[c.text for c in group] for group in groups] == expected


def test_completions_beyond_the_positions_of_training_are_refused() -> None:
    policy = policy_of(random_model("phi3"), max_new_tokens=12)
    group = policy.generate(["hello world, you"], 8)[0]
    assert max(distance(policy, "hello world, you", group)) <= 1e-5
    with pytest.raises(
        MismatchError, match=r"\(phi3\) cannot be sampled.*rope_type='longrope'.*32 tokens"
    ):
        policy_of(random_model("phi3"), max_new_tokens=40).generate(["hello world, you"], 8)


def test_the_context_ends_where_positions_change(caplog: pytest.LogCaptureFixture) -> None:
    model = random_model("phi3")
    model.config.name_or_path = "long"  # one warning for each model
    with caplog.at_level(logging.WARNING, "llm_decpomdp"):
        engine = ModelEngine(model, character_tokenizer(ALPHABET), compute_dtype="float32")
        policy = CausalLM(engine, Sampling(max_new_tokens=20))
    assert context_length(model) == 32
    assert "its context is limited to 32 tokens" in caplog.text and "256" in caplog.text
    policy.generate(["ab"], 2)
    with pytest.raises(PromptTooLong, match="its context of 32 less max_new_tokens=20"):
        policy.generate(["abcdefghijklmnop"])


@pytest.mark.parametrize(
    "rope",
    [
        {"rope_type": "default"},
        {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32},
    ],
)
def test_other_positions_leave_the_context_as_it_is(rope: dict[str, Any]) -> None:
    rope = {"rope_theta": 1e4, **rope}
    model = random_model("llama", max_position_embeddings=128, rope_parameters=rope)
    assert context_length(model) == 128


def test_a_model_that_is_random_is_refused() -> None:
    model = random_model("llama")
    model.lm_head.register_forward_hook(lambda _, __, out: out + torch.randn_like(out))
    with pytest.raises(MismatchError, match=r"\(llama\) cannot be sampled.*random"):
        policy_of(model).generate(["ab"], 4)


def count_checks(policy: CausalLM, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Note the prompts of each comparison of a policy's engine."""
    counts: list[int] = []
    measure = methods._sampling_difference

    def spy(engine: ModelEngine, method: Any, probes: Any, dtype: torch.dtype) -> float:
        counts.append(len(probes))
        return measure(engine, method, probes, dtype)

    monkeypatch.setattr(methods, "_sampling_difference", spy)
    return counts


def test_a_policy_is_compared_once_alone_and_padded(monkeypatch: pytest.MonkeyPatch) -> None:
    policy = policy_of(random_model("llama"))
    counts = count_checks(policy, monkeypatch)
    for prompts in (["ab"], ["ab"], PROMPTS, PROMPTS, ["a"]):
        policy.generate(prompts, 6)
    assert counts == [2]


def test_stop_strings_and_early_ends_leave_enough_tokens_to_compare() -> None:
    # The first token does not use the cache.
    policy = policy_of(random_model("rwkv"), stop=list(ALPHABET))
    policy.engine.end_ids = list(range(len(ALPHABET) + 1))
    assert len(policy.generate(["ab"], 1)[0][0].tokens) == 1
    assert policy.engine.sampling_method is methods.sample_without_cache


def test_each_adapter_is_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    adapted = get_peft_model(random_model("llama"), LoraConfig(target_modules=["q_proj"]), "one")
    adapted.add_adapter("two", LoraConfig(target_modules=["q_proj"]))
    engine = ModelEngine(adapted, character_tokenizer(ALPHABET), compute_dtype="float32")
    policies = [on_engine(engine, name, max_new_tokens=8) for name in ("one", "two")]
    counts = count_checks(policies[0], monkeypatch)
    for chosen in (policies[:1], policies, policies):
        engine.generate([(policy, "ab") for policy in chosen], 3)
    assert counts == [2, 2]


@pytest.mark.parametrize("kind", ["recurrent_gemma", "llama"])
def test_faults_in_half_precision_are_found(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(methods, "LIMIT_ROUNDED", 1e-6)  # every difference is looked at closely
    policy = policy_of(random_model(kind), compute_dtype="bfloat16")
    policy.generate(PROMPTS, 4)
    method = policy.engine.sampling_method
    assert method is (methods.sample if kind == "llama" else methods.sample_by_length)


def test_differences_are_those_at_temperature_one(monkeypatch: pytest.MonkeyPatch) -> None:
    limits = [methods.mismatch_limit(dtype) for dtype in (torch.float32, torch.bfloat16)]
    assert limits == [1e-3, 0.05]
    monkeypatch.setattr(methods, "mean_difference", lambda *_: 1.0)
    for temperature in (1.0, 0.5):
        policy = policy_of(random_model("rwkv"), temperature=temperature)
        prompt = policy.request("ab")
        assert prompt is not None
        arguments = (policy.engine, methods.sample, methods._probes([prompt]), torch.float32)
        assert methods._sampling_difference(*arguments) == temperature


def test_random_numbers_of_a_first_batch_are_those_of_any_other(make_policy: Make) -> None:
    checked, unchecked = make_policy(), make_policy()
    unchecked.engine._checked.add(None)
    for _ in range(2):
        assert checked.generate(["abc", "d"], 4) == unchecked.generate(["abc", "d"], 4)


def test_rows_that_padding_changes_are_taken_one_by_one(caplog: pytest.LogCaptureFixture) -> None:
    model = random_model("recurrent_gemma")

    def leak(_: Any, arguments: Any, options: dict[str, Any], out: Any) -> Any:
        """Let padding change all tokens of a batch."""
        mask = options.get("attention_mask")
        out.logits = out.logits * (1.0 if mask is None or mask.all() else 0.5)
        return out

    model.register_forward_hook(leak, with_kwargs=True)
    policy = policy_of(model)
    group = policy.generate(["ab"], 4)[0]
    assert len({len(completion.tokens) for completion in group}) > 1
    with caplog.at_level(logging.WARNING, "llm_decpomdp"):
        assert max(distance(policy, "ab", group)) <= 1e-5
    assert "one by one: padding changes" in caplog.text


def test_a_difference_that_rounding_may_explain_is_a_warning_where_float32_is_not_available(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def measure(dtype: torch.dtype) -> float:
        if dtype == torch.float32:
            raise FixedFormatError("weights in shards have one format")
        return 0.5

    assert disagreement(torch.bfloat16, measure) is None
    assert "cannot be computed here (weights in shards have one format)" in caplog.text
    assert disagreement(torch.bfloat16, lambda _: 0.5) == 0.5
