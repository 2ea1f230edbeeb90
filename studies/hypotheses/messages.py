"""Messages: what a channel is worth, and what is said where saying costs."""

from __future__ import annotations

from typing import Any

from llm_decpomdp.algorithms.learning.learner_options import LearnerOptions
from llm_decpomdp.algorithms.rollouts.play import play_episodes
from llm_decpomdp.algorithms.rollouts.rollout_options import RolloutOptions
from llm_decpomdp.env import DecPOMDPEnv
from llm_decpomdp.envs.probes.parts import Points, ProbeTask, Words, probe_env, probe_task
from llm_decpomdp.wrappers.channel import ChannelEnv, add_channel
from studies.hypotheses.hypothesis import Clause, Hypothesis, Measures
from studies.hypotheses.training import every_start, make_team, train, value

SECRETS = "abcd"
"""What the first agent sees and the second has to say."""

CHANNELS: dict[str, dict[str, Any]] = {
    "no bit": {"bandwidth": 0},
    "1 bit": {"alphabet": "a"},
    "2 bits": {"alphabet": "abc"},
    "2 bits, scrambled": {"alphabet": "abc", "scramble": True},
    "2 bits, dear": {"alphabet": "abc", "price": 1.0},
}
"""Channels of one letter an episode; silence is a letter more, which costs nothing."""

UPDATES, GROUP = 60, 4


def announcement_tasks() -> list[ProbeTask]:
    """Return a task for each secret, which the first agent sees and the second has to say."""
    return [
        probe_task(f"told/{secret}", place, [secret, ""], ["", secret])
        for place, secret in enumerate(SECRETS)
    ]


def announcement_env() -> DecPOMDPEnv:
    """Return a game of one turn: the second agent earns a point with the secret that the first one sees."""
    points = Points(_second_says_it, 0.0)
    return probe_env("told", announcement_tasks(), points)


def _second_says_it(task: ProbeTask, words: Words) -> float:
    return float(words[1][:1] == task.letters[1])


def channels(seed: int) -> Measures:
    """Measure the returns of teams with each channel, and how often the first agent says something."""
    measures = {}
    for name, options in CHANNELS.items():
        env: ChannelEnv = add_channel(announcement_env(), {"bandwidth": 1, **options})
        env.seed_noise(seed)
        team = make_team(env, SECRETS, seed, spread=1.0)
        train(
            env,
            team,
            seed=seed,
            updates=UPDATES,
            group_size=GROUP,
            rollouts=RolloutOptions(mode="tree"),
            options=LearnerOptions(learning_rate=0.3),
        )
        measures[name] = value(env, team)
        episodes = play_episodes(env, team, every_start(env) * 16)
        texts = [episode.groups[0].completions["player_0"][0].text for episode in episodes]
        measures[f"said, {name}"] = sum(env.options.clean_message(t) != "" for t in texts) / len(
            texts
        )
    return measures


HYPOTHESES = (
    Hypothesis(
        "H5",
        "A channel is worth at most what its bits can tell, nothing where its messages are noise, and is used the "
        "less the more it costs.",
        "Of four equally likely secrets, m signs tell m apart: at best 1/4, 2/4 and 4/4 with 0, 1 and 2 bits.",
        "A game of one turn: the second agent must say the secret of the first, through a channel of one sign. "
        "Tabular policies with logits that differ at first, MAGRPO over trees, G = 4, 60 updates of 4 starts; "
        "mean return. Scrambled messages arrive as noise; a dear one costs 1 point.",
        (
            Clause("1 bit: worth over 0.1", {"1 bit": 1, "no bit": -1}, above=0.1),
            Clause("1 bit: worth no more than it tells", {"1 bit": 1, "no bit": -1}, below=0.3),
            Clause("2 bits: worth over 0.3", {"2 bits": 1, "no bit": -1}, above=0.3),
            Clause("2 bits: worth less than 0.75", {"2 bits": 1, "no bit": -1}, below=0.75),
            Clause(
                "scrambled: no more than without",
                {"2 bits, scrambled": 1, "no bit": -1},
                below=0.05,
            ),
            Clause(
                "scrambled: no less than without",
                {"2 bits, scrambled": 1, "no bit": -1},
                above=-0.05,
            ),
            Clause(
                "less is said where it costs a point",
                {"said, 2 bits": 1, "said, 2 bits, dear": -1},
                above=0.3,
            ),
        ),
        channels,
        untested="channels of more than 2 bits, conversations, games of several turns, and what a trained team "
        "can be told by a stranger.",
    ),
)
