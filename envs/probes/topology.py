"""Probes of the horizon and of team topologies, each a game of several turns.

Probes of the horizon: an answer pays only turns later, and through a team-mate.

| id                          | the team must                                                | tells apart        |
|-----------------------------|--------------------------------------------------------------|--------------------|
| `probe-relay-v0`            | hand a secret on from turn to turn, paid at the end          | returns over turns |
| `probe-speaker-listener-v0` | name a goal to one who alone knows how it is to be written   | a convention       |

Probes of team topologies: turn order, agents that leave early or join late, own points of an agent, and memory.

| id                      | the team must                                              | needs                 |
|-------------------------|------------------------------------------------------------|-----------------------|
| `probe-relay-turns-v0`  | tell a secret to an agent that acts second                 | turn order            |
| `probe-early-exit-v0`   | leave a secret to an agent that goes on alone              | rewards after leaving |
| `probe-late-entry-v0`   | tell a secret to an agent that joins on the second turn    | agents that join      |
| `probe-verifier-v0`     | judge four answers of another agent without a mistake     | own points            |
| `probe-memory-v0`       | repeat on the third turn what was shown on the first       | `model.history: chat` |

Except in the verifier's game, the right letter earns 1, and a wrong one so much less than nothing that a guess is
worth nothing on average.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product

from llm_decpomdp.env import DecPOMDPEnv
from llm_decpomdp.envs.probes.parts import (
    LETTERS,
    Points,
    ProbeRole,
    ProbeTask,
    last_answer,
    probe_env,
    probe_task,
)
from llm_decpomdp.envs.worlds.game import Completions, Game, Prompts, TurnGameMode, Turns
from llm_decpomdp.interfaces import Component, Info, Turn, Verdict

# The horizon


SECRETS = "abcd"
"""Letters of the relay."""

LONGEST = 6
"""Turns of the longest relay."""


@dataclass(frozen=True)
class Relay:
    """A mode: on each turn the next player is handed the baton, a letter, by the one before."""

    letters: str
    """What can be handed on: the first letter of an answer, if it is one of these. All of them are the prompt of
    those who hold nothing, and of all once the baton is lost."""
    info_keys: Sequence[str] = ("handed_on",)

    def first(self, task: ProbeTask) -> dict[str, str]:
        """Return the first cues."""
        return {ProbeRole(place).agent: cue for place, cue in enumerate(task.cues)}

    def __call__(self, task: ProbeTask, turn: Turn) -> tuple[dict[str, str], Info]:
        """Return the next prompt of each agent, and whether the baton was handed on."""
        agents = list(turn.prompts)
        prompts = dict.fromkeys(agents, self.letters)
        holders = [agent for agent in agents if turn.prompts[agent] != self.letters]
        # The prompt that differs from the list of letters shows who holds the baton: no other state is needed.
        letter = turn.completions[holders[0]][:1] if holders else ""
        handed_on = bool(letter) and letter in self.letters
        if handed_on:
            place = agents.index(holders[0]) + 1
            prompts[agents[place]] = letter + task.later_cues[place]
        return prompts, {"handed_on": float(handed_on)}

    def secrets(self, task: ProbeTask) -> Sequence[str]:
        """Return none."""
        return ()


def relay(
    *,
    length: int = 4,
    num_secrets: int = 4,
    offset: float = 0.0,
    discount: float = 1.0,
    render_mode: str | None = None,
) -> DecPOMDPEnv:
    """Hand on a secret letter: `length` agents over as many turns, of whom the last must say it.

    On each turn one agent is shown what the one before wrote, and nothing else; `player_0` alone sees the secret.
    A guess is worth nothing on average. All that an agent writes but for the last pays later, and through
    others, so a learner that credits each turn with its own reward never learns to hand on. With more than two
    secrets any learner may settle for less: where two of them share a word, no agent alone gains by using another
    (partial pooling; Pawlowitsch 2008, Games and Economic Behavior 63). Two secrets leave that out.

    Args:
        length: Number of turns and agents, 1 to 6.
        num_secrets: Number of letters that can be the secret, 2 to 4.
        offset: Reward of each turn besides.
        discount: Discount of later turns' rewards.
        render_mode: As of `DecPOMDPEnv`.

    Raises:
        ValueError: If `length` or `num_secrets` is out of range.
    """
    if not 1 <= length <= LONGEST:
        raise ValueError(f"length must be from 1 to {LONGEST}, got {length}")
    if not 2 <= num_secrets <= len(SECRETS):
        raise ValueError(f"num_secrets must be from 2 to {len(SECRETS)}, got {num_secrets}")
    secrets = SECRETS[:num_secrets]
    tasks = [
        probe_task(
            f"relay/{secret}",
            index,
            [secret, *[secrets] * (length - 1)],
            [secret] * length,
            [""] * length,
        )
        for index, secret in enumerate(secrets)
    ]
    points = Points(partial(last_answer, secrets), offset)
    return probe_env("relay", tasks, points, discount, render_mode, Relay(secrets), length, False)


def speaker_listener(
    *, offset: float = 0.0, discount: float = 1.0, render_mode: str | None = None
) -> DecPOMDPEnv:
    """Speak, then act: `player_0` sees a goal, and `player_1` is then shown its word and a key of its own.

    The right answer is the goal's letter, moved on in the alphabet by the key (`a` by 0, `b` by 1, `c` by 2), so
    neither can score alone; a guess is worth nothing on average. After the cooperative communication task of Lowe
    et al. (arXiv 1706.02275), with the least that makes it one.
    """
    tasks = [
        probe_task(
            f"speaker-listener/{goal}{key}",
            3 * index + shift,
            [goal, LETTERS],
            [goal, LETTERS[(index + shift) % 3]],
            ["", key],
        )
        for index, goal in enumerate(LETTERS)
        for shift, key in enumerate(LETTERS)
    ]
    points = Points(partial(last_answer, LETTERS), offset)
    mode = Relay(LETTERS)
    return probe_env("speaker-listener", tasks, points, discount, render_mode, mode, 2, False)


# Topologies


ROUNDS = 4
"""Answers that the verifier judges in an episode."""

UNKNOWN = "ab"
"""Prompt of the agent whose answers are judged: either letter may be right, and it is not told which."""

FIRST, SECOND = "player_0", "player_1"


class ProbeGame(Game):
    """The rules of a probe for two agents."""

    agents = (FIRST, SECOND)
    turn_based = True
    readers: Mapping[str, Sequence[str]] = {FIRST: [SECOND]}
    components: Mapping[str, Component] = {"points": Component("What the rules of the game give.")}
    info_keys = ()


def _said(turns: Turns, agent: str, number: int = -1) -> str:
    return turns[number].completions[agent][:1]


def _known(letter: str) -> str:
    """Return a letter of the game as it is, and all of them in place of anything else."""
    return letter if letter and letter in LETTERS else LETTERS


def _guess(task: ProbeTask, answer: str, turns: Turns, length: int) -> Verdict:
    """Return the verdict of a game that only the last answer of its last turn decides."""
    last = len(turns) == length - 1
    points = last_answer(LETTERS, task, [answer]) if last else 0.0
    return Verdict({"points": points}, last and points == 1.0)


def _letter_tasks(name: str, num_agents: int) -> list[ProbeTask]:
    """Return a task for each letter, which the first agent is shown."""
    return [
        probe_task(f"{name}/{a}", i, [a, LETTERS][:num_agents], [a] * num_agents)
        for i, a in enumerate(LETTERS)
    ]


def _probe(
    name: str,
    game: ProbeGame,
    tasks: Sequence[ProbeTask],
    num_turns: int,
    discount: float,
    render_mode: str | None,
) -> DecPOMDPEnv:
    return probe_env(name, tasks, game, discount, render_mode, TurnGameMode(game), num_turns, False)


class RelayTurns(ProbeGame):
    """The first agent tells a goal, and the second acts on it."""

    def prompts(self, task: ProbeTask, turns: Turns) -> Prompts:
        """Return the goal, then the first agent's letter."""
        return {SECOND: _known(_said(turns, FIRST))} if turns else {FIRST: task.cues[0]}

    def judge(self, task: ProbeTask, completions: Completions, turns: Turns) -> Verdict:
        """Judge the second agent's answer."""
        return _guess(task, completions.get(SECOND, ""), turns, 2)


