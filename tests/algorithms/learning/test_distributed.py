from __future__ import annotations

import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import torch

from llm_decpomdp.algorithms.learning import distributed as processes
from llm_decpomdp.algorithms.training import checkpoint
from llm_decpomdp.utils.storage import read_json_lines
from tests.algorithms.runs import (
    ALIKE_STARTS,
    BUNDLED,
    LEARNERS,
    ROOT,
    UNEVEN,
    build,
    learned,
    rows,
    sampled,
    sampled_for,
    start,
    turns,
    weights,
)


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What two processes left that worked together."""
    folder = tmp_path_factory.mktemp("pair")
    start("pair", folder)
    return folder


def of_both(folder: Path, name: str) -> list[Any]:
    return [torch.load(folder / f"process_{rank}" / name) for rank in range(2)]


@pytest.mark.parametrize("name", LEARNERS)
def test_two_processes_learn_what_one_does_from_the_same_rollouts(pair: Path, name: str) -> None:
    alone, metrics = learned(sampled_for(name), **LEARNERS[name])
    (first, first_metrics), (second, second_metrics) = of_both(pair, f"{name}.pt")
    untrained, _ = learned(sampled()[:0])
    for a, b, c, before in zip(alone, first, second, untrained, strict=True):
        assert torch.equal(b, c)
        torch.testing.assert_close(a, b, atol=1e-6, rtol=0)
        assert not torch.allclose(a, before, atol=1e-3)
    assert first_metrics == second_metrics == pytest.approx(metrics, rel=1e-4, abs=1e-6)


def test_a_run_of_two_processes_ends_with_equal_weights_and_one_set_of_rows(pair: Path) -> None:
    first, second = of_both(pair, "run.pt")
    assert all(torch.equal(a, b) for a, b in zip(first["weights"], second["weights"], strict=True))
    assert first["summary"] == second["summary"] and first["summary"]["updates"] == 4
    metrics = [(row["update"], row["kind"]) for row in read_json_lines(pair / "run/metrics.jsonl")]
    assert metrics == sorted(metrics, key=lambda pair: (pair[0], pair[1] == "eval"))
    assert len(metrics) == 9
    episodes = list(read_json_lines(pair / "run/episodes.jsonl"))
    trained = [(row["update"], row["start"]["seed"]) for row in episodes if row["phase"] == "train"]
    assert trained == [(n + 1, one.seed) for n, batch in enumerate(UNEVEN) for one in batch]
    evaluated = [row["start"]["seed"] for row in episodes if row["phase"] == "eval"]
    assert evaluated == [start.seed for start in ALIKE_STARTS] * 5
    assert checkpoint.best(pair / "run/checkpoints") is not None


def test_processes_sample_differently(pair: Path) -> None:
    groups = [
        row["groups"][0]
        for row in read_json_lines(pair / "run/episodes.jsonl")
        if row["phase"] == "eval" and row["update"] == 0
    ]
    assert len({str(group["prompts"]) for group in groups}) == 1
    texts = [group["completions"]["x"] for group in groups]
    assert texts[0::2] != texts[1::2]  # of the first process and of the second


def test_two_processes_resume_exactly(pair: Path) -> None:
    for name in ("metrics.jsonl", "episodes.jsonl"):
        run = [
            row
            for row in rows(pair / "run" / name)
            if "train" in (row.get("kind"), row.get("phase"))
        ]
        parts = [
            row
            for row in rows(pair / "parts" / name)
            if "train" in (row.get("kind"), row.get("phase"))
        ]
        assert run == parts
    straight, parts = of_both(pair, "run.pt"), of_both(pair, "parts.pt")
    for rank in range(2):
        pairs = zip(straight[rank]["weights"], parts[rank], strict=True)
        assert all(torch.equal(a, b) for a, b in pairs)


def test_each_process_refills_its_own_share_and_both_step_alike(pair: Path) -> None:
    first, second = of_both(pair, "refilled.pt")
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))
    trained = [row for row in rows(pair / "refilled/metrics.jsonl") if row["kind"] == "train"]
    episodes = [e for e in rows(pair / "refilled/episodes.jsonl") if e["phase"] == "train"]
    assert sum(row["refilled_starts"] for row in trained) > 0
    for row, batch in zip(trained, UNEVEN, strict=True):
        played = [e["start"]["seed"] for e in episodes if e["update"] == row["update"]]
        assert len(played) == len(set(played)) == len(batch) + row["refilled_starts"]


def test_two_processes_go_on_with_what_waits_for_each(pair: Path) -> None:
    for name in ("metrics.jsonl", "episodes.jsonl"):
        straight, stopped = (rows(pair / folder / name) for folder in ("lagged", "stopped"))
        assert straight == stopped and straight


def test_two_processes_sample_the_bundles_that_one_does(pair: Path, tmp_path: Path) -> None:
    alone = build(tmp_path, UNEVEN, **BUNDLED)
    alone.run_updates()
    together = pair / "bundled"
    assert (together / "episodes.jsonl").read_bytes() == alone.folder.episodes.read_bytes()
    metrics = [rows(folder / "metrics.jsonl") for folder in (together, tmp_path)]
    assert sum(row.get("refilled_starts", 0) for row in metrics[0]) > 0
    for row, other in zip(*metrics, strict=True):
        assert row.pop("kind") == other.pop("kind")
        assert row == pytest.approx(other, rel=1e-4, abs=1e-6)


def test_two_processes_take_turns_as_one_does(pair: Path, tmp_path: Path) -> None:
    alone = turns(tmp_path)
    before = [weight.clone() for weight in weights(alone)]
    alone.run_updates()
    first, second = of_both(pair, "turns.pt")
    for a, b, c, d in zip(weights(alone), first, second, before, strict=True):
        assert torch.equal(b, c)
        torch.testing.assert_close(a, b, atol=1e-5, rtol=0)
        assert not torch.allclose(a, d, atol=1e-3)
    together = pair / "turns"
    texts = [
        [(row["start"], [group["completions"] for group in row["groups"]]) for row in rows(path)]
        for path in (together / "episodes.jsonl", alone.folder.episodes)
    ]
    assert texts[0] == texts[1]
    for row, other in zip(
        rows(together / "metrics.jsonl"), rows(alone.folder.metrics), strict=True
    ):
        assert row.pop("kind") == other.pop("kind")
        assert row == pytest.approx(other, rel=1e-3, abs=1e-5)


def test_rollouts_go_to_the_first_process_and_metrics_to_all(pair: Path) -> None:
    assert of_both(pair, "collected.pt") == [([0, 1, 0, 1], 0), ([], 0)]


def test_a_terminated_process_ends_the_others_and_saves_what_is_complete(pair: Path) -> None:
    newest = checkpoint.latest(pair / "broken/checkpoints")
    assert newest is not None and newest.name == "update-000002"
    assert (pair / "process_1/broken.txt").read_text() == "Interrupted"
    assert (pair / "process_0/broken.txt").exists()


def test_a_process_that_is_alone_works_on_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "1")
    processes.initialize(10)
    assert (processes.world_size(), processes.rank()) == (1, 0)
    assert processes.shard([1, 2, 3]) == processes.gather([1, 2, 3]) == [1, 2, 3]
    assert processes.gather_to_first([1, 2]) == [1, 2]
    assert processes.compute_on_first(lambda: 3) == 3
    assert processes.total(2.0) == processes.broadcast(2.0) == 2.0


def test_a_process_with_a_gpu_names_it_to_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Any] = []
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("LOCAL_RANK", "1")
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)
    monkeypatch.setattr("torch.cuda.set_device", calls.append)
    monkeypatch.setattr("torch.distributed.init_process_group", lambda **given: calls.append(given))
    processes.initialize(5)
    assert calls[0] == 1 and calls[1] == {
        "timeout": timedelta(minutes=5),
        "backend": "cpu:gloo,cuda:nccl",
        "device_id": torch.device("cuda", 1),
    }
    monkeypatch.setenv("LOCAL_RANK", "2")
    with pytest.raises(RuntimeError, match="launch at most 2 on it"):
        processes.initialize(5)


def test_processes_without_work_are_announced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    most = max(map(len, UNEVEN))
    for number, warns in ((most, False), (most + 1, True)):
        monkeypatch.setattr(processes, "world_size", lambda number=number: number)
        caplog.clear()
        build(tmp_path / str(number), UNEVEN)
        assert (
            f"{number} processes share updates of at most {most} starts" in caplog.text
        ) == warns


@pytest.mark.slow
def test_accelerate_launch_starts_a_run_of_several_processes(tmp_path: Path) -> None:
    pytest.importorskip("accelerate")
    command = [sys.executable, "-m", "accelerate.commands.launch", "--multi_gpu"]
    command += ["--num_processes", "2", "-m", "tests.algorithms.runs", "work", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, timeout=300)
    first, second = of_both(tmp_path, "run.pt")
    assert all(torch.equal(a, b) for a, b in zip(first["weights"], second["weights"], strict=True))
