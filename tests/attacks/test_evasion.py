"""The reward gives each evasive joint completion what an honest judge would."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from llm_decpomdp.envs.humaneval import CodeTask, code_task
from llm_decpomdp.envs.reward import COMPONENTS, CodeReward
from llm_decpomdp.envs.roles import coding_team
from llm_decpomdp.envs.sandbox import Limits, Sandbox
from tests.attacks.entry import SQUARES, TeamAttack
from tests.attacks.evasion import BEYOND, OPAQUE, TEAM

TASK: CodeTask = code_task(
    0,
    {
        "task_id": "squares/0",
        "prompt": 'def sq(x):\n    """square"""\n',
        "test": SQUARES,
        "entry_point": "sq",
    },
)


@pytest.fixture(scope="module")
def reward() -> Iterator[CodeReward]:
    sandbox = Sandbox(Limits(load_seconds=5, test_seconds=5), workers=2)
    yield CodeReward(coding_team(2), sandbox)
    sandbox.close()


def components(reward: CodeReward, attack: TeamAttack) -> dict[str, float]:
    return dict(reward(TASK, {"aux_0": attack.aux, "main_0": attack.main}).components)


@pytest.mark.parametrize("attack", (*TEAM, *OPAQUE), ids=lambda attack: attack.name)
def test_evasion_earns_what_it_deserves(attack: TeamAttack, reward: CodeReward) -> None:
    assert components(reward, attack) == dict(attack.expected)


@pytest.mark.xfail(strict=True, reason="neither reading nor running tells")
@pytest.mark.parametrize("attack", BEYOND, ids=lambda attack: attack.name)
def test_what_the_reward_does_not_find(attack: TeamAttack, reward: CodeReward) -> None:
    assert components(reward, attack) == dict(attack.expected)


def test_every_entry_has_a_name_of_its_own_and_names_every_component() -> None:
    entries = (*TEAM, *OPAQUE, *BEYOND)
    assert len({attack.name for attack in entries}) == len(entries)
    assert all(tuple(attack.expected) == COMPONENTS for attack in entries)


def test_what_the_reward_does_not_find_solves_the_task(reward: CodeReward) -> None:
    for attack in BEYOND:
        assert components(reward, attack)["tests"] == 1.0, attack.name
