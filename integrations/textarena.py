"""TextArena: its games for one player as environments of one agent."""

from __future__ import annotations

import copy
import random
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
import textarena
from typing_extensions import Self

from llm_decpomdp.integrations.games import TextGame
from llm_decpomdp.spaces import requested_task
from llm_decpomdp.utils.chat_text import find_answer
from llm_decpomdp.wrappers.from_single_agent import FromSingleAgent, from_single_agent

_GLOBAL_GENERATORS = threading.Lock()


def game(game_id: str, *, agent: str = "player_0", **options: Any) -> FromSingleAgent:
    """Return a game as an environment. The last turn has the reward of the game.

    Args:
        game_id: Name of a game for one player, such as `GuessTheNumber-v0`.
        agent: Name of the agent.
        **options: Arguments of the game, such as `max_number`.

    Raises:
        ValueError: If there is no such game; or, from `reset`, if it is one for several players.
        TypeError: If it has no such option.
    """
    return from_single_agent(partial(TextArenaGame, game_id, options), agent)


class TextArenaGame(TextGame):
    """A game with Gymnasium's interface; `game` makes a team of it.

    TextArena's games draw from the global generators of Python and NumPy. Here each game has its own stream, which
    replaces the global ones during a call, one game at a time.
    """

    def __init__(self, game_id: str, options: Mapping[str, Any]) -> None:
        super().__init__()
        self._id = game_id
        self._options = dict(options)
        self._game: Any = textarena.make(game_id, **self._options)
        self._stream: tuple[Any, Any] | None = None
        self._seed: int | None = None
        self._texts: tuple[str, ...] = ()

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[str, dict[str, Any]]:
        """Start a game; equal seeds start equal games.

        Raises:
            KeyError: If an option is given.
            ValueError: If it is a game for several players.
        """
        if (task_id := requested_task(options)) is not None:
            raise KeyError(f"{self._id} has no tasks, so no task {task_id!r}: use seeds")
        super().reset(seed=seed)
        start = int(self.np_random.integers(2**31)) if seed is None else seed
        self._seed, self._texts = start, ()
        with self._own_stream():
            random.seed(start)
            np.random.seed(start % 2**32)  # numpy takes 32 bits
            # A new object: wrappers keep the observations of the last game.
            self._game = textarena.make(self._id, **self._options)
            try:
                self._game.reset(num_players=1, seed=start)
            except AssertionError as error:
                raise ValueError(f"{self._id} is no game for one player: {error}") from error
            return self._game.get_observation()[1], {}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Play a turn, without the reasoning in the action; the reward is 0 before the last."""
        self._texts += (action,)
        with self._own_stream():
            episode_ended, _ = self._game.step(action=find_answer(action).text)
            if episode_ended:
                rewards, _ = self._game.close()
                return "", float(rewards[0]), True, False, {}
            return self._game.get_observation()[1], 0.0, False, False, {}

    def fork(self) -> Self:
        """Return an independent game in the same state."""
        twin = super().fork()
        twin._game = copy.deepcopy(self._game)
        return twin

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the moves, since TextArena's wrappers cannot be pickled."""
        return _play_game, (self._id, self._options, self._seed, self._texts)

    @contextmanager
    def _own_stream(self) -> Iterator[None]:
        with _GLOBAL_GENERATORS:
            outside = random.getstate(), np.random.get_state()
            if self._stream is not None:
                random.setstate(self._stream[0])
                np.random.set_state(self._stream[1])
            try:
                yield
            finally:
                self._stream = random.getstate(), np.random.get_state()
                random.setstate(outside[0])
                np.random.set_state(outside[1])


def _play_game(
    game_id: str, options: Mapping[str, Any], seed: int | None, texts: Any
) -> TextArenaGame:
    """Make a game and repeat its moves."""
    env = TextArenaGame(game_id, options)
    if seed is not None:
        env.reset(seed=seed)
        for text in texts:
            env.step(text)
    return env
