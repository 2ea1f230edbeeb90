"""Policies: their protocols, their completions, and prompts with the earlier turns of an episode.

Environments and learners know policies by these protocols only; implementations are in `llm_decpomdp.agents` and
in users' code. A policy has a protocol if its class or the object itself has the attributes: attributes that
`__getattr__` only forwards do not count.

Features use further attributes of policies that have them (`policy_attribute`):

- `engine: Engine`: samples this policy in one batch with others that have the same object.
- `members`, `member(env)`: for a policy that stands for several, all of them, and the one that answers in an
  environment.
- `begin_batch(seed, *names)`: called before each batch of starts, with the run's seed and the batch's purpose.
- `generate_with_envs(envs, agents, num_samples)`: `generate` with access to environments, for upper bounds that
  know the answers.
- `gather()`: copies sharded weights for sampling; all processes call it at the same time.
- `finish_sampling()`: called by all processes when each has sampled, which some could not end alone.
- `on_long_prompt: str`: treatment of prompts that are too long: `raise`, `skip` or `truncate_left`.
- `overflow(prompt)`: for a prompt that is too long, its number of tokens and the number that fits; else `None`.
- `history: str`: `chat` for a policy that reads the `history` of a `Dialogue`, and is then given one.
- `max_new_tokens: int`: the maximum number of tokens of a completion, including the end-of-sequence token.
- `cuts: bool`: whether sampling leaves out tokens that `Completion.log_probs` counts (`top_p`, `top_k`, greedy).
- `encode_completion(text, prompt)`: a text as a completion, truncated at the token limit, for supervised training.
- `vocabulary: Mapping[str, int]`: token ids by token. Policies with equal ones read each other's tokens.
- `base_model: Mapping[str, str]`: `name`, `weights` (a digest) and `revision` of the frozen model; may be empty.
- `reference_name: str`: the model that `keep_reference` makes the reference, for messages.
- `features(texts)`: features of texts under the reference for critics, (B, d), float32, without a gradient.
- `new_trunk(seed)`: a trainable trunk for critics that starts as the reference; `None` if the model is trained.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

# Before Python 3.12 those of `typing` ask `hasattr`, which is true for names that `__getattr__` only forwards.
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
    """One sampled answer; the token fields are empty without a tokenizer (scripts, people, remote models)."""

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
    versions: tuple[int, ...] = ()
    """Version of the weights that sampled each token: the number of complete updates and warm start steps. Empty
    unless weights may change while a completion is written."""

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
    """A prompt has more tokens than a policy takes; `prompt` identifies its agent and episode."""

    def __init__(self, message: str, prompt: str) -> None:
        super().__init__(message)
        self.prompt = prompt

    def __reduce__(self) -> tuple[type[PromptTooLong], tuple[str, str]]:  # for other processes
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


def continues_earlier(policy: object) -> bool:
    """Check whether a policy continues from its earlier completions: it has a state, and no `seed` restarts it."""
    return isinstance(policy, Stateful) and not isinstance(policy, Seedable)


@runtime_checkable
class TrainablePolicy(Policy, Seedable, Stateful, Protocol):
    """A policy whose parameters a learner changes; its state holds weights and the sampler's random state.

    Its optional methods `count_tokens(prompt, completions)` and `log_probs_of_prompts(prompts)` let one pass
    compute several pairs of a prompt and its completions (`tokens_per_pass`). The second returns what `log_probs`
    returns for each pair. With a reference, `reference_log_probs_of_prompts` belongs to them.
    """

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


class Engine(Protocol):
    """A sampler that several policies share, such as one model with an adapter for each of them.

    Its optional attribute `is_remote` is true if it samples in another process; it may then be called in a thread.
    Its optional method `reuse_prefixes(dialogues)` returns a context for the turns of one collection of rollouts,
    in which it may reuse computations of earlier prompts; `dialogues` tells whether prompts have histories.
    Its optional method `prepare_backward(last)` is called before each backward pass of a model in shards.
    """

    def generate(
        self, requests: Sequence[tuple[Policy, str]], num_samples: int = 1
    ) -> list[list[Completion]]:
        """Sample `num_samples` completions for each pair of a policy and its prompt, in one batch."""
        ...


def policy_attribute(policy: object, name: str) -> Any:
    """Return an optional attribute of a policy or an engine (see above); `None` if it has none of that name."""
    # Forwarded names do not count: a proxy would claim the engine of the policy behind it, which samples past the
    # proxy.
    try:
        inspect.getattr_static(policy, name)
    except AttributeError:
        return None
    return getattr(policy, name)


def shared_engine(policy: Policy) -> Engine | None:
    """Return the engine that samples a policy in one batch with others; `None` without one."""
    engine: Engine | None = policy_attribute(policy, "engine")
    return engine


Team = Mapping[str, Policy]
"""Agent id to policy. Agents that share a policy *object* share its weights, its batch and its optimizer."""


def distinct_policies(team: Team) -> dict[str, Policy]:
    """Return the team's policy objects, each named by the agents that share it, such as `aux_0+main_0`."""
    agents: dict[int, list[str]] = {}
    for agent, policy in team.items():
        agents.setdefault(id(policy), []).append(agent)
    return {"+".join(names): team[names[0]] for names in agents.values()}


