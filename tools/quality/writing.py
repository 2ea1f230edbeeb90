"""Rewards for writing, by kind of text: `python -m tools.quality.writing`.

Prints a table in Markdown for each family and version. For every kind of text it has the mean, deviation, minimum
and maximum reward, and the share of rows in which the reference has a higher reward. v1 has a second table, of
imperfect texts. `--model` adds the first samples of a model. Degenerate texts should have a low reward.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from statistics import fmean, pstdev
from typing import Annotated

import numpy as np
import typer

from llm_decpomdp.env import DecPOMDPEnv
from llm_decpomdp.envs.datasets.loading import REFERENCE
from llm_decpomdp.envs.writing import grounded_reward, reward
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
from llm_decpomdp.registry import make
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


GENRES = ("tldr", "arxiv")
VERSIONS = {"v0": reward.MAX_REWARD, "v1": grounded_reward.MAX_REWARD}
"""The greatest reward of each version."""

GOAL = 0.95
"""The share of rows in which v1 must rank the reference before each kind of degenerate text."""


@dataclass(frozen=True)
class RewardRow:
    """Rewards of one kind of text."""

    env: str
    texts: str
    mean: float
    deviation: float
    least: float
    most: float
    reference_first: float
    """Share of rows in which the reference earns more."""
    rows: int


def compare(
    env: DecPOMDPEnv,
    seed: int = 0,
    make_texts: Callable[[DecPOMDPEnv, int], Iterator[tuple[Task, dict[str, Texts]]]] = nonsense,
) -> Iterator[RewardRow]:
    """Grade the references and the degenerate or imperfect texts of every row."""
    earned: dict[str, list[float]] = {}
    for task, kinds in make_texts(env, seed):
        for kind, texts in kinds.items():
            earned.setdefault(kind, []).append(env.reward(task, texts).reward)
    for kind, rewards in earned.items():
        yield summarise(env.spec_id, kind, rewards, earned[REFERENCE])


def summarise(
    env: str, kind: str, rewards: Sequence[float], references: Sequence[float]
) -> RewardRow:
    """Return the line of a kind of texts, row by row beside the references."""
    first = [best > reward for best, reward in zip(references, rewards, strict=True)]
    return RewardRow(
        env, kind, fmean(rewards), pstdev(rewards), min(rewards), max(rewards), fmean(first), len(first)
    )  # fmt: skip


def sample(
    genre: str, source: str, model: str, rows: int, temperature: float, max_new_tokens: int
) -> list[dict[str, str]]:
    """Return the texts of a model as each agent, for the first rows of the data."""
    from llm_decpomdp.agents.inference.options import Sampling
    from llm_decpomdp.agents.single_model import load_policy

    env = make(f"{genre}-v1", source=source, split="all")
    policy = load_policy(model, Sampling(temperature, max_new_tokens=max_new_tokens))
    prompts = [item for task in env.tasks.tasks[:rows] for item in env.mode.first(task).items()]
    answers = policy.generate([prompt for _, prompt in prompts])
    team = len(env.roles)
    texts = [(agent, group[0].text) for (agent, _), group in zip(prompts, answers, strict=True)]
    return [dict(texts[start : start + team]) for start in range(0, len(texts), team)]


def judge(env: DecPOMDPEnv, kind: str, samples: Sequence[dict[str, str]]) -> RewardRow:
    """Return the line of a model's samples."""
    tasks = env.tasks.tasks[: len(samples)]
    rewards = [env.reward(task, texts).reward for task, texts in zip(tasks, samples, strict=True)]
    references = [env.reward(task, task.references).reward for task in tasks]
    return summarise(env.spec_id, kind, rewards, references)


def table(lines: Sequence[RewardRow]) -> Iterator[str]:
    """Yield the lines of a table in Markdown."""
    yield "| texts | mean | sd | min | max | reference first | rows |"
    yield "|---|---|---|---|---|---|---|"
    for line in lines:
        first = "" if line.texts == REFERENCE else f"{line.reference_first:.0%}"
        yield (
            f"| {line.texts} | {_format(line.mean)} | {_format(line.deviation)} | {_format(line.least)} "
            f"| {_format(line.most)} "
            f"| {first} | {line.rows} |"
        )


def _format(value: float) -> str:
    return f"{round(value, 2) + 0.0:.2f}"  # no -0.00


def main(
    source: Annotated[str, typer.Option(help="Where the rows come from.")] = "bundled",
    seed: Annotated[int, typer.Option(help="Seed of shuffled and random words.")] = 0,
    model: Annotated[str | None, typer.Option(help="A model whose samples are graded too.")] = None,
    rows: Annotated[int, typer.Option(min=1, help="Rows that it writes about.")] = 12,
    max_new_tokens: Annotated[int, typer.Option(min=1, help="Longest sample.")] = 256,
    file: Annotated[
        Path, typer.Option(metavar="FILE", help="Where the numbers go, as JSON.")
    ] = Path("runs/writing_quality.json"),
) -> None:
    """Print what every kind of text earns."""
    logging.basicConfig(format="%(message)s")
    rewards: list[RewardRow] = []
    texts: dict[str, list[dict[str, str]]] = {}
    for genre in GENRES:
        if model is not None:
            for kind, temperature in ((f"{model}, greedy", 0.0), (f"{model}, T=0.8", 0.8)):
                texts[f"{genre}: {kind}"] = sample(
                    genre, source, model, rows, temperature, max_new_tokens
                )
        for version, most in VERSIONS.items():
            env = make(f"{genre}-{version}", source=source, split="all")
            lines = [*compare(env, seed)]
            for name, samples in texts.items():
                data, _, kind = name.partition(": ")
                lines += [judge(env, kind, samples)] if data == genre else []
            rewards += lines
            print(f"\n{env.spec_id}, at most {most:g}:\n", *table(lines), sep="\n")
            if version == "v1":
                print("\nImperfect texts:\n", *table([*compare(env, seed, imperfect)]), sep="\n")
    file.parent.mkdir(parents=True, exist_ok=True)
    numbers = {"lines": [asdict(line) for line in rewards], "samples": texts}
    file.write_text(json.dumps(numbers, indent=1, ensure_ascii=False), encoding="utf-8")


if __name__ == "__main__":
    typer.run(main)
