"""A baseline of a user's own is tried when its algorithm is declared."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from llm_decpomdp.algorithms import Algorithm


def no_axis(returns: Any) -> Any:
    """One number for all groups, which numpy would subtract from each of them."""
    return returns.mean()


def no_keepdims(returns: Any) -> Any:
    return returns.mean(-1)


def kept(returns: Any) -> Any:
    return returns.mean(-1, keepdims=True)


def nothing(returns: Any) -> Any:
    return None


def infinite(returns: Any) -> Any:
    return np.full_like(returns, np.nan)


@pytest.mark.parametrize("baseline", [no_axis, no_keepdims, kept, nothing, infinite])
def test_a_baseline_has_the_shape_of_the_returns(baseline: Callable[..., Any]) -> None:
    with pytest.raises(ValueError, match=rf"the baseline '{baseline.__name__}' of 'mine' must"):
        Algorithm("mine", baseline=baseline)


def test_a_baseline_of_each_group_is_taken() -> None:
    def median(returns: Any) -> Any:
        return np.broadcast_to(np.median(returns, -1, keepdims=True), returns.shape)

    assert Algorithm("mine", baseline=median).name == "mine"
