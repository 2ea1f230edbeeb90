"""Sampling at a server: what comes back, by which weights, and what happens when the server is lost."""

from __future__ import annotations

import pickle
from base64 import b64decode
from dataclasses import replace
from pathlib import Path
from queue import SimpleQueue
from threading import Barrier
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from llm_decpomdp.agents import CausalLM, Prompting, Sampling, load_policy
from llm_decpomdp.agents.adapters import adapter_policies
from llm_decpomdp.agents.inference.options import ModelOptions
from llm_decpomdp.agents.inference.sampler import Prompt, sample
from llm_decpomdp.agents.remote.client import ServedWeights
from llm_decpomdp.agents.remote.options import SamplerError, SamplerOptions, ServerLost
from llm_decpomdp.agents.remote.sampler import RemoteSampler
from llm_decpomdp.agents.remote.server import RunningServer
from llm_decpomdp.policy import SKIPPED, Completion, Dialogue, DialogueTurn
from tests.agents.conftest import tiny_model, tiny_tokenizer
from tests.support.fake_vllm import FakeVllm

LORA = {"r": 2, "target_modules": ["q_proj", "v_proj"]}
OPTIONS = SamplerOptions(engine="vllm", timeout=20, max_mismatch=1e-4)
PROMPTS = ["one", "two and more", "three"]
# On a GPU, a batch of other rows rounds otherwise.
TOLERANCE = 1e-5 if torch.cuda.is_available() else None


def two(model: Path, **options: Any) -> dict[str, CausalLM]:
    """Policies with an adapter each, which differ."""
    declared = ModelOptions(**{"max_new_tokens": 8, "compute_dtype": "float32", **options})
    names = ("aux", "main")
    policies = adapter_policies(
        model, dict.fromkeys(names, LORA), dict.fromkeys(names, declared), {"aux": 1, "main": 2}
    )
    for seed, policy in enumerate(policies.values()):
        change(policy, seed)
    return policies


