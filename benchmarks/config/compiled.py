"""Checks of `model.compile` in a configuration: what cannot be combined with compiled layers."""

from __future__ import annotations

from collections.abc import Mapping

from llm_decpomdp.agents import PolicySpec
from llm_decpomdp.benchmarks.config.errors import ConfigError
from llm_decpomdp.benchmarks.config.schema import Config


def check_compiled(config: Config, policies: Mapping[str, PolicySpec]) -> None:
    """Check that no policy with `compile` is in shards, or in a run that promises equal bytes.

    Raises:
        ConfigError: If one is.
    """
    for name, spec in policies.items():
        if not (spec.compile and spec.can_be_trained):
            continue
        if config.learner.fsdp_size > 1:
            raise ConfigError(
                f"policy {name!r} has compile=true, and layers in shards are not compiled: set it to false, or "
                "learner.fsdp_size=1"
            )
        if config.learner.deterministic:
            raise ConfigError(
                f"policy {name!r} has compile=true, and rounding may depend on the lengths for which code was "
                "compiled, so learner.deterministic=true cannot promise equal bytes: set one of them to false"
            )