def relay_turns(*, discount: float = 1.0, render_mode: str | None = None) -> DecPOMDPEnv:
    """Tell, then act: `player_0` alone sees a goal; `player_1` acts second, and must say the goal.

    `player_1` sees what `player_0` wrote. Each agent is asked once. If both acted at once, `player_1` could
    only guess.
    """
    tasks = _letter_tasks("relay-turns", 2)
    return _probe("relay-turns", RelayTurns(), tasks, 2, discount, render_mode)


class EarlyExit(ProbeGame):
    """The first agent leaves after its first answer, which the second sees two turns later."""

    def members(self, task: ProbeTask, turns: Turns) -> Sequence[str]:
        """Return the agents in the episode."""
        return [SECOND] if turns else [FIRST, SECOND]

    def prompts(self, task: ProbeTask, turns: Turns) -> Prompts:
        """Return the goal at first, and the letter that was left at last."""
        if not turns:
            return {FIRST: task.cues[0], SECOND: LETTERS}
        return {SECOND: LETTERS if len(turns) == 1 else _known(_said(turns, FIRST, 0))}

    def judge(self, task: ProbeTask, completions: Completions, turns: Turns) -> Verdict:
        """Judge the second agent's last answer."""
        return _guess(task, completions[SECOND], turns, 3)


