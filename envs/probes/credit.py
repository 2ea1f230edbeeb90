"""Probes of credit: what team-mates do to the reward that an agent learns from.

| id                        | the team must                                         | tells apart              |
|---------------------------|-------------------------------------------------------|--------------------------|
| `probe-noisy-partners-v0` | each write its best letter; the team earns their mean | noise that grows with it |
| `probe-climbing-v0`       | dare together what one alone is punished for          | mean, optimistic credit  |
| `probe-mixed-pairs-v0`    | leave the decision to the second agent                | a partner's luck         |
"""

from __future__ import annotations

from collections.abc import Mapping

from llm_decpomdp.env import DecPOMDPEnv
from llm_decpomdp.envs.probes.parts import (
    LETTERS,
    Cues,
    Points,
    ProbeTask,
    Words,
    probe_env,
    probe_task,
    require_agents,
)

GRADES = "abcdefgh"
"""Letters of the noisy partners, whose worths rise evenly from 0 to 1."""

PAYOFFS: Mapping[str, tuple[float, float]] = {
    "aa": (10, 12),
    "ab": (5, -65),
    "ac": (8, -8),
    "ba": (5, -65),
    "bb": (14, 0),
    "bc": (12, 0),
    "ca": (5, -5),
    "cb": (5, -5),
    "cc": (7, 3),
}
"""Two equally likely payoffs of each pair of letters: the stochastic climbing game (Kapetanakis and Kudenko,
AAAI 2002). Their means are the climbing game (Claus and Boutilier, AAAI 1998)."""

WORST = -30.0
"""Payoff of the climbing game where an answer begins with none of its letters: as bad as its worst pair."""

COINS = 16
"""Tasks of the noisy climbing game, over which each payoff of every pair is drawn equally often."""


def noisy_partners(
    *,
    num_agents: int = 4,
    offset: float = 0.0,
    discount: float = 1.0,
    render_mode: str | None = None,
) -> DecPOMDPEnv:
    """Write the best letter, each alone: the team earns the mean worth of 2 to 16 agents' first letters.

    Nobody needs anybody, so all that a team-mate adds to an agent's reward is noise: under aligned joint samples
    it grows with the team, and an agent's own share shrinks. Credit that compares an agent's answers beside the
    same partners has none of it.
    """
    require_agents(num_agents, 2, 16)
    tasks = [
        probe_task(
            f"noisy-partners/{cue}",
            index,
            [cue] * num_agents,
            [_best(index, place) for place in range(num_agents)],
        )
        for index, cue in enumerate("ab")
    ]
    points = Points(_worths, offset)
    return probe_env("noisy-partners", tasks, points, Cues(), 1, discount, render_mode)


def _best(index: int, place: int) -> str:
    return GRADES[(3 * index + place) % len(GRADES)]


def _worths(task: ProbeTask, words: Words) -> float:
    worths = [_worth(word, best) for word, best in zip(words, task.letters, strict=True)]
    return sum(worths) / len(worths)


def _worth(word: str, best: str) -> float:
    """Grade a word: the best letter is worth 1, the ones before it in the alphabet's circle less and less."""
    rank = GRADES.find(word[:1]) if word else -1
    if rank < 0:
        return 0.0
    top = len(GRADES) - 1
    return (top - (GRADES.index(best) - rank) % len(GRADES)) / top


def climbing(
    *,
    noise: bool = False,
    offset: float = 0.0,
    discount: float = 1.0,
    render_mode: str | None = None,
) -> DecPOMDPEnv:
    """Dare together: `a` with `a` earns 11, but -30 beside `b`, while `c` earns 0 to 6 beside anyone.

    An agent that averages over what its partner still tries finds `a` the worst letter and settles for 5 or 7.
    Credit that takes an answer for as good as its best partner made it finds 11. With `noise` a hidden coin of the
    task decides between two payoffs with the same mean, and such optimism takes luck for skill.
    """
    names = [f"climbing/{coin}" for coin in range(COINS)] if noise else ["climbing"]
    tasks = [
        probe_task(name, index, [LETTERS, LETTERS], ["a", "a"]) for index, name in enumerate(names)
    ]
    points = (
        Points(_drawn_payoff, offset, full=14.0, solves=_dare)
        if noise
        else Points(_mean_payoff, offset, full=11.0)
    )
    return probe_env("climbing", tasks, points, Cues(), 1, discount, render_mode)


def _mean_payoff(task: ProbeTask, words: Words) -> float:
    payoffs = PAYOFFS.get(words[0][:1] + words[1][:1])
    return sum(payoffs) / 2 if payoffs else WORST


def _drawn_payoff(task: ProbeTask, words: Words) -> float:
    pair = words[0][:1] + words[1][:1]
    if pair not in PAYOFFS:
        return WORST
    # Rows of a Hadamard matrix: each pair has either payoff in half of the tasks, and any two pairs independently.
    position = 1 + list(PAYOFFS).index(pair)
    return PAYOFFS[pair][(position & task.index).bit_count() % 2]


def _dare(task: ProbeTask, words: Words) -> bool:
    return all(word[:1] == letter for word, letter in zip(words, task.letters, strict=True))


def mixed_pairs(
    *, offset: float = 0.0, discount: float = 1.0, render_mode: str | None = None
) -> DecPOMDPEnv:
    """Leave it to the other: `player_1` earns a point with its letter, and `player_0` changes nothing.

    Learners that reward both answers of the better joint sample move `player_0` at random, from the luck of its
    partner. Comparisons in which one agent alone differs leave it at rest.
    """
    tasks = [
        probe_task(f"mixed-pairs/{letter}", index, [LETTERS, letter], [letter, letter])
        for index, letter in enumerate(LETTERS)
    ]
    return probe_env(
        "mixed-pairs", tasks, Points(_second, offset), Cues(), 1, discount, render_mode
    )


def _second(task: ProbeTask, words: Words) -> float:
    return float(words[1][:1] == task.letters[1])
