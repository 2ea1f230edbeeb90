"""The task of one function with tests."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from llm_decpomdp.envs.datasets.loading import idle_functions
from llm_decpomdp.envs.sandbox import Tests, instrument
from llm_decpomdp.envs.sandbox.differences import differences
from llm_decpomdp.envs.source_code.parsing import find_function, remove_function, signature
from llm_decpomdp.interfaces import Task


@dataclass(frozen=True)
class CodeTask(Task):
    """A function to write, and its tests."""

    test: str
    """Text of a module with a function `check(candidate)`."""
    entry_point: str
    """Name of the function to write."""

    @cached_property
    def stub(self) -> str:
        """The prompt as a module that parses; a header without a docstring gets a body."""
        bare = find_function(self.prompt, self.entry_point) is None
        return f"{self.prompt.rstrip()}\n    pass\n" if bare else self.prompt

    @cached_property
    def signature(self) -> str:
        """The header of the entry point, such as `def f(x: int) -> str`."""
        return signature(self.stub, self.entry_point)

    @cached_property
    def preamble(self) -> str:
        """Imports and helper functions of the prompt, a part of every program."""
        return remove_function(self.stub, self.entry_point)

    @cached_property
    def tests(self) -> Tests:
        """The instrumented test."""
        return instrument(self.test, self.entry_point)

    def idle_programs(self) -> dict[str, str]:
        """Return programs that do no work, by a description."""
        return idle_functions([self.entry_point])

    @property
    def remarks(self) -> tuple[str, ...]:
        """Reasons why a correct program may fail here although it passes in one process with the test."""
        return differences(self.test, self.entry_point, self.preamble)
