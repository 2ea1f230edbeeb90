"""The one environment class, on a small environment of four simple parts."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from gymnasium.error import ResetNeeded

from llm_decpomdp.interfaces import TaskSet
from llm_decpomdp.oracle import answers
from llm_decpomdp.spaces import MAX_ACTION_LENGTH
from tests.conftest import WordReward

WRONG = {"left_0": "no", "right_0": "idea"}


def gold(env):
    return {agent: answers(env).reference(agent) for agent in env.agents}


@pytest.fixture
def env(make_word_env):
    """The environment in its first turn."""
    env = make_word_env()
    env.reset(seed=0)
    return env


def test_the_seed_alone_decides_the_episode(make_word_env):
    starts = [make_word_env().reset(seed=seed) for seed in range(8) for _ in range(2)]
    assert starts[0::2] == starts[1::2]
    assert len({start[0]["left_0"] for start in starts}) > 2


def test_options_choose_the_task_without_drawing(make_word_env):
    one, two = make_word_env(), make_word_env()
    _, infos = one.reset(seed=1, options={"task_id": "word/5"})
    assert {info["task_index"] for info in infos.values()} == {5}
    one.reset(seed=1)
    two.reset(seed=1)
    one.reset(options={"task_id": "word/2"})
    assert [one.reset() for _ in range(5)] == [two.reset() for _ in range(5)]


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"task_id": "wrd/3"}, KeyError, "did you mean 'word/3'"),
        ({"task_id": ["word/3"]}, KeyError, r"unknown task_id \['word/3'\]; did you mean 'word/3'"),
        ({"taskid": "word/3"}, KeyError, "option of reset 'taskid'; did you mean 'task_id'"),
        ({"task_id": "word/3", "task_index": 3}, KeyError, "'task_index'"),
        ([1], TypeError, r"options must be a mapping such as .*, got \[1\]"),
    ],
)
def test_wrong_options_of_reset_are_refused(make_word_env, options, error, message):
    with pytest.raises(error, match=message):
        make_word_env().reset(seed=7, options=options)


def test_refused_options_draw_nothing(make_word_env):
    one, two = make_word_env(), make_word_env()
    for env in (one, two):
        env.reset(seed=1)
    for options in ({"taskid": "word/3"}, {"task_id": "word/3", "task_index": 3}, [1]):
        with pytest.raises((KeyError, TypeError)):
            one.reset(seed=7, options=options)
    assert one.reset() == two.reset()


def test_the_last_turn_terminates_and_nothing_truncates(make_word_env):
    env = make_word_env(num_turns=3)
    env.reset(seed=0)
    for turn in range(1, 4):
        observations, _, terminations, truncations, infos = env.step(WRONG)
        assert set(terminations.values()) == {turn == 3}
        assert set(truncations.values()) == {False}
        assert infos["left_0"]["turn"] == turn
    assert observations == {"left_0": "", "right_0": ""}
    assert env.agents == []
    assert env.step({}) == ({}, {}, {}, {}, {})


def test_solving_ends_the_episode_unless_told_otherwise(make_word_env):
    for stop, left in ((True, []), (False, ["left_0", "right_0"])):
        env = make_word_env(num_turns=2, stop_when_solved=stop)
        env.reset(seed=0)
        _, rewards, _, _, infos = env.step(gold(env))
        assert env.agents == left
        assert rewards == {"left_0": 1.0, "right_0": 1.0}
        assert infos["right_0"]["solved"] is True


class LostReward(WordReward):
    """Ends the episode at the word `lost`."""

    def __call__(self, task, completions):
        over = "lost" in completions.values()
        return replace(super().__call__(task, completions), over=over)


def test_a_verdict_may_end_the_episode_without_full_marks(make_word_env):
    env = make_word_env(num_turns=5)
    env.reward = LostReward()
    env.reset(seed=0)
    env.step(WRONG)
    stored = json.loads(json.dumps(env.snapshot()))
    assert "over" not in stored["episode"]["turns"][0]["verdict"]  # as in older records
    _, _, terminations, _, infos = env.step({**WRONG, "left_0": "lost"})
    assert env.agents == [] and set(terminations.values()) == {True}
    assert infos["left_0"]["solved"] is False
    assert env.snapshot()["episode"]["turns"][1]["verdict"]["over"] is True
    twin = make_word_env(num_turns=5)
    twin.restore(env.snapshot())
    assert twin.agents == [] and twin.episode == env.episode


def test_the_reward_is_the_sum_of_the_components_in_the_infos(env):
    _, rewards, _, _, infos = env.step({"left_0": "", "right_0": "x"})
    assert rewards == {"left_0": -0.25, "right_0": -0.25}
    assert (infos["left_0"]["reward/empty"], infos["left_0"]["reward/word"]) == (-0.25, 0.0)


def test_infos_have_the_numbers_of_the_mode_and_the_reward_at_reset_and_every_step(make_word_env):
    env = make_word_env(num_turns=2)
    _, start = env.reset(seed=0)
    steps = [env.step(WRONG)[4] for _ in range(2)]
    assert [infos["left_0"]["hints"] for infos in (start, *steps)] == [0.0, 1.0, 0.0]
    assert (start["left_0"]["tests_total"], steps[0]["left_0"]["tests_total"]) == (0, 2)


def test_a_step_needs_a_reset(make_word_env):
    env = make_word_env(num_turns=1)
    for call in (
        lambda: env.step(WRONG),
        env.state,
        env.snapshot,
        lambda: answers(env).reference("left_0"),
    ):
        with pytest.raises(ResetNeeded):
            call()
    env.reset(seed=0)
    env.step(WRONG)
    with pytest.raises(ResetNeeded, match="over"):
        env.step(WRONG)


@pytest.mark.parametrize(
    ("actions", "error", "text"),
    [
        ({"left_0": "a"}, KeyError, "no action for agent 'right_0'"),
        ({**WRONG, "rihgt_0": "b"}, KeyError, "did you mean 'right_0'"),
        ({**WRONG, "left_0": 7}, TypeError, "must be a str, got int"),
        ({}, KeyError, "no action"),
    ],
)
def test_misuse_raises_and_changes_nothing(env, actions, error, text):
    before = env.snapshot()
    with pytest.raises(error, match=text):
        env.step(actions)
    assert env.snapshot() == before


def test_long_and_unencodable_completions_are_cut_and_cleaned(env):
    env.step({"left_0": "x" * (MAX_ACTION_LENGTH + 5), "right_0": "a\ud800b"})
    completions = env.episode.turns[0].completions
    assert len(completions["left_0"]) == MAX_ACTION_LENGTH
    assert completions["right_0"] == "a?b"


def test_a_snapshot_of_an_environment_without_a_seed_restores_its_generator(make_word_env):
    env, twin = make_word_env(), make_word_env()
    env.reset(options={"task_id": "word/1"})
    twin.restore(env.snapshot())
    fork = env.fork()
    courses = [[each.reset()[0]["left_0"] for _ in range(12)] for each in (env, twin, fork)]
    assert courses[0] == courses[1] == courses[2]


@pytest.mark.parametrize(
    ("change", "error", "text"),
    [
        ({"env": "other_v0"}, ValueError, "'other_v0' cannot restore 'word_v0'"),
        ({"episode": {"task_id": "word/9", "turns": [], "prompts": {}}}, KeyError, "word/9"),
        (
            {"episode": {"task_id": "word/1", "turns": [], "prompts": {"a_0": ""}}},
            ValueError,
            "a_0",
        ),
    ],
)
def test_a_foreign_snapshot_is_refused_and_changes_nothing(env, change, error, text):
    before = env.snapshot()
    with pytest.raises(error, match=text):
        env.restore({**before, **change})
    assert env.snapshot() == before


def test_tasks_load_once_and_only_when_needed(make_word_env):
    env = make_word_env()
    loads = []
    load = env._tasks
    env._tasks = lambda: loads.append(1) or load()
    env.observation_space("left_0")
    assert loads == []
    env.reset(seed=0)
    env.reset()
    assert loads == [1]
    assert isinstance(env.tasks, TaskSet)


def test_metadata_identify_the_data_and_are_json(env):
    metadata = json.loads(json.dumps(env.metadata))
    assert (metadata["name"], metadata["render_modes"]) == ("word_v0", ["ansi", "human"])
    assert metadata["data"]["rows"] == 6
    assert metadata["data"]["fingerprint"] == env.tasks.fingerprint


def test_state_shows_every_agent_and_turn(env):
    env.step({"left_0": "first answer", "right_0": "second answer"})
    assert env.state_space.contains(env.state())
    for part in ("first answer", "second answer", "reward 0.00", "turn 1 of 2", "wrote"):
        assert part in env.state()


def test_render_follows_its_mode(make_word_env, capsys):
    env = make_word_env(render_mode="ansi")
    env.reset(seed=0)
    assert env.render() == env.state()
    assert capsys.readouterr().out == ""
    env = make_word_env(render_mode="human")
    env.reset(seed=0)
    env.step({"left_0": "a quaint guess", "right_0": "[bold]not markup[/bold]"})
    shown = capsys.readouterr().out
    assert "a quaint guess" in shown
    assert "[bold]not markup[/bold]" in shown
    assert env.render() is None
    with pytest.warns(UserWarning, match="render_mode"):
        assert make_word_env().render() is None


@pytest.mark.parametrize(
    ("argument", "text"),
    [
        ({"num_turns": 0}, "num_turns must be a whole number of at least 1, got 0"),
        ({"num_turns": True}, "got True"),
        ({"num_turns": 2.0}, "got 2.0"),
        ({"discount": 1.5}, r"discount must lie in \[0, 1\], got 1.5"),
        ({"discount": float("nan")}, "discount"),
        ({"render_mode": "humann"}, "did you mean 'human'"),
    ],
)
def test_bad_arguments_are_refused(make_word_env, argument, text):
    with pytest.raises(ValueError, match=text):
        make_word_env(**argument)


def test_a_wrong_agent_of_a_space_and_what_is_no_snapshot_are_named(env):
    for space in (env.observation_space, env.action_space):
        with pytest.raises(KeyError, match="unknown agent 'left'; did you mean 'left_0'"):
            space("left")
    with pytest.raises(TypeError, match=r"takes what snapshot\(\) returned, got None"):
        env.restore(None)
