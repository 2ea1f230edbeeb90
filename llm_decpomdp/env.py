"""The one environment class: it drives four parts (tasks, roles, reward, mode) as a Dec-POMDP."""

from __future__ import annotations

import copy
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from gymnasium.error import ResetNeeded
from gymnasium.utils import seeding
from pettingzoo import ParallelEnv
from typing_extensions import Self

from llm_decpomdp.interfaces import (
    Episode,
    Info,
    Mode,
    Reward,
    Role,
    Task,
    TaskLoader,
    TaskSet,
    Turn,
    Verdict,
    agents_to_act,
    check_prompts,
    evaluate_reward,
    next_prompts,
    present_agents,
)
from llm_decpomdp.rendering import describe_reward, print_turn, transcript
from llm_decpomdp.spaces import (
    MAX_ACTION_LENGTH,
    MAX_OBSERVATION_LENGTH,
    UnicodeText,
    find_space,
    read_actions,
    requested_task,
)
from llm_decpomdp.utils.text import visible, warn
from llm_decpomdp.validation import check_flags, check_whole, unknown

MAX_STATE_LENGTH = 100_000_000  # 90 turns of one agent with the longest prompts and completions


class DecPOMDPEnv(ParallelEnv[str, str, str]):  # type: ignore[misc]  # of pettingzoo
    """A cooperative task for a team of text agents, as a PettingZoo parallel environment.

    Observations are prompts, actions are text completions, and every agent receives the same reward: the
    sum of the named components that the infos list. The horizon belongs to the model, so the last turn
    *terminates*; so do solving the task, unless `stop_when_solved` is off, and a verdict that is `over`. Nothing
    ever truncates.

    By default all agents act in every turn and finish together. A mode with `acting` or `present` changes that
    (`llm_decpomdp.interfaces.Mode`): agents then wait for others, leave early or join late. A waiting agent
    observes the empty text, its info `acting` is 0, and an action that is supplied for it is ignored.

    Correct completions and secrets are no methods of it, since other libraries offer the public methods of an
    environment to the model as tools: `llm_decpomdp.answers(env)` returns them.

    Infos hold the same numeric keys for every agent at every step: `turn` (turns played), `task_index` (row
    in the data set), `solved`, `reward/<component>`, and those that reward and mode name in `info_keys`, such as
    `tests_passed` and `tests_total` where there are tests.

    A reward may give points to single agents (`Verdict.own`). They are no part of the reward that `step` returns;
    the info `own/<component>` of an agent has them, and it alone differs between agents.

    Args:
        name: Name of the environment, such as `coophumaneval_v0`.
        tasks: The problems, or a function that loads them when they are first needed.
        roles: The agents, in order.
        reward: Judges a joint completion.
        mode: Writes the prompts.
        num_turns: Horizon, at least 1.
        stop_when_solved: Ends the episode at full marks.
        discount: Discount factor of the model, in [0, 1], for learners that use returns; `step` returns
            plain rewards.
        render_mode: `None`, `ansi` or `human`.

    Raises:
        ValueError: If an argument is out of its range, or roles are missing or have the same agent.
    """

    render_modes: ClassVar[list[str]] = ["ansi", "human"]

    def __init__(
        self,
        name: str,
        tasks: TaskSet | TaskLoader,
        roles: Sequence[Role],
        reward: Reward,
        mode: Mode,
        *,
        num_turns: int = 2,
        stop_when_solved: bool = True,
        discount: float = 1.0,
        render_mode: str | None = None,
    ) -> None:
        check_whole("num_turns", num_turns, 1)
        check_flags(stop_when_solved=stop_when_solved)
        if not isinstance(discount, int | float) or not 0.0 <= discount <= 1.0:
            raise ValueError(f"discount must lie in [0, 1], got {discount!r}")
        if render_mode is not None and render_mode not in self.render_modes:
            raise ValueError(unknown("render_mode", render_mode, self.render_modes))
        self.name = name
        self.roles = tuple(roles)
        self.reward = reward
        self.mode = mode
        self.num_turns = num_turns
        self.stop_when_solved = stop_when_solved
        self.discount = float(discount)
        self.render_mode = render_mode
        self.spec_id = ""
        self.description = ""
        self.spec_kwargs: dict[str, Any] = {}
        self._tasks = tasks
        self._rng: np.random.Generator | None = None
        self._episode: Episode | None = None
        self.possible_agents = [role.agent for role in self.roles]
        # At least 1, so that an environment without roles is refused, too.
        if len(set(self.possible_agents)) < max(1, len(self.roles)):
            raise ValueError(
                f"{name} needs one role or more, each with an agent of its own, got {self.possible_agents}: give "
                "every role another name, such as player_0 and player_1"
            )
        self.authors = tuple(self.possible_agents)
        """The agents whose texts are judged; one agent of a wrapper may write those of several."""
        self.agents: list[str] = []
        agents = self.possible_agents
        self.observation_spaces = {agent: UnicodeText(MAX_OBSERVATION_LENGTH) for agent in agents}
        self.action_spaces = {agent: UnicodeText(MAX_ACTION_LENGTH) for agent in agents}
        self.state_space = UnicodeText(MAX_STATE_LENGTH)

    @property
    def tasks(self) -> TaskSet:
        """The loaded problems."""
        if not isinstance(self._tasks, TaskSet):
            self._tasks = self._tasks()
        return self._tasks

    @property
    def np_random(self) -> np.random.Generator:
        """The environment's own generator; only drawing a task uses it."""
        if self._rng is None:
            self._rng, _ = seeding.np_random()
        return self._rng

    @property
    def episode(self) -> Episode:
        """The current state.

        Raises:
            ResetNeeded: Before the first `reset`.
        """
        if self._episode is None:
            raise ResetNeeded("call reset() before anything else")
        return self._episode

    @property
    def task(self) -> Task:
        """The current episode's problem."""
        return self.tasks.find(self.episode.task_id)

    # Identity

    @property
    def turn_based(self) -> bool:
        """Whether agents may have to wait for others."""
        return hasattr(self.mode, "acting")

    @property
    def acting(self) -> tuple[str, ...]:
        """The live agents that act next, in the order of `possible_agents`; by default all."""
        actors = agents_to_act(self.mode, self.task, self.episode.turns, self.agents)
        return tuple(agent for agent in self.agents if agent in actors)

    @property
    def readers(self) -> Mapping[str, Collection[str]]:
        """For each agent the others whose prompts may show its completions, as the mode declares."""
        readers: Mapping[str, Collection[str]] = getattr(self.mode, "readers", {})
        return readers

    @property
    def metadata(self) -> dict[str, Any]:
        """Name, registered id and arguments, descriptions of game and reward, and the identity of the data.

        `turn_based` is there, and true, if agents may have to wait for others.
        """
        return {
            **({"turn_based": True} if self.turn_based else {}),
            "name": self.name,
            "render_modes": list(self.render_modes),
            "is_parallelizable": True,
            "id": self.spec_id,
            "kwargs": dict(self.spec_kwargs),
            "description": self.description,
            "reward": describe_reward(self.reward),
            "data": self.tasks.describe(),
        }

    def __str__(self) -> str:
        return self.name

    def observation_space(self, agent: str) -> UnicodeText:
        """Return the space of `agent`'s prompts."""
        return find_space(self.observation_spaces, agent)

    def action_space(self, agent: str) -> UnicodeText:
        """Return the space of `agent`'s completions."""
        return find_space(self.action_spaces, agent)

    # The Dec-POMDP

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, str], dict[str, Info]]:
        """Start an episode.

        Args:
            seed: Decides the task, alone; `None` draws the next one from the running generator.
            options: `{"task_id": ...}` chooses a task instead.

        Returns:
            First prompts and infos of every agent.

        Raises:
            KeyError: If there is no task of this id, or options have another key; the text names the nearest one.
            TypeError: If the options are no mapping.
            PartError: If the mode does not write a prompt for each agent.
        """
        task_id = requested_task(options)
        # The seed also restarts the generator if a task is chosen, so that the following resets repeat, too.
        if seed is not None:
            self._rng, _ = seeding.np_random(seed)
        if task_id is not None:
            task = self.tasks.find(task_id)
        else:
            task = self.tasks.tasks[int(self.np_random.integers(len(self.tasks)))]
        prompts = self.mode.first(task)
        agents = present_agents(self.mode, task, (), self.possible_agents)
        acting = agents_to_act(self.mode, task, (), agents)
        self._episode = Episode(task.task_id, (), self._observations(prompts, acting, task))
        self.agents = agents
        if self.render_mode == "human":
            self.render()
        observations = {a: text for a, text in self._episode.prompts.items() if a in agents}
        return observations, self._infos({}, agents, acting)

    def step(
        self, actions: Mapping[str, str]
    ) -> tuple[dict[str, str], dict[str, float], dict[str, bool], dict[str, bool], dict[str, Info]]:
        """Judge a joint completion and write the next prompts.

        Args:
            actions: A text for every agent of `acting`. Any text is legal. Those of waiting agents are ignored.

        Returns:
            Observations, rewards, terminations, truncations and infos of the agents that were live before, and of
            those that join. The observations of waiting agents, and all after the last turn, are empty.

        Raises:
            ResetNeeded: Before the first `reset`.
            KeyError: If an agent's action is missing, or an unknown agent acts.
            TypeError: If an action is not a string.
            PartError: If the reward returns no `Verdict` with its components, or the mode no prompt of an agent.
        """
        episode = self.episode
        # In PettingZoo's parallel API a step without live agents returns empty dictionaries.
        if not self.agents and not actions:
            return {}, {}, {}, {}, {}
        if not self.agents:
            raise ResetNeeded("the episode is over: call reset() before step()")
        # Texts are cut and checked first: reward and mode then see the same, bounded texts.
        actors, task = self.acting, self.task
        completions = read_actions(actions, actors, waiting=self.agents)
        verdict = evaluate_reward(self.reward, task, completions, episode.turns)
        prompts = {agent: text for agent, text in episode.prompts.items() if agent in actors}
        turn = Turn(prompts, completions, verdict)
        # The analysis may hold syntax trees. It serves the next prompts alone: kept in the state, it would make
        # snapshots large and not JSON-able.
        turns = (*episode.turns, replace(turn, verdict=replace(verdict, analysis=None)))
        # All ends terminate and never truncate: the horizon is part of the model, so nothing follows.
        solved = self.stop_when_solved and verdict.solved
        over = solved or verdict.over or len(turns) >= self.num_turns
        agents, acting = [], []
        # After the last turn the mode is not asked: an expert model would cost a request.
        observations, mode_infos = dict.fromkeys(self.possible_agents, ""), Info()
        if not over:
            agents = present_agents(self.mode, task, turns, self.possible_agents)
            acting = agents_to_act(self.mode, task, turns, agents)
            texts, mode_infos = next_prompts(self.mode, task, turn, turns)
            observations = self._observations(texts, acting, task)
        # The state changes only when reward and mode have succeeded: after an error the turn can be repeated.
        self._episode = Episode(episode.task_id, turns, observations)
        if self.render_mode == "human":
            self.render()
        recipients = [agent for agent in self.possible_agents if agent in (*self.agents, *agents)]
        self.agents = agents
        return (
            {agent: observations[agent] for agent in recipients},
            dict.fromkeys(recipients, verdict.reward),
            {agent: agent not in agents for agent in recipients},
            dict.fromkeys(recipients, False),
            self._infos(mode_infos, recipients, acting),
        )

    def _observations(self, prompts: object, acting: Sequence[str], task: Task) -> dict[str, str]:
        """Return the observation of every agent: the mode's prompt, or the empty text where it does not act."""
        return dict.fromkeys(self.possible_agents, "") | {
            **check_prompts(self.mode, prompts, acting, task)
        }

    def _infos(
        self, mode_infos: Info, agents: Sequence[str], acting: Collection[str]
    ) -> dict[str, Info]:
        turns = self.episode.turns
        verdict = turns[-1].verdict if turns else Verdict({}, False)
        details, points = verdict.details, verdict.components
        own = getattr(self.reward, "own_components", ())
        info: Info = {
            "turn": len(turns),
            "task_index": self.task.index,
            "solved": bool(verdict.solved),
            # The same keys in every step, as vector environments and loggers need: 0 where a verdict has none.
            **{key: details.get(key, 0) for key in getattr(self.reward, "info_keys", ())},
            **{f"reward/{name}": float(points.get(name, 0.0)) for name in self.reward.components},
            **{key: mode_infos.get(key, 0.0) for key in self.mode.info_keys},
        }
        infos = {}
        for agent in agents:
            points = verdict.own.get(agent, {})
            infos[agent] = info | {f"own/{name}": float(points.get(name, 0.0)) for name in own}
            # Without turns all act always, which no info needs to say.
            if self.turn_based:
                infos[agent]["acting"] = float(agent in acting)
        return infos

    # As texts

    def state(self) -> str:
        """Return the global state as text, for a central critic: every agent's prompts, completions, verdicts."""
        return transcript(self)

    def render(self) -> str | None:
        """Return the transcript so far (`ansi`), or print its newest part (`human`).

        Characters that a terminal obeys stand there as in Python's literals; `state` has them as they are.
        """
        if self.render_mode is None:
            warn("render() needs a render_mode: make(..., render_mode='ansi')")
        elif self.render_mode == "ansi":
            return visible(self.state())
        else:
            print_turn(self)
        return None

    def snapshot(self) -> dict[str, Any]:
        """Return the exact state as a JSON-able dictionary, the random generator included."""
        return {
            "env": self.name,
            "agents": list(self.agents),
            "episode": self.episode.to_json(),
            "rng": self.np_random.bit_generator.state,
        }

    def restore(self, snapshot: Mapping[str, Any]) -> None:
        """Continue from a `snapshot`, in this or another environment of the same kind.

        Raises:
            ValueError: If the snapshot is of another environment.
            KeyError: If its task is not in this environment's data.
            TypeError: If it is no snapshot.
        """
        if not isinstance(snapshot, Mapping):
            raise TypeError(f"restore() takes what snapshot() returned, got {snapshot!r:.100}")
        if snapshot["env"] != self.name:
            raise ValueError(f"a snapshot of {snapshot['env']!r} cannot restore {self.name!r}")
        if "inner" in snapshot:  # a wrapper's own state is around the environment's
            raise ValueError(
                f"a snapshot of a wrapped environment cannot restore {self.name!r} without the wrapper, such as a "
                "channel"
            )
        episode = Episode.from_json(snapshot["episode"])
        # Raises here, before any state changes, if the task is of other data.
        self.tasks.find(episode.task_id)
        if set(episode.prompts) != set(self.possible_agents):
            raise ValueError(
                f"the snapshot's agents {sorted(episode.prompts)} are not {self.possible_agents}"
            )
        self._episode = episode
        self.agents = list(snapshot["agents"])
        self._rng = _generator(snapshot["rng"])

    def fork(self) -> Self:
        """Return an independent environment in the same state; parts, loaded tasks and spaces are shared."""
        twin = copy.copy(self)
        twin.agents = list(self.agents)
        twin._rng = _generator(self.np_random.bit_generator.state)
        return twin


def _generator(state: Any) -> np.random.Generator:
    """Return a generator that goes on from the state of another one; a deep copy takes four times as long."""
    # As in `gymnasium.utils.seeding`. The seed, which the state replaces, saves a read of the system's entropy.
    bits = np.random.PCG64(0)
    bits.state = state
    return np.random.Generator(bits)
