"""Probes: games of single letters that a learner of teams either learns, or has a known mistake.

Prompts and answers are spelled with the letters a, b and c, so that a model of single characters learns a game
in seconds. Agents are `player_0`, `player_1` and so on.

| id                    | the team must                                               | failing means       |
|-----------------------|-------------------------------------------------------------|---------------------|
| `probe-rendezvous-v0` | say the same letter, whichever                              | sign, credit        |
| `probe-halves-v0`     | spell a word, a letter each, and nothing more               | masks, mixed rows   |
| `probe-turns-v0`      | take turns: who holds a letter says it, the other is silent | turns               |
| `probe-lazy-v0`       | work both, though a beginner's help costs more than silence | a lazy second agent |
| `probe-delayed-v0`    | ask on the first turn, to be paid on the second             | returns             |

Three more tell apart learners that have none of these mistakes, by what teammates do to an agent's reward (below),
and two by what pays only on a later turn (`topology.py`). `known.py` has the value of all.

Every game takes an `offset`, a constant that each turn earns besides. It ranks no policy above another, but a
learner without a baseline credits it to all answers alike, and is slow.

| id                        | the team must                                         | tells apart              |
|---------------------------|-------------------------------------------------------|--------------------------|
| `probe-noisy-partners-v0` | each write its best letter; the team earns their mean | noise that grows with it |
| `probe-climbing-v0`       | dare together what one alone is punished for          | mean, optimistic credit  |
| `probe-mixed-pairs-v0`    | leave the decision to the second agent                | a partner's luck         |
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from itertools import product

from llm_decpomdp.env import DecPOMDPEnv
from llm_decpomdp.envs.probes.parts import (
    LETTERS,
    CueObservations,
    Points,
    ProbeTask,
    Words,
    last_answer,
    probe_env,
    probe_task,
    require_agents,
)

ASK = "c"
"""Letter that requests the secret of the delayed probe, and is no secret itself."""

SECRETS = "ab"
"""Secrets of the delayed probe."""

WAGE = 0.6
"""Points that the first agent of the lazy probe can earn alone; the second can add the rest to 1."""

DAMAGE = 0.3
"""Cost of a wrong word of the second agent."""


def rendezvous(
    *, offset: float = 0.0, discount: float = 1.0, render_mode: str | None = None
) -> DecPOMDPEnv:
    """Say the same letter as the other agent, whichever: one point if both answers begin with the same one.

    Nothing in the prompts breaks the tie, the team must grow a convention. It doesn't if the sign of the
    loss is flipped, or if rewards meet other joint samples than those that earned them.
    """
    tasks = [probe_task("rendezvous/0", 0, [LETTERS, LETTERS], ["a", "a"])]
    return probe_env("rendezvous", tasks, Points(_same, offset), discount, render_mode)


def _same(task: ProbeTask, words: Words) -> float:
    return float(words[0][:1] == words[1][:1] != "")


def halves(
    *,
    num_agents: int = 2,
    offset: float = 0.0,
    discount: float = 1.0,
    render_mode: str | None = None,
) -> DecPOMDPEnv:
    """Spell a word, a letter each: every agent that says its own one and ends earns its share of a point.

    Each agent is shown its part of a key, a letter, and should say the next one in the alphabet (a after c).
    A learner that leaves the end out of the loss is bad at stopping; one that mixes up agents, prompts or
    tasks learns wrong letters.
    """
    require_agents(num_agents, 1)
    tasks = [
        probe_task(
            f"halves/{key}",
            key,
            [LETTERS[(key + place) % 3] for place in range(num_agents)],
            [LETTERS[(key + place + 1) % 3] for place in range(num_agents)],
        )
        for key in range(3)
    ]
    return probe_env("halves", tasks, Points(_share, offset), discount, render_mode)


def _share(task: ProbeTask, words: Words) -> float:
    pairs = zip(words, task.letters, strict=True)
    return sum(word == letter for word, letter in pairs) / len(words)


def turns(
    *, offset: float = 0.0, discount: float = 1.0, render_mode: str | None = None
) -> DecPOMDPEnv:
    """Take turns: on the first `player_0` is shown its letter, on the second `player_1`.

    On each turn the team earns half a point if an answer begins with its agent's letter, and a whole one if the
    other is silent as well. Who sees `abc` instead could guess, and does better to be silent. A learner that
    drops a turn, or credits it with another one's rewards, loses about half of the value.
    """
    tasks = [
        probe_task(
            f"turns/{first}{second}", i, [first, LETTERS], [first, second], [LETTERS, second]
        )
        for i, (first, second) in enumerate(product(LETTERS, LETTERS))
    ]
    points = Points(_one_speaks, offset)
    return probe_env(
        "turns", tasks, points, discount, render_mode, num_turns=2, stop_when_solved=False
    )


def _one_speaks(task: ProbeTask, words: Words) -> float:
    if not any(word[:1] == letter for word, letter in zip(words, task.letters, strict=True)):
        return 0.0
    return 1.0 if "" in words else 0.5


def lazy(
    *, offset: float = 0.0, discount: float = 1.0, render_mode: str | None = None
) -> DecPOMDPEnv:
    """Work both: `player_0` earns most by itself, and `player_1` can ride for free.

    `player_0` earns 0.6 with its letter. `player_1` adds 0.4 with its own one, costs 0.3 with anything else,
    and nothing in silence; the first letter counts. While it knows nothing silence is its better choice: the
    lazy agent of VDN (arXiv 1706.05296). A team that stays at 0.6 has one.
    """
    tasks = [
        probe_task(f"lazy/{key}", i, [key, key * 2], [key, LETTERS[(i + 1) % 3]])
        for i, key in enumerate(LETTERS)
    ]
    return probe_env("lazy", tasks, Points(_work, offset), discount, render_mode)


def _work(task: ProbeTask, words: Words) -> float:
    earned = WAGE if words[0][:1] == task.letters[0] else 0.0
    if not words[1]:
        return earned
    return earned + (1 - WAGE if words[1][:1] == task.letters[1] else -DAMAGE)


def delayed(
    *,
    num_agents: int = 2,
    offset: float = 0.0,
    discount: float = 0.9,
    render_mode: str | None = None,
) -> DecPOMDPEnv:
    """Ask, then answer: only if `player_0` says `c` is the last agent shown the secret, `a` or `b`.

    Answers are read by their first letter. The last agent earns a point with the secret, loses one with
    the other letter, and does nothing with anything else, so that guessing is worth nothing on average.
    All that a first answer is worth comes a turn later. A learner that credits each turn with its own
    reward alone, as those over chains do, cannot learn to ask; over trees, whose returns reach over
    turns, it can.
    """
    require_agents(num_agents, 1)
    tasks = [
        probe_task(
            f"delayed/{secret}",
            index,
            [ASK] * num_agents,
            [*[ASK] * (num_agents - 1), secret],
            [*[ASK] * (num_agents - 1), secret],
        )
        for index, secret in enumerate(SECRETS)
    ]
    # A guess is worth 0 on average, so that only asking first can pay.
    points = Points(partial(last_answer, SECRETS), offset)
    mode = CueObservations(password=ASK)
    return probe_env("delayed", tasks, points, discount, render_mode, mode, num_turns=2)


# Probes of credit: what team-mates do to the reward that an agent learns from


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
    return probe_env("noisy-partners", tasks, points, discount, render_mode)


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
    return probe_env("climbing", tasks, points, discount, render_mode)


def _mean_payoff(task: ProbeTask, words: Words) -> float:
    payoffs = PAYOFFS.get(words[0][:1] + words[1][:1])
    return sum(payoffs) / 2 if payoffs else WORST


def _drawn_payoff(task: ProbeTask, words: Words) -> float:
    pair = words[0][:1] + words[1][:1]
    if pair not in PAYOFFS:
        return WORST
    # Rows of a Hadamard matrix: each pair has either payoff in half of the tasks, and any two pairs
    # independently.
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
    return probe_env("mixed-pairs", tasks, Points(_second, offset), discount, render_mode)


def _second(task: ProbeTask, words: Words) -> float:
    return float(words[1][:1] == task.letters[1])
