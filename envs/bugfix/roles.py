"""Who repairs what: the agents' shares of a program, their prompts, and what their completions hold.

The functions of a program are dealt out in order: of N agents `fixer_i` owns function i, i + N, i + 2N, ...,
so that every agent owns as many as any other, or one more. What stands outside functions belongs to nobody and
stays as it is. Code may still replace a function of a team-mate while it runs, through `globals()`: it changes the
joint program for the whole team, and earns no more than correct code does.
"""

from __future__ import annotations

from dataclasses import dataclass

from llm_decpomdp.envs.bugfix.initial_feedback import Briefing
from llm_decpomdp.envs.bugfix.methods import read_methods
from llm_decpomdp.envs.bugfix.tasks import BugTask, Submission
from llm_decpomdp.envs.programs.completion import Reading, read
from llm_decpomdp.envs.programs.functions import excerpt, function_text, functions, without_bindings


def submission(completion: str, owned: tuple[str, ...], others: tuple[str, ...]) -> Submission:
    """Read a completion that should define the `owned` functions, in one piece of code or in several."""
    readings = {name: read(completion, name) for name in owned}
    found: dict[str, Reading] = {n: r for n, r in readings.items() if r.defined}
    broken = next((reading for reading in found.values() if reading.problem), None)
    whole = {name: reading.code for name, reading in found.items() if not reading.problem}
    submitted = {name: function_text(code, name) for name, code in whole.items()}
    if broken is not None:
        return Submission(broken.code, submitted, broken.problem)
    pieces = []
    for code in dict.fromkeys(whole.values()):
        mine = {name for name in whole if whole[name] == code}
        kept = set(functions(code)) - set(others) - (set(owned) - mine)
        pieces.append(without_bindings(excerpt(code, kept, rest=True), others))
    return Submission("\n\n".join(pieces), submitted, None)


@dataclass(frozen=True)
class FixerRole:
    """Owns every `team`-th function of a program, from the one at `place`."""

    place: int
    team: int
    briefing: Briefing

    @property
    def agent(self) -> str:
        """The agent's id."""
        return f"fixer_{self.place}"

    @property
    def seat(self) -> str:
        """What an expert calls it."""
        return self.agent

    @property
    def title(self) -> str:
        """Its implementation needs no name of its own."""
        return ""

    def owned(self, task: BugTask) -> tuple[str, ...]:
        """Its functions."""
        return task.functions[self.place :: self.team]

    def request(self, task: BugTask) -> str:
        """What the agent is asked to revise."""
        return ", ".join(f"{name}(...)" for name in self.owned(task))

    def read(self, task: BugTask, completion: str) -> Submission:
        """What the agent's completion holds."""
        owned = self.owned(task)
        if task.is_class:
            return Submission(*read_methods(completion, task.buggy, task.entry_point, owned))
        others = tuple(name for name in task.functions if name not in owned)
        return submission(completion, owned, others)

    def reference(self, task: BugTask) -> str:
        """The agent's functions without bugs."""
        return "\n\n\n".join(task.wanted[name] for name in self.owned(task)) + "\n"

    def first_prompt(self, task: BugTask) -> str:
        """The program, what its entry function shall do, and what its tests say."""
        owned = ", ".join(f"`{name}`" for name in self.owned(task))
        return "\n".join(
            [
                "The Python program below has one or more bugs. Repair it."
                if self.team == 1
                else "The Python program below has one or more bugs. You and your team-mates repair it at the "
                f"same time, each their own functions. Yours: {owned}.",
                "",
                f"What `{task.entry_point}` shall do:",
                task.prompt.strip("\n"),
                "",
                "Program:",
                task.buggy.strip("\n"),
                "",
                *self.briefing.lines(task),
                "Rules:",
                *(f"- {rule}" for rule in self._rules(owned)),
            ]
        )

    def _rules(self, owned: str) -> tuple[str, ...]:
        again = f"Write {owned} again, complete and with the same name and parameters"
        mates = (
            ("The bugs may all lie in functions of team-mates. Do not write these functions.",)
            if self.team > 1
            else ()
        )
        return (
            f"{again}, also what needs no change.",
            *mates,
            "Change no more than the bugs need; what is right stays exactly as it is.",
            "Answer with Python code only: no explanations, no examples, no tests, no Markdown fences.",
        )


def repair_team(num_agents: int, briefing: Briefing) -> tuple[FixerRole, ...]:
    """The roles of a team.

    Raises:
        ValueError: If `num_agents` is no whole number of at least 1.
    """
    if isinstance(num_agents, bool) or not isinstance(num_agents, int) or num_agents < 1:
        raise ValueError(f"num_agents must be a whole number of at least 1, got {num_agents!r}")
    return tuple(FixerRole(place, num_agents, briefing) for place in range(num_agents))
