"""Top-level statements of code: the names that they bind, define and need."""

from __future__ import annotations

import ast
import builtins
import symtable
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache

from llm_decpomdp.envs.source_code.parsing import (
    FUNCTIONS,
    SyntaxProblem,
    is_stub,
    parse_or_none,
    returns,
)

# Python 3.10 has no `except*`.
TRY = tuple(vars(ast)[name] for name in ("Try", "TryStar") if name in vars(ast))
BLOCKS = (*TRY, ast.If, ast.With, ast.AsyncWith, ast.For, ast.While, ast.Match)
"""Statements whose bodies bind names of the module."""

FORMS = (ast.Lambda, ast.Name, ast.Attribute, ast.Call, ast.Subscript, ast.IfExp, ast.NamedExpr)
"""Expressions that may be a function."""

BUILTINS = frozenset(dir(builtins)) | {"__name__", "__file__", "__doc__", "__builtins__"}

STUB, QUOTE, IMPORTED, SILENT, COMPLETE = range(5)
"""Ranks of definitions: an empty body; as the prompt has it; imported; without `return`; complete."""


def fingerprint(function: ast.AST) -> str:
    """Return a text that is equal for functions that are equal but for comments, layout and docstring.

    It is empty for a function whose blocks are nested too deeply, as in hundreds of `elif`.
    """
    # A quotation of the prompt often lacks the docstring.
    if isinstance(function, FUNCTIONS) and ast.get_docstring(function, clean=False) is not None:
        body = function.body[1:] or function.body
        function = type(function)(**{**vars(function), "body": body})
    try:
        return ast.dump(function)
    except RecursionError:
        return ""


def first_line(statement: ast.stmt) -> int:
    """Return the line on which a statement begins, decorators included."""
    decorators = getattr(statement, "decorator_list", ())
    return min([statement.lineno, *(int(decorator.lineno) for decorator in decorators)])


@dataclass(frozen=True, eq=False)
class Statement:
    """A top-level statement of a module, or one in the body of a class."""

    node: ast.stmt

    @cached_property
    def definitions(self) -> dict[str, ast.expr | ast.stmt]:
        """The names that it may define as functions, each with the last statement or expression that does."""
        return dict(_definitions(self.node))

    @cached_property
    def bound(self) -> frozenset[str]:
        """The names that it binds in its own namespace."""
        return frozenset(name for node in _own_nodes(self.node) for name in names_bound_by(node))

    @cached_property
    def changed_names(self) -> frozenset[str]:
        """The names whose objects it plainly changes, as in `table[0] = 1`, `table.append(1)` or `f.a = 1`."""
        names = set()
        for node in _own_nodes(self.node):
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
                node = node.value.func
                changes = isinstance(node, ast.Attribute)
            else:
                changes = isinstance(node, ast.Subscript | ast.Attribute) and not isinstance(
                    node.ctx, ast.Load
                )
            if changes and (name := _base(node)):
                names.add(name)
        return frozenset(names) - self.bound

    @cached_property
    def eager(self) -> frozenset[str]:
        """The names that it reads when it runs, without those in bodies of functions."""
        return frozenset(
            node.id
            for node in _own_nodes(self.node, classes=True)
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
        )

    def rank(self, name: str) -> int:
        """Return how complete its definition of a name is."""
        definition = self.definitions[name]
        if isinstance(definition, FUNCTIONS):
            if is_stub(definition):
                return STUB
            return COMPLETE if returns(definition) else SILENT
        if isinstance(definition, ast.Import | ast.ImportFrom):
            return IMPORTED
        return COMPLETE

    def is_prose(self, known: Collection[str]) -> bool:
        """Check whether it is text that happens to parse: it can only look names up, or fail to find them.

        `known` are all names that are bound anywhere.
        """
        node = self.node
        if isinstance(node, ast.AnnAssign) and node.value is None:
            return isinstance(node.target, ast.Name)
        if not isinstance(node, ast.Expr | ast.AnnAssign | ast.Assert | ast.Raise | ast.Delete):
            return False
        if isinstance(node, ast.Expr):
            if isinstance(node.value, ast.Constant):
                return False  # docstrings
            if not any(isinstance(part, _ACTIONS) for part in ast.walk(node)):
                return True
        # `from m import *` may bind any name.
        return "*" not in known and any(
            isinstance(part, ast.Name) and part.id not in known and part.id not in BUILTINS
            for part in _own_nodes(node)
        )


_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp, ast.JoinedStr)
_ACTIONS = (ast.Call, ast.NamedExpr, ast.Await, ast.Yield, ast.YieldFrom, *_COMPREHENSIONS)


