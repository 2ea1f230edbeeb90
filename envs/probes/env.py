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

Five more tell apart learners that have none of these mistakes: those of `credit.py` by what team-mates do to an
agent's reward, those of `horizon.py` by what pays only on a later turn. `known.py` has the value of all.

Every game takes an `offset`, a constant that each turn earns besides. It ranks no policy above another, but a
learner without a baseline credits it to all answers alike, and is slow.
"""

from __future__ import annotations

from functools import partial
from itertools import product

from llm_decpomdp.env import DecPOMDPEnv
from llm_decpomdp.envs.probes.parts import (
    LETTERS,
    Cues,
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
    return probe_env("rendezvous", tasks, Points(_same, offset), Cues(), 1, discount, render_mode)


def _same(task: ProbeTask, words: Words) -> float:
    return float(words[0][:1] == words[1][:1] != "")


def halves(
    *,
    num_agents: int = 2,
    offset: float = 0.0,
    discount: float = 1.0,
    render_mode: str | None = None,
) -> DecPOMDPEnv:
    """Spell a word, a letter each: every agent that says its own one *and ends* earns its share of a point.

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
    return probe_env("halves", tasks, Points(_share, offset), Cues(), 1, discount, render_mode)


def _share(task: ProbeTask, words: Words) -> float:
    return _said(task, words) / len(words)


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
        "turns", tasks, points, Cues(), 2, discount, render_mode, stop_when_solved=False
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
    return probe_env("lazy", tasks, Points(_work, offset), Cues(), 1, discount, render_mode)


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
    points = Points(partial(last_answer, SECRETS), offset)
    return probe_env("delayed", tasks, points, Cues(password=ASK), 2, discount, render_mode)


def _said(task: ProbeTask, words: Words) -> int:
    """Count the agents whose answer is their letter, and nothing more."""
    return sum(word == letter for word, letter in zip(words, task.letters, strict=True))
