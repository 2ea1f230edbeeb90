"""Passes of single tokens: attention as `sdpa` gives it, while something is sampled; threads that don't wait."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from transformers import (
    AttentionInterface,
    BloomConfig,
    BloomForCausalLM,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaForCausalLM,
)
from transformers.cache_utils import Cache

from llm_decpomdp.agents.inference import decoding as decoding_module
from llm_decpomdp.agents.inference.decoding import (
    FEW,
    NAME,
    cache_argument,
    decoding,
    decoding_attention,
    limit_threads,
    product_size,
)
from llm_decpomdp.agents.inference.options import Sampling
from llm_decpomdp.agents.inference.sampler import Prompt, sample
from tests.agents.conftest import Make

CPU, GPU = torch.device("cpu"), torch.device("cuda")


class Grouped(torch.nn.Module):
    num_key_value_groups = 3
    is_causal = True


@pytest.mark.parametrize("new", [1, 4])
@pytest.mark.parametrize("mask_heads", [None, 1, 6])
def test_it_gives_what_sdpa_gives(new: int, mask_heads: int | None) -> None:
    torch.manual_seed(0)
    query = torch.randn(5, 6, new, 8)
    key, value = torch.randn(2, 5, 2, 9, 8)
    mask = None if mask_heads is None else torch.randn(5, mask_heads, new, 9) > -1
    inputs = (Grouped(), query, key, value, mask)
    found, _ = decoding_attention(*inputs, scaling=0.3)
    expected, _ = AttentionInterface()["sdpa"](*inputs, scaling=0.3)
    torch.testing.assert_close(found, expected)


def test_used_while_sampling_alone(make_policy: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    used: list[int] = []

    def spy(*args: object, **options: object) -> object:
        used.append(1)
        return decoding_attention(*args, **options)  # type: ignore[arg-type]

    policy = make_policy()
    AttentionInterface.register(NAME, spy)
    try:
        group = policy.generate(["abc", "longer"], 3)[0]
        assert used
        used.clear()
        policy.log_probs("abc", group)
        assert not used and policy.model.config._attn_implementation == "sdpa"
    finally:
        AttentionInterface.register(NAME, decoding_attention)


def test_other_choices_of_attention_are_left_alone(make_policy: Make) -> None:
    model = make_policy().model
    model.set_attn_implementation("eager")
    with decoding(model):
        assert model.config._attn_implementation == "eager"
    bloom = BloomForCausalLM(BloomConfig(vocab_size=40, hidden_size=16, n_layer=1, n_head=2))
    before = bloom.config._attn_implementation
    with decoding(bloom):
        assert bloom.config._attn_implementation == before


def test_an_error_leaves_the_model_as_it_was(make_policy: Make) -> None:
    model = make_policy().model
    with pytest.raises(RuntimeError, match="stop"), decoding(model):
        assert model.config._attn_implementation == NAME
        raise RuntimeError("stop")
    assert model.config._attn_implementation == "sdpa"


@pytest.fixture
def three_threads(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    monkeypatch.setattr(decoding_module, "THREADS_SLEEP", True)
    yield
    torch.set_num_threads(before)


def inside(multiplications: int, device: torch.device = CPU) -> int:
    with limit_threads(multiplications, device):
        return torch.get_num_threads()


@pytest.mark.usefixtures("three_threads")
def test_one_thread_computes_little_if_threads_sleep(monkeypatch: pytest.MonkeyPatch) -> None:
    assert (inside(FEW - 1), inside(FEW), inside(1, GPU)) == (1, 3, 3)
    with pytest.raises(ZeroDivisionError), limit_threads(1, CPU):
        raise ZeroDivisionError
    assert torch.get_num_threads() == 3
    monkeypatch.setattr(decoding_module, "THREADS_SLEEP", False)
    assert inside(1) == 3


def test_the_size_of_a_product_is_about_that_of_the_layers() -> None:
    config = GPT2Config(n_layer=2, n_embd=16, n_head=2, vocab_size=50_000)
    assert 12 * 16**2 // 7 <= product_size(GPT2LMHeadModel(config)) <= 2 * 12 * 16**2 // 7


@pytest.mark.usefixtures("three_threads")
def test_decoding_takes_one_thread_and_the_prompt_all(
    make_policy: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    model: LlamaForCausalLM = make_policy().model
    used: list[tuple[int, int]] = []

    def note(_: object, args: object, kwargs: dict[str, torch.Tensor]) -> None:
        used.append((kwargs["input_ids"].shape[1], torch.get_num_threads()))

    hook = model.register_forward_pre_hook(note, with_kwargs=True)
    rows = []
    for few, threads in ((FEW, 1), (0, 3)):
        monkeypatch.setattr(decoding_module, "FEW", few)
        prompt = Prompt((5, 6, 7), Sampling(max_new_tokens=3), torch.Generator().manual_seed(0))
        rows.append([row.tokens for row in sample(model, [prompt], 2, [10_000])])
        assert used == [(3, 3), (1, threads), (1, threads)]
        used.clear()
    assert rows[0] == rows[1]
    hook.remove()


class CacheArgument(LlamaForCausalLM):  # from transformers 5.24 on
    def forward(  # type: ignore[override]
        self, *args: object, cache: Cache, past_key_values: None = None, **kwargs: object
    ) -> object:
        name = cache_argument(LlamaForCausalLM(self.config))
        return super().forward(*args, **{name: cache}, **kwargs)


class PastKeyValues(LlamaForCausalLM):  # up to transformers 5.23
    def forward(self, *args: object, past_key_values: Cache, **kwargs: object) -> object:  # type: ignore[override]
        name = cache_argument(LlamaForCausalLM(self.config))
        return super().forward(*args, **{name: past_key_values}, **kwargs)


@pytest.mark.parametrize("kind", [CacheArgument, PastKeyValues])
def test_models_get_caches_by_their_name(kind: type[LlamaForCausalLM], make_policy: Make) -> None:
    model: LlamaForCausalLM = make_policy().model
    renamed = kind(model.config)
    renamed.load_state_dict(model.state_dict())

    def tokens(of: LlamaForCausalLM) -> list[tuple[int, ...]]:
        prompt = Prompt([5, 6, 7], Sampling(max_new_tokens=8), torch.Generator().manual_seed(0))
        return [row.tokens for row in sample(of.eval(), [prompt], 3, [0])]

    assert tokens(renamed) == tokens(model)
