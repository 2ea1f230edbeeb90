"""Policies: from prompts to completions.

Importing this package stays light. `CausalLM` and `Sampling` bring torch and transformers, and load
when they are first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from llm_decpomdp.agents.loading import load_policy
from llm_decpomdp.agents.models.prompting import Prompting
from llm_decpomdp.agents.remote.endpoint import Endpoint, EndpointError
from llm_decpomdp.agents.saved_team import load_saved_team, save_team
from llm_decpomdp.agents.scripted import Constant, Gold, RandomText, Replay
from llm_decpomdp.agents.specs import PolicySpec
from llm_decpomdp.agents.team import load_team

if TYPE_CHECKING:
    from llm_decpomdp.agents.inference.sampling import Sampling
    from llm_decpomdp.agents.models.causal_lm import CausalLM

__all__ = [
    "CausalLM",
    "Constant",
    "Endpoint",
    "EndpointError",
    "Gold",
    "PolicySpec",
    "Prompting",
    "RandomText",
    "Replay",
    "Sampling",
    "load_policy",
    "load_saved_team",
    "load_team",
    "save_team",
]

_LOADED_WHEN_USED = {"CausalLM": "causal_lm", "Sampling": "sampling"}


def __getattr__(name: str) -> Any:
    if name in _LOADED_WHEN_USED:
        return getattr(import_module(f"{__name__}.{_LOADED_WHEN_USED[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
