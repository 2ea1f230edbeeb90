"""The sampling loop: rows that leave, rows of several kinds in one batch, models that refuse."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

import pytest
import torch
from transformers import LlamaForCausalLM, MambaConfig, MambaForCausalLM, MistralConfig
from transformers import MistralForCausalLM as Mistral

from llm_decpomdp.agents.inference import sampler
from llm_decpomdp.agents.inference.decoding import ROOM, GrowingLayer, growing_cache
from llm_decpomdp.agents.inference.options import Sampling
from llm_decpomdp.agents.inference.sampler import Prompt, SampledRow, sample
from llm_decpomdp.agents.models.causal_lm import CausalLM
from tests.agents.conftest import SIZE

END = 0


@pytest.fixture
def model(make_policy: Callable[..., CausalLM]) -> LlamaForCausalLM:
    return make_policy().model


def prompt(
    *ids: int, seed: int = 0, sampling: Sampling | None = None, adapter: str | None = None
) -> Prompt:
    generator = torch.Generator().manual_seed(seed)
    return Prompt(ids, sampling or Sampling(max_new_tokens=100), generator, adapter)


def fresh_log_probs(model: torch.nn.Module, prompt: Prompt, row: SampledRow) -> Sequence[float]:
    """By one plain forward pass, without a cache."""
    ids = [*prompt.ids, *row.tokens]
    logits = model(input_ids=torch.tensor([ids])).logits[0].detach()
    scores = (logits / prompt.sampling.divisor).log_softmax(-1)
    first = len(prompt.ids) - 1
    return [float(scores[first + k, token]) for k, token in enumerate(row.tokens)]


def test_log_probabilities_are_those_of_a_fresh_forward_pass(model: LlamaForCausalLM) -> None:
    prompts = [prompt(5, 6, 7), prompt(4, 9, 9, 9, 9, 8, sampling=Sampling(0.5, max_new_tokens=90))]
    rows = sample(model, prompts, 8, [END])
    lengths = {len(row.tokens) for row in rows}
    assert len(lengths) > 5 and max(lengths) > ROOM  # rows left, and memory was moved
    for index, row in enumerate(rows):
        expected = fresh_log_probs(model, prompts[index // 8], row)
        assert row.log_probs == pytest.approx(expected, abs=1e-4)
        assert row.stopped == (row.tokens[-1] == END)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_logits_that_are_not_numbers_end_the_sampling_with_advice(
    model: LlamaForCausalLM, temperature: float
) -> None:
    with torch.no_grad():
        model.lm_head.weight.fill_(torch.nan)
    with pytest.raises(FloatingPointError, match=r"logits are not finite.*lower learning_rate"):
        sample(model, [prompt(5, 6, sampling=Sampling(temperature, max_new_tokens=3))], 2, [END])


def test_a_row_does_not_depend_on_the_others(model: LlamaForCausalLM) -> None:
    short, long = Sampling(max_new_tokens=5), Sampling(2.0, top_k=9, max_new_tokens=60)
    together = sample(
        model, [prompt(5, 6, sampling=short), prompt(7, 8, 9, seed=3, sampling=long)], 4, [END]
    )
    alone = sample(model, [prompt(5, 6, sampling=short)], 4, [END])
    alone += sample(model, [prompt(7, 8, 9, seed=3, sampling=long)], 4, [END])
    assert [row.tokens for row in together] == [row.tokens for row in alone]
    assert max(len(row.tokens) for row in together[:4]) == 5


def test_the_head_reads_states_that_lie_side_by_side(model: LlamaForCausalLM) -> None:
    """Of others torch copies the head's weights for each row."""
    seen: list[bool] = []
    head = model.get_output_embeddings()
    states = head.register_forward_hook(lambda _, args, out: seen.append(args[0].is_contiguous()))
    sample(model, [prompt(1, 2, 3), prompt(4, 5)], 2, [END])
    states.remove()
    assert len(seen) > 1 and all(seen)
    assert not head._forward_pre_hooks


