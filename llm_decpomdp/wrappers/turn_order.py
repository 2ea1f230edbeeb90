"""Turn order: within each turn of an environment, agents answer one after the other and read earlier answers.

Each turn of the environment becomes one turn for each stage of the order. Only the agents of that stage act; the
others wait. A prompt begins with the order. Below the prompt, an agent reads the answers of the agents of earlier
stages, without reasoning. The environment judges the joint completion after the last stage, so the turns before
that earn 0.

An agent may stand in several stages. Its last answer counts, and the earlier ones are drafts. So a pipeline and a
discussion are orders:

| order                                    | name in the literature                                             |
|------------------------------------------|--------------------------------------------------------------------|
| `[aux_0, main_0]`                        | sequential pipeline                                                |
| `[[aux_0, main_0], [aux_0, main_0]]`     | one round of discussion: draft, read the others' drafts, answer    |
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

from gymnasium.error import ResetNeeded
from pettingzoo.utils.wrappers import BaseParallelWrapper

from llm_decpomdp.branching import Restorable, branch, is_simultaneous, message_turns
from llm_decpomdp.interfaces import Episode
from llm_decpomdp.oracle import Oracle, answers
from llm_decpomdp.rendering import print_turn
from llm_decpomdp.spaces import UnicodeText, read_actions
from llm_decpomdp.utils.chat_text import find_answer
from llm_decpomdp.utils.text import visible
from llm_decpomdp.validation import unknown

SIMULTANEOUS = "simultaneous"
"""The value of `order` under which all agents act at once, as they do without it."""

FINAL = "These team-mates have answered, and what they wrote stays as it is. Fit your answer to it."
DRAFTS = "These are drafts of team-mates, who answer again."
OWN_DRAFT = "Your earlier answer:\n"
AGAIN = "Now answer again. Your new answer replaces your earlier one, and follows the rules above."

Infos = dict[str, dict[str, float]]


class TurnOrderEnv(BaseParallelWrapper):  # type: ignore[misc]  # pettingzoo has no types
    """An environment whose agents act in an order within each turn.

    Infos have the keys of the environment's, and `acting`: 1 for the agents that act next, 0 for those that wait.
    Before the last stage of the order, a step earns 0 and the numbers of the last judged turn are repeated.
    Records of episodes are the environment's own: they hold the answers that were judged, without drafts.

    Args:
        env: An environment with `snapshot` and `restore` in which all agents act at once.
        order: Agents or lists of agents, such as `["aux_0", "main_0"]`; the agents of a list act at once.

    Raises:
        KeyError: If an agent is unknown.
        TypeError: If the order is no list of names, or the environment has no snapshots.
        ValueError: If an agent is missing or twice in a stage, or the environment has a channel or an order, or
            agents that wait, leave or join.
    """

    def __init__(self, env: Any, order: Sequence[str | Sequence[str]]) -> None:
        if not isinstance(env, Restorable):
            raise TypeError(
                f"order needs an environment with snapshot and restore, and {type(env).__name__} has none"
            )
        if message_turns(env) is not None or not is_simultaneous(env):
            raise ValueError(
                "order cannot be combined with channel, nor with an environment whose agents wait, leave or join: "
                "drop order"
            )
        self.render_mode = getattr(env, "render_mode", None)
        # Or the environment would print itself, without waiting for the order.
        if self.render_mode == "human":
            env = copy.copy(env)
            env.render_mode = None
        self.order = read_order(order, env.possible_agents)
        mode: Any = getattr(env.unwrapped, "mode", None)
        if len(self.order) > 1 and hasattr(type(mode), "sequential"):
            env = branch(env)  # Or the caller's environment would change its prompts.
            env.unwrapped.mode = mode.sequential()
        super().__init__(env)
        self.spec_kwargs = {**getattr(env, "spec_kwargs", {}), "order": self._order_list()}
        """Arguments by which `make` builds it."""
        self._texts: tuple[dict[str, str], ...] = ()
        """Answers of this turn of the environment so far, a stage of the order after the other."""
        self._prompts: dict[str, str] = {}  # those of the environment
        self._infos: Infos = {}
        # The order may stand above a prompt, and each answer and its draft below it, with a line around it.
        space = env.action_space
        room = sum(space(agent).max_length + 200 for stage in self.order for agent in stage) + 500
        room += len(self._describe_order("")) + max(map(len, env.possible_agents))
        self._spaces = {
            a: UnicodeText(env.observation_space(a).max_length + room) for a in env.possible_agents
        }
        self.state_space = UnicodeText(env.state_space.max_length + room)

    # Identity

    @property
    def num_turns(self) -> int:
        """Horizon: the turns of the environment times the stages of the order."""
        return len(self.order) * int(self.env.num_turns)

    @property
    def turn_based(self) -> bool:
        """Whether agents may have to wait for others."""
        return True

    @property
    def answers_per_episode(self) -> dict[str, int]:
        """Most answers of each agent in an episode, drafts included."""
        turns = int(self.env.num_turns)
        stages = [agent for stage in self.order for agent in stage]
        return {agent: turns * stages.count(agent) for agent in self.env.possible_agents}

    @property
    def acting(self) -> tuple[str, ...]:
        """The agents that act next."""
        if not self.env.agents:
            return ()
        return self.order[len(self._texts)]

    @property
    def readers(self) -> dict[str, set[str]]:
        """For each agent the others that read its answers: those of later stages."""
        readers: dict[str, set[str]] = {agent: set() for agent in self.env.possible_agents}
        for place, stage in enumerate(self.order):
            followers = {agent for later in self.order[place + 1 :] for agent in later}
            for writer in stage:
                readers[writer] |= followers - {writer}
        return readers

    @property
    def metadata(self) -> dict[str, Any]:
        """Metadata of the environment with the order."""
        return {**self.env.metadata, "turn_based": True, "order": self._order_list()}

    def _order_list(self) -> list[str | list[str]]:
        return [stage[0] if len(stage) == 1 else list(stage) for stage in self.order]

    @property
    def episode(self) -> Episode:
        """The environment's state, and what each agent sees now."""
        episode: Episode = self.env.episode
        return Episode(episode.task_id, episode.turns, self._observations(episode.prompts))

    def observation_space(self, agent: str) -> UnicodeText:
        """Return the space of `agent`'s prompts."""
        return self._spaces[agent]

    # The Dec-POMDP

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, str], Infos]:
        """Start an episode; the agents of the first stage act."""
        prompts, infos = self.env.reset(seed=seed, options=options)
        self._texts, self._prompts, self._infos = (), dict(prompts), infos
        self._show()
        return self._observations(prompts), self._flagged(infos)

    def step(
        self, actions: Mapping[str, str]
    ) -> tuple[dict[str, str], dict[str, float], dict[str, bool], dict[str, bool], Infos]:
        """Take the answers of the acting agents; after the last stage the environment judges all.

        Errors are those of `DecPOMDPEnv.step`.
        """
        if not self._prompts:
            raise ResetNeeded("call reset() before step()")
        agents = list(self.env.agents)
        if not agents:
            outcome: tuple[Any, ...] = self.env.step(actions)
            return outcome
        texts = (*self._texts, read_actions(actions, self.acting, waiting=agents))
        if len(texts) < len(self.order):
            self._texts = texts
            self._show()
            return (
                self._observations(agents),
                dict.fromkeys(agents, 0.0),
                dict.fromkeys(agents, False),
                dict.fromkeys(agents, False),
                self._flagged(unpaid_infos(self._infos)),
            )
        # A later answer of an agent replaces its draft.
        last = {agent: text for stage in texts for agent, text in stage.items()}
        joint = {agent: last[agent] for agent in agents}
        prompts, rewards, terminations, truncations, infos = self.env.step(joint)
        self._texts, self._prompts, self._infos = (), dict(prompts), infos
        self._show()
        return self._observations(agents), rewards, terminations, truncations, self._flagged(infos)

    def _flagged(self, infos: Mapping[str, Mapping[str, float]]) -> Infos:
        acting = self.acting
        return {agent: {**info, "acting": float(agent in acting)} for agent, info in infos.items()}

    def _observations(self, agents: Any) -> dict[str, str]:
        acting = self.acting
        return {agent: self._prompt(agent) if agent in acting else "" for agent in agents}

    def _describe_order(self, agent: str) -> str:
        """Return the order as an acting agent reads it; empty where all act at once."""
        if len(self.order) == 1:
            return ""
        stages = (
            f"{number}. {' and '.join(stage)}" + (" at the same time" if len(stage) > 1 else "")
            for number, stage in enumerate(self.order, 1)
        )
        sentences = [
            f"Each turn, the agents answer in {len(self.order)} stages: {', '.join(stages)}.",
            "Agents read the answers of earlier stages.",
            f"You are {agent}.",
        ]
        if sum(map(len, self.order)) > len(self.env.possible_agents):
            sentences.insert(2, "Of several answers of an agent, the last one counts.")
        return " ".join(sentences) + "\n\n"

    def _prompt(self, agent: str) -> str:
        """Return the order, the environment's prompt of an acting agent, and the answers of earlier stages."""
        again = {name for stage in self.order[len(self._texts) :] for name in stage}
        texts = {n: find_answer(text).text for stage in self._texts for n, text in stage.items()}
        own = texts.pop(agent, None)
        parts = [self._describe_order(agent) + self._prompts[agent]]
        if own is not None:
            parts.append(f"{OWN_DRAFT}{own}")
        for opening, authors in ((FINAL, texts.keys() - again), (DRAFTS, texts.keys() & again)):
            if authors:
                parts.append(opening)
                parts += [f"{name}:\n{texts[name]}" for name in texts if name in authors]
        return "\n\n".join(parts if own is None else [*parts, AGAIN])

    # The state as a value

    def state(self) -> str:
        """Return the global state: that of the environment, then the answers of this turn so far."""
        lines = [
            f"--- {a} answers ---\n{text}" for stage in self._texts for a, text in stage.items()
        ]
        following = f"next: {', '.join(self.acting)}" if self.env.agents else "over"
        return "\n\n".join([str(self.env.state()), *lines, following])

    def _show(self) -> None:
        if self.render_mode == "human":
            self.render()

    def render(self) -> str | None:
        """Return the transcript with the answers so far (`ansi`), or print its newest part (`human`)."""
        if self.render_mode == "human":
            print_turn(self, judged=not self._texts)
            return None
        return visible(self.state()) if self.render_mode == "ansi" else self.env.render()

    def snapshot(self) -> dict[str, Any]:
        """Return the exact state as a JSON-able dictionary."""
        inner = self.env.snapshot()
        return {
            "env": inner["env"],
            "inner": inner,
            "episode": inner["episode"],
            "order": self._order_list(),
            "texts": [dict(stage) for stage in self._texts],
            "infos": {agent: dict(info) for agent, info in self._infos.items()},
        }

    def restore(self, snapshot: Mapping[str, Any]) -> None:
        """Continue from a `snapshot`, in this or another environment with the same order.

        Raises:
            ValueError: If the snapshot is of another environment or order.
            KeyError: If the snapshot's task is not in this environment's data.
        """
        if snapshot.get("order") != self._order_list():
            raise ValueError(
                f"a snapshot with the order {snapshot.get('order')} cannot restore one with {self._order_list()}"
            )
        self.env.restore(snapshot["inner"])
        self._prompts = dict(self.env.episode.prompts)
        self._texts = tuple(dict(stage) for stage in snapshot["texts"])
        self._infos = {agent: dict(info) for agent, info in snapshot["infos"].items()}

    def fork(self) -> TurnOrderEnv:
        """Return an independent environment in the same state."""
        twin: TurnOrderEnv = object.__new__(type(self))
        twin.__dict__.update({**vars(self), "env": branch(self.env)})
        return twin


