"""Games of TextArena under our learners; `make textarena` runs this where it is installed."""

from __future__ import annotations

import pickle
import random

import pytest

from llm_decpomdp import check_env

textarena = pytest.importorskip("textarena")

pytestmark = pytest.mark.slow

GAMES = (
    *("GuessTheNumber-v0", "Mastermind-v0", "TowerOfHanoi-v0", "FrozenLake-v0-random"),
    *("Secretary-v0", "Blackjack-v0", "Bandit-v0", "Sokoban-v0", "2048-v0", "Minesweeper-v0"),
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
            twin = pickle.loads(pickle.dumps(env))
            result = env.step({"player_0": f"[{number}]"})
            assert twin.step({"player_0": f"[{number}]"}) == result
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
    import numpy as np

    from llm_decpomdp.agents import Sampling, tiny_causal_lm
    from llm_decpomdp.algorithms import ALGORITHMS, Learner, LearnerOptions, Start, rollout_chains
    from llm_decpomdp.integrations.textarena import game

    env = game("GuessTheNumber-v0", max_number=9)
    prompts, _ = env.reset(seed=5)
    alphabet = "".join(sorted({*prompts["player_0"], *"0123456789"}))
    model = tiny_causal_lm(alphabet, Sampling(max_new_tokens=1), context=1200)
    step = LearnerOptions(learning_rate=4e-3, max_grad_norm=0.3)
    learner, rng = Learner({"player_0": model}, ALGORITHMS["grpo"], step), np.random.default_rng(0)
    means = []
    for _ in range(60):
        rollouts = rollout_chains(
            env, {"player_0": model}, [Start(seed=5)], group_size=16, rng=rng, max_turns=1
        )
        learner.update(rollouts)
        means.append(np.mean([group.rewards for group in rollouts[0].groups[:1]]))
    assert np.mean(means[:10]) < 0.3 and np.mean(means[-10:]) > 0.9, means
