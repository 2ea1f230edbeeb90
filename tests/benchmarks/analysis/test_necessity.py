from __future__ import annotations

import csv
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from llm_decpomdp.agents.scripted import Gold, RandomText
from llm_decpomdp.benchmarks.analysis.necessity import necessity
from llm_decpomdp.benchmarks.config.errors import ConfigError
from llm_decpomdp.benchmarks.evaluation.folder import EvaluationResult
from llm_decpomdp.benchmarks.evaluation.run import evaluate
from llm_decpomdp.registry import make
from tests.benchmarks.evaluations import starts_of
from tests.support.commands import call

Passes = Mapping[str, Sequence[bool]]

SINGLE: Passes = {
    "easy": [True, True],
    "hard": [False, False],
    "odd": [True, False],
    "off": [False] * 2,
}
TEAM: Passes = {
    "easy": [True, True],
    "hard": [True, True],
    "odd": [False, False],
    "off": [False] * 2,
}


def evaluation(
    passes: Passes,
    agents: Sequence[str],
    folder: Path = Path("nowhere"),
    baseline: str = "single_agent_matched",
    fingerprint: str = "f",
    tokens: float | None = None,
    turns: int = 1,
) -> EvaluationResult:
    """What an evaluation has found, in which samples that do not pass, pass half of the tests."""
    manifest: dict[str, Any] = {
        "identity": {
            "team": list(agents),
            "about": {"baseline": baseline},
            "environment": {"id": "toy-v0", "num_agents": len(agents), "num_turns": turns},
        },
        "data": {"eval": {"fingerprint": fingerprint}},
        "samples": 2,
    }
    values: dict[str, dict[str, tuple[float, ...]]] = {
        "tests_passed": {task: tuple(1.0 if p else 0.5 for p in of) for task, of in passes.items()}
    }
    if tokens is not None:
        values["tokens"] = dict.fromkeys(passes, (tokens, tokens))
    return EvaluationResult(
        folder, manifest, values, {t: tuple(of) for t, of in passes.items()}, {}
    )


def team(**options: Any) -> EvaluationResult:
    return evaluation(TEAM, ["aux_0", "main_0"], **options)


def single(passes: Passes = SINGLE, **options: Any) -> EvaluationResult:
    return evaluation(passes, ["main_0"], **options)


def test_tasks_are_told_apart_by_who_passes_them() -> None:
    found = necessity(team(), single())
    assert found.suffices == ("easy", "odd")
    assert found.needs_team == ("hard",)
    assert found.unsolved == ("off",)


def test_gains_are_the_teams_mean_minus_that_of_the_single_agent() -> None:
    found = necessity(team(tokens=30.0), single(tokens=20.0))
    gain = found.gains["pass@1"]
    assert (gain.single.value, gain.team.value) == (1.5 / 4, 0.5)
    assert gain.comparison.difference.value == pytest.approx(0.125)
    assert {task: one.value for task, one in gain.of_task.items()} == {
        "easy": 0.0, "hard": 1.0, "odd": -0.5, "off": 0.0
    }  # fmt: skip
    tests = found.gains["tests_passed"]
    assert tests.comparison.difference.value == pytest.approx((0.5 - 0.25) / 4)
    assert found.matched
    assert found.tokens == {"single": 20.0, "team": 30.0}


def test_a_team_that_is_no_worse_has_a_speedup() -> None:
    def sequential(folder: EvaluationResult, counts: Sequence[float]) -> EvaluationResult:
        pairs = zip(folder.passes, counts, strict=True)
        folder.values["sequential_tokens"] = {task: (count, count) for task, count in pairs}
        return folder

    all_pass = {task: [True, True] for task in TEAM}
    better = sequential(evaluation(all_pass, ["a", "b"]), [10.0, 20.0, 30.0, 40.0])
    alone = sequential(single(), [20.0, 40.0, 60.0, 80.0])
    found = necessity(better, alone)
    assert found.no_worse and found.speedup is not None
    # Each task has the same ratio, so that no resample differs.
    ends = (found.speedup.value, found.speedup.low, found.speedup.high)
    assert ends == pytest.approx((2.0, 2.0, 2.0))
    worse = sequential(team(), [10.0, 20.0, 30.0, 40.0])
    assert not necessity(worse, sequential(single(all_pass), [20.0] * 4)).no_worse
    assert necessity(worse, sequential(single(all_pass), [20.0] * 4), margin=1.0).no_worse
    assert necessity(team(), alone).speedup is None  # older evaluations have no such measure
    with pytest.raises(ConfigError, match="from 0 to 1, got 3"):
        necessity(team(), single(), margin=3)


