"""Checks of the rows of a writing family: doubles, and references that degenerate texts beat.

Degenerate texts are made of references; a reward for writing must not confuse them with good ones.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from llm_decpomdp.env import DecPOMDPEnv
from llm_decpomdp.envs.datasets.loading import REFERENCE, Remark
from llm_decpomdp.envs.writing.text_measures import words
from llm_decpomdp.interfaces import Task
from llm_decpomdp.seeding import stream

SENTENCE = re.compile(r"[^.!?]+[.!?]?")

Texts = Mapping[str, str]
"""A text for each agent."""

FULL_LENGTH = 0.5 - 1e-9
"""Points that the first level gives to texts of the right length."""


def about_writing(env: DecPOMDPEnv, seed: int = 0) -> Iterator[Remark]:
    """Look at every row of an environment's data, which was read when its tasks were loaded.

    | remark      | says                                                          | fault              |
    |-------------|---------------------------------------------------------------|--------------------|
    | `duplicate` | a source that another row has too                             | no                 |
    | `reference` | an agent has no reference                                     | no                 |
    | `length`    | the references have a length that earns little                | no                 |
    | `rank`      | a degenerate text earns as much as the reference              | of v1 only         |

    v0 does not look at the source, so a degenerate text that earns as much is no fault of a row there.

    Args:
        env: `tldr-v0`, `tldr-v1`, `arxiv-v0` or `arxiv-v1`, with a role for each text.
        seed: Seed of the degenerate texts.
    """
    tasks = env.tasks
    sources: dict[str, str] = {}
    for task in tasks.tasks:
        first = sources.setdefault(" ".join(task.prompt.split()), task.task_id)
        if first != task.task_id:
            yield Remark("duplicate", task.task_id, "", f"has the source of {first}")
        missing = [agent for agent in env.possible_agents if agent not in task.references]
        if missing:
            yield Remark("reference", task.task_id, "", f"no reference for {', '.join(missing)}")
    yield from _ranks(env, seed)


def _ranks(env: DecPOMDPEnv, seed: int) -> Iterator[Remark]:
    grounded = "grounding" in env.reward.components
    for task, kinds in degenerate(env, seed):
        verdicts = {kind: env.reward(task, texts) for kind, texts in kinds.items()}
        reference = verdicts.pop(REFERENCE)
        structure = reference.components["structure"]
        if structure < FULL_LENGTH:
            text = f"its lengths earn {structure:.2f} of 0.5"
            yield Remark("length", task.task_id, REFERENCE, text)
        for kind, verdict in verdicts.items():
            if verdict.reward >= reference.reward:
                text = f"earns {verdict.reward:.2f}, the reference {reference.reward:.2f}"
                yield Remark("rank", task.task_id, kind, text, fault=grounded)


def degenerate(env: DecPOMDPEnv, seed: int = 0) -> Iterator[tuple[Task, dict[str, Texts]]]:
    """Yield, for each task with a reference of every agent, that and the degenerate texts, by name.

    These have the reference's length, but for copies of the source.

    Args:
        env: An environment of the writing families with a role for each text.
        seed: Seed of all random choices. Random words are of all sources, each as likely as the others.
    """
    agents = env.possible_agents
    tasks = tasks_with_references(env)
    vocabulary = vocabulary_of_sources(env)
    for place, task in enumerate(tasks):
        rng = stream(seed, "degenerate", task.task_id)
        references = {agent: task.references[agent] for agent in agents}
        distant = tasks[(place + len(tasks) // 2) % len(tasks)]
        kinds: dict[str, Texts] = {
            "shuffled words": {a: _shuffle_words(text, rng) for a, text in references.items()},
            "random words": {a: _random(text, vocabulary, rng) for a, text in references.items()},
            "source copied": dict.fromkeys(agents, task.prompt),
            "another row's": {agent: distant.references[agent] for agent in agents},
            "one sentence": {a: _one_sentence(text) for a, text in references.items()},
        }
        if len(tasks) == 1:
            del kinds["another row's"]
        yield task, {REFERENCE: references, **kinds}


def tasks_with_references(env: DecPOMDPEnv) -> list[Task]:
    """Return the tasks that have a reference for every agent."""
    agents = set(env.possible_agents)
    return [task for task in env.tasks.tasks if agents <= set(task.references)]


def vocabulary_of_sources(env: DecPOMDPEnv) -> list[str]:
    """Return the words of all sources, each once and sorted."""
    return sorted({word for task in env.tasks.tasks for word in words(task.prompt)})


def _shuffle_words(text: str, rng: np.random.Generator) -> str:
    return " ".join(rng.permutation(text.split()))


def _random(text: str, vocabulary: Sequence[str], rng: np.random.Generator) -> str:
    return " ".join(rng.choice(vocabulary, len(text.split())))


def _one_sentence(text: str) -> str:
    match = SENTENCE.search(text)
    sentence = match[0].strip() if match else text
    return " ".join([sentence] * max(2, round(len(text) / max(len(sentence), 1))))
