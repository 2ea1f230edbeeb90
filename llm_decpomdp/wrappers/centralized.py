"""Centralized teams: one policy reads the prompts of all agents, and writes all their parts in one completion.

An upper bound on what communication can achieve: the same tasks, the same reward, and nothing that one agent knows
and another does not. The joint prompt has a section for the prompt of each agent; the joint completion holds the
part of each in tags of its name, such as `<aux_0>...</aux_0>`, and is taken apart before it is judged.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from llm_decpomdp.env import DecPOMDPEnv
from llm_decpomdp.interfaces import Info, Mode, Reward, Role, Turn, Verdict, evaluate_reward
from llm_decpomdp.rendering import notes
from llm_decpomdp.spaces import MAX_OBSERVATION_LENGTH, UnicodeText
from llm_decpomdp.utils.chat_text import find_answer
from llm_decpomdp.validation import check_flags

TEAM = "team_0"
"""Id of the one agent of a centralized team."""

UNTAGGED, MISSING = "untagged", "missing_parts"
"""Infos: whether a completion has no part at all, and the number of agents without one."""

NARROWEST = 5
"""Least number of equals signs on each side of a section's title."""


def centralize(env: DecPOMDPEnv, enabled: bool = True) -> DecPOMDPEnv:
    """Return the environment in which one agent, `team_0`, stands for all agents of `env`.

    Its turns, tasks, reward, feedback and secrets are those of `env`. A part that is not in its tags is empty.
    Since one policy sees and writes everything, `check_env` has no team-mates whose texts could leak: what one
    agent must not know of another it knows. Hidden tests stay hidden.

    Args:
        env: The environment.
        enabled: The value of `make`'s argument: `False` returns `env` as it is.

    Raises:
        TypeError: If it is a wrapper, or an environment without these parts.
        ValueError: If it is centralized already, or `enabled` is neither true nor false.
    """
    check_flags(centralized=enabled)
    if not enabled:
        return env
    if not isinstance(env, DecPOMDPEnv):
        raise TypeError(
            "centralized needs an environment of tasks, roles, a reward and a mode, without wrappers, got a "
            f"{type(env).__name__}: llm_decpomdp.merge_agents(env) lets one player write for all of any other"
        )
    if isinstance(env.mode, JointMode):
        raise ValueError(f"{env.name} is centralized already")
    needs = {"mode": ("acting", "present", "history"), "reward": ("history",)}
    for name, part in [(f"{kind}.{n}", getattr(env, kind)) for kind in needs for n in needs[kind]]:
        if getattr(part, name.partition(".")[2], False):
            raise ValueError(
                f"{env.name} cannot be centralized: one agent writes for all in every turn, and its {name} is "
                "about several turns or agents. Leave out centralized"
            )
    agents = tuple(env.possible_agents)
    joint = DecPOMDPEnv(
        f"{env.name}_centralised",  # as in stored snapshots, which name their environment
        # A loader, so that the tasks are still read when they are first needed; unlike a lambda it can be pickled.
        partial(getattr, env, "tasks"),
        [JointRole(tuple(env.roles))],
        JointReward(env.reward, agents),
        JointMode(env.mode, agents),
        num_turns=env.num_turns,
        stop_when_solved=env.stop_when_solved,
        discount=env.discount,
        render_mode=env.render_mode,
    )
    joint.authors = agents
    joint.observation_spaces[TEAM] = UnicodeText((len(agents) + 1) * MAX_OBSERVATION_LENGTH)
    joint.spec_id, joint.spec_kwargs = env.spec_id, {**env.spec_kwargs, "centralized": True}
    author_note = f"One policy writes the parts of all agents: {', '.join(agents)}."
    joint.description = f"{env.description} {author_note}".strip()
    return joint


def join_parts(parts: Mapping[str, str]) -> str:
    """Return the completion that `read_parts` takes apart into these parts, without blanks around them."""
    return "\n".join(f"<{agent}>\n{text}\n</{agent}>" for agent, text in parts.items())


def read_parts(completion: str, agents: Sequence[str]) -> dict[str, str | None]:
    """Return the part of each agent in a joint completion; `None` where a tag is missing.

    It lies between the first closing tag of its name and the last opening one before. Reasoning, case, and blanks
    in a tag and around the part, do not count.
    """
    answer = find_answer(completion).text
    return {agent: _part(answer, re.escape(agent)) for agent in agents}


def part_texts(parts: Mapping[str, str | None]) -> dict[str, str]:
    """Return the completion of each agent from `read_parts`; empty where its tag is missing."""
    return {agent: text or "" for agent, text in parts.items()}


