"""What a policy is: text in, completions out.

Environments and learners know policies by these protocols only; implementations live in
`llm_decpomdp.agents` and in users' own code. What a policy can do is decided by its class, and by what was set
on the object itself, on every version of Python: what it only hands on by `__getattr__` does not count.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from typing_extensions import Protocol, runtime_checkable

if TYPE_CHECKING:
    import torch


REFUSAL = "refusal"
"""The finish reason of a remote model that refused to answer, or whose answer a filter took away."""


class Usage(NamedTuple):
    """How many tokens a server says that a completion took."""

    prompt: int
    completion: int
    """With those that a model thinks in and does not show."""


@dataclass(frozen=True)
class Completion:
    """One sampled answer.

    Policies without a tokenizer (scripted ones, people, remote models) leave the token fields empty.
    """

    text: str
    tokens: tuple[int, ...] = ()
    """The sampled token ids, the end-of-sequence token included when it was sampled, no padding."""
    log_probs: tuple[float, ...] = ()
    """Log-probability of each token in nats, at the sampling temperature and before `top_p` or `top_k` cut."""
    finish_reason: str = "stop"
    """`stop` when the policy ended the text itself, `length` when the token limit did, `skip` when the prompt was
    too long to be answered, `REFUSAL` when a remote model did not answer."""
    long_prompt: bool = False
    """Whether the prompt was too long for the policy, and was cut or skipped."""
    usage: Usage | None = None
    """What a server has counted, where it says so; it gives no tokens."""

    @property
    def truncated(self) -> bool:
        """Whether the token limit ended the text."""
        return self.finish_reason == "length"

    @property
    def num_tokens(self) -> int | None:
        """How many tokens were sampled; `None` where nobody knows."""
        if self.tokens or self.skipped:
            return len(self.tokens)
        return None if self.usage is None else self.usage.completion

    @property
    def prompt_tokens(self) -> int | None:
        """How many tokens the prompt had, where a server says it."""
        return None if self.usage is None else self.usage.prompt

    @property
    def skipped(self) -> bool:
        """Whether the prompt was too long, so that nothing was said."""
        return self.finish_reason == "skip"


SKIPPED = Completion("", finish_reason="skip", long_prompt=True)
"""What a policy says to a prompt that is too long, where such prompts are skipped."""


class PromptTooLong(ValueError):
    """A prompt has more tokens than a policy takes.

    Args:
        message: What to change.
        prompt: The prompt, by which its agent and episode are found.
    """

    def __init__(self, message: str, prompt: str) -> None:
        super().__init__(message)
        self.prompt = prompt


@runtime_checkable
class Policy(Protocol):
    """Maps prompts to completions."""

    def generate(self, prompts: Sequence[str], num_samples: int = 1) -> list[list[Completion]]:
        """Sample `num_samples` completions for each prompt, in one batch.

        Returns:
            One list of `num_samples` completions for each prompt, in the order of the prompts.
        """
        ...

    def act(self, prompt: str) -> str:
        """The text of one completion of `prompt`."""
        ...


@runtime_checkable
class Seedable(Protocol):
    """A policy whose sampling can be made reproducible."""

    def seed(self, seed: int) -> None:
        """Restart the sampler's random stream; `seed` lies in [0, 2**32)."""
        ...


@runtime_checkable
class Stateful(Protocol):
    """What changes while it is used, and can go on from where it was."""

    def state_dict(self) -> dict[str, Any]:
        """All that `load_state_dict` needs to continue exactly."""
        ...

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from `state_dict`'s value."""
        ...


@runtime_checkable
class TrainablePolicy(Policy, Seedable, Stateful, Protocol):
    """A policy whose parameters a learner changes; its state holds weights and the sampler's random state."""

    def log_probs(
        self, prompt: str, completions: Sequence[Completion]
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Differentiable log-probabilities of the sampled tokens of one prompt's completions.

        Returns:
            `(log_probs, mask)`, both (G, T) with T the longest completion in tokens: log-probabilities
            in nats at the sampling temperature, any finite number on padding, and 1 where a token was
            sampled, 0 on padding.
        """
        ...

    def parameters(self) -> Iterator[torch.nn.Parameter]:
        """The parameters to train."""
        ...

    def save(self, folder: Path) -> None:
        """Write the weights and the tokenizer to `folder`, in the formats of their own libraries."""
        ...


@runtime_checkable
class ReferencedPolicy(TrainablePolicy, Protocol):
    """A trainable policy that remembers what it was before training."""

    def keep_reference(self) -> None:
        """Take the weights as they are now for the reference."""
        ...

    def reference_log_probs(
        self, prompt: str, completions: Sequence[Completion]
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """`log_probs` under the reference, without a gradient."""
        ...


@runtime_checkable
class ContextPolicy(Policy, Protocol):
    """A policy that knows which prompts are too long for it."""

    @property
    def on_long_prompt(self) -> str:
        """What it does with them: `raise` an error, `skip` them, or `truncate_left`."""
        ...

    def overflow(self, prompt: str) -> tuple[int, int] | None:
        """The tokens of a prompt that is too long, and how many would fit; `None` of any other."""
        ...


class Engine(Protocol):
    """What several policies sample with, such as one model with an adapter for each of them."""

    def generate(
        self, requests: Sequence[tuple[Policy, str]], num_samples: int = 1
    ) -> list[list[Completion]]:
        """Sample `num_samples` completions for each pair of a policy and its prompt, in one batch."""
        ...


@runtime_checkable
class EnginePolicy(Policy, Protocol):
    """A policy that is sampled in one batch with the other policies of its engine."""

    @property
    def engine(self) -> Engine:
        """The engine; policies share a batch if they have the same object."""
        ...


@runtime_checkable
class PrivilegedPolicy(Policy, Protocol):
    """A policy that looks into the environment, such as an upper bound that knows the answers."""

    def generate_in(
        self, envs: Sequence[Any], agents: Sequence[str], num_samples: int = 1
    ) -> list[list[Completion]]:
        """`num_samples` completions for each pair of an environment and the agent that acts in it."""
        ...


Team = Mapping[str, Policy]
"""Agent id to policy. Agents that share a policy *object* share its weights, its batch and its optimizer."""
