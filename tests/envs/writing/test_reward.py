"""The first reward of writing together, by hand-computed values."""

from __future__ import annotations

import time

import pytest

from llm_decpomdp import make
from llm_decpomdp.envs.writing.reward import (
    ARXIV_KNOTS,
    COMPONENTS,
    MAX_REWARD,
    TLDR_KNOTS,
    LevelReward,
)
from llm_decpomdp.envs.writing.roles import ARXIV, TLDR, writing_team
from llm_decpomdp.envs.writing.text_measures import STOP_WORDS, TRANSITIONS, TextPair, transitions

TLDR_REWARD = LevelReward(writing_team(TLDR, 2), TLDR_KNOTS)
ARXIV_REWARD = LevelReward(writing_team(ARXIV, 2), ARXIV_KNOTS)


def text(tokens: int, length: int, unique: int, letter: str = "q") -> str:
    """A text with so many tokens, characters and different words, without any transition."""
    names = [f"{letter}{number:03d}" for number in range(unique)]
    pieces = [names[place % unique] for place in range(tokens)]
    bare = " ".join(pieces)
    assert length >= len(bare)
    return bare + "!" * (length - len(bare))  # no word, and no token of its own


def points(reward: LevelReward, first: str, second: str) -> dict[str, float]:
    return reward.points(TextPair(first, second))


def test_the_lists_have_the_sizes_of_the_system_that_they_come_from() -> None:
    assert len(STOP_WORDS) == 106
    sizes = [len(phrases) for phrases in TRANSITIONS.values()]
    assert sizes == [21, 22, 22, 26, 29, 33, 24, 21, 17, 19, 19, 26]


# Level 1


@pytest.mark.parametrize(
    ("reward", "usual", "tokens", "earns"),
    [
        *((TLDR_REWARD, 20, n, earns) for n, earns in ((7, 0.0), (8, 0.5), (256, 0.5), (257, 0.0))),
        *(
            (ARXIV_REWARD, 150, n, earns)
            for n, earns in ((127, 0.0), (128, 0.5), (256, 0.5), (257, 0.0))
        ),
    ],
)
@pytest.mark.parametrize("place", [0, 1])
def test_texts_have_a_least_and_a_most_number_of_tokens(
    reward: LevelReward, usual: int, tokens: int, earns: float, place: int
) -> None:
    texts = [text(usual, usual * 5, 5), text(usual, usual * 5, 5)]
    texts[place] = text(tokens, tokens * 6, 5)
    assert points(reward, *texts)["structure"] == earns


def test_the_wrong_number_of_tokens_ends_the_reward() -> None:
    assert points(TLDR_REWARD, text(7, 100, 5), text(50, 250, 40)) == dict.fromkeys(COMPONENTS, 0.0)


# Level 2. The first text has 100 characters (TLDR) or 1000 (arXiv), so the ratio is exact.

LENGTHS = {
    "tldr": [
        (109, None), (110, 0.0), (111, 0.02), (135, 0.5), (159, 0.98), (160, 1.0), (161, 1.0), (319, 1.0),
        (320, 1.0), (338, 0.9), (410, 0.5), (499, 1 - 1.79 / 1.8), (500, 0.0), (501, None),
    ],
    "arxiv": [
        (799, None), (800, 0.0), (801, 0.002), (1050, 0.5), (1299, 0.998), (1300, 1.0), (1301, 1.0), (1599, 1.0),
        (1600, 1.0), (1601, 0.9975), (1800, 0.5), (1999, 0.0025), (2000, 0.0), (2001, None),
    ],
}  # fmt: skip
UNIQUE = {
    "tldr": [(129, None), (130, 0.0), (131, 0.5 / 70), (165, 0.25), (199, 0.5 * 69 / 70), (200, 0.5), (201, 0.5)],
    "arxiv": [
        (49, None), (50, 0.0), (51, 0.025), (60, 0.25), (69, 0.475), (70, 0.5), (71, 0.5), (129, 0.5), (130, 0.5),
        (131, 0.4875), (150, 0.25), (169, 0.0125), (170, 0.0), (171, None),
    ],
}  # fmt: skip
"""What the second text has, and what that earns; `None` where the gate to the next level stays closed."""


