"""Parts of the OpenSpiel family that need no OpenSpiel: actions, chance, enumeration and the player of Hanabi."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import numpy as np
import pytest

from llm_decpomdp import make
from llm_decpomdp.envs.openspiel import hanabi
from llm_decpomdp.envs.openspiel.games import (
    draw_chance,
    load_game,
    read_action,
    scaled_return,
    show_actions,
)
from llm_decpomdp.envs.openspiel.strategies import best_policy, outcomes, random_value, value


def test_without_the_library_the_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyspiel", None)
    load_game.cache_clear()
    with pytest.raises(ImportError, match=r"needs OpenSpiel: pip install '.*open"):
        make("openspiel:tiny_hanabi")
    load_game.cache_clear()


class Moves:
    """The legal actions of a state."""

    names = ("Pass", "(Play 1)", "(Play 10)", "2S", "2S doubled")

    def legal_actions(self, player):
        return [10 * number for number in range(len(self.names))]

    def action_to_string(self, player, action):
        return self.names[action // 10]


@pytest.mark.parametrize(
    ("text", "action"),
    [
        ("(Play 1)", 10),
        ("I first thought of Pass, but now: play  1.", 10),
        ("Play 10", 20),
        ("(Play 1)\n(Play 10)", 20),
        ("2s", 30),
        ("my bid is 2S doubled", 40),
        ("<think>Pass</think> 2S", 30),
        ("**PASS**", 0),
        ("Final answer: **Play** `1`", 10),
        ("_Play 1_", 10),
        ("Play: 10", 20),
        ("play(10)", 20),
        ("\\boxed{\\text{(Play 1)}}", 10),
        ("\u201cPlay 1\u201d.", 10),
        ("Play \uff11\uff10", 20),
        ("", None),
        ("passing, Play 11, 12S", None),
        ("x" * 100_000, None),
    ],
)
def test_the_last_legal_action_is_read(text, action):
    assert read_action(Moves(), 0, text, "names") == action


class Replies(Moves):
    """Moves whose names begin with the player."""

    names = ("p1a0", "p1a1", "p1 a2")


@pytest.mark.parametrize(
    ("text", "action"),
    [
        *(("p1a1", 10), ("p1:a1", 10), ("I choose **a1**.", 10), ("Player 1 plays a2", 20)),
        *(("I play p1a0, as player 0 played a1.", 0), ("p0a1", None), ("", None)),
    ],
)
def test_a_name_may_leave_out_the_player(text, action):
    assert read_action(Replies(), 1, text, "names") == action


@pytest.mark.parametrize(
    ("text", "action"),
    [
        ("40", 40),
        ("20, no: 30", 30),
        ("Pass", None),
        ("5", None),
        ("100", None),
        ("10 (Play 1)", 10),
        ("10 \u2013 (Play 1)", 10),
        ("**20: Play 10**", 20),
    ],
)
def test_numbers_are_those_of_the_game(text, action):
    assert read_action(Moves(), 0, text, "numbers") == action


def test_prompts_state_the_rule_for_illegal_actions():
    shown = show_actions(Moves(), 0, "numbers", "end")
    assert "30 2S\n" in shown and "ends the game with no points" in shown
    assert "plays the first one" in show_actions(Moves(), 0, "names", "first")


class Tree:
    """A game of one coin, a player that sees it, and a player that sees what the first did.

    The team earns 4 if the second names the coin, 1 if it says 2, else 0.
    """

    def __init__(self, history=()):
        self.path = history

    def is_chance_node(self):
        return not self.path

    def is_simultaneous_node(self):
        return False

    def chance_outcomes(self):
        return [(0, 0.5), (1, 0.5)]

    def is_terminal(self):
        return len(self.path) == 3

    def current_player(self):
        return len(self.path) - 1

    def legal_actions(self, player=None):
        return [0, 1] if self.current_player() == 0 else [0, 1, 2]

    def information_state_string(self, player):
        return f"saw {self.path[-1]}"

    def child(self, action):
        return Tree((*self.path, action))

    def apply_action(self, action):
        self.path = (*self.path, action)

    def full_history(self):
        players = (-1, 0, 1)
        return [
            SimpleNamespace(player=player) for player, _ in zip(players, self.path, strict=False)
        ]

    def returns(self):
        coin, _, said = self.path
        return [1.0 if said == 2 else 4.0 * (said == coin)] * 2


def test_the_best_joint_policy_is_found_by_enumeration():
    ends = outcomes(Tree())
    policy, best = best_policy(ends)
    assert best == 4.0 and value(ends, policy) == 4.0
    # The first player tells the coin by what it does.
    assert policy[0, "saw 0"] != policy[0, "saw 1"]
    # A first player that always does the same tells nothing.
    fixed = {(0, "saw 0"): 0, (0, "saw 1"): 0}
    assert best_policy(ends, fixed)[1] == 2.0
    # Nor can the second player use what it does not see.
    assert best_policy(outcomes(Tree(), lambda view: ""))[1] == 2.0


def test_the_value_of_random_play_counts_each_legal_action():
    # The coin is named in one of three answers, and `2` said in another: 4/3 + 1/3.
    assert random_value(outcomes(Tree()), lambda view: 2 + view[0]) == pytest.approx(5 / 3)


def test_large_games_are_refused(monkeypatch):
    monkeypatch.setattr("llm_decpomdp.envs.openspiel.strategies.MAX_POLICIES", 35)
    with pytest.raises(ValueError, match="36 joint policies"):
        best_policy(outcomes(Tree()))


def test_chance_events_follow_from_the_seed_and_have_their_probabilities():
    def coin(seed):
        state = Tree()
        draw_chance(state, seed)
        assert len(state.path) == 1
        return state.path[0]

    coins = [coin(seed) for seed in range(400)]
    assert coins == [coin(seed) for seed in range(400)]
    assert abs(np.mean(coins) - 0.5) < 0.1


@pytest.mark.parametrize(
    ("points", "is_over", "score"), [(0.0, False, 0.0), (-40.0, True, 0.0), (35.0, True, 1.0)]
)
def test_returns_are_scaled_from_minimum_and_maximum(points, is_over, score):
    game = SimpleNamespace(min_utility=lambda: -40.0, max_utility=lambda: 35.0)
    state = SimpleNamespace(
        get_game=lambda: game, returns=lambda: [points], is_terminal=lambda: is_over
    )
    assert scaled_return(state) == pytest.approx(score)


# The player of Hanabi reads the views of OpenSpiel 2.0.2.

VIEW = """\
Some rules.

