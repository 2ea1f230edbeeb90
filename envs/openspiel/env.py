"""The family `openspiel:GAME`: a common-payoff game of OpenSpiel, which is imported when the first one is made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from llm_decpomdp.env import DecPOMDPEnv
from llm_decpomdp.envs.openspiel.games import (
    FALLBACKS,
    FORMS,
    advance,
    current_state,
    legend,
    load_game,
    players_at_move,
    read_action,
    scaled_return,
    show_actions,
)
from llm_decpomdp.envs.openspiel.hanabi import draw_fireworks
from llm_decpomdp.envs.openspiel.strategies import strategies
from llm_decpomdp.envs.worlds.game import (
    Completions,
    Game,
    Prompts,
    TaskOptions,
    Turns,
    game_env,
    generated_tasks,
    score_verdict,
    task_fields,
)
from llm_decpomdp.envs.worlds.strategies import Strategy
from llm_decpomdp.interfaces import Component, Task, Verdict
from llm_decpomdp.options import as_arguments, option

COMPONENTS = {
    "score": Component("Increase of the game's return, scaled from its bounds to 0 and 1.")
}


class OpenSpielOptions(TaskOptions):
    """Options of `openspiel`."""

    game: str = "tiny_hanabi"
    """Name of the game, with its parameters, such as `hanabi(players=2)`: the part of the id after the colon."""
    actions: str = option("names", choices=FORMS)
    """Form of actions in prompts and answers: `names`, or the game's `numbers`, which are shorter."""
    illegal: str = option("first", choices=tuple(FALLBACKS))
    """Effect of an answer without a legal action: it plays the `first` legal action in the game's order, or it
    lets the game `end` with the score 0. So no answer earns more than the rules of the game allow."""
    rules: str | None = None
    """Text above each view; by default our description of the game, where there is one."""
    brief: bool = False
    """Let a prompt be the view of the game alone, without rules and legal actions."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.brief and self.rules is not None:
            raise ValueError(
                f"brief prompts have no rules, got rules={self.rules!r}: drop one of them"
            )
        load_game(self.game)


@dataclass(frozen=True)
class DealTask(Task):
    """A deal: all chance events of an episode follow from its seed."""

    seed: int = field(kw_only=True)


@dataclass(frozen=True)
class SpielGame(Game):
    """The rules of a game of OpenSpiel."""

    options: OpenSpielOptions
    agents: tuple[str, ...]

    # Without annotations: they are no fields.
    turn_based = True
    components = COMPONENTS
    info_keys = ("score", "invalid", "raw")

    @property
    def strategies(self) -> Mapping[str, Strategy]:  # type: ignore[override]
        """Scripted teams with known or bounding scores."""
        return strategies(self.options.game, self.options.actions)

    def prompts(self, task: DealTask, turns: Turns) -> Prompts:
        """Return the prompts of the players at move."""
        state = current_state(self.options.game, task.seed, turns)
        return {
            self.agents[player]: self._prompt(state, player) for player in players_at_move(state)
        }

    def _prompt(self, state: Any, player: int) -> str:
        # The information state holds all that a player has seen; not every game has one.
        has_history = state.get_game().get_type().provides_information_state_string
        view = state.information_state_string if has_history else state.observation_string
        text = str(view(player)).strip()
        if self.options.brief:
            return text
        rules = self.options.rules
        about = legend(state.get_game(), player) if rules is None else rules
        actions = show_actions(state, player, self.options.actions, self.options.illegal)
        return "\n\n".join(part for part in (about, text, actions) if part)

    def judge(self, task: DealTask, completions: Completions, turns: Turns) -> Verdict:
        """Play the actions, and draw all chance events up to the next decision."""
        state = current_state(self.options.game, task.seed, turns)
        moves, invalid = [], 0
        for player in players_at_move(state):
            text = completions[self.agents[player]]
            action = read_action(state, player, text, self.options.actions)
            invalid += action is None
            moves.append(state.legal_actions(player)[0] if action is None else action)
        if invalid and self.options.illegal == "end":
            details = {"state": state.serialize(), "raw": 0.0, "invalid": invalid}
            return replace(score_verdict(0.0, turns, details, solved=False), over=True)
        following = advance(state, moves, task.seed)
        score, over = scaled_return(following), bool(following.is_terminal())
        details = {
            "state": following.serialize(),
            "raw": float(following.returns()[0]),
            "invalid": invalid,
        }
        if self.options.game.partition("(")[0] == "hanabi":
            details["picture"] = draw_fireworks(str(following))
        verdict = score_verdict(score, turns, details, solved=over and score >= 1.0 - 1e-9)
        return replace(verdict, over=over)


def draw_deal(rng: np.random.Generator, game: str) -> dict[str, Any]:
    """Draw the seed of a deal."""
    seed = int(rng.integers(2**31))
    return {"key": str(seed), "seed": seed}


def deal_task(index: int, row: Mapping[str, Any]) -> DealTask:
    """Return the task of a deal."""
    return DealTask(**task_fields("deal", index), seed=row["seed"])


@as_arguments(OpenSpielOptions)
def openspiel(options: OpenSpielOptions) -> DecPOMDPEnv:
    """Play a common-payoff game of OpenSpiel: `openspiel:GAME`.

    ## Description
    The agents `player_0`, `player_1` and so on play a game of OpenSpiel in which all players have the same payoff.
    The player at move acts and the others wait; where a game has simultaneous moves, all act.

    ## Observation Space
    `UnicodeText`: our description of the game where there is one, the game's information state or else its
    observation of the player, and its legal actions.

    ## Action Space
    `UnicodeText`: a completion. Any text is legal. Its last mention of a legal action is played. An answer
    without one is counted by the info `invalid`. It plays the first legal action in the game's order, or ends the
    game with the score 0 (`illegal`).

    ## Rewards
    Increase of the game's return, scaled from the minimum and maximum that the game declares to 0 and 1. A minimum
    below 0 is subtracted at the end. So the rewards of an episode sum to the scaled final score. The info `raw` is
    the return in the game's own points, and `solved` means the declared maximum.

    ## Starting State
    A deal drawn by `reset(seed=...)`, or chosen by `options={"task_id": ...}`. The seed of a deal decides all
    chance events of the game, in their order.

    ## Episode End
    Terminates at the end of the game, at the latest after the number of moves that the game declares.

    Raises:
        ImportError: If OpenSpiel is not installed.
        KeyError: If there is no such game.
        ValueError: If it is no common-payoff game, or an argument has a bad value.

    ## Version History
    - first version: OpenSpiel 2.0.2. Before its release, the reading of answers changed
      (`docs/environments.md#answers-without-code`).
    """
    game = load_game(options.game)
    agents = tuple(f"player_{number}" for number in range(game.num_players()))
    return game_env(
        f"openspiel:{options.game}",
        partial(generated_tasks, "openspiel", options, draw_deal, deal_task, options.game),
        SpielGame(options, agents),
        num_turns=game.max_game_length(),
        stop_when_solved=False,
        discount=options.discount,
        render_mode=options.render_mode,
    )
