"""Read a completion as Python: which code in it is run, and does it define the requested functions?

The rule, which all families of code share:

1. Reasoning, later turns and invisible characters are removed (`chat_text.py`).
2. The answer is split into blocks: fenced ones, and those that parse amid prose (`code_blocks.py`).
3. Of all definitions of a function at the top level of blocks the best one is chosen: complete before one
   without `return`, before a broken attempt, before an import, before a quotation of the prompt, before an empty
   body (`parsing.is_stub`); then fenced before prose; then the last. A definition is a function, a lambda, an
   alias, the result of a call such as `partial(...)`, also inside `if`, `try`, `with` or a loop. The method of a
   class `Solution` counts if there is no other definition. A bare body counts last: text that continues the
   `opening` at the end of the prompt.
4. The code is the block of that definition. Statements of other blocks come before it: imports, functions, classes
   and assignments that bind a name which it reads, and the statements that these need in turn. Names that the task
   or team-mates bind are not taken from other blocks.
5. Two kinds of statements are removed from the block: definitions that the chosen definition replaces, and text,
   which only looks names up (`Done`, `Complexity: O(n)`; see `Statement.is_prose`). All other statements run.

So an answer that is one block of code, defines the function once and holds no text is `Reading.code` as it stands.
`CompletionReader.read` begins with this case. `completion_blocks.py` carries out steps 3 to 5 for the others.

Everything is decided on the AST. Only code that does not parse is read as text, by the rules of
`CompletionBlocks.broken_attempt`, to distinguish a broken attempt from no attempt. Reading never raises an error,
and its work is bounded: see `MAX_READ` of `code_blocks.py`. A completion of several blocks can run only code that
a single block could also contain.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property

from llm_decpomdp.envs.source_code.chat_text import find_answer
from llm_decpomdp.envs.source_code.code_blocks import (
    Attempts,
    Block,
    dedent,
    parts_that_parse,
    split_blocks,
)
from llm_decpomdp.envs.source_code.completion_blocks import CompletionBlocks
from llm_decpomdp.envs.source_code.parsing import (
    FUNCTIONS,
    MAX_CHARACTERS,
    SyntaxProblem,
    is_stub,
    returns,
    syntax_tree,
)
from llm_decpomdp.envs.source_code.statements import COMPLETE, IMPORTED, SILENT, Module, make_module

FALLBACKS = {
    "reasoning": "characters of reasoning that were removed",
    "after_turn": "characters after the end of the turn",
    "invisible": "invisible characters and unusual spaces outside strings",
    "fences": "fenced blocks",
    "prose": "statements that were removed as text",
    "drafts": "definitions of the requested functions that another definition replaced",
    "stubs": "definitions of the requested functions with an empty body that another definition replaced",
    "other_blocks": "statements from other blocks",
    "bindings": "requested functions that an alias, a call or another assignment defines",
    "body": "1 if the completion was read as the body of the function",
}
"""Numbers in the report of a reading, by name."""


@dataclass(frozen=True)
class Reading:
    """The code of a completion, and its definition of the requested function."""

    code: str
    """Code that is run. Code without the function is not run; it is empty, or text that does not parse."""
    problem: SyntaxProblem | None
    """Reason why `code` does not parse, or None."""
    defined: bool
    """True if `code` defines the requested function at its top level."""
    returns: bool
    """True if that function itself has a `return` or `yield` (nested functions don't count)."""
    fallbacks: Mapping[str, int] = field(default_factory=dict, compare=False)
    """Numbers by names of `FALLBACKS`; those that are missing are 0."""

    @property
    def complete(self) -> bool:
        """True if the function is defined and returns, as the reward's first level requires."""
        return self.defined and self.returns


def read(completion: str, function: str, given: Collection[str] = (), opening: str = "") -> Reading:
    r"""Read a completion that should define `function`, by the rule of this module.

    A completion of more than `MAX_CHARACTERS` counts as text that does not parse, and so does code of more than
    `MAX_TOKENS`, or beyond the first `MAX_READ`.

    Args:
        completion: Any text.
        function: Name of the function that the agent was asked to write.
        given: Names that the task and team-mates bind.
        opening: Text with which the prompt ends and that the completion may continue, such as `def f(x):`; empty
            if there is none.

    Example:
        >>> reading = read("Sure:\n```python\ndef f(x):\n    return x + 1\n```", "f")
        >>> reading.code, reading.problem, reading.defined, reading.returns
        ('def f(x):\n    return x + 1', None, True, True)
    """
    return CompletionReader(completion, given, opening).read(function)


class CompletionReader:
    """Reads several functions out of one completion.

    Args:
        completion: As of `read`.
        given: As of `read`.
        opening: As of `read`.
        prompt: Code that the prompt shows. A block whose functions are all the same there is a quotation: they
            count where the completion has no others of their names.
    """

    def __init__(
        self, completion: str, given: Collection[str] = (), opening: str = "", prompt: str = ""
    ) -> None:
        self.outer_names = frozenset(given)
        self.opening = opening
        self.prompt = prompt
        self.modules: list[Module] = []
        """Blocks, and parts of blocks, that parse."""
        self.unparsable: list[str] = []
        """Blocks that do not parse, fenced ones first."""
        self.parts: list[str] = []
        """Parts that parse of blocks that do not."""
        self.attempts = Attempts()
        # The completion's budget is charged once for each text.
        self.parse = cache(self.attempts)
        answer = find_answer(completion)  # step 1 of the rule
        self.fallbacks = {
            "reasoning": answer.reasoning,
            "after_turn": answer.after_turn,
            "invisible": answer.invisible,
        }
        """Numbers by names of `FALLBACKS`."""
        if len(answer.text) > MAX_CHARACTERS:
            self.unparsable.append(answer.text[: MAX_CHARACTERS + 1])
            return
        blocks = split_blocks(answer.text, self._parses)  # step 2
        self.fallbacks["fences"] = sum(block.fenced for block in blocks)
        self._add_blocks(blocks)

    def _parses(self, text: str) -> bool:
        """Check whether a text is code."""
        return isinstance(self.parse(dedent(text)), ast.Module)

    def _add_blocks(self, blocks: Sequence[Block]) -> None:
        """Add the blocks of the answer, in order."""
        texts = [(dedent(block.text), block.fenced) for block in blocks]
        whole = [(text, fenced, self.parse(text)) for text, fenced in texts]
        # The rest of the budget is divided among the blocks, so that a hostile first block cannot starve the
        # others.
        room = max(self.attempts.room, 0) // max(len(whole), 1)
        rest: dict[bool, list[str]] = {True: [], False: []}
        for text, fenced, tree in whole:
            if isinstance(tree, ast.Module):
                self.modules.append(make_module(text, tree, fenced))
                continue
            for part in parts_that_parse(text, Attempts(room)):
                self.parts.append(part)
                self.modules.append(make_module(part, syntax_tree(part), fenced))
            rest[fenced].append(text)
        self.unparsable += rest[True] + rest[False]

    def read(self, function: str) -> Reading:
        """Read the definition of a function, and the code that goes with it."""
        # The usual answer is one block. If it has one definition, a function, and no text, all of it is the code.
        if len(self.modules) == 1 and not self.unparsable and not self.prompt:
            block = self.modules[0]
            definers = [part.node for part in block.statements if function in part.definitions]
            node = definers[0] if len(definers) == 1 else None
            text = any(part.is_prose(()) for part in block.statements)
            if isinstance(node, FUNCTIONS) and not is_stub(node) and not text:
                return Reading(block.text, None, True, returns(node), {**self.fallbacks})
        return self._read_parts(function)

    @cached_property
    def blocks(self) -> CompletionBlocks:
        """What reads any answer, by steps 3 to 5 of the rule."""
        return CompletionBlocks(
            outer_names=self.outer_names,
            opening=self.opening,
            prompt=self.prompt,
            modules=self.modules,
            unparsable=self.unparsable,
            parts=self.parts,
            attempts=self.attempts,
            parse=self.parse,
            fallbacks=self.fallbacks,
        )

    def _read_parts(self, function: str) -> Reading:
        """Read any answer, by steps 3 to 5 of the rule."""
        definition = self.blocks.find_definition(function)
        # A broken attempt counts more than an import, a quotation or an empty body.
        if definition is None or definition.rank < SILENT:
            attempt = self.blocks.broken_attempt(function)
            if attempt is not None:
                code, has_return = attempt
                return Reading(code, _problem(code), True, has_return, self.fallbacks)
        if definition is None:
            # The problem of code without the function is told only if there is no other code.
            code = "" if self.modules or not self.unparsable else self.unparsable[0].strip("\n")
            return Reading(code, _problem(code), False, False, self.fallbacks)
        # Anew: in the choice a quotation has a lower rank. Functions without `return` are SILENT, empty ones STUB.
        rank = self.modules[definition.module].rank(function, definition.statement)
        code, counts = self.blocks.compose([function])
        fallbacks = {**self.fallbacks, **counts}
        return Reading(code, None, True, rank in (COMPLETE, IMPORTED), fallbacks)


def _problem(code: str) -> SyntaxProblem | None:
    tree = syntax_tree(code)
    return tree if isinstance(tree, SyntaxProblem) else None
