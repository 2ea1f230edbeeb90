"""Kinds of policies: their fields, checks of declarations, policies that share weights, and those without."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from llm_decpomdp.agents.inference.options import Caching, ModelOptions, Sampling
from llm_decpomdp.agents.models.pretrained import explain_errors, model_source, saved_adapter
from llm_decpomdp.agents.remote.endpoint import (
    DEFAULT_ADDRESS,
    DEFAULT_VARIABLE,
    Endpoint,
    check_request,
)
from llm_decpomdp.agents.scripted import Constant, Gold, RandomText, Replay
from llm_decpomdp.options import default_of, names, pick
from llm_decpomdp.plugins import entry_point_plugins, find, is_added
from llm_decpomdp.policy import Policy, Seedable, TrainablePolicy
from llm_decpomdp.validation import unknown

if TYPE_CHECKING:
    from llm_decpomdp.agents.loading import PolicySpec

_ENDPOINT = ("base_url", "key_variable", "max_parallel", "timeout", "max_retries", "omit", "extra")

POOL = "pool"
"""Kind of an agent that partners of a pool play; only `partners` of a configuration declares it."""

KINDS: dict[str, tuple[str, ...]] = {
    "model": ("name", *names(ModelOptions), "trainable", "sample_on"),
    "endpoint": ("name", *names(Sampling), "history", *_ENDPOINT),
    "gold": (),
    "random": ("length",),
    "constant": ("text",),
    "replay": ("texts",),
    POOL: (),
}
"""Kinds of policies, and the fields of each."""

OWN = ("arguments",)  # fields of kinds outside of the package
_REQUIRED = {"model": "name", "endpoint": "name", "constant": "text", "replay": "texts"}

CLASSES: dict[str, Any] = {
    "endpoint": Endpoint,
    "gold": Gold,
    "random": RandomText,
    "constant": Constant,
    "replay": Replay,
}
"""Classes of the kinds that have no weights."""

POLICY_NAME = re.compile(r"[A-Za-z0-9_+-]+")
"""Names of policies are names of adapters and folders too."""


def endpoint_address(spec: PolicySpec) -> str | None:
    """Return the key's variable and the server of an endpoint, as `VARIABLE@ADDRESS`.

    `None` for other kinds, and for an endpoint without either: it uses `OPENAI_API_KEY` with `OPENAI_BASE_URL` or
    OpenAI's server, which only the user sets.
    """
    if spec.kind != "endpoint" or (spec.base_url, spec.key_variable) == (None, DEFAULT_VARIABLE):
        return None
    return f"{spec.key_variable}@{spec.base_url or DEFAULT_ADDRESS}"


def kind_fields(kind: str) -> tuple[str, ...]:
    """Return the fields of a kind of policy; raise a `ValueError` if the kind is unknown."""
    if kind not in KINDS and not is_added("policy", kind):
        names = [*KINDS, *(plugin.name for plugin in entry_point_plugins("policy"))]
        raise ValueError(f"{unknown('kind', kind, names)}. One of your own is 'module:NAME'")
    return KINDS.get(kind, OWN)


def check_fields(spec: PolicySpec) -> None:
    """Raise a `ValueError` unless a policy has the fields of its kind, and no others."""
    has = kind_fields(spec.kind)
    for declared in fields(spec):
        name = declared.name
        if name not in ("kind", *has) and getattr(spec, name) != default_of(declared):
            raise ValueError(
                f"a {spec.kind} policy has no {name}; it has {', '.join(has) or 'no options'}"
            )
    required = _REQUIRED.get(spec.kind)
    if required is not None and getattr(spec, required) is None:
        raise ValueError(f"a {spec.kind} policy needs {required}")
    if spec.kind == "endpoint":
        check_request(spec.omit, spec.extra)
    gpus = spec.sample_on
    if gpus is not None and (not gpus or min(gpus) < 0 or len(set(gpus)) < len(gpus)):
        raise ValueError(f"sample_on must name different GPUs, as in [0, 1], got {gpus}")
    if spec.lora is not None and not spec.trainable:
        raise ValueError("a new adapter that is not trained does nothing; leave out lora")


def check_device(name: str) -> None:
    """Raise a `ValueError` unless this machine has the device of a `PolicySpec`."""
    if name in ("auto", "cpu"):
        return
    import torch

    try:
        device = torch.device(name)
        if device.type in ("cpu", "meta"):  # on every machine
            return
        present = (device.index or 0) < torch.get_device_module(device).device_count()
    except RuntimeError:  # a name that torch does not know, or nothing that computes
        present = False
    if not present:
        raise ValueError(f"this machine has no device {name!r}: use auto or cpu")


def check_declaration(agents: Mapping[str, str], policies: Mapping[str, PolicySpec]) -> None:
    """Check that every agent has a policy, and every policy an agent and a name that is fit for a folder.

    Raises:
        KeyError: If an agent's policy is not declared.
        ValueError: If no agent plays a policy, or a name is not fit.
    """
    for agent, name in agents.items():
        if name not in policies:
            raise KeyError(f"agent {agent!r}: {unknown('policy', name, policies)}")
    for name in policies:
        if not POLICY_NAME.fullmatch(name):
            raise ValueError(
                f"a policy's name must be made of letters, digits, '_', '+' and '-', got {name!r}"
            )
        if name not in agents.values():
            names = ", ".join(sorted(set(agents.values())))
            raise ValueError(
                f"no agent plays the policy {name!r}; policies that are played: {names}"
            )


def bases(policies: Mapping[str, PolicySpec]) -> list[list[str]]:
    """Group the names of policies with a model by the weights that `load_team` has in memory once for them.

    Raises:
        ValueError: If a declaration is wrong.
        OSError: If a model is not found.
    """
    groups = {name: tuple(group) for _, group in shared_bases(policies) for name in group}
    models = (name for name, spec in policies.items() if spec.kind == "model")
    return [list(group) for group in dict.fromkeys(groups.get(name, (name,)) for name in models)]


def shared_bases(policies: Mapping[str, PolicySpec]) -> list[tuple[str, dict[str, PolicySpec]]]:
    """Return the groups of at least two policies with adapters on one base, with equal settings of it."""
    groups: dict[tuple[Any, ...], dict[str, PolicySpec]] = {}
    for name, spec in policies.items():
        base = _base_source(spec)
        if base is not None:
            computing = (
                spec.attn_implementation,
                spec.gradient_checkpointing,
                spec.fused_kernels,
                spec.compile,
                pick(Caching, spec),
            )
            key = (base, spec.compute_dtype, spec.device, spec.quantization, *computing)
            groups.setdefault(key, {})[name] = spec
    return [(key[0], group) for key, group in groups.items() if len(group) > 1]


def _base_source(spec: PolicySpec) -> str | None:
    """Return the source of the model below a policy's adapter, for transformers; `None` without an adapter."""
    if spec.kind != "model" or spec.name is None:
        return None
    config = saved_adapter(spec.name)
    if config is not None and spec.lora is not None:
        raise ValueError(f"{spec.name!r} holds an adapter already; leave out lora")
    if config is None and spec.lora is None:
        return None
    name = spec.name if config is None else config["base_model_name_or_path"]
    with explain_errors(name):
        return str(model_source(name))


