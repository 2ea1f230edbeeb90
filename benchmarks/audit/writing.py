"""Checks of the rows of a writing family: doubles, and references that degenerate texts beat.

Degenerate texts are made of references; a reward for writing must not confuse them with good ones.
"""

from __future__ import annotations

from collections.abc import Iterator

from llm_decpomdp.benchmarks.audit.degenerate import degenerate
from llm_decpomdp.benchmarks.audit.remarks import REFERENCE, Remark
from llm_decpomdp.env import DecPOMDPEnv

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
    """Compare the rewards of each row's references and degenerate texts."""
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
