"""The probes are proper environments, and have the values that they claim."""

from __future__ import annotations

from functools import partial
from itertools import product

import pytest
from pettingzoo.test import parallel_api_test, parallel_seed_test

from llm_decpomdp import check_env, make
from llm_decpomdp.envs.probes.known import PROBES
from llm_decpomdp.envs.probes.parts import MAX_TOKENS

ALONE = [probe for probe, known in PROBES.items() if known.smallest_team == 1]
SMALL = {"probe-noisy-partners-v0": {"num_agents": 2}, "probe-relay-v0": {"length": 2}}
"""Teams small enough to play all that they can say."""

GAMES = [(probe, SMALL.get(probe, {})) for probe in PROBES]
GAMES += [(probe, {"num_agents": 1}) for probe in ALONE]
LARGE = [
    ("probe-noisy-partners-v0", {"num_agents": 8}),
    ("probe-climbing-v0", {"noise": True}),
    *[("probe-relay-v0", {"length": length}) for length in (1, 4, 6)],
    ("probe-relay-v0", {"length": 3, "num_secrets": 2}),
]

COPY = {"": "", "a": "a", "b": "b", "c": "c", "d": "d", "abc": "", "abcd": ""}
NEXT = {"a": "b", "b": "c", "c": "a"}
SHIFTED = {
    (g, k): "abc"[("abc".index(g) + "abc".index(k)) % 3] for g, k in product("abc", repeat=2)
}
BEST = {
    "probe-rendezvous-v0": [{"abc": "a"}, {"abc": "a"}],
    "probe-halves-v0": [NEXT, NEXT],
    "probe-turns-v0": [COPY, COPY],
    "probe-lazy-v0": [COPY, {"aa": "b", "bb": "c", "cc": "a"}],
    "probe-delayed-v0": [{"c": "c"}, {"a": "a", "b": "b", "c": ""}],
    "probe-noisy-partners-v0": [{"a": "a", "b": "d"}, {"a": "b", "b": "e"}],
    "probe-climbing-v0": [{"abc": "a"}, {"abc": "a"}],
    "probe-mixed-pairs-v0": [{"abc": ""}, COPY],
    "probe-relay-v0": [COPY, COPY],
    "probe-speaker-listener-v0": [
        COPY,
        {"abc": "", **{goal + key: SHIFTED[goal, key] for goal, key in product("abc", repeat=2)}},
    ],
}
"""What each agent says to each prompt in a team that earns the optimum."""

ALONE_BEST = {
    "probe-halves-v0": [NEXT],
    "probe-delayed-v0": [{"a": "a", "b": "b", "c": "c"}],
}


def random_texts(probe: str) -> dict[str, float]:
    """First letters with an end or a second one, and their chances if letters and the end are equally likely."""
    letters = PROBES[probe].letters
    chance = 1 / (1 + len(letters))
    texts = {"": chance}
    for letter in letters:
        texts |= {letter: chance**2, letter + letters[0]: chance * (1 - chance)}
    return texts


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


def average(env, texts, known):
    """The expected sum of rewards from here on, for a team that speaks at random."""
    if not env.agents:
        return 0.0
    key = (env.task.task_id, len(env.episode.turns), tuple(env.episode.prompts.values()))
    if key not in known:
        total = 0.0
        for words in product(texts.items(), repeat=len(env.possible_agents)):
            twin, reward = played(env, [text for text, _ in words])
            chance = 1.0
            for _, p in words:
                chance *= p
            total += chance * (reward + average(twin, texts, known))
        known[key] = total
    return known[key]


GUESSED = ("probe-relay-v0", "probe-speaker-listener-v0")
"""Probes of more than one turn that go on after a right guess; `most` would know what to guess."""


def most(env, letters):
    """The largest sum of rewards that any course of words earns from here on."""
    if not env.agents:
        return 0.0
    texts = ["", "ab", *letters]
    branches = (played(env, words) for words in product(texts, repeat=len(env.possible_agents)))
    return max(reward + most(twin, letters) for twin, reward in branches)


def mean(values):
    found = list(values)
    return sum(found) / len(found)


@pytest.mark.parametrize(("probe", "kwargs"), GAMES + LARGE)
def test_a_probe_passes_our_strict_check_and_pettingzoos(probe, kwargs):
    check_env(partial(make, probe, **kwargs), completions=["a", "b", "c", "ca"])
    parallel_api_test(make(probe, **kwargs), num_cycles=4)
    parallel_seed_test(partial(make, probe, **kwargs), num_cycles=4)


@pytest.mark.parametrize(("probe", "kwargs"), GAMES)
def test_the_value_of_chance_is_the_one_claimed(probe, kwargs):
    env = make(probe, **kwargs)
    texts = random_texts(probe)
    assert MAX_TOKENS == 2 and sum(texts.values()) == pytest.approx(1.0)
    found = mean(average(start, texts, {}) for start in starts(env))
    assert found == pytest.approx(PROBES[probe].random_value)


@pytest.mark.parametrize(("probe", "kwargs"), GAMES)
def test_a_team_earns_the_optimum_and_none_can_earn_more(probe, kwargs):
    env = make(probe, **kwargs)
    team = (ALONE_BEST if kwargs == {"num_agents": 1} else BEST)[probe]
    values = []
    for start in starts(env):
        if probe not in GUESSED:
            assert most(start, PROBES[probe].letters) == pytest.approx(PROBES[probe].optimum)
        total = 0.0
        while start.agents:
            prompts = start.episode.prompts.values()
            words = [says[prompt] for says, prompt in zip(team, prompts, strict=True)]
            start, reward = played(start, words)
            total += reward
        values.append(total)
    assert mean(values) == pytest.approx(PROBES[probe].optimum)


