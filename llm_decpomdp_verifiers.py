"""Teams of llm_decpomdp for verifiers, whose plug-ins are modules with a name without dots.

vf-eval llm-decpomdp-verifiers --env.taskset.env-id coophumaneval-v0 -n 4 --no-push
"""

from llm_decpomdp.integrations.verifiers import ChatHarness, TeamEnv, TeamTaskset

__all__ = ["ChatHarness", "TeamEnv", "TeamTaskset"]
