"""Compiled layers: values of plain layers, few compilations, equal names, and errors where they cannot work."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from functorch.compile import nop
from torch import Tensor
from torch._dynamo.backends.common import aot_autograd
from torch._dynamo.utils import counters

from llm_decpomdp.agents import ModelEngine, PolicySpec, Sampling, load_policy, load_team
from llm_decpomdp.agents.inference import compiled
from llm_decpomdp.agents.inference.compiled import CompiledLayers
from llm_decpomdp.agents.inference.options import Caching, ModelOptions
from llm_decpomdp.agents.inference.static_cache import sample_static
from tests.agents.conftest import Make

PROMPT, ROWS = (5, 6, 7, 8, 9), ((4, 3, 2, 9), (8, 8, 3, 9, 7, 0), (6, 6))
PROMPTS = ((PROMPT, ROWS), ((7, 8), ((9, 1), (3, 3, 3, 0))), (PROMPT, ((5, 4),)))
OTHERS = (PROMPTS[:1], PROMPTS[1:], ((range(1, 30), ROWS),), ((PROMPT, ROWS[:2]),) * 3)
ADAPTER = {"r": 4, "lora_alpha": 6, "target_modules": "all-linear"}


class Codes:
    """Counts the codes that are compiled."""

    @property
    def count(self) -> int:
        return int(counters["stats"]["unique_graphs"])


@pytest.fixture
def codes(monkeypatch: pytest.MonkeyPatch) -> Iterator[Codes]:
    """Compile with the kernels of torch, which takes less time than to make new ones."""
    monkeypatch.setattr(compiled, "BACKEND", "aot_eager")
    torch._dynamo.reset()
    counters.clear()
    yield Codes()
    torch._dynamo.reset()


def engine_of(policy: Any, **options: Any) -> ModelEngine:
    return ModelEngine(
        policy.model, policy.tokenizer, compute_dtype="float32", compile=True, **options
    )


def gradients(model: Any, values: Tensor) -> Tensor:
    model.zero_grad()
    (values * torch.linspace(-1, 2, len(values))).sum().backward()
    return torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])


def assert_equal_passes(policy: Any, engine: ModelEngine) -> None:
    plain = policy.engine.log_probs_of_prompts(PROMPTS, 0.7)
    expected = gradients(policy.model, plain)
    found = engine.log_probs_of_prompts(PROMPTS, 0.7)
    assert engine.kernels.learns_compiled
    torch.testing.assert_close(found, plain, atol=1e-5, rtol=1e-5)
    assert (gradients(policy.model, found) - expected).norm() <= 1e-4 * expected.norm()


@pytest.mark.slow
@pytest.mark.parametrize("checkpointing", [False, True])
@pytest.mark.parametrize("fused", [False, True])
def test_a_pass_of_any_length_has_the_gradient_of_plain_layers_and_one_code(
    make_policy: Make, codes: Codes, fused: bool, checkpointing: bool
) -> None:
    policy = make_policy()
    engine = engine_of(policy, fused_kernels=fused, gradient_checkpointing=checkpointing)
    assert_equal_passes(policy, engine)
    assert engine.kernels.fuses == fused and codes.count == 1
    for prompts in OTHERS:
        gradients(policy.model, engine.log_probs_of_prompts(prompts, 1.0))
    assert codes.count == 1
    with torch.no_grad():  # a reference
        for prompts in OTHERS:
            engine.log_probs_of_prompts(prompts, 1.0)
    assert codes.count <= 3


@pytest.mark.slow
def test_the_code_of_inductor_has_the_gradient_of_plain_layers(make_policy: Make) -> None:
    policy = make_policy()
    assert_equal_passes(policy, engine_of(policy, fused_kernels=True))


# Adapters


def adapted(folder: Path, **options: Any) -> dict[str, Any]:
    """Load two policies with adapters on one model."""
    spec = PolicySpec(
        name=str(folder), lora=ADAPTER, max_new_tokens=20, **{"compute_dtype": "float32", **options}
    )
    team = load_team({"a": "a", "b": "b"}, {"a": spec, "b": spec})
    generator = torch.Generator().manual_seed(0)
    for policy in team.values():
        with torch.no_grad():
            for weight in policy.parameters():  # type: ignore[attr-defined]
                weight.copy_(torch.randn(weight.shape, generator=generator) / 8)
    return dict(team)


@pytest.fixture
def folder(make_policy: Make, tmp_path: Path) -> Path:
    make_policy().save(tmp_path / "model")
    return tmp_path / "model"


@pytest.mark.slow
@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize(("dtype", "limit"), [("float32", 1e-4), ("bfloat16", 0.1)])
def test_adapters_learn_as_with_plain_layers(
    folder: Path, codes: Codes, dtype: str, limit: float, fused: bool
) -> None:
    values = []
    for compile_layers in (False, True):
        team = adapted(folder, compute_dtype=dtype, compile=compile_layers, fused_kernels=fused)
        found = []
        for policy in team.values():
            policy.engine.activate(policy.adapter)
            found.append(gradients(policy.model, policy.engine.log_probs_of_prompts(PROMPTS, 0.7)))
        values.append(torch.cat(found))
    plain, others = values
    assert (others - plain).norm() <= limit * plain.norm()
    # The first layer gets states without a gradient. Both adapters have the same code.
    assert codes.count == 2


@pytest.mark.slow
def test_rows_of_two_adapters_are_those_of_plain_layers(folder: Path, codes: Codes) -> None:
    answers = []
    for compile_layers in (False, True):
        team = adapted(folder, static_cache=True, compile=compile_layers)
        requests = [(policy, text) for policy in team.values() for text in ("abc", "a")]
        answers.append(team["a"].engine.generate(requests, 4))
    for before, after in zip(*answers, strict=True):
        assert [c.tokens for c in before] == [c.tokens for c in after]
    # The number of rows becomes a symbol when it changes first. A single row that is left has its own code.
    assert 1 <= codes.count <= 3


# Sampling


@pytest.mark.slow
def test_rows_and_tokens_of_sampling_have_one_code(make_policy: Make, codes: Codes) -> None:
    policy = make_policy()
    plain, engine = policy.engine, engine_of(policy, caching=Caching(static_cache=True))
    for rows, limit, texts in ((3, 20, ["abc", "a"]), (5, 9, ["ab"]), (2, 30, ["abcd", "a", "d"])):
        policy.sampling = Sampling(max_new_tokens=limit)
        answers = []
        for policy.engine in (plain, engine):
            policy.seed(0)
            answers.append(policy.generate(texts, rows))
        for before, after in zip(*answers, strict=True):
            assert [c.tokens for c in before] == [c.tokens for c in after]
            for one, other in zip(before, after, strict=True):
                assert other.log_probs == pytest.approx(one.log_probs, abs=1e-5)
    assert 1 <= codes.count <= 2  # a single row that is left has its own code


# Weights


@pytest.mark.slow
def test_weights_keep_names_and_keep_learning(folder: Path, codes: Codes, tmp_path: Path) -> None:
    states = []
    for restart in (False, True):
        policy: Any = load_policy(folder, compute_dtype="float32", compile=True)
        for update in range(2):
            if restart and update:
                state = policy.state_dict()
                policy = load_policy(folder, compute_dtype="float32", compile=True)
                policy.load_state_dict(state)
            gradients(policy.model, policy.engine.log_probs_of_prompts(PROMPTS, 1.0))
            torch.optim.SGD(policy.parameters(), 0.01).step()
        states.append(policy.state_dict()["weights"])
    torch.testing.assert_close(*states)
    policy.save(tmp_path / "saved")
    # Loading refuses missing and unexpected weights.
    loaded = load_policy(tmp_path / "saved", compute_dtype="float32")
    torch.testing.assert_close(loaded.state_dict()["weights"], states[1], rtol=0, atol=0)


def test_layers_are_replaced_in_the_context_alone(make_policy: Make) -> None:
    model = make_policy().model
    names, layers = list(model.state_dict()), list(model.model.layers)
    with CompiledLayers(model):
        assert all("forward" in vars(layer) for layer in layers)
        assert list(model.state_dict()) == names
    assert not any("forward" in vars(layer) for layer in layers)


# Errors


def test_a_missing_compiler_is_an_error(make_policy: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    policy = make_policy()
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(ValueError, match=r"a C\+\+ compiler, and no-such-compiler is not found"):
        engine_of(policy)


@pytest.mark.parametrize(
    ("triton", "error"), [(None, "the package triton"), (1, "flex attention .* set one of them")]
)
def test_gpu_without_a_compiler(monkeypatch: pytest.MonkeyPatch, triton: Any, error: str) -> None:
    monkeypatch.setattr(compiled, "find_spec", lambda _: triton)
    with pytest.raises(ValueError, match=error):
        CompiledLayers(SimpleNamespace(device=torch.device("cuda")), fused=True)


def test_a_model_without_layers_of_transformers_is_an_error() -> None:
    model: Any = torch.nn.Linear(2, 2)
    model.device, model.config = torch.device("cpu"), SimpleNamespace(model_type="linear")
    with pytest.raises(ValueError, match="a model of type 'linear' has none"):
        CompiledLayers(model)


def test_quantized_weights_are_an_error() -> None:
    with pytest.raises(ValueError, match=r"compile=true does not compile .*=8bit"):
        ModelOptions(compile=True, quantization="8bit", lora={"r": 2})


def no_code(*_: Any, **__: Any) -> Any:
    """Fail as a backend, or as a pass."""
    raise RuntimeError("no code")


def wrong_states(_: Any, states: Tensor, **__: Any) -> Tensor:
    return states.flip(-1)


@pytest.fixture
def backend(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Any], None]]:
    """Set the backend of `torch.compile`."""
    torch._dynamo.reset()
    yield partial(monkeypatch.setattr, compiled, "BACKEND")
    torch._dynamo.reset()


def assert_one_warning(caplog: pytest.LogCaptureFixture, *parts: str) -> None:
    (warning,) = [r.message for r in caplog.records if r.levelno >= logging.WARNING]
    assert all(part in warning for part in (*parts, "Set model.compile=false"))


def sampled_tokens(policy: Any, engine: ModelEngine) -> list[tuple[int, ...]]:
    policy.engine = engine
    policy.seed(0)
    return [c.tokens for group in policy.generate(["abc", "a"], 3) for c in group]


def test_after_an_error_of_the_compiler_a_model_samples_and_learns_with_plain_layers(
    make_policy: Make, backend: Callable[[Any], None], caplog: pytest.LogCaptureFixture
) -> None:
    backend(no_code)
    policy = make_policy()
    plain = ModelEngine(
        policy.model, policy.tokenizer, compute_dtype="float32", caching=Caching(static_cache=True)
    )
    engine = engine_of(policy, caching=Caching(static_cache=True))
    with caplog.at_level(logging.WARNING):
        assert sampled_tokens(policy, engine) == sampled_tokens(policy, plain)
        for learner in (plain, engine):
            assert torch.equal(
                learner.log_probs_of_prompts(PROMPTS, 0.7), plain.log_probs_of_prompts(PROMPTS, 0.7)
            )
    assert engine.sampling_method is sample_static
    assert_one_warning(caplog, "torch.compile failed", "RuntimeError: no code")


def test_an_error_of_the_compiler_late_in_a_run_does_not_end_it(
    make_policy: Make, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def compile_until_it_fails(forward: Any) -> Any:
        failing = torch.compile(forward, backend=no_code)
        return lambda *args, **kwargs: (failing if fails else forward)(*args, **kwargs)

    fails = False
    monkeypatch.setattr(compiled, "_compile", compile_until_it_fails)
    policy = make_policy()
    engine, expected = engine_of(policy), policy.engine.log_probs_of_prompts([(PROMPT, ROWS)], 1.0)
    for fails in (False, True, True):
        with caplog.at_level(logging.WARNING), torch.set_grad_enabled(not fails):
            assert torch.equal(engine.log_probs_of_prompts([(PROMPT, ROWS)], 1.0), expected)
    assert_one_warning(caplog, "torch.compile failed", "RuntimeError: no code")


def test_an_error_in_the_code_of_a_late_backward_pass_does_not_end_a_run(
    make_policy: Make, backend: Callable[[Any], None], caplog: pytest.LogCaptureFixture
) -> None:
    def compile_until_it_fails(*args: Any) -> Any:
        return (no_code if fails else nop)(*args)

    backend(aot_autograd(fw_compiler=nop, bw_compiler=compile_until_it_fails))
    fails, policy = False, make_policy()
    expected = gradients(policy.model, policy.engine.log_probs_of_prompts([(PROMPT, ROWS)], 1.0))
    engine = engine_of(policy)
    with caplog.at_level(logging.WARNING, "llm_decpomdp"):
        gradients(policy.model, engine.log_probs_of_prompts([(PROMPT, ROWS)], 1.0))
        assert not caplog.records
        fails = True
        torch._dynamo.reset()  # as before another kind of pass
        for _ in range(2):
            found = gradients(policy.model, engine.log_probs_of_prompts([(PROMPT, ROWS)], 1.0))
            assert torch.equal(found, expected)
    assert_one_warning(caplog, "torch.compile failed", "RuntimeError: no code")


@pytest.mark.parametrize(
    ("layer", "reason"),
    [(no_code, "RuntimeError: no code"), (wrong_states, "log-probabilities differ by")],
)
def test_compiled_layers_that_fail_or_disagree_are_not_used_for_sampling(
    make_policy: Make,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    layer: Any,
    reason: str,
) -> None:
    policy = make_policy()
    plain = ModelEngine(
        policy.model, policy.tokenizer, compute_dtype="float32", caching=Caching(static_cache=True)
    )
    monkeypatch.setattr(compiled, "_compile", lambda _: layer)
    engine = engine_of(policy, caching=Caching(static_cache=True))
    with caplog.at_level(logging.WARNING):
        assert sampled_tokens(policy, engine) == sampled_tokens(policy, plain)
        sampled_tokens(policy, engine)
    assert engine.sampling_method is sample_static
    assert_one_warning(caplog, "model.compile has no effect on sampling with this model", reason)


def test_a_model_that_cannot_be_compiled_learns_without(
    make_policy: Make, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    policy = make_policy()
    expected = policy.engine.log_probs_of_prompts([(PROMPT, ROWS)], 1.0)
    monkeypatch.setattr(compiled, "_compile", lambda _: no_code)
    engine = engine_of(policy)
    with caplog.at_level(logging.WARNING):
        found = engine.log_probs_of_prompts([(PROMPT, ROWS)], 1.0)
    assert torch.equal(found, expected)
    reason = "model.compile has no effect on learning with this model: RuntimeError: no code"
    assert_one_warning(caplog, reason)


@pytest.mark.slow
def test_a_model_whose_backward_pass_cannot_be_compiled_learns_without(
    make_policy: Make, backend: Callable[[Any], None], caplog: pytest.LogCaptureFixture
) -> None:
    backend(aot_autograd(fw_compiler=nop, bw_compiler=no_code))
    policy = make_policy()
    expected = gradients(policy.model, policy.engine.log_probs_of_prompts([(PROMPT, ROWS)], 1.0))
    engine = engine_of(policy)
    with caplog.at_level(logging.WARNING, "llm_decpomdp"):
        found = gradients(policy.model, engine.log_probs_of_prompts([(PROMPT, ROWS)], 1.0))
    assert torch.equal(found, expected)
    assert_one_warning(caplog, "torch.compile failed", "RuntimeError: no code")
