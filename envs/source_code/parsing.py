"""Parse code, with bounds on the time and memory of parsing and compiling, and find functions and blocks in it.

The blocks of code of an answer are alone, in Markdown fences or amid prose:

- An answer that parses as a whole is one block.
- Otherwise the text between fences of backticks or tildes is a fenced block, also where a fence is indented,
  has code on its line, ends the last line of code, or is missing at the end. A fence inside a string literal is
  part of the code: a block with such a literal, or a comment, before its first fence ends at the first fence at
  which it parses, of the next few.
- The rest is prose. So is a fenced block that does not parse. Its blocks are the longest runs of lines that
  parse.
"""

from __future__ import annotations

import ast
import re
import textwrap
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import NamedTuple

from llm_decpomdp.envs.sandbox.syntax import FUNCTIONS as FUNCTIONS
from llm_decpomdp.envs.sandbox.syntax import parse as parse

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda

MAX_CHARACTERS = 100_000
"""Longest text that is parsed."""

MAX_TOKENS = 8000
"""Most words and marks of a text that is parsed. Solutions of the data sets have at most about a thousand."""

MAX_COMPILED = 4 * 10**4
"""Most nodes of a tree that is compiled, each counted as often as it is compiled."""

CLEANUP = 10
"""Nodes that make as much work as leaving a `with` block."""

# Only code with one of these words is walked through before it is compiled.
COPYING = ("finally", "with", "except", "lambda")
"""Keywords of code that the compiler emits more than once, or with ever longer names."""

WITH_CLEANUP = (ast.With, ast.AsyncWith, ast.ExceptHandler)
"""Blocks with clean-up code at each exit."""

_TOKEN = re.compile(r"\w+|[^\w\s]")


@dataclass(frozen=True)
class SyntaxProblem:
    """Reason why code does not parse; line and column count from 1, in the agent's own code."""

    message: str
    line: int
    column: int
    parses: bool = False
    """True if the code parses and only compiling fails."""


def tokens(code: str) -> int:
    """Count the words and marks of a text, those in comments and literals included."""
    return len(_TOKEN.findall(code))


def end_of_bound(code: str) -> int:
    """Return the line on which a text exceeds the bounds of parsing, counted from 1; 0 if it does not."""
    if len(code) > MAX_CHARACTERS:
        return code.count("\n", 0, MAX_CHARACTERS) + 1
    if len(code) > MAX_TOKENS:
        for number, token in enumerate(_TOKEN.finditer(code)):
            if number == MAX_TOKENS:
                return code.count("\n", 0, token.start()) + 1
    return 0


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
            # Checked before compiling, which is what takes too long.
            if any(word in code for word in COPYING) and explodes(tree):
                text = "too many ways out of finally and with blocks, or functions in functions"
                return SyntaxProblem(text, 1, 1, parses=True)
            # Some errors come only from the compiler, such as `return` outside of a function.
            compile(code, "<completion>", "exec", dont_inherit=True)
    except SyntaxError as error:
        lines = code.count("\n") + 1
        line = min(max(error.lineno or 1, 1), lines)
        return SyntaxProblem(error.msg, line, max(error.offset or 1, 1), tree is not None)
    except (ValueError, RecursionError, MemoryError) as error:  # null bytes, hostile nesting
        return SyntaxProblem(str(error) or type(error).__name__, 1, 1, tree is not None)
    return tree


def explodes(tree: ast.Module) -> bool:
    """Check whether compiling takes too long, as CPython compiles a `finally` block again for each path to it.

    There are two paths, with an exception and without, and one for each `return`, `break` and `continue` in its
    `try`. Each exit from a `with` block, or from an `except` with a name, has clean-up code, too. The qualified
    name of a function contains those of all functions around it.
    """
    # A walk in the order in which the compiler emits code, without recursion: trees may be deep.
    size = 0
    leaving: Counter[ast.AST] = Counter()
    pending: list[tuple[ast.AST, int, tuple[ast.AST, ...], int, bool]] = [(tree, 1, (), 0, False)]
    while pending and size <= MAX_COMPILED:
        node, copies, around, depth, finally_ = pending.pop()
        final = set(getattr(node, "finalbody", ()))
        if finally_:
            copies = 2 * copies + leaving[node]
            pending += [(part, copies, around, depth, False) for part in final]
            continue
        size += copies
        if isinstance(node, ast.Return | ast.Break | ast.Continue):
            leaving.update(dict.fromkeys(around, copies))
            size += copies * CLEANUP * sum(isinstance(block, WITH_CLEANUP) for block in around)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            around, depth = (), depth + 1
            size += depth
        if final:
            pending.append((node, copies, around, depth, True))  # after the rest of the statement
        if final or isinstance(node, WITH_CLEANUP):
            around = (*around, node)
        inner = (part for part in ast.iter_child_nodes(node) if part not in final)
        pending += [(part, copies, around, depth, False) for part in inner]
    return size > MAX_COMPILED


def parse_or_none(code: str) -> ast.Module | None:
    """Return the module of `code`, shared by all callers; None where it does not parse."""
    tree = syntax_tree(code)
    return tree if isinstance(tree, ast.Module) else None