def test_samples_are_distributed_as_the_model_says(model: LlamaForCausalLM) -> None:
    rows = sample(model, [prompt(5, 6, sampling=Sampling(max_new_tokens=2))], 20_000, [END])
    logits = model(input_ids=torch.tensor([[5, 6]])).logits[0, -1].detach()
    found = torch.bincount(torch.tensor([row.tokens[0] for row in rows]), minlength=len(logits))
    torch.testing.assert_close(found / len(rows), logits.softmax(-1), atol=0.015, rtol=0)
    first = int(found.argmax())
    if first != END:
        second = [row.tokens[1] for row in rows if row.tokens[0] == first]
        logits = model(input_ids=torch.tensor([[5, 6, first]])).logits[0, -1].detach()
        counts = torch.bincount(torch.tensor(second), minlength=len(logits))
        torch.testing.assert_close(counts / len(second), logits.softmax(-1), atol=0.03, rtol=0)


def test_generate_of_transformers_samples_the_same(
    model: LlamaForCausalLM, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    prompts = [
        prompt(5, 6, 7, sampling=Sampling(0.7, max_new_tokens=20)),
        prompt(8, 9, seed=4, sampling=Sampling(top_p=0.9, max_new_tokens=9)),
    ]
    states = [one.generator.get_state() for one in prompts]
    expected = sample(model, prompts, 5, [END, 3])
    for one, state in zip(prompts, states, strict=True):
        one.generator.set_state(state)
    monkeypatch.setattr(sampler, "growing_cache", lambda _: None)
    sampler._warn_of_generate.cache_clear()
    model.generation_config.repetition_penalty = 5.0  # not what Sampling says
    with caplog.at_level(logging.WARNING):
        found = sample(model, prompts, 5, [END, 3])
    assert [row.tokens for row in found] == [row.tokens for row in expected]
    assert [row.stopped for row in found] == [row.stopped for row in expected]
    for ours, theirs in zip(found, expected, strict=True):
        assert ours.log_probs == pytest.approx(theirs.log_probs, abs=1e-4)
    assert model.generation_config.repetition_penalty == 5.0
    assert caplog.text.count("generate() of transformers") == 1


def test_a_recurrent_model_falls_back_to_generate_and_says_so_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    torch.manual_seed(0)
    config = MambaConfig(vocab_size=20, hidden_size=16, state_size=4, num_hidden_layers=1)
    model = MambaForCausalLM(config).eval()
    sampler._warn_of_generate.cache_clear()
    one = prompt(5, 6, 7, sampling=Sampling(max_new_tokens=6))
    with caplog.at_level(logging.WARNING):
        rows = [*sample(model, [one], 3, [END]), *sample(model, [one], 3, [END])]
    assert caplog.text.count("'mamba'") == 1
    for row in rows:
        assert row.log_probs == pytest.approx(fresh_log_probs(model, one, row), abs=1e-4)


def test_a_sliding_window_is_kept() -> None:
    torch.manual_seed(0)
    model = Mistral(MistralConfig(**SIZE, sliding_window=4)).eval()
    assert growing_cache(model) is not None
    prompts = [prompt(5, 6, 7, 8, 9, 10), prompt(3, 2)]
    for index, row in enumerate(sample(model, prompts, 3, [END])):
        expected = fresh_log_probs(model, prompts[index // 3], row)
        assert row.log_probs == pytest.approx(expected, abs=1e-4)


def test_a_growing_layer_keeps_what_it_is_given() -> None:
    torch.manual_seed(0)
    layer, kept = GrowingLayer(), torch.zeros(3, 2, 0, 4)
    for tokens in (5, 1, 1, ROOM, 1, 2 * ROOM):
        states = torch.randn(3, 2, tokens, 4)
        keys, values = layer.update(states, -states)
        kept = torch.cat([kept, states], 2)
        assert torch.equal(keys, kept) and torch.equal(values, -kept)
        assert layer.get_seq_length() == kept.shape[2]
    layer.batch_repeat_interleave(2)
    kept = kept.repeat_interleave(2, 0)
    for rows in ([0, 5, 2, 4], [3, 1], [1]):
        layer.batch_select_indices(torch.tensor(rows))
        states = torch.randn(len(rows), 2, 1, 4)
        kept = torch.cat([kept[rows], states], 2)
        assert torch.equal(layer.update(states, -states)[0], kept)
