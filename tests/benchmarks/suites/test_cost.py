"""Costs against numbers by hand: two agents, 10 tokens each, 66 problems to train on and 16 to be measured on."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path

import pytest

from llm_decpomdp.agents.loading import PolicySpec
from llm_decpomdp.benchmarks.config.errors import ConfigError
from llm_decpomdp.benchmarks.suites.cost import JobCost, gigabytes, job_cost
from llm_decpomdp.benchmarks.suites.job import DONE, Job, make_jobs
from llm_decpomdp.benchmarks.suites.run import BenchProgress
from llm_decpomdp.benchmarks.suites.suite import load_suite

SUITE = """
config: demo
override:
  - dataset.source=bundled
  - model.max_new_tokens=10
  - env.num_turns=2
  - algorithm.max_updates=null
  - algorithm.num_generations=3
samples: 5
cells:
"""


def job(tmp_path: Path, cell: str) -> Job:
    path = tmp_path / "mine.yaml"
    path.write_text(f"{SUITE}  - {{{cell}}}\n")
    (found,) = make_jobs(load_suite(path), tmp_path / "out")
    return found


def cost(tmp_path: Path, cell: str) -> JobCost:
    return job_cost(job(tmp_path, cell))


@pytest.mark.parametrize(
    ("method", "tokens"),
    [
        ("untrained", 2 * 2 * 10),
        ("naive_concatenation", 2 * 2 * 10),
        ("sequential_pipeline", 2 * 2 * 10),
        ("one_round_discussion", 2 * 2 * 2 * 10),
        ("single_agent", 2 * 10),
        ("single_agent_matched", 2 * 20),
        ("gold", 0),
        ("random", 0),
    ],
)
def test_cost_of_an_evaluation(method: str, tokens: int, tmp_path: Path) -> None:
    found = cost(tmp_path, f"method: {method}")
    assert (found.episodes, found.evaluation_tokens) == (80, 80 * tokens)
    assert (found.updates, found.joint_samples, found.training_tokens) == (0, 0, 0)


def test_a_chain_has_a_group_a_turn_and_evaluations_before_and_after(tmp_path: Path) -> None:
    found = cost(tmp_path, "method: train, tasks: 4")
    assert found.updates == 33  # two starts each, one epoch
    assert found.joint_samples == 66 * 2 * 3
    assert found.training_tokens == (66 * 2 * 3 + 2 * 16 * 2) * 2 * 10
    assert (found.episodes, found.evaluation_tokens) == (20, 20 * 2 * 2 * 10)


def test_a_tree_branches_at_every_joint_sample(tmp_path: Path) -> None:
    more = "override: [algorithm.rollout.mode=tree, evaluation.every=10, evaluation.num_tasks=1]"
    found = cost(tmp_path, f"method: train, {more}")
    assert found.joint_samples == 66 * (3 + 9)
    evaluations = len({0, 10, 20, 30, 33})
    assert found.training_tokens == (66 * 12 + evaluations * 2) * 2 * 10


def test_a_frozen_partner_without_a_model_says_nothing_that_counts(tmp_path: Path) -> None:
    team = "override: ['team={aux_0: a, main_0: b}', 'policies.a={kind: random}']"
    assert cost(tmp_path, f"method: untrained, {team}").evaluation_tokens == 80 * 2 * 10


def test_stand_in_problems_are_called_so(tmp_path: Path) -> None:
    told = "16 problems of coophumaneval test[:16] (bundled), a stand-in"
    assert cost(tmp_path, "method: gold").data == told
    asked = cost(tmp_path, "method: gold, override: dataset.source=auto").data
    assert asked.startswith(f"{told}: the benchmark's own problems are not available")


def test_a_team_that_cannot_learn_is_refused_before_it_is_trained(tmp_path: Path) -> None:
    team = (
        "override: ['team={aux_0: a, main_0: b}', 'policies={a: {kind: gold}, b: {kind: random}}']"
    )
    assert cost(tmp_path, f"method: untrained, {team}").updates == 0
    with pytest.raises(ConfigError, match="no policy of the team can be trained"):
        cost(tmp_path, f"method: train, {team}")


def test_a_device_that_is_not_there_is_refused_unless_no_model_is_loaded(tmp_path: Path) -> None:
    absent = "override: model.device=bogus"
    assert cost(tmp_path, f"method: gold, {absent}")
    for method in ("train", "untrained"):
        with pytest.raises(ConfigError, match=r"model\.device: this machine has no device 'bogus'"):
            cost(tmp_path, f"method: {method}, {absent}")


def test_a_method_that_needs_a_team_is_refused_for_one_agent(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="one_round_discussion needs a team"):
        cost(tmp_path, "method: one_round_discussion, override: env.num_agents=1")


def test_progress_tells_what_has_ended_and_how_long_the_rest_may_take(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = [job(tmp_path, f"method: untrained, seeds: {seed}") for seed in (0, 1)]
    for one in jobs:
        one.write()
        one.end(DONE, seconds=61.0)
    # Slow the first time, and the clock stands still below.
    costs = {"untrained": job_cost(jobs[0])}
    now = time.monotonic()
    progress = BenchProgress(jobs, costs)
    with progress.bars:
        monkeypatch.setattr(time, "monotonic", lambda: now + 100)
        progress.update([], jobs[0])
        progress.update([], jobs[1])
    first, second = capsys.readouterr().err.splitlines()
    assert first == "done: untrained, seed 0, in 1 min 1 s (1 of 2, about 1 min 40 s left)"
    assert second == "done: untrained, seed 1, in 1 min 1 s (2 of 2)"


def begun(one: Job, updates: int, evaluations: int) -> None:
    """Leave the metrics of a training that has come so far."""
    rows = [{"kind": "train"}] * updates + [{"kind": "eval"}] * evaluations
    one.write()
    folder = one.folder / "training"
    folder.mkdir(exist_ok=True)
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def test_what_was_done_before_does_not_count_as_done_in_this_session(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    early, late = (job(tmp_path, f"method: train, seeds: {seed}") for seed in (0, 1))
    known = replace(job_cost(early), updates=10, training_tokens=10**9)  # all else is nothing
    begun(early, 9, 40)
    late.write()
    late.end(DONE, seconds=61.0)
    now = time.monotonic()
    progress = BenchProgress([early, late], {"train": known})
    with progress.bars:
        monkeypatch.setattr(time, "monotonic", lambda: now + 100)
        progress.update([], late)
    # one of the 1.1 trainings that were left took 100 s
    assert "(1 of 2, about 10.0 s left)" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "billions"),
    [
        ("Qwen/Qwen2.5-Coder-3B", 3.0),
        ("Qwen/Qwen3-1.7B", 1.7),
        ("smollm2-135m-instruct", 0.135),
        ("bigcode/starcoder2-3b", 3.0),
        ("meta-llama/Llama-3.1-8B-Instruct", 8.0),
        ("gpt2", None),
        ("models/7bit", None),
    ],
)
def test_the_name_of_a_model_tells_its_memory(name: str, billions: float | None) -> None:
    own = [PolicySpec(name=name)]
    adapters = [PolicySpec(name=name, lora={"r": 8})] * 2
    frozen = [PolicySpec(name=name, trainable=False), PolicySpec("gold")]
    for specs, bytes_each in ((own, 16), (own * 2, 32), (adapters, 4), (frozen, 4)):
        found = gigabytes(specs, trained=True)
        assert found == (None if billions is None else pytest.approx(billions * bytes_each))
    assert gigabytes(own, trained=False) == (billions and pytest.approx(billions * 4))


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        ("method: magrpo", 2 * 16 * 0.135),
        ("method: magrpo, override: model.shared=true", 16 * 0.135),
        ("method: untrained", 2 * 4 * 0.135),
        ("method: single_agent", 4 * 0.135),
        ("method: gold", 0),
    ],
)
def test_memory_of_an_arm(cell: str, expected: float, tmp_path: Path) -> None:
    assert cost(tmp_path, cell).gigabytes == pytest.approx(expected)
