"""Source code with the place of every node of its syntax tree, for edits of its text."""

from __future__ import annotations

import ast
import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass

from llm_decpomdp.envs.source_code.parsing import FUNCTIONS, has_docstring, parse

UNSEEN = {"annotation", "returns", "decorator_list", "type_params", "type_comment"}
"""Fields that do not affect a running function."""


Node = ast.expr | ast.stmt | ast.arg


@dataclass(frozen=True)
class Location:
    """A node inside a function, with its ancestors."""

    node: ast.AST
    above: tuple[ast.AST, ...]
    """Ancestors, the nearest first, up to the function."""
    field: str
    """Field of the parent that holds the node."""
    names: tuple[tuple[int, str], ...]
    """Variables of the enclosing functions, each with the offset of its first binding, in order."""

    @property
    def parent(self) -> ast.AST:
        """Nearest ancestor."""
        return self.above[0]


@dataclass(frozen=True)
class LocatedSource:
    """Source code with its bytes, lines and syntax tree."""

    data: bytes
    lines: tuple[int, ...]
    """Offset of each line, in bytes."""
    tree: ast.Module

    @classmethod
    def from_text(cls, source: str) -> LocatedSource:
        """Parse a text; raises `SyntaxError` where it does not parse."""
        data = source.encode()
        ends = (match.end() for match in re.finditer(rb"\r\n|\r|\n", data))
        return cls(data, (0, *ends), parse(source))

    def start(self, node: Node) -> int:
        """Return the offset of a node's beginning, in bytes."""
        return self.lines[node.lineno - 1] + node.col_offset

    def end(self, node: Node) -> int:
        """Return the offset of a node's end, in bytes."""
        assert node.end_lineno is not None and node.end_col_offset is not None
        return self.lines[node.end_lineno - 1] + node.end_col_offset

    def segment(self, node: Node) -> str:
        """Return the text of a node."""
        return self.data[self.start(node) : self.end(node)].decode()

    def position(self, offset: int) -> tuple[int, int]:
        """Return line and column of an offset; both count from 1, columns in bytes."""
        line = bisect_right(self.lines, offset)
        return line, offset - self.lines[line - 1] + 1

    @property
    def locations(self) -> Iterator[Location]:
        """Every node inside a function or a method, except docstrings, annotations, decorators and f-strings.

        Nodes in an f-string have no reliable position before Python 3.12.
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
    ) -> Iterator[Location]:
        if isinstance(node, FUNCTIONS):
            names = (*names, *self._bindings(node))
        above = (node, *above)
        for field, value in ast.iter_fields(node):
            if field in UNSEEN:
                continue
            children = value if isinstance(value, list) else [value]
            for child in children[has_docstring(node) and field == "body" :]:
                if isinstance(child, ast.AST) and not isinstance(child, ast.JoinedStr):
                    yield Location(child, above, field, names)
                    yield from self._below(child, above, names)

    def _bindings(self, function: ast.FunctionDef | ast.AsyncFunctionDef) -> list[tuple[int, str]]:
        """Return the variables of a function itself, without those of comprehensions and inner functions."""
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
