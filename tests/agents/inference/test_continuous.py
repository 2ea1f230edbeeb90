"""Continuous batching: the rows of `sample`, in fewer columns."""

from __future__ import annotations

import pytest
import torch

from llm_decpomdp.agents.inference import continuous, sampler
from llm_decpomdp.agents.inference.continuous import sample_continuously
from llm_decpomdp.agents.inference.options import Caching, ModelOptions, Sampling
from llm_decpomdp.agents.inference.sampler import Prompt, SampledRow, sample
from tests.agents.conftest import Make, tiny_model

START = (9, 8, 7)
"""Tokens with which all prompts begin."""


def prompts() -> list[Prompt]:
    lengths = (2, 11, 4, 4, 1, 30, 9, 10)
    samplings = [
        Sampling(max_new_tokens=25, stop=["7"]),
        Sampling(top_p=0.9, max_new_tokens=9),
        Sampling(0.0, max_new_tokens=40),
    ]
    return [
        Prompt(
            (*START, *(3 + (k + number) % 20 for k in range(length))),
            samplings[number % 3],
            torch.Generator().manual_seed(number),
        )
        for number, length in enumerate(lengths)
    ]


def decode(ids: object) -> str:
    return " ".join(map(str, ids))  # type: ignore[call-overload]


def same(found: list[SampledRow], expected: list[SampledRow]) -> None:
    assert [row.tokens for row in found] == [row.tokens for row in expected]
    assert [row.stopped for row in found] == [row.stopped for row in expected]
    for ours, theirs in zip(found, expected, strict=True):
        assert ours.log_probs == pytest.approx(theirs.log_probs, abs=1e-4)


@pytest.mark.parametrize(
    ("size", "samples", "block"), [(1, 1, 1), (6, 2, 1), (3, 1, 8), (99, 2, 1)]
)
def test_rows_are_those_of_one_batch(
    monkeypatch: pytest.MonkeyPatch, size: int, samples: int, block: int
) -> None:
    model = tiny_model(0).eval()
    expected = sample(model, prompts(), samples, [0, 3], decode=decode)
    monkeypatch.setattr(sampler, "block_size", lambda _: block)
    found = sample_continuously(model, prompts(), samples, [0, 3], decode=decode, size=size)
    same(found, expected)
    assert len({len(row.tokens) for row in found}) > 4


def test_fewer_tokens_are_computed_and_batches_stay_small() -> None:
    model, passes = tiny_model(0).eval(), []
    model.register_forward_pre_hook(
        lambda _, args, kwargs: passes.append(tuple(kwargs["input_ids"].shape)), with_kwargs=True
    )
    sample(model, prompts(), 1, [-1])
    computed = sum(rows * width for rows, width in passes)
    passes.clear()
    sample_continuously(model, prompts(), 1, [-1], size=4)
    assert passes[0] == (1, len(START)) and max(rows for rows, _ in passes) == 4
    starts = sum(rows * width for rows, width in passes if width > 1)
    assert starts <= 1.15 * 71 + len(START)  # tokens of all prompts without their common start
    assert sum(rows * width for rows, width in passes) < computed


@pytest.mark.parametrize("most", [1, 12, 24])
def test_prompts_are_computed_in_passes_of_a_number_of_tokens(
    monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    model, passes = tiny_model(0).eval(), []
    expected = sample(model, prompts(), 1, [-1])
    model.register_forward_pre_hook(
        lambda _, args, kwargs: passes.append(tuple(kwargs["input_ids"].shape)), with_kwargs=True
    )
    monkeypatch.setattr(continuous, "PASS_TOKENS", most)
    same(sample_continuously(model, prompts(), 1, [-1], size=99), expected)
    starts = [(rows, width) for rows, width in passes if width > 1]
    assert all(rows == 1 or rows * width <= most for rows, width in starts)
    assert any(rows > 1 for rows, _ in starts) == (most > 1)


def test_the_option_reaches_the_engine(make_policy: Make) -> None:
    policy = make_policy()
    texts = ["abc", "a longer prompt with more letters", "b", "abd"]
    expected = policy.generate(texts, 2)
    policy.engine.caching = Caching(continuous_batching=2)
    policy.seed(0)
    widths: list[int] = []
    policy.model.register_forward_pre_hook(
        lambda _, args, kwargs: widths.append(len(kwargs["input_ids"])), with_kwargs=True
    )
    found = policy.generate(texts, 2)
    assert max(widths) == 2
    assert [[c.tokens for c in group] for group in found] == [
        [c.tokens for c in group] for group in expected
    ]


def test_memory_of_fixed_size_cannot_take_more_rows() -> None:
    with pytest.raises(ValueError, match=r"continuous_batching=4 adds rows .* static_cache=true"):
        ModelOptions(static_cache=True, continuous_batching=4)
