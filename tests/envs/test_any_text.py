"""Any text is a legal action: the environment never raises, and its prompts stay in their space."""

from __future__ import annotations

import json
import math
from functools import partial

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import llm_decpomdp

GOOD = "def {0}(x):\n    return x"
ROW = {
    "task_id": "t/0",
    "prompt": 'def sq(x):\n    """square"""\n',
    "test": "def check(candidate):\n    assert candidate(1) == 1\n    assert candidate(2) == 4\n",
    "entry_point": "sq",
}
TEXTS = {
    "empty": "",
    "huge": GOOD + "\n" + "# filler\n" * 20_000,
    "null bytes": GOOD + "\x00\x00",
    "lone surrogates": GOOD + "\ns = '\ud800\udfff'",
    "raised surrogates": "def {0}(x):\n    raise ValueError('\\udc80\\ud800')",
    "nested brackets": "def {0}(x):\n    return " + "(" * 5000 + "x" + ")" * 5000,
    "nested calls": "def {0}(x):\n    return " + "abs(" * 150 + "x" + ")" * 150,
    "long sum": "def {0}(x):\n    return x" + " + x" * 800,
    "unicode names": "def {0}(x):\n    größe = x\n    \uff58\uff12 = größe\n    return \uff58\uff12",
    "only fences": "```\n```\n```python\n```",
    "unterminated fence": "Sure:\n```python\n" + GOOD,
    "tabs": "def {0}(x):\n\tif x:\n\t\treturn x\n\treturn 0",
    "mixed tabs": "def {0}(x):\n\tif x:\n        return x\n\treturn 0",
    "windows": "def {0}(x):\r\n    return x\r\n",
    "form feeds": "\f" + GOOD + "\f\n\f",
    "future import": "from __future__ import annotations\n" + GOOD,
    "late future import": GOOD + "\nfrom __future__ import annotations\n",
    "main block": GOOD + "\nif __name__ == '__main__':\n    print({0}(input()))",
    "input": GOOD + "\nn = input('number: ')",
    "own tests": GOOD + "\nassert {0}(2) == 5",
    "exits": "import sys\nsys.exit(0)\n" + GOOD,
    "exits hard": "import os\n" + GOOD + "\nos._exit(0)",
    "star import": "from os import *\n" + GOOD,
    "deletes itself": GOOD + "\ndel {0}",
    "no function": "{0} = 5\ndef other(x):\n    return x",
    "two functions": GOOD + "\n\n" + GOOD,
    "class": "class {0}:\n    def __init__(self, x):\n        self.x = x",
    "recursion": "def {0}(x):\n    return {0}(x)",
    "deep recursion": "import sys\nsys.setrecursionlimit(10**5)\ndef {0}(x):\n    return {0}(x)",
    "raises text": "def {0}(x):\n    raise Exception('\\n' * 1000 + '\\x1b[31m')",
    "replaces the other": GOOD + "\ndef aux(x):\n    return 1\ndef sq(x):\n    return 1",
    "format braces": "{{0}} {0} %s %(x)s {{",
    "range of four": "def {0}(x):\n    for i in range(1, 2, 3, 4):\n        return x\n    return x",
    "long decorator": "@a" + ".b" * 400 + "\n" + GOOD,
    "long decorator of another": "@a" + ".b" * 400 + "\ndef other(x):\n    return x\n" + GOOD,
    "ways to finally": (
        "def {0}(x):\n try:\n" + "  if x: return x\n" * 2000 + " finally:\n  " + "x;" * 2000
    ),
}


@pytest.fixture(scope="module")
def make_env(tmp_path_factory):
    """Builds an environment in a mode."""
    path = tmp_path_factory.mktemp("data") / "own.json"
    path.write_text(json.dumps([ROW]))
    options = {"source": str(path), "sandbox_slice": 0, "original_prompt": True}
    return partial(llm_decpomdp.make, "coophumaneval-v0", **options)


@pytest.fixture(scope="module")
def env(make_env):
    return make_env(external_mode="level_feedback")


def play(env, aux: str, main: str) -> float:
    env.reset(seed=0)
    observations, rewards, *_ = env.step({"aux_0": aux, "main_0": main})
    for agent, text in observations.items():
        assert env.observation_space(agent).contains(text)
    assert 0.0 <= rewards["main_0"] <= 4.0 and math.isfinite(rewards["main_0"])
    json.dumps(env.snapshot(), allow_nan=False).encode()
    env.state().encode()
    return rewards["main_0"]


def fill(text: str, name: str) -> str:
    return text.replace("{0}", name)


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_any_text_is_a_legal_action(env, make_env, text):
    good = "def sq(x):\n    return aux(x) * x"
    play(env, fill(text, "aux"), good)
    play(env, "def aux(x):\n    return x", fill(text, "sq"))
    play(make_env(external_mode="level_passed"), fill(text, "aux"), fill(text, "sq"))


@pytest.mark.parametrize("family", ["classeval-v0", "bugfix-v0"])
def test_any_text_is_a_legal_action_for_classes(family):
    env = llm_decpomdp.make(family, num_agents=1, source="bundled")
    task = next(t for t in env.tasks.tasks if family == "classeval-v0" or t.is_class)
    name = task.outline.names[-1] if family == "classeval-v0" else task.functions[-1]
    (agent,) = env.possible_agents
    for text in TEXTS.values():
        env.reset(options={"task_id": task.task_id})
        observations, rewards, *_ = env.step({agent: fill(text, name)})
        assert env.observation_space(agent).contains(observations[agent])
        assert math.isfinite(rewards[agent])


# fmt: off
PIECES = st.sampled_from([
    "def sq(x):\n", "def aux(x):\n", "    return aux(x)\n", "    return x * x\n", "    y = aux(x)\n",
    "```\n", "    raise x\n", "import os\n", "x = 1\n", "@", "(", "\x00", "\ud800", "'''", "    ",
])
# fmt: on


@settings(derandomize=True, max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(PIECES, max_size=6).map("".join), st.lists(PIECES, max_size=6).map("".join))
def test_random_code_is_a_legal_action(env, aux, main):
    play(env, aux, main)
