"""The reward gives each joint completion of the corpus what its label says that it deserves, or earns."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from llm_decpomdp.envs import CodeTask, Limits, Sandbox
from llm_decpomdp.envs.coding.reward import COMPONENTS, CodeReward
from llm_decpomdp.envs.coding.roles import coding_team
from llm_decpomdp.envs.datasets.humaneval import code_task
from tests.attacks.entries import QUICK_TEAM_ENTRIES, TEAM_ENTRIES, Entry

USED = {
    "aux_defined": 0.4,
    "main_defined": 0.6,
    "syntax": 0.5,
    "tests": 1.0,
    "uses_aux": 0.5,
    "not_wrapper": 1.0,
    "aux_ignored": 0.0,
}
NOT_CALLED = {**USED, "uses_aux": 0.0, "not_wrapper": 0.0}
WRAPPER = {**USED, "not_wrapper": 0.0}
NOTHING = dict.fromkeys(USED, 0.0)
ONLY_HELPER = {**NOTHING, "aux_defined": 0.4}
POINTS = {
    "used": USED,
    "not_called": NOT_CALLED,
    "ignored": {**USED, "aux_ignored": -0.5},
    "wrapper": WRAPPER,
    "wrapper_ignored": {**WRAPPER, "aux_ignored": -0.5},
    "no_helper": {**NOT_CALLED, "aux_defined": 0.0},
    "only_helper": ONLY_HELPER,
    "nothing": NOTHING,
    "unparsable": {**ONLY_HELPER, "main_defined": 0.6},
    "unsolved": {**NOT_CALLED, "tests": 0.0},
}
"""Components of the reward for each label."""


@pytest.fixture(scope="module")
def reward() -> Iterator[CodeReward]:
    sandbox = Sandbox(Limits(load_seconds=5, test_seconds=5), workers=2)
    yield CodeReward(coding_team(2), sandbox)
    sandbox.close()


def task(entry: Entry) -> CodeTask:
    row = {"task_id": entry.entry_point, "prompt": f"def {entry.entry_point}(x):\n    pass\n"}
    return code_task(0, {**row, "test": entry.test, "entry_point": entry.entry_point})


def components(reward: CodeReward, entry: Entry) -> dict[str, float]:
    completions = {f"{agent}_0": code for agent, code in entry.completions.items()}
    return dict(reward(task(entry), completions).components)


@pytest.mark.parametrize(
    "names",
    [
        pytest.param(QUICK_TEAM_ENTRIES, id="a fourth of each kind"),
        pytest.param(list(TEAM_ENTRIES), id="all", marks=pytest.mark.slow),
    ],
)
def test_joint_completions_earn_their_labels(names: list[str], reward: CodeReward) -> None:
    found = {name: components(reward, TEAM_ENTRIES[name]) for name in names}
    expected = {name: POINTS[(e := TEAM_ENTRIES[name]).earns or e.honest] for name in names}
    assert found == expected


def test_every_label_names_every_component() -> None:
    assert all(tuple(points) == tuple(COMPONENTS) for points in POINTS.values())


def test_what_the_reward_misjudges_tells_the_runs_apart() -> None:
    misjudged = {name: entry for name, entry in TEAM_ENTRIES.items() if entry.earns}
    folders = {entry.category.removeprefix("helper_use/") for entry in misjudged.values()}
    assert folders == {"second_run"} and len(misjudged) <= 10
    # None of them earns more than a program that uses the helper.
    assert all(sum(POINTS[e.earns].values()) <= sum(USED.values()) for e in misjudged.values())


def test_a_program_is_judged_equally_each_time(reward: CodeReward) -> None:
    anew = CodeReward(reward.roles, Sandbox(reward.sandbox.limits, workers=2, cache_size=0))
    folders = ("second_run", "never_runs", "no_effect", "decides_nothing")
    entries = [e for e in TEAM_ENTRIES.values() if e.category.endswith(folders)]
    for entry in entries[::3]:
        assert components(anew, entry) == components(reward, entry), entry.name
    anew.sandbox.close()
