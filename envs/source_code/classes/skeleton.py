"""Skeletons of classes: the methods that are still to be written, and their lines."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass

from llm_decpomdp.envs.source_code import statements as bindings
from llm_decpomdp.envs.source_code.parsing import parse_or_none
from llm_decpomdp.envs.source_code.statements import first_line

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef

CURLY_QUOTES = str.maketrans(dict.fromkeys("\u201c\u201d\u201e\u201f", '"'))

_DEFINITION = re.compile(r"[ \t]*(@|(async[ \t]+)?def\b)")


@dataclass(frozen=True)
class Unit:
    """All definitions of one name in a class: a method, or a property with its setter."""

    name: str
    parameters: int
    """Parameters of its first stub, `self` included."""
    stubs: tuple[tuple[int, int], ...]
    """First line, decorators included, and last line of each definition that is still to be written."""
    decorators: tuple[str, ...]
    """Decorators of its stub, where it has only one, as lines without indentation."""
    header: str
    """The line with `def` of its first stub, without indentation."""


@dataclass(frozen=True)
class Outline:
    """A class to complete. Lines count from 1."""

    code: str
    class_name: str
    units: tuple[Unit, ...]
    """Units to write, in the order of the code."""
    indent: str
    """Indentation of the class's body."""
    head: int
    """Line before which imports may be added."""
    end: int
    """Last line of the class."""
    taken: frozenset[str]
    """Names that the skeleton itself defines, in the class and around it."""

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the units."""
        return tuple(unit.name for unit in self.units)


def outline(code: str, class_name: str) -> Outline:
    """Outline a skeleton.

    A definition is to be written if its body is empty but for a docstring, `pass`, `...` or
    `raise NotImplementedError`. A constructor that is just `pass` is complete.

    Raises:
        ValueError: If the code does not parse or has no such class with something to write.
    """
    module = parse_or_none(code)
    node = find_class(module, class_name) if module is not None else None
    if module is None or node is None:
        raise ValueError(f"no class {class_name!r} in code that parses")
    lines = code.split("\n")
    groups: dict[str, list[FunctionNode]] = {}
    for statement in node.body:
        if isinstance(statement, FunctionNode):
            groups.setdefault(statement.name, []).append(statement)
    units = tuple(unit for group in groups.values() if (unit := _unit(group, lines)) is not None)
    if not units:
        raise ValueError(f"class {class_name!r} has no method to write")
    first = lines[units[0].stubs[0][0] - 1]
    names = [name for statement in (*module.body, *node.body) for name in _bound(statement)]
    return Outline(
        code=code,
        class_name=class_name,
        units=units,
        indent=first[: len(first) - len(first.lstrip())],
        head=_head(module),
        end=node.end_lineno or len(lines),
        taken=frozenset(names),
    )


def find_class(module: ast.Module, name: str) -> ast.ClassDef | None:
    """Return the last top-level class of that name; None where there is none."""
    classes = [s for s in module.body if isinstance(s, ast.ClassDef) and s.name == name]
    return classes[-1] if classes else None


def is_stub(function: FunctionNode) -> bool:
    """Check whether a function is still to be written; a constructor that is just `pass` is complete."""
    plain = len(function.body) == 1 and isinstance(function.body[0], ast.Pass)
    return bindings.is_stub(function) and not (plain and function.name == "__init__")


def count_parameters(function: FunctionNode) -> int:
    """Count the parameters of a function, `self` included."""
    args = function.args
    extra = [arg for arg in (args.vararg, args.kwarg) if arg is not None]
    return len([*args.posonlyargs, *args.args, *args.kwonlyargs, *extra])


def _is_constant(statement: ast.stmt, kind: type) -> bool:
    value = statement.value if isinstance(statement, ast.Expr) else None
    return isinstance(value, ast.Constant) and isinstance(value.value, kind)


def _unit(group: list[FunctionNode], lines: list[str]) -> Unit | None:
    stubs = [function for function in group if is_stub(function)]
    if not stubs:
        return None
    spans = tuple((first_line(stub), stub.end_lineno or stub.lineno) for stub in stubs)
    decorators = [line.strip() for line in lines[spans[0][0] - 1 : stubs[0].lineno - 1]]
    return Unit(
        name=stubs[0].name,
        parameters=count_parameters(stubs[0]),
        stubs=spans,
        decorators=tuple(decorators) if len(group) == 1 else (),
        header=bindings.header(stubs[0]),
    )


def _head(module: ast.Module) -> int:
    """Return the first line after a docstring and imports from the future."""
    for statement in module.body:
        future = isinstance(statement, ast.ImportFrom) and statement.module == "__future__"
        if not future and not _is_constant(statement, str):
            decorated = isinstance(statement, ast.ClassDef) and statement.decorator_list
            return decorated[0].lineno if decorated else statement.lineno
    return 1


def _bound(statement: ast.stmt) -> frozenset[str]:
    imported = isinstance(statement, ast.Import | ast.ImportFrom)
    return frozenset() if imported else bindings.Statement(statement).bound


# Skeletons of the real data that do not parse


def repair_skeleton(code: str, class_name: str) -> str:
    """Repair a skeleton with curly quotes, in a string, or with a docstring left open.

    Returns:
        A skeleton that parses, or the code itself if it cannot be repaired.
    """
    module = parse_or_none(code)
    if module is None:
        code = code.translate(CURLY_QUOTES)
        module = parse_or_none(code)
    if module is None:
        code = _close_docstrings(code)
        module = parse_or_none(code)
    if module is not None and find_class(module, class_name) is None and len(module.body) == 1:
        text = ast.get_docstring(module, clean=False)
        if text is not None:
            return text.strip("\n") + "\n"
    return code


def _close_docstrings(code: str) -> str:
    """Close the docstrings that are left open."""
    chunks: list[list[str]] = [[]]
    for line in code.split("\n"):
        decorated = bool(chunks[-1]) and chunks[-1][-1].lstrip().startswith("@")
        if _DEFINITION.match(line) and not decorated:
            chunks.append([])
        chunks[-1].append(line)
    parts = ["\n".join(chunks[0])]
    for chunk in chunks[1:]:
        text = "\n".join(chunk)
        if parse_or_none(f"class _:\n{text}") is None:
            indent = chunk[0][: len(chunk[0]) - len(chunk[0].lstrip())]
            text = f'{text.rstrip()}\n{indent}    """\n'
        parts.append(text)
    return "\n".join(parts)
