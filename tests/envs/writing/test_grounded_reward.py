"""The second reward of writing together: what is measured, and that it cannot be earned by gibberish."""

from __future__ import annotations

from dataclasses import replace
from math import log

import pytest

from llm_decpomdp import make
from llm_decpomdp.envs.writing.grounded_reward import (
    ARXIV_SCALE,
    COMPONENTS,
    LEVELS,
    MAX_REWARD,
    TLDR_SCALE,
    Assessment,
    GroundingIntervals,
    interval_above,
    interval_below,
)
from llm_decpomdp.envs.writing.source_overlap import (
    FEW,
    FREQUENT,
    PRIOR,
    SourceText,
    WordOrder,
    english,
    names,
    numbers,
    repetition,
    stem,
)
from llm_decpomdp.envs.writing.text_measures import (
    Interval,
    TextPair,
    ends_with_sentence,
    tokens,
    visible_length,
    words,
)
from llm_decpomdp.seeding import stream

SOURCE = (
    "Yesterday Petra from Millbrook said that the fence costs $1,450. I paid three bills and called Oskar "
    "twice before the rotten posts fell on the quiet road beside our garden."
)


def ground(text: str):
    return SourceText(SOURCE).ground(text)


# A band


@pytest.mark.parametrize(
    ("value", "credit"),
    [(-1, 0.0), (0, 0.0), (1, 0.5), (2, 1.0), (3, 1.0), (4, 1.0), (6, 0.5), (8, 0.0), (9, 0.0)],
)
def test_a_band_rises_and_falls(value, credit):
    assert Interval(0, 2, 4, 8).credit(value) == credit


def test_a_band_without_an_upper_end_stays_full():
    assert interval_above(1.0, 2.0).credit(1e9) == 1.0
    assert interval_above(1.0, 2.0).credit(1.5) == 0.5


# What is measured of one text


def test_words_are_the_share_of_own_words_that_the_source_has():
    assert ground("The rotten fence annoyed Helena").words == pytest.approx(2 / 4)
    assert ground("").words == 0.0


def test_a_word_counts_by_its_stem():
    assert stem("posts") == "post" and stem("costing") == "cost" and stem("quietly") == "quiet"
    assert stem("was") == "was" and stem("ring") == "ring"
    assert ground("fences costing").words == 1.0


def test_coverage_is_the_share_of_the_sources_words():
    source = SourceText("Oskar mended fences. Petra slept.")
    assert source.ground("mended").coverage == pytest.approx(1 / 5)
    assert source.ground("mended fence sleep").coverage == pytest.approx(2 / 5)


def test_entities_are_names_and_numbers():
    assert SourceText(SOURCE).entities == {"Petra", "Millbrook", "Oskar", "1450"}
    assert ground("petra wants 1450 now").entities == pytest.approx(2 / 4)
    assert SourceText("nothing here").ground("x").entities == 1.0


def test_a_name_has_a_capital_letter_inside_of_a_sentence():
    text = "I met Petra. Then Oskar left; 'Anna said: No. (Berta slept') Why? Carl"
    assert names(text) == {"Petra", "Oskar", "Anna"}


def test_numbers_are_compared_by_value():
    assert numbers("1,450 and 12.50 and 3.0 and 5-6 and 7,5") == {
        "1450",
        "12.5",
        "3",
        "5",
        "6",
        "7,5",
    }
    assert ground("It costs 1450").unfounded == ()
    assert ground("It costs 1,451, paid 3 times").unfounded == ("1451",)


def test_phrases_are_pairs_of_neighbours_with_a_content_word():
    assert ground("rotten posts").phrases == 1.0
    assert ground("posts rotten").phrases == 0.0
    assert ground("on the").phrases == 0.0  # stop words alone
    assert ground("the rotten fence").phrases == pytest.approx(1 / 2)


def test_only_runs_of_five_content_words_are_copied():
    four = "the rotten posts fell on the quiet"
    assert ground(f"{four} cat").copied == 0.0
    assert ground(f"{four} road").copied == 1.0
    assert ground(f"{four} road so she slept in a bed").copied == pytest.approx(5 / 8)
    assert ground(SOURCE).copied == 1.0


