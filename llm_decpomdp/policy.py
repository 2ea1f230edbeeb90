"""Protocols of policies: text in, completions out.

Environments and learners know policies by these protocols only; implementations live in
`llm_decpomdp.agents` and in users' own code. The protocols of a policy follow from the attributes of its class and
of the object itself, on every version of Python: attributes that `__getattr__` only forwards do not count.
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
"""Finish reason of a remote model that refused to answer, or whose answer a filter removed."""


class Usage(NamedTuple):
    """Number of tokens of a completion, as counted by a server."""

    prompt: int
    completion: int
    """Includes hidden reasoning tokens."""


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
    """True if the prompt was too long for the policy, and was cut or skipped."""
    usage: Usage | None = None
    """Counts of a server, which does not return the tokens themselves."""

    @property
    def truncated(self) -> bool:
        """True if the token limit ended the text."""
        return self.finish_reason == "length"

    @property
    def num_tokens(self) -> int | None:
        """Number of sampled tokens; `None` if unknown."""
        if self.tokens or self.skipped:
            return len(self.tokens)
        return None if self.usage is None else self.usage.completion

    @property
    def prompt_tokens(self) -> int | None:
        """Number of tokens of the prompt, as counted by a server; `None` if unknown."""
        return None if self.usage is None else self.usage.prompt

    @property
    def skipped(self) -> bool:
        """True if the prompt was too long and was not answered."""
        return self.finish_reason == "skip"


SKIPPED = Completion("", finish_reason="skip", long_prompt=True)
"""Completion of a prompt that is too long, where such prompts are skipped."""


class PromptTooLong(ValueError):
    """A prompt has more tokens than a policy takes.

    Args:
        message: The cause and the remedy.
        prompt: The prompt, which identifies its agent and episode.
    """

    def __init__(self, message: str, prompt: str) -> None:
        super().__init__(message)
        self.prompt = prompt

    def __reduce__(self) -> tuple[type[PromptTooLong], tuple[str, str]]:
        """Let another process raise it too."""
        return type(self), (str(self), self.prompt)


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
        """Sample one completion of `prompt`, and return its text."""
        ...


@runtime_checkable
class Seedable(Protocol):
    """A policy whose sampling can be made reproducible."""

    def seed(self, seed: int) -> None:
        """Restart the sampler's random stream; `seed` lies in [0, 2**32)."""
        ...


@runtime_checkable
class Stateful(Protocol):
    """An object with state that can be saved and restored."""

    def state_dict(self) -> dict[str, Any]:
        """Return the state from which `load_state_dict` continues exactly."""
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
        """Compute differentiable log-probabilities of the sampled tokens of one prompt's completions.

        Returns:
            `(log_probs, mask)`, both (G, T) with T the longest completion in tokens: log-probabilities
            in nats at the sampling temperature, any finite number on padding, and 1 where a token was
            sampled, 0 on padding.
        """
        ...

    def parameters(self) -> Iterator[torch.nn.Parameter]:
        """Return the parameters to train."""
        ...

    def save(self, folder: Path) -> None:
        """Write the weights and the tokenizer to `folder`, in the formats of their own libraries."""
        ...


@runtime_checkable
class GatheredPolicy(Policy, Protocol):
    """A policy whose weights may lie in shards, one in each process: it samples with a copy of all of them."""

    def gather(self) -> None:
        """Bring that copy up to date; all processes call this at the same time, before they sample."""
        ...


