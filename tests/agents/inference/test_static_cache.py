"""Passes of one token in memory of fixed size: the same rows, on a CPU and as a recorded graph."""

from __future__ import annotations

import logging
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from transformers import LlamaForCausalLM, MistralConfig, MistralForCausalLM

from llm_decpomdp.agents import PolicySpec, Sampling, load_policy, load_team
from llm_decpomdp.agents.inference.options import Caching, ModelOptions
from llm_decpomdp.agents.inference.sampler import Prompt, sample
from llm_decpomdp.agents.inference.static_cache import StaticSteps, sample_static, uses_static_cache
from llm_decpomdp.agents.models.methods import METHODS
from tests.agents.conftest import SIZE, Make, tiny_model

END = 0


class Replay:
    """Stands for a graph of CUDA: repeats a pass, and leaves its result in the place of the first."""

    def __init__(self, steps: Any) -> None:
        self.steps, self.replays = steps, 0

    def replay(self) -> None:
        self.replays += 1
        self.steps._logits.copy_(self.steps._step())


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> list[Replay]:
    graphs: list[Replay] = []

    step = StaticSteps._step

    def record_first(steps: Any) -> torch.Tensor:
        logits = step(steps)
        if not steps._begins and steps._graph is None:
            graphs.append(Replay(steps))
            steps._logits = torch.empty_like(logits)
            steps._graph = graphs[-1]
        return logits

    monkeypatch.setattr(StaticSteps, "_step", record_first)
    return graphs


def prompts() -> list[Prompt]:
    def one(*ids: int, **options: Any) -> Prompt:
        return Prompt(ids, Sampling(**options), torch.Generator().manual_seed(len(ids)))

    return [one(5, 6, 7, max_new_tokens=90), one(4, 9, 9, 9, 8, temperature=0.5, max_new_tokens=60)]


def test_rows_are_those_of_memory_that_grows(make_policy: Make) -> None:
    model = make_policy().model
    growing, static = (method(model, prompts(), 8, [END]) for method in (sample, sample_static))
    assert len({len(row.tokens) for row in growing}) > 5  # rows left the batch, some of them early
    for before, after in zip(growing, static, strict=True):
        assert (after.tokens, after.stopped) == (before.tokens, before.stopped)
        assert after.log_probs == pytest.approx(before.log_probs, abs=1e-5)


def test_a_recorded_pass_is_repeated_until_half_of_its_rows_left(
    make_policy: Make, recorded: list[Replay]
) -> None:
    model = make_policy().model
    static = sample_static(model, prompts(), 8, [END])
    assert [row.tokens for row in static] == [
        row.tokens for row in sample(model, prompts(), 8, [END])
    ]
    # Each graph has at most half the rows of the one before, and repeats all passes but its first.
    assert 2 <= len(recorded) <= 5
    passes = sum(graph.replays + 1 for graph in recorded)
    assert passes == max(len(row.tokens) for row in static) - 1


def test_rows_of_adapters_keep_them(make_policy: Make, tmp_path: Any) -> None:
    make_policy().save(tmp_path)
    texts = []
    for static in (False, True):
        policy = load_policy(
            tmp_path,
            Sampling(max_new_tokens=20),
            compute_dtype="float32",
            lora={"r": 4, "target_modules": "all-linear"},
            caching=Caching(static_cache=static),
        )
        with torch.no_grad():
            for number, weight in enumerate(policy.parameters()):
                noise = torch.randn(weight.shape, generator=torch.Generator().manual_seed(number))
                weight.add_(noise.to(weight.device))
        texts.append([c.tokens for c in policy.generate(["abc", "de"], 5)[0]])
        assert policy.engine.sampling_method is (sample_static if static else sample)
    assert texts[0] == texts[1]


def test_ended_rows_leave_the_adapters_of_others(make_policy: Make, tmp_path: Any) -> None:
    make_policy().save(tmp_path)
    answers = []
    for static in (False, True):
        spec = PolicySpec(
            name=str(tmp_path),
            max_new_tokens=12,
            compute_dtype="float32",
            lora={"r": 4, "target_modules": "all-linear"},
            static_cache=static,
        )
        short = replace(spec, max_new_tokens=1)
        team: Any = load_team({"a": "a", "b": "b", "c": "c"}, {"a": spec, "b": short, "c": spec})
        generator = torch.Generator().manual_seed(0)
        with torch.no_grad():
            for weight in (weight for policy in team.values() for weight in policy.parameters()):
                weight.copy_(torch.randn(weight.shape, generator=generator) / 8)
        groups = team["a"].engine.generate([(policy, "abc") for policy in team.values()], 2)
        answers.append([c.tokens for group in groups for c in group])
    assert [len(tokens) for tokens in answers[0]].count(1) >= 2 and answers[0] == answers[1]


def test_a_model_with_windows_refuses_and_says_what_to_set() -> None:
    model = MistralForCausalLM(MistralConfig(**SIZE, sliding_window=4))
    with pytest.raises(
        ValueError, match=r"'mistral' has 'sdpa', or windows: set model\.static_cache"
    ):
        sample_static(model, prompts(), 2, [END])


def test_a_model_that_does_not_agree_is_sampled_without(
    make_policy: Make, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    step = StaticSteps._step
    monkeypatch.setattr(StaticSteps, "_step", lambda self: 2 * step(self))
    policy = make_policy()
    policy.engine.sampling_method = METHODS[0]
    with caplog.at_level(logging.WARNING):
        policy.generate(["abc"], 2)
    assert policy.engine.sampling_method is sample
    assert "without a static cache: with one its samples differ by" in caplog.text


def test_earlier_turns_are_not_kept_in_it() -> None:
    with pytest.raises(ValueError, match=r"prefix_cache=2 has no effect with static_cache=true"):
        ModelOptions(static_cache=True, prefix_cache=2.0)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_gpu_repeats_a_graph(make_policy: Make) -> None:
    model: LlamaForCausalLM = make_policy().model.to("cuda")
    growing, static = (method(model, prompts(), 8, [END]) for method in (sample, sample_static))
    assert [row.tokens for row in static] == [row.tokens for row in growing]


def test_a_gpu_has_a_static_cache_by_default_where_the_model_and_other_options_allow_it() -> None:
    model: Any = SimpleNamespace(device=torch.device("cuda"), config=tiny_model(0).config)
    model.config._attn_implementation, model._supports_attention_backend = "sdpa", True
    assert uses_static_cache(model, Caching())
    for option in ({"prefix_cache": 1.0}, {"continuous_batching": 4}, {"static_cache": False}):
        assert not uses_static_cache(model, Caching(**option))
    assert uses_static_cache(model, Caching(prefix_cache=0.0))
    model.config.sliding_window = 8
    assert not uses_static_cache(model, Caching())
    assert uses_static_cache(model, Caching(static_cache=True))  # which is an error later
    model.device, model.config.sliding_window = torch.device("cpu"), None
    assert not uses_static_cache(model, Caching())
