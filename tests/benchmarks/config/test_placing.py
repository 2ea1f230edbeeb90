"""GPUs that policies are sampled on: what they may be, and that they add up."""

from __future__ import annotations

import pytest

from llm_decpomdp.agents.loading import bases
from llm_decpomdp.benchmarks.config.errors import ConfigError
from llm_decpomdp.benchmarks.config.load import load_config
from llm_decpomdp.benchmarks.config.placement import check_room, in_worker, served
from llm_decpomdp.benchmarks.config.teams import agents_of, policies_of
from llm_decpomdp.benchmarks.runs.train import train

SERVED = ["sampler.engine=vllm", "sampler.python=/a/python", "model.top_p=1"]
RAY = ["cluster.engine=ray", "cluster.rollout_workers=2", "algorithm.starts_per_bundle=1"]
LOCAL = RAY[1:]
APART = ["policies.aux_0.sample_on=[1]", "policies.main_0.sample_on=[2]", "model.device=cuda:0"]


def room(gpus: int | None, quick: list[str], *overrides: str) -> None:
    config = load_config(None, [*quick, *overrides])
    check_room(config, policies_of(config, agents_of(config, ["aux_0", "main_0"])), gpus)


@pytest.mark.parametrize("items", [[], ["policies.aux_0.device=cpu"], ["model.lora=null"]])
def test_policies_share_in_a_worker_what_they_share_where_they_learn(
    quick: list[str], items: list[str]
) -> None:
    values = [*quick, *SERVED, *LOCAL, "sampler.exact=false", "model.lora={r: 2}", *items]
    config = load_config(None, values)
    policies = policies_of(config, agents_of(config, ["aux_0", "main_0"]))
    hollow = in_worker(config, policies)
    assert all(spec.device.startswith("meta") for spec in hollow.values())
    assert bases(hollow) == bases(policies) and len(bases(policies)) == 1 + bool(items)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([*SERVED, "policies.aux_0.sample_on=[0,0]"], r"different GPUs.*got \[0, 0\]"),
        ([*SERVED, "policies.aux_0.sample_on=[]"], "must name different GPUs"),
        ([*SERVED, "policies.aux_0.sample_on=[-1]"], "must name different GPUs"),
        ([*SERVED, "policies.aux_0.sample_on=[first]"], r"policies\.aux_0\.sample_on"),
        (["policies.aux_0.sample_on=[1]"], r"samples: set policies\.aux_0\.device to cuda:1"),
        (["policies.aux_0={kind: gold, sample_on: [1]}"], r"unknown key of policies\.aux_0"),
        ([*SERVED, *APART[:1]], r"policies\.main_0\.sample_on is missing"),
        ([*SERVED, *APART, "model.lora={r: 2}"], "aux_0, main_0 have adapters on one base"),
        (
            [*SERVED, *APART, "policies.main_0.trainable=false"],
            r"has no server; it is sampled on policies\.main_0\.device",
        ),
        (
            [*SERVED, *APART, "sampler.flags={tensor_parallel_size: 2}"],
            r"aux_0\.sample_on=\[1\] names 1 GPUs, and inference.flags spread each server over 2",
        ),
        ([*SERVED, *APART, "sampler.flags={data-parallel-size: all}"], "above 0, got 'all'"),
        (
            [*SERVED[::2], "sampler.urls=[http://a:1,http://b:1]", *APART],
            "inference.urls names ones that run: drop either",
        ),
        ([*LOCAL, "policies.aux_0.sample_on=[0,1]"], "one GPU; name one"),
        (
            [*RAY, "policies.aux_0.sample_on=[1]", "cluster.worker_gpus=1"],
            r"sees the cluster.worker_gpus=1 .* raise that to 2",
        ),
        (["policies.aux_0.learn_on=[1]"], r"set policies\.aux_0\.device, as in cuda:2"),
    ],
)
def test_a_place_that_means_nothing_or_contradicts_another_is_refused(
    quick: list[str], values: list[str], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        load_config(None, [*quick, *values])


@pytest.mark.parametrize(
    ("values", "gpus", "message"),
    [
        ([*SERVED, *APART], 2, r"policies\.main_0\.sample_on=\[2\]: there are 2 GPUs, counted"),
        ([*LOCAL, "policies.aux_0.sample_on=[0]"], 0, "there are 0 GPUs$"),
        (
            [*SERVED, *APART, "policies.main_0.sample_on=[1,2]"],
            3,
            r"GPU 1 is promised to 2 servers \(of aux_0; main_0\).* to at most 0\.5",
        ),
        (
            [*SERVED, *APART, "policies.main_0.device=auto", "policies.main_0.sample_on=[0]"],
            2,
            r"GPU 0 is promised to a server \(of main_0\).* holds aux_0, main_0 as well",
        ),
    ],
)
def test_gpus_that_are_missing_or_promised_twice_are_refused(
    quick: list[str], values: list[str], gpus: int, message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        room(gpus, quick, *values)


def test_what_adds_up_is_taken(quick: list[str]) -> None:
    room(3, quick, *SERVED, *APART)
    room(0, quick)  # nothing is placed
    shared = [*SERVED, "policies.aux_0.sample_on=[0]", "policies.main_0.sample_on=[0]"]
    room(1, quick, *shared, "sampler.flags={gpu_memory_utilization: 0.3}")
    parts = "sampler.flags={tensor-parallel-size: 2, pipeline_parallel_size: 2}"
    same = [f"policies.{name}.sample_on=[1,2,3,4]" for name in ("aux_0", "main_0")]
    room(5, quick, *SERVED, *same, "model.lora={r: 2}", parts)
    room(2, quick, *LOCAL, "policies.aux_0.sample_on=[1]")
    far = ["policies.aux_0.sample_on=[1]", "cluster.worker_gpus=2"]
    room(0, quick, *RAY, *far)  # of nodes that this machine knows nothing of
    with pytest.raises(ConfigError, match="there are 2 GPUs"):  # of servers here
        room(2, quick, *RAY, *SERVED, "sampler.exact=false", *APART)


def test_a_run_counts_gpus_before_it_loads_or_writes(
    quick: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: object
) -> None:
    config = load_config(None, [*quick, *SERVED, *APART[:2]])
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)
    with pytest.raises(ConfigError, match="there are 2 GPUs"):
        train(config, "placed")


def test_policies_are_served_by_base() -> None:
    def groups(*overrides: str) -> list[list[str]]:
        config = load_config(None, ["model.name=tiny-random", *overrides])
        return served(policies_of(config, agents_of(config, ["aux_0", "main_0"])))

    assert groups() == [["aux_0"], ["main_0"]]
    assert groups("model.lora={r: 2}") == [["aux_0", "main_0"]]
    assert groups("model.lora={r: 2}", "policies.main_0.device=cpu") == [["aux_0"], ["main_0"]]
    assert groups("policies.aux_0.trainable=false") == [["main_0"]]
