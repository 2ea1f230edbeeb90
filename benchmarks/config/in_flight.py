"""Checks of `algorithm.rollout.in_flight`: what it needs, and which promises it cannot keep."""

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
