"""Reading an agent's completion as Python: which code it holds, and what that code defines.

Everything is decided on the AST. Only a completion that does not parse is read as text, by the rules of
`_defines_in_text` and `_returns_in_text`, so that a broken attempt can be told from no attempt.
"""

from __future__ import annotations

import ast
import re
import textwrap
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from llm_decpomdp.envs.syntax import explodes, parse

MAX_PARSED = 250_000
"""Bound on the characters parsed to separate code from prose in one completion."""

_SPECIAL_TOKEN = re.compile(
    r"<\|[^|<>\n]{1,40}\|>|</?s>|<end_of_turn>|<eos>|\[/?INST\]|<\uff5c[^\uff5c<>\n]{1,40}\uff5c>"
)
_FENCE = re.compile(r"^[ \t]*(`{3,}|~{3,})[^\n`]*$", re.MULTILINE)
_CODE_START = re.compile(
    r"(async\b|def|class|import|from|try|if|with|for|while|@|[A-Za-z_]\w*\s*(:[^=\n]*)?=)"
)

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


@dataclass(frozen=True)
class SyntaxProblem:
    """Why code does not parse; line and column count from 1, in the agent's own code."""

    message: str
    line: int
    column: int


@dataclass(frozen=True)
class Reading:
    """What a completion holds."""

    code: str
    """The code that is run; empty when the completion holds none."""
    problem: SyntaxProblem | None
    """Why `code` does not parse, or None."""
    defined: bool
    """Whether `code` defines the wanted function at its top level."""
    returns: bool
    """Whether that function returns or yields something itself (nested functions don't count)."""

    @property
    def complete(self) -> bool:
        """Defined and returns: what the reward's first level asks for."""
        return self.defined and self.returns


@lru_cache(maxsize=1024)
def read(completion: str, function: str) -> Reading:
    """Read a completion that should define `function`.

    Code may stand alone, in Markdown fences or amid prose. Of several blocks that parse, those that define
    `function` come first, and among equals the largest wins. If none defines it, a block that does not parse
    but begins the function is taken as a broken attempt.

    Args:
        completion: Any text at all.
        function: Name of the function that the agent was asked for.
    """
    valid: list[tuple[bool, int, Reading]] = []
    broken: list[Reading] = []
    texts = list(candidates(completion))
    for text in texts:
        for code in _parts_that_parse(text, MAX_PARSED // len(texts)):
            node = find_function(code, function)
            reading = Reading(code, None, node is not None, node is not None and returns(node))
            valid.append((reading.defined, len(code), reading))
        if text.strip() and not isinstance(syntax_tree(text), ast.Module):
            broken.append(_read_text(text, function))
    defining = [entry for entry in valid if entry[0]]
    attempts = [reading for reading in broken if reading.defined]
    if defining:
        return max(defining, key=lambda entry: entry[1])[2]
    if attempts:
        return max(attempts, key=lambda reading: (reading.returns, -len(reading.code)))
    if valid:
        return max(valid, key=lambda entry: entry[1])[2]
    return broken[0] if broken else Reading("", None, False, False)


def parsed(code: str) -> ast.Module | None:
    """The module that `code` is, shared by all callers; None where it does not parse."""
    tree = syntax_tree(code)
    return tree if isinstance(tree, ast.Module) else None


def find_function(code: str, name: str) -> FunctionNode | None:
    """The last top-level definition of `name`: a function or a lambda; None where there is none."""
    tree = parsed(code)
    found: FunctionNode | None = None
    for statement in tree.body if tree is not None else []:
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
            if statement.name == name:
                found = statement
        elif isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Lambda):
            if any(isinstance(t, ast.Name) and t.id == name for t in statement.targets):
                found = statement.value
    return found


def returns(function: FunctionNode) -> bool:
    """Whether a function has a `return` or `yield` of its own."""
    if isinstance(function, ast.Lambda):
        return True
    return any(isinstance(n, ast.Return | ast.Yield | ast.YieldFrom) for n in own_nodes(function))


def own_nodes(function: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a function's body without those of nested functions and classes."""
    pending = list(getattr(function, "body", []))
    while pending:
        node = pending.pop()
        yield node
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
            pending.extend(ast.iter_child_nodes(node))


def without_definition(code: str, name: str) -> str:
    """`code` without its top-level function `name`: a prompt's imports and helpers.

    Empty where `code` does not parse, as when a prompt is prose.
    """
    tree = parsed(code)
    if tree is None:
        return ""
    kept = [
        statement
        for statement in tree.body
        if not (
            isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef) and statement.name == name
        )
    ]
    return ast.unparse(ast.Module(kept, [])) + "\n" if kept else ""


