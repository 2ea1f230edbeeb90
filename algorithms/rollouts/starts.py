"""Checks of the starts of a run before anything is sampled, and prompts that are too long for a policy."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from llm_decpomdp.algorithms.rollouts.rollout import Start, TextEnv, reset_branch
from llm_decpomdp.algorithms.rollouts.sampling import distinct_policies
from llm_decpomdp.policy import Policy, PromptTooLong, Seedable, Stateful, Team, policy_attribute

MAX_NAMED = 10  # long prompts that a message names
# Starts in a row without a long prompt after which no more are looked at: a reset may run programs.
ENOUGH = 64


def check_starts(
    env: TextEnv,
    team: Team,
    starts: Sequence[Start],
    size: int | None,
    in_workers: bool,
) -> None:
    """Check that rollout batches can be sampled in any order, and that first prompts are short enough.

    Args:
        env: The environment.
        team: A policy for each agent.
        starts: All starts of the run.
        size: The option `rollout_batch_size`.
        in_workers: Whether other processes share the rollout batches.

    Raises:
        ValueError: If other processes would sample a whole update each, if a policy continues from its earlier
            completions, if a start leaves the choice to the environment's running generator, or if a first prompt
            is too long for its policy.
    """
    _check_order(team, starts, size, in_workers)
    require_short(env, team, starts)


def _check_order(team: Team, starts: Sequence[Start], size: int | None, in_workers: bool) -> None:
    if size is None:
        if in_workers:
            raise ValueError(
                "rollout workers share the batches of an update, and without rollout_batch_size an update is one "
                "batch: set it, such as to a fraction of an update's starts"
            )
        return
    for name, policy in distinct_policies(team).items():
        if isinstance(policy, Stateful) and not isinstance(policy, Seedable):
            raise ValueError(
                f"rollout_batch_size={size} samples batches in any order, and the policy of {name}, a "
                f"{type(policy).__name__}, continues from its earlier completions: drop rollout_batch_size, or "
                "give the policy a method `seed` that restarts it"
            )
    if Start() in starts:
        raise ValueError(
            f"rollout_batch_size={size} samples batches in any order, and a start with neither seed nor task_id "
            "is the environment's next random choice: give it a seed or a task_id, or drop rollout_batch_size"
        )


class LongPrompt(NamedTuple):
    """The first prompt of an agent that is too long for its policy, which takes `limit` tokens."""

    start: Start
    agent: str
    tokens: int
    limit: int


def long_first_prompts(
    env: TextEnv, team: Team, starts: Iterable[Start], handling: str
) -> list[LongPrompt]:
    """List the first prompts that are too long, for the policies whose `on_long_prompt` is `handling`.

    Looks no further after `ENOUGH` starts in a row that fit, so pass the starts with the most text first. Starts
    that leave the choice to the environment's running generator are left out.
    """
    policies = {
        agent: policy
        for agent, policy in team.items()
        if policy_attribute(policy, "on_long_prompt") == handling
    }
    seeded = [start for start in dict.fromkeys(starts) if start != Start()] if policies else []
    prompts: list[LongPrompt] = []
    fitting = 0
    for start in seeded:
        if fitting >= ENOUGH:
            break
        before = len(prompts)
        _, texts = reset_branch(env, start)
        for agent, policy in policies.items():
            if agent not in texts:  # it waits, or joins later
                continue
            over = overflow(policy, texts[agent])
            if over is not None:
                prompts.append(LongPrompt(start, agent, *over))
        fitting = fitting + 1 if len(prompts) == before else 0
    return prompts


def describe_prompts(prompts: Sequence[LongPrompt]) -> str:
    """Describe the first ten, as in "mine/5: main_0 sees 15,562 tokens of at most 4,080"."""
    parts = [
        f"{label(prompt.start)}: {prompt.agent} sees {prompt.tokens:,} tokens of at most {prompt.limit:,}"
        for prompt in prompts[:MAX_NAMED]
    ]
    rest = len(prompts) - len(parts)
    return "; ".join([*parts, f"and {rest} more"] if rest else parts)


def label(start: Start) -> str:
    """Return the task of a start, or its seed."""
    return f"seed {start.seed}" if start.task_id is None else start.task_id


def require_short(env: TextEnv, team: Team, starts: Iterable[Start]) -> None:
    """Raise a `ValueError` if a first prompt is too long for a policy that would raise one when it samples."""
    prompts = long_first_prompts(env, team, starts, "raise")
    if prompts:
        raise ValueError(
            f"first prompts are too long: {describe_prompts(prompts)}. Shorten them, make room (a lower "
            "max_new_tokens, a higher max_prompt_tokens), or set on_long_prompt to skip or truncate_left"
        )


@contextmanager
def name_long_prompts(
    team: Team, starts: Sequence[Start], prompts: Sequence[Mapping[str, str]]
) -> Iterator[None]:
    """Add the start and the agent to the error of a prompt that is too long."""
    try:
        yield
    except PromptTooLong as error:
        for start, texts in zip(starts, prompts, strict=True):
            for agent, text in texts.items():
                if text == error.prompt and overflow(team[agent], text) is not None:
                    raise ValueError(f"{label(start)}, {agent}: {error}") from error
        raise


def overflow(policy: Policy, prompt: str) -> tuple[int, int] | None:
    """Return the tokens of a prompt that is too long, and those that would fit; `None` for any other."""
    count: Callable[[str], tuple[int, int] | None] | None = policy_attribute(policy, "overflow")
    return None if count is None else count(prompt)