def _definitions(statement: ast.stmt) -> Iterator[tuple[str, ast.expr | ast.stmt]]:
    # Without recursion: each `elif` is a level of its own.
    pending = [statement]
    while pending:
        node = pending.pop()
        if isinstance(node, FUNCTIONS):
            yield node.name, node
        elif isinstance(node, ast.Import | ast.ImportFrom):
            for alias in node.names:
                yield (alias.asname or alias.name).partition(".")[0], node
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                yield from _assigned_definitions(target, node.value)
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            yield from _assigned_definitions(node.target, node.value)
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.NamedExpr):
            yield from _assigned_definitions(node.value.target, node.value.value)
        elif isinstance(node, BLOCKS) and not _never_runs(node):
            pending += reversed([*_inner_statements(node)])


def _assigned_definitions(target: ast.expr, value: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    if isinstance(target, ast.Name) and isinstance(value, FORMS):
        yield target.id, value
    elif isinstance(target, ast.Tuple | ast.List):
        if isinstance(value, ast.Tuple | ast.List) and len(value.elts) == len(target.elts):
            for part, item in zip(target.elts, value.elts, strict=True):
                yield from _assigned_definitions(part, item)
        elif isinstance(value, ast.Call):
            yield from ((part.id, value) for part in target.elts if isinstance(part, ast.Name))


def _never_runs(statement: ast.stmt) -> bool:
    """Check whether it is `if __name__ == ...`, which no program under test is, or `if False`."""
    if not isinstance(statement, ast.If):
        return False
    names = {node.id for node in ast.walk(statement.test) if isinstance(node, ast.Name)}
    # The body of `if True` runs.
    if isinstance(statement.test, ast.Constant):
        return not statement.test.value
    return bool(names & {"__name__", "TYPE_CHECKING"})


def _inner_statements(statement: ast.AST) -> Iterator[ast.stmt]:
    for child in ast.iter_child_nodes(statement):
        if isinstance(child, ast.stmt):
            yield child
        elif isinstance(child, ast.ExceptHandler | ast.match_case):
            yield from _inner_statements(child)


def _own_nodes(statement: ast.AST, classes: bool = False) -> Iterator[ast.AST]:
    """Yield the nodes of a statement that run in its own namespace; optionally also those in bodies of classes.

    Decorators and default values of functions do, their bodies don't.
    """
    pending: list[ast.AST] = [statement]
    while pending:
        node = pending.pop()
        yield node
        if isinstance(node, FUNCTIONS):
            pending += node.decorator_list
            pending += [
                default for default in (*node.args.defaults, *node.args.kw_defaults) if default
            ]
        elif isinstance(node, ast.ClassDef) and not classes:
            pending += [*node.decorator_list, *node.bases, *(word.value for word in node.keywords)]
        elif not isinstance(node, ast.Lambda):
            pending += ast.iter_child_nodes(node)


def names_bound_by(node: ast.AST) -> tuple[str, ...]:
    """Return the names that a node itself binds, without those that nodes in it do."""
    if isinstance(node, (*FUNCTIONS, ast.ClassDef)):
        return (node.name,)
    if isinstance(node, ast.Name):
        return () if isinstance(node.ctx, ast.Load) else (node.id,)
    if isinstance(node, ast.alias):
        return ((node.asname or node.name).partition(".")[0],)
    if isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and node.name:
        return (node.name,)
    return ()


def _base(node: ast.AST) -> str:
    """Return the name with which a chain of attributes, items and calls begins; empty where there is none."""
    while isinstance(node, ast.Attribute | ast.Subscript | ast.Call):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else ""


def needed_names(code: str) -> set[str]:
    """Return the names that code reads and neither binds at its top level nor has as builtins.

    Empty where it cannot be compiled.
    """
    try:
        module = symtable.symtable(code, "<completion>", "exec")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return set()
    bound = {
        symbol.get_name()
        for symbol in module.get_symbols()
        if symbol.is_assigned() or symbol.is_imported() or symbol.is_namespace()
    }
    names: set[str] = set()
    pending = [module]
    while pending:
        table = pending.pop()
        for symbol in table.get_symbols():
            # `global n; n += 1` reads `n`, but is no reference for symtable.
            read = symbol.is_referenced() or symbol.is_declared_global()
            if read and (table is module or symbol.is_global()):
                names.add(symbol.get_name())
        pending += table.get_children()
    return names - bound - BUILTINS


def all_bound(tree: ast.AST) -> set[str]:
    """Return all names that are bound anywhere in code, in functions too."""
    names: set[str] = set()
    for node in ast.walk(tree):
        names.update(names_bound_by(node))
        if isinstance(node, ast.arg):
            names.add(node.arg)
        elif isinstance(node, ast.Global | ast.Nonlocal):
            names.update(node.names)
        elif isinstance(node, ast.MatchMapping) and node.rest:
            names.add(node.rest)
    return names


@dataclass(frozen=True, eq=False)
class Module:
    """A block of a completion that parses."""

    text: str
    statements: tuple[Statement, ...]
    fenced: bool

    @cached_property
    def definers(self) -> dict[str, list[int]]:
        """The statements that define each name, by their indices."""
        return _index(statement.definitions for statement in self.statements)

    @cached_property
    def binders(self) -> dict[str, list[int]]:
        """The statements that bind each name or change its object; empty functions are none."""
        return _index(
            ()
            if isinstance(statement.node, FUNCTIONS) and is_stub(statement.node)
            else statement.bound | statement.changed_names
            for statement in self.statements
        )

    @cached_property
    def functions(self) -> dict[str, Statement]:
        """The last function of each name."""
        return {s.node.name: s for s in self.statements if isinstance(s.node, FUNCTIONS)}

    @cached_property
    def fingerprints(self) -> frozenset[str]:
        """Fingerprints of its functions."""
        return frozenset(fingerprint(statement.node) for statement in self.functions.values())

    @cached_property
    def lines(self) -> list[bytes]:
        """The lines of the text."""
        # Columns of syntax trees count bytes of UTF-8.
        return [line.encode() for line in self.text.split("\n")]

    def rank(self, name: str, index: int) -> int:
        """Return how complete a definition of a name is; an alias is as complete as its function."""
        definition = self.statements[index].definitions[name]
        if isinstance(definition, ast.Name) and definition.id in self.functions:
            return self.functions[definition.id].rank(definition.id)
        return self.statements[index].rank(name)


def _index(names: Iterable[Iterable[str]]) -> dict[str, list[int]]:
    index: dict[str, list[int]] = {}
    for number, group in enumerate(names):
        for name in group:
            index.setdefault(name, []).append(number)
    return index


def make_module(text: str, tree: ast.Module | SyntaxProblem, fenced: bool) -> Module:
    """Return a block that parses."""
    assert isinstance(tree, ast.Module)
    return Module(text, tuple(map(Statement, tree.body)), fenced)


def remove_statements(module: Module, dropped: Collection[int]) -> str:
    """Return the text of a block without some statements; the others stay on their lines."""
    if not dropped:
        return module.text
    lines = [*module.lines]
    # From the end, so that the columns of earlier statements on the same line stay right.
    for index in sorted(dropped, reverse=True):
        node = module.statements[index].node
        first, last = first_line(node) - 1, (node.end_lineno or node.lineno) - 1
        before = lines[first][: node.col_offset] if first == node.lineno - 1 else b""
        after = lines[last][node.end_col_offset :]
        alone = not before.strip() and (not after.strip() or after.lstrip().startswith(b"#"))
        # As many lines as before, so that those of later statements keep their numbers.
        lines[first : last + 1] = [b"" if alone else before + b"pass" + after] + [b""] * (
            last - first
        )
    return b"\n".join(lines).decode()


def statement_text(module: Module, index: int) -> str:
    """Return the text of a statement."""
    node = module.statements[index].node
    first, last = first_line(node) - 1, (node.end_lineno or node.lineno) - 1
    text = module.lines[first : last + 1]
    text[-1] = text[-1][: node.end_col_offset]
    if first == node.lineno - 1:
        text[0] = text[0][node.col_offset :]
    return b"\n".join(text).decode()


def join_code(extra: list[str], texts: list[str]) -> str:
    """Join code, with imports from the future first."""
    if not extra and len(texts) == 1:
        return texts[0]
    futures: dict[str, None] = {}
    rest = []
    for text in (*extra, *texts):
        lines = text.split("\n")
        if "from __future__" in text and (tree := parse_or_none(text)) is not None:
            for statement in tree.body:
                if isinstance(statement, ast.ImportFrom) and statement.module == "__future__":
                    futures[ast.unparse(statement)] = None
                    for number in range(statement.lineno - 1, statement.end_lineno or 0):
                        lines[number] = ""
        rest.append("\n".join(lines).strip("\n"))
    return "\n\n".join(filter(None, [*futures, *rest])) + "\n"


@lru_cache(maxsize=256)
def fingerprints(code: str) -> frozenset[str]:
    """Return the fingerprints of the functions and methods of code; none where it does not parse."""
    tree = parse_or_none(code)
    nodes = ast.walk(tree) if tree is not None else ()
    return frozenset(fingerprint(node) for node in nodes if isinstance(node, FUNCTIONS))


@lru_cache(maxsize=256)
def bound_names(code: str) -> frozenset[str]:
    """Return the names that code binds at its top level; none where it does not parse."""
    tree = parse_or_none(code)
    statements = map(Statement, tree.body) if tree is not None else ()
    return frozenset(name for statement in statements for name in statement.bound)
