"""Checks of the section about servers that sample."""

from __future__ import annotations

from collections.abc import Mapping

from llm_decpomdp.agents.remote.options import SamplerOptions, check_untruncated
from llm_decpomdp.agents.specs import PolicySpec
from llm_decpomdp.algorithms.training.lessons import PASSES
from llm_decpomdp.benchmarks.config.errors import ConfigError
from llm_decpomdp.benchmarks.config.schema import Config
from llm_decpomdp.options import names


def check_sampler(config: Config, policies: Mapping[str, PolicySpec]) -> None:
    """Check the section `sampler` against the others.

    Raises:
        ConfigError: If a key means nothing, is missing, or does not go with sampling at servers.
    """
    sampler = config.sampler
    if not sampler.served:
        defaults = SamplerOptions()
        for name in names(SamplerOptions):
            if name != "engine" and getattr(sampler, name) != getattr(defaults, name):
                raise ConfigError(
                    f"sampler.{name} means nothing without a server: set sampler.engine=vllm, or drop it"
                )
        return
    for key in ("python", "flags") if sampler.urls else ():
        if getattr(sampler, key):
            raise ConfigError(
                f"sampler.{key} is for a server that the run starts, and sampler.urls names ones that run: drop "
                "either"
            )
    if config.cluster.rollout_workers:
        raise ConfigError(
            "cluster.rollout_workers does not go with sampler.engine=vllm, where the process that learns alone "
            "publishes and asks: set cluster.rollout_workers=0"
        )
    if config.warm_start.source == PASSES:
        raise ConfigError(
            "warm_start.source=passes samples in the process that learns: warm up in a run without "
            "sampler.engine=vllm, and begin this one with --from"
        )
    try:
        if not sampler.urls:
            sampler.interpreter()
        for name, spec in policies.items():
            if spec.can_be_trained:
                check_untruncated(name, spec)
    except ValueError as error:
        raise ConfigError(str(error)) from None
