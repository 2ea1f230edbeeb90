"""Adapters to other libraries, a module or folder each; none of these libraries is needed before it is used.

Out of here, into their loops: `trl`, `openenv`, `verifiers`, `inspect`. The other way, their environments for the
learners here: `reasoning_gym`, `textarena`, and the client of `openenv`.
"""

from llm_decpomdp.integrations import trl

__all__ = ["trl"]
