"""A server that gets new weights while it writes answers, by a double of it."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from llm_decpomdp.agents import CausalLM, Sampling, load_policy
from llm_decpomdp.agents.remote.in_flight import InFlightSampler, ServedInFlight
from llm_decpomdp.agents.remote.options import SamplerError, ServerLost
from llm_decpomdp.agents.remote.server import RunningServer
from llm_decpomdp.policy import Completion
from tests.agents.remote.test_sampler import OPTIONS, change, two
from tests.support.fake_vllm import FakeVllm


def attach(server: FakeVllm, policies: dict[str, CausalLM], folder: Path) -> InFlightSampler:
    engine = next(iter(policies.values())).engine
    options = replace(OPTIONS, exact=False, max_mismatch=1e-3)
    published = folder / "published"
    running = RunningServer(server.address, published, 5)
    sampler = InFlightSampler(engine, policies, running, published, options)
    sampler.update_weights(17)
    return sampler


def full(model: Path) -> dict[str, CausalLM]:
    policy = load_policy(model, Sampling(max_new_tokens=8), compute_dtype="float32")
    change(policy, 1)
    return {"main": policy}


def drawn(policy: CausalLM, served: Any, number: int) -> list[Completion]:
    """What another process draws: it has published weights, and asks a server."""
    policy.engine.remote = served
    (group,) = policy.generate(["one"], number)
    return group


@pytest.mark.parametrize("kind", ["full", "adapters"])
def test_an_answer_goes_on_by_the_weights_that_are_published_meanwhile(
    model: Path, server: FakeVllm, tmp_path: Path, kind: str
) -> None:
    policies = two(model) if kind == "adapters" else full(model)
    policy, sampler = policies["main"], attach(server, policies, tmp_path)
    served = sampler.serve()
    names = set(server.adapters)
    server.holds_at = 2
    found: list[Completion] = []
    worker = threading.Thread(target=lambda: found.extend(drawn(policy, served, 12)), daemon=True)
    worker.start()
    assert server.held.wait(30)
    server.holds_at = None
    with torch.no_grad():
        change(policy, 5)
    sampler.update_weights(18)
    worker.join(30)
    assert len(found) == 12 and server.adapters == names  # the name of an adapter stays
    long = [one for one in found if len(one.tokens) > 3]
    assert long
    for one in found:
        assert one.versions == (17, 17)[: len(one.tokens)] + (18,) * (len(one.tokens) - 2)
    assert server.version.startswith("main@18-")
    assert {v for one in drawn(policy, served, 4) for v in one.versions} == {18}
    routes = [path.partition("?")[0] for path, _ in server.calls]
    load = "/v1/load_lora_adapter" if kind == "adapters" else "/collective_rpc"
    last = len(routes) - 1 - routes[::-1].index(load)
    steps = ["/pause", load, "/reset_prefix_cache", "/update_weight_version", "/resume"]
    assert [path for path in routes[last - 1 :] if path in steps][:5] == steps
    sampler.close()
    assert not server.adapters


def test_all_adapters_are_replaced_in_one_pause_before_their_version_is_set(
    model: Path, server: FakeVllm, tmp_path: Path
) -> None:
    policies = two(model)
    sampler = attach(server, policies, tmp_path)
    for policy in policies.values():
        change(policy, 5)
    server.calls.clear()
    sampler.update_weights(18)
    routes = [path.partition("?")[0] for path, _ in server.calls]
    update = ["/reset_prefix_cache", "/update_weight_version"]
    assert routes == ["/pause", *2 * ["/v1/load_lora_adapter"], *update, "/resume"]
    change(policies["aux"], 6)
    sampler.update_weights(19)
    server.forget()  # as if started anew: it gets both again, and those of `main` did not change
    drawn(policies["main"], sampler, 1)
    assert server.version.startswith("aux@19-")


def test_a_server_that_hung_gets_its_adapters_anew(
    model: Path, server: FakeVllm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    policies = two(model)
    sampler = attach(server, policies, tmp_path)
    names, ask, lost = set(server.adapters), ServedInFlight.ask, [ServerLost("it hung")]

    def lost_once(served: ServedInFlight, requests: Any) -> Any:
        if lost:
            raise lost.pop()
        return ask(served, requests)

    monkeypatch.setattr(ServedInFlight, "ask", lost_once)
    server.calls.clear()
    (answer,) = drawn(policies["main"], sampler, 1)
    assert answer.versions == (17,) * len(answer.tokens) and server.adapters == names
    routes = [path for path, _ in server.calls if "lora" in path]
    assert routes == 2 * ["/v1/unload_lora_adapter", "/v1/load_lora_adapter"]
    change(policies["main"], 5)
    sampler.update_weights(18)  # in its place again
    assert server.calls[-4][1]["load_inplace"] and server.adapters == names


def test_unchanged_answers_are_plain_samples(model: Path, server: FakeVllm, tmp_path: Path) -> None:
    policies = full(model)
    sampler = attach(server, policies, tmp_path)
    policies["main"].seed(3)
    streamed = drawn(policies["main"], sampler.serve(), 4)
    log_probs, mask = policies["main"].log_probs("one", streamed)
    sampled = torch.tensor([value for one in streamed for value in one.log_probs])
    assert torch.allclose(log_probs[mask > 0].cpu(), sampled, atol=1e-5)
    assert all(one.versions == (17,) * len(one.tokens) for one in streamed)


def test_weights_that_the_run_has_not_published_are_a_lost_server(
    model: Path, server: FakeVllm, tmp_path: Path
) -> None:
    policies = full(model)
    served = attach(server, policies, tmp_path).serve()
    server.version = "default"
    with pytest.raises(ServerLost, match=r"version 'default', which this run has not published"):
        drawn(policies["main"], served, 1)
    server.version = "main@9-another"
    with pytest.raises(ServerLost, match="has not published"):
        drawn(policies["main"], served, 1)


def test_a_server_without_versions_is_refused(
    model: Path, server: FakeVllm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    served = attach(server, policies := full(model), tmp_path).serve()
    monkeypatch.setattr(type(served.client), "version", lambda client: None)
    with pytest.raises(
        SamplerError, match=r"which in_flight needs: take a newer vLLM, or set algo"
    ):
        drawn(policies["main"], served, 1)
