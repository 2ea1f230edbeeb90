"""Correct completions and secret texts of an environment, for baselines and checks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import singledispatch

from llm_decpomdp.branching import inner_env
from llm_decpomdp.env import DecPOMDPEnv


@dataclass(frozen=True)
class Oracle:
    """Correct completions and secrets of an environment's current state."""

    references: Mapping[str, str] = field(default_factory=dict)
    """Correct completions by agent, as far as the data has them."""
    secrets: Sequence[str] = ()
    """Texts that no prompt may contain, such as hidden tests; `check_env` looks for them."""
    where: str = "the environment"
    """Name of the state in errors."""
    has_turns: bool = False
    """Whether correct completions depend on the turns so far."""

    def reference(self, agent: str) -> str:
        """Return a correct completion of `agent`.

        Raises:
            LookupError: If there is none.
        """
        if agent not in self.references:
            raise LookupError(f"{self.where} has no reference for agent {agent!r}")
        return self.references[agent]


@singledispatch
def answers(env: object) -> Oracle:
    """Return the answers of an environment in its current state: for baselines and checks, never for a learner.

    The answers of a wrapper are those of its inner environment. For another class, register a function:

        @llm_decpomdp.answers.register(MyEnv)
        def my_answers(env: MyEnv) -> llm_decpomdp.Oracle:
            return llm_decpomdp.Oracle({"writer_0": env.solution}, secrets=[env.test])

    The function is selected by class, so a wrapper can also have its own. Without a function there are no answers.

    Raises:
        ResetNeeded: Before the first `reset` of a `DecPOMDPEnv`.
    """
    inner = inner_env(env)
    if inner is not None:
        return answers(inner)
    return Oracle(where=f"{type(env).__name__}, which tells none (see llm_decpomdp.answers),")


@answers.register
def _(env: DecPOMDPEnv) -> Oracle:
    task, references, by_turn = env.task, {}, False
    for role in env.roles:
        history = (env.episode.turns,) if getattr(role, "history", False) else ()
        by_turn = by_turn or bool(history)
        references[role.agent] = role.reference(task, *history)
    return Oracle(
        {agent: text for agent, text in references.items() if text is not None},
        list(env.mode.secrets(task)),
        f"task {task.task_id!r}",
        by_turn,
    )