def cases(table: dict[str, list[tuple[int, float | None]]]) -> list[tuple[str, int, float | None]]:
    return [(genre, *row) for genre, rows in table.items() for row in rows]


def require(reward: LevelReward, texts: tuple[str, str], level: str, earns: float | None) -> None:
    """Check the points of a level, and that the next one is open unless they are `None`."""
    found = points(reward, *texts)
    later = {"length": "vocabulary", "vocabulary": "overlap"}[level]
    assert found[level] == pytest.approx(earns or 0.0, abs=1e-12)
    assert (found[later] > 0) == (earns is not None)


@pytest.mark.parametrize(("genre", "length", "earns"), cases(LENGTHS))
def test_the_length_ratio_earns_points(genre: str, length: int, earns: float | None) -> None:
    if genre == "tldr":
        require(TLDR_REWARD, (text(8, 100, 8), text(20, length, 16)), "length", earns)
    else:
        require(ARXIV_REWARD, (text(128, 1000, 50), text(128, length, 50)), "length", earns)


# Level 3. The first text has 100 different words.


@pytest.mark.parametrize(("genre", "unique", "earns"), cases(UNIQUE))
def test_the_vocabulary_ratio_earns_points(genre: str, unique: int, earns: float | None) -> None:
    if genre == "tldr":
        require(TLDR_REWARD, (text(100, 600, 100), text(256, 1400, unique)), "vocabulary", earns)
    else:
        require(ARXIV_REWARD, (text(128, 1000, 100), text(200, 1400, unique)), "vocabulary", earns)


def test_stop_words_count_as_different_words() -> None:
    pair = TextPair("the and of", "the and of on in is")
    assert pair.vocabulary_ratio == 2.0


# Level 4


@pytest.mark.parametrize(
    ("kinds", "earns"),
    [(0, 0.0), (1, 0.16), (2, 0.18), (3, 0.2), (6, 0.26), (11, 0.36), (12, 0.38)],
)
@pytest.mark.parametrize("reward", [TLDR_REWARD, ARXIV_REWARD], ids=["tldr", "arxiv"])
def test_kinds_of_transitions_earn_points(reward: LevelReward, kinds: int, earns: float) -> None:
    phrases = list(OWN.values())[:kinds]
    first, second = fitting(reward, " ".join(phrases))
    found = points(reward, first, second)
    assert len(transitions(second, "substring")) == kinds
    assert found["transitions"] == pytest.approx(earns)


OWN = {
    "comparison": "by analogy",
    "elaboration": "moreover",
    "explanation": "in other words",
    "summary": "overall",
    "examples": "for example",
    "cause_effect": "thus",
    "emphasis": "certainly",
    "condition": "unless",
    "sequence": "first",
    "time": "until",
    "contrast": "but",
    "concession": "despite",
}
"""A phrase of each kind, in an order in which none brings more than its own."""


def fitting(reward: LevelReward, phrases: str) -> tuple[str, str]:
    """Two texts that open all gates, the second with these phrases."""
    if reward is TLDR_REWARD:
        return text(10, 100, 10), f"{phrases} {text(30, 160, 30)}".strip()
    return text(128, 1000, 100), f"{phrases} {text(200, 1300, 100)}".strip()


@pytest.mark.parametrize(
    ("shared", "earns"), [(0, 0.0), (1, 0.2), (2, 0.4), (3, 0.6), (4, 0.6), (10, 0.6)]
)
def test_tldr_wants_a_jaccard_index_of_three_percent(shared: int, earns: float) -> None:
    first = text(20, 120, 20)
    second = " ".join([*first.split()[:shared], *text(80, 399, 80, letter="z").split()])
    pair = TextPair(first, second)
    assert pair.overlap == pytest.approx(shared / 100)
    assert points(TLDR_REWARD, first, second)["overlap"] == pytest.approx(earns)


@pytest.mark.parametrize(
    ("shared", "earns"), [(0, 0.0), (11, 0.6 * 11 / 23), (22, 0.6 * 22 / 23), (23, 0.6), (24, 0.6)]
)
def test_arxiv_wants_a_jaccard_index_of_23_percent(shared: int, earns: float) -> None:
    own = (100 - shared) // 2  # content words of each text alone; one of them takes an odd rest
    rest = 100 - shared - own
    common = [f"b{number:03d}" for number in range(shared)]
    first = " ".join(([*common, *text(own, 500, own, "q").split()] * 4)[:140])
    second = " ".join(([*common, *text(rest, 500, rest, "z").split()] * 4)[:196])
    pair = TextPair(first, second)
    assert pair.overlap == pytest.approx(shared / 100)
    assert points(ARXIV_REWARD, first, second)["overlap"] == pytest.approx(earns)


