"""Correct programs that use the language in unusual ways, or tests that do: every test passes.

Names that say "writes a file" mark programs that need a folder of their own to write into.
"""

from __future__ import annotations

from tests.attacks.benign_functions import CALLABLES, STATE
from tests.attacks.benign_syntax import EXCEPTIONS, SYNTAX
from tests.attacks.benign_tests import TESTS
from tests.attacks.benign_values import LIBRARY, VALUES
from tests.attacks.entry import Benign

BENIGN: tuple[Benign, ...] = (
    *CALLABLES,
    *STATE,
    *VALUES,
    *LIBRARY,
    *EXCEPTIONS,
    *SYNTAX,
    *TESTS,
)
