"""The hidden profile family `pooled-v0`: its profiles and exact scores, options, rules and scripted teams.

A profile is a tuple of views, one for each agent. A view counts the agent's facts for each candidate. The best
candidate has the most facts over all agents. All numbers are sums over all profiles of a kind.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import product
from typing import Any

import numpy as np

from llm_decpomdp.env import DecPOMDPEnv
from llm_decpomdp.envs.datasets.rows import Row
from llm_decpomdp.envs.worlds.commands import plain_lines, read_commands
from llm_decpomdp.envs.worlds.game import (
    Completions,
    Game,
    Prompts,
    Turns,
    WorldOptions,
    score_verdict,
    split_of,
    task_fields,
    world_env,
)
from llm_decpomdp.envs.worlds.strategies import OPTIMUM, Act, Strategy, each, exploits, only
from llm_decpomdp.interfaces import Component, Task, Verdict
from llm_decpomdp.options import as_arguments, option
from llm_decpomdp.picture import GROUND, panel, picture

# Profiles


View = tuple[int, ...]
Profile = tuple[View, ...]


def leader(counts: Sequence[int]) -> int | None:
    """Return the candidate with the most facts, or `None` for a tie."""
    most = max(counts)
    return counts.index(most) if list(counts).count(most) == 1 else None


def total(profile: Sequence[View]) -> View:
    """Return the sum of views."""
    return tuple(map(sum, zip(*profile, strict=True)))


def is_hidden(profile: Profile) -> bool | None:
    """Check whether the majority of private views misleads; `None` if this profile is no task.

    In a task each view and the whole have a leader, most views have the same one, and no agent is dispensable:
    with other facts of any one of them, another candidate could be the best.
    """
    whole, size = total(profile), sum(profile[0])
    best, leaders = leader(whole), [leader(view) for view in profile]
    if best is None or None in leaders:
        return None
    for view in profile:
        rest = [a - b for a, b in zip(whole, view, strict=True)]
        if rest[best] > size + max(n for i, n in enumerate(rest) if i != best):
            return None
    favorite = max(set(leaders), key=leaders.count)
    return favorite != best if 2 * leaders.count(favorite) > len(leaders) else None


@lru_cache(maxsize=8)
def profiles(num_agents: int, candidates: int, facts: int) -> tuple[list[Profile], list[Profile]]:
    """Return all profiles of tasks: those in which the majority is right, and those in which it misleads."""
    counts = (c for c in product(range(facts + 1), repeat=candidates) if sum(c) == facts)
    views = [view for view in counts if leader(view) is not None]
    kinds: tuple[list[Profile], list[Profile]] = ([], [])
    for profile in product(views, repeat=num_agents):
        hidden = is_hidden(profile)
        if hidden is not None:
            kinds[hidden].append(profile)
    return kinds


@lru_cache(maxsize=8)
def best_guesses(num_agents: int, candidates: int, facts: int) -> dict[View, tuple[int, float]]:
    """Return the likeliest best candidate for each view of an agent, and the probability of both.

    Half of the tasks mislead; within a half all profiles are equally likely. Agents are interchangeable.
    """
    weights: Counter[tuple[View, int]] = Counter()
    for kind in profiles(num_agents, candidates, facts):
        for profile in kind:
            whole = total(profile)
            weights[profile[0], whole.index(max(whole))] += 0.5 / len(kind)  # type: ignore[assignment]
    guesses: dict[View, tuple[int, float]] = {}
    for (view, best), weight in sorted(weights.items()):
        if weight > guesses.get(view, (0, 0.0))[1] + 1e-12:
            guesses[view] = (best, weight)
    return guesses


def silent_value(num_agents: int, candidates: int, facts: int) -> float:
    """Return the best expected score without messages: the share of agents that name the best candidate.

    The score is a mean over the agents, so each of them can be optimized by itself.
    """
    return sum(weight for _, weight in best_guesses(num_agents, candidates, facts).values())


# Rules


LETTERS = "abcd"
"""Candidates in the wording `bare` and in pictures."""

INK = ("#4477aa", "#ccbb44", "#aa3377", "#66ccee")
"""Colors of the candidates in pictures."""

NAMES = "Ada Boris Chen Dora Emil Farid Grace Hugo Ines Jamal Kira Luis".split()

STRENGTHS = (
    "speaks four languages; has led a team; writes clearly; knows the city; is never late; repairs "
    "bicycles; cooks for fifty people; reads contracts; draws maps; has a truck; sings in a choir; trains "
    "dogs; keeps accounts; builds websites; has worked abroad; teaches adults; swims well; knows first "
    "aid; takes photographs; plants trees; welds steel; edits films; plays chess; bakes bread; climbs "
    "mountains; types fast; studied law; studied physics; collects stamps; sails boats; mends clothes; "
    "runs marathons; raises money; speaks on the radio; paints houses; keeps bees"
).split("; ")


@dataclass(frozen=True)
class PooledTask(Task):
    """A choice between candidates. `prompt` is empty, as every agent has other facts."""

    names: tuple[str, ...] = field(kw_only=True)
    """The candidates."""
    lists: tuple[tuple[tuple[int, str], ...], ...] = field(kw_only=True)
    """Candidate and strength of the facts of each agent."""

    @cached_property
    def profile(self) -> Profile:
        """The number of facts for each candidate, by agent."""
        columns = range(len(self.names))
        return tuple(tuple(sum(f[0] == c for f in facts) for c in columns) for facts in self.lists)

    @cached_property
    def best(self) -> str:
        """The best candidate."""
        whole = total(self.profile)
        return self.names[whole.index(max(whole))]


def draw_choice(
    rng: np.random.Generator, num_agents: int, candidates: int, facts: int
) -> Row | None:
    """Draw two profiles, one that misleads and one that does not; the task's index selects one."""
    kinds = profiles(num_agents, candidates, facts)
    pair = [kind[int(rng.integers(len(kind)))] for kind in kinds]
    # No profile may be in both splits, so both of a row are of one.
    if split_of(repr(pair[0])) != split_of(repr(pair[1])):
        return None
    names = [NAMES[i] for i in rng.permutation(len(NAMES))[:candidates]]
    strengths = [STRENGTHS[i] for i in rng.permutation(len(STRENGTHS))[: num_agents * facts]]
    order = [rng.permutation(facts).tolist() for _ in range(num_agents)]
    return {
        "profiles": pair,
        "names": names,
        "strengths": strengths,
        "order": order,
        "key": repr(pair[0]),
    }