def test_two_texts_of_stop_words_overlap_in_full() -> None:
    assert TextPair("the and of", "is it").overlap == 1.0
    assert TextPair("!!", "??").overlap == 1.0


# Transitions


def test_a_substring_counts_inside_of_words_and_a_word_does_not() -> None:
    inside = "soap ashes stifle hadron lengthen butter"
    kinds = ["cause_effect", "contrast", "sequence", "condition", "time"]
    assert set(transitions(inside, "substring")) >= set(kinds)
    assert transitions(inside, "word") == []
    assert transitions("So, in short: it works.", "word") == ["cause_effect", "summary"]


def test_arxiv_joins_both_texts_without_a_gap_as_upstream_does() -> None:
    first = text(128, 1000, 100)[:-4] + " the"
    second = "refore " + text(200, 1300, 100)
    assert "cause_effect" not in transitions(first, "substring") + transitions(second, "substring")
    assert points(ARXIV_REWARD, first, second)["transitions"] == pytest.approx(0.16)


def test_tldr_counts_transitions_of_the_second_text_alone() -> None:
    first, second = text(10, 100, 10) + " thus", text(30, 260, 30)
    assert points(TLDR_REWARD, first, second)["transitions"] == 0.0


def test_matching_is_an_option_of_the_environment() -> None:
    first, second = text(10, 100, 10), "soap " + text(30, 160, 30)
    completions = {"summarizer_0": first, "elaborator_0": second}
    earned = {}
    for matching in ("substring", "word"):
        env = make("tldr-v0", source="bundled", matching=matching)
        env.reset(seed=0)
        *_, infos = env.step(completions)
        earned[matching] = infos["summarizer_0"]["reward/transitions"]
    assert earned == {"substring": pytest.approx(0.16), "word": 0.0}
    assert make("tldr-v0").reward.matching == "substring"
    with pytest.raises(ValueError, match="unknown matching 'words'; did you mean 'word'"):
        make("tldr-v0", matching="words")


# The whole


@pytest.mark.parametrize("reward", [TLDR_REWARD, ARXIV_REWARD], ids=["tldr", "arxiv"])
def test_the_true_maximum_is_2_98_and_means_solved(reward: LevelReward) -> None:
    first, second = fitting(reward, " ".join(OWN.values()))
    agents = [role.agent for role in reward.team]
    env = make("tldr-v0", source="bundled")
    verdict = reward(env.tasks.tasks[0], dict(zip(agents, (first, second), strict=True)))
    assert verdict.reward == pytest.approx(2.98) == pytest.approx(MAX_REWARD)
    assert verdict.solved
    assert not reward(env.tasks.tasks[0], dict.fromkeys(agents, first)).solved


def test_the_logger_of_the_older_system_is_not_followed() -> None:
    """Its examples: unique words with stop words, and the window of the ratio of the reward."""
    narrow, wide = text(140, 1000, 100), text(190, 1149, 100)
    assert points(ARXIV_REWARD, narrow, wide)["length"] == pytest.approx(0.698)
    assert points(ARXIV_REWARD, narrow, text(190, 1559, 100))["length"] == 1.0


@pytest.mark.parametrize(
    "huge",
    ["so " * 350_000, "x" * 1_000_000, "1" * 1_000_000, "1,111" * 200_000, "A. B " * 200_000],
    ids=["words", "one word", "digits", "commas", "names"],
)
def test_a_completion_of_a_megabyte_is_graded_in_linear_time(huge: str) -> None:
    for matching in ("substring", "word"):
        transitions(huge, matching)
    env = make("tldr-v1", source="bundled")
    begin = time.process_time()
    verdict = env.reward(env.tasks.tasks[0], dict.fromkeys(env.possible_agents, huge))
    assert time.process_time() - begin < 30  # a quadratic search takes hours
    assert -1e-9 <= verdict.reward < 1.0
