"""Drawing tokens: probabilities, truncation, limits."""

from __future__ import annotations

import pytest
import torch

from llm_decpomdp.agents.inference.options import Sampling
from llm_decpomdp.agents.inference.sampler import RowOptions, draw, truncate

LOGITS = torch.tensor([[2.0, 1.0, 0.0, -1.0]])


def frequencies(sampling: Sampling, count: int = 20_000) -> torch.Tensor:
    tokens, _ = draw(LOGITS.repeat(count, 1), options(*[sampling] * count), uniform(count))
    return torch.bincount(tokens, minlength=4) / count


def options(*samplings: Sampling) -> RowOptions:
    return RowOptions.from_samplings(samplings, LOGITS.device)


def uniform(count: int) -> torch.Tensor:
    return torch.rand(count, generator=torch.Generator().manual_seed(0))


def kept(sampling: Sampling) -> set[int]:
    """The tokens that may be drawn."""
    return set(truncate(LOGITS, options(sampling))[0].isfinite().nonzero()[:, 0].tolist())


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_tokens_come_as_often_as_the_tempered_softmax_says(temperature: float) -> None:
    expected = (LOGITS[0] / temperature).softmax(-1)
    found = frequencies(Sampling(temperature=temperature))
    torch.testing.assert_close(found, expected, atol=0.015, rtol=0)


def test_log_probabilities_are_those_of_the_full_tempered_softmax() -> None:
    sampling = Sampling(temperature=0.5, top_k=2)
    tokens, log_probs = draw(LOGITS, options(sampling), uniform(1))
    torch.testing.assert_close(log_probs, (LOGITS / 0.5).log_softmax(-1)[0, tokens])


def test_temperature_zero_takes_the_likeliest_token() -> None:
    assert frequencies(Sampling(temperature=0.0), 10).tolist() == [1, 0, 0, 0]


def test_top_k_keeps_the_k_likeliest() -> None:
    assert kept(Sampling(top_k=2)) == {0, 1}
    assert kept(Sampling(top_k=9)) == {0, 1, 2, 3}
    assert frequencies(Sampling(top_k=1), 100)[0] == 1


def test_top_p_keeps_the_fewest_tokens_that_reach_p() -> None:
    # Probabilities 0.64, 0.24, 0.09, 0.03.
    for top_p, count in ((0.6, 1), (0.7, 2), (0.9, 3), (0.99, 4), (1.0, 4)):
        assert kept(Sampling(top_p=top_p)) == set(range(count)), top_p


def test_top_p_counts_what_top_k_has_left() -> None:
    # Of the two likeliest, the first has 0.73 of what is left and 0.64 of all.
    assert kept(Sampling(top_k=2, top_p=0.7)) == {0}
    assert kept(Sampling(top_p=0.7)) == {0, 1}


def test_rows_of_one_batch_have_options_of_their_own() -> None:
    each = [
        Sampling(),
        Sampling(temperature=0.0),
        Sampling(temperature=0.3),
        Sampling(top_k=2),
        Sampling(top_p=0.7, temperature=3.0),
        Sampling(top_k=3, top_p=0.9, temperature=0.5),
    ]
    logits = torch.randn(len(each) * 500, 50, generator=torch.Generator().manual_seed(1)) * 2
    numbers = uniform(len(logits))
    rows = [sampling for sampling in each for _ in range(500)]
    together, scores = draw(logits, options(*rows), numbers)
    for index, sampling in enumerate(each):
        part = slice(index * 500, index * 500 + 500)
        alone, score = draw(logits[part], options(*[sampling] * 500), numbers[part])
        assert torch.equal(together[part], alone)
        torch.testing.assert_close(scores[part], score)


def test_options_of_some_rows_are_those_of_the_rows() -> None:
    some = options(Sampling(), Sampling(top_k=1), Sampling(temperature=0.0)).select(
        torch.tensor([2, 1])
    )
    assert some.greedy.tolist() == [True, False]
    assert some.top_k.tolist() == [[float("inf")], [1.0]]


def test_a_token_without_probability_is_never_drawn() -> None:
    logits = torch.full((5000, 6), -torch.inf)
    logits[:, 2] = 0.0
    logits[:, 4] = 1.0
    tokens, _ = draw(logits, options(*[Sampling()] * 5000), uniform(5000))
    assert set(tokens.tolist()) == {2, 4}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"temperature": -1.0}, "temperature must be at least 0, got -1.0"),
        ({"temperature": float("nan")}, "temperature"),
        ({"top_p": 0.0}, "top_p must be above 0, got 0.0"),
        ({"top_p": 1.5}, "top_p"),
        ({"top_k": 2.5}, "top_k must be a whole number, or null, got 2.5"),
        ({"top_k": -1}, "top_k must be at least 0"),
        ({"max_new_tokens": 0}, "max_new_tokens must be at least 1, got 0"),
    ],
)
def test_bad_options_are_refused(options: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Sampling(**options)  # type: ignore[arg-type]
