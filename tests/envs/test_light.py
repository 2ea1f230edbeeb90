"""Environments stay light: heavy libraries load only when they are needed."""

from __future__ import annotations

import os

from tests.support.processes import python

PROGRAM = """
import sys
import llm_decpomdp
llm_decpomdp.make("coophumaneval-v0")
env = llm_decpomdp.make("humaneval-v0")
env.reset(seed=0)
env.step({agent: "def f(): pass" for agent in env.agents})
heavy = {"torch", "transformers", "peft", "datasets", "pyarrow", "openai", "anthropic"}
print(sorted(heavy & set(sys.modules)))
"""


def test_playing_an_episode_loads_no_heavy_library():
    process = python("-c", PROGRAM, env={**os.environ, "HF_HUB_OFFLINE": "1"}, timeout=120)
    assert process.stdout.strip() == "[]"