Life tokens: 3
Info tokens: {hints}
Fireworks: R1 Y0 G0 W0 B0
Hands:
Cur player
{own}
-----
{partner}
Deck size: 36
Discards: {discards}

Your legal actions:
"""

UNKNOWN = "XX || XX|RYGWB12345"
OTHERS = "W4 || XX|RYGWB12345\nB4 || XX|RYGWB12345"


def view(own=(UNKNOWN, UNKNOWN), partner=OTHERS, hints=5, discards=""):
    return VIEW.format(hints=hints, own="\n".join(own), partner=partner, discards=discards)


def test_the_picture_has_a_column_for_each_firework():
    drawn = hanabi.draw_fireworks(view().replace("R1 Y0 G0 W0 B0", "R1 Y0 G3 W5 B0"))
    assert drawn["panels"][0]["rows"] == ["   W ", "   W ", "  GW ", "  GW ", "R GW "]
    assert drawn["key"]["G"] == ["#4caf50", "green"]


@pytest.mark.parametrize(
    ("seen", "action"),
    [
        # Red 2 is next, and known.
        (view(own=(UNKNOWN, "XX || R2|R2")), "(Play 1)"),
        # A card of rank 1 may be the red one, which would be wrong.
        (view(own=(UNKNOWN, "XX || X1|RYGWB1"), hints=0), "(Discard 0)"),
        # If all other red 1s are gone, it cannot be.
        (view(own=(UNKNOWN, "XX || X1|RYGWB1"), discards="R1 R1"), "(Play 1)"),
        # The partner's white 1 can be played, and rank 1 tells more than white: it may no longer be known as red.
        (view(partner="W4 || XX|RYGWB12345\nW1 || WX|W12345"), "(Reveal player +1 rank 1)"),
        # It knows already: nothing to reveal, so the oldest card that nobody hinted at goes.
        (view(own=("XX || X5|RYGWB5", UNKNOWN), partner="W1 || W1|W1"), "(Discard 1)"),
        # Red 1 was played: a useless card goes first.
        (view(own=(UNKNOWN, "XX || R1|R1")), "(Discard 1)"),
        # No discard is allowed with all tokens: any legal reveal.
        (view(hints=8), "(Reveal player +1 rank 4)"),
        ("no view", ""),
    ],
)
def test_the_rules_of_the_hanabi_player(seen, action):
    assert hanabi.choose(seen) == action
