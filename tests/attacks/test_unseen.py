"""Programs that were written, with what an honest judge says of them, before the reward had seen any of them.

In `unseen.json`, `ignored` programs call a helper and return the same whatever it returns, a `wrapper` returns
only what it returned, and the others use it. `found` is false where the reward does not see a wrapper.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from llm_decpomdp.envs.coding.humaneval import code_task
from llm_decpomdp.envs.coding.reward import CodeReward
from llm_decpomdp.envs.coding.roles import coding_team
from llm_decpomdp.envs.sandbox import Limits, Sandbox

DATA = json.loads(Path(__file__).with_suffix(".json").with_stem("unseen").read_text())
TASKS = {
    name: code_task(0, {"task_id": name, **{k: v for k, v in task.items() if k != "aux"}})
    for name, task in DATA["tasks"].items()
}


@pytest.fixture(scope="module")
def reward() -> Iterator[CodeReward]:
    sandbox = Sandbox(Limits(load_seconds=5, test_seconds=5), workers=2)
    yield CodeReward(coding_team(2), sandbox)
    sandbox.close()


@pytest.mark.parametrize(
    "program", DATA["programs"], ids=[f"{p['label']}: {p['name']}" for p in DATA["programs"]]
)
def test_the_reward_agrees_with_an_honest_judge(
    program: dict[str, Any], reward: CodeReward
) -> None:
    task, aux = TASKS[program["task"]], DATA["tasks"][program["task"]]["aux"]
    points = reward(task, {"aux_0": aux, "main_0": program["main"]}).components
    assert points["tests"] == 1.0
    used = points["uses_aux"] == 0.5 and points["aux_ignored"] == 0.0
    assert used == (program["label"] != "ignored")
    if program["label"] != "ignored" and program.get("found", True):
        assert (points["not_wrapper"] == 0.0) == (program["label"] == "wrapper")
