"""The roles of a team that writes one function, and the prompts of their first turn.

The last agent, `main_0`, writes the entry function. Each agent before it writes a helper function: the only one
writes `aux`; of several, `aux_0` writes `aux_0`, `aux_1` writes `aux_1`, and so on. A function keeps its name
where a user renames the agent.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from llm_decpomdp.envs.datasets.humaneval import CodeTask
from llm_decpomdp.envs.feedback.code_mode import SIMULTANEOUS
from llm_decpomdp.envs.source_code.completion import Reading, read
from llm_decpomdp.envs.source_code.statements import bound_names

HELPER = "aux"
"""Name of the helper function of a team of two."""


@dataclass(frozen=True)
class AuxRole:
    """Writes a helper function."""

    helper: str = HELPER
    """The function's name."""
    others: tuple[str, ...] = ()
    """The helper functions of team-mates."""
    original_agent: str = "aux_0"
    """The agent's id before any user renamed it, which is that of its references too."""
    agent: str = "aux_0"
    template: str | None = None
    """Words the first prompt instead of ours; see `llm_decpomdp.envs.coding.templates`."""

    @property
    def label(self) -> str:
        """Its name in diagnostics."""
        return self.helper

    @property
    def title(self) -> str:
        """Name of its implementation."""
        return f"{self.helper}(...) "

    def function(self, task: CodeTask) -> str:
        """Return the name of the function that this agent writes."""
        return self.helper

    def request(self, task: CodeTask) -> str:
        """Return the name of what the agent is asked to revise."""
        return f"{self.helper}(...)"

    def read(self, task: CodeTask, completion: str) -> Reading:
        """Read the agent's completion."""
        # Names that others bind: the completion's own versions of them are not needed.
        given = {*bound_names(task.preamble), *self.others, task.entry_point}
        return read(completion, self.helper, given)

    def reference(self, task: CodeTask) -> str | None:
        """Return the data's helper; data divides its solutions between two only."""
        # The data divides each solution between one helper and the entry function.
        return None if self.others else task.references.get(self.original_agent)

    def fields(self, task: CodeTask) -> dict[str, str]:
        """Return the values of the fields that a template of this role may mention."""
        helpers = sorted((self.helper, *self.others), key=helper_number)
        return {"helper": self.helper, **template_fields(task, helpers)}

    def instructions(self, task: CodeTask, timing: str = SIMULTANEOUS) -> str:
        """Return the problem, and the description of a good helper."""
        if self.template is not None:
            return self.template.format_map(self.fields(task))
        return helper_prompt(task, self.helper, self.others, timing)


@dataclass(frozen=True)
class MainRole:
    """Writes the entry function."""

    helpers: tuple[str, ...] = ()
    """The functions that team-mates write."""
    original_agent: str = "main_0"
    agent: str = "main_0"
    template: str | None = None

    @property
    def label(self) -> str:
        """Its name in diagnostics."""
        return "main"

    @property
    def title(self) -> str:
        """Name of its implementation; an agent alone needs none."""
        return "main " if self.helpers else ""

    def function(self, task: CodeTask) -> str:
        """Return the name of the function that this agent writes."""
        return task.entry_point

    def request(self, task: CodeTask) -> str:
        """Return the name of what the agent is asked to revise."""
        return f"{task.entry_point}(...)"

    def read(self, task: CodeTask, completion: str) -> Reading:
        """Read the agent's completion."""
        given = {*bound_names(task.preamble), *self.helpers}
        # Base models continue the prompt with a bare body; where the header is unknown there is nothing to
        # continue.
        opening = "" if "(...)" in task.signature else f"{task.signature}:\n"
        return read(completion, task.entry_point, given, opening)

    def reference(self, task: CodeTask) -> str | None:
        """Return the data's entry function, with the helper that it calls if no team-mate writes one.

        None in a larger team if the function calls `aux`, which no agent writes there.
        """
        main, helper = task.references.get(self.original_agent), task.references.get("aux_0")
        if main is None or helper is None or self.helpers == (HELPER,):
            return main
        return None if self.helpers else f"{helper}\n\n\n{main}"

    def fields(self, task: CodeTask) -> dict[str, str]:
        """Return the values of the fields that a template of this role may mention."""
        return template_fields(task, self.helpers)

    def instructions(self, task: CodeTask, timing: str = SIMULTANEOUS) -> str:
        """Return the problem, and the rules for the use of helpers."""
        if self.template is not None:
            return self.template.format_map(self.fields(task))
        return main_prompt(task, self.helpers, timing)