def early_exit(*, discount: float = 1.0, render_mode: str | None = None) -> DecPOMDPEnv:
    """Leave a word: `player_0` sees a goal, answers once and leaves; `player_1` is asked on all three turns.

    On the last turn `player_1` sees the letter that `player_0` left, and must say the goal. All that `player_0`
    does pays two turns after it left.
    """
    tasks = _letter_tasks("early-exit", 2)
    return _probe("early-exit", EarlyExit(), tasks, 3, discount, render_mode)


class LateEntry(ProbeGame):
    """The second agent joins on the second turn."""

    def members(self, task: ProbeTask, turns: Turns) -> Sequence[str]:
        """Return the agents in the episode."""
        return [FIRST, SECOND] if turns else [FIRST]

    def prompts(self, task: ProbeTask, turns: Turns) -> Prompts:
        """Return the goal, and with it on the second turn the first agent's letter."""
        goal = {FIRST: task.cues[0]}
        return {**goal, SECOND: _known(_said(turns, FIRST))} if turns else goal

    def judge(self, task: ProbeTask, completions: Completions, turns: Turns) -> Verdict:
        """Judge the second agent's answer."""
        return _guess(task, completions.get(SECOND, ""), turns, 2)


def late_entry(*, discount: float = 1.0, render_mode: str | None = None) -> DecPOMDPEnv:
    """Brief a newcomer: `player_0` sees a goal; `player_1` joins on the second turn.

    `player_1` sees what `player_0` wrote on the first turn, and must say the goal. Both act on the second turn, on
    which nothing depends on `player_0`.
    """
    tasks = _letter_tasks("late-entry", 2)
    return _probe("late-entry", LateEntry(), tasks, 2, discount, render_mode)


class Verifier(ProbeGame):
    """The second agent judges four answers of the first."""

    own_components = ("judgement",)

    def prompts(self, task: ProbeTask, turns: Turns) -> Prompts:
        """Return a prompt that does not tell the right letter, then the answer with the right letter."""
        judged, answered = divmod(len(turns), 2)
        if not answered:
            return {FIRST: UNKNOWN}
        return {SECOND: _known(_said(turns, FIRST)) + task.letters[judged]}

    def judge(self, task: ProbeTask, completions: Completions, turns: Turns) -> Verdict:
        """Give the verifier its own points, and the team 1 after the last of only correct judgements."""
        if SECOND not in completions:
            return Verdict({"points": 0.0}, False)
        equal = _said(turns, FIRST) == task.letters[len(turns) // 2]
        right = completions[SECOND][:1] == ("a" if equal else "b")
        earlier = [turn.verdict.own[SECOND]["judgement"] > 0 for turn in turns if turn.verdict.own]
        solved = right and all(earlier) and len(turns) == 2 * ROUNDS - 1
        own = {SECOND: {"judgement": float(right) / ROUNDS}}
        return Verdict({"points": float(solved)}, solved, own=own)


def verifier(*, discount: float = 1.0, render_mode: str | None = None) -> DecPOMDPEnv:
    """Judge: `player_0` answers four times without knowing the right letter, and `player_1` judges each answer.

    The verifier `player_1` sees the answer and the right letter, and must say `a` if they are equal, and else `b`.
    The team earns 1 at the end if no judgement was wrong. A judgement is worth little until the others are nearly
    always right, so the team's reward alone teaches slowly. The verifier's own points, 1/4 for each correct
    judgement, are the component `judgement`; with `algorithm.own_weight: 1` each judgement is learned by itself.
    """
    tasks = [
        probe_task(f"verifier/{''.join(letters)}", index, [UNKNOWN, LETTERS], list(letters))
        for index, letters in enumerate(product(UNKNOWN, repeat=ROUNDS))
    ]
    return _probe("verifier", Verifier(), tasks, 2 * ROUNDS, discount, render_mode)


class Memory(ProbeGame):
    """One agent repeats on the third turn what it saw on the first."""

    readers: Mapping[str, Sequence[str]] = {}

    def members(self, task: ProbeTask, turns: Turns) -> Sequence[str]:
        """Return the one agent."""
        return [FIRST]

    def prompts(self, task: ProbeTask, turns: Turns) -> Prompts:
        """Return the letter, and later the same prompt for all letters."""
        return {FIRST: LETTERS if turns else task.cues[0]}

    def judge(self, task: ProbeTask, completions: Completions, turns: Turns) -> Verdict:
        """Judge the third answer."""
        return _guess(task, completions[FIRST], turns, 3)


def memory(*, discount: float = 1.0, render_mode: str | None = None) -> DecPOMDPEnv:
    """Remember: `player_0` sees a letter on the first turn, and must say it on the third.

    The prompts of the second and third turn are the same for all letters. So an agent that sees its newest prompt
    alone can only guess, and one with the history of its dialogue (`model.history: chat`) reaches the optimum.
    """
    return _probe("memory", Memory(), _letter_tasks("memory", 1), 3, discount, render_mode)