def _part(completion: str, name: str) -> str | None:
    """Return the text between the tags of a name; one pass, since hostile texts have many tags."""
    start = None
    for tag in re.finditer(rf"<\s*(/\s*)?{name}\s*>", completion, re.IGNORECASE):
        if not tag[1]:
            start = tag.end()
        elif start is not None:
            return completion[start : tag.start()].strip()
    return None


def join_prompts(prompts: Mapping[str, str]) -> str:
    """Return the joint prompt: what is asked for, then a section with the prompt of each agent.

    No prompt holds a title as wide as those of the sections, so that `read_prompts` finds them again.
    """
    runs = re.findall("=+", "".join(prompts.values()))
    # Wider than any run of equals signs in a prompt, so that no agent's text can forge a title.
    bar = "=" * max(NARROWEST, 1 + max(map(len, runs), default=0))
    sections = [f"{bar} {agent} {bar}\n{prompt}" for agent, prompt in prompts.items()]
    return "\n".join([_request(prompts), *sections])


def read_prompts(prompt: str, agents: Sequence[str]) -> dict[str, str]:
    """Return the prompts of the agents in a joint prompt."""
    rest = prompt.removeprefix(_request(agents))
    bar = rest.split(maxsplit=1)[0]
    titles = "|".join(re.escape(f"\n{bar} {agent} {bar}\n") for agent in agents)
    return dict(zip(agents, re.split(titles, rest)[1:], strict=True))


def _request(agents: Collection[str]) -> str:
    form = "\n".join(f"<{agent}>\n...\n</{agent}>" for agent in agents)
    return (
        "You write the answers of all agents of a team. The prompt of each agent stands below, under its name. "
        f"Write the answer of each between tags of its name, and nothing outside of them:\n\n{form}\n"
    )


@dataclass(frozen=True)
class JointRole:
    """Writes the parts of all roles."""

    roles: tuple[Role, ...]
    agent: str = TEAM

    def reference(self, task: Any) -> str | None:
        """Return all roles' references in their tags; none where one of them has none."""
        parts = {role.agent: role.reference(task) for role in self.roles}
        texts = {agent: text for agent, text in parts.items() if text is not None}
        return join_parts(texts) if len(texts) == len(parts) else None


class JointReward:
    """Judges a joint completion by its parts.

    Args:
        reward: Judges the parts.
        agents: The agents that write them.
    """

    def __init__(self, reward: Reward, agents: Sequence[str]) -> None:
        self.reward = reward
        self.agents = tuple(agents)
        self.components = reward.components
        self.maximum = getattr(reward, "maximum", None)
        self.info_keys = (*getattr(reward, "info_keys", ()), UNTAGGED, MISSING)

    def __call__(self, task: Any, completions: Mapping[str, str]) -> Verdict:
        """Judge the parts; those without tags are empty, and counted."""
        parts = read_parts(completions[TEAM], self.agents)
        missing = sum(text is None for text in parts.values())
        verdict = evaluate_reward(self.reward, task, part_texts(parts))
        counts = {UNTAGGED: int(missing == len(parts)), MISSING: missing}
        return replace(verdict, details={**verdict.details, **counts})

    def notes(self, details: Mapping[str, Any]) -> list[str]:
        """Return the reward's lines, and one about missing parts."""
        lines = notes(self.reward, Verdict({}, False, details))
        if details[MISSING]:
            lines.append(f"parts without tags: {details[MISSING]} of {len(self.agents)}")
        return lines


@dataclass(frozen=True)
class JointMode:
    """Writes joint prompts."""

    mode: Mode
    """Writes the prompts of the agents."""
    agents: tuple[str, ...]

    @property
    def info_keys(self) -> Sequence[str]:
        """Names of the numbers of the agents' mode."""
        return self.mode.info_keys

    def first(self, task: Any) -> dict[str, str]:
        """Return the first joint prompt."""
        return {TEAM: join_prompts(self.mode.first(task))}

    def __call__(self, task: Any, turn: Turn) -> tuple[dict[str, str], Info]:
        """Return the next joint prompt, and the numbers of the agents' mode."""
        prompts = read_prompts(turn.prompts[TEAM], self.agents)
        texts = part_texts(read_parts(turn.completions[TEAM], self.agents))
        following, info = self.mode(task, replace(turn, prompts=prompts, completions=texts))
        return {TEAM: join_prompts(following)}, info

    def secrets(self, task: Any) -> Sequence[str]:
        """Return the texts that no prompt may contain."""
        return self.mode.secrets(task)
