"""Declaration of a policy: its kind, and the options of the kind."""

from __future__ import annotations

from dataclasses import MISSING, Field, field, fields
from typing import Any

from llm_decpomdp.agents.inference.options import Sampling
from llm_decpomdp.agents.models.options import ModelOptions
from llm_decpomdp.agents.remote.endpoint import (
    DEFAULT_ADDRESS,
    DEFAULT_VARIABLE,
    Endpoint,
    check_request,
)
from llm_decpomdp.options import Options, names, option_of
from llm_decpomdp.plugins import entry_point_plugins, is_added
from llm_decpomdp.validation import unknown

_ENDPOINT = ("base_url", "key_variable", "max_parallel", "timeout", "max_retries", "omit", "extra")

KINDS: dict[str, tuple[str, ...]] = {
    "model": ("name", *names(ModelOptions), "trainable", "sample_on"),
    "endpoint": ("name", *names(Sampling), *_ENDPOINT),
    "gold": (),
    "random": ("length",),
    "constant": ("text",),
    "replay": ("texts",),
}
"""Kinds of policies, and the fields that each of them reads."""

OWN = ("arguments",)
"""Fields that the kinds of others read."""

_REQUIRED = {"model": "name", "endpoint": "name", "constant": "text", "replay": "texts"}


class PolicyKind(Options):
    """Kind and name of a policy: the fields of `PolicySpec` that come first."""

    kind: str = "model"
    """Kind of the policy, one of those above, or of your own: `module:NAME` of a class with `generate` and `act`,
    or the name of one that an installed package announces."""
    name: str | None = None
    """The model: a name or folder as `load_policy` takes it, or its name on the endpoint."""


class PolicySpec(ModelOptions, PolicyKind):
    """A policy before anything is loaded.

    - `model`: a local model, with weights of its own, or with an adapter on a base that all policies with
      an adapter on it share.
    - `endpoint`: a model behind an OpenAI-compatible server.
    - `gold`: the data's own correct completions.
    - `random`: random characters.
    - `constant`: always the same text.
    - `replay`: the texts of a list, in order.
    - `module:NAME`: an object of your own class, called with `arguments`.

    Only a `model` can be trained.

    Raises:
        ValueError: If a value is out of its range, or the kind needs a field that is not set, or does not read one
            that is.
    """

    trainable: bool = True
    """Let learners change the weights; otherwise the policy is a frozen partner."""
    sample_on: list[int] | None = None
    """GPUs of its server (`inference.engine=vllm`), the same for all policies of one server, or the one of each
    rollout worker; it learns on `device`. Counted among those that are visible, from 0; null leaves a server the
    first ones, and a worker `device`."""
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
        read = kind_fields(self.kind)
        for declared in fields(self):
            name = declared.name
            if name not in ("kind", *read) and getattr(self, name) != field_default(declared):
                has = ", ".join(read) or "no options"
                raise ValueError(f"a {self.kind} policy has no {name}; it has {has}")
        required = _REQUIRED.get(self.kind)
        if required is not None and getattr(self, required) is None:
            raise ValueError(f"a {self.kind} policy needs {required}")
        check_request(self.omit, self.extra)
        gpus = self.sample_on
        if gpus is not None and (not gpus or min(gpus) < 0 or len(set(gpus)) < len(gpus)):
            raise ValueError(f"sample_on must name different GPUs, as in [0, 1], got {gpus}")
        if self.lora is not None and not self.trainable:
            raise ValueError("a new adapter that is not trained does nothing; leave out lora")

    @property
    def can_be_trained(self) -> bool:
        """True if a learner changes the policy."""
        return self.kind == "model" and self.trainable

    def options(self) -> dict[str, Any]:
        """Return the fields that the kind reads, and their values."""
        return {name: getattr(self, name) for name in kind_fields(self.kind)}


def endpoint_address(spec: PolicySpec) -> str | None:
    """Return the key's variable and the server of an endpoint, as `VARIABLE@ADDRESS`.

    `None` for other kinds, and for an endpoint that chooses neither: it asks the server of the user's own
    `OPENAI_BASE_URL`, or else OpenAI's, with `OPENAI_API_KEY`.
    """
    if spec.kind != "endpoint" or (spec.base_url, spec.key_variable) == (None, DEFAULT_VARIABLE):
        return None
    return f"{spec.key_variable}@{spec.base_url or DEFAULT_ADDRESS}"


def kind_fields(kind: str) -> tuple[str, ...]:
    """Return the fields that a kind of policy reads.

    Raises:
        ValueError: If there is no such kind, here or of others.
    """
    if kind not in KINDS and not is_added("policy", kind):
        names = [*KINDS, *(plugin.name for plugin in entry_point_plugins("policy"))]
        raise ValueError(f"{unknown('kind', kind, names)}. One of your own is 'module:NAME'")
    return KINDS.get(kind, OWN)


def field_default(declared: Field[Any]) -> Any:
    """Return the default of a field."""
    return declared.default if declared.default_factory is MISSING else declared.default_factory()


def check_device(name: str) -> None:
    """Raise a `ValueError` unless this machine has a device of that name, as `PolicySpec.device` takes it."""
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
