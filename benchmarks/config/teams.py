"""Team of a configuration.

`team` names a policy for each agent, `policies` declares them:

```yaml
team:
  aux_0: helper
  main_0: partner
policies:
  helper: {lora: {r: 16}}
  partner: {kind: endpoint, name: Qwen/Qwen2.5-Coder-7B, base_url: http://localhost:8000/v1}
```

A policy has a `kind` (`model` if it says none) and the fields of `llm_decpomdp.agents.PolicySpec` that
the kind reads; those that `model:` has too are as there if the policy does not set them. A policy that the
team names and `policies` does not is as `model:` says.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from functools import cache
from importlib.util import find_spec
from typing import Any

from llm_decpomdp.agents import PolicySpec
from llm_decpomdp.agents.loading import TeamSpec
from llm_decpomdp.agents.models.pretrained import known_context
from llm_decpomdp.agents.policy_kinds import (
    POOL,
    check_declaration,
    check_device,
    endpoint_address,
    kind_fields,
)
from llm_decpomdp.benchmarks.config.errors import ConfigError, RunError
from llm_decpomdp.benchmarks.config.schema import FIELDS, Config, ModelConfig
from llm_decpomdp.env import DecPOMDPEnv
from llm_decpomdp.options import from_text
from llm_decpomdp.utils.extras import missing_models
from llm_decpomdp.validation import check_whole, unknown

logger = logging.getLogger(__name__)

SHARED = "shared"
"""Name of the policy of all agents, if they share it."""

OF_LORA = {
    **dict.fromkeys(("rank", "lora_r", "lora_rank"), "r"),
    **dict.fromkeys(("alpha", "scaling"), "lora_alpha"),
    **dict.fromkeys(("modules", "targets", "target"), "target_modules"),
}
"""Names that adapters' arguments often have, and peft's names."""


def code_of(config: Config) -> list[str]:
    """Return the paths of policies' classes that a configuration names, which saved teams may name then."""
    kinds = (str((policy or {}).get("kind")) for policy in config.policies.values())
    return [kind for kind in kinds if ":" in kind]


def endpoints_of(config: Config) -> list[str]:
    """Return the servers that a configuration's policies name, as `endpoint_address` writes them."""
    declared = ({**(policy or {})} for policy in config.policies.values())
    found = [endpoint_address(PolicySpec(**p)) for p in declared if p.get("kind") == "endpoint"]
    return [endpoint for endpoint in found if endpoint is not None]


def agents_of(config: Config, possible_agents: Sequence[str]) -> dict[str, str]:
    """Return the name of each agent's policy, in the order of the agents.

    Raises:
        ConfigError: If `team` does not name exactly the agents, or contradicts `model.shared`.
    """
    if not config.team:
        return {agent: SHARED if config.model.shared else agent for agent in possible_agents}
    if config.model.shared:
        raise ConfigError("`team` says who shares weights: drop model.shared")
    for agent in config.team:
        if agent not in possible_agents:
            raise ConfigError(unknown("agent in `team`", agent, possible_agents))
    missing = [agent for agent in possible_agents if agent not in config.team]
    if missing:
        raise ConfigError(f"`team` names no policy for {', '.join(missing)}")
    return {agent: config.team[agent] for agent in possible_agents}


def policies_of(config: Config, agents: Mapping[str, str]) -> dict[str, PolicySpec]:
    """Return the declarations of the policies, by name.

    Raises:
        ConfigError: If a declaration is wrong, or nobody plays a declared policy.
    """
    names = [*dict.fromkeys([*agents.values(), *config.policies])]
    log_undeclared(config, names)
    specs = {name: _policy_spec(config, name) for name in names}
    check_policies(config, agents, specs)
    return specs


