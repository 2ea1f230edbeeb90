"""What YAML files and overrides mean, and in which encodings files are."""

from __future__ import annotations

from pathlib import Path

import pytest

from llm_decpomdp.algorithms.learning.learner_options import KLOptions
from llm_decpomdp.benchmarks.config.errors import ConfigError
from llm_decpomdp.benchmarks.config.load import read_config
from llm_decpomdp.benchmarks.suites.suite import load_suite
from tests.support.commands import call

MISLEADING = {"014": 12, "1:30": 90, "-014": -12, "0x1F": 31, "0b11": 3, "1_000": 1000}


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "c.yaml"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(("written", "meant"), MISLEADING.items())
def test_a_number_of_yaml_1_1_is_refused_with_what_it_would_have_meant(
    tmp_path: Path, written: str, meant: int
) -> None:
    told = rf"algorithm.max_updates: {written} is the number {meant} in YAML 1.1: write {meant}, or put"
    with pytest.raises(ConfigError, match=f"^{tmp_path}/c.yaml, line 3: {told}"):
        read_config(write(tmp_path, f"seed: 1\nalgorithm:\n  max_updates: {written}\n"))
    with pytest.raises(ConfigError, match=f"{written} is the number {meant} in YAML 1.1"):
        read_config(None, [f"algorithm.max_updates={written}"])
    with pytest.raises(ConfigError, match=f"r: {written} is the number {meant} in YAML 1.1"):
        read_config(None, [f"model.lora={{r: {written}}}"])


def test_it_is_refused_in_lists_floats_names_and_suites(tmp_path: Path) -> None:
    for text in (
        "algorithm: {turn_gradient_weights: [1, 012]}",
        "algorithm: {learning_rate: 1_0.5}",
        "algorithm: {learning_rate: 1:30.5}",
        "policies: {014: {kind: gold}}",
        "output: {name: 2026_01}",
    ):
        with pytest.raises(ConfigError, match=r"in YAML 1\.1"):
            read_config(write(tmp_path, text))
    with pytest.raises(ConfigError, match=r"tasks: 010 is the number 8 in YAML 1\.1"):
        load_suite(write(tmp_path, "cells: [{tasks: 010}]"))


def test_other_numbers_and_texts_mean_what_they_did(tmp_path: Path) -> None:
    text = """
seed: 14
algorithm: {learning_rate: 1e-5, kl_coefficient: .5}
output: {name: "014"}
dataset: {train_split: "test[1:30]"}
"""
    for overrides in ([], ["output.name=014", "algorithm.learning_rate=+1.0e-5", "seed=14"]):
        config = read_config(write(tmp_path, text), overrides)
        assert (config.seed, config.output.name, config.dataset.train_split) == (
            14,
            "014",
            "test[1:30]",
        )
        assert config.algorithm.learning_rate == 1e-5
        assert config.algorithm.kl == KLOptions(kl_coefficient=0.5)


@pytest.mark.parametrize(
    ("encoding", "message"),
    [
        ("utf-16", "is in UTF-16: write the file in UTF-8, as with iconv -f utf-16 -t utf-8"),
        ("latin-1", ", line 2: the byte 0xfc is not UTF-8: .* iconv -f latin1 -t utf-8"),
    ],
)
def test_a_configuration_in_another_encoding_is_refused_as_data_are(
    tmp_path: Path, encoding: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "c.yaml"
    path.write_bytes("seed: 1\n# für\n".encode(encoding))
    for read in (read_config, load_suite):
        with pytest.raises(ConfigError, match=f"^{path}{' ' * (encoding == 'utf-16')}{message}"):
            read(path)
    assert call("train", "--config", str(path), "--dry-run") == 2
    assert f"error: {path}" in capsys.readouterr().err


def test_a_byte_order_mark_of_utf_8_does_no_harm(tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    path.write_bytes("seed: 3  # für\n".encode("utf-8-sig"))
    assert read_config(path).seed == 3
