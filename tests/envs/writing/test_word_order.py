"""The order of words: mutual information of neighboring classes, by hand and on the bundled texts."""

from __future__ import annotations

from math import log

import pytest

from llm_decpomdp import make
from llm_decpomdp.envs.writing.source_overlap import FEW, FREQUENT, PRIOR, WordOrder, english
from llm_decpomdp.envs.writing.text_measures import tokens
from llm_decpomdp.seeding import stream


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
