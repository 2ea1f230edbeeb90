from __future__ import annotations

import csv
from pathlib import Path

import pytest

from llm_decpomdp.benchmarks.__main__ import main
from llm_decpomdp.benchmarks.config import load_config
from llm_decpomdp.benchmarks.errors import ConfigError
from llm_decpomdp.benchmarks.seeds import Point, run_seeds
from llm_decpomdp.benchmarks.shipped import find_config


def config(quick: list[str], *more: str) -> list[str]:
    return ["--override", *quick, "output.report=false", "algorithm.max_updates=1", *more]


def test_two_seeds_give_a_curve_and_a_table_and_are_not_run_again(
    quick: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["seeds", "--config", "mt_magrpo_che_config", "--count", "2", *config(quick)]
    with pytest.raises(SystemExit) as ended:
        main(command)
    assert ended.value.code == 0
    told = capsys.readouterr().out
    assert "over seeds" in told and "curve.png" in told
    (folder,) = tmp_path.glob("*-seeds")
    lines = list(csv.reader((folder / "curve.csv").read_text().splitlines()))
    assert lines[0] == ["update", "mean", "standard_error", "seed_0", "seed_1"]
    assert [line[0] for line in lines[1:]] == ["0", "1"]
    assert (folder / "curve.png").stat().st_size > 1000
    assert load_config(folder / "seed-1" / "config.yaml").seed == 1
    metrics = folder / "seed-0" / "metrics.jsonl"
    before = metrics.stat().st_mtime_ns
    with pytest.raises(SystemExit):
        main(command)
    assert metrics.stat().st_mtime_ns == before


def test_a_run_that_stopped_before_its_first_checkpoint_begins_again(
    quick: list[str], tmp_path: Path
) -> None:
    found = load_config(
        find_config("mt_magrpo_che_config"),
        [*quick, "output.report=false", "algorithm.max_updates=1"],
    )
    begun = tmp_path / "run-seeds" / "seed-0"
    begun.mkdir(parents=True)
    (begun / "config.yaml").write_text("seed: 9\n")
    run_seeds(found, "mine", [0])
    assert (begun / "done").exists()


def test_the_interval_is_that_of_the_mean_over_seeds() -> None:
    point = Point(0, (1.0, 2.0, 6.0))
    assert point.mean == 3.0
    assert point.standard_error == pytest.approx((7.0 / 3) ** 0.5)


def test_equal_seeds_and_no_evaluation_are_refused(quick: list[str]) -> None:
    path = find_config("mt_magrpo_che_config")
    with pytest.raises(ConfigError, match="seeds must be different"):
        run_seeds(load_config(path, quick), "mine", [1, 1])
    with pytest.raises(ConfigError, match=r"evaluation\.num_tasks is 0"):
        run_seeds(load_config(path, [*quick, "evaluation.num_tasks=0"]), "mine", [1])
