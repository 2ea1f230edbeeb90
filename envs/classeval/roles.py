"""Who writes which methods: the roles of a team that completes a class, and the prompts of their first turn."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from llm_decpomdp.envs.classeval.division import check_division, divide
from llm_decpomdp.envs.classeval.tasks import ClassTask
from llm_decpomdp.envs.programs.classes.completion import ClassReading, read_class
from llm_decpomdp.envs.programs.classes.merge import Contribution
from llm_decpomdp.envs.programs.completion import parsed
from llm_decpomdp.envs.programs.parsing import SyntaxProblem

IDLE_PROMPT = """\
Your team completes the class `{name}`. All of its methods are written by your team-mates: answer with an empty \
text."""

PROMPT = """\
Complete {share} of the class `{name}` below.{mates}

Your methods:
{methods}

Rules:
- Write each of your methods completely, from its decorators and `def` line on, with the name and the parameters \
shown.
- Write no other method of the skeleton, and not the `class` line.
- The class's other methods will be there: call them as the skeleton describes them.
- Import what is missing before your first method. Helper methods of your own are allowed.
- Answer with Python code only: no explanations, no examples, no tests, no Markdown fences.

Skeleton:
{skeleton}"""

BEGIN, END = "### START OF SKELETON", "### END OF SKELETON"


@dataclass(frozen=True)
class ClassRole:
    """Writes some methods of a class."""

    place: int
    """Position in the team."""
    num_agents: int
    by: str
    """How the methods are divided; see `llm_decpomdp.envs.classeval.division`."""

    @property
    def agent(self) -> str:
        """The agent's id."""
        return f"coder_{self.place}"

    @property
    def seat(self) -> str:
        """What an expert calls it."""
        return self.agent

    @property
    def title(self) -> str:
        """Whose implementation it is: its prompts speak of nobody else's."""
        return ""

    def request(self, task: ClassTask) -> str:
        """What the agent is asked to revise."""
        named = ", ".join(f"`{name}`" for name in self.methods(task))
        return f"methods {named}" if named else "empty answer (no method is yours)"

    def methods(self, task: ClassTask) -> tuple[str, ...]:
        """The names of the methods that this agent writes; empty if it is idle."""
        return divide(task.outline, task.solution, self.by, self.num_agents)[self.place]

    def read(self, task: ClassTask, completion: str) -> Contribution:
        """What the agent's completion adds to the class."""
        return self._contribution(task, read_class(completion, task.outline))

    def broken(self, task: ClassTask, completion: str) -> dict[str, SyntaxProblem]:
        """Those of the agent's methods that do not parse, and why."""
        own = self.methods(task)
        reading = read_class(completion, task.outline)
        return {name: problem for name, problem in reading.broken if name in own}

    def reference(self, task: ClassTask) -> str | None:
        """The data's own methods, with what they import; helpers of the class go to the first agent."""
        if not task.solution:
            return None
        reading = read_class(_with_class_imports(task), task.outline)
        one = self._contribution(task, reading)
        helpers = {piece.name for piece in one.own} - set(task.outline.names)
        if self.place == 0:
            return one.code
        own = tuple(piece for piece in one.own if piece.name not in helpers)
        return Contribution(one.agent, one.assigned, one.imports, (), own, ()).code

    def first_prompt(self, task: ClassTask) -> str:
        """The skeleton, and which of its methods to write."""
        methods = self.methods(task)
        if not methods:
            return IDLE_PROMPT.format(name=task.class_name)
        mates = " Team-mates write the others at the same time." if self.num_agents > 1 else ""
        return PROMPT.format(
            share="some methods" if len(methods) < len(task.outline.units) else "the methods",
            name=task.class_name,
            mates=mates,
            methods="\n".join(f"- `{name}`" for name in methods),
            skeleton=skeleton_block(task),
        )

    def _contribution(self, task: ClassTask, reading: ClassReading) -> Contribution:
        assigned = self.methods(task)
        others = set(task.outline.names) - set(assigned)
        return Contribution(
            agent=self.agent,
            assigned=assigned,
            imports=reading.imports,
            functions=reading.functions,
            own=tuple(piece for piece in reading.methods if piece.name not in others),
            foreign=tuple(piece for piece in reading.methods if piece.name in others),
        )


def class_team(num_agents: int, by: str) -> tuple[ClassRole, ...]:
    """The roles of a team; arguments and errors as of `divide`."""
    check_division(by, num_agents)
    return tuple(ClassRole(place, num_agents, by) for place in range(num_agents))


def skeleton_block(task: ClassTask) -> str:
    """The skeleton between its markers."""
    return f"{BEGIN}\n{task.prompt.strip()}\n{END}"


def _with_class_imports(task: ClassTask) -> str:
    """The solution without the imports that the skeleton has."""
    module = parsed(task.solution)
    assert module is not None  # checked when the row was read
    there = set(task.imports.split("\n"))
    lines = task.solution.replace("\r\n", "\n").split("\n")
    for statement in module.body:
        if isinstance(statement, ast.Import | ast.ImportFrom) and ast.unparse(statement) in there:
            for number in range(statement.lineno - 1, statement.end_lineno or statement.lineno):
                lines[number] = ""
    return "\n".join(lines)
