"""Cooperative language-model agents as Dec-POMDPs.

Two parts that work together or separately: environments (`llm_decpomdp.envs`), and learners
(`llm_decpomdp.algorithms`) with the policies that they train (`llm_decpomdp.agents`). Importing this package
registers the environment ids and stays light: torch, transformers and datasets load when they are first used.
"""

__version__ = "0.1.0"

from llm_decpomdp.env import DecPOMDPEnv
from llm_decpomdp.interfaces import Episode, Turn, Verdict
from llm_decpomdp.oracle import Oracle, answers
from llm_decpomdp.policy import Completion, Policy
from llm_decpomdp.registry import make, pprint_registry, register, spec
from llm_decpomdp.spaces import UnicodeText
from llm_decpomdp.testing.checker import check_env
from llm_decpomdp.wrappers.aec import aec, from_aec
from llm_decpomdp.wrappers.from_single_agent import from_single_agent
from llm_decpomdp.wrappers.single_agent_view import merge_agents, single_agent_view

# Former names, which go on working.
Answers = Oracle
seat = single_agent_view
solo = from_single_agent
joint = merge_agents

try:
    import llm_decpomdp.envs  # noqa: F401  isort: skip  (registers the ids)
except ModuleNotFoundError as error:
    if error.name != "llm_decpomdp.envs":
        raise
    # pip unpacks zip archives without the symbolic links that place envs/, agents/, ... in this package.
    raise ImportError(
        f"{__path__[0]} lacks its sub-packages: the archive was unpacked without symbolic links. Install from a "
        "clone, from git+https://..., from a .tar.gz archive or from a release"
    ) from error

__all__ = [
    "Completion",
    "DecPOMDPEnv",
    "Episode",
    "Oracle",
    "Policy",
    "Turn",
    "UnicodeText",
    "Verdict",
    "__version__",
    "aec",
    "answers",
    "check_env",
    "from_aec",
    "from_single_agent",
    "make",
    "merge_agents",
    "pprint_registry",
    "register",
    "single_agent_view",
    "spec",
]
