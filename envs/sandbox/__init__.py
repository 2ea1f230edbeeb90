"""Run untrusted programs against tests that they cannot see, and return a verdict on each test.

    trainer -- pool of workers, each: evaluator -- zygote (fork server) -- one process for each program

The evaluator runs the tests and holds the expected values; a program's process, forked from a clean zygote and
confined by the kernel, only answers calls with plain values. The trainer is your process, whatever it does; this
folder is its side, `inside` that of the others. `docs/security.md` says what that promises.
"""

from llm_decpomdp.envs.sandbox.instrument import Tests, instrument
from llm_decpomdp.envs.sandbox.program import Execution, Limits, Outcome, Program, SandboxError
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
