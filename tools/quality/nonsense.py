"""Texts on which rewards for writing are tested: degenerate ones, which should earn little, and imperfect ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from llm_decpomdp.env import DecPOMDPEnv
from llm_decpomdp.envs.datasets.loading import REFERENCE
from llm_decpomdp.envs.writing.audit import (
    SENTENCE,
    Texts,
    degenerate,
    tasks_with_references,
    vocabulary_of_sources,
)
from llm_decpomdp.envs.writing.source_overlap import english
from llm_decpomdp.envs.writing.text_measures import STOP_WORDS
from llm_decpomdp.interfaces import Task
from llm_decpomdp.seeding import stream

MARKS = ".,;:!?()\"'"

TRANSITIONS = ("However,", "moreover", "for example", "finally")

ARTICLES = ("a", "an", "the", "my", "our", "his", "her", "their", "its", "this")

JOINTS = ("and", "of", "in", "with", "for", "but", "on", "that", "by")


@dataclass(frozen=True)
class Draft:
    """Material of a degenerate text."""

    source: str
    """The text of the post or abstract, without the headings of a post."""
    reference: str
    length: int
    """Words of the reference."""
    rng: np.random.Generator

    @property
    def words(self) -> list[str]:
        """Words of the source, with their marks."""
        return self.source.split()

    @property
    def bare(self) -> list[str]:
        """Words of the source without marks."""
        return [word for word in (word.strip(MARKS) for word in self.words) if word]

    @property
    def sentences(self) -> list[str]:
        """Sentences of the source."""
        return [sentence.strip() for sentence in SENTENCE.findall(self.source) if sentence.strip()]

    def choice(self, items: Sequence[str]) -> str:
        """Draw one of some items."""
        return items[int(self.rng.integers(len(items)))]

    def shuffle(self, items: Sequence[str]) -> list[str]:
        """Return the items in random order."""
        return [items[place] for place in self.rng.permutation(len(items))]


def random_runs(size: int) -> Callable[[Draft], list[str]]:
    """Return random runs of so many neighboring words of the source."""

    def write(draft: Draft) -> list[str]:
        text = draft.words
        starts = draft.rng.integers(max(1, len(text) - size + 1), size=-(-draft.length // size))
        return [" ".join(text[start : start + size]) for start in starts]

    return write


def shuffled_runs(size: int) -> Callable[[Draft], list[str]]:
    """Return runs of so many words of the reference in random order."""

    def write(draft: Draft) -> list[str]:
        text = draft.reference.split()
        return draft.shuffle([" ".join(text[i : i + size]) for i in range(0, len(text), size)])

    return write


def markov_chain(draft: Draft) -> list[str]:
    """Return a walk on which each word follows the last one somewhere in the source."""
    text = draft.words
    keys = [word.strip(MARKS).lower() for word in text]
    after: dict[str, list[int]] = {}
    for place, key in enumerate(keys[:-1]):
        after.setdefault(key, []).append(place + 1)
    places = [int(draft.rng.integers(len(text)))]
    while len(places) < draft.length:
        following = after.get(keys[places[-1]], range(len(text)))
        places.append(int(draft.rng.choice(following)))
    return [text[place] for place in places]


def shuffled_sentences(draft: Draft) -> list[str]:
    """Return the beginning of the source with its sentences in random order."""
    return " ".join(draft.shuffle(draft.sentences)).split()[: draft.length]


def first_sentence(draft: Draft) -> list[str]:
    """Return the first sentence of the source."""
    return draft.sentences[:1]


def sorted_words(draft: Draft) -> list[str]:
    """Return random words of the source in alphabetical order."""
    return sorted(draft.shuffle(draft.bare)[: draft.length])


def subset(draft: Draft) -> list[str]:
    """Return random words of the source, in its order."""
    text = draft.words
    return [text[place] for place in sorted(draft.rng.permutation(len(text))[: draft.length])]


def keywords(draft: Draft) -> list[str]:
    """Return a list of content words of the source, in its order."""
    text = [word for word in draft.bare if word.lower() not in STOP_WORDS]
    places = sorted(draft.rng.permutation(len(text))[: draft.length])
    return [f"{text[place]}," for place in places]


def alternating_words(draft: Draft) -> list[str]:
    """Return a stop word and a content word of the source in turn."""
    stop = [word for word in draft.bare if word.lower() in STOP_WORDS] or ["the"]
    rest = [word for word in draft.bare if word.lower() not in STOP_WORDS] or ["post"]
    return [f"{draft.choice(stop)} {draft.choice(rest)}" for _ in range(draft.length // 2)]


def joined_phrases(draft: Draft) -> list[str]:
    """Return an article or possessive with its noun, as the source has them, and a preposition in turn."""
    pairs = pairwise(draft.bare)
    phrases = [
        f"{a} {b}" for a, b in pairs if a.lower() in ARTICLES and b.lower() not in STOP_WORDS
    ]
    count = draft.length // 3
    pieces = [
        f"{draft.choice(phrases or ['the post'])} {draft.choice(JOINTS)}" for _ in range(count)
    ]
    return [*pieces, draft.choice(phrases or ["the post"])]


def stretch(draft: Draft) -> list[str]:
    """Return a random stretch of the source."""
    text = draft.words
    start = int(draft.rng.integers(max(1, len(text) - draft.length + 1)))
    return text[start : start + draft.length]


def inserted_words(draft: Draft) -> list[str]:
    """Return a stretch of the source with *also* after every third word."""
    return [f"{word} also" if place % 3 == 2 else word for place, word in enumerate(stretch(draft))]


def exchanged_words(draft: Draft) -> list[str]:
    """Return a stretch of the source with another word of the same class for every fourth one."""

    def kind(word: str) -> str:
        return "stop" if word.lower() in STOP_WORDS else english().token_class(word, begins=False)

    kinds: dict[str, list[str]] = {}
    for word in draft.bare:
        kinds.setdefault(kind(word), []).append(word)
    result = stretch(draft)
    for place in range(3, len(result), 4):
        if word := result[place].strip(MARKS):
            result[place] = result[place].replace(word, draft.choice(kinds[kind(word)]))
    return result


POLICIES: dict[str, Callable[[Draft], list[str]]] = {
    "random runs of 2": random_runs(2),
    "random runs of 3": random_runs(3),
    "random runs of 7": random_runs(7),
    "shuffled runs of 2": shuffled_runs(2),
    "shuffled runs of 3": shuffled_runs(3),
    "Markov chain": markov_chain,
    "shuffled sentences": shuffled_sentences,
    "first sentence": first_sentence,
    "sorted words": sorted_words,
    "every few words": subset,
    "keywords": keywords,
    "alternating words": alternating_words,
    "joined phrases": joined_phrases,
    "copy, words inserted": inserted_words,
    "copy, words exchanged": exchanged_words,
}
"""Policies that write without meaning. Shuffled runs are from the reference, all other texts from the source."""


def nonsense(env: DecPOMDPEnv, seed: int = 0) -> Iterator[tuple[Task, dict[str, Texts]]]:
    """Yield the texts of `degenerate` and the texts of `POLICIES`, which are closer to good texts.

    The texts of `POLICIES` end with a mark, and the texts of the second agent have four transitions, since both
    are easy to learn.

    Args:
        env: An environment of the writing families with a role for each text.
        seed: Seed of all random choices.
    """
    for task, kinds in degenerate(env, seed):
        for name, write in POLICIES.items():
            kinds[name] = {
                agent: _add_transitions(write(draft), draft, agent == env.possible_agents[-1])
                for agent in env.possible_agents
                for draft in [_draft(task, agent, stream(seed, name, task.task_id, agent))]
            }
        yield task, kinds


def imperfect(env: DecPOMDPEnv, seed: int = 0) -> Iterator[tuple[Task, dict[str, Texts]]]:
    """Yield, for each task with a reference of every agent, that and texts that are worse, by name.

    Args:
        env: An environment of the writing families with a role for each text.
        seed: Seed of all random choices.
    """
    agents = env.possible_agents
    vocabulary = vocabulary_of_sources(env)
    for task in tasks_with_references(env):
        references = {agent: task.references[agent] for agent in agents}
        kinds: dict[str, Texts] = {REFERENCE: references}
        for share in (0.1, 0.2, 0.3):
            for name, instead in (("replaced", vocabulary), ("left out", [""])):
                rng = stream(seed, name, str(share), task.task_id)
                kinds[f"{share:.0%} of words {name}"] = {
                    agent: _replace_words(text, share, instead, rng)
                    for agent, text in references.items()
                }
        kinds["first half"] = {a: _end(t[: len(t) // 2]) for a, t in references.items()}
        kinds["other agent's"] = dict(zip(agents, reversed(list(references.values())), strict=True))
        sentences = _draft(task, agents[0], stream(seed)).sentences
        first = {agent: " ".join(sentences[: 1 + 2 * i]) for i, agent in enumerate(agents)}
        kinds["first 1 and 3 sentences"] = first
        yield task, kinds


def _draft(task: Task, agent: str, rng: np.random.Generator) -> Draft:
    text = task.prompt.rpartition("POST:")[2].partition("TL;DR:")[0].strip()
    reference = task.references[agent]
    return Draft(text, reference, len(reference.split()), rng)


def _add_transitions(pieces: Sequence[str], draft: Draft, is_last: bool) -> str:
    result = list(pieces)
    for transition in TRANSITIONS if is_last else ():
        result.insert(int(draft.rng.integers(len(result) + 1)), transition)
    return _end(" ".join(result))


def _end(text: str) -> str:
    text = text.strip().rstrip(",;:")
    return text if text.endswith((".", "!", "?")) else f"{text}."


def _replace_words(
    text: str, share: float, instead: Sequence[str], rng: np.random.Generator
) -> str:
    """Replace a share of the words by random others; an empty one leaves no gap."""
    chosen = [
        instead[int(rng.integers(len(instead)))] if rng.random() < share else word
        for word in text.split()
    ]
    return _end(" ".join(word for word in chosen if word))
