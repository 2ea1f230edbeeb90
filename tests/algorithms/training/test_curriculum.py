"""Curricula: which problems are drawn, what is measured, and runs that resume."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from llm_decpomdp.algorithms.rollouts.collection import collect_rollouts
from llm_decpomdp.algorithms.rollouts.rollout import Group, Parent, Rollout, Start
from llm_decpomdp.algorithms.rollouts.rollout_options import RolloutOptions
from llm_decpomdp.algorithms.rollouts.serialization import from_text, to_text
from llm_decpomdp.algorithms.training import curriculum
from llm_decpomdp.algorithms.training.curriculum import CurriculumSource, pass_rate
from llm_decpomdp.algorithms.training.rollout_source import RolloutSource
from llm_decpomdp.policy import Completion
from llm_decpomdp.utils.storage import read_json_lines
from tests.algorithms.conftest import EchoEnv
from tests.algorithms.runs import ROOT, build, require_exact_resume, require_resumed

PROBLEMS = [Start(seed=n) for n in range(12)]
BATCHES = [PROBLEMS[first : first + 3] for first in range(0, 12, 3)]


class SolvedEnv(EchoEnv):
    """Says that an episode is solved if the seed is a multiple of three."""

    def reset(self, seed: int | None = None, options: Any = None) -> Any:
        self.easy = not (seed or 0) % 3
        return super().reset(seed, options)

    def step(self, actions: dict[str, str]) -> Any:
        *rest, infos = super().step(actions)
        return *rest, {agent: {**info, "solved": float(self.easy)} for agent, info in infos.items()}


class AnySource(RolloutSource):
    """Of updates of three problems."""

    batches = BATCHES

    def collect(self, request: Any, timer: Any) -> Any:
        raise NotImplementedError


def curriculum_of(problems: list[Start], group_size: int, seed: int) -> CurriculumSource:
    return CurriculumSource(AnySource(), problems, group_size, seed)


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Lets rollouts be pairs of a start and a pass rate."""
    monkeypatch.setattr(curriculum, "pass_rate", lambda rollout: rollout.rate)
    return lambda place, rate: SimpleNamespace(start=PROBLEMS[place], rate=rate)


def test_a_pass_rate_is_shrunk_towards_a_half_and_fades_back_to_it(played: Any) -> None:
    drawing = curriculum_of(PROBLEMS, 8, 0)
    assert drawing.rates.tolist() == [0.5] * 12
    drawing.observe(drawing.visits([played(0, 0.0), played(1, 1.0), played(2, 0.25)]))
    rates = [0.25 / 8.5, 8.25 / 8.5, 2.25 / 8.5, 1 / 2]
    assert drawing.rates[:4] == pytest.approx(rates)
    for _ in range(34):
        drawing.observe(drawing.visits([]))
    rates = [0.25 / 4.5, 4.25 / 4.5, 1.25 / 4.5, 1 / 2]
    assert drawing.rates[:4] == pytest.approx(rates, abs=0.01)


