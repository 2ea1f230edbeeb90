"""Programs with bugs as tasks, and their runs with the agents' functions in them.

Agents repair the pieces of a program: its top-level functions, or the methods of the class under test. Methods are
read and merged as in `classeval-v0`: see `llm_decpomdp.envs.source_code.classes`. The tests of a class run apart
from the program.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from llm_decpomdp.envs.datasets.classeval import class_tests, import_statements
from llm_decpomdp.envs.datasets.rows import KNOWN_ISSUES, BadRow, Row
from llm_decpomdp.envs.program_reward import add_reference_counts
from llm_decpomdp.envs.sandbox import Execution, Program, Sandbox, Tests, instrument
from llm_decpomdp.envs.sandbox.syntax import names
from llm_decpomdp.envs.source_code.class_completion import ClassReading, read_class
from llm_decpomdp.envs.source_code.classes import (
    CodeSegment,
    Contribution,
    FunctionNode,
    Merged,
    Outline,
    attribute_lines,
    find_class,
    merge,
    outline,
)
from llm_decpomdp.envs.source_code.functions import (
    Statements,
    distance,
    excerpt,
    function_text,
    functions,
    statements,
    tokens,
)
from llm_decpomdp.envs.source_code.parsing import (
    FUNCTIONS,
    SyntaxProblem,
    has_docstring,
    parse,
    parse_or_none,
)
from llm_decpomdp.interfaces import Task

PROGRAM = "program"
"""The origin of code that no agent submitted."""


def pieces(code: str, entry_point: str) -> Mapping[str, str]:
    """Return the text of each piece, in order."""
    if class_ := known_class(code, entry_point):
        return class_.methods
    return {name: function_text(code, name) for name in functions(code)}


def repairable(code: str, test: str, entry_point: str) -> tuple[str, ...]:
    """Return the names of the pieces, in order, but for functions that the tests rely on."""
    if class_ := known_class(code, entry_point):
        return tuple(class_.methods)
    # The tests of HumanEval/32, for one, call the `poly` that the prompt gives.
    test_names = names(parse_or_none(test) or ast.Module([], [])) - {entry_point}
    return tuple(name for name in functions(code) if name not in test_names)


def test_cases_of_program(code: str, test: str, entry_point: str) -> Tests:
    """Return the tests of a program.

    Raises:
        BadRow: If they do not parse.
    """
    try:
        if class_ := known_class(code, entry_point):
            imports = "\n".join(import_statements(code))
            return class_tests(test, entry_point, imports, own=class_.shape.taken)
        return instrument(test, entry_point)
    except ValueError as error:
        raise BadRow(f"field 'test': {error}") from None


def whole(code: str, entry_point: str, repaired: Collection[str]) -> Program:
    """Return an unchanged program, to be run; `repaired` names the pieces that agents own."""
    if known_class(code, entry_point):
        return Program(((PROGRAM, code),), entry_point)
    return joint(code, entry_point, repaired, repaired)


def joint(
    code: str,
    entry_point: str,
    repaired: Collection[str],
    kept: Collection[str],
    parts: Mapping[str, str] | None = None,
) -> Program:
    """Join code outside the agents' functions, the functions that are kept, and the agents' parts, in this order.

    `repaired` are the functions that agents own, `kept` those of them that no agent submitted, and `parts` is
    code by agent.
    """
    segments = [(PROGRAM, excerpt(code, kept, rest=False)), *(parts or {}).items()]
    preamble = excerpt(code, set(functions(code)) - set(repaired), rest=True)
    return Program(tuple(segment for segment in segments if segment[1]), entry_point, preamble)


@dataclass(frozen=True)
class Submission:
    """An agent's functions or methods, as its completion has them."""

    code: str
    """The code that is run: its functions, and all else that it wrote but for the team-mates' functions."""
    submitted: Mapping[str, str]
    """The text of each of its functions that is there and parses."""
    problem: SyntaxProblem | None = None
    """Reason for its code not to parse, or None."""
    contribution: Contribution | None = None
    """The code as a part of a class, where the program is one."""
    fallbacks: Mapping[str, int] = field(default_factory=dict, compare=False)
    """What the reading reports: numbers by names of `completion.FALLBACKS`."""


