"""Products for a few rows do not wait for other threads."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch
from transformers import GPT2Config, GPT2LMHeadModel, LlamaForCausalLM

from llm_decpomdp.agents.inference import threads
from llm_decpomdp.agents.inference.sampler import Prompt, sample
from llm_decpomdp.agents.inference.sampling import Sampling
from llm_decpomdp.agents.inference.threads import FEW, product_size, threads_for
from llm_decpomdp.agents.models.causal_lm import CausalLM

CPU, GPU = torch.device("cpu"), torch.device("cuda")


@pytest.fixture(autouse=True)
def three_threads(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    monkeypatch.setattr(threads, "THREADS_SLEEP", True)
    yield
    torch.set_num_threads(before)


def inside(multiplications: int, device: torch.device = CPU) -> int:
    with threads_for(multiplications, device):
        return torch.get_num_threads()


def test_little_is_computed_by_one_thread_and_much_by_all() -> None:
    assert (inside(FEW - 1), inside(FEW)) == (1, 3)
    assert inside(1, GPU) == 3
    assert torch.get_num_threads() == 3


def test_threads_that_spin_are_used_for_little_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "THREADS_SLEEP", False)
    assert inside(1) == 3


def test_all_threads_are_back_after_an_error() -> None:
    with pytest.raises(ZeroDivisionError), threads_for(1, CPU):
        raise ZeroDivisionError
    assert torch.get_num_threads() == 3


def test_the_size_of_a_product_is_about_that_of_the_layers() -> None:
    config = GPT2Config(n_layer=2, n_embd=16, n_head=2, vocab_size=50_000)
    assert 12 * 16**2 // 7 <= product_size(GPT2LMHeadModel(config)) <= 2 * 12 * 16**2 // 7


def test_decoding_takes_one_thread_and_the_prompt_all(
    make_policy: Callable[..., CausalLM], monkeypatch: pytest.MonkeyPatch
) -> None:
    model: LlamaForCausalLM = make_policy().model
    used: list[tuple[int, int]] = []

    def note(_: object, args: object, kwargs: dict[str, torch.Tensor]) -> None:
        used.append((kwargs["input_ids"].shape[1], torch.get_num_threads()))

    hook = model.register_forward_pre_hook(note, with_kwargs=True)
    prompt = Prompt((5, 6, 7), Sampling(max_new_tokens=3), torch.Generator().manual_seed(0))
    alone = sample(model, [prompt], 2, [10_000])
    assert used == [(3, 3), (1, 1), (1, 1)]
    used.clear()
    monkeypatch.setattr(threads, "FEW", 0)
    prompt = Prompt((5, 6, 7), Sampling(max_new_tokens=3), torch.Generator().manual_seed(0))
    others = sample(model, [prompt], 2, [10_000])
    assert [row.tokens for row in others] == [row.tokens for row in alone]
    assert used == [(3, 3), (1, 3), (1, 3)]
    hook.remove()
