"""Teams: strangers, and what changes with their size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import product

import numpy as np

from llm_decpomdp import make
from llm_decpomdp.algorithms.learning.learner_options import LearnerOptions
from llm_decpomdp.algorithms.rollouts.rollout_options import RolloutOptions
from llm_decpomdp.env import DecPOMDPEnv
from llm_decpomdp.envs.probes.env import GRADES
from llm_decpomdp.envs.probes.parts import (
    LETTERS,
    Points,
    ProbeTask,
    Words,
    probe_env,
    probe_task,
)
from studies.hypotheses.hypothesis import Clause, Hypothesis, Measures
from studies.hypotheses.training import LEARNING_RATE, TabularPolicy, make_team, tasks, train, value

ONE_PARTNER = RolloutOptions(joint_mode="common", num_partners=1)

SIZES = (2, 4, 8)

ESS = "effective_sample_size"

MEETINGS = 40
"""Updates of a team that is to find a letter."""

LEARNED = 0.9
"""Share of the optimum from which on a team has learned."""

LONGEST = 400
"""Most updates of a team."""

PAIRS = list(map("".join, product(LETTERS, repeat=2)))
"""What two agents have to say together."""

WRITING = 60
"""Updates of those who are to say them."""

WRITERS: Mapping[str, tuple[bool, int, Sequence[str]]] = {
    "split, two": (True, 2, LETTERS),
    "split, one": (True, 1, PAIRS),
    "whole, two": (False, 2, LETTERS),
    "whole, one": (False, 1, PAIRS),
    "whole, one of a letter": (False, 1, LETTERS),
}
"""Whether each agent sees its own letter alone, the number of agents, and the answers of each."""


Tables = Mapping[str, TabularPolicy]


def strangers(seed: int) -> Measures:
    """Measure how often two teams meet: each with itself, and with the other's second agent."""
    env = make("probe-rendezvous-v0")
    teams = []
    for half in range(2):
        team = make_team(env, LETTERS, 2 * seed + half)
        train(env, team, seed=2 * seed + half, updates=MEETINGS)
        teams.append([policy.probabilities(LETTERS) for policy in team.values()])
    at_home = np.mean([_meet(first, second) for first, second in teams])
    abroad = np.mean([_meet(teams[0][0], teams[1][1]), _meet(teams[1][0], teams[0][1])])
    return {"own partner": float(at_home), "stranger": float(abroad)}


def _meet(first: Mapping[str, float], second: Mapping[str, float]) -> float:
    return sum(first[letter] * second[letter] for letter in LETTERS)


def sizes(seed: int) -> Measures:
    """Measure by how much the updates to 90 % grow with the team: slopes between logarithms."""
    slopes = {}
    for name, rollouts in {"aligned": RolloutOptions(), "common": ONE_PARTNER}.items():
        counts = [_updates_to_learn(size, rollouts, seed) for size in SIZES]
        slopes[name] = float(np.polyfit(np.log(SIZES), np.log(counts), 1)[0])
    return slopes


def _updates_to_learn(size: int, rollouts: RolloutOptions, seed: int) -> int:
    """Count the updates until the policies' expected reward is 90 % of the optimum.

    Raises:
        RuntimeError: If `LONGEST` are not enough: a slope says nothing then.
    """
    env = make("probe-noisy-partners-v0", num_agents=size)
    team = make_team(env, GRADES, seed)
    count = 0

    def watch(update: int, _: Mapping[str, float]) -> bool:
        nonlocal count
        count = update
        return _expected_worth(env, team) >= LEARNED

    train(
        env,
        team,
        seed=seed,
        updates=LONGEST,
        rollouts=rollouts,
        options=LearnerOptions(learning_rate=0.2),
        watch=watch,
    )
    if _expected_worth(env, team) < LEARNED:
        raise RuntimeError(f"{size} agents have not learned in {LONGEST} updates, seed {seed}")
    return count


def _expected_worth(env: DecPOMDPEnv, team: Tables) -> float:
    """Return the expected reward of noisy partners: the mean of what each one's letters are worth."""
    worths = [
        chance * _single_agent(env, task, agent, letter) * len(team)
        for task in tasks(env)
        for place, agent in enumerate(team)
        for letter, chance in team[agent].probabilities(task.cues[place]).items()
        if letter
    ]
    return sum(worths) / len(team) / len(tasks(env))


def _single_agent(env: DecPOMDPEnv, task: ProbeTask, agent: str, letter: str) -> float:
    """Return the reward of a letter beside silent partners."""
    return env.reward(task, {mate: letter * (mate == agent) for mate in env.possible_agents}).reward