def signature(code: str, name: str) -> str:
    """The header of function `name` without its colon, such as `def f(x: int) -> str`.

    `def name(...)` where `code` does not define it.
    """
    node = find_function(code, name)
    if node is None or isinstance(node, ast.Lambda):
        return f"def {name}(...)"
    keyword = "async def" if isinstance(node, ast.AsyncFunctionDef) else "def"
    result = f" -> {ast.unparse(node.returns)}" if node.returns is not None else ""
    return f"{keyword} {name}({ast.unparse(node.args)}){result}"


def candidates(completion: str) -> Iterator[str]:
    """The texts that may be the code: the whole, without special tokens, and each fenced block."""
    yield completion
    clean = _SPECIAL_TOKEN.sub("", completion)
    if clean != completion:
        yield clean
    fences = list(_FENCE.finditer(clean))
    for opening, closing in zip(fences, [*fences[1:], None], strict=False):
        yield clean[opening.end() : closing.start() if closing else len(clean)].strip("\n")


def _parts_that_parse(text: str, room: int) -> Iterator[str]:
    """`text` if it parses; else its parts that do, and the largest with those that stand before it.

    A part begins like code and ends at a top-level line, so that no block is cut inside. Where no line begins
    like code, the indented ones may be Markdown's code. About `room` characters are parsed for the parts.
    """
    text = textwrap.dedent(text)
    if isinstance(syntax_tree(text), ast.Module):
        if text.strip():
            yield text
        return
    lines = text.split("\n")
    if not any(map(_CODE_START.match, lines)):
        indented = "\n".join(line if line[:1].isspace() else "" for line in lines)
        lines = textwrap.dedent(indented).split("\n")
    parts = _longest_parts(lines, room)
    yield from parts
    largest = max(range(len(parts)), key=lambda index: len(parts[index]), default=0)
    with_imports = "\n".join(parts[: largest + 1])
    fenced = _FENCE.search(text) is not None  # then the blocks are alternatives
    if largest and not fenced and isinstance(syntax_tree(with_imports), ast.Module):
        yield with_imports


def _longest_parts(lines: list[str], room: int) -> list[str]:
    """From each line that begins like code, as many lines as parse."""
    parts: list[str] = []
    start = 0
    while start < len(lines) and room > 0:
        if not _CODE_START.match(lines[start]):
            start += 1
            continue
        end = len(lines)
        while end > start and room > 0:
            part = "\n".join(lines[start:end])
            room -= len(part)
            tree = syntax_tree(part)
            if isinstance(tree, ast.Module):
                parts.append(part)
                break
            end = _last_boundary(lines, start, min(end, start + tree.line))
        start = max(end, start + 1)
    return parts


def _last_boundary(lines: list[str], start: int, end: int) -> int:
    """The last index before `end` at which a top-level line begins, so that no block is cut inside."""
    for index in range(end - 1, start, -1):
        line = lines[index]
        if line and not line[0].isspace():
            return index
    return start


def _read_text(text: str, function: str) -> Reading:
    """Read code that does not parse."""
    code = textwrap.dedent(_SPECIAL_TOKEN.sub("", text)).strip("\n")
    problem = syntax_tree(code)
    header = re.compile(
        rf"^([ \t]*)(?:async[ \t]+)?def[ \t]+{re.escape(function)}[ \t]*\(", re.MULTILINE
    )
    match = header.search(code)
    return Reading(
        code=code,
        problem=problem if isinstance(problem, SyntaxProblem) else None,
        defined=match is not None,
        returns=match is not None and _returns_in_text(code[match.start() :], len(match[1])),
    )


def _returns_in_text(code: str, indent: int) -> bool:
    """Whether the block that `code`'s first line opens has a line that begins with `return` or `yield`.

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


@lru_cache(maxsize=64)  # enough for one turn; the tree of a long completion takes tens of megabytes
def syntax_tree(code: str) -> ast.Module | SyntaxProblem:
    """The module, or why it cannot be compiled. Nothing is run."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # "invalid escape sequence" in somebody else's code
            tree = parse(code)
            if "finally" in code and explodes(tree):
                return SyntaxProblem("too many ways through finally blocks", 1, 1)
            compile(code, "<completion>", "exec", dont_inherit=True)
    except SyntaxError as error:
        lines = code.count("\n") + 1
        line = min(max(error.lineno or 1, 1), lines)
        return SyntaxProblem(error.msg, line, max(error.offset or 1, 1))
    except (ValueError, RecursionError, MemoryError) as error:  # null bytes, hostile nesting
        return SyntaxProblem(str(error) or type(error).__name__, 1, 1)
    return tree