@pytest.mark.parametrize("probe", GUESSED)
def test_before_the_last_turn_a_guess_earns_nothing_on_average_and_on_it_one_at_most(probe):
    env = make(probe, **SMALL.get(probe, {}))
    texts = ["", "ab", *PROBES[probe].letters]
    for words in product(texts, repeat=len(env.possible_agents)):
        branches = [played(start, words) for start in starts(env)]
        assert len({start.episode.prompts[env.possible_agents[-1]] for start in starts(env)}) == 1
        assert sum(reward for _, reward in branches) == pytest.approx(0)
        for twin, _ in branches:
            assert len(twin.agents) == 2 and most(twin, PROBES[probe].letters) <= 1


def test_on_the_first_turn_of_the_delayed_probe_no_word_is_worth_more_than_another():
    for text in random_texts("probe-delayed-v0"):
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
    kwargs = SMALL.get(probe, {})
    plain, shifted = make(probe, **kwargs), make(probe, offset=2.5, **kwargs)
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


@pytest.mark.parametrize("num_agents", [2, 8, 16])
def test_noisy_partners_earn_the_mean_of_worths_that_nobody_else_changes(num_agents):
    env = make("probe-noisy-partners-v0", num_agents=num_agents)
    for start in starts(env):
        best = list(start.task.letters)
        assert played(start, best)[1] == pytest.approx(1.0)
        for place in range(num_agents):
            words = [*best[:place], "", *best[place + 1 :]]
            assert played(start, words)[1] == pytest.approx(1 - 1 / num_agents)
        worths = [played(start, [letter, *[""] * (num_agents - 1)])[1] for letter in "abcdefgh"]
        assert sorted(worths) == pytest.approx([k / 7 / num_agents for k in range(8)])


def test_noise_keeps_the_mean_of_every_pair_of_letters_and_draws_pairs_independently():
    env, still = make("probe-climbing-v0", noise=True), next(starts(make("probe-climbing-v0")))
    payoffs = {
        pair: [played(start, pair)[1] for start in starts(env)] for pair in product("abc", repeat=2)
    }
    for pair, drawn in payoffs.items():
        assert mean(drawn) == played(still, pair)[1]
        assert sorted(drawn)[7] < sorted(drawn)[8]  # each of two in half of the tasks
    high = {pair: [payoff == max(drawn) for payoff in drawn] for pair, drawn in payoffs.items()}
    for one, other in product(high, repeat=2):
        if one != other:
            both = sum(a and b for a, b in zip(high[one], high[other], strict=True))
            assert both == 4


def test_noise_does_not_decide_which_climbers_have_solved_their_game():
    for start in starts(make("probe-climbing-v0", noise=True)):
        for pair in product("abc", repeat=2):
            twin, _ = played(start, pair)
            assert twin.episode.turns[-1].verdict.solved == (pair == ("a", "a"))


def test_a_climber_that_says_no_letter_earns_what_the_worst_pair_does():
    start = next(starts(make("probe-climbing-v0")))
    assert played(start, ["", "a"])[1] == played(start, ["a", "b"])[1] == -30


def test_a_relay_pays_only_what_was_handed_on_all_the_way():
    env = make("probe-relay-v0")
    env.reset(options={"task_id": "relay/c"})
    total, state = 0.0, env.fork()
    for holder in range(4):
        prompts = list(state.episode.prompts.values())
        assert prompts == ["c" if place == holder else "abcd" for place in range(4)]
        state, reward = played(state, ["c" if place == holder else "" for place in range(4)])
        total += reward
        assert reward == float(holder == 3)
    assert total == 1.0 and not state.agents


def test_a_baton_that_is_dropped_is_lost():
    env = make("probe-relay-v0")
    env.reset(options={"task_id": "relay/c"})
    state, _ = played(env, ["", "c", "c", ""])
    assert set(state.episode.prompts.values()) == {"abcd"}
    state, _ = played(state, ["c", "c", "c", ""])
    assert set(state.episode.prompts.values()) == {"abcd"}


def test_the_first_player_of_mixed_pairs_changes_nothing():
    for start in starts(make("probe-mixed-pairs-v0")):
        for word in ("", "a", "b", "c"):
            rewards = {played(start, [first, word])[1] for first in ("", "a", "b", "c")}
            assert rewards == {float(word == start.task.letters[1])}


@pytest.mark.parametrize(
    ("probe", "kwargs", "message"),
    [
        ("probe-relay-v0", {"length": 7}, "length must be from 1 to 6, got 7"),
        ("probe-relay-v0", {"num_secrets": 1}, "num_secrets must be from 2 to 4, got 1"),
        ("probe-noisy-partners-v0", {"num_agents": 17}, "num_agents must be at most 16, got 17"),
        ("probe-noisy-partners-v0", {"num_agents": 1}, "num_agents must be at least 2, got 1"),
    ],
)
def test_a_team_that_a_probe_has_no_place_for_is_refused(probe, kwargs, message):
    with pytest.raises(ValueError, match=message):
        make(probe, **kwargs)
