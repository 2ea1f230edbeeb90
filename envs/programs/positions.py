"""A parsed program whose nodes know where in the text they stand."""

from __future__ import annotations

import ast
import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass

from llm_decpomdp.envs.programs.parsing import parse

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
UNSEEN = {"annotation", "returns", "decorator_list", "type_params", "type_comment"}
"""Fields whose contents decide nothing when a function runs."""

Node = ast.expr | ast.stmt | ast.arg


@dataclass(frozen=True)
class Place:
    """A node inside a function, and what surrounds it."""

    node: ast.AST
    above: tuple[ast.AST, ...]
    """The nodes around it, the nearest first, up to the function."""
    field: str
    """Of its parent."""
    names: tuple[tuple[int, str], ...]
    """The variables of the functions around it, each with the offset of its first binding, in order."""

    @property
    def parent(self) -> ast.AST:
        """The nearest node around it."""
        return self.above[0]


@dataclass(frozen=True)
class Located:
    """A text, its bytes, and every node inside its functions."""

    data: bytes
    lines: tuple[int, ...]
    """Offset of each line in bytes."""
    tree: ast.Module

    @classmethod
    def of(cls, source: str) -> Located:
        """Parse a text.

        Raises:
            SyntaxError: If it does not parse.
        """
        data = source.encode()
        ends = (match.end() for match in re.finditer(rb"\r\n|\r|\n", data))
        return cls(data, (0, *ends), parse(source))

    def start(self, node: Node) -> int:
        """Where a node begins, in bytes."""
        return self.lines[node.lineno - 1] + node.col_offset

    def end(self, node: Node) -> int:
        """Where a node ends, in bytes."""
        assert node.end_lineno is not None and node.end_col_offset is not None
        return self.lines[node.end_lineno - 1] + node.end_col_offset

    def segment(self, node: Node) -> str:
        """A node's own text."""
        return self.data[self.start(node) : self.end(node)].decode()

    def position(self, offset: int) -> tuple[int, int]:
        """Line and column of an offset; both count from 1, columns in bytes."""
        line = bisect_right(self.lines, offset)
        return line, offset - self.lines[line - 1] + 1

    @property
    def places(self) -> Iterator[Place]:
        """Every node inside a function or a method, but docstrings, annotations, decorators and f-strings.

        What stands in an f-string has no reliable position before Python 3.12.
        """
        pending: list[ast.stmt] = list(reversed(self.tree.body))
        while pending:
            statement = pending.pop()
            if isinstance(statement, FUNCTIONS):
                yield from self._below(statement, (), ())
            elif isinstance(statement, ast.ClassDef):
                pending += reversed(statement.body)

    def _below(
        self, node: ast.AST, above: tuple[ast.AST, ...], names: tuple[tuple[int, str], ...]
    ) -> Iterator[Place]:
        if isinstance(node, FUNCTIONS):
            names = (*names, *self._bindings(node))
        above = (node, *above)
        for field, value in ast.iter_fields(node):
            if field in UNSEEN:
                continue
            children = value if isinstance(value, list) else [value]
            for child in children[has_docstring(node) and field == "body" :]:
                if isinstance(child, ast.AST) and not isinstance(child, ast.JoinedStr):
                    yield Place(child, above, field, names)
                    yield from self._below(child, above, names)

    def _bindings(self, function: ast.FunctionDef | ast.AsyncFunctionDef) -> list[tuple[int, str]]:
        """The variables of a function itself, without those of comprehensions and inner functions."""
        first: dict[str, int] = {}
        pending: list[ast.AST] = [function.args, *function.body]
        while pending:
            node = pending.pop()
            if isinstance(node, (*FUNCTIONS, ast.ClassDef, ast.Lambda, ast.comprehension)):
                continue
            if isinstance(node, ast.arg):
                first[node.arg] = self.start(node)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                first[node.id] = min(self.start(node), first.get(node.id, self.start(node)))
            pending += ast.iter_child_nodes(node)
        return sorted((offset, name) for name, offset in first.items())


def has_docstring(node: ast.AST) -> bool:
    """Whether a function or class begins with a docstring."""
    if not isinstance(node, (*FUNCTIONS, ast.ClassDef)):
        return False
    first = node.body[0]
    return (
        isinstance(first, ast.Expr)
        and isinstance(first.value, ast.Constant)
        and isinstance(first.value.value, str)
    )