def test_the_page_of_metrics_has_the_formula() -> None:
    prior = curriculum.PRIOR
    page = (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")
    assert f"({prior:g} + passes) / ({2 * prior:g} + episodes)" in page


def test_one_visit_of_four_episodes_leaves_the_band_if_all_or_none_pass(played: Any) -> None:
    drawing = curriculum_of(PROBLEMS, 4, 0)
    drawing.observe(drawing.visits([played(0, 0.0), played(1, 1.0), played(2, 0.75)]))
    inside = (drawing.rates >= curriculum.BAND[0]) & (drawing.rates <= curriculum.BAND[1])
    assert inside[:4].tolist() == [False, False, True, True]


def test_problems_of_the_band_are_drawn_by_their_variance_and_each_once(played: Any) -> None:
    drawing = curriculum_of(PROBLEMS, 1000, 0)
    rates = [0.5, 0.12, 0.88, *[0.0] * 5, *[1.0] * 4]
    drawing.observe(drawing.visits([played(place, rate) for place, rate in enumerate(rates)]))
    counts: Counter[Start] = Counter()
    for update in range(1, 2001):
        draw_share, row = drawing.draw(update, 1)
        counts.update(draw_share)
        assert len(set(drawing.draw(update, 2)[0])) == 2
    weights = np.array([0.25, 0.12 * 0.88, 0.12 * 0.88])
    shares = [counts[start] / 2000 for start in PROBLEMS[:3]]
    assert shares == pytest.approx(weights / weights.sum(), abs=0.03)
    assert row["curriculum/in_band"] == 0.25 and row["curriculum/unplayed"] == 0


def test_where_the_band_is_too_small_the_nearest_problems_follow(played: Any) -> None:
    drawing = curriculum_of(PROBLEMS, 100, 0)
    rates = [0.5, 0.05, 0.96, *[0.0] * 9]
    drawing.observe(drawing.visits([played(place, rate) for place, rate in enumerate(rates)]))
    assert drawing.draw(1, 3)[0] == PROBLEMS[:3]


def test_a_draw_is_a_function_of_seed_update_and_what_was_measured(played: Any) -> None:
    first, other = curriculum_of(PROBLEMS, 8, 0), curriculum_of(PROBLEMS, 8, 1)
    draws = [first.draw(update, 4)[0] for update in range(1, 9)]
    assert draws == [curriculum_of(PROBLEMS, 8, 0).draw(update, 4)[0] for update in range(1, 9)]
    assert draws != [other.draw(update, 4)[0] for update in range(1, 9)]
    first.observe(first.visits([played(3, 0.5)]))
    other.load_state_dict(first.state_dict())
    assert other.rates.tolist() == first.rates.tolist()
    with pytest.raises(ValueError, match="was of 12 problems, and there are 5"):
        curriculum_of(PROBLEMS[:5], 8, 0).load_state_dict(first.state_dict())


def test_a_run_leaves_out_what_it_never_or_always_solves(tmp_path: Path) -> None:
    options: Any = {"env": SolvedEnv(1), "curriculum": "pass_rate", "problems": PROBLEMS}
    trainer = build(tmp_path, BATCHES * 2, eval_starts=[], group_size=20, **options)
    trainer.run_updates()
    rows = list(read_json_lines(trainer.folder.metrics))
    seeds = [e["start"]["seed"] for e in read_json_lines(trainer.folder.episodes)]
    assert sorted(seeds[:12]) == list(range(12))  # all at first: none is within the band twice
    assert [row["curriculum/unplayed"] for row in rows] == [1.0] * 4 + [0.0] * 4
    assert rows[0]["curriculum/pass_rate"] == 0.5 and rows[0]["curriculum/in_band"] == 1.0
    assert rows[4]["curriculum/in_band"] == 0.0


@pytest.mark.parametrize("refill", [0, 1])
def test_a_run_resumes_exactly_also_if_it_is_to_be_longer(tmp_path: Path, refill: int) -> None:
    options: Any = {"env": SolvedEnv(2), "curriculum": "pass_rate", "max_resample_rounds": refill}
    options |= {"problems": PROBLEMS, "eval_starts": []}
    require_exact_resume(tmp_path, BATCHES, **options)
    other = build(tmp_path / "parts", BATCHES, **{**options, "curriculum": None})
    with pytest.raises(ValueError, match="curriculum was pass_rate, not None"):
        other.resume()


def test_what_is_measured_in_an_update_that_fails_is_not_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options: Any = {"env": SolvedEnv(2), "curriculum": "pass_rate", "problems": PROBLEMS}
    options["eval_starts"] = []
    straight = build(tmp_path / "straight", BATCHES, **options)
    straight.run_updates()
    failing = build(tmp_path / "parts", BATCHES, **options)
    accumulate = failing.learner.accumulate

    def fail_later(rollouts: Any) -> Any:
        if failing.learner.updates == 2:
            raise RuntimeError("a failure after playing")
        return accumulate(rollouts)

    monkeypatch.setattr(failing.learner, "accumulate", fail_later)
    with pytest.raises(RuntimeError, match="after playing"):
        failing.run_updates()
    require_resumed(straight, build(tmp_path / "parts", BATCHES, **options), 2)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_async_level": 1}, r"curriculum=pass_rate .* max_async_level=1"),
        ({"problems": BATCHES[0]}, r"an update has all 3 of the run"),
    ],
)
def test_options_without_a_choice_are_refused(
    tmp_path: Path, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        build(tmp_path, BATCHES, **{"curriculum": "pass_rate", "problems": PROBLEMS, **options})


class Silent(EchoEnv):
    """Tells nothing."""

    def step(self, actions: dict[str, str]) -> Any:
        *rest, infos = super().step(actions)
        return *rest, {agent: {} for agent in infos}


def test_an_environment_that_tells_of_no_solution_is_refused(tmp_path: Path) -> None:
    options: Any = {"env": Silent(1), "problems": PROBLEMS, "eval_starts": []}
    trainer = build(tmp_path, BATCHES, curriculum="pass_rate", **options)
    with pytest.raises(ValueError, match=r"no `solved` in its infos\): a curriculum"):
        trainer.run_updates()


class Halting:
    """Says nothing to half of all prompts, and to the others one letter."""

    def __init__(self) -> None:
        self.rng = np.random.default_rng(0)

    def generate(self, prompts: list[str], num_samples: int = 1) -> list[list[Completion]]:
        return [
            [Completion("b" * int(self.rng.integers(2))) for _ in range(num_samples)]
            for _ in prompts
        ]

    def act(self, prompt: str) -> str:
        return self.generate([prompt])[0][0].text


def test_a_pass_rate_is_that_of_episodes_under_any_plan() -> None:
    """Silence of both solves and ends an episode: 1/4 at once, and 1/4 of the others in the second turn."""
    for plan in ("chain", "tree", "episodes"):
        rollouts = collect_rollouts(
            EchoEnv(2),
            dict.fromkeys("xy", Halting()),
            [Start(seed=0)] * 40,
            RolloutOptions(mode=plan),
            group_size=6,
            rng=np.random.default_rng(1),
        )
        rate = np.mean([pass_rate(rollout) for rollout in rollouts])
        assert rate == pytest.approx(1 / 4 + 3 / 4 * 1 / 4, abs=0.1), plan
        assert all(from_text(to_text(rollout)).groups == rollout.groups for rollout in rollouts[:9])


def test_a_sample_that_was_not_handed_on_is_no_failure() -> None:
    """Of four samples one ends at once, unsolved, and one goes on, to two solved ones of four."""
    turns = [
        Group(0, None, {}, {}, ((0,),) * 4, (0.0,) * 4, ({"solved": 0.0},) * 4),
        Group(
            1,
            Parent(0, 2),
            {},
            {},
            ((0,),) * 4,
            (0.0,) * 4,
            ({"solved": 0.0},) * 2 + ({"solved": 1.0},) * 2,
        ),
    ]
    groups = [
        replace(turns[0], ended=(True, False, False, False)),
        replace(turns[1], ended=(True,) * 4),
    ]
    assert pass_rate(Rollout(Start(), tuple(groups))) == 3 / 4 * 1 / 2
