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

register("humaneval-v0", "llm_decpomdp.envs.coding.env:humaneval")
register("coophumaneval-v0", "llm_decpomdp.envs.coding.env:coophumaneval")
register("mbpp-v0", "llm_decpomdp.envs.coding.env:mbpp")
for _family in ("humaneval", "coophumaneval", "mbpp"):
    register(f"{_family}-v1", f"llm_decpomdp.envs.coding.env:{_family}_v1")
register("classeval-v0", "llm_decpomdp.envs.classeval.env:classeval")
register("bugfix-v0", "llm_decpomdp.envs.bugfix.env:bugfix")
register("humanevalfix-v0", "llm_decpomdp.envs.bugfix.env:humanevalfix")
register("compose-v0", "llm_decpomdp.envs.compose.env:compose")
for _puzzle in ("path", "sokoban", "sudoku"):
    register(f"{_puzzle}-v1", f"llm_decpomdp.envs.planning.{_puzzle}:{_puzzle}")
register("build-word-v0", "llm_decpomdp.envs.building.word:build_word")
register("build-house-v0", "llm_decpomdp.envs.building.house:build_house")
register("gather-v0", "llm_decpomdp.envs.gather.env:gather")
register("pooled-v0", "llm_decpomdp.envs.pooled.env:pooled")
register("verified-v0", "llm_decpomdp.envs.verified.env:verified")
for _genre in ("tldr", "arxiv"):
    for _version in ("v0", "v1"):
        register(f"{_genre}-{_version}", f"llm_decpomdp.envs.writing.env:{_genre}_{_version}")
_PROBES = {
    "env": "rendezvous halves turns lazy delayed noisy-partners climbing mixed-pairs",
    "horizon": "relay speaker-listener",
    "topology": "relay-turns early-exit late-entry verifier memory",
}
for _module, _probes in _PROBES.items():
    for _probe in _probes.split():
        _function = _probe.replace("-", "_")
        register(f"probe-{_probe}-v0", f"llm_decpomdp.envs.probes.{_module}:{_function}")
register_collection("openspiel", "llm_decpomdp.envs.openspiel.env:openspiel")