@dataclass(frozen=True)
class KnownClass:
    """A class whose methods are repaired."""

    code: str
    """The program."""
    name: str

    @cached_property
    def shape(self) -> Outline:
        """The class with all of its methods still to be written.

        Raises:
            ValueError: If it has no methods.
        """
        module = parse(self.code)
        node = find_class(module, self.name)
        for statement in node.body if node is not None else ():
            if isinstance(statement, FunctionNode):
                statement.body = [ast.Expr(ast.Constant(...))]
        return outline(ast.unparse(module), self.name)

    @cached_property
    def reading(self) -> ClassReading:
        """The class as a completion that is read."""
        return read_class(self.code, self.shape)

    @property
    def methods(self) -> dict[str, str]:
        """The text of each method, in order; of a property with a setter, both."""
        return _texts(self.reading.methods)

    def read(self, agent: str, completion: str, owned: Collection[str]) -> Submission:
        """Read the methods that an agent owns in its completion."""
        headers = [unit.header for unit in self.shape.units if unit.name in owned]
        opening = f"{headers[0]}\n" if len(headers) == 1 else ""
        reading = read_class(completion, self.shape, opening, self.code)
        others = set(self.shape.names).difference(owned)
        pieces = tuple(piece for piece in reading.methods if piece.name not in others)
        submitted = {name: text for name, text in _texts(pieces).items() if name in owned}
        for name, problem in reading.broken:
            if name in owned:
                # The problem's line counts in the method: here it is to count in the whole completion.
                header = rf"^.*\bdef[ \t]+{re.escape(name)}[ \t]*\("
                match = re.search(header, completion, re.MULTILINE)
                before = completion[: match.start()].count("\n") if match else 0
                problem = replace(problem, line=before + problem.line, parses=False)
                return Submission(completion, submitted, problem, fallbacks=reading.fallbacks)
        part = Contribution(
            agent, tuple(submitted), reading.imports, reading.functions, pieces, foreign=()
        )
        return Submission(part.code, submitted, None, part, reading.fallbacks)

    def merge_methods(self, kept: Collection[str], parts: Iterable[Contribution]) -> Merged:
        """Return the class with the agents' methods, and those of `kept` as they are."""
        pieces = tuple(piece for piece in self.reading.methods if piece.name in kept)
        return merge(self.shape, (*parts, Contribution("", (), (), (), (), pieces)))

    def count_added_tokens(self, part: Contribution) -> int:
        """Count the tokens of an agent's code outside the class's methods, but for what stands there already."""
        known = {*self.reading.imports, *(piece.code for piece in self.reading.functions)}
        beside = [*part.imports, *(piece.code for piece in part.functions)]
        beside += [piece.code for piece in part.own if piece.name not in self.shape.names]
        return sum(len(tokens(text)) for text in beside if text not in known)


def known_class(code: str, name: str) -> KnownClass | None:
    """Return the top-level class of this name; None if code has none, or does not parse."""
    module = parse_or_none(code)
    node = find_class(module, name) if module is not None else None
    return None if node is None else KnownClass(code, name)


def _texts(pieces: Iterable[CodeSegment]) -> dict[str, str]:
    texts: dict[str, list[str]] = {}
    for piece in pieces:
        texts.setdefault(piece.name, []).append(piece.code)
    return {name: "\n\n".join(codes) for name, codes in texts.items()}


@dataclass(frozen=True)
class BugTask(Task):
    """A program to repair, and the tests that judge it; `prompt` says what its entry point shall do.

    Where that is a class, `functions` and the other properties are about its methods.
    """

    correct: str
    """The program without bugs."""
    buggy: str
    """The program with its bugs."""
    test: str
    """Text of a module with a function `check(candidate)`, or with unittest classes about a class."""
    entry_point: str
    """The function or class that the tests call."""
    bugs: tuple[str, ...]
    """Changes of the program: keys of `Mutation`, or the kind that the data names."""

    @property
    def stub(self) -> str:
        """The purpose of the entry point as a module."""
        return f"{self.prompt}\n    pass\n"

    def idle_programs(self) -> dict[str, str]:
        """Return the unchanged program: some of its tests pass, but not all."""
        return {"the program with its bugs": self.buggy}

    @cached_property
    def known_class(self) -> KnownClass | None:
        """The entry point if it is a class."""
        return known_class(self.buggy, self.entry_point)

    @property
    def is_class(self) -> bool:
        """True if the entry point is a class."""
        return self.known_class is not None

    @cached_property
    def statements(self) -> Statements:
        """The program's statements, to which agents add."""
        return statements(self.buggy)

    @cached_property
    def tests(self) -> Tests:
        """The instrumented test."""
        return test_cases_of_program(self.buggy, self.test, self.entry_point)

    @cached_property
    def program(self) -> Program:
        """The program with its bugs, to be run."""
        return whole(self.buggy, self.entry_point, self.functions)

    @cached_property
    def correct_program(self) -> Program:
        """The program without bugs, to be run."""
        return whole(self.correct, self.entry_point, self.functions)

    @cached_property
    def functions(self) -> tuple[str, ...]:
        """The functions of the program that can be repaired, in order."""
        return repairable(self.buggy, self.test, self.entry_point)

    @cached_property
    def given_functions(self) -> Mapping[str, str]:
        """The functions' text with the bugs."""
        return pieces(self.buggy, self.entry_point)

    @cached_property
    def correct_functions(self) -> Mapping[str, str]:
        """The functions' text without bugs."""
        return pieces(self.correct, self.entry_point)

    @cached_property
    def faulty(self) -> tuple[str, ...]:
        """The functions that hold bugs."""
        return tuple(
            n for n in self.functions if self.given_functions[n] != self.correct_functions[n]
        )

    @cached_property
    def need(self) -> int:
        """The size of the smallest known repair, in tokens: undoing the changes."""
        return sum(
            distance(self.given_functions[name], self.correct_functions[name])
            for name in self.faulty
        )

    @cached_property
    def size(self) -> int:
        """The size of the functions that hold bugs, in tokens."""
        return sum(len(tokens(self.given_functions[name])) for name in self.faulty)


