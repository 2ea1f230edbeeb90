"""Turn order of agents: `order` of `make`, waiting agents, and copies in the middle of a turn."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace
from typing import ClassVar

import pytest
from pettingzoo.test import parallel_api_test, parallel_seed_test

from llm_decpomdp import check_env, make, merge_agents, single_agent_view
from llm_decpomdp.agents.scripted import RandomText
from llm_decpomdp.testing.rules import ConformanceError
from llm_decpomdp.wrappers.channel import add_channel
from llm_decpomdp.wrappers.turn_order import AGAIN, DRAFTS, FINAL, TurnOrderEnv, set_order

AUX, MAIN = "aux_0", "main_0"
PIPELINE = [AUX, MAIN]
DISCUSSION = [[AUX, MAIN], [AUX, MAIN]]
REFERENCE = {"aux_0": "def aux(x):\n    return x", "main_0": "def f(x):\n    return aux(x)"}

ordered = partial(make, "coophumaneval-v0", source="bundled")


@pytest.mark.parametrize("order", [PIPELINE, [MAIN, AUX], DISCUSSION, [AUX, PIPELINE]])
def test_an_order_keeps_the_contract(order):
    build = partial(ordered, order=order)
    check_env(build)
    parallel_seed_test(build, num_cycles=5)
    parallel_api_test(build(), num_cycles=5)


def test_a_later_agent_reads_the_answer_and_the_earlier_one_waits():
    env = ordered(order=PIPELINE)
    prompts, infos = env.reset(seed=3)
    assert env.acting == (AUX,) and prompts[MAIN] == ""
    assert [infos[agent]["acting"] for agent in (AUX, MAIN)] == [1.0, 0.0]
    prompts, rewards, ends, _, infos = env.step({AUX: REFERENCE[AUX], MAIN: "ignored"})
    assert prompts[AUX] == "" and prompts[MAIN].endswith(f"{FINAL}\n\n{AUX}:\n{REFERENCE[AUX]}")
    assert set(rewards.values()) == {0.0} and not any(ends.values())
    assert infos[MAIN]["acting"] == 1.0 and infos[MAIN]["turn"] == 0


def test_a_later_agent_reads_no_reasoning():
    env = ordered(order=PIPELINE)
    env.reset(seed=3)
    text = f"<think>\nA helper?\n</think>{REFERENCE[AUX]}<|im_end|>\n<|im_start|>user\n"
    prompts, *_ = env.step({AUX: text})
    assert prompts[MAIN].endswith(f"{FINAL}\n\n{AUX}:\n{REFERENCE[AUX]}")
    *_, infos = env.step({MAIN: REFERENCE[MAIN]})
    assert infos[MAIN][f"reading/{AUX}/reasoning"] > 0, "the environment judges the whole text"


def test_the_joint_completion_is_judged_as_without_an_order():
    plain, env = ordered(), ordered(order=PIPELINE)
    for game in (plain, env):
        game.reset(seed=3)
    plain_step = plain.step(REFERENCE)
    env.step({AUX: REFERENCE[AUX]})
    step = env.step({MAIN: REFERENCE[MAIN]})
    judged = [(turn.completions, turn.verdict) for turn in env.unwrapped.episode.turns]
    assert step[1] == plain_step[1]
    assert judged == [(turn.completions, turn.verdict) for turn in plain.episode.turns]
    assert step[0][AUX].endswith(plain_step[0][AUX]), "the next prompts are those of the mode"
    assert {key: value for key, value in step[4][AUX].items() if key != "acting"} == plain_step[4][
        AUX
    ]


def test_a_discussion_shows_drafts_and_the_last_answer_counts():
    env = ordered(order=DISCUSSION)
    env.reset(seed=3)
    prompts, *_ = env.step({AUX: "draft of aux", MAIN: "draft of main"})
    for agent, mate in ((AUX, MAIN), (MAIN, AUX)):
        assert prompts[agent].endswith(f"\n\n{DRAFTS}\n\n{mate}:\ndraft of {mate[:-2]}\n\n{AGAIN}")
        assert f"Your earlier answer:\ndraft of {agent[:-2]}\n\n" in prompts[agent]
    env.step(REFERENCE)
    assert dict(env.unwrapped.episode.turns[-1].completions) == REFERENCE


def stages(env):
    """Play the stages of the first turn; return the prompts of each."""
    prompts, _ = env.reset(seed=3)
    shown = [prompts]
    while len(shown) < len(env.order):
        shown.append(env.step({agent: f"draft of {agent}" for agent in env.agents})[0])
    return shown


def test_a_prompt_begins_with_the_order_and_the_name_of_its_agent():
    first, second = stages(ordered(num_agents=3, order=[["aux_0", "aux_1"], MAIN]))
    order = (
        "Each turn, the agents answer in 2 stages: 1. aux_0 and aux_1 at the same time, 2. main_0. "
        "Agents read the answers of earlier stages. You are "
    )
    assert first["aux_1"].startswith(f"{order}aux_1.\n\nWrite a helper")
    assert second[MAIN].startswith(f"{order}main_0.\n\nSolve the coding")
    draft, answer, _ = stages(ordered(order=[AUX, MAIN, AUX]))
    rule = "Of several answers of an agent, the last one counts. You are aux_0."
    assert rule in draft[AUX] and FINAL not in answer[MAIN]
    assert answer[MAIN].endswith(f"\n\n{DRAFTS}\n\n{AUX}:\ndraft of {AUX}")


@pytest.mark.parametrize("env_id", ["coophumaneval-v0", "mbpp-v1", "classeval-v0", "bugfix-v0"])
@pytest.mark.parametrize("num_agents", [2, 3])
def test_no_prompt_of_an_order_says_that_all_write_at_the_same_time(env_id, num_agents):
    build = partial(
        make, env_id, source="bundled", num_agents=num_agents, num_turns=2, original_prompt=True
    )
    plain = build()
    prompts, _ = plain.reset(seed=3)
    assert all("at the same time" in text.replace("\n", " ") for text in prompts.values())
    wrapped = TurnOrderEnv(plain, plain.possible_agents)
    for shown in (*stages(wrapped), wrapped.step(dict.fromkeys(wrapped.agents, "text"))[0]):
        assert not any("at the same time" in text for text in shown.values())
    assert plain.reset(seed=3)[0] == prompts, "the caller's own environment keeps its prompts"


def test_one_stage_has_the_prompts_of_no_order():
    assert ordered(order=[[AUX, MAIN]]).reset(seed=3)[0] == ordered().reset(seed=3)[0]


class Chatty(TurnOrderEnv):
    """An order that does not declare who reads whom."""

    readers: ClassVar = {}


def test_readers_are_declared_and_nothing_else_may_be_read():
    env = ordered(order=PIPELINE)
    assert env.readers == {AUX: {MAIN}, MAIN: set()}

    with pytest.raises(ConformanceError, match="nothing of the completion of 'aux_0'"):
        check_env(lambda: Chatty(ordered(), PIPELINE))


@pytest.mark.parametrize("turns", [0, 1, 2, 3])
def test_a_snapshot_and_a_fork_continue_in_the_middle_of_a_turn(turns):
    env = ordered(order=PIPELINE)
    env.reset(seed=1)
    for _ in range(turns):
        env.step(dict.fromkeys(env.agents, "text"))
    twin, other = env.fork(), ordered(order=PIPELINE)
    other.restore(env.snapshot())
    expected = env.step(REFERENCE)
    assert twin.step(REFERENCE) == expected and other.step(REFERENCE) == expected
    assert twin.snapshot() == other.snapshot() == env.snapshot()


@pytest.mark.parametrize(
    ("order", "error", "text"),
    [
        ("aux_0", TypeError, "must be a list of agents, such as"),
        ([AUX], ValueError, "lacks \\['main_0'\\]"),
        ([AUX, "man_0"], KeyError, "did you mean 'main_0'"),
        ([[AUX, AUX], MAIN], ValueError, "distinct agents"),
        ([[], AUX, MAIN], ValueError, "distinct agents"),
    ],
)
def test_a_bad_order_is_named(order, error, text):
    with pytest.raises(error, match=text):
        ordered(order=order)


def test_an_order_is_refused_beside_a_channel_and_a_centralized_team():
    with pytest.raises(ValueError, match="cannot be combined with channel"):
        ordered(order=PIPELINE, channel={"bandwidth": 9})
    with pytest.raises(KeyError, match="aux_0"):
        ordered(order=PIPELINE, centralized=True)


def test_all_agents_must_act_in_every_turn_for_an_order_or_a_channel():
    leaving = make("probe-halves-v0")
    leaving.mode = SimpleNamespace(present=lambda task, turns: leaving.possible_agents[:1])
    for env in (leaving, make("probe-relay-turns-v0"), make("probe-late-entry-v0")):
        for wrap in (
            partial(set_order, order=env.possible_agents),
            partial(add_channel, options={}),
        ):
            with pytest.raises(ValueError, match="whose agents wait, leave or join"):
                wrap(env)


def test_each_turn_is_shown_once_and_each_prompt_with_the_answers_before_it(capsys):
    env = ordered(order=PIPELINE, render_mode="human", num_turns=2)
    env.reset(seed=0)
    while env.agents:
        env.step(dict.fromkeys(env.acting, "no code"))
    shown = capsys.readouterr().out
    assert [shown.count(title) for title in ("Task ", "turn 1 of 2", "verdict")] == [1, 1, 2]
    assert shown.count("main_0 sees") == shown.count("aux_0 sees") == shown.count(FINAL) == 2


def test_it_is_recorded_how_the_environment_was_made():
    env = ordered(order=PIPELINE, num_turns=3)
    assert env.num_turns == 6 and env.metadata["order"] == PIPELINE
    again = make(env.spec_id, **env.spec_kwargs)
    assert again.reset(seed=0) == env.reset(seed=0)
    assert not isinstance(ordered(order="simultaneous"), TurnOrderEnv)


def test_views_of_one_agent_refuse_agents_that_take_turns():
    for view in (merge_agents, lambda env: single_agent_view(env, AUX, {MAIN: RandomText()})):
        with pytest.raises(ValueError, match="make the environment without `order`"):
            view(ordered(order=PIPELINE))
