"""Teams by declaration, with a tiny model in transformers' own format."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from llm_decpomdp.agents.loading import load_team
from llm_decpomdp.agents.models.causal_lm import CausalLM
from llm_decpomdp.agents.remote.endpoint import Endpoint
from llm_decpomdp.agents.scripted import Constant, Gold, RandomText, Replay
from llm_decpomdp.agents.specs import PolicySpec
from llm_decpomdp.policy import Policy, shared_engine

LORA: dict[str, Any] = {"r": 2, "target_modules": ["q_proj"]}


@pytest.fixture
def model(tmp_path: Path, make_policy: Callable[..., CausalLM]) -> Callable[..., PolicySpec]:
    """Declares a tiny model, whose weights a seed decides."""

    def declare(weights: int = 0, **options: Any) -> PolicySpec:
        folder = tmp_path / f"model-{weights}"
        if not folder.exists():
            make_policy(weights).save(folder)
        options = {"max_new_tokens": 6, "compute_dtype": "float32", **options}
        return PolicySpec(name=str(folder), **options)

    return declare


def causal(policy: Policy) -> CausalLM:
    assert isinstance(policy, CausalLM)
    return policy


def test_equal_names_are_one_object_and_other_names_other_weights(
    model: Callable[..., PolicySpec],
) -> None:
    agents = {"one": "a", "two": "a", "three": "b"}
    team = load_team(agents, {"a": model(), "b": model()})
    assert list(team) == list(agents)
    assert team["one"] is team["two"]
    own, other = ({id(p) for p in causal(team[agent]).parameters()} for agent in ("one", "three"))
    assert not own & other


def test_models_and_tokenizers_may_differ(model: Callable[..., PolicySpec]) -> None:
    team = load_team({"one": "a", "two": "b"}, {"a": model(0), "b": model(1, temperature=0.5)})
    first, second = causal(team["one"]), causal(team["two"])
    assert (first.sampling.temperature, second.sampling.temperature) == (1.0, 0.5)
    weights = (next(iter(policy.parameters())) for policy in (first, second))
    assert not torch.equal(*weights)


def test_a_frozen_model_has_no_parameter_that_wants_a_gradient(
    model: Callable[..., PolicySpec],
) -> None:
    (policy,) = load_team({"one": "a"}, {"a": model(trainable=False)}).values()
    assert not any(p.requires_grad for p in causal(policy).model.parameters())
    assert policy.generate(["abc"], 2)


def test_a_frozen_model_keeps_the_numbers_that_it_computes_with(
    model: Callable[..., PolicySpec],
) -> None:
    spec = model(trainable=False, compute_dtype="bfloat16")
    (policy,) = load_team({"one": "a"}, {"a": spec}).values()
    assert {p.dtype for p in causal(policy).model.parameters()} == {torch.bfloat16}
    assert policy.generate(["abc"], 2)


def test_adapters_on_one_base_share_it_and_are_sampled_together(
    model: Callable[..., PolicySpec],
) -> None:
    team = load_team(
        {"one": "a", "two": "b", "three": "c", "four": "d"},
        {"a": model(lora=LORA), "b": model(lora=LORA), "c": model(1, lora=LORA), "d": model(1)},
    )
    one, two, three, four = (causal(policy) for policy in team.values())
    base = [{p.data_ptr() for p in policy.model.parameters()} for policy in (one, two, three, four)]
    assert base[0] & base[1] and not base[0] & base[2] and not base[2] & base[3]
    trained = [{id(p) for p in policy.parameters()} for policy in (one, two)]
    assert trained[0] and trained[1] and not trained[0] & trained[1]
    assert shared_engine(one) is not None and shared_engine(two) is not None
    assert one.engine is two.engine


def test_adapters_on_a_base_with_other_settings_have_another_copy(
    model: Callable[..., PolicySpec],
) -> None:
    specs = {"a": model(lora=LORA), "b": model(lora=LORA, compute_dtype="bfloat16")}
    one, two = load_team({"one": "a", "two": "b"}, specs).values()
    assert (causal(one).compute_dtype, causal(two).compute_dtype) == (torch.float32, torch.bfloat16)


def test_the_seed_decides_samples_and_new_adapters(model: Callable[..., PolicySpec]) -> None:
    def sampled(seed: int) -> tuple[Any, list[torch.Tensor]]:
        specs = {"a": model(), "b": model(lora=LORA), "c": model(lora=LORA)}
        team = load_team({name: name for name in specs}, specs, seed=seed)
        texts = [[c.tokens for c in p.generate(["abc"], 4)[0]] for p in team.values()]
        return texts, [p.detach() for p in causal(team["b"]).parameters()]

    (first, weights), (again, same), (other, _) = sampled(1), sampled(1), sampled(2)
    assert first == again != other
    assert first[0] != first[1]
    assert all(torch.equal(*pair) for pair in zip(weights, same, strict=True))


def test_policies_without_weights() -> None:
    specs = {
        "gold": PolicySpec("gold"),
        "random": PolicySpec("random", length=5),
        "constant": PolicySpec("constant", text="hi"),
        "replay": PolicySpec("replay", texts=["a", "b"]),
        "endpoint": PolicySpec(
            "endpoint", "big", temperature=0.5, base_url="http://localhost:1/v1", max_parallel=2
        ),
    }
    team = load_team({name: name for name in specs}, specs)
    kinds = [type(policy) for policy in team.values()]
    assert kinds == [Gold, RandomText, Constant, Replay, Endpoint]
    assert len(team["random"].act("")) == 5
    assert (team["constant"].act(""), team["replay"].act("")) == ("hi", "a")
    endpoint = team["endpoint"]
    assert isinstance(endpoint, Endpoint)
    assert (endpoint.model, endpoint.temperature, endpoint.max_parallel) == ("big", 0.5, 2)


def test_a_declaration_that_does_not_fit_is_refused() -> None:
    gold = PolicySpec("gold")
    with pytest.raises(
        KeyError, match="agent 'one': unknown policy 'helpr'; did you mean 'helper'"
    ):
        load_team({"one": "helpr"}, {"helper": gold})
    with pytest.raises(ValueError, match=r"no agent plays the policy 'b'; policies .* played: a"):
        load_team({"one": "a"}, {"a": gold, "b": gold})
    with pytest.raises(ValueError, match=r"letters, digits.*'a\.b'"):
        load_team({"one": "a.b"}, {"a.b": gold})


def test_a_model_that_is_not_there_is_named() -> None:
    for options in ({}, {"lora": LORA}):
        spec = PolicySpec(name="no/folder", **options)
        with pytest.raises(OSError, match="cannot load the model 'no/folder'"):
            load_team({"one": "a", "two": "b"}, {"a": spec, "b": spec})


def test_a_device_that_is_not_there_is_refused_before_anything_is_loaded() -> None:
    spec = PolicySpec(name="no/folder", device="cuda:99")
    with pytest.raises(ValueError, match="this machine has no device 'cuda:99': use auto or cpu"):
        load_team({"one": "a"}, {"a": spec})
