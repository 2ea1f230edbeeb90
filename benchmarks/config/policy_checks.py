"""Checks of `model.compile` and `algorithm.rollout.in_flight`: what cannot be combined with them."""

from __future__ import annotations

from collections.abc import Mapping

from llm_decpomdp.agents import PolicySpec
from llm_decpomdp.benchmarks.config.errors import ConfigError
from llm_decpomdp.benchmarks.config.schema import Config


def check_in_flight(config: Config, policies: Mapping[str, PolicySpec]) -> None:
    """Check that weights may change while answers are written.

    Raises:
        ConfigError: If nothing samples while the learner learns, if weights cannot be sent to the workers while
            they sample, or if an option promises what depends on the time at which weights arrive.
    """
    # Not before: this loads transformers, which the checks of other runs do without.
    from llm_decpomdp.agents.inference.in_flight import refused_options

    cluster, learner = config.cluster, config.learner
    wrong = {
        "needs workers that sample while the learner learns: set cluster.rollout_workers": not (
            cluster.rollout_workers
        ),
        "sends weights to worker processes of this machine, and actors of cluster.engine=ray take them between "
        "batches only: set cluster.engine=local": cluster.engine == "ray",
        "gives no equal bytes, which learner.deterministic=true promises, because tokens depend on the time at "
        "which weights arrive: set learner.deterministic=false": learner.deterministic,
        "sends whole weights, and those of learner.fsdp_size are in shards: set learner.fsdp_size=1": (
            learner.fsdp_size > 1
        ),
    }
    local = config.inference.engine == "transformers"
    for name, spec in policies.items():
        if not local or spec.kind != "model":
            continue
        for key, value in refused_options(spec).items():
            wrong[
                f"samples with a cache that grows and in one batch, and policies.{name} has {key}={value}: drop it"
            ] = True
    for reason, is_so in wrong.items():
        if is_so:
            raise ConfigError(
                f"algorithm.rollout.in_flight=true {reason}, or set algorithm.rollout.in_flight=false"
            )


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
