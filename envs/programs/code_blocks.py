"""Find the code in a completion: alone, in Markdown fences or amid prose."""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice

from llm_decpomdp.envs.programs.parsing import MAX_CHARACTERS, SyntaxProblem, tokens

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

SPECIAL_TOKEN = re.compile(
    r"<\|[^|<>\n]{1,40}\|>|</?s>|<end_of_turn>|<eos>|\[/?INST\]|<\uff5c[^\uff5c<>\n]{1,40}\uff5c>"
)
_FENCE = re.compile(r"^[ \t]*(?:`{3,}(?!`)|~{3,}(?!~))[^\n`]*$", re.MULTILINE)
_CODE_START = re.compile(
    r"(async\b|def|class|import|from|try|if|with|for|while|@|[A-Za-z_]\w*\s*(:[^=\n]*)?=)"
)


@dataclass
class Attempts:
    """Parser of texts of one completion with a budget of tokens."""

    parse: Callable[[str], ast.Module | SyntaxProblem]
    """The parser, `completion.syntax_tree`."""
    room: int = MAX_READ
    """Tokens left to parse."""

    def __call__(self, text: str) -> ast.Module | SyntaxProblem:
        """Parse a text; return the module, or the reason why it does not parse."""
        if self.room <= 0:
            return SyntaxProblem("too much that does not parse", 1, 1)
        tree = self.parse(text)
        compiled = isinstance(tree, ast.Module) or tree.parses
        self.room -= ATTEMPT + len(text) // CHARACTERS
        self.room -= (COMPILED if compiled else 1) * tokens(text[:MAX_CHARACTERS])
        return tree


def candidates(completion: str) -> Iterator[str]:
    """Yield the texts that may be the code: the whole, without special tokens, and the fenced blocks."""
    yield completion
    clean = SPECIAL_TOKEN.sub("", completion)
    if clean != completion:
        yield clean
    fences = list(islice(_FENCE.finditer(clean), MAX_FENCES))
    for opening, closing in zip(fences, [*fences[1:], None], strict=False):
        yield clean[opening.end() : closing.start() if closing else len(clean)].strip("\n")


def parts_that_parse(text: str, attempts: Attempts) -> Iterator[str]:
    """Yield the parts that parse of a text that does not, and the largest one with those before it.

    A part begins like code and ends at a top-level line, so that no block is cut inside. Where no line begins
    like code, the indented ones may be Markdown's code.
    """
    lines = text.split("\n")
    if not any(map(_CODE_START.match, lines)):
        indented = "\n".join(line if line[:1].isspace() else "" for line in lines)
        lines = textwrap.dedent(indented).split("\n")
    parts = _longest_parts(lines, attempts)
    yield from parts
    largest = max(range(len(parts)), key=lambda index: len(parts[index]), default=0)
    with_imports = "\n".join(parts[: largest + 1])
    fenced = _FENCE.search(text) is not None  # then the blocks are alternatives
    if largest and not fenced and isinstance(attempts.parse(with_imports), ast.Module):
        yield with_imports


def _longest_parts(lines: list[str], attempts: Attempts) -> list[str]:
    """Return the longest run of lines that parses from each line that begins like code."""
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
            end = _last_boundary(lines, start, min(end, start + tree.line))
        start = max(end, start + 1)
    return parts


def _last_boundary(lines: list[str], start: int, end: int) -> int:
    """Return the last index before `end` at which a top-level line begins, so that no block is cut inside."""
    for index in range(end - 1, start, -1):
        line = lines[index]
        if line and not line[0].isspace():
            return index
    return start
