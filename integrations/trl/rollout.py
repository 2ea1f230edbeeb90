"""Rollouts of several turns with the weights of a TRL trainer.

TRL scores a row as one sequence, so the turns of an agent are one conversation: in later turns the model sees the
earlier ones. With this library's learners, a policy sees only the prompt of the current turn.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from pettingzoo import ParallelEnv

from llm_decpomdp.branching import require_simultaneous
from llm_decpomdp.integrations.games import Games
from llm_decpomdp.integrations.trl.rewards import SEPARATOR, whole_teams
from llm_decpomdp.policy import Policy
from llm_decpomdp.validation import unknown

RolloutFunc: TypeAlias = Callable[[Sequence[str], Any], dict[str, Any]]
"""TRL's `rollout_func`: from prompts and the trainer to token ids and extra columns for rewards."""

ANSWER = "<<the model's answer>>"
"""Placeholder for an answer, to find the template's text after it."""

PROMPT = "<<the prompt>>"
"""Placeholder for a prompt, to find the template's text around it."""

RETURN = "team_return"
"""Column with the return of a row's agent, for `rollout_reward`."""


def rollout_reward(
    prompts: Sequence[Any], completions: Sequence[Any], team_return: Sequence[float], **_: Any
) -> list[float]:
    """Return the discounted return of each row's agent in the episode of `rollout_func`."""
    return list(team_return)


def rollout_func(
    env: ParallelEnv[str, Any, Any], partners: Mapping[str, Policy] | None = None
) -> RolloutFunc:
    """Return a rollout of whole episodes, in which the trainer's model plays all agents without a partner.

    Use it with `rollout_reward` and with the rows of `dataset(env, agents, keyed=True)` for those agents, in their
    order. It samples with transformers in the trainer's process, by a private method of TRL.

    Args:
        env: An environment of any number of turns.
        partners: Policies of agents that are not trained.

    Raises:
        KeyError: If there is no such agent.
        ValueError: If all agents have partners.
    """
    require_simultaneous(env, "rollout_func")
    partners = dict(partners or {})
    for agent in partners:
        if agent not in env.possible_agents:
            raise KeyError(unknown("partner", agent, env.possible_agents))
    discount = float(getattr(env.unwrapped, "discount", 1.0))
    learning = [agent for agent in env.possible_agents if agent not in partners]
    if not learning:
        raise ValueError("all agents have partners, so nobody learns: leave one out")

    def rollout(prompts: Sequence[str], trainer: Any) -> dict[str, Any]:
        if trainer.use_vllm:
            raise ValueError("rollout_func samples with transformers: set use_vllm=False")
        keys = [(task, agent) for task, _, agent in (p.rpartition(SEPARATOR) for p in prompts)]
        joint = whole_teams(keys, learning)
        games = Games(env, [keys[rows[learning[0]]][0] for rows in joint], partners)
        sequences = [_Sequence(trainer.processing_class) for _ in prompts]
        while games.running:
            _play_turn(games, joint, sequences, trainer, discount)
        return {
            "prompt_ids": [sequence.prompt for sequence in sequences],
            "completion_ids": [sequence.rest for sequence in sequences],
            "env_mask": [sequence.mask for sequence in sequences],
            "logprobs": None,
            RETURN: [sequence.earned for sequence in sequences],
        }

    return rollout


def _play_turn(
    games: Games,
    joint: Sequence[Mapping[str, int]],
    sequences: Sequence[_Sequence],
    trainer: Any,
    discount: float,
) -> None:
    """Let the model answer in all running episodes, in one batch, and step them."""
    requests = [(n, agent, row) for n in games.running for agent, row in joint[n].items()]
    for n, agent, row in requests:
        sequences[row].read(games.prompts[n][agent])
    ids, _ = trainer._generate_single_turn(
        [sequences[row].ids for *_, row in requests], None, {}, 1
    )
    texts: dict[int, dict[str, str]] = {n: {} for n in games.running}
    for (n, agent, row), answer in zip(requests, ids, strict=True):
        texts[n][agent] = sequences[row].write(answer)
    for n, rewards in games.step(texts).items():
        for agent, row in joint[n].items():
            sequence = sequences[row]
            # `write` has counted this turn already, and the first one is not discounted.
            sequence.earned += discount ** (sequence.turns - 1) * float(rewards[agent])


class _Sequence:
    """The tokens of one agent in one episode: its first prompt, then its answers and the prompts between them."""

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer
        self.prompt: list[int] = []
        self.rest: list[int] = []
        self.mask: list[int] = []
        self.turns = 0
        self.earned = 0.0

    @property
    def ids(self) -> list[int]:
        """All tokens so far."""
        return self.prompt + self.rest

    def read(self, prompt: str) -> None:
        """Add a prompt, whose tokens are not trained."""
        chat = bool(self.tokenizer.chat_template)
        if not self.prompt:
            self.prompt = self._chat(self._conversation, prompt) if chat else self._text(prompt)
            return
        if chat:
            ids = self._chat(self._prompt_after_answer, prompt)
            # The end of the message, which the model has already written.
            ids = ids[1:] if ids[:1] == self.rest[-1:] else ids
        else:
            ids = self._text(prompt, begins=False)
        self.rest += ids
        self.mask += [0] * len(ids)

    def _text(self, text: str, *, begins: bool = True) -> list[int]:
        """Tokenize a text without the end token that some tokenizers add; special tokens in it are plain text."""
        options = {"add_special_tokens": begins, "split_special_tokens": True}
        # Prompts may quote special tokens, which must not act as such.
        ids = list(self.tokenizer(text, **options).input_ids)
        # Some tokenizers end each text, after which a model would write nothing.
        return ids[:-1] if len(ids) > 1 and ids[-1] == self.tokenizer.eos_token_id else ids

    def _chat(self, write: Callable[[str], str], prompt: str) -> list[int]:
        """Tokenize a prompt with the template's text; special tokens in the prompt are plain text."""
        parts = [(write(prompt), False)]
        if any(token in prompt for token in self.tokenizer.all_special_tokens):
            before, _, after = write(PROMPT).partition(PROMPT)
            parts = [(before, False), (prompt, True), (after, False)]
        ids: list[int] = []
        for text, split in parts:
            options = {"add_special_tokens": False, "split_special_tokens": split}
            ids += self.tokenizer(text, **options).input_ids
        return ids

    def _prompt_after_answer(self, prompt: str) -> str:
        # Cut from a whole conversation: alone, the template would write the system's message again.
        return self._conversation("question", ANSWER, prompt).partition(ANSWER)[2]

    def _conversation(self, *texts: str) -> str:
        """Write alternating messages of the user and the model with the model's template."""
        roles = ("user", "assistant")
        messages = [{"role": roles[n % 2], "content": text} for n, text in enumerate(texts)]
        options = {"tokenize": False, "add_generation_prompt": True}
        return str(self.tokenizer.apply_chat_template(messages, **options))

    def write(self, answer: Sequence[int]) -> str:
        """Add an answer of the model and return its text."""
        self.turns += 1
        self.rest += answer
        self.mask += [1] * len(answer)
        return str(self.tokenizer.decode(answer, skip_special_tokens=True))