# Prompts with the earlier turns of their agent in the episode (`history: chat`)

CHAT = "chat"
"""`history` of a policy that reads the earlier turns of its agent in the episode."""


class DialogueTurn(NamedTuple):
    """An earlier turn of an agent in its episode."""

    prompt: str
    answer: Completion
    """What was played, without log-probabilities."""


class Dialogue(str):
    """A prompt with the earlier turns of its agent in the episode, for policies whose `history` is `chat`.

    It is the text of the newest prompt. Two dialogues are equal if their texts and histories are; a text is equal
    to each dialogue that ends with it.

    Args:
        text: The newest prompt.
        history: The earlier turns, the first one first.
    """

    history: tuple[DialogueTurn, ...]

    def __new__(cls, text: str, history: Sequence[DialogueTurn] = ()) -> Dialogue:
        """Return the text with a history."""
        dialogue = super().__new__(cls, text)
        dialogue.history = tuple(history)
        return dialogue

    def __eq__(self, other: object) -> bool:
        # `str.__eq__` gives NotImplemented for other types, which counts as true.
        return str.__eq__(self, other) is True and self.history == getattr(
            other, "history", self.history
        )

    def __ne__(self, other: object) -> bool:
        return not self == other  # that of `str` would leave the history out

    __hash__ = str.__hash__  # a class that defines `__eq__` has none otherwise


def turns_before(prompt: str) -> tuple[DialogueTurn, ...]:
    """Return the history of a prompt; empty for a plain text."""
    return prompt.history if isinstance(prompt, Dialogue) else ()


def turns_after(prompt: str, answer: Completion) -> tuple[DialogueTurn, ...]:
    """Return the history after an answer. A skipped prompt is left out, as its policy did not see it."""
    if answer.skipped:
        return turns_before(prompt)
    memory = Completion(answer.text, answer.tokens, finish_reason=answer.finish_reason)
    return (*turns_before(prompt), DialogueTurn(str(prompt), memory))


def to_messages(prompt: str) -> list[dict[str, str]]:
    """Return a prompt and its history as messages of a chat, each with `role` and `content`."""
    turns = [
        {"role": role, "content": text}
        for turn in turns_before(prompt)
        for role, text in (("user", turn.prompt), ("assistant", turn.answer.text))
    ]
    return [*turns, {"role": "user", "content": str(prompt)}]


def reads_history(policy: object) -> bool:
    """Check whether a policy reads the history of a `Dialogue`."""
    return bool(policy_attribute(policy, "history") == CHAT)
