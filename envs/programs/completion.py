"""Read an agent's completion as Python: extract its code, and find the definition of a function.

Everything is decided on the AST. Only a completion that does not parse is read as text, by the rules of
`_read_text` and `_returns_in_text`, to distinguish a broken attempt from no attempt.
"""

from __future__ import annotations

import ast
import re
import textwrap
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

from llm_decpomdp.envs.programs.code_blocks import (
    SPECIAL_TOKEN,
    Attempts,
    candidates,
    parts_that_parse,
)
from llm_decpomdp.envs.programs.parsing import (
    COPYING,
    MAX_CHARACTERS,
    MAX_TOKENS,
    SyntaxProblem,
    end_of_bound,
    explodes,
    parse,
)

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


@dataclass(frozen=True)
class Reading:
    """The code of a completion, and its definition of the requested function."""

    code: str
    """Code that is run; empty when the completion has none."""
    problem: SyntaxProblem | None
    """Reason why `code` does not parse, or None."""
    defined: bool
    """True if `code` defines the requested function at its top level."""
    returns: bool
    """True if that function itself has a `return` or `yield` (nested functions don't count)."""

    @property
    def complete(self) -> bool:
        """True if the function is defined and returns, as the reward's first level requires."""
        return self.defined and self.returns


def read(completion: str, function: str) -> Reading:
    """Read a completion that should define `function`.

    Code may stand alone, in Markdown fences or amid prose. Of several blocks that parse, those that define
    `function` come first, and among equals the largest wins. If none defines it, a block that does not parse
    but begins the function counts as a broken attempt.

    A completion of more than `MAX_CHARACTERS` counts as text that does not parse, and so does code of more than
    `MAX_TOKENS`, or beyond the first `MAX_READ`.

    Args:
        completion: Any text.
        function: Name of the function that the agent was asked to write.
    """
    return read_functions(completion, [function])[function]


def read_functions(completion: str, functions: Iterable[str]) -> dict[str, Reading]:
    """Read a completion that should define several functions, in one piece of code or in several; see `read`."""
    parts = _parts(completion)
    return {function: _reading(parts, function) for function in functions}


def _reading(parts: tuple[list[str], list[str]], function: str) -> Reading:
    """Return the best definition of a function among the parts of a completion."""
    codes, texts = parts
    nodes = [find_function(code, function) for code in codes]
    valid = [
        Reading(code, None, node is not None, node is not None and returns(node))
        for code, node in zip(codes, nodes, strict=True)
    ]
    broken = [_read_text(text, function) for text in texts]
    if defining := [reading for reading in valid if reading.defined]:
        return max(defining, key=lambda reading: len(reading.code))
    if attempts := [reading for reading in broken if reading.defined]:
        best = max(attempts, key=lambda reading: (reading.returns, -len(reading.code)))
        return _with_problem(best)
    if valid:
        return max(valid, key=lambda reading: len(reading.code))
    return _with_problem(broken[0]) if broken else Reading("", None, False, False)


def _parts(completion: str) -> tuple[list[str], list[str]]:
    """Return the parts of a completion that parse, and its texts that do not."""
    if len(completion) > MAX_CHARACTERS:
        return [], [completion[: MAX_CHARACTERS + 1]]
    parse = Attempts(syntax_tree)
    texts = [textwrap.dedent(text) for text in candidates(completion)]
    trees = [parse(text) for text in texts]
    room = parse.room // len(texts)
    parts: list[str] = []
    rest: list[str] = []
    for text, tree in zip(texts, trees, strict=True):
        if not text.strip():
            continue
        if isinstance(tree, ast.Module):
            parts.append(text)
        else:
            parts += parts_that_parse(text, Attempts(syntax_tree, room))
            rest.append(text)
    return parts, rest


def parsed(code: str) -> ast.Module | None:
    """Return the module of `code`, shared by all callers; None where it does not parse."""
    tree = syntax_tree(code)
    return tree if isinstance(tree, ast.Module) else None


def find_function(code: str, name: str) -> FunctionNode | None:
    """Return the last top-level definition of `name`, a function or a lambda; None where there is none."""
    tree = parsed(code)
    definition: FunctionNode | None = None
    for statement in tree.body if tree is not None else []:
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
            if statement.name == name:
                definition = statement
        elif isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Lambda):
            if any(isinstance(t, ast.Name) and t.id == name for t in statement.targets):
                definition = statement.value
    return definition


