"""Games of OpenSpiel as environments; `make openspiel` runs this where it is installed."""

from __future__ import annotations

from functools import partial

import pytest
from pettingzoo.test import api_test, parallel_api_test, parallel_seed_test, state_test
from pettingzoo.utils import parallel_to_aec

from llm_decpomdp import check_env, make
from llm_decpomdp.benchmarks.evaluation.strategies import check_strategies
from llm_decpomdp.envs.worlds.strategies import play
from tests.support.processes import python

pyspiel = pytest.importorskip("pyspiel")

pytestmark = pytest.mark.slow

GAMES = {
    "tiny_hanabi": ["p0a1", "p1a2"],
    "hanabi(players=3)": ["(Play 1)", "(Reveal player +1 rank 1)", "(Discard 0)"],
    "hanabi(players=2,colors=2,ranks=2,hand_size=2)": ["(Play 0)"],
    "matrix_coordination": ["Left"],  # simultaneous moves
    "tiny_bridge_2p": ["1H", "Pass"],  # a minimum below 0
    "catch": ["1"],  # one player
}
"""Common-payoff games with some of their actions."""


@pytest.mark.parametrize("game", GAMES)
@pytest.mark.parametrize("settings", [{}, {"actions": "numbers", "brief": True, "illegal": "end"}])
def test_a_game_keeps_the_contract(game, settings):
    completions = [*GAMES[game], "0", "1"]
    check_env(f"openspiel:{game}", max_turns=120, completions=completions, **settings)


@pytest.mark.parametrize("game", ["tiny_hanabi", "hanabi(players=2)", "matrix_coordination"])
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_the_tests_of_pettingzoo_pass(game, texts_have_no_dtype):
    build = partial(make, f"openspiel:{game}")
    parallel_api_test(build(), num_cycles=6)
    parallel_seed_test(build, num_cycles=6)
    state_test(parallel_to_aec(build()), build(), num_cycles=6)
    api_test(parallel_to_aec(build()), num_cycles=6)


@pytest.mark.parametrize(
    ("game", "error", "message"),
    [
        ("chess", ValueError, "no common-payoff game: its payoffs are ZERO_SUM.*tiny_hanabi"),
        ("hanabii", KeyError, "did you mean 'hanabi'"),
        ("hanabi(player=2)", ValueError, "Unknown parameter 'player'"),
        ("bridge_uncontested_bidding", ValueError, "cannot be repeated"),
        ("mfg_dynamic_routing", ValueError, "mean-field"),
    ],
)
def test_other_games_are_refused_by_name(game, error, message):
    with pytest.raises(error, match=message):
        make(f"openspiel:{game}")


def test_brief_prompts_have_no_rules():
    with pytest.raises(ValueError, match="drop one of them"):
        make("openspiel:tiny_hanabi", brief=True, rules="Play.")


def test_the_players_take_turns_and_see_what_the_game_shows_them():
    env = make("openspiel:tiny_hanabi")
    prompts, infos = env.reset(seed=0)
    assert env.acting == ("player_0",) and prompts["player_1"] == ""
    assert "\n\np0:d" in prompts["player_0"]
    assert "d0, d0: a0 (a0 10, a1 0, a2 0)" in prompts["player_0"]
    prompts, rewards, *_ = env.step({"player_0": "I play p0a2."})
    assert env.acting == ("player_1",) and " p0:a2\n" in prompts["player_1"]
    assert set(rewards.values()) == {0.0}
    _, rewards, ends, _, infos = env.step({"player_1": "p1a1"})
    assert set(ends.values()) == {True} and env.agents == []
    assert rewards["player_0"] == infos["player_1"]["raw"] / 10 == infos["player_1"]["score"]


@pytest.mark.parametrize(("second", "score"), [("Left", 1.0), ("Right", 0.0)])
def test_simultaneous_moves_are_played_together(second, score):
    env = make("openspiel:matrix_coordination")
    env.reset(seed=0)
    _, rewards, ends, *_ = env.step({"player_0": "Left", "player_1": second})
    assert set(rewards.values()) == {score} and set(ends.values()) == {True} and env.agents == []


def test_the_table_of_payoffs_is_that_of_the_game():
    game = pyspiel.load_game("tiny_hanabi")
    env = make("openspiel:tiny_hanabi")
    text = env.reset(seed=0)[0]["player_0"]
    for cards in ((0, 1), (1, 0)):
        line = next(
            row for row in text.splitlines() if row.startswith(f"d{cards[0]}, d{cards[1]}:")
        )
        for first in range(3):
            row = line.partition(f"a{first} (")[2].partition(")")[0].split(", ")
            for second in range(3):
                state = game.new_initial_state()
                for action in (*cards, first, second):
                    state.apply_action(action)
                assert row[second] == f"a{second} {state.returns()[0]:g}"


