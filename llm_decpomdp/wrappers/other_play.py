"""Other-play: in each task every agent sees another random renaming of words that are interchangeable.

A symmetry of a Dec-POMDP exchanges words in the observations and actions of all agents, and no reward changes.
Agents that are trained together may still agree on one of the words, which a stranger has no reason to choose.
With other-play each agent reads and writes under a renaming of its own, so such an agreement earns nothing. What
remains are conventions that do not depend on the words (Hu et al. 2020, arXiv 2003.02979).

The mode of a family declares the words as `interchangeable`. A renaming depends on the task and the agent alone,
so branches, workers and resumed runs need no further state. Records of an episode have the original words.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pettingzoo.utils.wrappers import BaseParallelWrapper

from llm_decpomdp.oracle import Oracle, answers
from llm_decpomdp.seeding import stream
from llm_decpomdp.validation import check_flags

Infos = dict[str, dict[str, float]]


class OtherPlayEnv(BaseParallelWrapper):  # type: ignore[misc]  # pettingzoo has no types
    """An environment that renames interchangeable words for each agent.

    Args:
        env: An environment whose mode declares `interchangeable` words.

    Raises:
        ValueError: If it declares none.
    """

    def __init__(self, env: Any) -> None:
        super().__init__(env)
        mode = getattr(env.unwrapped, "mode", None)
        self.groups: tuple[tuple[str, ...], ...] = tuple(getattr(mode, "interchangeable", ()))
        """Groups of words; the words of a group may be exchanged with each other."""
        if not self.groups:
            raise ValueError(
                f"other_play needs a family whose mode declares interchangeable words, as compose-v0 does with "
                f"convention='name', and {env} declares none: leave out other_play"
            )
        self.spec_kwargs = {**getattr(env, "spec_kwargs", {}), "other_play": True}
        """Arguments by which `make` builds it."""

    @property
    def num_turns(self) -> int:
        """Horizon, that of the environment."""
        return int(self.env.num_turns)

    def renaming(self, agent: str) -> dict[str, str]:
        """Return the word that an agent sees in place of each interchangeable word in the present task."""
        rng = stream(0, "other play", str(self.env.episode.task_id), agent)
        return {
            word: group[place]
            for group in self.groups
            for word, place in zip(group, rng.permutation(len(group)), strict=True)
        }

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, str], Infos]:
        """Start an episode; each agent reads its own renaming."""
        prompts, infos = self.env.reset(seed=seed, options=options)
        return self.renamed(prompts), infos

    def step(
        self, actions: Mapping[str, str]
    ) -> tuple[dict[str, str], dict[str, float], dict[str, bool], dict[str, bool], Infos]:
        """Take the agents' answers back to the original words, and let the environment judge them."""
        prompts, *outcome = self.env.step(self.original(actions))
        return (self.renamed(prompts), *outcome)

    def renamed(self, texts: Mapping[str, str]) -> dict[str, str]:
        """Return texts of agents as they read and write them."""
        return {agent: exchange_words(text, self.renaming(agent)) for agent, text in texts.items()}

    def original(self, texts: Mapping[str, str]) -> dict[str, str]:
        """Return texts of agents with the original words; anything but a text stays as it is."""
        texts = dict(texts)
        for agent, text in texts.items():
            if isinstance(text, str) and agent in self.env.possible_agents:
                words = {name: word for word, name in self.renaming(agent).items()}
                texts[agent] = exchange_words(text, words)
        return texts


def exchange_words(text: str, words: Mapping[str, str]) -> str:
    """Return a text with some whole words in place of others."""
    pattern = "|".join(map(re.escape, words))
    return re.sub(rf"\b(?:{pattern})\b", lambda match: words[match.group()], text)


def rename_for_agents(env: Any, enabled: bool = True) -> Any:
    """Return the environment with other-play; as it is if `enabled` is `False`."""
    check_flags(other_play=enabled)
    return OtherPlayEnv(env) if enabled else env


@answers.register
def _(env: OtherPlayEnv) -> Oracle:
    oracle = answers(env.env)
    return replace(oracle, references=env.renamed(oracle.references))
