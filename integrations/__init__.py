"""Adapters to other libraries. A library is needed only when its adapter is used.

`trl`, `openenv`, `verifiers` and `inspect` bring environments of teams to other libraries. `reasoning_gym`,
`textarena` and the client of `openenv` bring environments of other libraries here.
"""

from llm_decpomdp.integrations import trl

__all__ = ["trl"]
