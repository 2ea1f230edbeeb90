"""Games of TextArena under our learners; `make textarena` runs this where it is installed."""

from __future__ import annotations

import pickle
import random

import pytest

from llm_decpomdp import check_env
from tests.support.processes import python

textarena = pytest.importorskip("textarena")

pytestmark = pytest.mark.slow

GAMES = (
    *("GuessTheNumber-v0", "Mastermind-v0", "TowerOfHanoi-v0", "FrozenLake-v0-random"),
    *("Secretary-v0", "Blackjack-v0", "Bandit-v0", "2048-v0", "Minesweeper-v0"),
)


@pytest.mark.parametrize("game_id", GAMES)
def test_games_keep_the_contract(game_id):
    from llm_decpomdp.integrations.textarena import game

    check_env(game, game_id=game_id)


def test_a_game_has_the_prompts_and_rewards_of_textarena_and_leaves_global_generators_alone():
    from llm_decpomdp.integrations.textarena import game

    env, foreign = game("GuessTheNumber-v0", max_number=5), None
    for seed in range(5):
        before = random.getstate()
        prompts, _ = env.reset(seed=seed)
        assert random.getstate() == before
        foreign = textarena.make("GuessTheNumber-v0", max_number=5)
        foreign.reset(num_players=1, seed=seed)
        assert prompts["player_0"] == foreign.get_observation()[1]
        for number in range(1, 6):
            twin, other = (pickle.loads(pickle.dumps(env)) for _ in range(2))
            result = env.step({"player_0": f"[{number}]"})
            assert twin.step({"player_0": f"[{number}]"}) == result
            reasoned = f"<think>Not [{1 + number % 5}].</think>\n[{number}]<|im_end|>"
            assert other.step({"player_0": reasoned})[1] == result[1]
            ended, _ = foreign.step(f"[{number}]")
            assert ended == (not env.agents)
            if ended:
                assert result[1] == {"player_0": foreign.close()[0][0]} == {"player_0": 1.0}
                break
            assert result[0]["player_0"] == foreign.get_observation()[1]


def test_forks_go_on_as_the_game_does_though_it_draws_at_random():
    from llm_decpomdp.integrations.textarena import game

    env = game("Bandit-v0")
    env.reset(seed=3)
    twin = env.fork()
    for _ in range(10):
        assert env.step({"player_0": "red"}) == twin.step({"player_0": "red"})


def test_games_for_several_players_and_unknown_ones_are_refused():
    from llm_decpomdp.integrations.textarena import game

    with pytest.raises(ValueError, match=r"TicTacToe-v0 is no game for one player"):
        game("TicTacToe-v0").reset(seed=0)
    with pytest.raises(ValueError, match="not found"):
        game("TicTacTo-v0")


def test_a_tiny_model_learns_the_number_that_a_seed_hides():
    run = python("examples/textarena_guess.py", timeout=300)
    means = [float(line.rpartition(" ")[2]) for line in run.stdout.splitlines()]
    assert len(means) == 6 and means[0] < 0.3 and means[-1] > 0.8, means
