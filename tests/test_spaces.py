"""The text space."""

from __future__ import annotations

import copy
import pickle

import pytest
from gymnasium.spaces import Text
from gymnasium.vector.utils import batch_space, concatenate, create_empty_array

from llm_decpomdp.spaces import UnicodeText


def test_any_encodable_string_within_bounds_is_a_member_and_nothing_else_is():
    for text in ("", "hello world", "\x00\n\t", "naïve 世界 👩🏽‍💻", "x" * 1000):
        assert text in UnicodeText(1000)
    for value in ("x" * 1001, "\ud800", b"bytes", 3, None, ["a"], float("nan")):
        assert value not in UnicodeText(1000)


def test_bounds_count_code_points_and_are_inclusive():
    space = UnicodeText(3, min_length=2)
    assert [len(text) for text in ("世", "世界", "世界!", "世界!!") if text in space] == [2, 3]


@pytest.mark.parametrize("bounds", [(1000, 0), (3, 2), (0, 0), (500, 200), (64, 64)])
def test_samples_are_members(bounds):
    space = UnicodeText(bounds[0], min_length=bounds[1], seed=0)
    assert all(space.sample() in space for _ in range(50))


def test_equal_seeds_give_equal_samples_that_obey_a_mask():
    def samples(seed):
        space = UnicodeText(100, seed=seed)
        return [space.sample() for _ in range(5)]

    assert samples(1) == samples(1) != samples(2)
    space = UnicodeText(100)
    space.seed(1)
    assert space.sample() == samples(1)[0]
    assert len(space.sample((7, None))) == 7
    assert len(space.sample(mask=(3, None))) == 3


def test_copies_continue_the_sampling():
    space = UnicodeText(100, seed=0)
    space.sample()
    twins = [pickle.loads(pickle.dumps(space)), copy.deepcopy(space)]
    after = space.sample()
    assert [twin.sample() for twin in twins] == [after, after]
    assert len(pickle.dumps(space)) < 10_000


def test_equality_is_by_bounds():
    assert UnicodeText(5) == UnicodeText(5, seed=3)
    assert UnicodeText(5) != UnicodeText(6)
    assert UnicodeText(5) != UnicodeText(5, min_length=1)
    assert UnicodeText(5) != Text(5)
    with pytest.raises(TypeError):
        hash(UnicodeText(5))


def test_it_is_a_text_space_that_vector_utilities_batch():
    space = UnicodeText(100)
    assert isinstance(space, Text)
    assert not space.is_np_flattenable
    batched = batch_space(space, 2)
    assert ("hello wörld", "!") in batched
    assert concatenate(space, ("a b", "c"), create_empty_array(space, 2)) == ("a b", "c")
    assert repr(space) == "UnicodeText(0, 100)"
    assert space.from_jsonable(space.to_jsonable(["é", ""])) == ["é", ""]
