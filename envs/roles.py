"""Who writes what: the roles of a coding team and the prompts of their first turn."""

from __future__ import annotations

from dataclasses import dataclass

from llm_decpomdp.envs.code import Reading, read
from llm_decpomdp.envs.humaneval import CodeTask

HELPER = "aux"
"""Name of the helper function."""


@dataclass(frozen=True)
class AuxRole:
    """Writes the helper function `aux`."""

    agent: str = "aux_0"

    def function(self, task: CodeTask) -> str:
        """Name of the function that this agent writes."""
        return HELPER

    def read(self, task: CodeTask, completion: str) -> Reading:
        """What the agent's completion holds."""
        return read(completion, HELPER)

    def reference(self, task: CodeTask) -> str | None:
        """The data's helper."""
        return task.references.get(self.agent)

    def first_prompt(self, task: CodeTask) -> str:
        """The problem, and what a helper should be."""
        return _prompt(
            f"Write a helper function named `{HELPER}` for the coding problem below. A team-mate writes "
            f"`{task.entry_point}` at the same time and may call your helper.",
            task,
            (
                f"Name the function `{HELPER}` and choose the parameters that serve the problem.",
                f"Return data from which `{task.entry_point}` can build its answer.",
            ),
            f"def {HELPER}(...)",
        )


@dataclass(frozen=True)
class MainRole:
    """Writes the entry function; `helped` says whether a team-mate writes a helper."""

    helped: bool
    agent: str = "main_0"

    def function(self, task: CodeTask) -> str:
        """Name of the function that this agent writes."""
        return task.entry_point

    def read(self, task: CodeTask, completion: str) -> Reading:
        """What the agent's completion holds."""
        return read(completion, task.entry_point)

    def reference(self, task: CodeTask) -> str | None:
        """The data's entry function, with the helper that it calls when nobody else writes one."""
        main, helper = task.references.get(self.agent), task.references.get("aux_0")
        if main is None or helper is None or self.helped:
            return main
        return f"{helper}\n\n\n{main}"

    def first_prompt(self, task: CodeTask) -> str:
        """The problem, and how the helper may be used."""
        own = (
            (
                f"A team-mate writes a helper function `{HELPER}(...)` for this problem at the same time. "
                f"You may call it and assign its result to a variable; do not define `{HELPER}` yourself.",
                f"Do work of your own beside the call: `{task.entry_point}` must not only return what "
                f"`{HELPER}` returns.",
            )
            if self.helped
            else ("Be complete: handle every case that the problem names.",)
        )
        return _prompt(
            f"Solve the coding problem below by writing the function `{task.entry_point}`.",
            task,
            (f"Define `{task.entry_point}` with exactly the signature shown.", *own),
            task.signature,
        )


Role = AuxRole | MainRole


def coding_team(num_agents: int) -> tuple[Role, ...]:
    """The roles of a team: a helper's author and the entry function's, or the latter alone.

    Raises:
        ValueError: If `num_agents` is neither 1 nor 2.
    """
    if num_agents == 1 and not isinstance(num_agents, bool):
        return (MainRole(helped=False),)
    if num_agents == 2:
        return (AuxRole(), MainRole(helped=True))
    raise ValueError(f"num_agents must be 1 (main alone) or 2 (aux and main), got {num_agents!r}")


def _prompt(opening: str, task: CodeTask, rules: tuple[str, ...], header: str) -> str:
    lines = (
        *rules,
        "Answer with Python code only: no explanations, no examples, no tests, no Markdown fences.",
    )
    return "\n".join(
        [
            opening,
            "",
            "Problem:",
            task.prompt.strip("\n"),
            "",
            "Rules:",
            *(f"- {line}" for line in lines),
            "",
            "Format:",
            f"{header}:",
            "    # your code here",
            "    return result",
        ]
    )