def _policy_spec(config: Config, name: str) -> PolicySpec:
    """Return the declaration of a policy: its own keys, and for the rest those of `model`."""
    where, settings = f"policies.{name}", config.policies.get(name)
    settings = {} if settings is None else settings  # `helper:` in YAML is as `model:` says
    read = check_keys(where, settings)
    inherited = {key: value for key, value in asdict(config.model).items() if key in read}
    own = {key: value for key, value in settings.items() if f"model.{key}" in FIELDS}
    try:
        # `PolicySpec` also takes what only evaluations allow, such as temperature 0.
        from_text(ModelConfig, {"name": "", **own}, f"{where}.")  # whose limits are narrower
        return from_text(PolicySpec, {**inherited, **settings}, f"{where}.")
    except ValueError as error:
        raise ConfigError(str(error)) from None


def check_keys(where: str, settings: Any) -> tuple[str, ...]:
    """Return the fields of the kind of a declared policy, and raise a `ConfigError` if it has other keys.

    Args:
        where: The dotted key of its declaration, such as `policies.helper`.
        settings: The value of that key.
    """
    if not isinstance(settings, Mapping):
        raise ConfigError(f"{where} must be a mapping such as {{kind: gold}}, got {settings!r}")
    kind = settings.get("kind", "model")
    if kind == POOL:
        raise ConfigError(f"{where}: the section partners declares pools: set partners.pool")
    try:
        read = kind_fields(kind)
    except ValueError as error:
        raise ConfigError(f"{where}: {error}") from None
    for key in settings:
        if key == "learn_on":
            raise ConfigError(
                f"{where}.learn_on: a policy learns on its device: set {where}.device, as in cuda:2; over several "
                "GPUs learner.fsdp_size cuts all that learn"
            )
        if key not in ("kind", *read):
            raise ConfigError(unknown(f"key of {where} ({kind})", key, ("kind", *read)))
    return read


def check_policies(
    config: Config, agents: Mapping[str, str], specs: Mapping[str, PolicySpec]
) -> None:
    """Raise a `ConfigError` unless declared policies fit the agents and the environment."""
    try:
        check_declaration(agents, specs)
    except (KeyError, ValueError) as error:
        raise ConfigError(f"policies: {error.args[0]}") from None
    for name in agents.values():
        prefill = specs[name].prefill or specs[name].prefill_after
        if config.env.channel and prefill:
            raise ConfigError(
                f"the prefill {prefill!r} of {name!r} would begin every message of the channel, too: drop prefill "
                "and prefill_after, or env.channel"
            )


def log_undeclared(config: Config, names: Iterable[str]) -> None:
    """Log policies that `team` names and `policies` does not declare."""
    for name in names:
        if config.team and name not in config.policies:
            _log_undeclared(name, tuple(config.policies))


# A run reads its configuration several times.
@cache
def _log_undeclared(name: str, declared: tuple[str, ...]) -> None:
    listed = f" (declared are {', '.join(declared)})" if declared else ""
    logger.info(
        "team: policies declares no %r%s, so it is a new learner as model: says; to declare another policy, set "
        "policies.%s",
        name,
        listed,
        name,
    )


def samples_elsewhere(config: Config, policies: Mapping[str, PolicySpec]) -> bool:
    """Check whether servers or further GPUs sample policies; `placement` has the checks of such runs."""
    ray = config.cluster.engine == "ray"
    return (
        ray
        or config.inference.engine == "vllm"
        or any(spec.sample_on for spec in policies.values())
    )


def check_machine(config: Config, policies: Mapping[str, PolicySpec]) -> None:
    """Raise a `ConfigError` if this machine lacks a device or a program of a run, before models are loaded."""
    from llm_decpomdp.algorithms.learning.distributed import world_size

    check_models(config, policies)
    check_devices(config, policies, world_size())
    if samples_elsewhere(config, policies):
        from llm_decpomdp.benchmarks.config.placement import check_interpreter, check_room

        check_room(config, policies)
        check_interpreter(config)