def test_overlapping_copied_runs_count_each_word_once():
    text = "the rotten posts fell on the quiet road beside our"
    assert ground(f"hello {text} hello").copied == pytest.approx(6 / 8)


@pytest.mark.parametrize("word", ["also", "really", "7"])
def test_words_between_do_not_hide_a_copy(word):
    text = SOURCE.replace(" ", f" {word} ")
    found = ground(text)
    assert found.extracted == found.phrases == 0.0
    assert found.copied == pytest.approx(1.0 if word != "really" else 20 / 49)


def test_neighbors_with_a_mark_between_are_no_phrase():
    assert ground("rotten, posts").phrases == 0.0
    assert ground("fell, rotten posts").phrases == pytest.approx(1 / 3)


def test_cohesion_is_the_share_of_neighbors_from_the_same_sentence():
    assert ground("Petra said that the fence").cohesion == 1.0
    assert ground("Petra and the posts").cohesion == 0.0
    assert ground("the fence, the unknown posts, the road").cohesion == pytest.approx(1 / 2)
    assert ground("fence, fence").cohesion == ground("").cohesion == 0.0
    # a line ends a sentence, too.
    assert SourceText("Rain\nsun").ground("rain, sun").cohesion == 0.0


def test_extracted_words_stand_beside_a_neighbor_of_the_source():
    assert ground("rotten posts").extracted == 1.0
    assert ground("rotten fence posts").extracted == 0.0
    assert ground("the rotten posts are new").extracted == pytest.approx(3 / 5)
    assert ground("rotten, posts.").extracted == 0.0


def test_repetition_is_the_share_of_runs_of_three_words_seen_before():
    assert repetition(words("a b c d e")) == 0.0
    assert repetition(words("a b c a b c")) == pytest.approx(1 / 4)
    assert repetition(words("a b")) == 0.0


# Lengths


def test_what_only_fills_a_text_up_has_no_length():
    text = "I asked Petra, and Oskar (her son) said: no."
    assert visible_length(text) == len(text)
    between, inside = text.replace(" ", "{}"), "I asked Pe{}tra, and Oskar (her son) said: no."
    for filled in (
        text + " " * 99,
        text + "\n" * 99 + "\u200b" * 99,
        between.format(*["  \n\n\t  "] * 9),
        between.format(*["\u200b \u2060"] * 9),
        inside.format("\u200b" * 99),
        inside.format("\xad"),
    ):
        assert visible_length(filled) == len(text), filled


@pytest.mark.parametrize("filling", ["." * 99, "_" * 99, " . - . - " * 9, "\u2800" * 99, "!?" * 99])
def test_rows_of_marks_count_as_two(filling):
    assert visible_length(f"one{filling}two") == len("one, two")
    assert visible_length(f"one two{filling}") <= len("one two..")


def test_endless_words_end_somewhere():
    assert visible_length("a" * 999) == visible_length("a" * 40) == 40


def test_a_wider_second_text_is_no_longer_one():
    first, second = "One two three.", "Four five six seven."
    plain = TextPair(first, second)
    wide = TextPair(first, second.replace(" ", " " * 20) + "\u200b" * 99)
    assert plain.visible_ratio == plain.length_ratio == wide.visible_ratio == 20 / 14
    assert wide.length_ratio > 5  # what v0 looks at, as upstream does
    assert TextPair("\u200b", "text").visible_ratio == 0.0


# The credit of a text


DEPTH = GroundingIntervals(*[interval_above(0.0, 1.0)] * 6, interval_below(0.0, 1.0))


def test_the_grounding_of_a_text_is_the_documented_formula():
    found = ground("rotten posts")
    whole = {"order": 1.0, "cohesion": 1.0, "extracted": 0.0, "copied": 0.0}
    half = replace(found, words=0.5, coverage=0.2, entities=0.2, phrases=0.5, **whole)
    assert DEPTH.credit(half) == pytest.approx(0.3 * 0.5)
    for name, value in (("phrases", 0.2), ("order", 0.2), ("cohesion", 0.2), ("extracted", 0.8)):
        assert DEPTH.credit(replace(half, **{name: value})) == pytest.approx(0.3 * 0.2), name
    assert DEPTH.credit(replace(half, unfounded=("1", "2"))) == pytest.approx(0.15 * 0.5)
    assert DEPTH.credit(replace(half, unfounded=tuple("12345"))) == 0.0
    assert DEPTH.credit(replace(half, copied=0.5)) == pytest.approx(0.15)
    assert DEPTH.credit(replace(half, copied=0.65)) == pytest.approx(0.075)
    assert DEPTH.credit(replace(half, copied=0.8)) == 0.0


