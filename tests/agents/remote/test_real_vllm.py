"""A real server of vLLM, where `LLM_DECPOMDP_VLLM_PYTHON` names its Python: minutes, mostly of its imports."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM

from llm_decpomdp.agents import CausalLM, Sampling, load_policy
from llm_decpomdp.agents.models.pretrained import tiny_model
from llm_decpomdp.agents.remote.options import PYTHON_VARIABLE, SamplerOptions
from llm_decpomdp.agents.remote.sampler import RemoteSampler
from llm_decpomdp.agents.remote.server import StartedServer, vllm_command, vllm_flags
from llm_decpomdp.policy import Completion
from tests.agents.remote.test_sampler import PROMPTS, change, draw, two

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(PYTHON_VARIABLE not in os.environ, reason=f"{PYTHON_VARIABLE} is not set"),
]

OPTIONS = SamplerOptions(engine="vllm", max_mismatch=1e-4)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model with heads of a size that vLLM has kernels for."""
    folder = tmp_path_factory.mktemp("model")
    config = LlamaConfig(
        vocab_size=257,
        hidden_size=128,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=2,
        head_dim=64,
        max_position_embeddings=1024,
        eos_token_id=256,
        bos_token_id=None,
        initializer_range=0.1,
    )
    with torch.random.fork_rng():
        torch.manual_seed(0)
        LlamaForCausalLM(config).save_pretrained(folder)
    AutoTokenizer.from_pretrained(tiny_model()).save_pretrained(folder)
    return folder


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("VLLM_CPU_KVCACHE_SPACE", "1")
    monkeypatch.setenv("VLLM_CPU_NUM_OF_RESERVED_CPU", "0")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    yield


def sampler_of(
    model: Path, policies: dict[str, CausalLM], tmp_path: Path, ranks: list[int]
) -> RemoteSampler:
    flags = vllm_flags("float32", ranks, cpu=True, context=1024)
    command = vllm_command(os.environ[PYTHON_VARIABLE], str(model), flags)
    engine = policies["main"].engine
    server = StartedServer(command, tmp_path / "server", OPTIONS.start_timeout)
    engine.remote = sampler = RemoteSampler(engine, policies, server, tmp_path / "server", OPTIONS)
    return sampler


def gap(policies: dict[str, CausalLM], answers: list[list[Completion]], prompts: Any) -> float:
    """Largest difference between the log-probabilities of server and learner."""
    worst, groups = 0.0, iter(answers)
    for text in prompts:
        for policy in policies.values():
            group = next(groups)
            with torch.no_grad():
                log_probs, mask = policy.log_probs(text, group)
            sampled = torch.tensor([p for c in group for p in c.log_probs])
            worst = max(worst, float((log_probs[mask > 0] - sampled).abs().max()))
    return worst


def test_adapters_are_sampled_as_they_learn_and_a_killed_server_changes_nothing(
    model: Path, tmp_path: Path
) -> None:
    policies = two(model, max_new_tokens=24, temperature=0.8)
    sampler = sampler_of(model, policies, tmp_path, [2, 2])
    sampler.update_weights(1)
    first = draw(policies)
    assert gap(policies, first, PROMPTS) < 1e-4
    assert first[0::2] != first[1::2]  # both were seeded alike
    assert draw(policies) == first
    change(policies["main"], 7)
    sampler.update_weights(2)
    second = draw(policies)
    assert gap(policies, second, PROMPTS) < 1e-4
    assert second[0::2] == first[0::2] and second[1::2] != first[1::2]
    listed = subprocess.run(["pgrep", "-f", f"serve {model}"], capture_output=True, text=True)
    os.kill(max(map(int, listed.stdout.split())), signal.SIGKILL)
    assert draw(policies) == second
    sampler.close()
    assert not subprocess.run(["pgrep", "-f", f"serve {model}"], capture_output=True).stdout


def test_all_weights_are_reloaded(model: Path, tmp_path: Path) -> None:
    sampling = Sampling(max_new_tokens=24, temperature=0.8)
    policies = {"main": load_policy(model, sampling, compute_dtype="float32")}
    sampler = sampler_of(model, policies, tmp_path, [])
    for version in (1, 2):
        with torch.no_grad():
            for weight in policies["main"].parameters():
                weight.mul_(1.1)
        sampler.update_weights(version)
        assert gap(policies, draw(policies), PROMPTS) < 1e-4
    sampler.close()
