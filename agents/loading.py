"""Declared policies and teams, and their loading."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from llm_decpomdp.agents.inference.options import Caching, ModelOptions, Prompting, Sampling
from llm_decpomdp.agents.models.pretrained import (
    explain_errors,
    is_adapter,
    load_pretrained,
    model_source,
)
from llm_decpomdp.agents.policy_kinds import (
    build_policy,
    check_declaration,
    check_device,
    check_fields,
    kind_fields,
    shared_bases,
)
from llm_decpomdp.agents.remote.endpoint import Endpoint
from llm_decpomdp.options import Options, option_of, pick
from llm_decpomdp.policy import Policy
from llm_decpomdp.seeding import stream

if TYPE_CHECKING:
    from llm_decpomdp.agents.models.causal_lm import CausalLM
    from llm_decpomdp.agents.models.engine import ModelEngine


class PolicyKind(Options):
    """Kind and name of a policy: the fields of `PolicySpec` that come first."""

    kind: str = "model"
    """Kind of the policy: one of those above, `module:NAME` of a class with `generate` and `act`, or the name that
    an installed package registers for its class."""
    name: str | None = None
    """The model: a name or folder (see `load_policy`), or its name on the endpoint."""


class PolicySpec(ModelOptions, PolicyKind):
    """A policy before it is loaded.

    - `model`: a local model that is trained itself, or an adapter on a base model, which adapters share.
    - `endpoint`: a model behind an OpenAI-compatible server.
    - `gold`: the correct completions of the data.
    - `random`: random characters.
    - `constant`: always the same text.
    - `replay`: the texts of a list, in order.
    - `pool`: partners of earlier runs, which the section `partners` of a configuration declares.
    - `module:NAME`: an object of your own class, called with `arguments`.

    Only a `model` can be trained.

    Raises:
        ValueError: If a value is out of its range, the kind needs a field that is not set, or a field is set that
            the kind does not have.
    """

    trainable: bool = True
    """Let learners change the weights; otherwise the policy is a frozen partner."""
    sample_on: list[int] | None = None
    """GPUs of its server (`inference.engine=vllm`; policies of one server have the same), or the GPU of each
    rollout worker. It learns on `device`. Numbers count the visible GPUs from 0. null: the first GPUs for a
    server, `device` for a worker."""
    base_url: str | None = option_of(Endpoint, "base_url")
    key_variable: str = option_of(Endpoint, "key_variable")
    max_parallel: int = option_of(Endpoint, "max_parallel")
    timeout: float = option_of(Endpoint, "timeout")
    max_retries: int = option_of(Endpoint, "max_retries")
    omit: list[str] | None = option_of(Endpoint, "omit")  # a field
    extra: dict[str, Any] | None = option_of(Endpoint, "extra")  # a field
    length: int = 64
    """Characters of each random text."""
    text: str | None = None
    """Completion of a constant policy."""
    texts: list[str] | None = None
    """Completions of a replay."""
    arguments: dict[str, Any] = field(default_factory=dict)
    """Keyword arguments of a class of your own."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_fields(self)

    @property
    def can_be_trained(self) -> bool:
        """True if a learner changes the policy."""
        return self.kind == "model" and self.trainable

    def options(self) -> dict[str, Any]:
        """Return the values of the kind's fields."""
        return {name: getattr(self, name) for name in kind_fields(self.kind)}


@dataclass(frozen=True)
class TeamSpec:
    """The declared team: who plays which policy, and what each of them is.

    A feature that takes some policies from elsewhere is a subclass.
    """

    agents: Mapping[str, str]
    """The name of each agent's policy, in the order of the agents."""
    policies: Mapping[str, PolicySpec]
    """The declaration of each policy, by name."""

    @property
    def models(self) -> str:
        """The names of the models, or the kinds of policies that have none."""
        return ", ".join(dict.fromkeys(spec.name or spec.kind for spec in self.policies.values()))

    def check(self) -> None:
        """Raise a `ValueError` for files that do not fit the team; no model is loaded."""

    def load(self, seed: int, hollow: bool = False) -> dict[str, Policy]:
        """Load a policy for each agent; raises the errors of `check` and of `load_team`."""
        return load_team(self.agents, self.policies, seed=seed, hollow=hollow)

    def describe_cost(self) -> list[str]:
        """Return lines on the memory of what is loaded besides the declared policies."""
        return []

    def identify(self) -> dict[str, Any]:
        """Identify the files of other policies than the declared ones, by a key of the manifest."""
        return {}