def make_task(index: int, row: Row) -> PooledTask:
    """Make a task of a row; every second one misleads."""
    strengths, lists = iter(row["strengths"]), []
    for view, order in zip(row["profiles"][index % 2], row["order"], strict=True):
        candidates = [candidate for candidate, count in enumerate(view) for _ in range(count)]
        lists.append(tuple((candidates[place], next(strengths)) for place in order))
    names = tuple(row["names"])
    return PooledTask(**task_fields("pooled", index), names=names, lists=tuple(lists))


class PooledOptions(WorldOptions):
    """Options of `pooled`."""

    num_turns: int = option(1, ge=1)
    """Turns of an episode; only the answers of the last one count. More turns give a channel more messages."""
    num_agents: int = option(3, ge=3, le=4)
    """Number of agents."""
    candidates: int = option(3, ge=2, le=4)
    """Number of candidates."""
    facts: int = option(4, ge=3, le=6)
    """Facts of each agent."""
    wording: str = option("sentences", choices=("sentences", "bare"))
    """Words of prompts: `sentences`, or for models of single letters `bare`, a letter for each fact."""

    def __post_init__(self) -> None:
        super().__post_init__()
        kind = f"num_agents={self.num_agents}, candidates={self.candidates} and facts={self.facts}"
        if self.num_agents == self.candidates == 4 and self.facts > 3:
            raise ValueError(f"{kind} have too many profiles for exact bounds: take facts=3")
        if not all(profiles(self.num_agents, self.candidates, self.facts)):
            raise ValueError(f"{kind} allow no task that misleads: take 3 agents, or other facts")


