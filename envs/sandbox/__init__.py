"""Runs programs that nobody trusts, against tests, outside our own process.

This first version covers: a separate process for each program, time limits for loading and for each test, a
memory limit, an empty environment, a temporary working folder, bounded output, and the whole process group
killed at the end. It does not cover: reading files that the user can read, the network, and programs that
forge their own results. `docs/security.md` says what that means.
"""

from llm_decpomdp.envs.sandbox.execution import Execution, Sandbox
from llm_decpomdp.envs.sandbox.instrument import Tests, instrument
from llm_decpomdp.envs.sandbox.process import Limits, Program, SandboxError

__all__ = ["Execution", "Limits", "Program", "Sandbox", "SandboxError", "Tests", "instrument"]
