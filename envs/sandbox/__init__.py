"""Run untrusted programs against tests that they cannot see, and return the outcome of each test.

The test runs in a process of its own, the evaluator, which holds the expected values. The program runs in another
process, the candidate, which is confined by the kernel and only answers calls with values. `README.md` in this
folder explains the processes and the protocol; `docs/security.md` lists the guarantees.
"""

from llm_decpomdp.envs.sandbox.instrument import instrument
from llm_decpomdp.envs.sandbox.program import (
    Execution,
    Limits,
    Outcome,
    Program,
    SandboxError,
    Tests,
)
from llm_decpomdp.envs.sandbox.sandbox import LAYERS, Sandbox

__all__ = [
    "LAYERS",
    "Execution",
    "Limits",
    "Outcome",
    "Program",
    "Sandbox",
    "SandboxError",
    "Tests",
    "instrument",
]
