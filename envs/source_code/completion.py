"""Read a completion as Python: which code in it is run, and does it define the requested functions?

The rule, which all families of code share:

1. Reasoning, later turns and invisible characters are removed (`chat_text.py`).
2. The answer is split into blocks: fenced ones, and those that parse amid prose (`parsing.py`).
3. Of all definitions of a function at the top level of blocks the best one is chosen: complete before one
   without `return`, before a broken attempt, before an import, before a quotation of the prompt, before an empty
   body (`parsing.is_stub`); then fenced before prose; then the last. A definition is a function, a lambda, an
   alias, the result of a call such as `partial(...)`, also inside `if`, `try`, `with` or a loop. The method of a
   class `Solution` counts if there is no other definition. A bare body counts last: text that continues the
   `opening` at the end of the prompt.
4. The code is the block of that definition. Statements of other blocks come before it: imports, functions, classes
   and assignments that bind a name which it reads, and the statements that these need in turn. Names that the task
   or team-mates bind are not taken from other blocks.
5. Three kinds of statements are removed from the block: definitions that the chosen definition replaces, functions
   with an empty body that another block, the task or a team-mate defines, and text, which only looks names up
   (`Done`, `Complexity: O(n)`; see `Statement.is_prose`). All other statements run.

So an answer that is one block of code, defines the function once and holds no text is `Reading.code` as it stands.

Everything is decided on the AST. Only code that does not parse is read as text, by the rules of
`CompletionReader.broken_attempt`, to distinguish a broken attempt from no attempt. Reading never raises an error,
and its work is bounded: see `MAX_READ` of `parsing.py`. A completion of several blocks can run only code that
a single block could also contain.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from itertools import takewhile

from llm_decpomdp.envs.source_code.parsing import (
    FUNCTIONS,
    MAX_CHARACTERS,
    Attempts,
    FunctionNode,
    SyntaxProblem,
    bodies,
    dedent,
    is_stub,
    parts_that_parse,
    split_blocks,
    syntax_tree,
)
from llm_decpomdp.envs.source_code.statements import (
    COMPLETE,
    IMPORTED,
    QUOTE,
    SILENT,
    STUB,
    Module,
    all_bound,
    fingerprints,
    join_code,
    make_module,
    needed_names,
    remove_statements,
    statement_text,
)
from llm_decpomdp.utils.chat_text import find_answer

SOLUTION = "Solution"
"""Name of a class whose method may be the requested function."""

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


@dataclass(frozen=True, order=True)
class _Place:
    """A definition of a function in a completion; the greatest one is chosen."""

    rank: int
    fenced: bool
    module: int
    statement: int


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
        """Blocks, and parts of blocks, that parse; reading the answer as a body or a method adds to them."""
        self.unparsable: list[str] = []
        """Blocks that do not parse, fenced ones first."""
        self.parts: list[str] = []
        """Parts that parse of blocks that do not."""
        self.attempts = Attempts()
        # The completion's budget is charged once for each text.
        self.parse = cache(self.attempts)
        self._places: dict[str, _Place | None] = {}
        answer = find_answer(completion)  # step 1 of the rule
        self.fallbacks = {
            "reasoning": answer.reasoning,
            "after_turn": answer.after_turn,
            "invisible": answer.invisible,
        }
        """Numbers by names of `FALLBACKS`."""
        if len(answer.text) > MAX_CHARACTERS:
            self.unparsable.append(answer.text[: MAX_CHARACTERS + 1])
        else:
            self._add_blocks(answer.text)

    def _add_blocks(self, answer: str) -> None:
        """Add the blocks of the answer, in order, by the second step of the rule."""
        blocks = split_blocks(answer, lambda text: isinstance(self.parse(dedent(text)), ast.Module))
        self.fallbacks["fences"] = sum(block.fenced for block in blocks)
        whole = [(text := dedent(block.text), block.fenced, self.parse(text)) for block in blocks]
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
        place = self.find_definition(function)
        # A broken attempt counts more than an import, a quotation or an empty body.
        if place is None or place.rank < SILENT:
            attempt = self.broken_attempt(function)
            if attempt is not None:
                code, has_return = attempt
                return Reading(code, _problem(code), True, has_return, self.fallbacks)
        if place is None:
            # The problem of code without the function is told only if there is no other code.
            code = "" if self.modules or not self.unparsable else self.unparsable[0].strip("\n")
            return Reading(code, _problem(code), False, False, self.fallbacks)
        # Anew: in the choice a quotation has a lower rank. Functions without `return` are SILENT, empty ones STUB.
        rank = self.modules[place.module].rank(function, place.statement)
        code, counts = self.compose([function])
        fallbacks = {**self.fallbacks, **counts}
        return Reading(code, None, True, rank in (COMPLETE, IMPORTED), fallbacks)

    # Step 3: the definition of a function

    def find_definition(self, name: str) -> _Place | None:
        """Return the best definition of a function, by the third step of the rule; None if there is none."""
        if name not in self._places:
            place = max(self._all_places(name), default=None)
            if place is None or place.rank < SILENT:
                place = self._method(name) or place
            if place is None and self.opening and self.broken_attempt(name) is None:
                place = self._body(name)
            self._places[name] = place
        return self._places[name]

    def _all_places(self, name: str) -> list[_Place]:
        places = []
        for number, module in enumerate(self.modules):
            quotation = self.prompt and module.fingerprints <= fingerprints(self.prompt)
            for index in module.definers.get(name, ()):
                rank = module.rank(name, index)
                if quotation and name in module.functions:
                    rank = min(rank, QUOTE)
                places.append(_Place(rank, module.fenced, number, index))
        return places

    def _method(self, name: str) -> _Place | None:
        """Bind the method of a class `Solution` to its name."""
        # The class of this block: a team-mate may have one of that name, too.
        call = (
            f"{name} = lambda *args, _solution={SOLUTION}, **kwargs: "
            f"_solution().{name}(*args, **kwargs)"
        )
        for number, module in reversed(list(enumerate(self.modules))):
            for statement in module.statements:
                node = statement.node
                if not (isinstance(node, ast.ClassDef) and node.name == SOLUTION):
                    continue
                methods = [part for part in node.body if isinstance(part, FUNCTIONS)]
                if any(part.name == name and not is_stub(part) for part in methods):
                    text = f"{module.text.rstrip()}\n\n\n{call}\n"
                    tree = self.parse(text)
                    if isinstance(tree, ast.Module):
                        self.modules[number] = make_module(text, tree, module.fenced)
                        return max(self._all_places(name))
        return None

    def _body(self, name: str) -> _Place | None:
        """Read the answer as a continuation of the prompt's opening."""
        modules = sorted(self.modules, key=lambda module: not module.fenced)
        texts = [*self.unparsable, *(module.text for module in modules)]
        for part in bodies(self.opening, texts, self.attempts):
            module = make_module(part, syntax_tree(part), True)
            first = module.statements[0]
            if name in first.definitions and first.rank(name) == COMPLETE:
                self.modules.append(module)
                self.fallbacks["body"] = 1
                return _Place(COMPLETE, True, len(self.modules) - 1, 0)
        return None

    def broken_attempt(self, function: str) -> tuple[str, bool] | None:
        """Return a block that does not parse and begins to define a function, and whether the function returns.

        The first block whose function returns counts, or else the first one; None if there is no such block.
        """
        attempts = []
        for text in self.unparsable:
            # A function in a part that parses is no broken attempt.
            rest = code = text.strip("\n")
            for part in self.parts:
                rest = rest.replace(part.strip("\n"), "", 1)
            header = rf"^([ \t]*)(?:async[ \t]+)?def[ \t]+{re.escape(function)}[ \t]*\("
            match = re.search(header, rest, re.MULTILINE)
            if match is not None:
                returns = _returns_in_text(rest[match.start() :], len(match[1]))
                attempts.append((code, returns))
        return max(attempts, key=lambda attempt: attempt[1], default=None)

    def best_name(self, functions: Sequence[str]) -> str:
        """Return which of several names the completion gives a function; the first where it gives none.

        Functions come before other definitions, such as aliases of them.
        """
        places = self._find_places(functions)
        if not places:
            attempts = (name for name in functions if self.broken_attempt(name) is not None)
            return next(attempts, functions[0])

        def rank(name: str) -> tuple[bool, _Place]:
            return isinstance(self._definition(name, places[name]), FunctionNode), places[name]

        return max(places, key=rank)

    def _find_places(self, functions: Collection[str]) -> dict[str, _Place]:
        places = {name: self.find_definition(name) for name in functions}
        return {name: place for name, place in places.items() if place is not None}

    def _definition(self, name: str, place: _Place) -> ast.AST:
        return self.modules[place.module].statements[place.statement].definitions[name]

    # Steps 4 and 5: the code

    def compose(self, functions: Collection[str]) -> tuple[str, dict[str, int]]:
        """Return the code of all functions that are defined, and what was left out of it and added."""
        places = self._find_places(functions)
        counts = dict.fromkeys(("prose", "drafts", "stubs", "other_blocks", "bindings"), 0)
        bases = sorted({place.module for place in places.values()})
        dropped: dict[int, set[int]] = {number: set() for number in bases}
        for name, place in places.items():
            counts["bindings"] += not isinstance(self._definition(name, place), FunctionNode)
            for rival in self._all_places(name):
                if (rival.module, rival.statement) == (place.module, place.statement):
                    continue
                # In the chosen block, a definition that still has an effect stays.
                if rival.module == place.module and not self._is_replaced(name, rival, place):
                    continue
                counts["stubs" if rival.rank == STUB else "drafts"] += 1
                if rival.module in dropped:
                    dropped[rival.module].add(rival.statement)
        for number in bases:
            for index, statement in enumerate(self.modules[number].statements):
                # First without the names: collecting them walks through all trees.
                if statement.is_prose(()) and statement.is_prose(self._all_names):
                    counts["prose"] += index not in dropped[number]
                    dropped[number].add(index)
                elif self._is_replaced_helper(statement.node, number, functions):
                    dropped[number].add(index)
        # Removed lines stay as blank ones: line numbers in feedback are those of the agent's own code.
        texts = [remove_statements(self.modules[number], dropped[number]) for number in bases]
        extra = self._needed_statements(texts, bases, dropped)
        counts["other_blocks"] = len(extra)
        code = join_code(extra, texts)
        # Removing and joining statements may break the code, as with several statements on a line.
        if not isinstance(syntax_tree(code), ast.Module) and bases:
            code = self.modules[bases[-1]].text
        return code, counts

    def _is_replaced(self, name: str, other: _Place, chosen: _Place) -> bool:
        """Check whether a definition in the block of the chosen one has no effect on it."""
        if other.statement > chosen.statement:
            return True
        statements = self.modules[chosen.module].statements
        between = statements[other.statement : chosen.statement + 1]
        # An assignment may wrap the earlier function of its name, and a decorator may read it.
        functions = all(isinstance(s.node, FUNCTIONS) for s in (between[0], between[-1]))
        return functions and not any(name in statement.eager for statement in between[1:])

    @cached_property
    def _all_names(self) -> frozenset[str]:
        names = set(self.outer_names)
        for module in self.modules:
            for statement in module.statements:
                names |= all_bound(statement.node)
        return frozenset(names)

    def _is_replaced_helper(self, node: ast.stmt, number: int, functions: Collection[str]) -> bool:
        """Check whether a statement is an empty function that another block, a team-mate or the task defines."""
        if not isinstance(node, FUNCTIONS) or node.name in functions or not is_stub(node):
            return False
        return node.name in self.outer_names or self._provider(node.name, {number}) is not None

    def _needed_statements(
        self, texts: list[str], bases: list[int], dropped: Mapping[int, set[int]]
    ) -> list[str]:
        """Return the statements of other blocks that bind what the code reads, and what these need."""
        elsewhere = [number for number in range(len(self.modules)) if number not in bases]
        if not elsewhere:
            return []
        # Names that the code itself, the task or team-mates bind are not needed from other blocks.
        bound = set(self.outer_names)
        for number in bases:
            for index, statement in enumerate(self.modules[number].statements):
                bound |= statement.bound if index not in dropped[number] else set()
        pending = {name for text in texts for name in needed_names(text)}
        places: set[tuple[int, int]] = set()
        # A statement that is taken may need further ones.
        while names := pending - bound:
            bound |= names
            pending = set()
            for name in names:
                provider = self._provider(name, bases)
                if provider is None:
                    pending.add("*")  # as in `from math import *`
                    continue
                module = self.modules[provider.module]
                for index in module.binders[name]:
                    if (provider.module, index) not in places:
                        places.add((provider.module, index))
                        pending |= needed_names(statement_text(module, index))
        return [statement_text(self.modules[number], index) for number, index in sorted(places)]

    def _provider(self, name: str, excluded: Collection[int]) -> _Place | None:
        """Return where a name is bound outside of some blocks: in a fence if possible, and last."""
        places = [
            _Place(COMPLETE, module.fenced, number, index)
            for number, module in enumerate(self.modules)
            if number not in excluded
            for index in module.binders.get(name, ())
            if name in module.statements[index].bound
        ]
        return max(places, default=None)


def _problem(code: str) -> SyntaxProblem | None:
    tree = syntax_tree(code)
    return tree if isinstance(tree, SyntaxProblem) else None


_RETURN = re.compile(r"(?:^|[:;])\s*(?:return|yield)\b")


def _returns_in_text(code: str, indent: int) -> bool:
    """Check whether the block that `code`'s first line opens has a line that begins with `return` or `yield`.

    The block ends at the first line, not blank, that is indented no deeper than the header.
    """
    header, *body = (line.partition("#")[0] for line in code.splitlines())
    inner = takewhile(
        lambda line: not line.strip() or len(line) - len(line.lstrip()) > indent, body
    )
    return any(_RETURN.search(line.strip()) for line in (header, *inner))