def build_policy(spec: PolicySpec, seed: int) -> Policy:
    """Build a policy without weights of its own, and give it its random stream."""
    if spec.kind in CLASSES:
        options = spec.options()
        if spec.kind == "endpoint":
            options["model"] = options.pop("name")
        policy: Policy = CLASSES[spec.kind](**options)
    else:
        policy = _build_own(spec)
    if isinstance(policy, Seedable):
        policy.seed(seed)
    return policy


def _build_own(spec: PolicySpec) -> Policy:
    """Build a policy of a class outside of the package, and set its declaration as `spec` for `save_team`."""
    if spec.kind == POOL:
        raise ValueError(
            "only partners.pool of a configuration loads a pool; in Python, call PartnerPool(members)"
        )
    try:
        build = find("policy", spec.kind, KINDS)
        if not (isinstance(build, type) and issubclass(build, Policy)):  # before anything is called
            raise TypeError(f"{build!r:.200} is no class of policies, with generate and act")
        policy = build(**spec.arguments)
    except (KeyError, TypeError) as error:
        raise ValueError(f"policy {spec.kind!r}: {error.args[0]}") from error
    if isinstance(policy, TrainablePolicy):
        raise ValueError(
            f"policy {spec.kind!r} can be trained, which only a Learner or Trainer in Python does with classes of "
            "others; leave out log_probs for a partner that does not change"
        )
    try:
        policy.spec = spec  # type: ignore[attr-defined]
    except AttributeError as error:
        raise ValueError(
            f"policy {spec.kind!r}: no `spec` can be set, which saving its team reads: drop __slots__"
        ) from error
    return policy