def test_an_illegal_action_is_counted_and_follows_the_stated_rule():
    first, end = (make("openspiel:tiny_hanabi", illegal=rule) for rule in ("first", "end"))
    for env in (first, end):
        env.reset(seed=1)
    _, _, ends, _, infos = first.step({"player_0": "p1a1"})  # another player's action
    assert infos["player_0"]["invalid"] == 1 and not any(ends.values())
    assert first.step({"player_1": "p1a0"})[-1]["player_0"]["invalid"] == 0
    twin = make("openspiel:tiny_hanabi")
    twin.reset(seed=1)
    twin.step({"player_0": "p0a0"})
    score = first.episode.turns[-1].verdict.details["score"]
    assert set(twin.step({"player_1": "p1a0"})[1].values()) == {score}
    _, rewards, ends, _, infos = end.step({"player_0": ""})
    assert infos["player_0"]["invalid"] == 1 and set(ends.values()) == {True}
    assert set(rewards.values()) == {0.0}
    assert "no points" in end.episode.turns[0].prompts["player_0"]


def test_the_same_deal_deals_the_same_cards_after_other_actions():
    hands = []
    for action in ("(Reveal player +1 rank 1)", "(Play 0)", "(Play 4)"):
        env = make("openspiel:hanabi(players=2)", split="all")
        env.reset(options={"task_id": "deal/3"})
        prompts, *_ = env.step({"player_0": action})
        hands.append(prompts["player_1"].partition("-----\n")[2].partition("Deck")[0].splitlines())
    assert hands[1][:4] == hands[0][1:] and hands[2][:4] == hands[0][:4]
    assert hands[1][4] == hands[2][4]  # the new card


def test_the_rewards_of_an_episode_sum_to_the_final_score():
    strategies = make("openspiel:hanabi(players=2)").reward.strategies
    env = make("openspiel:hanabi(players=2)", split="test[:3]")
    for task in env.tasks.tasks:
        total = play(env, task.task_id, strategies["rules"])
        state = pyspiel.load_game("hanabi(players=2)").deserialize_state(
            env.episode.turns[-1].verdict.details["state"]
        )
        assert total == pytest.approx(state.returns()[0] / 25) and state.is_terminal()
    # The third life that is lost costs all points.
    assert play(env, "deal/4", strategies["random"]) == 0.0


def test_the_numbers_of_tiny_hanabi_are_the_known_ones():
    found = {entry.name: entry for entry in check_strategies("openspiel:tiny_hanabi", {})}
    assert not [entry for entry in found.values() if entry.problem]
    # 10 is the optimum of Foerster et al. (2019), arXiv 1811.01458; 8 is safe without a signal.
    assert found["optimum"].score.value == pytest.approx(1.0)
    assert found["silent"].score.value == pytest.approx(0.8)
    assert found["alone"].exact == pytest.approx(0.5, abs=0.05)


@pytest.mark.parametrize("settings", [{}, {"actions": "numbers"}])
def test_no_exploit_of_hanabi_beats_the_rules(settings):
    found = {
        entry.name: entry
        for entry in check_strategies(
            "openspiel:hanabi(players=2)", {**settings, "split": "test"}, 10
        )
    }
    assert not [entry for entry in found.values() if entry.problem]
    assert found["rules"].score.value * 25 > 17
    assert found["random"].score.value == found["empty answers"].score.value == 0.0


@pytest.mark.parametrize("players", [2, 3, 4, 5])
def test_the_rules_always_name_a_legal_action(players):
    env = make(f"openspiel:hanabi(players={players})", split="test[:3]")
    for task in env.tasks.tasks:
        play(env, task.task_id, env.reward.strategies["rules"])
        assert not any(turn.verdict.details["invalid"] for turn in env.episode.turns)


def test_deals_are_drawn_once():
    tasks = make("openspiel:hanabi", split="all").tasks.tasks
    assert len({task.seed for task in tasks}) == 500
    train, test = (make("openspiel:hanabi", split=split).tasks.tasks for split in ("train", "test"))
    assert (len(train), len(test)) == (400, 100)
    assert not {task.seed for task in train} & {task.seed for task in test}


def test_tiny_models_learn_tiny_hanabi():
    last = python("examples/openspiel_tiny_hanabi.py", timeout=600).stdout.splitlines()[-1]
    # Random play earns 3.7, and the best team of which one agent is silent 5.
    assert float(last.rpartition(" ")[2]) > 6.5, last