def change(policy: CausalLM, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weight in policy.parameters():
            weight.add_(0.3 * torch.randn(weight.shape, generator=generator).to(weight.device))


def attach(
    server: FakeVllm, policies: dict[str, CausalLM], tmp_path: Path, **options: Any
) -> RemoteSampler:
    engine, make_group = next(iter(policies.values())).engine, options.pop("make_group", None)
    sampler = RemoteSampler(
        *(engine, policies),
        *(RunningServer(server.address, tmp_path / "published", 5), tmp_path / "published"),
        replace(OPTIONS, **options),
        make_group,
    )
    engine.remote = sampler
    sampler.update_weights(17)
    return sampler


def draw(policies: dict[str, CausalLM], seed: int = 3) -> list[list[Completion]]:
    for policy in policies.values():
        policy.seed(seed)
    engine = policies["main"].engine
    return engine.generate([(policy, text) for text in PROMPTS for policy in policies.values()], 4)


def test_a_server_draws_what_this_project_s_sampler_draws_by_the_same_seeds(
    model: Path, server: FakeVllm, tmp_path: Path
) -> None:
    policies = two(model, temperature=1.4, max_new_tokens=16)
    attach(server, policies, tmp_path)
    answers = iter(draw(policies))
    for policy in policies.values():
        policy.seed(3)
    ends = policies["main"].engine.end_ids
    for text in PROMPTS:
        for policy in policies.values():
            prompt = policy.request(text)
            assert prompt is not None
            seed = int(torch.randint(2**31, (), generator=prompt.generator))
            alone = Prompt(prompt.ids, prompt.sampling, torch.Generator().manual_seed(seed))
            policy.engine.activate(policy.adapter)
            rows = sample(policy.model, [alone], 4, ends)
            group = next(answers)
            assert [c.tokens for c in group] == [row.tokens for row in rows]
            assert [c.finish_reason == "stop" for c in group] == [row.stopped for row in rows]
            assert [c.log_probs for c in group] == [
                pytest.approx(r.log_probs, abs=TOLERANCE) for r in rows
            ]
            log_probs, mask = policy.log_probs(text, group)
            sampled = torch.tensor([p for c in group for p in c.log_probs])
            assert torch.allclose(log_probs[mask > 0].cpu(), sampled, atol=1e-5)
    assert any(c.finish_reason == "stop" for group in draw(policies) for c in group)


def test_a_server_is_asked_with_the_tokens_of_a_dialogue(tmp_path: Path) -> None:
    tokenizer = tiny_tokenizer()
    tokenizer.chat_template = (
        "{% for m in messages %}{{ m.role }} {{ m.content }}\n{% endfor %}"
        "{% if add_generation_prompt %}assistant {% endif %}"
    )
    tiny_model(0).save_pretrained(tmp_path / "chat")
    tokenizer.save_pretrained(tmp_path / "chat")
    with FakeVllm(tmp_path / "chat") as server:
        policies = two(tmp_path / "chat", history="chat", max_new_tokens=6)
        attach(server, policies, tmp_path)
        (answers,), pairs = policies["main"].generate(["one"]), list(policies.items())
        dialogue = Dialogue("two", [DialogueTurn("one", answers[0])])
        server.calls.clear()
        groups = pairs[0][1].engine.generate([(policy, dialogue) for _, policy in pairs], 2)
    bodies = [body for path, body in server.calls if path == "/v1/completions"]
    ids = policies["main"].encode(dialogue)
    assert [body["prompt"] for body in bodies] == [ids, ids]
    place = len(policies["main"].encode("one"))
    assert tuple(ids[place : place + len(answers[0].tokens)]) == tuple(answers[0].tokens)
    for (_, policy), group in zip(pairs, groups, strict=True):
        log_probs, mask = policy.log_probs(dialogue, group)
        sampled = torch.tensor([value for one in group for value in one.log_probs])
        assert torch.allclose(log_probs[mask > 0].cpu(), sampled, atol=1e-5)


def test_a_server_ends_completions_at_stop_strings_where_this_process_does(
    model: Path, server: FakeVllm, tmp_path: Path
) -> None:
    whole, policies = (two(model, temperature=1.4, stop=stop) for stop in (None, ["a", "e"]))
    for team in (whole, policies):
        attach(server, team, tmp_path)
    ended = 0
    for full, group in zip(draw(whole), draw(policies), strict=True):
        for before, completion in zip(full, group, strict=True):
            assert completion.tokens == before.tokens[: len(completion.tokens)]
            assert not {"a", "e"} & set(completion.text)
            ended += completion.finish_reason == "stop" and completion.tokens[-1] != 0
    assert ended > 3
    assert server.calls[-2][1]["stop"] == ["a", "e"]


def test_requests_of_a_batch_begin_in_order(model: Path, server: FakeVllm, tmp_path: Path) -> None:
    policies = two(model)
    attach(server, policies, tmp_path)
    server.calls.clear()
    first = draw(policies)
    kinds = [path.partition("?")[0] for path, _ in server.calls]
    assert kinds[:2] == ["/pause", "/reset_prefix_cache"] and kinds[-1] == "/resume"
    bodies = [body for path, body in server.calls if path == "/v1/completions"]
    assert sorted(body["priority"] for body in bodies) == list(range(6))
    assert len({body["seed"] for body in bodies}) == 3  # both policies were seeded alike
    assert draw(policies) == first


@pytest.mark.parametrize("exact", [True, False])
def test_prefix_caches_are_kept_unless_exact_or_all_weights_change(
    model: Path, server: FakeVllm, tmp_path: Path, *, exact: bool
) -> None:
    """An adapter's cache belongs to its name, so new adapters leave it."""

    def clears(server: FakeVllm) -> int:
        return [path for path, _ in server.calls].count("/reset_prefix_cache")

    policies = two(model)
    sampler = attach(server, policies, tmp_path, exact=exact)
    draw(policies)
    change(policies["main"], 5)
    sampler.update_weights(18)
    draw(policies)
    assert clears(server) == (2 if exact else 0)
    policy = load_policy(model, Sampling(max_new_tokens=2), compute_dtype="float32")
    with FakeVllm(model) as other:
        attach(other, {"main": policy}, tmp_path / "other", exact=exact)
        draw({"main": policy})
        assert clears(other) == (2 if exact else 1)  # one with the weights


def test_versions_have_names_and_old_ones_go(model: Path, server: FakeVllm, tmp_path: Path) -> None:
    policies = two(model)
    sampler = attach(server, policies, tmp_path)
    assert sorted(name.partition("-")[0] for name in server.adapters) == ["aux@17", "main@17"]
    before, first = set(server.adapters), draw(policies)
    change(policies["main"], 5)
    with pytest.raises(SamplerError, match=r"weights of 'main' have changed and were not publish"):
        draw(policies)
    sampler.update_weights(18)
    assert sorted(name.partition("-")[0] for name in server.adapters) == ["aux@17", "main@18"]
    assert len(before & server.adapters) == 1
    assert len(list((tmp_path / "published" / "weights").iterdir())) == 2
    second = draw(policies)
    assert second[0::2] == first[0::2] and second[1::2] != first[1::2]
    sampler.close()
    assert not server.adapters and not (tmp_path / "published").exists()


def test_all_weights_are_reloaded_by_version(model: Path, server: FakeVllm, tmp_path: Path) -> None:
    policy = load_policy(model, Sampling(max_new_tokens=8), compute_dtype="float32")
    change(policy, 1)
    sampler = attach(server, {"main": policy}, tmp_path)
    assert server.version.startswith("main@17-")
    first = draw({"main": policy})
    change(policy, 2)
    sampler.update_weights(18)
    assert server.version.startswith("main@18-") and draw({"main": policy}) != first
    server.version = "default"  # somebody has started it anew
    server.reload(str(model))
    second = draw({"main": policy})
    assert server.version.startswith("main@18-")
    assert second == draw({"main": policy})


def test_rounded_weights_are_those_of_server(model: Path, server: FakeVllm, tmp_path: Path) -> None:
    policy = load_policy(model, Sampling(max_new_tokens=8), compute_dtype="bfloat16")
    change(policy, 1)
    attach(server, {"main": policy}, tmp_path, max_mismatch=0.1)
    (folder,) = (tmp_path / "published" / "weights").iterdir()
    tensors = load_file(folder / "model.safetensors")
    assert {tensor.dtype for tensor in tensors.values()} == {torch.bfloat16}
    weights = dict(policy.model.named_parameters())
    assert tensors.keys() == weights.keys()  # tied weights are written once
    for name, weight in server.engine.model.named_parameters():
        assert torch.equal(weight.cpu(), weights[name].bfloat16().float().cpu()), name
    assert all(weight.dtype == torch.float32 for weight in weights.values())
    draw({"main": policy})


class QueueGroup:
    """The group of this process and a server in a thread of it."""

    def __init__(self, server: FakeVllm) -> None:
        self.size, self.members, self.tensors = 2, Barrier(2, timeout=20), SimpleQueue()
        server.group = self

    def join(self) -> None:
        self.members.wait()

    def identity(self) -> bytes:
        return b"\xff" * 128

    def broadcast(self, tensor: torch.Tensor) -> None:
        self.tensors.put(tensor)

    def enter(self, info: dict[str, Any]) -> None:
        assert b64decode(info.pop("nccl_unique_id_b64")) == self.identity()
        assert info == {"rank_offset": 1, "world_size": 2}
        self.members.wait()

    def receive(self) -> torch.Tensor:
        return self.tensors.get(timeout=20)


def test_full_weights_go_from_gpu_to_gpu(model: Path, server: FakeVllm, tmp_path: Path) -> None:
    policy = load_policy(model, Sampling(max_new_tokens=8), compute_dtype="bfloat16")
    change(policy, 1)
    options = {"max_mismatch": 0.1, "make_group": lambda: QueueGroup(server)}
    sampler = attach(server, {"main": policy}, tmp_path, **options)
    first = draw({"main": policy})
    change(policy, 2)
    sampler.update_weights(18)
    assert draw({"main": policy}) != first and server.version.startswith("main@18-")
    for name, weight in server.engine.model.named_parameters():
        expected = policy.model.get_parameter(name).bfloat16().float()
        assert torch.equal(weight.cpu(), expected.cpu()), name
    routes = [path for path, _ in server.calls if "weight_" in path or "/update" in path]
    update = ["/start_weight_update", "/update_weights", "/finish_weight_update"]
    update += ["/update_weight_version"]
    assert [r for r in routes if r != "/weight_info"] == [
        "/init_weight_transfer_engine",
        *2 * update,
    ]
    assert not list((tmp_path / "published").rglob("*.safetensors"))
    server.version = "default"  # somebody has started it anew
    draw({"main": policy})
    assert server.version.startswith("main@18-")


@pytest.mark.parametrize(("fault", "exact"), [("dies", True), ("hangs", True), ("dies", False)])
def test_a_batch_is_asked_again_when_the_server_is_lost_in_the_middle_of_it(
    *, model: Path, server: FakeVllm, tmp_path: Path, fault: str, exact: bool, caplog: Any
) -> None:
    policies, timeout = two(model), 4 if fault == "hangs" else 60
    sampler = attach(server, policies, tmp_path, exact=exact, timeout=timeout)
    undisturbed = draw(policies)
    server.fault, server.fault_in = fault, 3
    assert draw(policies) == undisturbed
    assert "is lost" in caplog.text and "asked the same" in caplog.text
    sampler.options = replace(sampler.options, max_restarts=0)
    server.fault, server.fault_in = "dies", 3
    with pytest.raises(SamplerError, match=r"(?s)lost 1 times in a row.*its log is where"):
        draw(policies)


def test_a_sampler_closed_while_it_asks_starts_no_server_again(
    model: Path, server: FakeVllm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    policies = two(model)
    sampler = attach(server, policies, tmp_path)
    launches = []

    def closed_by_another_thread(*_: Any) -> Any:
        sampler.close()
        monkeypatch.setattr(sampler.server, "launch", lambda: launches.append(True))
        raise ServerLost("the connection was closed")

    monkeypatch.setattr(ServedWeights, "ask", closed_by_another_thread)
    with pytest.raises(SamplerError, match="asked while it was closed"):
        draw(policies)
    assert not launches


def test_others_sample_published_weights(model: Path, server: FakeVllm, tmp_path: Path) -> None:
    policies = two(model)
    sampler = attach(server, policies, tmp_path, exact=False)
    expected = draw(policies)
    elsewhere = pickle.loads(pickle.dumps(sampler.serve()))
    policies["main"].engine.remote = elsewhere
    assert draw(policies) == expected
    server.noise = 1.0
    sampler.serve()  # these weights were compared
    change(policies["main"], 5)
    sampler.update_weights(18)
    with pytest.raises(SamplerError, match=r"differ from the learner's by 1 nats"):
        sampler.serve()
    policies["main"].engine.remote = elsewhere
    with pytest.raises(ServerLost, match="main@17"):
        draw(policies)


def test_answers_of_other_weights_fail(model: Path, server: FakeVllm, tmp_path: Path) -> None:
    policies = two(model)
    sampler = attach(server, policies, tmp_path)
    server.other_name = "main@16"
    with pytest.raises(SamplerError, match=r"answers by 'main@16'"):
        draw(policies)
    server.other_name, server.noise = None, 0.6
    sampler.options = replace(sampler.options, max_mismatch=0.5)
    with pytest.raises(SamplerError, match=r"differ from the learner's by 0\.6 nats"):
        draw(policies)
    server.noise = 0.0
    draw(policies)
    server.noise = 0.6
    draw(policies)  # the first answer was compared
    change(policies["main"], 5)
    sampler.update_weights(18)
    sampler.proves_later = True
    draw(policies)
    with pytest.raises(SamplerError, match=r"differ from the learner's by 0\.6 nats"):
        sampler.prove()
    sampler.proves_later = False
    with pytest.raises(SamplerError, match=r"differ from the learner's by 0\.6 nats"):
        draw(policies)
    server.noise = 0.0
    server.forget()  # as if started anew
    draw(policies)


def test_by_default_the_limit_is_that_of_samples_drawn_here(
    model: Path, server: FakeVllm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("llm_decpomdp.agents.remote.sampler.ENOUGH_TOKENS", 100)
    policies = two(model)
    sampler = attach(server, policies, tmp_path, max_mismatch=None)
    server.noise = 0.02
    with pytest.raises(SamplerError, match=r"by 0\.02 nats a token, more than 0\.01, in its first"):
        draw(policies)
    sampler = attach(server, policies, tmp_path, max_mismatch=None)
    server.noise = 5e-3  # too much on average, and too little of a single answer
    with pytest.raises(
        SamplerError, match=r"by 0\.005 nats a token, more than 0\.001, in its first"
    ):
        for version in range(18, 28):
            draw(policies)
            change(policies["main"], version)
            sampler.update_weights(version)
    assert version > 18 and sampler._tokens >= 100


def test_a_server_without_the_routes_is_told(
    model: Path, server: FakeVllm, tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.setattr("llm_decpomdp.agents.remote.client.UNSEEN", 0.1)
    policies = two(model)
    attach(server, policies, tmp_path)
    server.counts = False
    with pytest.raises(SamplerError, match="--enable-server-load-tracking"):
        draw(policies)


def test_greedy_groups_and_skipped_prompts(model: Path, server: FakeVllm, tmp_path: Path) -> None:
    policy = load_policy(
        model,
        Sampling(max_new_tokens=4, temperature=0.0),
        compute_dtype="float32",
        prompting=Prompting(max_prompt_tokens=4, on_long_prompt="skip"),
    )
    local = policy.generate(["ab"], 2)
    attach(server, {"main": policy}, tmp_path)
    short, long = policy.generate(["ab", "longer"], 2)
    assert [c.tokens for c in short] == [c.tokens for c in local[0]]
    assert short[0].log_probs == pytest.approx(local[0][0].log_probs, abs=1e-5)
    assert long == [SKIPPED, SKIPPED]


@pytest.mark.parametrize(("key", "value"), [("top_p", 0.9), ("top_k", 5)])
def test_truncated_sampling_is_refused(
    model: Path, server: FakeVllm, tmp_path: Path, key: str, value: float
) -> None:
    with pytest.raises(ValueError, match=f"{key}={value} of policy 'aux' does not go"):
        attach(server, two(model, **{key: value}), tmp_path)


def test_a_sampler_that_was_closed_leaves_sampling_to_the_model_and_begins_anew(
    model: Path, server: FakeVllm, tmp_path: Path
) -> None:
    policies = two(model)
    sampler = attach(server, policies, tmp_path)
    first = draw(policies)
    folder = tmp_path / "published"
    assert folder.stat().st_mode & 0o777 == 0o700  # weights are nobody else's business
    sampler.close()
    assert not folder.exists() and not server.adapters
    server.calls.clear()
    assert draw(policies) and not server.calls
    prompt = policies["main"].request("one")
    assert prompt is not None
    with pytest.raises(SamplerError, match=r"call publish\(\)"):
        sampler.sample([prompt], 1)
    sampler.update_weights(18)
    assert draw(policies) == first and server.calls
    sampler.close()