COMPONENTS = {"score": Component("Share of agents that name the best candidate on the last turn.")}


@dataclass(frozen=True)
class PooledGame(Game):
    """The rules."""

    options: PooledOptions
    components = COMPONENTS

    @cached_property
    def agents(self) -> Sequence[str]:  # type: ignore[override]
        """The agents' ids."""
        return [f"member_{number}" for number in range(self.options.num_agents)]

    def prompts(self, task: PooledTask, turns: Turns) -> Prompts:
        """Return the facts of each agent, and the question."""
        if self.options.wording == "bare":
            letters = ["".join(LETTERS[c] for c, _ in facts) for facts in task.lists]
            return dict(zip(self.agents, letters, strict=True))
        return {agent: self._prompt(task, i, len(turns) + 1) for i, agent in enumerate(self.agents)}

    def _prompt(self, task: PooledTask, agent: int, turn: int) -> str:
        options = self.options
        names = f"{', '.join(task.names[:-1])} and {task.names[-1]}"
        last = f"Turn {turn} of {options.num_turns}. Only the answers of the last turn count."
        return "\n".join(
            [
                f"You are {self.agents[agent]}, one of {options.num_agents} agents who choose between {names}.",
                f"Each agent has a list of {options.facts} strengths, and none is on two lists. The best "
                "candidate has the most strengths on all lists together. The lists of others may favor somebody "
                "else than yours.",
                "Your list:",
                *(f"- {task.names[candidate]} {text}" for candidate, text in task.lists[agent]),
                "The team earns the share of agents that name the best candidate.",
                *([last] if options.num_turns > 1 else []),
                "",
                "Answer with one line: answer NAME",
            ]
        )

    def read(self, task: PooledTask, text: str) -> tuple[str | None, int]:
        """Return the candidate that an answer names, and the number of invalid commands.

        An answer that names several candidates names none.
        """
        if self.options.wording == "bare":
            letters = LETTERS[: len(task.names)]
            invalid = 0
            names = [task.names[letters.index(c)] for c in text.strip()[:1] if c in letters]
        else:
            commands = read_commands(text, {"answer": (str,)})
            words = {name.lower(): name for name in task.names}
            answers = {word for _, word in commands.accepted}
            if not answers:  # a name alone on its line, or behind a label
                lines = {line.text.rstrip(" .!)]").lower() for line in plain_lines(text)}
                answers = lines & words.keys()
            names = [words[word] for word in answers if word in words]
            invalid = commands.invalid + len(answers) - len(names) + (len(names) > 1)
        return (names[0] if len(names) == 1 else None), invalid

    def judge(self, task: PooledTask, completions: Completions, turns: Turns) -> Verdict:
        """Compare the answers with the best candidate."""
        readings = [self.read(task, completions[agent]) for agent in self.agents]
        right = sum(name == task.best for name, _ in readings) / len(readings)
        last = len(turns) == self.options.num_turns - 1
        details = {
            "invalid": sum(invalid for _, invalid in readings),
            "picture": _draw(task, {a: n for a, (n, _) in zip(self.agents, readings, strict=True)}),
        }
        return score_verdict(right if last else 0.0, turns, details)

    # Scripted teams

    def reference(self, task: PooledTask, agent: str) -> str:
        """Return the best candidate."""
        return self.write(task, task.names.index(task.best))

    def write(self, task: PooledTask, candidate: int) -> str:
        """Write an answer."""
        bare = self.options.wording == "bare"
        return LETTERS[candidate] if bare else f"answer {task.names[candidate]}"

    @property
    def strategies(self) -> Mapping[str, Strategy]:  # type: ignore[override]
        """The known numbers and the exploits."""
        options, first = self.options, self.agents[0]
        kind = (options.num_agents, options.candidates, options.facts)
        value, guesses = silent_value(*kind), best_guesses(*kind)
        quiet: Mapping[str, Any] = {"channel": {}}
        silent = self._team(lambda task, i, _: guesses[task.profile[i]][0])
        favorites = self._team(lambda task, i, _: leader(task.profile[i]))
        chance = 1 / options.candidates
        every = self._team(lambda task, i, rng: int(rng.integers(options.candidates)))
        return {
            "optimum": OPTIMUM,
            "alone": Strategy(
                only(first, silent), "", lambda task: value / options.num_agents, quiet
            ),
            "silent": Strategy(silent, "", lambda task: value, quiet),
            "random": Strategy(every, exact=lambda task: chance),
            **exploits("answer NAME", "silent"),
            "all candidates": Strategy(_name_all, "silent"),
            "leader of the own list": Strategy(favorites, "silent", changes=quiet),
            "majority of private views": Strategy(self._team(_vote), "optimum", lambda task: 0.5),
        }

    def _team(self, choose: Any) -> Act:
        return each(lambda env, i, rng: self.write(env.task, choose(env.task, i, rng)))


