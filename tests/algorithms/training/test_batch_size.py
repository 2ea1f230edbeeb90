from __future__ import annotations

from typing import Any

import pytest

from llm_decpomdp.algorithms.rollouts.sampling import MAX_ROWS, sample
from tests.algorithms.runs import make_team


@pytest.mark.parametrize("group_size", [1, 100, MAX_ROWS + 1])
def test_many_prompts_are_sampled_in_batches_that_fit_memory(
    make_env: Any, group_size: int
) -> None:
    team, states = make_team(), 3 * MAX_ROWS // group_size or 2
    prompts = [dict.fromkeys("xy", "ab"[state % 2]) for state in range(states)]
    found = sample(team, [make_env()] * states, prompts, group_size)
    batches = team["x"].batches
    assert [prompt for batch in batches for prompt in batch] == [state["x"] for state in prompts]
    assert max(map(len, batches)) == max(1, MAX_ROWS // group_size)
    assert len(found) == states and all(len(one["y"]) == group_size for one in found)
