"""Configurations with shards: what is refused, before anything is spent."""

from __future__ import annotations

import pytest

from llm_decpomdp.benchmarks.config.errors import ConfigError, RunError
from llm_decpomdp.benchmarks.config.load import load_config
from llm_decpomdp.benchmarks.runs.train import train


@pytest.mark.parametrize(
    ("override", "what"),
    [
        ("algorithm.name=madpo", "algorithm madpo"),
        ("algorithm.name=maac", "a critic"),
        ("algorithm.critic=own", "a critic"),
        ("warm_start.source=gold", "a warm start"),
        ("algorithm.reward_model=model.json", "reward_model=.*model.json"),
    ],
)
def test_what_makes_other_passes_is_refused(quick: list[str], override: str, what: str) -> None:
    load_config(None, [*quick, override])
    with pytest.raises(ConfigError, match=f"{what} does not work with learner.fsdp_size"):
        load_config(None, [*quick, override, "learner.shards=2"])


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["output.checkpoint_every=0"], r"set output\.checkpoint_every"),
        (["policies.aux_0.device=cuda:1"], r"'aux_0' has device=cuda:1.*drop device"),
        (
            ["sampler.engine=vllm", "sampler.python=/p", "model.top_p=1"],
            r"inference\.engine=vllm works with one",
        ),
    ],
)
def test_what_several_processes_cannot_do_is_refused(
    quick: list[str], overrides: list[str], message: str
) -> None:
    shards = ["learner.shards=2", "output.checkpoint_every=1"]
    load_config(None, [*quick, *shards])
    with pytest.raises(ConfigError, match=message):
        load_config(None, [*quick, *shards, *overrides])


def test_a_run_has_as_many_processes_as_shards(quick: list[str]) -> None:
    config = load_config(None, [*quick, "learner.shards=2", "output.checkpoint_every=1"])
    with pytest.raises(RunError, match=r"needs 2 processes, and the run has 1: .*torchrun"):
        train(config, "quick")