def check_trainable(specs: Mapping[str, PolicySpec]) -> None:
    """Refuse to train a team that has nothing to learn with; it may be evaluated."""
    if not any(spec.can_be_trained for spec in specs.values()):
        kinds = ", ".join(f"{name}: {spec.kind}" for name, spec in specs.items())
        raise ConfigError(
            f"no policy of the team can be trained ({kinds}): make one a trainable model"
        )


def check_loading(config: Config, envs: Sequence[DecPOMDPEnv], team: TeamSpec) -> None:
    """Check what can be checked of a declared team before its models are loaded.

    Raises:
        ConfigError: If this machine lacks a device, or an option does not fit a model or the data.
        RunError: If a package is missing.
    """
    names, policies = team.agents, team.policies
    models = dict.fromkeys(str(spec.name) for spec in policies.values() if spec.kind == "model")
    if models:
        if reason := missing_models():
            raise RunError(reason)
    check_devices(config, policies)
    check_models(config, policies)
    check_references({agent: policies[name] for agent, name in names.items()}, envs)
    if models:
        logger.info("loading %s", ", ".join(models))


def check_devices(config: Config, specs: Mapping[str, PolicySpec], processes: int = 1) -> None:
    """Raise a `ConfigError` for a device that this machine does not have, or that all processes would share."""
    for name, spec in specs.items():
        has_key = "device" in (config.policies.get(name) or {})
        key = f"policies.{name}.device" if has_key else "model.device"
        try:
            check_device(spec.device)
        except ValueError as error:
            raise ConfigError(f"{key}: {error}") from None
        if processes > 1 and spec.device.startswith("cuda:"):
            raise ConfigError(
                f"{key}: {spec.device} would be the GPU of all {processes} processes of the run, and each process "
                "has its own GPU: set it to cuda or auto"
            )


def check_models(config: Config, specs: Mapping[str, PolicySpec]) -> None:
    """Raise a `ConfigError` for wrong adapters, or completions that may fill the context of a known model."""
    for name, spec in specs.items():
        if spec.lora and find_spec("peft") is not None:  # a dry run does without
            check_lora(spec.lora)
        context = known_context(str(spec.name)) if spec.kind == "model" else None
        if context is not None and spec.max_new_tokens >= context:
            has_key = "max_new_tokens" in (config.policies.get(name) or {})
            key = f"policies.{name}" if has_key else "model"
            raise ConfigError(
                f"{key}.max_new_tokens={spec.max_new_tokens:,} leaves no room for a prompt: {spec.name} has a "
                f"context of {context:,} tokens, of prompt and completion together; lower it"
            )


def check_lora(arguments: Mapping[str, Any]) -> None:
    """Raise a `ConfigError` for arguments that `peft.LoraConfig` does not take, or that would do nothing."""
    from peft import LoraConfig

    if arguments.get("lora_dropout"):
        raise ConfigError("lora.lora_dropout has no effect: models never use dropout here; drop it")
    if "task_type" in arguments:
        raise ConfigError("lora.task_type is always CAUSAL_LM; drop it")
    try:
        check_whole("lora.r", arguments.get("r", 1), 1)
    except ValueError as error:
        raise ConfigError(str(error)) from None
    for key in arguments:
        if key not in LoraConfig.__dataclass_fields__:
            if key in OF_LORA:
                raise ConfigError(f"unknown key of lora {key!r}; peft calls it {OF_LORA[key]!r}")
            raise ConfigError(unknown("key of lora", key, LoraConfig.__dataclass_fields__))


def check_references(specs: Mapping[str, PolicySpec], envs: Iterable[DecPOMDPEnv]) -> None:
    """Raise a `ConfigError` unless the data has an answer wherever a gold policy will be asked for one."""
    for env in envs:
        for role in env.roles:
            if specs[role.agent].kind != "gold":
                continue
            for task in env.tasks.tasks:
                if role.reference(task) is None:
                    reason = f"the data has no reference for it in task {task.task_id!r}"
                    raise ConfigError(f"{role.agent!r} cannot play gold: {reason}")