@runtime_checkable
class ReferencedPolicy(TrainablePolicy, Protocol):
    """A trainable policy that keeps its weights from before training as a reference."""

    def keep_reference(self) -> None:
        """Make the current weights the reference."""
        ...

    def reference_log_probs(
        self, prompt: str, completions: Sequence[Completion]
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Compute `log_probs` under the reference, without a gradient."""
        ...


@runtime_checkable
class TeachablePolicy(TrainablePolicy, Protocol):
    """A trainable policy that can also learn from texts that it did not sample."""

    def as_completion(self, text: str) -> Completion:
        """Return a text as a completion, with the tokens of the text and the end-of-sequence token.

        What is longer than its token limit is cut there, and truncated.
        """
        ...


@runtime_checkable
class LexicalPolicy(Policy, Protocol):
    """A policy that tells what its tokens are: two with equal vocabularies read each other's."""

    @property
    def vocabulary(self) -> Mapping[str, int]:
        """The token ids, by token."""
        ...


@runtime_checkable
class PretrainedPolicy(Policy, Protocol):
    """A policy whose model was loaded from files."""

    @property
    def base_model(self) -> Mapping[str, str]:
        """The frozen weights of the policy: `name`, `weights` (a digest) and, for a model on the hub, `revision`.

        Empty if there are no frozen weights, or no files of them.
        """
        ...

    @property
    def reference_name(self) -> str:
        """The model that `ReferencedPolicy.keep_reference` makes the reference, in words."""
        ...


@runtime_checkable
class FeaturePolicy(ReferencedPolicy, Protocol):
    """A trainable policy whose reference reads texts for a critic."""

    def features(self, texts: Sequence[str]) -> torch.Tensor:
        """Return the features of texts under the reference, without a gradient.

        Returns:
            (B, d), float32.
        """
        ...


class Trunk(Protocol):
    """A part of a model that reads texts for a critic, and is trained to."""

    def features(self, texts: Sequence[str]) -> torch.Tensor:
        """Return the differentiable features of texts, (B, d), float32."""
        ...

    def parameters(self) -> Iterator[torch.nn.Parameter]:
        """Return the parameters to train."""
        ...


@runtime_checkable
class TrunkPolicy(TrainablePolicy, Protocol):
    """A policy whose model critics may share, each with parameters of its own."""

    def new_trunk(self, seed: int) -> Trunk | None:
        """Return a trunk that begins as the reference; `None` where the model itself is trained.

        Nothing that the policy says changes by it. `seed` decides its first parameters.
        """
        ...


@runtime_checkable
class ContextPolicy(Policy, Protocol):
    """A policy that knows which prompts are too long for it."""

    @property
    def on_long_prompt(self) -> str:
        """Treatment of such prompts: `raise` an error, `skip` them, or `truncate_left`."""
        ...

    def overflow(self, prompt: str) -> tuple[int, int] | None:
        """Count the tokens of a prompt that is too long, and those that would fit; `None` for any other."""
        ...


@runtime_checkable
class LimitedPolicy(Policy, Protocol):
    """A policy that knows its token limit."""

    @property
    def max_new_tokens(self) -> int:
        """The longest completion, in tokens, the end-of-sequence token included."""
        ...


@runtime_checkable
class CuttingPolicy(Policy, Protocol):
    """A policy that knows whether it samples from a part of its distribution alone."""

    @property
    def cuts(self) -> bool:
        """True if tokens are left out (`top_p`, `top_k`, greedy decoding) that `Completion.log_probs` counts."""
        ...


class Engine(Protocol):
    """A sampler that several policies share, such as one model with an adapter for each of them."""

    def generate(
        self, requests: Sequence[tuple[Policy, str]], num_samples: int = 1
    ) -> list[list[Completion]]:
        """Sample `num_samples` completions for each pair of a policy and its prompt, in one batch."""
        ...


@runtime_checkable
class RemoteEngine(Engine, Protocol):
    """An engine that may sample in another process, while this one waits or does something else."""

    @property
    def is_remote(self) -> bool:
        """True if it does; then it may be called in a thread of its own."""
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
    """A policy with access to the environment, such as an upper bound that knows the answers."""

    def generate_in(
        self, envs: Sequence[Any], agents: Sequence[str], num_samples: int = 1
    ) -> list[list[Completion]]:
        """Sample `num_samples` completions for each pair of an environment and the agent that acts in it."""
        ...


Team = Mapping[str, Policy]
"""Agent id to policy. Agents that share a policy *object* share its weights, its batch and its optimizer."""