Role = AuxRole | MainRole


def coding_team(num_agents: int) -> tuple[Role, ...]:
    """Return the roles of a team: authors of helper functions, and last that of the entry function.

    Args:
        num_agents: 1 for `main_0` alone, N for `aux_0` to `aux_{N-2}` and `main_0`.

    Raises:
        ValueError: If `num_agents` is no whole number of at least 1.
    """
    if isinstance(num_agents, bool) or not isinstance(num_agents, int) or num_agents < 1:
        raise ValueError(
            f"num_agents must be a whole number of at least 1 (main_0 alone), got {num_agents!r}"
        )
    original_agents = [f"aux_{number}" for number in range(num_agents - 1)]
    # The data's solutions of two functions call their helper `aux`.
    helpers = (HELPER,) if num_agents == 2 else tuple(original_agents)
    authors: list[Role] = [
        AuxRole(helper, tuple(other for other in helpers if other != helper), agent, agent)
        for agent, helper in zip(original_agents, helpers, strict=True)
    ]
    return (*authors, MainRole(helpers))


# The prompts of the first turn


def template_fields(task: CodeTask, helpers: Iterable[str]) -> dict[str, str]:
    """Return the values of the fields of all templates; `helpers` are the names of the helper functions."""
    return {
        "problem": task.prompt.strip("\n"),
        "entry_point": task.entry_point,
        "signature": task.signature,
        "helpers": ", ".join(helpers),
    }


def helper_number(helper: str) -> int:
    """Return the number at the end of the name of a helper function; 0 without."""
    return int(helper.rpartition("_")[2]) if "_" in helper else 0


def _prompt(opening: str, task: CodeTask, rules: list[str], header: str) -> str:
    only_code = (
        "Answer with Python code only: no explanations, no examples, no tests, no Markdown fences."
    )
    lines = [opening, "", "Problem:", task.prompt.strip("\n"), "", "Rules:"]
    lines += [f"- {line}" for line in (*rules, only_code)]
    lines += ["", "Format:", f"{header}:", "    # your code here", "    return result"]
    return "\n".join(lines)


def helper_prompt(task: CodeTask, helper: str, others: Sequence[str], timing: str) -> str:
    """Return the problem, and the description of a good helper; `others` are the helpers of team-mates."""
    main = f"`{task.entry_point}`"
    mates = f"A team-mate writes {main}{timing} and may call your helper."
    rules = [
        f"Name the function `{helper}` and choose the parameters that serve the problem.",
        f"Return data from which {main} can build its answer.",
    ]
    if others:
        kind = "helper" if len(others) == 1 else "helpers"
        mates = (
            f"Team-mates write {main}, which may call your helper, and the {kind} "
            f"{' and '.join(f'`{name}`' for name in others)}{timing}."
        )
        rules.append("Take a part of the problem that is of use by itself; define no other helper.")
    opening = f"Write a helper function named `{helper}` for the coding problem below. {mates}"
    return _prompt(opening, task, rules, f"def {helper}(...)")


def main_prompt(task: CodeTask, helpers: Sequence[str], timing: str) -> str:
    """Return the problem, and the rules for the use of helpers."""
    entry_point = task.entry_point
    rules = [f"Define `{entry_point}` with exactly the signature shown."]
    if not helpers:
        rules.append("Be complete: handle every case that the problem names.")
    elif len(helpers) == 1:
        rules += [
            f"A team-mate writes a helper function `{HELPER}(...)` for this problem{timing}. "
            f"You may call it and assign its result to a variable; do not define `{HELPER}` yourself.",
            f"Do work of your own beside the call: `{entry_point}` must not only return what "
            f"`{HELPER}` returns.",
        ]
    else:
        calls = ", ".join(f"`{helper}(...)`" for helper in helpers)
        rules += [
            f"Team-mates write the helper functions {calls} for this problem{timing}. You may "
            "call each of them and assign its result to a variable; do not define them yourself.",
            f"Do work of your own beside the calls: `{entry_point}` must not only return what the "
            "helpers return.",
        ]
    opening = f"Solve the coding problem below by writing the function `{entry_point}`."
    return _prompt(opening, task, rules, task.signature)
