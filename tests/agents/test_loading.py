"""Declarations of policies and their loading, with errors that name the remedy, without waiting for a hub."""

from __future__ import annotations

import os
import shutil
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import torch

from llm_decpomdp.agents.loading import PolicySpec, load_team
from llm_decpomdp.agents.models.causal_lm import CausalLM
from llm_decpomdp.agents.policy_kinds import KINDS, OWN, check_device
from llm_decpomdp.agents.remote.endpoint import Endpoint
from llm_decpomdp.agents.scripted import Constant, Gold, RandomText, Replay
from llm_decpomdp.policy import Policy, shared_engine
from tests.agents.conftest import Make

pytest.importorskip("transformers")

from llm_decpomdp.agents.inference.options import ModelOptions
from llm_decpomdp.agents.models import pretrained
from llm_decpomdp.agents.models.pretrained import tiny_model
from llm_decpomdp.agents.single_model import load_policy
from llm_decpomdp.utils import hub
from tests.support.processes import python


@pytest.fixture
def no_hub(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever asks the hub fails."""

    def asked() -> bool:
        raise AssertionError("the hub was asked")

    monkeypatch.setattr(pretrained, "hub_answers", asked)


@pytest.mark.parametrize("name", ["./missing", "/x/y", "~/model", "a/b/c", "../missing"])
def test_a_path_that_is_no_folder_is_told_without_asking_the_hub(no_hub: None, name: str) -> None:
    with pytest.raises(OSError, match=r"^cannot load the model '.*': there is no folder ") as told:
        load_policy(name)
    assert "\n" not in str(told.value) and len(str(told.value)) < 150


def test_a_name_of_another_type_is_refused() -> None:
    with pytest.raises(TypeError, match=r"takes the name or the folder of a model, .*, got 3"):
        load_policy(3)  # type: ignore[arg-type]


def test_options_of_another_class_are_refused() -> None:
    with pytest.raises(TypeError, match="takes a Sampling, got a ModelOptions: give its other"):
        load_policy("tiny-random", ModelOptions(lora={"r": 4}))


@pytest.mark.parametrize(
    ("removed", "message"),
    [
        (["tokenizer.json", "tokenizer_config.json"], "holds no tokenizer .*: copy its model's"),
        (["config.json"], r"holds no model: it has no config\.json or adapter_config\.json"),
    ],
)
def test_a_folder_that_lacks_something_is_named(
    no_hub: None, tmp_path: Path, removed: list[str], message: str
) -> None:
    folder = tmp_path / "model"
    shutil.copytree(tiny_model(), folder)
    for name in removed:
        (folder / name).unlink()
    for lora in (None, {"r": 2}):
        with pytest.raises(OSError, match=f"the folder {folder} {message}") as told:
            load_policy(folder, lora=lora)
        assert "\n" not in str(told.value)


@pytest.mark.parametrize(
    ("targets", "missing"),
    [(["nope"], "'nope'"), (["q_proj", "nope"], "'nope'"), ("nope", "'nope'")],
)
def test_target_modules_that_are_not_there_are_named_with_those_that_are(
    targets: list[str] | str, missing: str
) -> None:
    message = rf"lora\.target_modules: the model has no module {missing}; it has .*k_proj, .*q_proj"
    with pytest.raises(ValueError, match=message):
        load_policy("tiny-random", lora={"r": 2, "target_modules": targets})


@pytest.mark.parametrize("targets", [["q_proj"], "all-linear", r".*\.(q|v)_proj", None])
def test_target_modules_that_are_there_are_taken(targets: list[str] | str | None) -> None:
    load_policy("tiny-random", lora={"r": 2, "target_modules": targets})


class SilentHub:
    """Accepts connections, never answers, and keeps what it was asked."""

    def __init__(self) -> None:
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.address = f"http://127.0.0.1:{self.socket.getsockname()[1]}"
        self.connections: list[socket.socket] = []
        self.asked: list[str] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                self.connections.append(self.socket.accept()[0])
                self.asked.append(self.connections[-1].recv(4096).decode().split(" ")[1])
            except OSError:
                return


@pytest.fixture
def silent_hub() -> Iterator[SilentHub]:
    found = SilentHub()
    yield found
    for one in (*found.connections, found.socket):
        one.close()


@pytest.mark.slow
def test_a_silent_hub_is_asked_once_and_told_once(silent_hub: SilentHub, tmp_path: Path) -> None:
    code = (
        "from llm_decpomdp.benchmarks.cli.console import prepare_process\n"
        "from llm_decpomdp.agents.single_model import load_policy\n"
        "prepare_process()\n"
        "for name in ('gpt-4o', 'owner/model'):\n"
        "    try: load_policy(name)\n"
        "    except OSError as error: print(error)\n"
    )
    env = {k: v for k, v in os.environ.items() if "OFFLINE" not in k}
    env |= {"HF_ENDPOINT": silent_hub.address, "HF_HOME": str(tmp_path), "NO_PROXY": "127.0.0.1"}
    ran = python("-c", code, env=env)
    first, second = ran.stdout.splitlines()
    assert ran.stderr == ""
    # huggingface_hub asks once for something of its own.
    assert [path for path in silent_hub.asked if path != "/api/agent-harnesses"] == ["/"]
    assert first.startswith(
        f"cannot load the model 'gpt-4o': it is no folder, {hub_said(silent_hub)}"
    )
    assert "a model behind an API is a policy of kind endpoint" in first
    assert "play --policy NAME --base-url URL" in first
    assert "'owner/model'" in second


def hub_said(silent: SilentHub) -> str:
    return f"the hub's cache does not have it, and {silent.address} does not answer"


def test_offline_asks_no_hub(silent_hub: SilentHub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", silent_hub.address)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert not hub.hub_answers() and not silent_hub.connections


LORA: dict[str, Any] = {"r": 2, "target_modules": ["q_proj"]}


@pytest.fixture
def model(tmp_path: Path, make_policy: Make) -> Callable[..., PolicySpec]:
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


def test_equal_names_are_one_object_others_are_others(model: Callable[..., PolicySpec]) -> None:
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


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_frozen_model_wants_no_gradient_and_keeps_the_numbers_that_it_computes_with(
    model: Callable[..., PolicySpec], dtype: str
) -> None:
    spec = model(trainable=False, compute_dtype=dtype)
    (policy,) = load_team({"one": "a"}, {"a": spec}).values()
    weights = list(causal(policy).model.parameters())
    assert not any(weight.requires_grad for weight in weights)
    assert {weight.dtype for weight in weights} == {getattr(torch, dtype)}
    assert policy.generate(["abc"], 2)


def test_adapters_on_one_base_are_sampled_together(model: Callable[..., PolicySpec]) -> None:
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


def test_adapters_with_other_settings_have_another_base(model: Callable[..., PolicySpec]) -> None:
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


def test_a_device_may_be_that_of_torch() -> None:
    assert load_policy("tiny-random", device=torch.device("cpu")).model.device.type == "cpu"


LEAST: dict[str, dict[str, Any]] = {
    "model": {"name": "a"},
    "endpoint": {"name": "a"},
    "gold": {},
    "random": {},
    "constant": {"text": ""},
    "replay": {"texts": []},
    "pool": {},
}


def test_a_pool_is_loaded_by_its_section_alone() -> None:
    with pytest.raises(ValueError, match=r"in Python, call PartnerPool\(members\)"):
        load_team({"one": "a"}, {"a": PolicySpec("pool")})


def test_every_kind_is_tried_here_and_every_field_is_read_by_a_kind() -> None:
    assert set(LEAST) == set(KINDS)
    read = {"kind", *(name for names in KINDS.values() for name in names), *OWN}
    assert read == {field.name for field in fields(PolicySpec)}


@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_needs_what_it_cannot_do_without(kind: str) -> None:
    least = LEAST[kind]
    assert PolicySpec(kind, **least).options().keys() == set(KINDS[kind])
    for name in least:
        with pytest.raises(ValueError, match=f"a {kind} policy needs {name}"):
            PolicySpec(kind)


def test_a_field_that_the_kind_does_not_read_is_refused() -> None:
    with pytest.raises(ValueError, match="a constant policy has no temperature; it has text"):
        PolicySpec("constant", text="a", temperature=0.5)
    with pytest.raises(ValueError, match="a gold policy has no text; it has no options"):
        PolicySpec("gold", text="a")


def test_an_unknown_kind_is_refused_with_the_nearest() -> None:
    with pytest.raises(ValueError, match="unknown kind 'const'; did you mean 'constant'"):
        PolicySpec("const")


def test_only_a_model_can_be_trained_and_only_if_it_may() -> None:
    assert PolicySpec(name="a").can_be_trained
    assert not PolicySpec(name="a", trainable=False).can_be_trained
    assert not PolicySpec("gold").can_be_trained
    with pytest.raises(ValueError, match="does nothing"):
        PolicySpec(name="a", lora={"r": 2}, trainable=False)


def test_only_a_device_of_this_machine_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)
    for name in ("auto", "cpu", "cpu:0", "meta", "cuda", "cuda:1"):
        check_device(name)
    for name in ("cuda:2", "bogus", "cuda:x", ""):
        with pytest.raises(ValueError, match=f"no device '{name}': use auto or cpu"):
            check_device(name)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 0)
    with pytest.raises(ValueError, match="'cuda'"):
        check_device("cuda")