# The whole


def assess(first: str, second: str, source: str = SOURCE) -> Assessment:
    return Assessment(source, TextPair(first, second), TLDR_SCALE)


def test_the_points_are_the_credits_through_their_gates():
    found = assess("one", "two")
    found.__dict__["credits"] = {
        "structure": 0.25, "grounding": 0.6, "length": 0.4, "vocabulary": 0.1, "transitions": 0.5, "overlap": 1.0,
    }  # fmt: skip
    found.__dict__["grounding"] = (0.3, 0.9)
    found.__dict__["repetition"] = 0.5
    expected = {
        "structure": 0.5 * 0.25,
        "grounding": 1.0 * 0.6 * 0.5,
        "length": 1.0 * 0.4 * 0.5 * 0.6,
        "vocabulary": 0.5 * 0.1 * 0.5 * 0.6 * 0.8,
        "transitions": 0.4 * 0.5 * 0.5 * 0.6 * 0.8 * 0.2,
        "overlap": 0.6 * 1.0 * 0.5 * 0.6 * 0.8 * 0.2,
    }
    expected["repetition"] = -0.5 * sum(expected.values())
    assert found.points == pytest.approx(expected)


def test_the_levels_add_up_to_the_maximum():
    assert sum(LEVELS.values()) == MAX_REWARD == 4.0
    assert set(COMPONENTS) == {*LEVELS, "repetition"}


@pytest.mark.parametrize("genre", ["tldr", "arxiv"])
def test_some_references_earn_full_marks_and_all_are_near(genre):
    env = make(f"{genre}-v1", source="bundled", split="all")
    rewards = [env.reward(task, task.references).reward for task in env.tasks.tasks]
    assert max(rewards) == pytest.approx(4.0)
    assert sum(rewards) / len(rewards) > 3.6


@pytest.mark.parametrize("tokens", range(1, 12))
def test_there_is_no_cliff_at_the_length_gate(tokens):
    env = make("tldr-v1", source="bundled")
    task = env.tasks.tasks[0]
    summary = task.references["summarizer_0"].split()
    earned = [
        assess(" ".join(summary[:count]) + ".", task.references["elaborator_0"], task.prompt)
        for count in (tokens, tokens + 1)
    ]
    step = earned[1].points["structure"] - earned[0].points["structure"]
    assert step == pytest.approx(0.5 / 8 if tokens < 8 else 0.0)


@pytest.mark.parametrize("agent", ["summarizer_0", "elaborator_0"])
def test_a_text_that_breaks_off_keeps_half_of_the_structure_and_opens_the_rest(agent):
    env = make("tldr-v1", source="bundled")
    task = env.tasks.tasks[0]
    cut = {**task.references, agent: task.references[agent].rstrip(".!?")}
    whole, broken = (env.reward(task, texts).components for texts in (task.references, cut))
    assert (whole["structure"], broken["structure"]) == (0.5, 0.25)
    assert broken["length"] == pytest.approx(whole["length"], abs=0.01)


@pytest.mark.parametrize("text", ["It ended.", 'She said "No!"', "Why? (Nobody knows.)\n", "So…"])
def test_a_sentence_ends_with_a_mark_whatever_closes_behind_it(text):
    assert ends_with_sentence(text)


@pytest.mark.parametrize("text", ["", "It is the", "First:", "one, two,", '"'])
def test_other_texts_break_off(text):
    assert not ends_with_sentence(text)


def test_an_empty_text_earns_nothing():
    assert sum(assess("", "").points.values()) == 0.0
    assert sum(assess("", SOURCE).points.values()) == 0.0


def test_transitions_are_whole_words_and_arxiv_joins_with_a_gap():
    assert assess("x", "soap ashes butter").kinds == []
    assert assess("x", "so, overall").kinds == ["cause_effect", "summary"]
    joined = Assessment(SOURCE, TextPair("it is the", "refore"), ARXIV_SCALE)
    assert joined.kinds == []


