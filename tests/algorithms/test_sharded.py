"""Weights in the shards of two processes against whole weights in one."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

from llm_decpomdp.agents.models.sharded import require_shardable, shard_team
from llm_decpomdp.algorithms.training import checkpoint
from tests.algorithms import sharded_runs as runs
from tests.algorithms.runs import rows, start


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What two processes left, after one has begun a run that they go on with."""
    folder = tmp_path_factory.mktemp("sharded")
    runs.make_run(folder / "one", 2).run_updates()
    start(folder, module="tests.algorithms.sharded_runs")
    return folder


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The run of one process."""
    run = runs.make_run(tmp_path_factory.mktemp("alone"))
    run.run_updates()
    return run


def of_both(folder: Path, name: str) -> list[Any]:
    return [torch.load(folder / f"process_{rank}" / name) for rank in range(2)]


@pytest.mark.parametrize("name", ["scored.pt", "in_parts.pt"])
def test_log_probs_are_those_of_whole_weights_and_gradients_are_summed_once(
    pair: Path, name: str
) -> None:
    shares = [runs.share(runs.completions(), rank) for rank in range(2)]
    summed = runs.scored(runs.make_team(), *shares)
    for rank, results in enumerate(of_both(pair, name)):
        mine = runs.scored(runs.make_team(), shares[rank])
        for agent, ((log_probs,), norm) in results.items():
            if name == "scored.pt":
                assert torch.equal(log_probs, mine[agent][0][0])
            torch.testing.assert_close(log_probs, mine[agent][0][0], atol=1e-6, rtol=0)
            assert norm == pytest.approx(summed[agent][1], rel=1e-6)
            assert norm != pytest.approx(mine[agent][1], rel=1e-2)


@pytest.mark.parametrize("name", runs.LEARNERS)
def test_two_processes_learn_what_one_does_though_one_has_nothing_to_learn(
    pair: Path, name: str
) -> None:
    options = runs.LEARNERS[name]
    whole = runs.learned(runs.make_team(), runs.batches(), **options)
    untrained = runs.weights_of(runs.make_team())
    first, second = of_both(pair, f"{name}.pt")
    for agent in runs.AGENTS:
        for a, b, c, before in zip(
            *(of[agent] for of in (whole["weights"], first["weights"], second["weights"])),
            untrained[agent],
            strict=True,
        ):
            assert torch.equal(b, c)
            torch.testing.assert_close(a, b, atol=2e-5, rtol=0)
            assert not torch.allclose(a, before, atol=1e-3)
    for metrics, of_first, of_second in zip(
        *(of["metrics"] for of in (whole, first, second)), strict=True
    ):
        assert of_first == of_second
        assert of_first == pytest.approx(metrics, rel=1e-4, abs=2e-5)  # as of the weights


def test_without_equal_passes_a_process_needs_the_other(pair: Path) -> None:
    assert "needs the other" in (pair / "process_0" / "alone.txt").read_text()


def test_a_run_samples_and_reports_what_one_process_does(pair: Path, alone: Any) -> None:
    episodes = [rows(folder / "episodes.jsonl") for folder in (pair / "run", alone.folder.path)]
    assert_alike(*episodes)
    metrics = [rows(folder / "metrics.jsonl") for folder in (pair / "run", alone.folder.path)]
    assert sum(row.get("refilled_starts", 0) for row in metrics[0]) > 0
    for row, other in zip(*metrics, strict=True):
        assert row.pop("kind") == other.pop("kind")
        assert row == pytest.approx(other, rel=1e-3, abs=1e-5)


def test_dialogues_are_those_of_one_process(pair: Path, tmp_path: Path) -> None:
    """`x` learns all weights, and `y` and `z` adapters."""
    run = runs.make_dialogues(tmp_path)
    run.run_updates()
    for name in ("episodes", "metrics"):
        shards, whole = (rows(f / f"{name}.jsonl") for f in (pair / "dialogues", tmp_path))
        assert_alike(shards, whole)


@pytest.mark.parametrize("name", ["run", "parts", "one"])
def test_checkpoints_are_those_of_one_process(pair: Path, alone: Any, name: str) -> None:
    """One that was begun by one process or two, and went on in two."""
    newest, other = (
        checkpoint.latest(folder / "checkpoints") for folder in (pair / name, alone.folder.path)
    )
    assert newest is not None and other is not None and newest.name == other.name
    (_, mine), (_, theirs) = checkpoint.load(newest), checkpoint.load(other)
    for state in (mine, theirs):  # the last bundle that a process played is not the same one
        for policy in state["policies"].values():
            del policy["generator"]
    assert_alike(mine, theirs)


def assert_alike(one: Any, other: Any) -> None:
    """Check that two states are of one form, and their numbers nearly equal."""
    assert type(one) is type(other)
    if isinstance(one, torch.Tensor):
        torch.testing.assert_close(one, other, atol=2e-5, rtol=0)
    elif isinstance(one, float):
        assert one == pytest.approx(other, rel=1e-4, abs=1e-5)
    elif isinstance(one, dict):
        assert one.keys() == other.keys()
        for key in one:
            assert_alike(one[key], other[key])
    elif isinstance(one, list | tuple):
        assert len(one) == len(other)
        for a, b in zip(one, other, strict=True):
            assert_alike(a, b)
    else:
        assert one == other


def test_a_resumed_run_equals_one_that_never_stopped(pair: Path) -> None:
    for name in ("metrics.jsonl", "episodes.jsonl"):
        assert rows(pair / "run" / name) == rows(pair / "parts" / name)
    states = [
        checkpoint.load(pair / name / "checkpoints/update-000003")[1] for name in ("run", "parts")
    ]
    for agent in runs.AGENTS:
        weights = [state["policies"][agent]["weights"] for state in states]
        assert all(torch.equal(weights[0][key], weights[1][key]) for key in weights[0])


def test_one_process_goes_on_from_a_checkpoint_of_two(pair: Path, alone: Any) -> None:
    newest = pair / "run/checkpoints/update-000003"
    newest.rename(pair / "update-000003")
    try:
        run = runs.make_run(pair / "run")
        assert run.resume() == 2
        run.run_updates()
    finally:
        shutil.rmtree(newest, ignore_errors=True)
        (pair / "update-000003").rename(newest)
    for agent in runs.AGENTS:
        pairs = zip(run.team[agent].parameters(), alone.team[agent].parameters(), strict=True)
        for a, b in pairs:
            torch.testing.assert_close(a, b, atol=2e-5, rtol=0)


def test_a_saved_team_is_one_of_plain_models(pair: Path) -> None:
    _, state = checkpoint.load(pair / "parts/checkpoints/update-000003")
    x = AutoModelForCausalLM.from_pretrained(pair / "team_of_parts/x")
    weights = state["policies"]["x"]["weights"]
    for name, weight in x.named_parameters():
        assert torch.equal(weight, weights[name])
    weights = load_file(pair / "team_of_parts/y/adapter_model.safetensors")
    for name, weight in state["policies"]["y"]["weights"].items():
        assert torch.equal(weights[name.replace(".policy_y", "")], weight)


@pytest.fixture(scope="module")
def further(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What two processes left that begin a run later, or with rounded weights."""
    folder = tmp_path_factory.mktemp("further")
    start(folder, "further", module="tests.algorithms.sharded_runs")
    return folder


