"""The environments. Importing this package only registers their ids; modules load at first use."""

from typing import TYPE_CHECKING

from llm_decpomdp.registry import register, register_collection
from llm_decpomdp.utils.extras import lazy_names

if TYPE_CHECKING:
    from llm_decpomdp.envs.bugfix.tasks import BugTask as BugTask
    from llm_decpomdp.envs.coding.division import measure_divisions as measure_divisions
    from llm_decpomdp.envs.coding.env import coding_env as coding_env
    from llm_decpomdp.envs.datasets.classeval import ClassTask as ClassTask
    from llm_decpomdp.envs.datasets.humaneval import CodeTask as CodeTask
    from llm_decpomdp.envs.sandbox import Execution as Execution
    from llm_decpomdp.envs.sandbox import Limits as Limits
    from llm_decpomdp.envs.sandbox import Program as Program
    from llm_decpomdp.envs.sandbox import Sandbox as Sandbox
    from llm_decpomdp.envs.sandbox import Tests as Tests
    from llm_decpomdp.envs.writing.tasks import WritingTask as WritingTask
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__)

_ENVS = {
    "coding.env": {
        "humaneval-v0": "Write a helper and the function that calls it, for HumanEval.",
        "coophumaneval-v0": "Write a helper and the function that calls it, for problems that divide in two.",
        "mbpp-v0": "Write a helper and the function that calls it, for MBPP.",
    },
    "classeval.env": {"classeval-v0": "Write the methods of one class, each agent its own."},
    "bugfix.env": {
        "bugfix-v0": "Repair the functions of one program, each agent its own.",
        "humanevalfix-v0": "Repair programs of HumanEval with a bug in each part.",
    },
    "compose.env": {
        "compose-v0": "Write a program from steps, each of which only one agent knows."
    },
    "planning.levels": {
        "path-v1": "Lead a planner through a maze that only the caller sees whole.",
        "sokoban-v1": "Push boxes on a map that only the caller sees whole.",
    },
    "planning.sudoku": {"sudoku-v1": "Solve a Sudoku whose clues only the caller sees whole."},
    "building.word": {"build-word-v0": "Build a word of parts that no agent has alone."},
    "building.house": {"build-house-v0": "Build a house of blocks that no agent has alone."},
    "gather.env": {"gather-v0": "Gather on a map on which each sees what the others need."},
    "pooled.env": {"pooled-v0": "Choose an option for which the facts of all agents count."},
    "verified.env": {"verified-v0": "Answer a question, and judge the answer of the other agent."},
    "writing.env": {
        "tldr-v0": "Summarize a post in two texts, in one turn.",
        "tldr-v1": "Summarize a post in two texts, over turns, graded with the source.",
        "arxiv-v0": "Introduce a paper in two texts, in one turn.",
        "arxiv-v1": "Introduce a paper in two texts, over turns, graded with the source.",
    },
    "probes.env": {
        "probe-rendezvous-v0": "Say the same letter as the other agent.",
        "probe-halves-v0": "Spell a word, each agent a letter.",
        "probe-turns-v0": "Take turns, each agent with its letter.",
        "probe-lazy-v0": "Work both, although one can ride for free.",
        "probe-delayed-v0": "Ask for a secret in the first turn, and say it in the second.",
        "probe-noisy-partners-v0": "Write the best letter among many agents whose mean counts.",
        "probe-climbing-v0": "Dare together, where one alone loses.",
        "probe-mixed-pairs-v0": "Leave it to the other, whose answer alone counts.",
    },
    "probes.topology": {
        "probe-relay-v0": "Hand a secret letter on from agent to agent.",
        "probe-speaker-listener-v0": "Describe a goal to an agent that acts on it.",
        "probe-relay-turns-v0": "Tell a goal to an agent that acts second.",
        "probe-early-exit-v0": "Leave a word before the other agent acts.",
        "probe-late-entry-v0": "Brief an agent that joins on the second turn.",
        "probe-verifier-v0": "Judge four answers of the other agent.",
        "probe-memory-v0": "Remember a letter until the third turn.",
    },
}
"""Ids and summaries of environments, by the module with the function of the same name."""

_ENVS["coding.shared_work"] = {
    f"{_name}-v1": f"Divide a function of {_name}, paid for tests that need both sides."
    for _name in ("humaneval", "coophumaneval", "mbpp")
}


def _function_name(module: str, id: str) -> str:
    """Return the name of the function that builds an environment: `early_exit` for `probe-early-exit-v0`.

    Functions of families with several versions are named with the version: `tldr_v1` for `tldr-v1`.
    """
    name, _, version = id.removeprefix("probe-").replace("-", "_").rpartition("_")
    return f"{name}_{version}" if module in ("writing.env", "coding.shared_work") else name


for _module, _summaries in _ENVS.items():
    for _id, _summary in _summaries.items():
        _function = _function_name(_module, _id)
        register(_id, f"llm_decpomdp.envs.{_module}:{_function}", summary=_summary)
register_collection("openspiel", "llm_decpomdp.envs.openspiel.env:openspiel")
