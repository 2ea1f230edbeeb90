"""Runs of actor-critic, centralized and writing configurations."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from llm_decpomdp.benchmarks import load_config, train
from llm_decpomdp.benchmarks.cli.run_text import conclude
from llm_decpomdp.benchmarks.config.errors import ConfigError
from llm_decpomdp.benchmarks.config.load import find_config
from llm_decpomdp.benchmarks.export.source import EpisodeSource
from llm_decpomdp.benchmarks.runs.results import read_results
from llm_decpomdp.benchmarks.runs.resume import resume
from llm_decpomdp.utils.storage import RunFolder, read_json_lines
from llm_decpomdp.wrappers.centralized import TEAM
from tests.support.commands import call


@pytest.mark.parametrize(("name", "size"), [("iac", 1), ("coma", 2)])
def test_actor_critics_by_name(name: str, size: int, quick: list[str], tmp_path: Path) -> None:
    own = [f"algorithm.name={name}", f"algorithm.num_generations={size}", "output.report=false"]
    own += ["algorithm.normalize_advantages=false"]  # the demo sets it
    short = ["algorithm.max_updates=1", "output.checkpoint_every=1", "evaluation.num_tasks=1"]
    train(load_config(find_config("demo"), [*quick, *own, *short]), "demo")
    longer = resume(tmp_path / "run", ["algorithm.max_updates=2"])
    assert longer.summary["updates"] == 2 and longer.config.algorithm.critic is None
    rows = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").open()]
    (first, second) = (row for row in rows if row["kind"] == "train")
    key = "turn_1/explained_variance" if name == "iac" else "turn_1/explained_differences"
    assert key in first and key in second
    decisions = list(EpisodeSource(tmp_path / "run").decisions("train"))
    assert decisions and not any(one.advantages for one in decisions)  # no critic is in the folder


GRPO = ["algorithm.name=grpo", "env.centralized=true", "output.save_final_model=true"]


@pytest.fixture
def run(quick: list[str], tmp_path: Path) -> Path:
    """The folder of a short training, with its final team."""
    overrides = [*quick, *GRPO, "algorithm.max_updates=1"]
    assert call("train", "--config", "demo", "--override", *overrides) == 0
    return tmp_path / "run"


def test_one_agent_is_trained_evaluated_played_and_credited(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    results = read_results(RunFolder(run))
    assert results.train[0]["untagged"] == 1.0
    assert set(results.scores[0].characters) == {TEAM}
    assert load_config(run / "config.yaml").env.centralized
    assert (run / "report.html").is_file() and (run / "final_model" / TEAM).is_dir()
    evaluation = tmp_path / "evaluation"
    assert call("eval", "--team", str(run), "--output", str(evaluation), "--tasks", "1") == 0
    gold = ["--env-option", "centralised=true", "--source", "bundled", "--policy", "gold"]
    assert call("play", "coophumaneval-v0", *gold, "--seed", "0") == 0
    assert "<aux_0>" in capsys.readouterr().out
    for command in (["credit", str(evaluation)], ["rescore", str(run)], ["export", str(run)]):
        assert call(*command) == 0, command


def test_several_agents_are_refused(quick: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    for baseline in ("sequential_pipeline", "single_agent_matched"):
        overrides = [*quick, "env.centralized=true"]
        assert call("eval", "--config", "demo", "--baseline", baseline, "--override", *overrides)
        assert "drop env.centralized" in " ".join(capsys.readouterr().err.split())
    team = ["env.centralized=true", "team={aux_0: a, main_0: b}"]
    assert call("train", "--config", "demo", "--override", *quick, *team)
    assert TEAM in capsys.readouterr().err


NAMES = ("grpo_tldr_config", "grpo_arxiv_config", "magrpo_tldr_config", "magrpo_arxiv_config")


@pytest.mark.parametrize("name", NAMES)
def test_a_configuration_has_the_hyperparameters_of_the_seeds(name: str) -> None:
    config = load_config(find_config(name))
    algorithm, genre = name.split("_")[:2]
    assert (config.env.id, config.env.num_turns) == (f"{genre}-v0", 1)
    assert config.env.num_agents == (1 if algorithm == "grpo" else 2)
    assert config.algorithm.name == algorithm
    assert (config.algorithm.num_train_epochs, config.algorithm.learning_rate) == (1, 5e-6)
    assert config.algorithm.group_size == 4
    assert config.model.name == "Qwen/Qwen3-1.7B"
    assert config.model.max_new_tokens == (512 if name == "grpo_arxiv_config" else 256)
    evaluation = "test[:1000]" if genre == "tldr" else "val[:1000]"
    assert (config.dataset.train_split, config.dataset.eval_split) == ("train[:1000]", evaluation)
    assert config.output.save_final_model


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("version", ["v0", "v1"])
def test_both_splits_can_be_made_in_both_versions(name: str, version: str) -> None:
    genre = name.split("_")[1]
    config = load_config(find_config(name), [f"env.id={genre}-{version}"])
    train, evaluation = (
        config.make_env(split, source="bundled")
        for split in (config.dataset.train_split, config.dataset.eval_split)
    )
    assert (len(train.tasks), len(evaluation.tasks)) == (45, 15)
    assert not set(train.tasks.positions) & set(evaluation.tasks.positions)


def test_several_turns_of_v0_are_refused_and_of_v1_are_not() -> None:
    with pytest.raises(ConfigError, match="tldr-v1 has more"):
        load_config(find_config("magrpo_tldr_config"), ["env.num_turns=2"])
    config = load_config(find_config("magrpo_tldr_config"), ["env.num_turns=2", "env.id=tldr-v1"])
    assert config.make_env("train", source="bundled").num_turns == 2


def test_a_key_that_the_family_does_not_know_is_an_error_once_it_is_set() -> None:
    with pytest.raises(ConfigError, match="tldr-v0: unknown argument 'isolation'"):
        load_config(find_config("magrpo_tldr_config"), ["env.isolation=require"])


@pytest.mark.parametrize("name", ["magrpo_tldr_config", "grpo_arxiv_config"])
def test_a_tiny_model_runs_from_end_to_end(name: str, quick: list[str], tmp_path: Path) -> None:
    conclude(train(load_config(find_config(name), [*quick, "output.save_final_model=false"]), name))
    folder = tmp_path / "run"
    manifest = json.loads((folder / "manifest.json").read_text())
    assert manifest["data"]["train"]["name"] == name.split("_")[1]
    assert (folder / "report.html").stat().st_size > 1000
    rows = list(read_json_lines(folder / "episodes.jsonl"))
    agents = {"writer_0"} if name.startswith("grpo") else {"summarizer_0", "elaborator_0"}
    assert set(rows[0]["groups"][0]["prompts"]) == agents
