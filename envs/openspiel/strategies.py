"""Scripted teams: exact numbers of small games, a player of Hanabi with rules, random play, and exploits."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import product
from math import prod
from typing import Any

import numpy as np

from llm_decpomdp.envs.openspiel import hanabi
from llm_decpomdp.envs.openspiel.games import (
    action_text,
    current_state,
    load_game,
    players_at_move,
    start,
)
from llm_decpomdp.envs.worlds.strategies import Strategy, only, repeat_prompt, say

# Exact values: all pure joint policies are enumerated


MAX_POLICIES = 100_000
"""Largest number of joint policies that are enumerated."""

View = tuple[int, str]
"""Number of a player and what it knows."""

Policy = Mapping[View, int]
"""A pure joint policy: the action in each view."""


@dataclass(frozen=True)
class GameEnd:
    """An end of a game."""

    probability: float
    """Probability of its chance events."""
    choices: Policy
    """Actions of the players on the way."""
    points: float
    """Return of every player."""


def outcomes(state: Any, known: Callable[[str], str] = str) -> list[GameEnd]:
    """Return all ends of a game without simultaneous moves.

    `known` maps the information state of a player to the part of it that the player can use.
    """
    return list(_outcomes(state, known, 1.0, {}))


def _outcomes(
    state: Any, known: Callable[[str], str], probability: float, choices: dict[View, int]
) -> Iterator[GameEnd]:
    if state.is_terminal():
        yield GameEnd(probability, choices, float(state.returns()[0]))
    elif state.is_chance_node():
        for action, share in state.chance_outcomes():
            yield from _outcomes(state.child(action), known, probability * share, choices)
    else:
        view = view_of(state, known)
        for action in state.legal_actions():
            yield from _outcomes(state.child(action), known, probability, {**choices, view: action})


def view_of(state: Any, known: Callable[[str], str] = str) -> View:
    """Return what the player at move knows."""
    player = state.current_player()
    return player, known(state.information_state_string(player))


def best_policy(ends: list[GameEnd], fixed: Policy | None = None) -> tuple[Policy, float]:
    """Return the best pure joint policy and its expected return.

    Mixed policies are no better, since all players have the same payoff.

    `fixed` has the actions in views of players that do not choose.

    Raises:
        ValueError: If there are too many policies.
    """
    actions: dict[View, set[int]] = {}
    for end in ends:
        for view, action in end.choices.items():
            actions.setdefault(view, set()).add(action)
    options = [
        [fixed[view]] if fixed and view in fixed else sorted(actions[view]) for view in actions
    ]
    if (count := prod(map(len, options))) > MAX_POLICIES:
        raise ValueError(
            f"the game has {count} joint policies; at most {MAX_POLICIES} are enumerated"
        )
    policies = (dict(zip(actions, choice, strict=True)) for choice in product(*options))
    best = max(policies, key=lambda policy: value(ends, policy))
    return best, value(ends, best)


def value(ends: list[GameEnd], policy: Policy) -> float:
    """Return the expected return of a pure joint policy."""
    return sum(
        end.probability * end.points
        for end in ends
        if all(policy[view] == action for view, action in end.choices.items())
    )


def random_value(ends: list[GameEnd], count: Callable[[View], int]) -> float:
    """Return the expected return of players that draw each legal action with equal probability.

    `count` returns the number of legal actions in a view.
    """
    return sum(
        end.points * end.probability / prod(count(view) for view in end.choices) for end in ends
    )


# Teams


Known = Callable[[str], str]


def strategies(game: str, form: str) -> Mapping[str, Strategy]:
    """Return the scripted teams of a game; none for most games."""
    title = game.partition("(")[0]
    if title not in TEAMS:
        return {}
    teams = TEAMS[title](game, form)
    bound = "alone" if "alone" in teams else "rules"
    return {
        **teams,
        "empty answers": Strategy(say(""), bound=bound),
        "repeats the prompt": Strategy(repeat_prompt, bound=bound),
    }


def _hanabi(game: str, form: str) -> Mapping[str, Strategy]:
    act = partial(_play_rules, game, form)
    return {
        "rules": Strategy(act, bound="rules"),
        "rules beside silence": Strategy(only("player_0", act), bound="rules"),
        "random": Strategy(partial(_play_random, game, form), bound="rules"),
    }


def _play_rules(
    game: str, form: str, env: Any, prompts: Mapping[str, str], rng: np.random.Generator
) -> Mapping[str, str]:
    names = {agent: hanabi.choose(prompt) for agent, prompt in prompts.items()}
    if form == "names":
        return names
    state = _state(game, env)
    return {agent: str(state.string_to_action(name)) for agent, name in names.items()}


def _play_random(
    game: str, form: str, env: Any, prompts: Mapping[str, str], rng: np.random.Generator
) -> Mapping[str, str]:
    state = _state(game, env)
    texts = {}
    for agent, player in zip(prompts, players_at_move(state), strict=True):
        action = int(rng.choice(state.legal_actions(player)))
        texts[agent] = action_text(state, player, action, form)
    return texts


def _state(game: str, env: Any) -> Any:
    inner = env.unwrapped
    return current_state(game, inner.task.seed, inner.episode.turns)


def _tiny_hanabi(game: str, form: str) -> Mapping[str, Strategy]:
    """Return the teams of a game that is small enough to enumerate its policies."""
    root = load_game(game).new_initial_state()
    ends = outcomes(root)
    teams = {"optimum": _of_policy(game, form, best_policy(ends)[0])}
    # Beside a silent player, whose first legal action is played.
    first = {
        view: min(end.choices[view] for end in ends if view in end.choices) for view in _views(ends)
    }
    by_agent = {}
    for player in range(root.num_players()):
        fixed = {view: action for view, action in first.items() if view[0] != player}
        by_agent[player] = best_policy(ends, fixed)
    player = max(by_agent, key=lambda number: by_agent[number][1])
    teams["alone"] = _of_policy(game, form, by_agent[player][0])
    # Its information states begin with the player's own card, and go on with the others' actions.
    policy, _ = best_policy(outcomes(root, own_card))
    teams["silent"] = _of_policy(game, form, policy, own_card)
    highest = root.get_game().max_utility()

    def expected(task: Any) -> float:
        deal = start(game, task.seed)
        points = random_value(outcomes(deal), lambda view: root.get_game().num_distinct_actions())
        return float(points / highest)

    teams["random"] = Strategy(partial(_play_random, game, form), exact=expected)
    return teams


def own_card(view: str) -> str:
    """Return a player's own card in an information state of `tiny_hanabi`."""
    return view.partition(" ")[0]


def _views(ends: Any) -> set[Any]:
    return {view for end in ends for view in end.choices}


def _of_policy(game: str, form: str, policy: Policy, known: Known = str) -> Strategy:
    """Return the team that plays a pure joint policy, with its exact score of each deal."""

    def act(env: Any, prompts: Mapping[str, str], rng: np.random.Generator) -> Mapping[str, str]:
        state = _state(game, env)
        action = policy[view_of(state, known)]
        return {
            agent: action_text(state, state.current_player(), action, form) for agent in prompts
        }

    def expected(task: Any) -> float:
        deal = start(game, task.seed)
        return float(value(outcomes(deal, known), policy) / deal.get_game().max_utility())

    return Strategy(act, exact=expected)


TEAMS: Mapping[str, Callable[[str, str], Mapping[str, Strategy]]] = {
    "hanabi": _hanabi,
    "tiny_hanabi": _tiny_hanabi,
}
"""Functions that return the teams of a game, by its name."""