def _draw(task: PooledTask, answers: Mapping[str, str | None]) -> Mapping[str, Any]:
    """Return the number of facts for each candidate, on all lists and on that of each agent, with its answer."""
    panels = [panel("all lists", _bars(total(task.profile), [GROUND] * len(task.names)))]
    for view, (agent, answer) in zip(task.profile, answers.items(), strict=True):
        verdict = "o" if answer == task.best else "x"
        marks = [verdict if name == answer else GROUND for name in task.names]
        panels.append(panel(agent, _bars(view, marks)))
    labels = [f"{name}, the best" if name == task.best else name for name in task.names]
    key = {LETTERS[i]: (INK[i], label) for i, label in enumerate(labels)}
    key |= {"o": ("#2e7d32", "right answer"), "x": ("#c62828", "wrong answer")}
    return picture(panels, key)


def _bars(counts: Sequence[int], marks: Sequence[str]) -> list[str]:
    """Return a row for each candidate: a mark, and its letter for each fact."""
    rows = zip(marks, LETTERS, counts, strict=False)
    return [mark + (letter * count).ljust(max(counts), GROUND) for mark, letter, count in rows]


def _name_all(env: Any, prompts: Mapping[str, str], rng: Any) -> dict[str, str]:
    names = env.unwrapped.task.names
    return dict.fromkeys(prompts, "\n".join(f"answer {name}" for name in names))


def _vote(task: PooledTask, *_: Any) -> int:
    votes = [leader(view) for view in task.profile]
    return max(range(len(task.names)), key=votes.count)


@as_arguments(PooledOptions)
def pooled(options: PooledOptions) -> DecPOMDPEnv:
    """Choose together what no agent can know alone, a hidden profile: `pooled-v0`.

    ## Description
    Each agent (`member_0`, `member_1`, ...) has some of the facts about candidates, and the best candidate has the
    most facts over all agents. In half of the tasks most agents' facts favor the same other one. In every task,
    other facts of any one agent could change the best candidate. Agents exchange facts by `channel`, or read each
    other's answers by `order`.

    The paradigm is from Stasser and Titus 1985 (*Journal of Personality and Social Psychology* 48, 1467).

    ## Observation Space
    `UnicodeText`: the agent's facts and the question.

    ## Action Space
    `UnicodeText`: a line `answer NAME`. Any text is legal; other lines are ignored.

    ## Rewards
    `score`: the share of agents that name the best candidate on the last turn. `solved` means that all do.

    ## Starting State
    A task drawn by `reset(seed=...)`, or chosen by `options={"task_id": ...}`.

    ## Episode End
    Terminates after `num_turns` turns.

    Raises:
        ValueError: If an argument has a bad value, or no task with these arguments misleads.

    ## Version History
    - v0: first version. Before its release, the reading of answers changed
      (`docs/environments.md#answers-without-code`).
    """
    kind = (options.num_agents, options.candidates, options.facts)
    return world_env("pooled-v0", PooledGame(options), options, draw_choice, make_task, *kind)
