"""Steps 3 to 5 of the rule of `completion.py`: the best definition among several blocks, and the code to run."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from llm_decpomdp.envs.source_code.code_blocks import Attempts, bodies
from llm_decpomdp.envs.source_code.parsing import (
    FUNCTIONS,
    FunctionNode,
    SyntaxProblem,
    is_stub,
    syntax_tree,
)
from llm_decpomdp.envs.source_code.statements import (
    COMPLETE,
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

SOLUTION = "Solution"
"""Name of a class whose method may be the requested function."""


@dataclass(frozen=True, order=True)
class _Place:
    """A definition of a function in a completion; the greatest one is chosen."""

    rank: int
    fenced: bool
    module: int
    statement: int


@dataclass
class CompletionBlocks:
    """The blocks of a completion, and the definitions of functions in them; the fields are those of its reader."""

    outer_names: frozenset[str]
    """Names that the task and team-mates bind."""
    opening: str
    """As of `CompletionReader`."""
    prompt: str
    """As of `CompletionReader`."""
    modules: list[Module]
    """Blocks, and parts of blocks, that parse; what reads the answer as a body or a method adds to them."""
    unparsable: list[str]
    """Blocks that do not parse, fenced ones first."""
    parts: list[str]
    """Parts that parse of blocks that do not."""
    attempts: Attempts
    """Parser with the budget of the completion."""
    parse: Callable[[str], ast.Module | SyntaxProblem]
    """The same parser, which is charged once for each text."""
    fallbacks: dict[str, int]
    """Numbers by names of `completion.FALLBACKS`; `body` is added to them."""
    _places: dict[str, _Place | None] = field(default_factory=dict, init=False)

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
        places = {
            name: place for name in functions if (place := self.find_definition(name)) is not None
        }
        if not places:
            attempts = (name for name in functions if self.broken_attempt(name) is not None)
            return next(attempts, functions[0])

        def rank(name: str) -> tuple[bool, _Place]:
            return isinstance(self._definition(name, places[name]), FunctionNode), places[name]

        return max(places, key=rank)

    def _definition(self, name: str, place: _Place) -> ast.AST:
        return self.modules[place.module].statements[place.statement].definitions[name]

    # Steps 4 and 5: the code

    def compose(self, functions: Collection[str]) -> tuple[str, dict[str, int]]:
        """Return the code of all functions that are defined, and what was left out of it and added."""
        places = {
            name: place for name in functions if (place := self.find_definition(name)) is not None
        }
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
            prose = self._prose(number) - dropped[number]
            counts["prose"] += len(prose)
            dropped[number] |= prose | self._empty_helpers(number, functions)
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

    def _prose(self, number: int) -> set[int]:
        return {
            index
            for index, statement in enumerate(self.modules[number].statements)
            # First without the names: collecting them walks through all trees.
            if statement.is_prose(()) and statement.is_prose(self._all_names)
        }

    @cached_property
    def _all_names(self) -> frozenset[str]:
        names = set(self.outer_names)
        for module in self.modules:
            for statement in module.statements:
                names |= all_bound(statement.node)
        return frozenset(names)

    def _empty_helpers(self, number: int, functions: Collection[str]) -> set[int]:
        """Return the empty functions of a block that another block defines."""
        return {
            index
            for index, statement in enumerate(self.modules[number].statements)
            if isinstance(node := statement.node, FUNCTIONS)
            and node.name not in functions
            and is_stub(node)
            and self._provider(node.name, {number}) is not None
        }

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


_RETURN = re.compile(r"(?:^|[:;])\s*(?:return|yield)\b")


def _returns_in_text(code: str, indent: int) -> bool:
    """Check whether the block that `code`'s first line opens has a line that begins with `return` or `yield`.

    The block ends at the first line, not blank, that is indented no deeper than the header.
    """
    header, *body = code.splitlines()
    if _RETURN.search(header.partition("#")[0].strip()):
        return True
    for line in body:
        stripped = line.partition("#")[0]
        if stripped.strip() and len(stripped) - len(stripped.lstrip()) <= indent:
            return False
        if _RETURN.search(stripped.strip()):
            return True
    return False
