"""What the models of a run are asked: said once, kept in the manifest, and checked before the first update."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from llm_decpomdp.algorithms.rollouts.environment import TextEnv
from llm_decpomdp.algorithms.rollouts.rollout import Start, begin, distinct_policies
from llm_decpomdp.benchmarks.config.errors import RunError
from llm_decpomdp.policy import Team

logger = logging.getLogger(__name__)


def describe(team: Team) -> None:
    """Log how each local model is asked, once for each policy."""
    from llm_decpomdp.agents.models.causal_lm import CausalLM

    for agents, policy in distinct_policies(team).items():
        if isinstance(policy, CausalLM):
            logger.info("%s: %s", agents, policy.encoder.in_words())


def first_prompts(env: TextEnv, team: Team, start: Start) -> dict[str, dict[str, Any]]:
    """The first prompt of each agent with a local model, just as the model sees it: its `text` and `tokens`.

    One that is too long, and not cut, is left out.
    """
    from llm_decpomdp.agents.models.causal_lm import CausalLM

    found = {}
    _, prompts = begin(env, start)
    for agent, policy in team.items():
        if isinstance(policy, CausalLM) and (
            policy.on_long_prompt == "truncate_left" or policy.overflow(prompts[agent]) is None
        ):
            ids = policy.encode(prompts[agent])
            found[agent] = {"text": policy.tokenizer.decode(ids), "tokens": len(ids)}
    return found


def left_out(env: TextEnv, team: Team, starts: Sequence[Start]) -> list[str]:
    """The training problems that are skipped, as a first prompt is too long; logs them.

    Raises:
        RunError: If no problem is left.
    """
    from llm_decpomdp.algorithms.rollouts.long_prompts import in_words, long_first_prompts

    found = long_first_prompts(env, team, starts, "skip")
    skipped = list(dict.fromkeys(str(one.start.task_id) for one in found))
    if skipped:
        logger.warning(
            "%d of %d training problems are left out, for first prompts are too long: %s",
            *(len(skipped), len(starts), in_words(found)),
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


def tell_unread(env: TextEnv, team: Team, held_out: Sequence[Start]) -> None:
    """Log the first prompts of evaluations that are skipped.

    Evaluations leave no problem out: an agent that cannot read its prompt says nothing.
    """
    from llm_decpomdp.algorithms.rollouts.long_prompts import in_words, long_first_prompts

    unread = long_first_prompts(env, team, held_out, "skip")
    if unread:
        logger.warning(
            "first prompts of held-out problems are too long, and agents say nothing to them: %s",
            in_words(unread),
        )