def load_team(
    agents: Mapping[str, str],
    policies: Mapping[str, PolicySpec],
    *,
    seed: int = 0,
    hollow: bool = False,
) -> dict[str, Policy]:
    """Load the policies of a team.

    Agents with one policy share its object, and so its weights. Policies with an adapter on the same base
    share one copy of the base, which is frozen, and are sampled in one batch.

    Args:
        agents: The name of each agent's policy, by agent id.
        policies: The declaration of each policy, by name.
        seed: Seed of the first weights of new adapters and of sampling, with a separate stream for each policy.
        hollow: Leave the weights of models that learn in their files, until `shard_team` reads them in parts.

    Returns:
        A policy for each agent.

    Raises:
        KeyError: If an agent's policy is not declared.
        ValueError: If no agent plays a policy, a policy's name or options are wrong, or a device is missing.
        ImportError: If a package is missing.
        OSError: If a model cannot be loaded.
    """
    check_declaration(agents, policies)
    for spec in policies.values():
        with explain_errors(str(spec.name)):
            check_device(spec.device)
    seeds = {name: int(stream(seed, "policy", name).integers(2**32)) for name in policies}
    by_name: dict[str, Policy] = {}
    for base, group in shared_bases(policies):
        with explain_errors(base):
            from llm_decpomdp.agents.adapters import load_shared

            by_name |= load_shared(base, group, seeds, hollow)
    for name, spec in policies.items():
        if name not in by_name:
            by_name[name] = (
                load_model(str(spec.name), spec, seeds[name], hollow and spec.can_be_trained)
                if spec.kind == "model"
                else build_policy(spec, seeds[name])
            )
        if spec.kind == "model" and not spec.trainable:
            freeze(cast("CausalLM", by_name[name]))
    return {agent: by_name[name] for agent, name in agents.items()}


def load_model(name: str | Path, options: ModelOptions, seed: int, hollow: bool) -> CausalLM:
    """Load a model that is trained itself, or through an adapter, as a policy.

    The trainable weights, all weights or those of an adapter, are float32. The weights below an adapter have the
    format of computing.
    """
    with explain_errors(name):
        source = model_source(name)  # before anything heavy is imported
        from llm_decpomdp.agents.models.causal_lm import CausalLM

        if is_adapter(source) or options.lora is not None:
            from llm_decpomdp.agents.adapters import load_adapted

            model, tokenizer = load_adapted(source, options, seed, hollow)
        else:
            model, tokenizer = load_pretrained(source, source, options, hollow, frozen=False)
        engine = make_engine(model, tokenizer, options)
        prompting = pick(Prompting, options)
        return CausalLM(engine, pick(Sampling, options), seed=seed, prompting=prompting)


def make_engine(model: Any, tokenizer: Any, options: ModelOptions) -> ModelEngine:
    """Return the engine of a loaded model, with the options of computing."""
    from llm_decpomdp.agents.models.engine import ModelEngine

    return ModelEngine(
        model,
        tokenizer,
        compute_dtype=options.compute_dtype,
        gradient_checkpointing=options.gradient_checkpointing,
        caching=pick(Caching, options),
        fused_kernels=options.fused_kernels,
        compile=options.compile,
    )


def freeze(policy: CausalLM) -> None:
    """Keep learners from changing a policy."""
    for parameter in list(policy.parameters()):
        parameter.requires_grad_(False)
        if policy.adapter is None:
            # Only optimizer steps need float32.
            parameter.data = parameter.data.to(policy.compute_dtype)
