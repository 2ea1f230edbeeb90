"""Weights in the shards of two processes against whole weights in one."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import distributed
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp._fully_shard import _fsdp_param_group as groups
from transformers import AutoModelForCausalLM

from llm_decpomdp.agents.inference.options import Caching
from llm_decpomdp.agents.models.sharded import ShardedEngine, require_shardable, shard_team
from llm_decpomdp.agents.single_model import load_policy
from llm_decpomdp.algorithms.training import checkpoint
from tests.algorithms import sharded_runs as runs
from tests.algorithms.runs import rows, start


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What two processes left, after one has begun a run that they go on with."""
    folder = tmp_path_factory.mktemp("sharded")
    runs.make_run(folder / "one", 2).run_updates()
    runs.save_stored(folder)
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
def test_shards_have_the_log_probs_of_whole_weights_and_sum_gradients_once(
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


def test_weights_that_are_read_part_by_part_are_those_of_the_files(pair: Path) -> None:
    shares = [runs.share(runs.completions(), rank) for rank in range(2)]
    summed = runs.scored(runs.load_stored(pair, hollow=False), *shares)
    for rank, results in enumerate(of_both(pair, "stored.pt")):
        mine = runs.scored(runs.load_stored(pair, hollow=False), shares[rank])
        for agent, ((log_probs,), norm) in results.items():
            assert torch.equal(log_probs, mine[agent][0][0])
            assert norm == pytest.approx(summed[agent][1], rel=1e-6)


@pytest.mark.parametrize("name", runs.LEARNERS)
def test_two_processes_learn_as_one_though_one_has_no_signal(pair: Path, name: str) -> None:
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


@pytest.mark.parametrize("name", ["run", "dialogues"])
def test_what_is_sampled_with_shards_is_what_copies_sample(pair: Path, name: str) -> None:
    """The processes have different numbers of batches, whose rows end at different tokens."""
    for file in ("metrics.jsonl", "episodes.jsonl"):
        assert rows(pair / name / file) == rows(pair / f"{name}_in_shards" / file)


@pytest.mark.parametrize("name", ["run", "parts", "one"])
def test_checkpoints_are_those_of_one_process(pair: Path, alone: Any, name: str) -> None:
    """One that was begun by one process or two, and went on in two."""
    newest, other = (
        checkpoint.latest(folder / "checkpoints") for folder in (pair / name, alone.folder.path)
    )
    assert newest is not None and other is not None and newest.name == other.name
    (_, mine), (_, theirs) = checkpoint.load(newest), checkpoint.load(other)
    for state in (mine, theirs):  # the last rollout batch that a process played is not the same one
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
        if name == "rounded" and "mismatch/x" in row:  # FSDP rounds weights as the sampler does
            assert row.pop("mismatch/x") <= other.pop("mismatch/x")
        assert row == pytest.approx(other, rel=1e-3 if name == "lagged" else 0.1, abs=1e-3)
    for file in ("metrics.jsonl", "episodes.jsonl"):
        assert rows(further / name / file) == rows(further / f"{name} in parts" / file)


@pytest.fixture
def mesh() -> Iterator[DeviceMesh]:
    """One process that is all processes."""
    distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
    yield init_device_mesh("cpu", (1,))
    distributed.destroy_process_group()


def cut(team: runs.Team, mesh: DeviceMesh, **options: Any) -> None:
    engines = {
        engine: ShardedEngine(engine, mesh, **options)
        for engine in {p.engine for p in team.values()}
    }
    for policy in team.values():
        policy.engine = engines[policy.engine]
        policy.engine.mates = list(engines.values())


@pytest.mark.parametrize("once", [True, False])
def test_gradients_are_summed_over_the_processes_once_in_an_update_or_in_each_pass(
    mesh: DeviceMesh, monkeypatch: pytest.MonkeyPatch, once: bool
) -> None:
    """`x` has two layers and embeddings to sum; `y` and `z` share a layer whose adapters are summed together."""
    team, counts = runs.make_team(), {"sums": 0, "passes": 0}
    cut(team, mesh, reduce_once=once)
    learner = runs.make_learner(team)
    monkeypatch.setattr(groups, "foreach_reduce", counted(groups.foreach_reduce, counts, "sums"))
    monkeypatch.setattr(learner, "_backward", counted(learner._backward, counts, "passes"))
    learner.accumulate(runs.sampled()[:2])
    assert counts["passes"] == 6  # of three agents for two starts
    assert counts["sums"] == (3 + 1 if once else 2 * 3 + 4 * 1)
    whole = runs.make_learner(runs.make_team())
    whole.accumulate(runs.sampled()[:2])
    for agent, policy in whole.policies.items():
        mine = learner.policies[agent].parameters()
        for weight, shard in zip(policy.parameters(), mine, strict=True):
            torch.testing.assert_close(shard.grad.full_tensor(), weight.grad, atol=1e-6, rtol=1e-4)


def test_rounded_adapters_of_one_model_are_summed_after_one_pass_each(mesh: DeviceMesh) -> None:
    sharded, whole = (runs.make_team("bfloat16") for _ in range(2))
    cut(sharded, mesh, reduce_once=True)
    metrics = [runs.make_learner(t).accumulate(runs.sampled()[:1]) for t in (sharded, whole)]
    for name in ("grad_norm/x", "grad_norm/y", "grad_norm/z"):
        assert metrics[0][name] == pytest.approx(metrics[1][name], rel=0.05)
        assert metrics[1][name] > 0


def counted(function: Any, counts: dict[str, int], name: str) -> Any:
    def count(*args: Any, **options: Any) -> Any:
        counts[name] += 1
        return function(*args, **options)

    return count


def test_weights_are_gathered_rounded_and_gradients_are_float32(mesh: DeviceMesh) -> None:
    team = runs.make_team("bfloat16")
    cut(team, mesh, reduce_once=True)
    seen = set()
    for part in team["x"].model.modules():
        if isinstance(part, torch.nn.Linear):
            part.register_forward_hook(
                lambda part, args, out: seen.add((part.weight.dtype, out.dtype))
            )
    team["x"].log_probs("ab", runs.completions())[0].sum().backward()
    assert seen == {(torch.bfloat16, torch.bfloat16)}
    assert {w.grad.dtype for w in team["x"].parameters()} == {torch.float32}


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_shards_sample_what_a_copy_does_and_without_one(mesh: DeviceMesh, dtype: str) -> None:
    copies, shards = (runs.make_team(dtype) for _ in range(2))
    for team, gathers in ((copies, True), (shards, False)):
        for weight in team["y"].model.parameters():
            if not weight.requires_grad:  # those of files are read in this format
                weight.data = weight.data.to(team["y"].compute_dtype)
        cut(team, mesh, reduce_once=True, gather_for_generation=gathers)
    for agent in runs.AGENTS:
        with pytest.raises(RuntimeError, match="call its gather"):
            shards[agent].generate(["ab"])
        for team in (copies, shards):
            team[agent].gather()
        copy, own = (team[agent].generate(["ab", "b"], 3) for team in (copies, shards))
        assert own == copy
        engines = copies[agent].engine, shards[agent].engine
        sizes = [sum(w.numel() for w in engine._sampler.model.parameters()) for engine in engines]
        assert sizes[0] > 0 and sizes[1] == 0
        shards[agent].finish_sampling()
        shards[agent].log_probs("ab", own[0])[0].sum().backward()


def test_a_static_cache_needs_a_copy(mesh: DeviceMesh) -> None:
    policy = runs.make_team()["x"]
    policy.engine.caching = Caching(static_cache=True)
    with pytest.raises(ValueError, match=r"static_cache=true.*gather_for_generation=true"):
        ShardedEngine(policy.engine, mesh, reduce_once=True, gather_for_generation=False)


def test_an_adapter_of_the_weights_below_is_refused(mesh: DeviceMesh, tmp_path: Path) -> None:
    runs.save_stored(tmp_path)
    policy = load_policy(
        tmp_path / "x", lora={"r": 2, "target_modules": ["q_proj"], "use_dora": True}, hollow=True
    )
    with pytest.raises(ValueError, match=r"use_dora.*learner.fsdp_size=1"):
        ShardedEngine(policy.engine, mesh, reduce_once=True)


def test_what_cannot_be_cut_is_refused() -> None:
    with pytest.raises(
        ValueError, match=r"learner.fsdp_size=2 needs 2 processes, and the run has 1"
    ):
        shard_team(runs.make_team(), 2)
    team = runs.make_team()
    team["x"].model.config.num_experts = 8
    with pytest.raises(ValueError, match="num_experts=8"):
        require_shardable(team["x"].model)