@pytest.mark.slow
def test_rounded_log_probs_and_gradients_are_nearly_those_of_whole_weights(further: Path) -> None:
    shares = [runs.share(runs.completions(), rank) for rank in range(2)]
    summed = runs.scored(runs.make_team("bfloat16"), *shares)
    exact = runs.scored(runs.make_team(), *shares)
    for rank, results in enumerate(of_both(further, "rounded.pt")):
        mine = runs.scored(runs.make_team("bfloat16"), shares[rank])
        for agent, ((log_probs,), norm) in results.items():
            torch.testing.assert_close(log_probs, mine[agent][0][0], atol=1e-2, rtol=0)
            assert norm == pytest.approx(summed[agent][1], rel=1e-2)
            assert not torch.equal(log_probs, exact[agent][0][rank])  # they are rounded


@pytest.mark.slow
@pytest.mark.parametrize("name", runs.FURTHER)
def test_runs_with_a_lag_or_rounded_weights_are_those_of_one_process(
    further: Path, tmp_path: Path, name: str
) -> None:
    alone = runs.make_run(tmp_path, **runs.FURTHER[name])
    alone.run_updates()
    mine, theirs = (
        rows(folder / "metrics.jsonl") for folder in (further / name, alone.folder.path)
    )
    assert [row["kind"] for row in mine] == [row["kind"] for row in theirs]
    if name == "lagged":  # what is sampled shows every bit of the weights
        assert_alike(
            *(rows(folder / "episodes.jsonl") for folder in (further / name, alone.folder.path))
        )
        assert [row["lag"] for row in mine if row["kind"] == "train"] == [0, 1, 1]
    for row, other in zip(mine, theirs, strict=True):
        assert row.pop("kind") == other.pop("kind")
        assert row == pytest.approx(other, rel=1e-3 if name == "lagged" else 0.1, abs=1e-3)
    for file in ("metrics.jsonl", "episodes.jsonl"):
        assert rows(further / name / file) == rows(further / f"{name} in parts" / file)


def test_what_cannot_be_cut_is_refused() -> None:
    with pytest.raises(
        ValueError, match=r"learner.fsdp_size=2 needs 2 processes, and the run has 1"
    ):
        shard_team(runs.make_team(), 2)
    team = runs.make_team()
    team["x"].model.config.num_experts = 8
    with pytest.raises(ValueError, match="num_experts=8"):
        require_shardable(team["x"].model)
