"""The reward gives each evasive joint completion what an honest judge would."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from llm_decpomdp.envs.coding.humaneval import CodeTask, code_task
from llm_decpomdp.envs.coding.reward import COMPONENTS, CodeReward
from llm_decpomdp.envs.coding.roles import coding_team
from llm_decpomdp.envs.sandbox import Limits, Sandbox
from tests.attacks.entry import SQUARES, TeamAttack
from tests.attacks.evasion import BEYOND, DECIDED_ANEW, OPAQUE, SECOND_RUN, TEAM, USED

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


@pytest.mark.parametrize("attack", (*TEAM, *OPAQUE, *SECOND_RUN), ids=lambda attack: attack.name)
def test_evasion_earns_what_it_deserves(attack: TeamAttack, reward: CodeReward) -> None:
    assert components(reward, attack) == dict(attack.expected)


@pytest.mark.xfail(strict=True, reason="no plain form of a wrapper")
@pytest.mark.parametrize("attack", BEYOND, ids=lambda attack: attack.name)
def test_what_the_reward_does_not_find(attack: TeamAttack, reward: CodeReward) -> None:
    assert components(reward, attack) == dict(attack.expected)


def test_every_entry_has_a_name_of_its_own_and_names_every_component() -> None:
    entries = (*TEAM, *OPAQUE, *SECOND_RUN, *BEYOND)
    assert len({attack.name for attack in entries}) == len(entries)
    assert all(tuple(attack.expected) == tuple(COMPONENTS) for attack in entries)
    assert {attack.name for attack in entries} >= DECIDED_ANEW.keys()


def test_what_the_reward_does_not_find_solves_the_task(reward: CodeReward) -> None:
    for attack in BEYOND:
        assert components(reward, attack)["tests"] == 1.0, attack.name


def test_whoever_tells_the_runs_apart_earns_no_more_than_who_uses_the_helper() -> None:
    assert all(sum(attack.expected.values()) <= sum(USED.values()) for attack in SECOND_RUN)


def test_a_program_is_judged_equally_each_time(reward: CodeReward) -> None:
    anew = CodeReward(reward.roles, Sandbox(reward.sandbox.limits, workers=2, cache_size=0))
    for attack in (*SECOND_RUN, *OPAQUE[::4]):
        assert components(anew, attack) == dict(attack.expected), attack.name
    anew.sandbox.close()
