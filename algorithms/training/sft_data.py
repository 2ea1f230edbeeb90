"""The demonstrations of a warm start: prompts with completions to imitate, from references or a file."""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from llm_decpomdp.algorithms.rollouts.rollout import Start, TextEnv, reset_branch
from llm_decpomdp.algorithms.training.warm_start import GOLD, WarmStartOptions
from llm_decpomdp.branching import acting_agents, message_turns
from llm_decpomdp.oracle import answers
from llm_decpomdp.policy import Completion
from llm_decpomdp.seeding import stream
from llm_decpomdp.utils.text import parse_lines
from llm_decpomdp.validation import unknown

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class SFTExample:
    """A completion to be imitated."""

    agent: str
    prompt: str
    completion: str | Completion
    """A text, or a completion as the agent's policy has sampled it: then its tokens are learned as they are."""


Demonstration = tuple[SFTExample, ...]
"""The examples that are learned together: those of all agents on a problem, of an episode, or a line of a file."""


def reference_demonstrations(
    env: TextEnv, starts: Sequence[Start], agents: Collection[str]
) -> list[Demonstration]:
    """Return the references of some agents to their first prompts: a demonstration for each start that has all.

    Where references depend on the turns so far, a demonstration has those of all turns of the episode they play.

    Raises:
        ValueError: If there are none; names the agent and the remedy.
    """
    demonstrations: list[Demonstration] = []
    missing: dict[str, int] = dict.fromkeys(agents, 0)
    for start in starts:
        state, prompts = reset_branch(env, start)
        # References are answers: with a channel the first turn is for messages, which stay empty.
        if (channel := message_turns(state)) is not None and channel.speaking:
            prompts = dict(state.step(dict.fromkeys(prompts, ""))[0])
        references = answers(state).references
        lacking = [agent for agent in agents if agent not in references]
        for agent in lacking:
            missing[agent] += 1
        if not lacking:
            examples = _referenced_turns(state, prompts, references, agents)
            first = [examples[agent] for agent in agents if agent in examples]
            demonstrations.append((*first, *_later_examples(state, references, agents)))
    if not demonstrations:
        agent = max(missing, key=missing.__getitem__)
        raise ValueError(
            f"a warm start on {GOLD} needs references, and the environment has none for {agent!r} in "
            f"{missing[agent]} of {len(starts)} problems: name a JSONL file of completions instead, raise share, "
            "or drop the warm start"
        )
    if len(demonstrations) < len(starts):
        logger.warning(
            "%d of %d problems have no references for all that learn, and are left out of the warm start",
            len(starts) - len(demonstrations),
            len(starts),
        )
    return demonstrations


def _referenced_turns(
    env: TextEnv, prompts: Mapping[str, str], references: Mapping[str, str], agents: Collection[str]
) -> dict[str, SFTExample]:
    """Return the references of agents to their first prompts, by agent.

    An agent that waits at first has its prompt after the references of those before it.
    """
    examples: dict[str, SFTExample] = {}
    while True:
        acting = acting_agents(env)
        for agent in acting:
            if agent in agents and agent not in examples:
                examples[agent] = SFTExample(agent, prompts[agent], references[agent])
        if len(examples) == len(agents):
            return examples
        prompts = dict(env.step({agent: references.get(agent, "") for agent in acting})[0])
        if not env.agents:
            return examples


def _later_examples(
    env: TextEnv, references: Mapping[str, str], agents: Collection[str]
) -> Iterator[SFTExample]:
    """Play on where references depend on the turns, and yield those of later turns, as long as they change."""
    while env.agents and answers(env).has_turns:
        acting = acting_agents(env)
        prompts = env.step({agent: references.get(agent, "") for agent in acting})[0]
        before, references = references, answers(env).references
        if not env.agents or references == before:
            return
        yield from (
            SFTExample(agent, prompts[agent], references[agent])
            for agent in acting_agents(env)
            if agent in agents and agent in references
        )


def read_demonstrations(path: Path, possible_agents: Sequence[str]) -> list[Demonstration]:
    """Read the demonstrations of a JSONL file, one for each line.

    A line has `prompt` and `completion`, each a text or a list of one message (`role` user or assistant, and
    `content`), and `agent`, which a team of one may leave out; other keys are ignored.

    Raises:
        ValueError: If the file cannot be read, is empty, or a line has another form; names the line.
    """
    parse = partial(_example, possible_agents=possible_agents)
    examples = parse_lines(path, "demonstrations for a warm start", parse)
    return [(example,) for example in examples]


def _example(line: str, possible_agents: Sequence[str]) -> SFTExample:
    row = json.loads(line)
    if not isinstance(row, dict):
        raise ValueError("a line must be an object with agent, prompt and completion")
    alone = possible_agents[0] if len(possible_agents) == 1 else None
    agent = row.get("agent", alone)
    if agent is None:
        raise ValueError(f"no agent: add one of {', '.join(possible_agents)}")
    if agent not in possible_agents:
        raise ValueError(unknown("agent", agent, possible_agents))
    return SFTExample(agent, _text(row, "prompt", "user"), _text(row, "completion", "assistant"))


def _text(row: Mapping[str, Any], key: str, role: str) -> str:
    value = row.get(key)
    match value:
        case str():
            return value
        case [{"role": str(found), "content": str(text)}] if found == role:
            return text
    raise ValueError(
        f"{key} must be a text or a list of one message of the {role}, got {str(value)[:80]!r}; a system prompt "
        "is set by model.system_prompt"
    )


def draw_share(items: Sequence[Any], share: float, seed: int) -> list[Any]:
    """Draw a share of some items, at least one; a larger share contains a smaller one, in the items' order."""
    count = max(1, math.ceil(share * len(items) - 1e-9))  # 0.3 * 10 is a little above 3
    # The first of one permutation, so that a larger share contains a smaller one.
    order = stream(seed, "warm start").permutation(len(items))[:count]
    return [items[position] for position in sorted(order)]


def batches(number: int, options: WarmStartOptions, seed: int) -> Iterator[list[int]]:
    """Yield the positions of the demonstrations of each step: all in each epoch, in an order by the seed."""
    for epoch in range(options.epochs):
        order = stream(seed, "warm start", epoch).permutation(number).tolist()
        yield from (
            order[first : first + options.batch_size]
            for first in range(0, number, options.batch_size)
        )
