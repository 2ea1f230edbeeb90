"""Degenerate texts, which a reward for writing must not confuse with good ones, made of references."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from llm_decpomdp.env import DecPOMDPEnv
from llm_decpomdp.envs.writing.text_measures import words
from llm_decpomdp.seeding import stream
from llm_decpomdp.tasks import Task

REFERENCE = "reference"

SENTENCE = re.compile(r"[^.!?]+[.!?]?")

Texts = Mapping[str, str]
"""A text for each agent."""


def degenerate(env: DecPOMDPEnv, seed: int = 0) -> Iterator[tuple[Task, dict[str, Texts]]]:
    """Yield, for each task with a reference of every agent, that and the degenerate texts, by name.

    These have the reference's length, but for copies of the source.

    Args:
        env: An environment of the writing families with a role for each text.
        seed: Decides the order of shuffled words and which words are random: words of all sources, each as
            likely as the others.
    """
    agents = env.possible_agents
    tasks = [task for task in env.tasks.tasks if set(agents) <= set(task.references)]
    vocabulary = sorted({word for task in env.tasks.tasks for word in words(task.prompt)})
    for place, task in enumerate(tasks):
        rng = stream(seed, "degenerate", task.task_id)
        references = {agent: task.references[agent] for agent in agents}
        distant = tasks[(place + len(tasks) // 2) % len(tasks)]
        kinds: dict[str, Texts] = {
            "shuffled words": {a: _shuffled(text, rng) for a, text in references.items()},
            "random words": {a: _random(text, vocabulary, rng) for a, text in references.items()},
            "source copied": dict.fromkeys(agents, task.prompt),
            "another row's": {agent: distant.references[agent] for agent in agents},
            "one sentence": {a: _one_sentence(text) for a, text in references.items()},
        }
        if len(tasks) == 1:
            del kinds["another row's"]
        yield task, {REFERENCE: references, **kinds}


def _shuffled(text: str, rng: np.random.Generator) -> str:
    return " ".join(rng.permutation(text.split()))


def _random(text: str, vocabulary: Sequence[str], rng: np.random.Generator) -> str:
    return " ".join(rng.choice(vocabulary, len(text.split())))


def _one_sentence(text: str) -> str:
    """Return the first sentence of a text, again and again."""
    match = SENTENCE.search(text)
    sentence = match[0].strip() if match else text
    return " ".join([sentence] * max(2, round(len(text) / max(len(sentence), 1))))
