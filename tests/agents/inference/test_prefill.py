"""Passes of prompts: each different prompt once, shared beginnings once, and few tokens at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest
import torch
from transformers import LlamaForCausalLM, MistralConfig
from transformers import MistralForCausalLM as Mistral

from llm_decpomdp.agents.inference import prefill
from llm_decpomdp.agents.inference.decoding import GrowingLayer
from llm_decpomdp.agents.inference.options import Sampling
from llm_decpomdp.agents.inference.prefill import shared_beginnings
from llm_decpomdp.agents.inference.sampler import Prompt, SampledRow, sample
from tests.agents.conftest import SIZE, tiny_model

END = 0

INSTRUCTION, FIRST, SECOND = (4,) * 40, (5,) * 20, (6,) * 20
"""Tokens of an instruction, and of two problems."""

TREE = [
    (*INSTRUCTION, *FIRST, 7),
    (*INSTRUCTION, *FIRST, 8, 9, 10),
    (*INSTRUCTION, *FIRST, 8, 9, 11, 12),
    (*INSTRUCTION, *SECOND, 7),
    (*INSTRUCTION, *SECOND),
    (3, 3, 3),
]
"""Prompts with the shared beginnings of a tree; the fifth is the beginning of the fourth."""


@pytest.fixture(params=["full attention", "window"])
def model(request: pytest.FixtureRequest) -> LlamaForCausalLM | Mistral:
    if request.param == "window":
        torch.manual_seed(0)
        return Mistral(MistralConfig(**SIZE, sliding_window=8)).eval()
    return tiny_model(0).eval()


@pytest.fixture
def shapes(model: LlamaForCausalLM) -> Iterator[list[tuple[int, int]]]:
    """Rows and columns of each pass of the model."""
    seen: list[tuple[int, int]] = []
    hook = model.register_forward_pre_hook(
        lambda _, args, kwargs: seen.append(tuple(kwargs["input_ids"].shape)), with_kwargs=True
    )
    yield seen
    hook.remove()


def ask(texts: Sequence[Sequence[int]], adapter: str | None = None) -> list[Prompt]:
    """Prompts with different random numbers."""
    return [
        Prompt(ids, Sampling(max_new_tokens=20), torch.Generator().manual_seed(seed), adapter)
        for seed, ids in enumerate(texts)
    ]


def sample_alone(model: torch.nn.Module, texts: Sequence[Sequence[int]]) -> list[SampledRow]:
    return [row for prompt in ask(texts) for row in sample(model, [prompt], 2, [END])]


def assert_equal(found: list[SampledRow], expected: list[SampledRow]) -> None:
    assert [row.tokens for row in found] == [row.tokens for row in expected]
    for ours, theirs in zip(found, expected, strict=True):
        assert ours.log_probs == pytest.approx(theirs.log_probs, abs=1e-4)


@pytest.mark.parametrize(
    ("most", "small", "passes"),
    [
        (1, 1, [(1, 6), (1, 5), (1, 4), (1, 3), (1, 1)]),
        (9, 9, [(1, 6), (1, 5), (2, 4), (1, 1)]),
        (12, 1, [(2, 6), (2, 4), (1, 1)]),
        (12, 12, [(2, 6), (3, 4)]),
        (8192, 1024, [(5, 6)]),
    ],
)
def test_prompts_are_computed_in_passes_of_a_number_of_tokens(
    model: LlamaForCausalLM,
    shapes: list[tuple[int, int]],
    monkeypatch: pytest.MonkeyPatch,
    most: int,
    small: int,
    passes: list[tuple[int, int]],
) -> None:
    texts = [tuple(range(3, 3 + length)) for length in (3, 6, 1, 4, 5, 6)]
    alone = sample_alone(model, texts)
    shapes.clear()
    monkeypatch.setattr(prefill, "PASS_TOKENS", most)
    monkeypatch.setattr(prefill, "SMALL_PASS_TOKENS", small)
    assert_equal(sample(model, ask(texts), 2, [END]), alone)
    # The two equal prompts are computed once, and the longest come first.
    assert shapes[: len(passes)] == passes and shapes[len(passes)][1] == 1


def test_equal_prompts_of_two_adapters_are_computed_apart() -> None:
    adapters: list[list[str | None]] = []
    prompts = [prompt for name in ("a", "b", "a") for prompt in ask([(5, 6)], name)]
    sample(tiny_model(0).eval(), prompts, 2, [END], lambda names: adapters.append([*names]))
    assert adapters[:2] == [["a", "b"], ["a", "a", "b", "b", "a", "a"]]


def test_beginnings_of_several_prompts_are_computed_once(
    model: LlamaForCausalLM, shapes: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = sample_alone(model, TREE)
    shapes.clear()
    monkeypatch.setattr(prefill, "MIN_SAVED_TOKENS", 1)
    monkeypatch.setattr(prefill, "SMALL_PASS_TOKENS", 1)
    assert_equal(sample(model, ask(TREE), 2, [END]), alone)
    # Three levels of beginnings: the instruction; the first problem; the second one, and common tokens of answers.
    # Beginnings of a level that are known already are passed by their last token.
    assert shapes[:6] == [(1, 40), (1, 20), (1, 1), (1, 20), (1, 2), (1, 1)]
    assert shapes[6:9] == [(1, 3), (1, 2), (4, 1)]


def test_the_longest_beginning_of_each_prompt_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    assert shared_beginnings(ask(TREE)) == []  # too few tokens would be saved
    monkeypatch.setattr(prefill, "MIN_SAVED_TOKENS", 1)
    levels = [[prompt.ids for prompt in ask(TREE)]]
    while beginnings := shared_beginnings(ask(levels[-1])):
        levels.append(sorted(beginning.ids for beginning in beginnings))
    first, second = (*INSTRUCTION, *FIRST), (*INSTRUCTION, *SECOND)
    assert levels[1:] == [[first, (*first, 8, 9), second], [INSTRUCTION, first], [INSTRUCTION]]


def test_prompts_of_two_adapters_share_no_beginning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prefill, "MIN_SAVED_TOKENS", 1)
    prompts = [*ask(TREE[:2], "a"), *ask(TREE[1:3], "b")]
    found = [(prompt.adapter, len(prompt.ids)) for prompt in shared_beginnings(prompts)]
    assert sorted(found) == [("a", 60), ("b", 62)]


def test_beginnings_that_save_little_are_not_computed_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(prefill, "MIN_SAVED_TOKENS", 1)
    long = [(*INSTRUCTION, number, *range(3, 103)) for number in (5, 6)]
    assert shared_beginnings(ask(long)) == []
    assert shared_beginnings(ask([ids[:90] for ids in long])) == []
    assert len(shared_beginnings(ask([ids[:70] for ids in long]))) == 1


def test_rows_of_several_layers_end_in_one_column() -> None:
    layers = [GrowingLayer() for _ in range(3)]
    for layer, (rows, tokens) in zip(layers, [(2, 5), (1, 7), (2, 3)], strict=True):
        states = torch.randn(rows, 2, tokens, 4)
        layer.update(states, -states)
    rows = [row for layer in layers for row in layer.states()[0]]
    layers[0].append(layers[1:], [4, 2, 2, 0])
    keys, values = layers[0].states()
    assert keys.shape == (4, 2, 7, 4) and torch.equal(values, -keys)
    for found, expected in zip(keys, [rows[4], rows[2], rows[2], rows[0]], strict=True):
        padding = found.shape[1] - expected.shape[1]
        assert torch.equal(found[:, padding:], expected) and not found[:, :padding].any()
