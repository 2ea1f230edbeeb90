"""The roles of a team that completes a class, their prompts, and the division of the methods among them.

| `by`         | rule                                                                                       |
|--------------|--------------------------------------------------------------------------------------------|
| `parameters` | upstream's: methods with only `self` for agent 0, the others for agent 1; with more agents, |
|              | those with k further parameters for agent k, the last agent takes the rest                 |
| `balanced`   | equal work: the largest method first, each to the agent with the least so far              |
| `dependency` | methods that call each other stay together, as far as every agent gets something           |

Work is measured in statements of the data's own solution. With `balanced` and `dependency` no agent is idle
where there are as many methods as agents.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import combinations, takewhile

from llm_decpomdp.envs.datasets.classeval import ClassTask
from llm_decpomdp.envs.feedback.code_mode import SIMULTANEOUS, Writer
from llm_decpomdp.envs.source_code.class_completion import ClassReading, read_class
from llm_decpomdp.envs.source_code.classes import Contribution, FunctionNode, Outline, find_class
from llm_decpomdp.envs.source_code.parsing import parse_or_none
from llm_decpomdp.validation import check_whole, unknown

RULES = ("balanced", "parameters", "dependency")

Shares = tuple[tuple[str, ...], ...]
"""The names of the methods of each agent, in the order of the skeleton."""


@lru_cache(maxsize=1024)
def divide(outline: Outline, solution: str, by: str, num_agents: int) -> Shares:
    """Divide the methods of a class among agents.

    The data's own `solution` says how much work each method is and what calls what; it may be empty.

    Raises:
        ValueError: If `by` or `num_agents` is wrong.
    """
    check_division(by, num_agents)
    if by == "parameters":
        groups = _split_by_parameters(outline, num_agents)
    else:
        split = _split_by_balance if by == "balanced" else _split_by_dependency
        groups = split(_method_nodes(outline, solution), num_agents)
    return tuple(tuple(name for name in outline.names if name in group) for group in groups)


def check_division(by: object, num_agents: object) -> None:
    """Refuse an unknown rule, or a team without agents.

    Raises:
        ValueError: If an argument is wrong.
    """
    if by not in RULES:
        raise ValueError(unknown("by", by, RULES))
    check_whole("num_agents", num_agents, 1)


def _method_nodes(outline: Outline, solution: str) -> dict[str, list[ast.AST]]:
    module = parse_or_none(solution)
    node = find_class(module, outline.class_name) if module is not None else None
    nodes: dict[str, list[ast.AST]] = {name: [] for name in outline.names}
    for statement in node.body if node is not None else []:
        if isinstance(statement, FunctionNode) and statement.name in nodes:
            # The definition itself is no work.
            nodes[statement.name] += [part for part in ast.walk(statement) if part is not statement]
    return nodes


def _work(nodes: list[ast.AST]) -> int:
    return max(sum(isinstance(node, ast.stmt) for node in nodes), 1)


def _split_by_parameters(outline: Outline, num_agents: int) -> list[set[str]]:
    groups: list[set[str]] = [set() for _ in range(num_agents)]
    for unit in outline.units:
        # Upstream counts parameters besides `self`.
        further = unit.parameters - 1 if unit.parameters else 1  # none at all is not only `self`
        groups[min(further, num_agents - 1)].add(unit.name)
    return groups


def _split_by_balance(nodes: dict[str, list[ast.AST]], num_agents: int) -> list[set[str]]:
    groups: list[set[str]] = [set() for _ in range(num_agents)]
    loads = [0] * num_agents
    for name in sorted(nodes, key=lambda name: -_work(nodes[name])):
        least = loads.index(min(loads))
        groups[least].add(name)
        loads[least] += _work(nodes[name])
    return groups


def _split_by_dependency(nodes: dict[str, list[ast.AST]], num_agents: int) -> list[set[str]]:
    """Join the two groups with the most calls between them, of equal ones the smallest, until all are few."""
    # Attributes that are looked up, as in `self.other(...)`.
    calls = {
        name: {node.attr for node in group if isinstance(node, ast.Attribute)}
        for name, group in nodes.items()
    }
    groups = [{name} for name in nodes]

    def rank(pair: tuple[int, int]) -> tuple[int, int]:
        first, second = (groups[place] for place in pair)
        between = sum((b in calls[a]) + (a in calls[b]) for a in first for b in second)
        return -between, sum(_work(nodes[name]) for name in first | second)

    while len(groups) > num_agents:
        first, second = min(combinations(range(len(groups)), 2), key=rank)
        groups[first] |= groups.pop(second)
    return [*groups, *({*()} for _ in range(num_agents - len(groups)))]


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

ANSWER_BEGINS = "Your answer begins with:\n"
"""Line of a prompt before the header of the agent's first method, for `prefill_after` of a policy. The header ends
with a line break, because models often stop after a complete header."""


@dataclass(frozen=True)
class ClassRole(Writer):
    """Writes some methods of a class."""

    place: int
    """Position in the team."""
    num_agents: int
    by: str
    """Rule of the division of methods; see `llm_decpomdp.envs.classeval.roles`."""
    begins: bool = False
    """Whether the first prompt ends with the beginning of the answer."""

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
        part = self._contribution(task, _read_solution(task.solution, task.imports, task.outline))
        # Helper functions and methods of the class go to one agent, or they would overlap.
        if self.place != 0:
            methods = tuple(piece for piece in part.own if piece.name in task.outline.names)
            part = replace(part, functions=(), own=methods)
        return self._begin(task, part) if self.begins and part.assigned else part.code

    def opening(self, task: ClassTask) -> str:
        """Return decorators and header of the agent's first method, as the skeleton has them."""
        (unit,) = [unit for unit in task.outline.units if unit.name == self.methods(task)[0]]
        # Not `unit.decorators`, which is empty for a property with a setter.
        lines = map(str.strip, task.outline.code.split("\n")[unit.stubs[0][0] - 1 :])
        return "\n".join([*takewhile(lambda line: line.startswith("@"), lines), unit.header])

    def _begin(self, task: ClassTask, part: Contribution) -> str | None:
        """Return the code of a part that begins with the opening; imports and functions come last.

        `None` if the solution's first method has other parameters than the skeleton's.
        """
        first, *others = sorted(part.own, key=lambda piece: piece.name != part.assigned[0])
        node, shown = (
            ast.parse(code).body[0] for code in (first.code, f"{self.opening(task)} pass")
        )
        assert isinstance(node, FunctionNode) and isinstance(shown, FunctionNode)
        if [arg.arg for arg in node.args.args] != [arg.arg for arg in shown.args.args]:
            return None
        body = "\n".join(first.code.split("\n")[node.body[0].lineno - 1 :])
        if node.body[0].lineno == node.lineno:
            body = "\n".join(f"    {ast.unparse(statement)}" for statement in node.body)
        codes = [piece.code for piece in (*others, *part.functions)]
        return "\n\n".join(
            [f"{self.opening(task)}\n{body}", *codes, "\n".join(part.imports)]
        ).rstrip()

    def instructions(self, task: ClassTask, timing: str = SIMULTANEOUS) -> str:
        """Return the skeleton, and the names of the methods to write."""
        methods = self.methods(task)
        if not methods:
            return IDLE_PROMPT.format(name=task.class_name)
        mates = f" Team-mates write the others{timing}." if self.num_agents > 1 else ""
        return PROMPT.format(
            share="some methods" if len(methods) < len(task.outline.units) else "the methods",
            name=task.class_name,
            mates=mates,
            methods="\n".join(f"- `{name}`" for name in methods),
            skeleton=skeleton_block(task),
        ) + (f"\n\n{ANSWER_BEGINS}{self.opening(task)}\n" if self.begins else "")

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


def class_team(num_agents: int, by: str, begins: bool = False) -> tuple[ClassRole, ...]:
    """Return the roles of a team; see `divide` for arguments and errors."""
    check_division(by, num_agents)
    return tuple(ClassRole(place, num_agents, by, begins) for place in range(num_agents))


def skeleton_block(task: ClassTask) -> str:
    """Return the skeleton between its markers."""
    return f"{BEGIN}\n{task.prompt.strip()}\n{END}"


@lru_cache(maxsize=128)
def _read_solution(solution: str, imports: str, outline: Outline) -> ClassReading:
    """Read the data's own solution, without the imports of the skeleton."""
    module = parse_or_none(solution)
    assert module is not None  # checked when the row was read
    skeleton_imports = set(imports.split("\n"))
    lines = solution.replace("\r\n", "\n").split("\n")
    for node in module.body:
        if isinstance(node, ast.Import | ast.ImportFrom) and ast.unparse(node) in skeleton_imports:
            for number in range(node.lineno - 1, node.end_lineno or node.lineno):
                lines[number] = ""
    return read_class("\n".join(lines), outline)
