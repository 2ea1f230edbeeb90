"""Configurations whose policies are sampled at servers: the same run through a death and again; refusals."""

from __future__ import annotations

import sys
import threading
from collections.abc import Sequence
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path

import pytest

from llm_decpomdp.agents.models.causal_lm import CausalLM
from llm_decpomdp.agents.remote.options import SamplerError
from llm_decpomdp.algorithms import Learner, Rollout
from llm_decpomdp.algorithms.rollout_workers.async_server import AsyncServerRollouts
from llm_decpomdp.algorithms.rollout_workers.base import RolloutBatch
from llm_decpomdp.algorithms.rollouts.rollout import Timer
from llm_decpomdp.benchmarks.config.errors import ConfigError, RunError
from llm_decpomdp.benchmarks.runs.resume import resume
from llm_decpomdp.benchmarks.runs.samplers import attach_samplers
from llm_decpomdp.benchmarks.runs.setup import load_config, load_policies, resolve
from llm_decpomdp.benchmarks.runs.train import Result, train
from llm_decpomdp.benchmarks.runs.workers import make_worker_state
from llm_decpomdp.utils.storage import read_json_lines
from tests.benchmarks.runs.conftest import Runs
from tests.support.fake_vllm import FakeVllm
from tests.support.processes import ROOT

LOUD = [
    "env.id=tldr-v1",
    "dataset.train_split=test[2:]",
    "dataset.eval_split=test[:2]",
    "model.max_new_tokens=40",
    "model.top_p=1.0",
    "algorithm.num_generations=4",
    "model.lora={r: 2}",
    "algorithm.learning_rate=0.01",
    "output.record_tokens=true",
    "output.checkpoint_every=1",
]
SERVED = [*LOUD, "sampler.engine=vllm", "sampler.max_mismatch=0.0001"]


def trained(result: Result) -> list[dict[str, object]]:
    return [r for r in read_json_lines(result.folder.episodes) if r["phase"] == "train"]


def weights(result: Result) -> list[bytes]:
    return [path.read_bytes() for path in sorted(result.team.rglob("*.safetensors"))]


def of_vllm(tmp_path: Path) -> str:
    """A Python that starts the fake where vLLM is asked for."""
    path = tmp_path / "python"
    command = f"exec env PYTHONPATH={ROOT} {sys.executable} -m tests.support.fake_vllm"
    path.write_text(f'#!/bin/sh\nshift 2\n{command} "$@"\n')
    path.chmod(0o755)
    return str(path)


