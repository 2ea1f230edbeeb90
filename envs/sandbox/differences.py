"""Parts of a test that may fail a correct program here although it passes in one process with the test.

The test and the program run in two processes, which exchange values. `docs/data.md` has a table of differences.
"""

from __future__ import annotations

import ast
import builtins
import sys
from collections.abc import Iterator
from functools import lru_cache

from llm_decpomdp.envs.sandbox.syntax import names, parse, receivers

SEEDS = ("random.seed", "random.setstate", "numpy.random.seed")

PROCESS_STATE = frozenset(
    "os.environ.update os.environ.setdefault os.environ.pop os.putenv os.chdir sys.setrecursionlimit sys.settrace "
    "decimal.setcontext decimal.localcontext signal.signal warnings.catch_warnings warnings.simplefilter "
    "warnings.filterwarnings contextlib.redirect_stderr threading.setprofile gc.collect".split()
)
"""Functions that change or watch the state of the process in which they are called."""

WATCHERS = frozenset({"assertLogs", "assertNoLogs", "assertWarns", "assertWarnsRegex"})
"""Methods of unittest that watch the state of their own process."""

PATCHES = ("patch", "patch.object", "patch.dict", "patch.multiple")

INTERNALS = frozenset(
    "__code__ __defaults__ __kwdefaults__ __globals__ __closure__ __wrapped__ gi_frame gi_running cr_frame".split()
)
"""Attributes of functions and generators that the program does not send."""

OF_EXCEPTIONS = frozenset({"__cause__", "__context__", "__notes__", "__traceback__"})
"""Attributes of exceptions that the program does not send."""

UNCATCHABLE = frozenset(
    {"SystemExit", "KeyboardInterrupt", "GeneratorExit", "ExceptionGroup", "BaseExceptionGroup"}
)
"""Exceptions of a program that the test receives as another class."""

UNAVAILABLE = frozenset({"multiprocessing", "subprocess", "socket", "ctypes", "ssl"})
"""Modules of the standard library that need more than the sandbox allows."""

STREAMS = "open io.StringIO io.BytesIO tempfile.NamedTemporaryFile tempfile.TemporaryFile".split()
"""Functions that open a file or a stream."""

PLAIN_BASES = ("TestCase", "Exception", "Error", "Warning")
"""Ends of the names of base classes whose objects a test need not exchange with the program."""


@lru_cache(maxsize=2048)
def differences(test: str, entry_point: str, preamble: str = "") -> tuple[str, ...]:
    """Return reasons why a test may fail a correct program that passes in plain Python; empty if there are none.

    Reads the syntax trees of the test and of the prompt's `preamble` only.
    """
    try:
        reader = _DifferenceFinder(parse(test), parse(preamble), entry_point)
        return tuple(dict.fromkeys(reader.reasons()))
    except (SyntaxError, ValueError, RecursionError):
        return ()


