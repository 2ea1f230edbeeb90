"""Keys and values of earlier turns: equal samples, fewer computed tokens, nothing stale."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from transformers import MistralConfig, MistralForCausalLM

from llm_decpomdp.agents import CausalLM, ModelEngine, Sampling
from llm_decpomdp.agents.adapters import add_adapters
from llm_decpomdp.agents.inference import sampler
from llm_decpomdp.agents.inference.options import Caching
from llm_decpomdp.agents.inference.prefill import PrefixCache
from llm_decpomdp.agents.inference.sampler import Prompt, SampledRow, sample
from tests.agents.conftest import SIZE, Make, tiny_model, tiny_tokenizer

END = 0
SAMPLES = 3


def prompt(*ids: int, seed: int = 0, adapter: str | None = None, **options: Any) -> Prompt:
    sampling = Sampling(**{"max_new_tokens": 12, **options})
    return Prompt(ids, sampling, torch.Generator().manual_seed(seed), adapter)


@contextmanager
def computed(model: torch.nn.Module) -> Iterator[list[tuple[int, int]]]:
    """Record the lines and columns of each pass of more than one token for each line."""
    seen: list[tuple[int, int]] = []

    def count(_: Any, args: Any, options: Any) -> None:
        lines, columns = options["input_ids"].shape
        if columns > 1:
            seen.append((lines, columns))

    hook = model.register_forward_pre_hook(count, with_kwargs=True)
    yield seen
    hook.remove()


def play(
    model: Any, prefixes: PrefixCache | None, turns: int = 4, **options: Any
) -> list[SampledRow]:
    """Sample a dialogue from each of two first prompts, going on from another answer in each turn."""
    starts, rows = [[5, 6, 7, 8, 9, 10, 11], [12, 13]], []
    for turn in range(turns):
        prompts = [prompt(*ids, seed=7 * turn + k, **options) for k, ids in enumerate(starts)]
        answers = sample(model, prompts, SAMPLES, [END], prefixes=prefixes)
        rows += answers
        chosen = [answers[turn % SAMPLES], answers[SAMPLES + (turn + 1) % SAMPLES]]
        starts = [
            [*ids, *row.tokens, 20 + turn, 3] for ids, row in zip(starts, chosen, strict=True)
        ]
    return rows


def assert_equal(found: Sequence[SampledRow], expected: Sequence[SampledRow]) -> None:
    assert [row.tokens for row in found] == [row.tokens for row in expected]
    for ours, theirs in zip(found, expected, strict=True):
        assert ours.log_probs == pytest.approx(theirs.log_probs, abs=1e-4)
        assert ours.stopped == theirs.stopped


def test_a_dialogue_is_sampled_equally_and_only_new_tokens_are_computed() -> None:
    model = tiny_model(0).eval()
    with computed(model) as whole:
        expected = play(model, None)
    with computed(model) as rest:
        found = play(model, PrefixCache(math.inf))
    assert_equal(found, expected)
    assert len({len(row.tokens) for row in expected}) > 3  # rows left the batch
    assert whole[0] == rest[0] == (2, 7)
    # The last token of the answer, which no pass has read, and two new ones.
    assert rest[1:] == [(2, 3)] * 3
    assert all(columns > 10 for _, columns in whole[1:])


def test_answers_that_end_within_a_block_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    model = tiny_model(0).eval()
    expected = play(model, None)
    monkeypatch.setattr(sampler, "block_size", lambda _: 8)
    with computed(model) as passes:
        assert_equal(play(model, PrefixCache(math.inf)), expected)
    assert passes == [(2, 7)] + [(2, 3)] * 3


def test_padding_lies_left_of_known_tokens_so_windows_do_not_change() -> None:
    torch.manual_seed(0)
    model = MistralForCausalLM(MistralConfig(**SIZE, sliding_window=4)).eval()
    assert_equal(play(model, PrefixCache(math.inf)), play(model, None))


def test_new_prompts_may_stand_beside_known_ones() -> None:
    model, prefixes = tiny_model(0).eval(), PrefixCache(math.inf)
    (row,) = sample(model, [prompt(*range(3, 30), max_new_tokens=9)], 1, [-1], prefixes=prefixes)
    longer = [*range(3, 30), *row.tokens, 4, 4]

    def together() -> list[Prompt]:
        return [prompt(*longer), prompt(5, 6, 7, 8, 9, seed=1), prompt(5, 6, seed=2)]

    with computed(model) as passes:
        found = sample(model, together(), SAMPLES, [END], prefixes=prefixes)
    assert passes == [(3, 5)]  # as many as the second prompt has
    assert_equal(found, sample(model, together(), SAMPLES, [END]))
    # Equal prompts: the last token is computed for its logits.
    with computed(model) as passes:
        repeated = sample(model, together(), SAMPLES, [END], prefixes=prefixes)
    assert passes == []
    assert_equal(repeated, found)


def test_part_of_a_known_prompt_is_used() -> None:
    model, prefixes = tiny_model(0).eval(), PrefixCache(math.inf)
    sample(model, [prompt(*range(3, 23))], 2, [END], prefixes=prefixes)
    other = [*range(3, 13), 30, 31, 32]
    with computed(model) as passes:
        found = sample(model, [prompt(*other, seed=2)], 2, [END], prefixes=prefixes)
    assert passes == [(1, 3)]
    assert_equal(found, sample(model, [prompt(*other, seed=2)], 2, [END]))


def test_the_longest_unused_entries_are_dropped_first() -> None:
    model = tiny_model(0).eval()
    limit, size = Sampling(max_new_tokens=1), model.config
    token = 2 * 2 * size.num_key_value_heads * size.head_dim * 4  # keys and values, two layers

    def ask(prefixes: PrefixCache, *ids: int) -> int:
        one = Prompt(ids, limit, torch.Generator())
        with computed(model) as passes:
            sample(model, [one], 1, [-1], prefixes=prefixes)
        return passes[0][1] if passes else 1

    prefixes = PrefixCache(20.5 * token)
    first, second, third = range(3, 11), range(12, 20), range(20, 28)
    assert [ask(prefixes, *ids) for ids in (first, second)] == [8, 8]
    assert ask(prefixes, *first[:4], 30, 30) == 2  # uses the first, and drops the second for room
    assert ask(prefixes, *second) == 8
    assert ask(prefixes, *third) == 8
    assert ask(prefixes, *first) == 8
    assert ask(PrefixCache(3 * token), *first) == 8  # more than there is room for


def engine_with_cache(prefix_cache: float | None = None, **adapters: int) -> ModelEngine:
    model: Any = tiny_model(0)
    if adapters:
        lora = {"r": 2, "init_lora_weights": "gaussian", "target_modules": "all-linear"}
        model = add_adapters(model.requires_grad_(False), dict.fromkeys(adapters, lora), adapters)
        with torch.no_grad():
            for name, weight in model.named_parameters():
                if "lora_B" in name:
                    weight.normal_(0, 0.3)
    caching = Caching(prefix_cache=prefix_cache)
    return ModelEngine(model, tiny_tokenizer(), compute_dtype="float32", caching=caching)


def test_an_engine_reuses_prefixes_in_a_block_and_none_after_a_step(make_policy: Make) -> None:
    policy, plain = CausalLM(engine_with_cache()), make_policy(seed=0)
    policy.sampling = plain.sampling = Sampling(max_new_tokens=12, stop=["a", "be"])
    first, second = "a first prompt", "a first prompt, with more"

    def ask(text: str) -> int:
        """Return the computed tokens of a prompt."""
        policy.seed(1)
        plain.seed(1)
        with computed(policy.model) as passes:
            found = policy.generate([text], 4)
        assert [c.tokens for c in found[0]] == [c.tokens for c in plain.generate([text], 4)[0]]
        return passes[-1][1] if passes else 1

    policy.generate([first])  # the checks of first samples
    assert (ask(first), ask(second)) == (len(first), len(second))
    with policy.engine.reuse_prefixes():
        assert ask(first) == len(first)
        assert ask(second) <= len(second) - len(first)
        for one in (policy, plain):
            for weight in one.parameters():
                weight.grad = torch.ones_like(weight)
            torch.optim.SGD(one.parameters(), 0.1).step()
        assert ask(second) == len(second)
        assert ask(second + "!") == 1
    assert ask(second) == len(second)
    with policy.engine.reuse_prefixes(dialogues=False):
        assert (ask(first), ask(second)) == (len(first), len(second))
    policy.engine.prefix_cache = 1.0
    with policy.engine.reuse_prefixes(dialogues=False):
        assert ask(first) == len(first)
        assert ask(second) <= len(second) - len(first)


def test_each_adapter_has_its_own_prefixes() -> None:
    """All are sampled in one batch."""
    engine = engine_with_cache(policy_a=1, policy_b=2)
    a, b = (
        CausalLM(engine, Sampling(max_new_tokens=6), adapter=name)
        for name in ("policy_a", "policy_b")
    )
    first, second = "a first prompt", "a first prompt, with more"

    def ask(*requests: tuple[CausalLM, str]) -> list[tuple[int, ...]]:
        for policy in (a, b):
            policy.seed(5)
        groups = engine.generate(requests, 3)
        return [completion.tokens for group in groups for completion in group]

    expected = [ask((a, first)), ask((b, second)), ask((a, second), (b, first))]
    with engine.reuse_prefixes():
        ask((a, "x"), (b, "x"))  # the checks of a prefix
    with engine.reuse_prefixes(), computed(engine.model) as passes:
        assert [ask((a, first)), ask((b, second)), ask((a, second), (b, first))] == expected
    assert expected[1] != ask((a, second))
    last = passes[-1][1] if len(passes) == 3 else 1
    assert [columns for _, columns in passes[:2]] == [len(first), len(second)]
    assert last <= len(second) - len(first)


def test_models_without_prefixes_compute_whole_prompts(caplog: pytest.LogCaptureFixture) -> None:
    policy = CausalLM(engine_with_cache(), Sampling(max_new_tokens=6))
    forward = policy.model.forward

    def wrong(*args: Any, **options: Any) -> Any:
        cache = options.get("cache", options.get("past_key_values"))
        new = options["input_ids"].shape[1]
        if cache is not None and cache.get_seq_length() and new > 1:
            options["position_ids"] = options["position_ids"] + 3  # of some tokens only
        return forward(*args, **options)

    policy.model.forward = wrong
    with caplog.at_level(logging.WARNING), policy.engine.reuse_prefixes():
        policy.act("a first prompt")
        with computed(policy.model) as passes:
            policy.act("a first prompt, with more")
    assert passes == [(1, 25)]
    assert "computes the whole prompt in every turn" in caplog.text
    assert policy.engine.prefix_cache == 0