@pytest.mark.slow
def test_a_run_is_the_same_with_a_server_that_dies_and_when_it_is_resumed(
    runs: Runs, quick: list[str], tiny_model: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    own = [f"sampler.python={of_vllm(tmp_path)}", "algorithm.max_updates=1", "output.name=begun"]
    runs.train(*SERVED, *own)
    with FakeVllm(folder(quick, tiny_model)) as server:
        urls = [f"sampler.urls=[{server.address}]"]
        ends = ["output.save_final_model=true"]
        further = ["sampler.python=null", "algorithm.max_updates=2", *urls, *ends]
        server.fault, server.fault_in = "dies", 1
        again = resume(tmp_path / "begun", further)
        assert "is lost" in caplog.text and not server.adapters
        server.calls.clear()
        alone = runs.train(*SERVED, *urls, *ends)
    loads = [body["lora_name"] for path, body in server.calls if path == "/v1/load_lora_adapter"]
    assert {name.partition("-")[0].partition("@")[2] for name in loads} >= {"0", "1"}
    assert trained(alone) == trained(again) and len(trained(alone)) == 2
    assert weights(alone) == weights(again) and len(weights(alone)) == 2
    rows = [row for row in read_json_lines(alone.folder.metrics) if row["kind"] == "train"]
    assert any(row["groups_without_signal"] < row["groups"] for row in rows)
    mismatches = [v for row in rows for key, v in row.items() if key.startswith("mismatch/")]
    assert mismatches and max(mismatches) < 1e-4


def test_with_a_lag_servers_are_asked_while_the_model_learns(
    quick: list[str], tiny_model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lagged = [*quick, *SERVED, "algorithm.rollout.max_async_level=1", "algorithm.max_updates=3"]
    ends = ["output.save_final_model=true"]
    learning, played = threading.Event(), threading.Event()
    threads: list[str] = []
    accumulate, sample = Learner.accumulate, AsyncServerRollouts._play

    def watched(self: Learner, rollouts: Sequence[Rollout]) -> dict[str, float]:
        learning.set()
        row = accumulate(self, rollouts)
        if self.updates < 2:  # the last update has nothing ahead
            assert played.wait(120)
        learning.clear()
        played.clear()
        return row

    def noted(
        self: AsyncServerRollouts, rollout_batches: Sequence[RolloutBatch], timer: Timer
    ) -> list[list[Rollout]]:
        threads.append(threading.current_thread().name)
        if threads[-1] == "MainThread":
            return sample(self, rollout_batches, timer)
        assert learning.wait(120)
        rolled = sample(self, rollout_batches, timer)
        played.set()
        return rolled

    monkeypatch.setattr(AsyncServerRollouts, "_play", noted)
    with FakeVllm(folder(quick, tiny_model)) as server:
        lagged += [f"sampler.urls=[{server.address}]"]
        with monkeypatch.context() as patch:
            patch.setattr(Learner, "accumulate", watched)
            ahead = train(load_config(None, [*lagged, *ends]), "ahead")
        monkeypatch.setattr(AsyncServerRollouts, "prefetch", lambda self, rollout_batches: None)
        after = train(load_config(None, [*lagged, *ends, "output.name=after"]), "after")
    assert sum(name != "MainThread" for name in threads) == 2
    assert trained(ahead) == trained(after) and len(trained(after)) == 3
    assert weights(ahead) == weights(after)


@pytest.mark.parametrize(
    ("items", "servers"),
    [
        (["cluster.engine=local", "cluster.rollout_workers=1"], 1),
        # Two bases, two engines, two servers, and a lag; and all weights of each model.
        pytest.param(
            ["policies.elaborator_0.device=cpu", "algorithm.rollout.max_async_level=1"],
            2,
            marks=pytest.mark.slow,
        ),
        pytest.param(
            ["model.lora=null", "algorithm.rollout.max_async_level=1"], 2, marks=pytest.mark.slow
        ),
        pytest.param(["cluster.engine=ray"], 1, marks=pytest.mark.slow),
    ],
)
def test_workers_ask_servers_themselves_and_play_what_one_process_plays(
    quick: list[str],
    tiny_model: str,
    items: list[str],
    servers: int,
    caplog: pytest.LogCaptureFixture,
) -> None:
    if "cluster.engine=ray" in items and find_spec("ray") is None:
        pytest.skip("needs Ray")
    shared = [
        "sampler.exact=false",
        "algorithm.rollout.rollout_batch_size=1",
        "output.save_final_model=true",
    ]
    sizes = ["algorithm.prompts_per_update=2", "algorithm.max_updates=2"]
    workers = ["cluster.rollout_workers=2", "output.name=shared", *items]
    values = [*quick, *SERVED, *shared, *sizes]
    alike = [item for item in items if not item.startswith("cluster.")]
    with ExitStack() as stack:
        model = folder(quick, tiny_model)
        running = [stack.enter_context(FakeVllm(model)) for _ in range(servers)]
        values += [f"sampler.urls=[{','.join(server.address for server in running)}]"]
        alone = train(load_config(None, [*values, *alike, "output.name=alone"]), "alone")
        running[-1].fault, running[-1].fault_in = "dies", 5
        with_workers = train(load_config(None, [*values, *workers]), "shared")
        assert "a rollout worker has lost a server" in caplog.text
        assert not any(server.adapters for server in running)
    assert trained(alone) == trained(with_workers) and len(trained(alone)) == 4
    assert weights(alone) == weights(with_workers) and len(weights(alone)) == 2
    rows = [row for row in read_json_lines(alone.folder.metrics) if row["kind"] == "train"]
    assert any(row["groups_without_signal"] < row["groups"] for row in rows)


def test_a_worker_has_no_weights_of_what_servers_sample(quick: list[str]) -> None:
    values = [*quick, "model.top_p=1", "sampler.engine=vllm", "sampler.python=/a/python"]
    frozen = ["policies.aux_0.trainable=false", "model.attn_implementation=flash_attention_2"]
    run = resolve(load_config(None, [*values, *frozen, "policies.aux_0.attn_implementation=eager"]))
    team = make_worker_state(run.config, run.team, *run.envs).team
    aux, main = team["aux_0"], team["main_0"]
    assert isinstance(aux, CausalLM) and isinstance(main, CausalLM)
    assert (aux.model.device.type, main.model.device.type) == ("cpu", "meta")
    assert aux.encode("hi") == main.encode("hi") and aux.engine.end_id == main.engine.end_id


def folder(quick: Sequence[str], tiny_model: str) -> str:
    """The folder of the tiny model."""
    run = resolve(load_config(None, list(quick)))
    policy = load_policies(run.config, (run.train_env, run.eval_env), run.team)["main_0"]
    assert isinstance(policy, CausalLM)
    return policy.name


def test_policies_with_weights_of_their_own_have_a_server_each(quick: list[str]) -> None:
    values = [*quick, "model.top_p=1", "sampler.engine=vllm"]
    run = resolve(load_config(None, [*values, "sampler.python=/a/python"]))
    team = load_policies(run.config, (run.train_env, run.eval_env), run.team)
    samplers = attach_samplers(run, team)
    assert [list(sampler.policies) for sampler in samplers.values()] == [["aux_0"], ["main_0"]]
    assert {agent: policy.engine.remote for agent, policy in team.items()} == samplers


def test_a_server_sees_the_gpus_that_its_policies_are_placed_on(
    quick: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "python"
    path.write_text('#!/bin/sh\necho "sees $CUDA_VISIBLE_DEVICES: $*"\n')
    path.chmod(0o755)
    values = [*quick, "model.top_p=1", "model.device=cpu", "sampler.engine=vllm"]
    placed = ["policies.aux_0.sample_on=[3]", "policies.main_0.sample_on=[0,2]"]
    run = resolve(load_config(None, [*values, *placed, f"sampler.python={path}"]))
    team = load_policies(run.config, (run.train_env, run.eval_env), run.team)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,5,6,GPU-7")
    words = []
    for sampler in attach_samplers(run, team).values():
        with pytest.raises(SamplerError):
            sampler.server.ready(lambda url: False)
        words.append(sampler.server.last_words())
    assert words[0].startswith("sees GPU-7: ") and "--tensor-parallel-size" not in words[0]
    assert words[1].startswith("sees 4,6: ") and "--tensor-parallel-size 2" in words[1]
    assert not any("--enforce-eager" in told for told in words)  # which is for a CPU


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (["sampler.exact=false"], "inference: exact=False means nothing with engine=transformers"),
        (["sampler.engine=vllm"], "vLLM needs a separate environment"),
        (
            ["sampler.engine=vllm", "sampler.python=/p", "sampler.urls=[http://x]"],
            "inference.python is for a server that the run starts",
        ),
        (["sampler.engine=vllm", "sampler.urls=[http://x]", "model.top_p=0.9"], "set top_p=1"),
        (["sampler.engine=vllm", "sampler.urls=[http://x]", "model.top_k=4"], "set top_k=0"),
        (
            ["sampler.engine=vllm", "sampler.urls=[http://x]", "warm_start.source=passes"],
            "warm_start.source=passes samples in the process that learns",
        ),
        (
            [
                *("sampler.engine=vllm", "sampler.urls=[http://x]"),
                *("cluster.rollout_workers=1", "algorithm.rollout.rollout_batch_size=1"),
            ],
            "set inference.exact=false, or cluster.rollout_workers=0",
        ),
        (
            [
                *("sampler.engine=vllm", "sampler.python=/p", "sampler.exact=false"),
                *("cluster.engine=ray", "cluster.rollout_workers=1", "cluster.address=head:6379"),
                "algorithm.rollout.rollout_batch_size=1",
            ],
            r"listen on this machine alone \(those that a run starts\)",
        ),
        (
            [
                *(
                    "sampler.engine=vllm",
                    "sampler.urls=['http://127.0.0.1:8000']",
                    "model.lora={r: 2}",
                ),
                *("cluster.engine=ray", "cluster.rollout_workers=1", "cluster.address=head:6379"),
                *("algorithm.rollout.rollout_batch_size=1", "sampler.exact=false"),
            ],
            r"listen on this machine alone \(http://127",
        ),
        *(
            (
                ["sampler.engine=vllm", "sampler.python=/p", "sampler.transfer=nccl", *further],
                f"inference.transfer=nccl: {message}.*inference.transfer=files",
            )
            for further, message in (
                (["model.lora={r: 2}"], "no policy learns all weights"),
                ([], r"policies.<name>.sample_on must name"),
                (["algorithm.rollout.max_async_level=1"], "the server may be lost"),
            )
        ),
    ],
)
def test_what_does_not_go_with_a_server_is_refused(
    runs: Runs, values: list[str], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LLM_DECPOMDP_VLLM_PYTHON", raising=False)
    with pytest.raises(ConfigError, match=message):
        runs.config("model.top_p=1", *values)


@pytest.mark.parametrize(
    ("urls", "message"),
    [
        ("http://a:1", r"names 1 servers.*have 2 bases \(aux_0; main_0\)"),
        ("http://a:1,http://b:1,http://c:1", "names 3 servers"),
        ("http://a:1,http://a:1/", "names a server twice"),
        ("http://a:1,b:1", "without a path, got 'b:1'"),
        ("http://a:1,ftp://b:1", "got 'ftp://b:1'"),
        ("http://a:1,http://b:port", "got 'http://b:port'"),
        ("http://a:1,http://b:0", "got 'http://b:0'"),
        ("http://a:1,http://b:1/v1", "got 'http://b:1/v1'"),
        ("http://a:1,'http://'", "got 'http://'"),
    ],
)
def test_addresses_of_servers_are_checked(quick: list[str], urls: str, message: str) -> None:
    values = [*quick, "model.top_p=1", "sampler.engine=vllm"]
    load_config(None, [*values, "sampler.urls=[http://a:1,https://b.org]"])
    with pytest.raises(ConfigError, match=message):
        load_config(None, [*values, f"sampler.urls=[{urls}]"])


def test_a_run_ends_with_last_words_of_its_server(runs: Runs, tmp_path: Path) -> None:
    path = tmp_path / "python"
    path.write_text("#!/bin/sh\necho no room on the device\nexit 1\n")
    path.chmod(0o755)
    own = [f"sampler.python={path}"]
    with pytest.raises(RunError, match=r"(?s)did not start.*no room on the device"):
        runs.train(*SERVED, *own)
