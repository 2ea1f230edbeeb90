"""The environments. Importing this package only registers their ids; modules load at first use."""

from typing import TYPE_CHECKING

from llm_decpomdp.specs import register, register_collection
from llm_decpomdp.utils.extras import lazy_names

if TYPE_CHECKING:
    from llm_decpomdp.envs.bugfix.tasks import BugTask as BugTask
    from llm_decpomdp.envs.coding.division import measure_divisions as measure_divisions
    from llm_decpomdp.envs.coding.env import coding_env as coding_env
    from llm_decpomdp.envs.datasets.classeval import ClassTask as ClassTask
    from llm_decpomdp.envs.datasets.code_task import CodeTask as CodeTask
    from llm_decpomdp.envs.sandbox import Execution as Execution
    from llm_decpomdp.envs.sandbox import Limits as Limits
    from llm_decpomdp.envs.sandbox import Program as Program
    from llm_decpomdp.envs.sandbox import Sandbox as Sandbox
    from llm_decpomdp.envs.sandbox import Tests as Tests
    from llm_decpomdp.envs.writing.tasks import WritingTask as WritingTask
else:
    __getattr__, __dir__, __all__ = lazy_names(
        __name__,
        {
            "llm_decpomdp.envs.bugfix.tasks": ["BugTask"],
            "llm_decpomdp.envs.datasets.classeval": ["ClassTask"],
            "llm_decpomdp.envs.coding.division": ["measure_divisions"],
            "llm_decpomdp.envs.coding.env": ["coding_env"],
            "llm_decpomdp.envs.datasets.humaneval": ["CodeTask"],
            "llm_decpomdp.envs.sandbox": ["Execution", "Limits", "Program", "Sandbox", "Tests"],
            "llm_decpomdp.envs.writing.tasks": ["WritingTask"],
        },
    )

_ENVS = {
    "humaneval-v0": (
        "coding.env:humaneval",
        "Write a helper and the function that calls it, for HumanEval.",
    ),
    "coophumaneval-v0": (
        "coding.env:coophumaneval",
        "Write a helper and the function that calls it, for problems that divide in two.",
    ),
    "mbpp-v0": ("coding.env:mbpp", "Write a helper and the function that calls it, for MBPP."),
    "classeval-v0": (
        "classeval.env:classeval",
        "Write the methods of one class, each agent its own.",
    ),
    "bugfix-v0": ("bugfix.env:bugfix", "Repair the functions of one program, each agent its own."),
    "humanevalfix-v0": (
        "bugfix.env:humanevalfix",
        "Repair programs of HumanEval with a bug in each part.",
    ),
    "compose-v0": (
        "compose.env:compose",
        "Write a program from steps, each of which only one agent knows.",
    ),
    "path-v1": (
        "planning.levels:path",
        "Lead a planner through a maze that only the caller sees whole.",
    ),
    "sokoban-v1": (
        "planning.levels:sokoban",
        "Push boxes on a map that only the caller sees whole.",
    ),
    "sudoku-v1": (
        "planning.sudoku:sudoku",
        "Solve a Sudoku whose clues only the caller sees whole.",
    ),
    "build-word-v0": ("building.word:build_word", "Build a word of parts that no agent has alone."),
    "build-house-v0": (
        "building.house:build_house",
        "Build a house of blocks that no agent has alone.",
    ),
    "gather-v0": ("gather.env:gather", "Gather on a map on which each sees what the others need."),
    "pooled-v0": ("pooled.env:pooled", "Choose an option for which the facts of all agents count."),
    "verified-v0": (
        "verified.env:verified",
        "Answer a question, and judge the answer of the other agent.",
    ),
    "tldr-v0": ("writing.env:tldr_v0", "Summarize a post in two texts, in one turn."),
    "tldr-v1": (
        "writing.env:tldr_v1",
        "Summarize a post in two texts, over turns, graded with the source.",
    ),
    "arxiv-v0": ("writing.env:arxiv_v0", "Introduce a paper in two texts, in one turn."),
    "arxiv-v1": (
        "writing.env:arxiv_v1",
        "Introduce a paper in two texts, over turns, graded with the source.",
    ),
}
_PROBES = {
    "env": {
        "rendezvous": "Say the same letter as the other agent.",
        "halves": "Spell a word, each agent a letter.",
        "turns": "Take turns, each agent with its letter.",
        "lazy": "Work both, although one can ride for free.",
        "delayed": "Ask for a secret in the first turn, and say it in the second.",
        "noisy-partners": "Write the best letter among many agents whose mean counts.",
        "climbing": "Dare together, where one alone loses.",
        "mixed-pairs": "Leave it to the other, whose answer alone counts.",
    },
    "topology": {
        "relay": "Hand a secret letter on from agent to agent.",
        "speaker-listener": "Describe a goal to an agent that acts on it.",
        "relay-turns": "Tell a goal to an agent that acts second.",
        "early-exit": "Leave a word before the other agent acts.",
        "late-entry": "Brief an agent that joins on the second turn.",
        "verifier": "Judge four answers of the other agent.",
        "memory": "Remember a letter until the third turn.",
    },
}
for _family in ("humaneval", "coophumaneval", "mbpp"):
    _text = f"Divide a function of {_family}, paid for tests that need both sides."
    _ENVS[f"{_family}-v1"] = (f"coding.shared_work:{_family}_v1", _text)
for _id, (_path, _text) in _ENVS.items():
    register(_id, f"llm_decpomdp.envs.{_path}", summary=_text)
for _module, _probes in _PROBES.items():
    for _probe, _text in _probes.items():
        _path = f"llm_decpomdp.envs.probes.{_module}:{_probe.replace('-', '_')}"
        register(f"probe-{_probe}-v0", _path, summary=_text)
register_collection("openspiel", "llm_decpomdp.envs.openspiel.env:openspiel")
