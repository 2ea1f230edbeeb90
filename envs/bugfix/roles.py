"""The roles of a team that repairs a program: their shares of it, their prompts, and their submissions.

The functions of a program are dealt out in order: of N agents `fixer_i` owns function i, i + N, i + 2N, ...,
so the numbers of two agents' functions differ by at most one. Code outside functions belongs to no agent and does
not change. Code may still replace a function of a team-mate at run time, through `globals()`: this changes the
joint program for the whole team, and gives no more reward than correct code.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from llm_decpomdp.envs.bugfix.tasks import BugTask, Submission
from llm_decpomdp.envs.feedback.code_mode import SIMULTANEOUS, Writer
from llm_decpomdp.envs.source_code.completion import CompletionReader
from llm_decpomdp.envs.source_code.functions import (
    definition_text,
    excerpt,
    functions,
    remove_bindings,
)
from llm_decpomdp.envs.source_code.parsing import signature
from llm_decpomdp.envs.source_code.statements import bound_names
from llm_decpomdp.validation import check_whole


def submission(
    completion: str,
    owned: tuple[str, ...],
    others: tuple[str, ...],
    given: Collection[str] = (),
    opening: str = "",
    prompt: str = "",
) -> Submission:
    """Read a completion that should define the `owned` functions, in one piece of code or in several.

    Definitions of functions of `others` are left out. `given` are names that the program binds outside of the
    agent's functions, and `opening` is the header of its only function. A block of functions that are all the
    same in `prompt` is a quotation: they count where there are no others.
    """
    reader = CompletionReader(completion, {*others, *given}, opening, prompt)
    readings = {name: reading for name in owned if (reading := reader.read(name)).defined}
    whole = [name for name, reading in readings.items() if not reading.problem]
    code, counts = reader.compose(whole)
    submitted = {name: definition_text(code, name) for name in whole}
    fallbacks = {**reader.fallbacks, **counts}
    for reading in readings.values():
        if reading.problem:
            return Submission(reading.code, submitted, reading.problem, fallbacks=fallbacks)
    # Own functions that were only quoted or broken keep their old text in the program.
    kept_names = set(functions(code)) - set(others) - (set(owned) - set(whole))
    text = remove_bindings(excerpt(code, kept_names, rest=True), others)
    return Submission(text, submitted, fallbacks=fallbacks)


@dataclass(frozen=True)
class FixerRole(Writer):
    """Owns every `team`-th function of a program, from the one at `place`."""

    place: int
    team: int

    @property
    def agent(self) -> str:
        """The agent's id."""
        return f"fixer_{self.place}"

    def owned_functions(self, task: BugTask) -> tuple[str, ...]:
        """Return its functions."""
        return task.functions[self.place :: self.team]

    def request(self, task: BugTask) -> str:
        """Return the names of what the agent is asked to revise."""
        return ", ".join(f"{name}(...)" for name in self.owned_functions(task))

    def read(self, task: BugTask, completion: str) -> Submission:
        """Read the agent's completion."""
        owned = self.owned_functions(task)
        if task.known_class is not None:
            return task.known_class.read(self.agent, completion, owned)
        others = tuple(name for name in task.functions if name not in owned)
        given = bound_names(task.buggy).difference(owned)
        opening = f"{signature(task.buggy, owned[0])}:\n" if len(owned) == 1 else ""
        return submission(completion, owned, others, given, opening, task.buggy)

    def reference(self, task: BugTask) -> str:
        """Return the agent's functions without bugs."""
        texts = [task.correct_functions[name] for name in self.owned_functions(task)]
        return "\n\n\n".join(texts) + "\n"

    def instructions(
        self, task: BugTask, timing: str = SIMULTANEOUS, feedback: Sequence[str] = ()
    ) -> str:
        """Return the program, the purpose of its entry function, feedback about its tests, and the rules."""
        owned = ", ".join(f"`{name}`" for name in self.owned_functions(task))
        opening = "The Python program below has one or more bugs. Repair it."
        rules = [
            f"Write {owned} again, complete and with the same name and parameters, also what needs no change."
        ]
        if self.team > 1:
            opening = (
                "The Python program below has one or more bugs. You and your team-mates repair it"
                f"{timing}, each their own functions. Yours: {owned}."
            )
            rules.append(
                "The bugs may all lie in functions of team-mates. Do not write these functions."
            )
        rules += [
            "Change no more than the bugs need; what is right stays exactly as it is.",
            "Answer with Python code only: no explanations, no examples, no tests, no Markdown fences.",
        ]
        lines = [opening, "", f"What `{task.entry_point}` shall do:", task.prompt.strip("\n"), ""]
        lines += ["Program:", task.buggy.strip("\n"), "", *feedback, "Rules:"]
        lines += [f"- {rule}" for rule in rules]
        return "\n".join(lines)


def repair_team(num_agents: int) -> tuple[FixerRole, ...]:
    """Return the roles of a team.

    Raises:
        ValueError: If `num_agents` is no whole number of at least 1.
    """
    check_whole("num_agents", num_agents, 1)
    return tuple(FixerRole(place, num_agents) for place in range(num_agents))