def read_order(
    order: Sequence[str | Sequence[str]], agents: Sequence[str]
) -> tuple[tuple[str, ...], ...]:
    """Return the agents of each stage of an order; errors as of `TurnOrderEnv`."""
    example = f"such as {list(agents)}, or {SIMULTANEOUS!r} where all act at once"
    if isinstance(order, str) or not isinstance(order, Sequence):
        raise TypeError(f"order must be a list of agents, {example}, got {order!r}")
    stages = tuple((stage,) if isinstance(stage, str) else tuple(stage) for stage in order)
    for stage in stages:
        for agent in stage:
            if agent not in agents:
                raise KeyError(unknown("agent in order", agent, agents))
        if not stage or len(set(stage)) < len(stage):
            raise ValueError(f"each stage of order names distinct agents, {example}, got {order!r}")
    missing = [agent for agent in agents if all(agent not in stage for stage in stages)]
    if missing:
        raise ValueError(f"order must name every agent, {example}, and lacks {missing}: {order!r}")
    # Agents of a stage answer at the same time, so their order in it means nothing.
    return tuple(tuple(sorted(stage, key=list(agents).index)) for stage in stages)


def set_order(env: Any, order: str | Sequence[str | Sequence[str]]) -> Any:
    """Return the environment with an order of turns; as it is for `simultaneous`."""
    return env if order == SIMULTANEOUS else TurnOrderEnv(env, order)


@answers.register
def _(env: TurnOrderEnv) -> Oracle:
    return answers(env.env)


def unpaid_infos(infos: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return the infos of a step that earns nothing: the newest ones, with 0 in place of all points."""
    return {
        agent: {k: 0.0 if k.startswith(("reward/", "own/")) else n for k, n in info.items()}
        for agent, info in infos.items()
    }