def find_function(code: str, name: str) -> FunctionNode | None:
    """Return the last top-level definition of `name`, a function or a lambda; None where there is none."""
    tree = parse_or_none(code)
    definition: FunctionNode | None = None
    for statement in tree.body if tree is not None else []:
        if isinstance(statement, FUNCTIONS) and statement.name == name:
            definition = statement
        elif isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Lambda):
            if any(isinstance(t, ast.Name) and t.id == name for t in statement.targets):
                definition = statement.value
    return definition


def remove_function(code: str, name: str) -> str:
    """Remove the top-level function `name` from `code`, to get a prompt's imports and helpers.

    Empty where `code` does not parse, as when a prompt is prose.
    """
    tree = parse_or_none(code)
    if tree is None:
        return ""
    statements = [s for s in tree.body if not isinstance(s, FUNCTIONS) or s.name != name]
    return ast.unparse(ast.Module(statements, [])) + "\n" if statements else ""


def is_stub(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Check whether a body has only docstrings, `pass`, `...` and `raise NotImplementedError`."""
    return all(map(_is_empty, function.body))


def _is_empty(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.Pass):
        return True
    if isinstance(statement, ast.Raise):
        error = statement.exc.func if isinstance(statement.exc, ast.Call) else statement.exc
        return isinstance(error, ast.Name) and error.id == "NotImplementedError"
    value = statement.value if isinstance(statement, ast.Expr) else None
    return isinstance(value, ast.Constant) and isinstance(value.value, str | type(...))


def returns(function: FunctionNode) -> bool:
    """Check whether a function itself has a `return` or `yield`, nested functions and classes aside."""
    if isinstance(function, ast.Lambda):
        return True
    pending: list[ast.AST] = list(function.body)
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Return | ast.Yield | ast.YieldFrom):
            return True
        if not isinstance(node, (*FUNCTIONS, ast.ClassDef, ast.Lambda)):
            pending += ast.iter_child_nodes(node)
    return False


def header(function: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    """Return the line with `def`, such as `def f(x: int) -> str:`."""
    keyword = "async def" if isinstance(function, ast.AsyncFunctionDef) else "def"
    result = f" -> {ast.unparse(function.returns)}" if function.returns is not None else ""
    return f"{keyword} {function.name}({ast.unparse(function.args)}){result}:"


def signature(code: str, name: str) -> str:
    """Return the header of function `name` without its colon, such as `def f(x: int) -> str`.

    It is `def name(...)` where `code` does not define it.
    """
    node = find_function(code, name)
    if node is None or isinstance(node, ast.Lambda):
        return f"def {name}(...)"
    return header(node).removesuffix(":")


def has_docstring(node: ast.AST) -> bool:
    """Check whether a node is a function or class with a docstring."""
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return False
    return ast.get_docstring(node, clean=False) is not None


MAX_READ = 60_000
"""Bound on the tokens parsed to find the code in one completion."""

COMPILED = 3
"""Weight of tokens that are compiled as well."""

ATTEMPT = 30
"""Cost of a parse in tokens, however short the text is."""

CHARACTERS = 30
"""Characters that cost as much time as a token, if most of them are white space."""

MAX_FENCES = 64
"""Maximum number of fences of one completion that are read."""

MAX_INNER_FENCES = 6
"""Maximum number of fences inside string literals of a block."""

MAX_BODIES = 3
"""Blocks that are tried as the body of the function."""

_FENCE = re.compile(
    r"^[ \t]*(?:(?:[-*+]|\d+[.)])[ \t]+)?(?P<opening>`{3,}|~{3,})(?P<info>[^\n`]*)"
    r"|(?P<amid>(?<!`)`{3,})(?P<language>[a-z0-9]*)[ \t]*$",
    re.MULTILINE,
)
_LANGUAGE = re.compile(r"\s*(?:python3?|py3?|Python)?(?:\s+|$)")
_CODE_ON_FENCE = re.compile(
    r"(?:async[ \t]+def|def|class|import|from|try|if|for|while|with)\b|@\w|#|\w+[ \t]*=[ \t]*lambda\b"
)
# Lines at which a part may begin: at any other line, prose would be tried line by line.
_CODE_START = re.compile(
    r"(async\b|def|class|import|from|try|if|with|for|while|@|[A-Za-z_]\w*\s*(:[^=\n]*)?=)"
)


@dataclass
class Attempts:
    """Parser of texts of one completion with a budget of tokens."""

    room: int = MAX_READ
    """Tokens left to parse."""

    def __call__(self, text: str) -> ast.Module | SyntaxProblem:
        """Parse a text; return the module, or the reason why it does not parse."""
        if self.room <= 0:
            return SyntaxProblem("too much that does not parse", 1, 1)
        tree = syntax_tree(text)
        compiled = isinstance(tree, ast.Module) or tree.parses
        # The budget is charged after the parse, so that a text of any length is tried once.
        self.room -= ATTEMPT + len(text) // CHARACTERS
        self.room -= (COMPILED if compiled else 1) * tokens(text[:MAX_CHARACTERS])
        return tree


@dataclass(frozen=True)
class Block:
    """A piece of an answer."""

    text: str
    fenced: bool
    """True for code in a fence; an answer that parses as a whole counts as prose."""


def split_blocks(answer: str, parses: Callable[[str], bool]) -> list[Block]:
    """Split an answer into fenced blocks and the prose around them, in order; blank ones are left out.

    The answer's lines end as on Unix. `parses` checks whether a text is code.
    """
    fences = list(_fences(answer))
    if not fences or parses(answer):
        return [Block(answer, False)] if answer.strip() else []
    blocks: list[Block] = []
    position = number = 0
    while number < len(fences):
        opening = fences[number]
        blocks.append(Block(answer[position : opening.before], False))
        ends = [fence.before for fence in fences[number + 1 :]] + [len(answer)]
        texts = [answer[opening.code : stop].strip("\n") for stop in ends[: MAX_INNER_FENCES + 1]]
        end = 0
        # The next fence may stand in a comment or a string literal; only then are further ones tried.
        if "#" in texts[0].rpartition("\n")[2] or any(
            texts[0].count(q) % 2 for q in ('"""', "'''")
        ):
            end = next((i for i, text in enumerate(texts) if parses(text)), 0)
        blocks.append(Block(texts[end], True))
        number += 1 + end
        if number == len(fences):
            position = len(answer)
        elif fences[number].opens:
            position = fences[number].before
        else:
            position = fences[number].after
            number += 1
    blocks.append(Block(answer[position:], False))
    return [block for block in blocks if block.text.strip()]