class _DifferenceFinder:
    def __init__(self, test: ast.Module, preamble: ast.Module, entry_point: str) -> None:
        self.nodes = [*ast.walk(test)]
        self.every = [*self.nodes, *ast.walk(preamble)]
        checks = [
            node
            for node in test.body
            if isinstance(node, ast.FunctionDef) and node.name == "check" and node.args.args
        ]
        self.functions = {entry_point, *(node.args.args[0].arg for node in checks)}
        flat = [part for node in test.body for part in (node.body if node in checks else [node])]
        self.results = receivers(ast.Module(flat, []), self.functions)
        self.modules: dict[str, str] = {}  # dotted name that each imported name stands for
        self.classes = {node.name: node for node in self.every if isinstance(node, ast.ClassDef)}
        for node in self.every:
            if isinstance(node, ast.Import):
                for alias in node.names:
                    top = alias.name.partition(".")[0]
                    self.modules[alias.asname or top] = alias.name if alias.asname else top
            elif isinstance(node, ast.ImportFrom):
                for alias in node.names:
                    self.modules[alias.asname or alias.name] = f"{node.module}.{alias.name}"
        self.files: set[str] = set()  # names of open files and streams
        for node in self.nodes:
            if isinstance(node, ast.Assign) and self._opens(node.value):
                self.files |= {name for target in node.targets for name in names(target)}
            elif isinstance(node, ast.withitem) and self._opens(node.context_expr):
                self.files |= names(node.optional_vars) if node.optional_vars is not None else set()

    def reasons(self) -> Iterator[str]:
        yield from self._imports()
        yield from self._free_names()
        yield from self._random()
        for node in self.nodes:
            if isinstance(node, ast.Call):
                yield from self._about_call(node)
            elif isinstance(node, ast.Assign | ast.AugAssign | ast.Delete):
                yield from self._about_change(node)
            elif isinstance(node, ast.Compare):
                yield from self._about_identity(node)
            elif isinstance(node, ast.Attribute):
                yield from self._about_attribute(node)
            elif isinstance(node, ast.ClassDef):
                if any(self._is_function(base) for base in node.bases):
                    yield "it derives a class from one of the program's, which is in another process"
            elif isinstance(node, ast.AsyncFor) or getattr(node, "is_async", False):
                yield "it iterates over an asynchronous generator, which the program cannot return"
            elif isinstance(node, ast.ExceptHandler) and node.type is not None:
                yield from self._about_exceptions(node.type)

    # Names

    def _name(self, node: ast.AST | None) -> str:
        """Return the dotted name of an expression, with imported names in full; empty if it has none."""
        if isinstance(node, ast.Name):
            return self.modules.get(node.id, node.id)
        if isinstance(node, ast.Attribute):
            base = self._name(node.value)
            return base and f"{base}.{node.attr}"
        return ""

    def _is_function(self, node: ast.AST) -> bool:
        return isinstance(node, ast.Name) and node.id in self.functions

    def _sees_result(self, node: ast.AST) -> bool:
        return not self.results.isdisjoint(names(node))

    def _imports(self) -> Iterator[str]:
        for name in sorted({full.partition(".")[0] for full in self.modules.values()}):
            if name not in sys.stdlib_module_names and name != "None":
                yield f"it imports {name}, which neither tests nor programs can import"
            elif name in UNAVAILABLE:
                yield f"it imports {name}, most of which the sandbox forbids"

    def _free_names(self) -> Iterator[str]:
        """Yield names that only the program could define."""
        if any(isinstance(node, ast.alias) and node.name == "*" for node in self.every):
            return
        bound = {*dir(builtins), *self.functions, *self.modules, *self.classes, "__name__"}
        for node in self.every:
            if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
                bound.add(node.id)
            elif not isinstance(node, ast.Name | ast.alias | ast.keyword | ast.ImportFrom):
                # Functions, exceptions and patterns have a name, parameters an `arg`, patterns of a dict a `rest`.
                bound |= {str(getattr(node, field, "")) for field in ("name", "arg", "rest")}
        for node in self.nodes:
            if isinstance(node, ast.Name) and node.id not in bound:
                yield f"it uses the name {node.id}, which neither the test nor the prompt defines"

    def _opens(self, node: ast.AST) -> bool:
        return isinstance(node, ast.Call) and self._name(node.func) in STREAMS

    # Statements

    def _random(self) -> Iterator[str]:
        """Yield the seeding of `random`, unless the test draws numbers itself."""
        mentions = {self._name(node) for node in self.nodes}
        draws = mentions.difference(SEEDS, ["numpy.random"])
        draws_numbers = any(name.startswith(("random.", "numpy.random.")) for name in draws)
        if not mentions.isdisjoint(SEEDS) and not draws_numbers:
            yield "it seeds random, which has no effect in the process of the program"

    def _about_call(self, call: ast.Call) -> Iterator[str]:
        name = self._name(call.func)
        last = name.rpartition(".")[2] or getattr(call.func, "attr", "")
        arguments = [*call.args, *(keyword.value for keyword in call.keywords)]
        if name in PROCESS_STATE or last in WATCHERS or name.startswith("pytest.warns"):
            yield _process(name or last)
        elif name.startswith("unittest.mock.") and name.endswith(PATCHES):
            yield from self._about_patch(call)
        elif name == "setattr" and call.args and self._root_module(call.args[0]):
            yield _process(self._root_module(call.args[0]))
        elif name.startswith("inspect.") and any(map(self._sees_result, arguments)):
            yield _internals(name)
        elif name == "isinstance" and len(call.args) == 2 and self._sees_result(call.args[0]):
            yield from self._about_class(call.args[1])
        elif name == "id" and any(map(self._sees_result, arguments)):
            yield _IDENTITY
        elif name in self.classes and self._exchanges(self.classes[name]):
            yield (
                f"it makes objects of the class {name}, which cannot be passed to the program and equal none "
                "of the program's objects"
            )
        if self._is_function(call.func):
            for argument in arguments:
                if self._opens(argument) or getattr(argument, "id", "") in self.files:
                    yield "it passes an open file or stream, of which the program can only read the lines"
        if last in ("assertRaises", "assertRaisesRegex") and call.args:
            yield from self._about_exceptions(call.args[0])

    def _about_patch(self, call: ast.Call) -> Iterator[str]:
        target = call.args[0] if call.args else None
        if isinstance(target, ast.Constant) and target.value != "sys.stdout":
            yield _process(str(target.value))
        elif target is not None and (module := self._root_module(target)):
            yield _process(module)

    def _about_class(self, classes: ast.expr) -> Iterator[str]:
        for node in classes.elts if isinstance(classes, ast.Tuple) else [classes]:
            if self._is_function(node) or self._name(node) in self.classes:
                yield f"it checks for the class {ast.unparse(node)}, but the program's objects have no class here"
            elif self._name(node).startswith("types."):
                yield _internals(self._name(node))

    def _about_change(self, node: ast.Assign | ast.AugAssign | ast.Delete) -> Iterator[str]:
        """Yield changes of an imported module, which the program does not share."""
        for target in [node.target] if isinstance(node, ast.AugAssign) else node.targets:
            for part in target.elts if isinstance(target, ast.Tuple) else [target]:
                if isinstance(part, ast.Attribute | ast.Subscript):
                    place = self._name(part) or self._name(part.value)
                    if place != "sys.stdout" and self._root_module(part):
                        yield _process(place or self._root_module(part))

    def _root_module(self, node: ast.AST) -> str:
        """Return the name of the imported module whose part an expression is; empty if it is none's."""
        while isinstance(node, ast.Attribute | ast.Subscript | ast.Call):
            node = node.func if isinstance(node, ast.Call) else node.value
        return self.modules.get(node.id, "") if isinstance(node, ast.Name) else ""

    def _about_identity(self, node: ast.Compare) -> Iterator[str]:
        sides = [node.left, *node.comparators]
        if not any(isinstance(operator, ast.Is | ast.IsNot) for operator in node.ops):
            return
        if all(map(self._sees_result, sides)):
            roots = [tuple(sorted(names(side))) for side in sides]
            calls = any(isinstance(part, ast.Call) for side in sides for part in ast.walk(side))
            if calls or len(set(roots)) > 1:
                yield _IDENTITY

    def _about_attribute(self, node: ast.Attribute) -> Iterator[str]:
        if node.attr in OF_EXCEPTIONS:
            yield f"it reads {node.attr} of an exception, which the program does not send"
        elif node.attr in INTERNALS and self._sees_result(node.value):
            yield _internals(node.attr)
        elif isinstance(node.value, ast.Name) and node.value.id in self.classes:
            definition = self.classes[node.value.id]
            if any(self._name(base).endswith(("Enum", "Flag")) for base in definition.bases):
                yield (
                    f"it uses members of the enumeration {definition.name}, which cannot be passed to the "
                    "program and equal none of the program's objects"
                )

    def _about_exceptions(self, node: ast.expr) -> Iterator[str]:
        for part in node.elts if isinstance(node, ast.Tuple) else [node]:
            if self._name(part) in UNCATCHABLE:
                yield f"it expects {self._name(part)}, which arrives as another exception"

    def _exchanges(self, definition: ast.ClassDef) -> bool:
        """Check whether a test may pass objects of a class to the program, or compare them with its own."""
        methods = {getattr(part, "name", "") for part in definition.body}
        if "__call__" in methods or "__next__" in methods:
            return False  # they are passed as functions or iterators
        return not any(self._name(base).endswith(PLAIN_BASES) for base in definition.bases)


_IDENTITY = "it checks whether two results are one object, but each result is a copy"


def _process(name: str) -> str:
    text = "in its own process, but the program runs in another process"
    return f"it changes or watches {name} {text}"


def _internals(name: str) -> str:
    return f"it reads {name}, which the program does not send"
