"""The declaration of a policy: its kind, and what the kind needs to know."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from llm_decpomdp.agents.models.prompting import Prompting
from llm_decpomdp.agents.remote.endpoint import check_request
from llm_decpomdp.validation import unknown

_SAMPLING = ("temperature", "top_p", "top_k", "max_new_tokens")
_PROMPTING = ("system_prompt", "chat_template_kwargs", "max_prompt_tokens", "on_long_prompt")

KINDS: dict[str, tuple[str, ...]] = {
    "model": (
        *("name", *_SAMPLING, *_PROMPTING, "lora", "trainable", "compute_dtype", "device"),
        *("attn_implementation", "gradient_checkpointing"),
    ),
    "endpoint": (
        *("name", *_SAMPLING, "base_url", "key_variable", "max_parallel", "timeout", "max_retries"),
        *("omit", "extra"),
    ),
    "gold": (),
    "random": ("length",),
    "constant": ("text",),
    "replay": ("texts",),
}
"""The kinds of policies, and the fields that each of them reads."""

_NEEDED = {"model": "name", "endpoint": "name", "constant": "text", "replay": "texts"}


@dataclass(frozen=True)
class PolicySpec:
    """What a policy is, before anything is loaded.

    - `model`: a local model, with weights of its own, or with an adapter on a base that all policies with
      an adapter on it share.
    - `endpoint`: a model behind an OpenAI-compatible server.
    - `gold`: the data's own correct completions.
    - `random`: random characters.
    - `constant`: always the same text.
    - `replay`: the texts of a list, in order.

    Only a `model` can be trained.

    Raises:
        ValueError: If the kind is unknown, lacks what it needs, or does not read a field that is set.
    """

    kind: str = "model"
    name: str | None = None
    """The model: a name or folder as `load_policy` takes it, or what the endpoint calls it."""
    temperature: float = 1.0
    """Divides the logits."""
    top_p: float = 1.0
    """Draw among the most likely tokens that hold this share of the probability; 1 draws among all."""
    top_k: int = 0
    """Draw among this many most likely tokens; 0 draws among all."""
    max_new_tokens: int = 256
    """Longest completion, in tokens."""
    system_prompt: str | None = None
    """What the chat template's system message says; `None` sends no such message."""
    chat_template_kwargs: dict[str, Any] | None = None
    """Further variables of the chat template."""
    max_prompt_tokens: int | None = None
    """Most tokens of a prompt; `None` for as many as the model's context has room for."""
    on_long_prompt: str = "raise"
    """What happens to longer ones: `raise`, `skip` or `truncate_left`; see `Prompting`."""
    lora: dict[str, Any] | None = None
    """Arguments of `peft.LoraConfig`: train an adapter, and freeze the model."""
    trainable: bool = True
    """Whether learners change the weights; `False` makes a frozen partner."""
    compute_dtype: str = "auto"
    """`auto`, `float32` or `bfloat16`."""
    device: str = "auto"
    """`auto` (a GPU where there is one), or a torch device."""
    attn_implementation: str | None = None
    """How transformers computes attention, such as `sdpa`; `None` leaves it the choice."""
    gradient_checkpointing: bool = False
    """Compute activations twice instead of keeping them: less memory, more time."""
    base_url: str | None = None
    """Address of the endpoint's API."""
    key_variable: str = "OPENAI_API_KEY"
    """The environment variable that holds the endpoint's key."""
    max_parallel: int = 8
    """How many requests may wait for the endpoint at once."""
    timeout: float = 180.0
    """How long a request waits for the endpoint, in seconds, before it is tried again."""
    max_retries: int = 6
    """How many further tries a request has that may succeed later, as after the status 429 or 500."""
    omit: list[str] | None = None
    """What the model refuses and requests leave out: some of `n`, `seed`, `temperature`, `top_p`, `top_k`,
    `max_tokens`."""
    extra: dict[str, Any] | None = None
    """Further options of the endpoint's requests, as in `{max_completion_tokens: 2048}`."""
    length: int = 64
    """Characters of each random text."""
    text: str | None = None
    """What a constant policy says."""
    texts: list[str] | None = None
    """What a replay says."""

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(unknown("kind of policy", self.kind, KINDS))
        for field in fields(self):
            name = field.name
            if name not in ("kind", *KINDS[self.kind]) and getattr(self, name) != field.default:
                has = ", ".join(KINDS[self.kind]) or "no options"
                raise ValueError(f"a {self.kind} policy has no {name}; it has {has}")
        needed = _NEEDED.get(self.kind)
        if needed is not None and getattr(self, needed) is None:
            raise ValueError(f"a {self.kind} policy needs {needed}")
        check_request(self.omit, self.extra)
        if self.lora is not None and not self.trainable:
            raise ValueError("a new adapter that is not trained does nothing; leave out lora")
        self.prompting()

    @property
    def can_be_trained(self) -> bool:
        """Whether a learner changes the policy."""
        return self.kind == "model" and self.trainable

    def prompting(self) -> Prompting:
        """How a local model is asked."""
        options = {name: getattr(self, name) for name in _PROMPTING}
        return Prompting(**{**options, "chat_template_kwargs": self.chat_template_kwargs or {}})

    def options(self) -> dict[str, Any]:
        """The fields that the kind reads, and their values."""
        return {name: getattr(self, name) for name in KINDS[self.kind]}


def check_device(name: str) -> None:
    """Raise a `ValueError` unless this machine has a device of that name, as `PolicySpec.device` takes it."""
    if name in ("auto", "cpu"):
        return
    import torch

    try:
        device = torch.device(name)
        if device.type in ("cpu", "meta"):  # on every machine
            return
        found = (device.index or 0) < torch.get_device_module(device).device_count()
    except RuntimeError:  # a name that torch does not know, or nothing that computes
        found = False
    if not found:
        raise ValueError(f"this machine has no device {name!r}: use auto or cpu")