class _Fence(NamedTuple):
    before: int
    """End of the text before it."""
    after: int
    """Beginning of the text after it, if it closes a block."""
    code: int
    """Beginning of the code, if it opens a block."""
    opens: bool
    """True if it cannot close a block, as it names a language or has code on its line."""


def _fences(answer: str) -> Iterator[_Fence]:
    if "```" not in answer and "~~~" not in answer:
        return
    for match in islice(_FENCE.finditer(answer), MAX_FENCES):
        if match["amid"]:
            yield _Fence(match.start(), match.end(), match.end(), bool(match["language"]))
            continue
        info = match["info"]
        language = _LANGUAGE.match(info)
        code = info[language.end() :] if language else info
        begin = match.end() - len(code) if _CODE_ON_FENCE.match(code) else match.end()
        yield _Fence(match.start(), match.end(), begin, bool(info.strip()))


def dedent(text: str) -> str:
    """Remove the indentation of the first line from all lines; lines with less lose all of it.

    The text of a literal of several lines may lose blanks, but only where the whole block is indented.
    """
    first = next((line for line in text.split("\n") if line.strip()), "")
    # Without a margin, `dedent` would only empty blank lines of literals.
    return textwrap.dedent(text) if first[:1].isspace() else text


def continuations(opening: str, text: str) -> Iterator[str]:
    """Yield the ways in which a text may continue an opening, such as the header of a function.

    The text may follow at once, or be a body below the header: as it stands, with the indentation of its first
    line lost, or without any.
    """
    header, lines = opening.split("\n")[0], text.strip("\n")
    apart = opening[-1:].isalnum() and text[:1].isalnum()
    yield f"{opening} {text}" if apart else opening + text
    yield f"{header}\n{lines}"
    yield f"{header}\n    {lines.lstrip()}"
    yield f"{header}\n{textwrap.indent(lines, '    ')}"


def parts_that_parse(text: str, attempts: Attempts) -> list[str]:
    """Return the parts that parse of a text that does not: from each line, the longest run of lines.

    Where no line begins like code, the indented ones may be Markdown's code.
    """
    lines = text.split("\n")
    if not any(map(_CODE_START.match, lines)):
        indented = "\n".join(line if line[:1].isspace() else "" for line in lines)
        lines = textwrap.dedent(indented).split("\n")
    parts: list[str] = []
    start = 0
    while start < len(lines) and attempts.room > 0:
        if not _CODE_START.match(lines[start]):
            start += 1
            continue
        end = len(lines)
        while end > start and attempts.room > 0:
            part = "\n".join(lines[start:end])
            tree = attempts(part)
            if isinstance(tree, ast.Module):
                parts.append(part)
                break
            # The next try ends at the last top-level line before the error, so that no block is cut inside.
            error = min(end, start + tree.line)
            top = (n for n in range(error - 1, start, -1) if lines[n] and not lines[n][0].isspace())
            end = next(top, start)
        start = max(end, start + 1)
    return parts


def bodies(opening: str, texts: Iterable[str], attempts: Attempts) -> Iterator[str]:
    """Yield code in which one of the first texts that may be a body continues an opening."""
    # A body must return something: otherwise any prose would continue the header.
    for text in islice(dict.fromkeys(texts), MAX_BODIES):
        if any(word in opening or word in text for word in ("return", "yield")):
            for continued in continuations(opening, text):
                for part in parts_that_parse(continued, attempts)[:1]:
                    if len(part.rstrip()) > len(opening.rstrip()):
                        yield part
