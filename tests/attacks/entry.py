"""What an entry of the attack corpus is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from llm_decpomdp.envs.classeval.unit_tests import class_tests
from llm_decpomdp.envs.sandbox import Tests, instrument

SQUARES = "def check(candidate):\n    assert candidate(2) == 4\n    assert candidate(3) == 9\n"


@dataclass(frozen=True)
class Attack:
    """A program that attacks its grader or its host.

    These words in `code` are replaced before it runs: `@MARKER@` (path of a file that must never come to
    exist), `@SECRET_FILE@` (a readable file that holds a secret), `@HOME@` (a home folder to damage),
    `@TCP_PORT@`, `@UDP_PORT@`, `@UNIX_SOCKET@` (where a listener waits on this host), `@PID@` (the process
    that asked for the grading), `@ANSWERS@` (a file with the expected answers).
    """

    name: str
    category: str
    code: str
    """The untrusted program. It defines the entry point unless the attack is not to."""
    honest: str
    """What an honest grader says: `pass` (all tests pass: the program does solve the task, its attack must
    only come to nothing), `fail` (no test passes), `some` (some pass, not all), `any` (only no harm)."""
    test: str = SQUARES
    entry_point: str = "sq"
    stopped_by: frozenset[str] = frozenset()
    """The layers of which one is needed to keep the host unharmed (`seccomp`, `landlock`, `namespaces`);
    empty if the process boundary suffices."""

    @property
    def tests(self) -> Tests:
        """The test, which may be a module of unittest classes about the class `entry_point`."""
        if "TestCase" in self.test:
            return class_tests(self.test, self.entry_point, own=frozenset({"add", "save"}))
        return instrument(self.test or SQUARES, self.entry_point)


@dataclass(frozen=True)
class TeamAttack:
    """A joint completion that tries to earn more than it deserves from the reward's own rules."""

    name: str
    aux: str
    main: str
    expected: Mapping[str, float]
    """The components that the honest reward gives."""


@dataclass(frozen=True)
class Benign:
    """A correct program that uses the language in unusual ways: every test passes."""

    name: str
    code: str
    test: str = SQUARES
    entry_point: str = "sq"
