"""Refills: what is replaced, by what, at which cost; and runs that resume."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from llm_decpomdp.algorithms.rollouts.rollout import Start
from llm_decpomdp.algorithms.training.dynamic_sampling import draw_replacements, resample
from llm_decpomdp.utils.storage import read_json_lines
from tests.algorithms.conftest import EchoEnv
from tests.algorithms.runs import build, require_equal

PROBLEMS = [Start(seed=n) for n in range(12)]
BATCHES = [PROBLEMS[first : first + 3] for first in range(0, 12, 3)]


class SilentEnv(EchoEnv):
    """Starts of an even seed earn nothing, whatever is said."""

    def reset(self, seed: int | None = None, options: Any = None) -> Any:
        self.silent = not (seed or 0) % 2
        return super().reset(seed, options)

    def step(self, actions: dict[str, str]) -> Any:
        prompts, rewards, *rest = super().step(actions)
        return (
            prompts,
            {agent: value * (not self.silent) for agent, value in rewards.items()},
            *rest,
        )


def play(starts: Sequence[Start]) -> list[Any]:
    return [SimpleNamespace(start=start) for start in starts]


def play_round(number: int, parts: Sequence[Sequence[Start]]) -> list[list[Any]]:
    return [play(part) for part in parts]


def has_learning_signal(rollout: Any) -> bool:
    return bool(rollout.start.seed % 2)


def seeds(rollouts: Sequence[Any]) -> list[int]:
    return [rollout.start.seed for rollout in rollouts]


@pytest.mark.parametrize(
    ("rounds", "kept", "further"),
    [
        (0, [0, 1, 2], []),
        (1, [4, 1, 5], [4, 5]),
        (2, [6, 1, 5], [4, 5, 6]),
        (3, [7, 1, 5], [4, 5, 6, 7]),
        (9, [7, 1, 5], [4, 5, 6, 7]),
    ],
)
def test_what_teaches_nothing_is_replaced_round_by_round(
    rounds: int, kept: list[int], further: list[int]
) -> None:
    found = resample(
        [play(PROBLEMS[:3])], rounds, [iter(PROBLEMS[4:])], has_learning_signal, play_round
    )
    assert [seeds(rollouts) for (rollouts,) in found] == [kept, further]


def test_where_no_problem_is_left_the_rest_stays() -> None:
    (kept,), (further,) = resample(
        [play(PROBLEMS[:5])], 5, [iter([Start(seed=7)])], has_learning_signal, play_round
    )
    assert (seeds(kept), seeds(further)) == ([7, 1, 2, 3, 4], [7])


def test_each_bundle_is_refilled_with_its_own_starts_in_rounds_of_all() -> None:
    rounds: list[list[list[Start]]] = []

    def play_and_note(number: int, parts: Sequence[Sequence[Start]]) -> list[list[Any]]:
        assert number == len(rounds) + 1
        rounds.append([list(part) for part in parts])
        return play_round(number, parts)

    fresh = [iter(PROBLEMS[4:8:2]), iter(PROBLEMS[5:8:2])]
    rolled = [play(PROBLEMS[:2]), play(PROBLEMS[2:4])]
    kept, further = resample(rolled, 2, fresh, has_learning_signal, play_and_note)
    assert rounds == [[[Start(seed=4)], [Start(seed=5)]], [[Start(seed=6)], []]]
    assert [seeds(of) for of in kept] == [[6, 1], [5, 3]]
    assert [seeds(of) for of in further] == [[4, 6], [5]]


def test_bundles_draw_different_problems_that_the_batch_lacks() -> None:
    fresh = draw_replacements(PROBLEMS, BATCHES[0], np.random.default_rng(0), 2)
    draw_share = [list(of_bundle) for of_bundle in fresh]
    assert len(draw_share[0]) == 5 and not set(draw_share[0]) & set(draw_share[1])
    assert set(draw_share[0]) | set(draw_share[1]) == set(PROBLEMS) - set(BATCHES[0])


def test_a_run_replaces_silent_starts_and_tells_the_cost(tmp_path: Path) -> None:
    env: Any = SilentEnv(1)
    trainer = build(tmp_path, BATCHES, env=env, refill=4, eval_starts=[], group_size=6)
    trainer.run_updates()
    rows = list(read_json_lines(trainer.folder.metrics))
    episodes = list(read_json_lines(trainer.folder.episodes))
    for row, batch in zip(rows, BATCHES, strict=True):
        played = [e for e in episodes if e["update"] == row["update"]]
        further = played[len(batch) :]
        assert [e["start"]["seed"] for e in played[: len(batch)]] == [s.seed for s in batch]
        assert not {e["start"]["seed"] for e in further} & {s.seed for s in batch}
        assert row["refilled_starts"] == len(further) > 0
        assert row["refilled_completions"] == 2 * 6 * len(further)
        silent = [len(set(e["groups"][0]["rewards"])) == 1 for e in played]
        left = sum(silent) - len(further)
        assert row["groups_without_signal"] == max(left, 0) and row["groups"] == len(batch)
    assert sum(row["groups_without_signal"] for row in rows) < len(BATCHES)


def test_the_cost_is_announced_with_all_rounds(tmp_path: Path) -> None:
    plain, more = (build(tmp_path / str(n), BATCHES, refill=n).source.cost for n in (0, 2))
    assert plain is not None and more is not None
    assert more.update == plain.update.times(3) and more.training == plain.training.times(3)
    assert (more.start, more.evaluations) == (plain.start, plain.evaluations)


def test_a_refilled_run_resumes_exactly_also_if_it_is_to_be_longer(tmp_path: Path) -> None:
    options: Any = {"env": SilentEnv(2), "refill": 2, "problems": PROBLEMS}
    straight = build(tmp_path / "straight", BATCHES, **options)
    straight.run_updates()
    build(tmp_path / "parts", BATCHES[:2], checkpoint_every=2, **options).run_updates()
    again = build(tmp_path / "parts", BATCHES, **options)
    assert again.resume() == 2
    again.run_updates()
    require_equal(straight, again)


def test_a_refill_without_further_problems_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"every update has all 3 of the run: take fewer problems"):
        build(tmp_path, [PROBLEMS[:3]] * 2, refill=1)
