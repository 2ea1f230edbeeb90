"""Policies: from prompts to completions.

Importing this package loads no torch: each name loads its module when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from llm_decpomdp.utils.extras import lazy_names

if TYPE_CHECKING:
    from llm_decpomdp.agents.inference.options import Prompting as Prompting
    from llm_decpomdp.agents.inference.options import Sampling as Sampling
    from llm_decpomdp.agents.loading import PolicySpec as PolicySpec
    from llm_decpomdp.agents.loading import load_team as load_team
    from llm_decpomdp.agents.models.causal_lm import CausalLM as CausalLM
    from llm_decpomdp.agents.models.engine import ModelEngine as ModelEngine
    from llm_decpomdp.agents.models.tiny import tiny_causal_lm as tiny_causal_lm
    from llm_decpomdp.agents.remote.endpoint import Endpoint as Endpoint
    from llm_decpomdp.agents.remote.endpoint import EndpointError as EndpointError
    from llm_decpomdp.agents.saved_team import load_saved_team as load_saved_team
    from llm_decpomdp.agents.saved_team import save_team as save_team
    from llm_decpomdp.agents.scripted import Constant as Constant
    from llm_decpomdp.agents.scripted import Gold as Gold
    from llm_decpomdp.agents.scripted import RandomText as RandomText
    from llm_decpomdp.agents.scripted import Replay as Replay
    from llm_decpomdp.agents.single_model import load_policy as load_policy
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__)