def test_the_same_text_twice_has_no_overlap_to_earn():
    assert assess(SOURCE, SOURCE).credits["overlap"] == 0.0


def test_the_text_that_fares_worse_closes_the_gate():
    env = make("tldr-v1", source="bundled", split="all")
    task, other = env.tasks.tasks[:2]
    good = env.reward(task, task.references).components
    for agent in env.possible_agents:
        mixed = env.reward(task, {**task.references, agent: other.references[agent]}).components
        assert mixed["grounding"] <= good["grounding"] / 2 + 0.05
        assert mixed["length"] < 0.1


def test_each_fault_costs():
    env = make("tldr-v1", source="bundled", split="all")
    task = env.tasks.tasks[0]
    own = dict(task.references)
    best = env.reward(task, own).reward
    number = {**own, "elaborator_0": own["elaborator_0"] + " It was 7777 and 8888."}
    twice = {**own, "elaborator_0": f"{own['elaborator_0']} {own['elaborator_0']}"}
    copied = {**own, "summarizer_0": " ".join(task.prompt.partition("POST: ")[2].split()[:22])}
    for worse in (number, twice, copied):
        assert env.reward(task, worse).reward < best - 0.2


# Work outside every limit


def test_of_an_endless_text_the_beginning_is_read():
    for agents in ({}, {"num_agents": 1}):
        env = make("tldr-v1", source="bundled", **agents)
        env.reset(seed=0)
        text = "a word, " * 200_000
        pair = env.unwrapped.reward.team.read(dict.fromkeys(env.agents, text))
        assert max(map(len, pair.texts)) <= 20_000
        _, rewards, *_ = env.step(dict.fromkeys(env.agents, text))
        assert set(rewards.values()) == {0.0}


# The order of words: mutual information of neighboring classes, by hand and on the bundled texts


def test_tokens_are_words_numbers_and_two_marks():
    assert tokens("In 2019: 7.4 %, or so!") == ["In", "2019", ",", "7.4", ",", "or", "so", "."]
    assert tokens("one\n\ntwo (three) - four") == ["one", ".", "two", "three", "four"]
    assert tokens("") == []


def test_information_is_the_logarithm_of_the_ratio_of_shares():
    order = WordOrder(["the cat. the dog."])
    # Pairs: (. the) (the cat) (cat .) (. the) (the dog) (dog .)
    share = (1 + 1) / (6 + 4)
    assert order.information("the", "cat") == pytest.approx(
        log((1 + PRIOR * share) / (2 + PRIOR) / share)
    )
    assert order.information("the", "dog") > 0 > order.information("cat", "dog")


def test_classes_are_frequent_words_numbers_names_and_endings():
    order = english()
    assert len(order.frequent) == FREQUENT and {"the", "of", "and"} <= order.frequent
    text = "Zorbling the 12 Zorbs, zorbed zorbly Zog zorb."
    assert order.classes(tokens(text)) == [
        ".", "ing", "the", "<number>", "<name>", ",", "ed", "ly", "<name>", "<other>", ".",
    ]  # fmt: skip
    assert order.token_class("red", begins=False) == "<other>"  # too short for an ending


def test_pairs_of_the_source_do_not_count_and_few_pairs_count_little():
    order = WordOrder(["the cat. the dog."])
    first = order.information(".", "the")
    second = order.information("the", "cat")
    assert order.mean(tokens("The cat"), set()) == pytest.approx((first + second) / (2 + FEW))
    assert order.mean(tokens("The cat"), {(".", "the")}) == pytest.approx(second / (1 + FEW))
    assert order.mean(tokens("The cat"), {(".", "the"), ("the", "cat")}) == 0.0
    assert order.mean([], set()) == 0.0


@pytest.mark.parametrize("genre", ["tldr", "arxiv"])
def test_words_in_random_order_have_less_information_than_texts(genre):
    for task in make(f"{genre}-v1", source="bundled", split="all").tasks.tasks:
        rng = stream(0, task.task_id)
        long = list(task.references.values())[-1]
        shuffled = " ".join(rng.permutation(long.split()))
        whole, random = (english().mean(tokens(text), set()) for text in (long, shuffled))
        assert whole > -0.1 > -0.2 > random and whole - random > 0.3
