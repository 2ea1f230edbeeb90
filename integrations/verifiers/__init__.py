"""verifiers 0.4: any team as its taskset, multi-agent environment and harness.

Its plug-ins are named by modules without dots, so users name `llm_decpomdp_verifiers`, which exports what is here.
"""

from typing import TYPE_CHECKING

from llm_decpomdp.utils.extras import lazy_names

if TYPE_CHECKING:
    from llm_decpomdp.integrations.verifiers.chat import ChatHarness as ChatHarness
    from llm_decpomdp.integrations.verifiers.tasks import TeamTaskset as TeamTaskset
    from llm_decpomdp.integrations.verifiers.team import TeamEnv as TeamEnv
else:
    __getattr__, __dir__, __all__ = lazy_names(
        __name__,
        {
            "llm_decpomdp.integrations.verifiers.chat": ["ChatHarness"],
            "llm_decpomdp.integrations.verifiers.tasks": ["TeamTaskset"],
            "llm_decpomdp.integrations.verifiers.team": ["TeamEnv"],
        },
    )
