"""reasoning-gym: its data sets of questions as environments of one agent and one turn."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import reasoning_gym
from reasoning_gym.utils import extract_answer

from llm_decpomdp.integrations.games import TextGame
from llm_decpomdp.oracle import Oracle, answers
from llm_decpomdp.spaces import requested_task
from llm_decpomdp.utils.chat_text import find_answer
from llm_decpomdp.utils.reasoning_gym_scores import score_answer
from llm_decpomdp.wrappers.from_single_agent import FromSingleAgent, from_single_agent


def questions(
    dataset: str, *, agent: str = "agent_0", instructions: str = "", **config: Any
) -> FromSingleAgent:
    """Return a data set as an environment: `reset` asks a question, and `step` scores its answer from 0 to 1.

    Task ids are positions in the data set, from `"0"`; a seed draws one. The answer is the text in the last
    `<answer>` tags, or the whole completion without reasoning if there are none.

    Args:
        dataset: Name of a data set, such as `basic_arithmetic`.
        agent: Name of the agent.
        instructions: Text before each question, such as `reasoning_gym.utils.SYSTEM_PROMPTS["direct"]`.
        **config: Fields of the data set's configuration, such as `size`; by default `seed` is 0.

    Raises:
        ValueError: If there is no such data set.
        TypeError: If it has no such field.
    """
    return from_single_agent(
        partial(Questions, dataset, agent, instructions, {"seed": 0, **config}),
        agent,
        info_keys=("task_index",),
    )


class Questions(TextGame):
    """A data set with Gymnasium's interface; `questions` makes a team of it."""

    def __init__(
        self, dataset: str, agent: str, instructions: str, config: Mapping[str, Any]
    ) -> None:
        super().__init__()
        self._origin = {"name": dataset, **config}
        self._data = reasoning_gym.create_dataset(**self._origin)
        self._agent = agent
        self._instructions = instructions
        self._entry: dict[str, Any] = {}

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[str, dict[str, Any]]:
        """Ask a question, at a position that the seed draws or `{"task_id": ...}` chooses.

        Raises:
            KeyError: If there is no such position, or options have another key.
        """
        task_id = requested_task(options)
        super().reset(seed=seed)
        # Drawn even if a task is chosen, so that the generator does not depend on it.
        drawn_item = self.np_random.integers(len(self._data))
        position = str(drawn_item if task_id is None else task_id)
        if not (position.isdecimal() and int(position) < len(self._data)):
            raise KeyError(f"no task_id {position!r}: give one from 0 to {len(self._data) - 1}")
        self._entry = self._data[int(position)]
        question = f"{self._instructions}\n\n{self._entry['question']}".lstrip("\n")
        return question, {"task_index": int(position)}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Score the answer as the data set does; 0 for one that its checker must not evaluate."""
        tagged = extract_answer(action)
        answer = find_answer(action).text.strip() if tagged is None else tagged
        return "", score_answer(self._data, answer, self._entry), True, False, {}

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the data set, which is made again: some cannot be pickled, or continue differently."""
        return {**vars(self), "_data": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _data=reasoning_gym.create_dataset(**state["_origin"]))


@answers.register
def _(env: Questions) -> Oracle:
    answer = env._entry.get("answer")
    return Oracle({} if answer is None else {env._agent: answer}, where="this question")
