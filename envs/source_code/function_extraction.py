"""Divide a function in two: a part of it becomes a helper function that the rest calls.

This is the refactoring "extract function" (Fowler, Refactoring, 1999) on the syntax tree. The part is an
expression of at least `MIN_OPERATIONS` operations, or statements that follow each other, such as the body of a
loop or a branch. The variables that it reads become parameters. Those that it assigns, and that are read later,
are returned. A function that the divided one calls may be the part, too. A part is left out if its call could mean
something else than the part: see `_refuses`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from llm_decpomdp.envs.source_code.parsing import FUNCTIONS, parse_or_none
from llm_decpomdp.envs.source_code.statements import BUILTINS, Statement, all_bound, bound_names
from llm_decpomdp.envs.source_code.variables import (
    NONE,
    SCOPES,
    Flow,
    bound_in,
    loaded_names,
    variable_flow,
)

MIN_OPERATIONS = 2
"""Fewest operations of an extracted part. At least one is left."""

MAX_PARAMETERS, MAX_RESULTS = 5, 3

KINDS = ("expression", "branch", "loop body", "statements", "function")
"""Kinds of extracted parts."""

OPERATIONS = (
    *(ast.BinOp, ast.BoolOp, ast.Compare, ast.UnaryOp, ast.Call, ast.Subscript, ast.IfExp),
    *(ast.comprehension, ast.For, ast.While, ast.If, ast.AugAssign),
)
"""Nodes that count as operations."""

REFUSED = (
    *(ast.Yield, ast.YieldFrom, ast.Await, ast.AsyncFor, ast.AsyncWith, ast.NamedExpr, ast.Delete),
    *(ast.Global, ast.Nonlocal, ast.Import, ast.ImportFrom, ast.ClassDef, ast.Match),
    *(ast.FunctionDef, ast.AsyncFunctionDef),
)
"""Nodes that no extracted part has: in a function of its own they mean something else."""

GENERATORS = (ast.Yield, ast.YieldFrom, ast.Await, ast.Global, ast.Nonlocal)
"""Nodes of functions that are not divided."""

FRAME_FUNCTIONS = frozenset(("locals", "globals", "vars", "dir", "eval", "exec", "super"))
"""Builtin functions whose results depend on the function that calls them."""


@dataclass(frozen=True)
class Extraction:
    """A function in two parts: one is extracted into a helper."""

    helper: str
    """Code of the helper function, with the imports and definitions that it needs."""
    main: str
    """Code of the function that calls it, with those that it needs."""
    kind: str
    """Extracted part, one of `KINDS`."""
    balance: float
    """Operations of the smaller part divided by those of the larger, in (0, 1]."""

    @property
    def counts(self) -> bool:
        """True if the helper only returns a `range`, which is little work."""
        return self.kind == "expression" and "\n    return range(" in self.helper


class Place(NamedTuple):
    """A block of statements in a function."""

    block: list[ast.stmt]
    kind: str
    sure: frozenset[str]
    """Variables that are assigned before the block begins."""
    live: frozenset[str]
    """Variables that may be read after it, before they are assigned again."""
    guarded: bool
    """Whether it stands in the body of a `try`."""


def divide_function(
    code: str, entry_point: str, helper: str = "aux", preamble: str = ""
) -> list[Extraction]:
    """Return all extractions from a function, the most balanced first, and those that only count last.

    `code` is a module that defines the function. Definitions of the `preamble`, which is there in any case, are
    not repeated.
    """
    shared_tree = parse_or_none(code)
    if shared_tree is None:
        return []
    used_names = {node.id for node in ast.walk(shared_tree) if isinstance(node, ast.Name)}
    if helper in used_names | all_bound(shared_tree) | bound_names(preamble):
        return []
    module = ast.parse(code)  # a tree of its own, which is changed
    functions = [node for node in module.body if isinstance(node, FUNCTIONS)]
    function = next((node for node in reversed(functions) if node.name == entry_point), None)
    nodes = [*ast.walk(function)] if function is not None else []
    if not isinstance(function, ast.FunctionDef) or any(isinstance(n, GENERATORS) for n in nodes):
        return []
    if ast.get_docstring(function) is not None and len(function.body) > 1:
        del function.body[0]
    # Both parts may need what the function imports.
    imports = [node for node in function.body if isinstance(node, ast.Import | ast.ImportFrom)]
    function.body = [node for node in function.body if node not in imports]
    module.body[:0] = imports
    extractor = _Extractor(module, function, helper, bound_names(preamble))
    by_helper = {extraction.helper: extraction for extraction in extractor.extractions()}
    return sorted(
        by_helper.values(), key=lambda extraction: (extraction.counts, -extraction.balance)
    )


class _Extractor:
    """Extracts the parts of one function, in turn; the tree is as before after each."""

    def __init__(
        self, module: ast.Module, function: ast.FunctionDef, helper: str, given: frozenset[str]
    ) -> None:
        self.module, self.function, self.helper, self.given = module, function, helper, given
        self.parameters = frozenset(
            node.arg for node in ast.walk(function.args) if isinstance(node, ast.arg)
        )
        nodes = [node for statement in function.body for node in ast.walk(statement)]
        inner = [node for node in nodes if isinstance(node, (*FUNCTIONS, ast.Lambda))]
        self.closures = frozenset(name for node in inner for name in loaded_names(node))
        """Variables that functions in this one may read at any time."""
        self.functions = frozenset(node.name for node in inner if isinstance(node, FUNCTIONS))
        self.local = self.parameters | bound_in(function.body)

    def extractions(self) -> Iterator[Extraction]:
        """Yield an extraction for each part that can be extracted."""
        yield from self._functions()
        for place in self._places(self.function.body, "statements", self.parameters, frozenset()):
            sure, size = place.sure, len(place.block)
            for first in range(size):
                statement = place.block[first]
                yield from self._expressions(statement, sure)
                for end in range(first + 1, size + 1):
                    whole = place.kind == "statements" and end - first == size
                    if not place.guarded and not whole:
                        kind = place.kind if end - first == size else "statements"
                        yield from self._statements(place, first, end, sure, kind)
                sure |= variable_flow([statement]).sure

    def _places(
        self,
        block: list[ast.stmt],
        kind: str,
        sure: frozenset[str],
        live: frozenset[str],
        guarded: bool = False,
    ) -> Iterator[Place]:
        yield Place(block, kind, sure, live, guarded)
        for index, statement in enumerate(block):
            after = live | variable_flow(block[index + 1 :]).reads
            match statement:
                case ast.For() | ast.While():
                    begin, again = sure, variable_flow(statement.body).reads
                    if isinstance(statement, ast.For):
                        begin |= bound_in([statement.target])
                        again -= bound_in([statement.target])
                    else:
                        again |= loaded_names(statement.test)
                    yield from self._places(
                        statement.body, "loop body", begin, after | again, guarded
                    )
                    yield from self._places(statement.orelse, "branch", sure, after, guarded)
                case ast.If():
                    for branch in (statement.body, statement.orelse):
                        yield from self._places(branch, "branch", sure, after, guarded)
                case ast.With():
                    begin = sure | bound_in(statement.items)
                    yield from self._places(statement.body, "branch", begin, after, guarded)
                case ast.Try():
                    later = [s for h in statement.handlers for s in h.body]
                    later += [*statement.orelse, *statement.finalbody]
                    during = after | loaded_names(*later)
                    yield from self._places(statement.body, "branch", sure, during, True)
            sure |= variable_flow([statement]).sure

    # Parts

    def _statements(
        self, place: Place, first: int, end: int, sure: frozenset[str], kind: str
    ) -> Iterator[Extraction]:
        part = place.block[first:end]
        flow = variable_flow(part)
        if self._refuses(part, flow):
            return
        live = place.live | variable_flow(place.block[end:]).reads | self.closures
        results = sorted((flow.writes | flow.changes & self.local) & live)
        returns = any(isinstance(node, ast.Return) for s in part for node in ast.walk(s))
        if returns == bool(results) or len(results) > MAX_RESULTS:
            return
        reads = flow.reads | (frozenset(results) - flow.sure)
        call = self._call(reads, sure)
        if call is None:
            return
        value = [ast.Name(name, ast.Load()) for name in results]
        result: ast.expr = value[0] if len(value) == 1 else ast.Tuple([*value], ast.Load())
        body = part if returns else [*part, ast.Return(result)]
        if returns:
            new: ast.stmt = ast.Return(call)
        else:
            targets: list[ast.expr] = [ast.Name(name, ast.Store()) for name in results]
            new = ast.Assign(
                targets[:1] if len(targets) == 1 else [ast.Tuple(targets, ast.Store())], call
            )
        # Undone after the `yield`, so that every extraction is one of the same function.
        place.block[first:end] = [new]
        try:
            yield from self._call_extraction(call, body, kind)
        finally:
            place.block[first : first + 1] = part

    def _expressions(self, statement: ast.stmt, sure: frozenset[str]) -> Iterator[Extraction]:
        """Yield the extractions of an expression of a statement, without those of blocks in it."""
        if isinstance(statement, (*FUNCTIONS, ast.ClassDef)):
            return
        pending: list[tuple[ast.AST, frozenset[str]]] = [(statement, frozenset())]
        while pending:
            parent, bound = pending.pop()
            if isinstance(parent, SCOPES):
                bound |= bound_in([parent])
            for name, value in ast.iter_fields(parent):
                for index, node in enumerate(value if isinstance(value, list) else [value]):
                    if not isinstance(node, ast.AST) or isinstance(node, ast.stmt):
                        continue
                    if isinstance(node, ast.JoinedStr | ast.ExceptHandler | ast.match_case):
                        continue
                    if name == "annotation":
                        continue
                    pending.append((node, bound))
                    if isinstance(node, ast.expr) and name != "func":
                        yield from self._expression(parent, name, index, node, sure, bound)

    def _expression(
        self,
        parent: ast.AST,
        field: str,
        index: int,
        part: ast.expr,
        sure: frozenset[str],
        bound: frozenset[str],
    ) -> Iterator[Extraction]:
        store = not isinstance(getattr(part, "ctx", ast.Load()), ast.Load)
        if store or isinstance(part, ast.GeneratorExp | ast.Lambda | ast.Starred | ast.Slice):
            return
        flow = Flow(reads=loaded_names(part))
        if self._refuses([part], flow):
            return
        call = self._call(flow.reads, sure | bound, bound)
        if call is None:
            return
        value = getattr(parent, field)
        items = value if isinstance(value, list) else None
        if items is None:
            setattr(parent, field, call)
        else:
            items[index] = call
        try:
            yield from self._call_extraction(call, [ast.Return(part)], "expression")
        finally:
            if items is None:
                setattr(parent, field, part)
            else:
                items[index] = part

    def _refuses(self, part: Sequence[ast.AST], flow: Flow) -> bool:
        """Check whether a part means something else in a function of its own, or calls the function itself."""
        nodes = [node for root in part for node in ast.walk(root)]
        if any(isinstance(node, REFUSED) for node in nodes) or leaves_loop(part):
            return True
        returns = any(isinstance(node, ast.Return) for node in nodes)
        # A `return` stays one only if every path ends with it.
        if returns != flow.ends or count_operations(part) < MIN_OPERATIONS:
            return True
        called = flow.reads & (FRAME_FUNCTIONS - self.local)
        return bool(called or flow.reads & (self.functions | {self.function.name}))

    def _call(
        self, reads: frozenset[str], sure: frozenset[str], bound: frozenset[str] = frozenset()
    ) -> ast.Call | None:
        """Return the call of the helper with the variables that it reads; `None` if one may not be assigned."""
        names = reads & (self.local | bound)
        if not names or len(names) > MAX_PARAMETERS or names - sure:
            return None
        order = [arg.arg for arg in ast.walk(self.function.args) if isinstance(arg, ast.arg)]
        rank = {name: index for index, name in enumerate(order)}
        arguments = sorted(names, key=lambda name: (rank.get(name, len(rank)), name))
        return ast.Call(
            ast.Name(self.helper, ast.Load()), [ast.Name(n, ast.Load()) for n in arguments], []
        )

    def _functions(self) -> Iterator[Extraction]:
        """Yield the extractions of whole functions: those in the function, and others that it calls."""
        inside = [(self.function.body, node) for node in self.function.body]
        outside = [
            (self.module.body, node) for node in self.module.body if node is not self.function
        ]
        for block, node in (*inside, *outside):
            if not isinstance(node, ast.FunctionDef) or node.name in self.given:
                continue
            parts = [part for statement in node.body for part in ast.walk(statement)]
            private = self.local if block is self.function.body else NONE
            reads = loaded_names(node) - {node.name}
            if node.decorator_list or reads & (private | {self.function.name}):
                continue
            if any(isinstance(part, GENERATORS) for part in parts):
                continue
            if count_operations(node.body) >= MIN_OPERATIONS:
                yield from self._function(block, node)

    def _function(self, block: list[ast.stmt], part: ast.FunctionDef) -> Iterator[Extraction]:
        """Yield the extraction of a whole function, under the name of the helper."""
        name, place = part.name, block.index(part)
        nodes = [*ast.walk(part), *ast.walk(self.function)]
        users = {node for node in nodes if isinstance(node, ast.Name) and node.id == name}
        others = [s for s in self.module.body if s not in (self.function, part)]
        hidden = any(isinstance(node, ast.arg) and node.arg == name for node in nodes)
        if not users or hidden or name in loaded_names(*others):
            return
        if any(not isinstance(node.ctx, ast.Load) for node in users):
            return
        del block[place]
        for node in users:
            node.id = self.helper
        part.name = self.helper
        try:
            yield from self._extraction(
                ast.unparse(part), part.body, loaded_names(part), "function"
            )
        finally:
            part.name = name
            for node in users:
                node.id = name
            block.insert(place, part)

    def _call_extraction(
        self, call: ast.Call, body: Sequence[ast.stmt], kind: str
    ) -> Iterator[Extraction]:
        """Yield the extraction of a body into a helper that is called with variables of its own names."""
        names = [arg.id for arg in call.args if isinstance(arg, ast.Name)]
        header = f"def {self.helper}({', '.join(names)}):"
        text = "\n".join(ast.unparse(ast.fix_missing_locations(s)) for s in body)
        helper = f"{header}\n" + "\n".join(f"    {line}" for line in text.split("\n"))
        yield from self._extraction(helper, body, loaded_names(*body), kind)

    def _extraction(
        self, helper: str, body: Sequence[ast.stmt], reads: frozenset[str], kind: str
    ) -> Iterator[Extraction]:
        """Yield the extraction of the tree as it stands, with calls in place of the part."""
        sizes = (count_operations(body), count_operations(self.function.body) - 1)
        if not sizes[1]:
            return
        main = ast.unparse(ast.fix_missing_locations(self.function))
        yield Extraction(
            self._with_definitions(helper, reads),
            self._with_definitions(main, loaded_names(self.function)),
            kind,
            min(sizes) / max(sizes),
        )

    def _with_definitions(self, code: str, reads: frozenset[str]) -> str:
        """Return code after the statements of the module that define what it reads, directly or indirectly."""
        others = [Statement(node) for node in self.module.body if node is not self.function]
        chosen: set[Statement] = set()
        pending = reads - self.given - self.local
        while names := pending - BUILTINS:
            pending = frozenset()
            for statement in others:
                if statement not in chosen and names & statement.bound:
                    chosen.add(statement)
                    pending |= loaded_names(statement.node) - self.given
        parts = [ast.unparse(statement.node) for statement in others if statement in chosen]
        return "\n\n".join([*parts, code])


def count_operations(part: Sequence[ast.AST]) -> int:
    """Count the operations of code."""
    return sum(isinstance(node, OPERATIONS) for root in part for node in ast.walk(root))


def leaves_loop(part: Sequence[ast.AST]) -> bool:
    """Check whether code has a `break` or `continue` of a loop around it."""
    pending = [*part]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Break | ast.Continue):
            return True
        if isinstance(node, ast.For | ast.While):
            pending += node.orelse  # its body breaks the loop itself
        else:
            pending += ast.iter_child_nodes(node)
    return False