def reuse(seed: int) -> Measures:
    """Measure how the effective sample size of joint samples falls with the team, after eight steps on a batch."""
    logs = []
    for size in (1, 2, 4):
        env = make("probe-halves-v0", num_agents=size)
        shares: list[float] = []
        options = LearnerOptions(learning_rate=LEARNING_RATE, num_iterations=8)
        train(
            env,
            make_team(env, LETTERS, seed),
            seed=seed,
            updates=10,
            group_size=16,
            options=options,
            watch=partial(_note, shares),
        )
        logs.append(float(np.log(np.mean(shares))))
    return {"slope": float(np.polyfit((1, 2, 4), logs, 1)[0])}


def _note(shares: list[float], update: int, metrics: Mapping[str, float]) -> bool:
    shares += [metrics[ESS]] if ESS in metrics else []
    return False


def writers(seed: int) -> Measures:
    """Measure what two agents earn with a letter each, and one with both letters or one."""
    measures = {}
    for name, (split, agents, answers) in WRITERS.items():
        env = _write_texts(split, agents)
        team = make_team(env, answers, seed)
        train(env, team, seed=seed, updates=WRITING)
        measures[name] = value(env, team)
    return measures


def _write_texts(split: bool, agents: int) -> DecPOMDPEnv:
    """Return a game of one turn: each of two letters is worth half a point, and who writes it sees it, or both."""
    tasks = [
        probe_task(
            f"written/{pair}",
            place,
            [cue if split else f"{number} of {pair}" for number, cue in enumerate(pair)][:agents],
            [*pair] if agents > 1 else [pair],
        )
        for place, pair in enumerate(PAIRS)
    ]
    return probe_env("written", tasks, Points(_right_letters, 0.0))


def _right_letters(task: ProbeTask, words: Words) -> float:
    letters = words if len(words) > 1 else words[0]
    return sum(map(str.__eq__, letters, "".join(task.letters))) / 2


HYPOTHESES = (
    Hypothesis(
        "H6",
        "Conventions that a team has learned by itself fail with strangers.",
        "Three letters are equally good. Teams that have settled on one each meet with probability one third.",
        f"probe-rendezvous-v0, tabular policies, MAGRPO, {MEETINGS} updates, G = 8; two teams a seed, each alone "
        "and with the other's second agent. Probability that both say the same.",
        (
            Clause("with its own partner: above 0.9", {"own partner": 1}, above=0.9),
            Clause(
                "with a stranger: lower by over 0.4", {"own partner": 1, "stranger": -1}, above=0.4
            ),
        ),
        strangers,
        seeds=30,
        untested="whether strangers meet as often as chance has it, and remedies: other-play, and partners drawn "
        "from a population.",
    ),
    Hypothesis(
        "H7",
        "The updates that a team needs grow with its size under aligned joint samples, and not beside common "
        "partners.",
        "The noise of team-mates grows with their number (H1), and with it the steps until an agent's own "
        "share shows.",
        "probe-noisy-partners-v0 of 2, 4 and 8 agents, tabular policies, MAGRPO, G = 8; updates until the "
        "expected reward is 90 % of the optimum, at most 400; slope between logarithms. Both sample as many "
        "completions.",
        (
            Clause("aligned: above 0.3", {"aligned": 1}, above=0.3),
            Clause("one common partner: below 0.15", {"common": 1}, below=0.15),
        ),
        sizes,
        untested="single agents and 16; partners that are all crossed.",
    ),
    Hypothesis(
        "H7b",
        "How often a batch can be used again shrinks with the team.",
        "The weight of a joint sample is the product of its agents' ratios: its variance grows with their number.",
        "probe-halves-v0 of 1, 2 and 4 agents, tabular policies, MAGRPO, G = 16, 10 updates of 8 steps; slope "
        "of the logarithm of the joint effective sample size against the number of agents.",
        (Clause("the slope is below 0", {"slope": 1}, below=0),),
        reuse,
        untested="what is earned in the end, and other numbers of steps.",
    ),
    Hypothesis(
        "H12",
        "Two agents beat one that may write as much only where what is seen is divided, or what one may write.",
        "With one of two letters unseen, one agent guesses it: 2/3. With room for one letter it earns 1/2. Else "
        "nothing keeps it from what two can do.",
        f"A game of one turn: two letters of three, half a point for each. Tabular policies, MAGRPO, {WRITING} "
        "updates of 9 starts, G = 8; equal numbers of joint samples. Mean return of two agents with a letter "
        "each, and of one with both, or with one alone.",
        (
            Clause(
                "each sees a letter: two are better by over 0.2",
                {"split, two": 1, "split, one": -1},
                above=0.2,
            ),
            Clause(
                "all is seen, one may write one letter: two are better by over 0.3",
                {"whole, two": 1, "whole, one of a letter": -1},
                above=0.3,
            ),
            Clause(
                "all is seen, and one may write both: two are no better",
                {"whole, two": 1, "whole, one": -1},
                below=0.05,
            ),
        ),
        writers,
        untested="language models and programs. Joint samples are equally many, so that one agent, which answers "
        "with both letters or one, writes half as many answers as two.",
    ),
)
