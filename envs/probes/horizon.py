"""Probes of the horizon: what an answer is worth, but only turns later and through a team-mate.

| id                          | the team must                                                | tells apart        |
|-----------------------------|--------------------------------------------------------------|--------------------|
| `probe-relay-v0`            | hand a secret on from turn to turn, paid at the end          | returns over turns |
| `probe-speaker-listener-v0` | name a goal to one who alone knows how it is to be written   | a convention       |
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

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
from llm_decpomdp.interfaces import Info, Turn

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
    mode = Relay(secrets)
    return probe_env(
        "relay", tasks, points, mode, length, discount, render_mode, stop_when_solved=False
    )


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
    return probe_env(
        "speaker-listener", tasks, points, mode, 2, discount, render_mode, stop_when_solved=False
    )
