"""The roles of a team that completes a class, and the prompts of their first turn."""

from __future__ import annotations

import ast
from dataclasses import dataclass, replace

from llm_decpomdp.envs.classeval.division import check_division, divide
from llm_decpomdp.envs.feedback.code_mode import Writer
from llm_decpomdp.envs.problems.classeval import ClassTask
from llm_decpomdp.envs.source_code.classes.completion import ClassReading, read_class
from llm_decpomdp.envs.source_code.classes.merge import Contribution
from llm_decpomdp.envs.source_code.completion import parsed

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
class ClassRole(Writer):
    """Writes some methods of a class."""

    place: int
    """Position in the team."""
    num_agents: int
    by: str
    """Rule of the division of methods; see `llm_decpomdp.envs.classeval.division`."""

    @property
    def agent(self) -> str:
        """The agent's id."""
        return f"coder_{self.place}"

    def request(self, task: ClassTask) -> str:
        """Return the names of what the agent is asked to revise."""
        names = ", ".join(f"`{name}`" for name in self.methods(task))
        return f"methods {names}" if names else "empty answer (no method is yours)"

    def methods(self, task: ClassTask) -> tuple[str, ...]:
        """Return the names of the methods that this agent writes; empty if it is idle."""
        return divide(task.outline, task.solution, self.by, self.num_agents)[self.place]

    def read(self, task: ClassTask, completion: str) -> Contribution:
        """Read the agent's completion: what it adds to the class."""
        methods = self.methods(task)
        headers = [unit.header for unit in task.outline.units if unit.name in methods]
        opening = f"{headers[0]}\n" if len(headers) == 1 else ""
        return self._contribution(task, read_class(completion, task.outline, opening))

    def reference(self, task: ClassTask) -> str | None:
        """Return the data's own methods, with their imports; helpers of the class go to the first agent."""
        if not task.solution:
            return None
        reading = read_class(_with_class_imports(task), task.outline)
        part = self._contribution(task, reading)
        if self.place == 0:
            return part.code
        methods = tuple(piece for piece in part.own if piece.name in task.outline.names)
        return replace(part, functions=(), own=methods).code

    def instructions(self, task: ClassTask) -> str:
        """Return the skeleton, and the names of the methods to write."""
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
            broken={name: problem for name, problem in reading.broken if name in assigned},
            fallbacks=reading.fallbacks,
        )


def class_team(num_agents: int, by: str) -> tuple[ClassRole, ...]:
    """Return the roles of a team; arguments and errors as of `divide`."""
    check_division(by, num_agents)
    return tuple(ClassRole(place, num_agents, by) for place in range(num_agents))


def skeleton_block(task: ClassTask) -> str:
    """Return the skeleton between its markers."""
    return f"{BEGIN}\n{task.prompt.strip()}\n{END}"


def _with_class_imports(task: ClassTask) -> str:
    """Return the solution without the imports that the skeleton has."""
    module = parsed(task.solution)
    assert module is not None  # checked when the row was read
    skeleton = set(task.imports.split("\n"))
    lines = task.solution.replace("\r\n", "\n").split("\n")
    for statement in module.body:
        if (
            isinstance(statement, ast.Import | ast.ImportFrom)
            and ast.unparse(statement) in skeleton
        ):
            for number in range(statement.lineno - 1, statement.end_lineno or statement.lineno):
                lines[number] = ""
    return "\n".join(lines)
