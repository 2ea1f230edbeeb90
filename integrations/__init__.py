"""Adapters to other libraries, a module or folder each; none of these libraries is needed before it is used."""

from llm_decpomdp.integrations import trl

__all__ = ["trl"]
