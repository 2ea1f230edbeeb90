"""Prompts that are too long for a policy: found before a run begins, and named where they turn up later."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from llm_decpomdp.algorithms.rollouts.environment import TextEnv
from llm_decpomdp.algorithms.rollouts.rollout import Start, begin
from llm_decpomdp.policy import ContextPolicy, Policy, PromptTooLong, Team

MOST_TOLD = 10
"""How many long prompts are named."""

ENOUGH = 64
"""Starts in a row without a long prompt after which no more are looked at: a reset may run programs."""


class LongPrompt(NamedTuple):
    """The first prompt of an agent that is too long for its policy."""

    start: Start
    agent: str
    tokens: int
    limit: int
    """The most tokens that the policy takes."""


def long_first_prompts(
    env: TextEnv, team: Team, starts: Iterable[Start], handling: str
) -> list[LongPrompt]:
    """The first prompts that are too long for the policies which handle such ones in a certain way.

    Looks no further after `ENOUGH` starts in a row that fit.

    Args:
        env: The environment; it is reset. Starts that leave the choice to its running generator are left out.
        team: A policy for each agent.
        starts: How the episodes begin, best those with the most text first.
        handling: `raise`, `skip` or `truncate_left`.
    """
    policies = {
        agent: policy
        for agent, policy in team.items()
        if isinstance(policy, ContextPolicy) and policy.on_long_prompt == handling
    }
    known = [start for start in dict.fromkeys(starts) if start != Start()] if policies else []
    found: list[LongPrompt] = []
    fitting = 0
    for start in known:
        if fitting >= ENOUGH:
            break
        before = len(found)
        _, prompts = begin(env, start)
        for agent, policy in policies.items():
            over = policy.overflow(prompts[agent])
            if over is not None:
                found.append(LongPrompt(start, agent, *over))
        fitting = fitting + 1 if len(found) == before else 0
    return found


def in_words(found: Sequence[LongPrompt]) -> str:
    """Such as "mine/5: main_0 sees 15,562 tokens of at most 4,080"; names the first ten."""
    told = [
        f"{named(one.start)}: {one.agent} sees {one.tokens:,} tokens of at most {one.limit:,}"
        for one in found[:MOST_TOLD]
    ]
    rest = len(found) - len(told)
    return "; ".join([*told, f"and {rest} more"] if rest else told)


def named(start: Start) -> str:
    """The task of a start, or its seed."""
    return f"seed {start.seed}" if start.task_id is None else start.task_id


def require_short(env: TextEnv, team: Team, starts: Iterable[Start]) -> None:
    """Raise a `ValueError` if a first prompt is too long for a policy that would raise one when it is asked."""
    found = long_first_prompts(env, team, starts, "raise")
    if found:
        raise ValueError(
            f"first prompts are too long: {in_words(found)}. Shorten them, make room (a lower max_new_tokens, "
            "a higher max_prompt_tokens), or set on_long_prompt to skip or truncate_left"
        )


@contextmanager
def naming(
    team: Team, starts: Sequence[Start], prompts: Sequence[Mapping[str, str]]
) -> Iterator[None]:
    """Let the error of a prompt that is too long say whose it is, and where.

    Args:
        team: Those that are asked.
        starts: Of the episodes that are played.
        prompts: What the agents see in each of them.
    """
    try:
        yield
    except PromptTooLong as error:
        for start, texts in zip(starts, prompts, strict=True):
            for agent, text in texts.items():
                if text == error.prompt and _too_long(team[agent], text):
                    raise ValueError(f"{named(start)}, {agent}: {error}") from error
        raise


def _too_long(policy: Policy, prompt: str) -> bool:
    return isinstance(policy, ContextPolicy) and policy.overflow(prompt) is not None