def test_the_interval_of_a_task_comes_from_the_samples_of_both() -> None:
    gain = necessity(team(), single()).gains["pass@1"].of_task
    assert (gain["odd"].low, gain["odd"].high) == (-1.0, 1.0)  # two samples each tell nothing
    assert (gain["hard"].low, gain["hard"].high) == (1.0, 1.0)
    more = evaluation({**TEAM, "odd": [True, False, False]}, ["a", "b"])
    gain = necessity(more, single()).gains["pass@1"].of_task
    assert gain["odd"].value == pytest.approx(1 / 3 - 1 / 2)


def test_the_interval_over_tasks_is_paired() -> None:
    """Where each task gains the same, the tasks' difficulty does not widen the interval."""
    lower = {str(n): [n < 3, False] for n in range(6)}
    higher = {str(n): [n < 3, True] for n in range(6)}
    found = necessity(evaluation(higher, ["a", "b"]), single(lower)).gains["pass@1"]
    difference = found.comparison.difference
    assert (difference.value, difference.low, difference.high) == pytest.approx((0.5, 0.5, 0.5))
    assert found.team.low != found.team.high


def test_a_single_agent_without_the_teams_tokens_is_not_matched() -> None:
    found = necessity(team(), single(baseline="single_agent"))
    assert not found.matched
    of_suite = single()
    about = of_suite.manifest["identity"]["about"]
    about["method"] = about.pop("baseline")
    assert necessity(team(), of_suite).matched
    assert found.tokens == {"single": None, "team": None}


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        (single(), team(), "has 1 agents and nowhere 2"),
        (team(), team(), "has 2 agents and nowhere 2"),
        (single(), single(), "has 1 agents and nowhere 1"),
        (team(), single({"easy": [True]}), "3 are only in one, such as 'hard'"),
        (team(), single(fingerprint="g"), "fingerprints are f and g"),
        (team(), single(turns=2), "different environments: num_turns is 1 and 2"),
    ],
)
def test_mismatch_refused(first: EvaluationResult, second: EvaluationResult, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        necessity(first, second)


def test_a_team_that_takes_turns_is_compared_with_an_agent_that_waits_for_nobody() -> None:
    ordered = team()
    ordered.manifest["identity"]["environment"]["order"] = ["aux_0", "main_0"]
    assert necessity(ordered, single()).needs_team == ("hard",)


def test_command_compares_two_folders(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pair, alone = (
        make("coophumaneval-v0", split="test[:2]", source="bundled", num_turns=1, num_agents=n)
        for n in (2, 1)
    )
    starts = starts_of(pair)
    evaluate(pair, dict.fromkeys(pair.possible_agents, Gold()), starts, folder=tmp_path / "team")
    evaluate(alone, {"main_0": RandomText()}, starts, folder=tmp_path / "single")
    for arguments in (["credit", "team"], ["necessity", "team", "single"]):
        assert call(arguments[0], *(str(tmp_path / name) for name in arguments[1:])) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "Of 2 tasks, a single agent suffices for 0" in shown
    assert "the team passes 2 more often" in shown
    assert "NOT matched" in shown
    assert "that also pass without aux_0: 0.000" in shown
    content = json.loads((tmp_path / "team" / "necessity.json").read_text(encoding="utf-8"))
    assert content["gains"]["pass@1"]["comparison"]["difference"]["value"] == 1.0
    with (tmp_path / "team" / "necessity.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [(row["measure"], row["gain"]) for row in rows[:2]] == [("pass@1", "1.0")] * 2
