"""The prompts of a run as its models see them: described, kept in the manifest, and checked before any update."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import Any

from llm_decpomdp.algorithms.rollouts.environment import TextEnv, reset_branch
from llm_decpomdp.algorithms.rollouts.rollout import Start
from llm_decpomdp.algorithms.rollouts.sampling import distinct_policies
from llm_decpomdp.benchmarks.config.errors import RunError
from llm_decpomdp.benchmarks.runs.setup import ResolvedRun
from llm_decpomdp.interfaces import Task
from llm_decpomdp.policy import Team

logger = logging.getLogger(__name__)


def describe(team: Team) -> None:
    """Log the prompting of each local model, once for each policy."""
    from llm_decpomdp.agents.models.causal_lm import CausalLM

    for agents, policy in distinct_policies(team).items():
        if isinstance(policy, CausalLM):
            logger.info("%s: %s", agents, policy.encoder.describe())


def first_prompts(env: TextEnv, team: Team, start: Start) -> dict[str, dict[str, Any]]:
    """Return the first prompt of each agent with a local model, as the model sees it: its `text` and `tokens`.

    One that is too long, and not cut, is left out.
    """
    from llm_decpomdp.agents.models.causal_lm import CausalLM

    encoded = {}
    _, prompts = reset_branch(env, start)
    for agent, policy in team.items():
        if isinstance(policy, CausalLM) and (
            policy.on_long_prompt == "truncate_left" or policy.overflow(prompts[agent]) is None
        ):
            ids = policy.encode(prompts[agent])
            encoded[agent] = {"text": policy.tokenizer.decode(ids), "tokens": len(ids)}
    return encoded


def without_long_prompts(run: ResolvedRun, team: Team) -> ResolvedRun:
    """Skip the training problems whose first prompt is too long for a policy that skips such ones.

    Raises:
        RunError: If one is too long for a policy that skips none, or no problem is left.
    """
    tasks = run.train_env.tasks.tasks
    run = run.skipping(left_out(run.train_env, team, _most_text_first(tasks)))
    played = [*run.batches, run.problems if run.config.algorithm.refill else []]
    in_batches = {start.task_id for batch in played for start in batch}
    held_out = _most_text_first(run.eval_env.tasks.tasks[: run.config.evaluation.num_tasks])
    trained = _most_text_first(task for task in tasks if task.task_id in in_batches)
    refuse_long(run.train_env, team, trained)
    refuse_long(run.eval_env, team, held_out)
    warn_of_unread(run.eval_env, team, held_out)
    return run


def _most_text_first(tasks: Iterable[Task]) -> list[Start]:
    ordered = sorted(tasks, key=lambda task: len(repr(task)), reverse=True)
    return [Start(task_id=task.task_id) for task in ordered]


def left_out(env: TextEnv, team: Team, starts: Sequence[Start]) -> list[str]:
    """List the training problems that are skipped, as a first prompt is too long; logs them.

    Raises:
        RunError: If no problem is left.
    """
    from llm_decpomdp.algorithms.rollouts.long_prompts import describe_prompts, long_first_prompts

    prompts = long_first_prompts(env, team, starts, "skip")
    skipped = list(dict.fromkeys(str(prompt.start.task_id) for prompt in prompts))
    if skipped:
        logger.warning(
            "%d of %d training problems are left out, for first prompts are too long: %s",
            *(len(skipped), len(starts), describe_prompts(prompts)),
        )
    if len(skipped) == len(starts):
        raise RunError("no problem is left to train on: make room for longer prompts")
    return skipped


def refuse_long(env: TextEnv, team: Team, starts: Sequence[Start]) -> None:
    """Raise a `RunError` if a first prompt is too long for a policy that neither skips nor cuts it."""
    from llm_decpomdp.algorithms.rollouts.long_prompts import require_short

    try:
        require_short(env, team, starts)
    except ValueError as error:
        raise RunError(str(error)) from error


def warn_of_unread(env: TextEnv, team: Team, held_out: Sequence[Start]) -> None:
    """Log the first prompts of evaluations that are skipped.

    Evaluations leave no problem out: an agent that cannot read its prompt says nothing.
    """
    from llm_decpomdp.algorithms.rollouts.long_prompts import describe_prompts, long_first_prompts

    unread = long_first_prompts(env, team, held_out, "skip")
    if unread:
        logger.warning(
            "first prompts of held-out problems are too long, and agents say nothing to them: %s",
            describe_prompts(unread),
        )
