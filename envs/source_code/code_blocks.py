"""Find the blocks of code of an answer: alone, in Markdown fences or amid prose.

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
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

from llm_decpomdp.envs.source_code.parsing import MAX_CHARACTERS, SyntaxProblem, syntax_tree, tokens

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
    r"|(?P<amid>`{3,})(?P<language>[a-z0-9]*)[ \t]*$",
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
