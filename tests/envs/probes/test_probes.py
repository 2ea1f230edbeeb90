"""The probes are proper environments, and have the values that they claim."""

from __future__ import annotations

from functools import partial
from itertools import product

import pytest
from pettingzoo.test import parallel_api_test, parallel_seed_test

from llm_decpomdp import check_env, make
from llm_decpomdp.envs.probes.env import LETTERS, MAX_TOKENS, PROBES

ALONE = [probe for probe, known in PROBES.items() if known.smallest_team == 1]
GAMES = [(probe, {}) for probe in PROBES] + [(probe, {"num_agents": 1}) for probe in ALONE]

COPY = {"": "", "a": "a", "b": "b", "c": "c", "abc": ""}
NEXT = {"a": "b", "b": "c", "c": "a"}
BEST = {
    "probe-rendezvous-v0": [{"abc": "a"}, {"abc": "a"}],
    "probe-halves-v0": [NEXT, NEXT],
    "probe-turns-v0": [COPY, COPY],
    "probe-lazy-v0": [COPY, {"aa": "b", "bb": "c", "cc": "a"}],
    "probe-delayed-v0": [{"c": "c"}, {"a": "a", "b": "b", "c": ""}],
}
"""What each agent says to each prompt in a team that earns the optimum."""

ALONE_BEST = {
    "probe-halves-v0": [NEXT],
    "probe-delayed-v0": [{"a": "a", "b": "b", "c": "c"}],
}


def random_texts() -> dict[str, float]:
    """Every text of at most two tokens and its chance, if letters and the end are equally likely."""
    chance = 1 / (1 + len(LETTERS))
    found = {"": chance}
    for letter in LETTERS:
        found[letter] = chance**2
        for second in LETTERS:
            found[letter + second] = chance**2
    return found


def starts(env):
    """The environment at the start of each of its tasks."""
    for task in env.tasks.tasks:
        env.reset(options={"task_id": task.task_id})
        yield env.fork()


def played(env, words):
    """A branch in which the agents say `words`, and its reward."""
    twin = env.fork()
    rewards = twin.step(dict(zip(env.possible_agents, words, strict=True)))[1]
    return twin, next(iter(rewards.values()))


def average(env, known):
    """The expected sum of rewards from here on, for a team that speaks at random."""
    if not env.agents:
        return 0.0
    key = (env.task.task_id, len(env.episode.turns), tuple(env.episode.prompts.values()))
    if key not in known:
        total = 0.0
        for words in product(random_texts().items(), repeat=len(env.possible_agents)):
            twin, reward = played(env, [text for text, _ in words])
            chance = 1.0
            for _, p in words:
                chance *= p
            total += chance * (reward + average(twin, known))
        known[key] = total
    return known[key]


def most(env):
    """The largest sum of rewards that any course of words earns from here on."""
    if not env.agents:
        return 0.0
    texts = ["", "a", "b", "c", "ab"]
    branches = (played(env, words) for words in product(texts, repeat=len(env.possible_agents)))
    return max(reward + most(twin) for twin, reward in branches)


def mean(values):
    found = list(values)
    return sum(found) / len(found)


@pytest.mark.parametrize(("probe", "kwargs"), GAMES)
def test_a_probe_passes_our_strict_check_and_pettingzoos(probe, kwargs):
    check_env(partial(make, probe, **kwargs), completions=["a", "b", "c", "ca"])
    parallel_api_test(make(probe, **kwargs), num_cycles=4)
    parallel_seed_test(partial(make, probe, **kwargs), num_cycles=4)


@pytest.mark.parametrize(("probe", "kwargs"), GAMES)
def test_the_value_of_chance_is_the_one_claimed(probe, kwargs):
    env = make(probe, **kwargs)
    assert MAX_TOKENS == 2 and sum(random_texts().values()) == pytest.approx(1.0)
    found = mean(average(start, {}) for start in starts(env))
    assert found == pytest.approx(PROBES[probe].random_value)


@pytest.mark.parametrize(("probe", "kwargs"), GAMES)
def test_a_team_earns_the_optimum_and_none_can_earn_more(probe, kwargs):
    env = make(probe, **kwargs)
    team = (ALONE_BEST if kwargs else BEST)[probe]
    values = []
    for start in starts(env):
        assert most(start) == pytest.approx(PROBES[probe].optimum)
        total = 0.0
        while start.agents:
            prompts = start.episode.prompts.values()
            words = [says[prompt] for says, prompt in zip(team, prompts, strict=True)]
            start, reward = played(start, words)
            total += reward
        values.append(total)
    assert mean(values) == pytest.approx(PROBES[probe].optimum)


def test_on_the_first_turn_of_the_delayed_probe_no_word_is_worth_more_than_another():
    for text in random_texts():
        rewards = [played(start, ["c", text])[1] for start in starts(make("probe-delayed-v0"))]
        assert sum(rewards) == 0


def test_only_asking_shows_the_secret_and_only_to_the_last_agent():
    env = make("probe-delayed-v0")
    env.reset(options={"task_id": "delayed/b"})
    asked, _ = played(env, ["c", "c"])
    silent, _ = played(env, ["a", "c"])
    assert asked.episode.prompts == {"player_0": "c", "player_1": "b"}
    assert silent.episode.prompts == {"player_0": "c", "player_1": "c"}


@pytest.mark.parametrize("probe", PROBES)
def test_an_offset_is_earned_on_every_turn_beside_the_points(probe):
    plain, shifted = make(probe), make(probe, offset=2.5)
    for words in product(["", "a", "c"], repeat=2):
        pairs = [
            (played(one, words)[1], played(other, words)[1])
            for one, other in zip(starts(plain), starts(shifted), strict=True)
        ]
        assert all(other == pytest.approx(one + 2.5) for one, other in pairs)


def test_full_marks_end_an_episode_with_an_offset_too_and_never_the_turn_taking():
    solved, _ = played(next(starts(make("probe-halves-v0", offset=3.0))), ["b", "c"])
    assert not solved.agents
    going, reward = played(next(starts(make("probe-turns-v0"))), ["a", ""])
    assert reward == 1.0 and going.agents


@pytest.mark.parametrize("probe", ALONE)
def test_a_team_of_nobody_is_refused(probe):
    with pytest.raises(ValueError, match="num_agents must be at least 1, got 0"):
        make(probe, num_agents=0)