def returns(function: FunctionNode) -> bool:
    """Check whether a function itself has a `return` or `yield`."""
    if isinstance(function, ast.Lambda):
        return True
    return any(isinstance(n, ast.Return | ast.Yield | ast.YieldFrom) for n in body_nodes(function))


def body_nodes(function: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of a function's body without those of nested functions and classes."""
    pending = list(getattr(function, "body", []))
    while pending:
        node = pending.pop()
        yield node
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
            pending.extend(ast.iter_child_nodes(node))


def without_definition(code: str, name: str) -> str:
    """Remove the top-level function `name` from `code`, to get a prompt's imports and helpers.

    Empty where `code` does not parse, as when a prompt is prose.
    """
    tree = parsed(code)
    if tree is None:
        return ""
    statements = [
        statement
        for statement in tree.body
        if not isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef)
        or statement.name != name
    ]
    return ast.unparse(ast.Module(statements, [])) + "\n" if statements else ""


def signature(code: str, name: str) -> str:
    """Return the header of function `name` without its colon, such as `def f(x: int) -> str`.

    It is `def name(...)` where `code` does not define it.
    """
    node = find_function(code, name)
    if node is None or isinstance(node, ast.Lambda):
        return f"def {name}(...)"
    keyword = "async def" if isinstance(node, ast.AsyncFunctionDef) else "def"
    result = f" -> {ast.unparse(node.returns)}" if node.returns is not None else ""
    return f"{keyword} {name}({ast.unparse(node.args)}){result}"


def _read_text(text: str, function: str) -> Reading:
    """Read code that does not parse; `_with_problem` adds the reason."""
    code = textwrap.dedent(SPECIAL_TOKEN.sub("", text)).strip("\n")
    header = re.compile(
        rf"^([ \t]*)(?:async[ \t]+)?def[ \t]+{re.escape(function)}[ \t]*\(", re.MULTILINE
    )
    match = header.search(code)
    return Reading(
        code=code,
        problem=None,
        defined=match is not None,
        returns=match is not None and _returns_in_text(code[match.start() :], len(match[1])),
    )


def _with_problem(reading: Reading) -> Reading:
    tree = syntax_tree(reading.code)
    return replace(reading, problem=tree if isinstance(tree, SyntaxProblem) else None)


def _returns_in_text(code: str, indent: int) -> bool:
    """Check whether the block that `code`'s first line opens has a line that begins with `return` or `yield`.

    The block ends at the first line, not blank, that is indented no deeper than the header.
    """
    statement = re.compile(r"(?:^|[:;])\s*(?:return|yield)\b")
    header, *body = code.splitlines()
    if statement.search(header.partition("#")[0].strip()):
        return True
    for line in body:
        stripped = line.partition("#")[0]
        if stripped.strip() and len(stripped) - len(stripped.lstrip()) <= indent:
            return False
        if statement.search(stripped.strip()):
            return True
    return False


@lru_cache(maxsize=16)  # enough for one turn; the tree of a long completion takes several megabytes
def syntax_tree(code: str) -> ast.Module | SyntaxProblem:
    """Parse and compile code without running it; return the module, or the problem."""
    if line := end_of_bound(code):
        text = f"more than {MAX_TOKENS} tokens or {MAX_CHARACTERS} characters of code"
        return SyntaxProblem(text, line, 1)
    tree: ast.Module | None = None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # "invalid escape sequence" in an agent's code
            tree = parse(code)
            if any(word in code for word in COPYING) and explodes(tree):
                text = "too many ways out of finally and with blocks, or functions in functions"
                return SyntaxProblem(text, 1, 1, parses=True)
            compile(code, "<completion>", "exec", dont_inherit=True)
    except SyntaxError as error:
        lines = code.count("\n") + 1
        line = min(max(error.lineno or 1, 1), lines)
        return SyntaxProblem(error.msg, line, max(error.offset or 1, 1), tree is not None)
    except (ValueError, RecursionError, MemoryError) as error:  # null bytes, hostile nesting
        return SyntaxProblem(str(error) or type(error).__name__, 1, 1, tree is not None)
    return tree
