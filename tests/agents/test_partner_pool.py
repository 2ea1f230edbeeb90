"""Partner pools: who is drawn, and which batch of starts draws alike."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest

from llm_decpomdp.agents import Constant, RandomText, tiny_causal_lm
from llm_decpomdp.agents.partner_pool import PartnerOptions, PartnerPool
from llm_decpomdp.algorithms.rollouts.collection import sample_groups
from llm_decpomdp.algorithms.rollouts.play import seed_policies
from llm_decpomdp.policy import Policy, reads_history

NAMES = ("a", "b", "c")


def state(task: str) -> Any:
    return SimpleNamespace(episode=SimpleNamespace(task_id=task))


def pool(resample: str = "start") -> PartnerPool:
    return PartnerPool([Constant(name) for name in NAMES], resample)


def drawn(players: PartnerPool, tasks: int = 300) -> list[str]:
    return [players.member(state(str(task))).act("") for task in range(tasks)]


def test_each_start_draws_a_partner_of_its_own_and_all_are_equally_likely():
    players = pool()
    players.begin_batch(7, "update", 1)
    counts = Counter(drawn(players))
    assert set(counts) == {*NAMES} and min(counts.values()) > 70  # 100 expected, deviation 8
    first = drawn(players)
    players.begin_batch(7, "update", 2)
    assert drawn(players) != first
    players.begin_batch(7, "update", 1)
    assert drawn(players) == first, "a draw is a function of seed, purpose and task"


def test_an_update_draws_one_partner_and_an_evaluation_one_for_each_task():
    players = pool("update")
    by_update = []
    for update in range(60):
        players.begin_batch(7, "update", update)
        (partner,) = {*drawn(players, 5)}
        by_update.append(partner)
    assert set(by_update) == {*NAMES}
    players.begin_batch(7, "evaluation")
    assert set(drawn(players)) == {*NAMES}


def test_batches_of_one_update_draw_alike_and_agents_the_same_team():
    team = {"aux_0": pool(), "aux_1": pool()}
    draws = []
    for index in (0, 5):
        seed_policies(team, 3, "update", 4, index=index)
        draws += [drawn(players) for players in team.values()]
    assert all(draw == draws[0] for draw in draws)


def test_partners_sample_with_streams_of_their_own():
    players = PartnerPool([RandomText(), RandomText()])
    players.seed(5)
    texts = [policy.act("") for policy in players.members]
    players.seed(5)
    assert [policy.act("") for policy in players.members] == texts
    assert texts[0] != texts[1]


def test_the_partner_of_each_state_answers_in_it():
    players = pool()
    players.begin_batch(1, "update", 1)
    team: dict[str, Policy] = {"aux_0": players, "main_0": Constant("main")}
    envs = [state(str(task)) for task in range(20)]
    prompts = [{"aux_0": "", "main_0": ""} for _ in envs]
    samples = sample_groups(team, envs, prompts, 2)
    expected = drawn(players, 20)
    assert [[c.text for c in of["aux_0"]] for of in samples] == [[name] * 2 for name in expected]
    assert all(c.text == "main" for of in samples for c in of["main_0"])


def test_an_environment_without_a_task_needs_partners_of_an_update():
    players = pool()
    players.begin_batch(1, "update", 1)
    with pytest.raises(TypeError, match="does not tell its task: set resample=update"):
        players.member(object())
    players = pool("update")
    players.begin_batch(1, "update", 1)
    assert players.member(object()) in players.members


def test_a_prompt_that_is_too_long_for_one_partner_is_reported():
    short: Any = Constant("")
    short.overflow = lambda prompt: (len(prompt), 3) if len(prompt) > 3 else None
    players = PartnerPool([Constant(""), short])
    assert players.overflow("abcd") == (4, 3)
    assert players.overflow("abc") is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"agents": ["aux_0"]}, r"agents=\['aux_0'\] means nothing with pool=\[\]"),
        ({"resample": "update"}, r"resample=update means nothing with pool=\[\]"),
        ({"pool": ["a"], "resample": "turn"}, "resample"),
    ],
)
def test_options_without_effect_are_refused(options: dict[str, Any], message: str):
    with pytest.raises(ValueError, match=message):
        PartnerOptions(**options)


def test_a_pool_reads_histories_if_a_partner_does() -> None:
    reader = tiny_causal_lm("ab", history="chat")
    assert reads_history(PartnerPool([Constant(""), reader]))
    assert not reads_history(PartnerPool([Constant(""), tiny_causal_lm("ab")]))