def bug_task(index: int, row: Row) -> BugTask:
    """Make a task of a row.

    Its fields are `task_id`, `prompt`, `correct`, `buggy`, `test`, `entry_point`, `bugs` and `problem`: the id of
    the problem that the program solves, under which its known issues are listed.
    """
    return BugTask(
        task_id=row["task_id"],
        index=index,
        prompt=row["prompt"],
        correct=row["correct"],
        buggy=row["buggy"],
        test=row["test"],
        entry_point=row["entry_point"],
        bugs=tuple(row["bugs"]),
        known_issue=KNOWN_ISSUES.get(row["problem"]),
    )


# Runs of a program, with a bound on its steps

MAX_STEPS = 300_000
"""Largest number of steps of a program in all of its tests together."""

# Steps, not seconds, end a program: the list of faults must be the same on every machine.
COUNTER = f"""
__steps__ = 0
def __step__():
    global __steps__
    __steps__ += 1
    return __steps__ <= {MAX_STEPS} or __import__("os")._exit(1)
"""


def limit_steps(code: str, names: Collection[str]) -> str:
    """Return a program that does the same, unless its functions and classes of these names take too many steps.

    Raises:
        SyntaxError: If it does not parse.
    """
    module = parse(code)
    step = ast.Call(ast.Name("__step__", ast.Load()), [], [])
    targets = (
        s for s in module.body if isinstance(s, (*FUNCTIONS, ast.ClassDef)) and s.name in names
    )
    for node in (node for statement in targets for node in ast.walk(statement)):
        if isinstance(node, (*FUNCTIONS, ast.For, ast.AsyncFor, ast.While)):
            node.body.insert(has_docstring(node), ast.Expr(step))
        elif isinstance(node, ast.comprehension):
            node.ifs.insert(0, step)
    # After docstring and imports: `from __future__` must stay first.
    head = [isinstance(s, ast.Expr | ast.Import | ast.ImportFrom) for s in module.body]
    place = (*head, False).index(False)
    module.body[place:place] = parse(COUNTER).body
    return ast.unparse(ast.fix_missing_locations(module))


# The sandbox remembers its verdicts, so asking again costs little.


def run_unmodified(sandbox: Sandbox, task: BugTask) -> Execution:
    """Run the unchanged program, with its bugs."""
    return sandbox.run(task.program, _tests(sandbox, task))


def run_submissions(sandbox: Sandbox, task: BugTask, work: Mapping[str, Submission]) -> Execution:
    """Run the program with the agents' submissions; functions that no agent submitted stay."""
    # A function without a submission keeps its bug.
    kept_names = set(task.functions).difference(*(part.submitted for part in work.values()))
    if task.known_class is not None:
        parts = [part.contribution for part in work.values() if part.submitted]
        merged_class = task.known_class.merge_methods(kept_names, filter(None, parts))
        program = Program(((PROGRAM, merged_class.code),), task.entry_point)
        execution = sandbox.run(program, _tests(sandbox, task))
        return attribute_lines(execution, merged_class, PROGRAM)
    codes = {agent: part.code for agent, part in work.items() if part.submitted}
    program = joint(task.buggy, task.entry_point, task.functions, kept_names, codes)
    return sandbox.run(program, _tests(sandbox, task))


def _tests(sandbox: Sandbox, task: BugTask) -> Tests:
    """Return the task's tests, each to be reached as often as by the program without bugs."""
    return add_reference_counts(sandbox, task.correct_program, task.tests)
