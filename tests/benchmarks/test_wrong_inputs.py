"""Wrong inputs of a new user: each error names the value, the rule and the remedy, before anything is loaded."""

from __future__ import annotations

import logging
import re
from pathlib import Path

import pytest
import torch

from llm_decpomdp.agents import Constant, save_team
from llm_decpomdp.benchmarks.cli.episode import make_policy
from llm_decpomdp.benchmarks.config.errors import ConfigError
from llm_decpomdp.benchmarks.config.legacy import KEY_OF
from llm_decpomdp.benchmarks.config.load import find_config
from llm_decpomdp.benchmarks.config.schema import KEYS
from llm_decpomdp.benchmarks.doctor import examine
from llm_decpomdp.benchmarks.evaluation import teams
from llm_decpomdp.benchmarks.runs.setup import load_config
from llm_decpomdp.envs.datasets.loading import DATA_FOLDER, existing
from llm_decpomdp.registry import make
from llm_decpomdp.utils import hub
from llm_decpomdp.validation import unknown
from tests.support.commands import call


def refusal(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Return the error of a command that is refused."""
    assert call(*arguments) == 2
    return capsys.readouterr().err


def written(folder: Path, text: str) -> Path:
    path = folder / "mine.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_tab_is_named(tmp_path: Path) -> None:
    path = written(tmp_path, "env:\n\tid: coophumaneval-v0\n")
    with pytest.raises(ConfigError, match=r"line 2, column 1 is a tab.*replace it by spaces"):
        load_config(path)


@pytest.mark.parametrize("text", ["", "# nothing yet\n", "env:\nmodel:\n"])
def test_an_empty_configuration_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigError, match=r"mine.yaml is empty: name at least the environment"):
        load_config(written(tmp_path, text))


def test_a_folder_is_no_configuration(tmp_path: Path) -> None:
    path = written(tmp_path, "seed: 1")
    with pytest.raises(ConfigError, match=f"is a folder: name a YAML file in it, such as {path}"):
        find_config(str(tmp_path))


def test_every_name_of_another_library_means_a_key_here() -> None:
    assert set(KEY_OF.values()) <= set(KEYS)
    assert not {f"{key.rpartition('.')[0]}.{name}" for name, key in KEY_OF.items()} & set(KEYS)


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("algorithm.num_return_sequences", "algorithm.group_size"),
        ("algorithm.n", "algorithm.group_size"),
        ("algorithm.num_samples", "algorithm.group_size"),
        ("algorithm.lr", "algorithm.learning_rate"),
        ("warm_start.lr", "warm_start.learning_rate"),
        ("algorithm.epochs", "algorithm.num_train_epochs"),
        ("model.max_tokens", "model.max_new_tokens"),
        ("algorithm.kl_coef", "algorithm.kl.coefficient"),
        ("trainer.beta", "algorithm.kl.coefficient"),
        ("algorithm.batch_size", "algorithm.train_batch_size"),
        ("algorithm.micro_batch_size", "algorithm.train_batch_size"),
        ("algorithm.eps", "algorithm.objective.clip_range"),
        ("algorithm.clip_eps", "algorithm.objective.clip_range"),
        ("algorithm.top_k", "model.top_k"),
        ("gamma", "env.discount"),
    ],
)
def test_names_of_other_libraries_are_hinted_at(tmp_path: Path, key: str, expected: str) -> None:
    with pytest.raises(ConfigError, match=f"did you mean '{expected}'") as by_override:
        load_config(find_config("demo"), [f"{key}=1"])
    section, _, name = key.rpartition(".")
    text = f"{section}:\n  {name}: 1\n" if section else f"{name}: 1\n"
    with pytest.raises(ConfigError) as by_file:
        load_config(written(tmp_path, text))
    assert str(by_file.value) == str(by_override.value)


@pytest.mark.parametrize("key", ["algorithm.qqq", "algorithm.learning_rat", "qqq"])
def test_errors_about_keys_are_short(key: str) -> None:
    with pytest.raises(ConfigError, match=r"more \(docs/configuration.md lists all\)") as told:
        load_config(find_config("demo"), [f"{key}=1"])
    assert len(str(told.value)) < 300


def test_errors_about_sections_and_configurations_are_short() -> None:
    with pytest.raises(
        ConfigError, match=r"'algorithm' is a section: set algorithm\.name, "
    ) as told:
        load_config(find_config("demo"), ["algorithm=3"])
    assert str(told.value).count("algorithm.") <= 12
    with pytest.raises(
        ConfigError, match=r"'magrpo_che_config'.*`llm-decpomdp list` shows all"
    ) as told:
        find_config("magrpo_che_confg")
    assert str(told.value).count("config") < 10


def test_an_error_lists_the_nearest_of_many_names() -> None:
    names = [f"task_{n}" for n in range(500)]
    text = unknown("task_id", "tsk_77", names, "the data has all")
    assert text.startswith("unknown task_id 'tsk_77'; did you mean 'task_77'? Valid: task_77, ")
    assert text.endswith(" and 495 more (the data has all)")


def test_a_policy_that_only_the_team_names_is_new(caplog: pytest.LogCaptureFixture) -> None:
    overrides = ["team={aux_0: novice, main_0: other}", "policies={other: {kind: gold}}"]
    with caplog.at_level(logging.INFO, logger="llm_decpomdp"):
        load_config(find_config("demo"), overrides)
        load_config(find_config("demo"), overrides)
    lines = [line for line in caplog.messages if "'novice'" in line]
    assert len(lines) == 1
    assert "declared are other" in lines[0] and "a new learner as model: says" in lines[0]


def test_a_folder_is_no_file_of_problems(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "afolder").mkdir()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=r"afolder is a folder\. A source is auto, "):
        existing("afolder")


def test_misspelt_policies_are_refused_before_the_hub(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub, "hub_reachable", lambda: pytest.fail("the hub was asked"))
    with pytest.raises(ConfigError, match="unknown policy 'goldd'; did you mean 'gold'"):
        make_policy("goldd", None, None)


def test_modules_without_register_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "registers_nothing.py").write_text("x = 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(KeyError) as told:
        make("registers_nothing:mine-v0")
    text = str(told.value.args[0])
    assert "the module 'registers_nothing' (" in text
    assert "registers_nothing.py) registers no environment 'mine-v0': call" in text
    assert "llm_decpomdp.register('mine-v0', 'registers_nothing:FUNCTION')" in text
    assert "<module" not in text and "did you mean" not in text


def test_actions_in_a_list_are_answered_with_a_mapping() -> None:
    env = make("probe-relay-v0")
    env.reset(seed=0)
    with pytest.raises(
        TypeError, match=r"a mapping such as \{'\w+_0': 'text'\}.*got a list: .*zip"
    ):
        env.step(["a", "b"])  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("model", "length", "message"),
    [
        ("tiny-random", "100000000", "model.max_new_tokens must be at most 1000000, got 100000000"),
        ("tiny-random", "16384", "model.max_new_tokens=16,384 .* context of 16,384 tokens"),
        ("FOLDER", "77", "model.max_new_tokens=77 .* has a context of 77 tokens"),
    ],
)
def test_completions_beyond_the_context_are_refused_in_a_dry_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], model: str, length: str, message: str
) -> None:
    (tmp_path / "config.json").write_text('{"max_position_embeddings": 77}')
    name = model.replace("FOLDER", str(tmp_path))
    overrides = [f"model.name={name}", f"model.max_new_tokens={length}", "dataset.source=bundled"]
    text = refusal(capsys, "train", "--config", "demo", "--dry-run", "--override", *overrides)
    assert re.search(message, text), text


def doctor(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    """Return the exit code of `doctor` without the parts that take seconds."""
    for part in ("machine", "sandbox", "model"):
        monkeypatch.setattr(examine, part, lambda: iter(()))
    return call("doctor", *arguments)


def test_doctor_fails_if_something_that_is_requested_will_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv(DATA_FOLDER, raising=False)
    monkeypatch.setitem(examine.EXTRAS, "expert", ("no-such-package",))
    assert doctor(monkeypatch) == 0
    assert "Requested" not in capsys.readouterr().out
    assert doctor(monkeypatch, "--need", "expert") == 1
    assert "Requested, and will not run:\n  extra expert" in capsys.readouterr().out
    monkeypatch.setenv(DATA_FOLDER, str(tmp_path))
    assert doctor(monkeypatch) == 0
    monkeypatch.setenv(DATA_FOLDER, str(tmp_path / "nosuch"))
    assert doctor(monkeypatch) == 1
    assert f"the folder {tmp_path}/nosuch of {DATA_FOLDER}" in capsys.readouterr().out
    assert doctor(monkeypatch, "--need", "expret") == 2
    assert "unknown name of --need 'expret'; did you mean 'expert'?" in capsys.readouterr().err


def test_doctor_fails_if_a_gpu_is_needed_and_missing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv(DATA_FOLDER, raising=False)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert doctor(monkeypatch, "--need", "gpu") == 1
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert doctor(monkeypatch, "--need", "gpu") == 0


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (
            "train --config demo --dry-run --output .",
            "names the run folder, such as runs/mine, got '.'",
        ),
        (
            "train --config demo --dry-run --override model.lora.r=0 dataset.source=bundled",
            "lora.r must be a whole number of at least 1, got 0",
        ),
        ("eval --model= --base-url http://a/v1", "--model needs the name of a model"),
        (f"bench smoke --dry-run --output {__file__}", "is a file, and .* needs a folder there"),
        ("watch .", "holds no run: name the folder of one"),
        ("check rewards build-word-v0 --output a.jsonl", "--output is for stored episodes"),
        ("play bugfix-v0 --policy=", "name gold, random, or a model, and one is empty"),
        ("play bugfix-v0 --agent nobody --partner no/model", "unknown agent 'nobody'"),
        ("eval --config demo --samples 2 --k 5", "pass@5 .* lower k, or raise samples"),
        ("eval --config demo --samples 2000000", "samples must be from 1 to 1,000,000"),
        ("eval --config demo --on-error skp", "unknown on_error 'skp'; did you mean 'skip'"),
        ("eval --config demo --allow-endpoint foo", "must look like VARIABLE@URL, .* got 'foo'"),
        (
            "eval --env build-word-v0 --baseline single_agent",
            r"plays build-word-v0 with num_agents=1, .*at least 2.*one_round_discussion",
        ),
        ("plan demo --assume length=2", "length: needs a share above 0, and at most 1, got '2'"),
        (
            "plan demo --parameters 7e9 --override model.name=tiny-random",
            "7e[+]09 changes nothing: the size of tiny-random is known",
        ),
        (
            "bench smoke --dry-run --address a:1",
            "--address and --trusted-network are of --engine ray",
        ),
        ("demonstrations mbpp-v0 --split train --output x.txt", "ends in .jsonl, got x.txt"),
        ("report . --output mine.yaml", "ends in .html, got mine.yaml"),
        ("check data mbpp-v0 --output a.jsonl", "ends in .json, got a.jsonl"),
        ("check rewards . --output mine.yaml", "ends in .jsonl, got mine.yaml"),
        ("export . --pair-kind single", "need --pairs: give that too"),
        ("export . --min-margin 3", "need --pairs: give that too"),
        ("export . --public", "--public is of the repository that --push names"),
        ("publish . --public", "--public is of the repository that --push names"),
        ("publish coophumaneval-v9", "unknown environment 'coophumaneval-v9'; did you mean"),
        ("analyze crossplay . .", "a run is named twice"),
    ],
)
def test_an_option_without_effect_or_out_of_range_is_refused_before_anything_is_loaded(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    command: str,
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    text = " ".join(refusal(capsys, *command.split()).split())
    assert re.search(message, text), text
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_a_folder_that_was_there_stays_after_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["eval", "--config", "demo", "--override", "dataset.source=bundled"]
    for name, made in (("mine", True), ("new", False)):
        folder = tmp_path / name
        if made:
            folder.mkdir()
        refusal(capsys, *command, "--baseline", "glod", "--output", str(folder))
        assert folder.exists() == made


def test_a_damaged_team_is_an_error_of_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "team.json").write_text("{")
    overrides = ["--override", "dataset.source=bundled", f"output.base_dir={tmp_path}"]
    for command in (
        ["play", "coophumaneval-v0", "--team", str(tmp_path)],
        ["train", "--config", "demo", "--from", str(tmp_path), *overrides],
    ):
        assert call(*command) == 1
        text = capsys.readouterr().err
        assert "team.json is no manifest of a team" in text and "restore it from a copy" in text


def test_the_key_of_the_nearest_section_is_named() -> None:
    with pytest.raises(ConfigError, match=r"'algorithms.name'; did you mean 'algorithm.name'\?$"):
        load_config(find_config("demo"), ["algorithms.name=magrpo"])


def test_names_of_keys_are_listed_once() -> None:
    with pytest.raises(ConfigError, match="Valid: name, ") as told:
        load_config(find_config("demo"), ["algorithm.nme=magrpo"])
    assert str(told.value).count(" name,") == 1


def test_cross_play_refuses_an_agent_and_an_output_before_it_loads_teams(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("one", "two"):
        save_team({agent: Constant("x") for agent in ("aux_0", "main_0")}, tmp_path / name)
    monkeypatch.setattr(teams, "load_teams", lambda *_: pytest.fail("teams were loaded"))
    command = ["analyze", "crossplay", str(tmp_path / "one"), str(tmp_path / "two")]
    command += ["--env", "coophumaneval-v0", "--env-option", "source=bundled"]
    text = refusal(capsys, *command, "--agent", "nobody")
    assert "unknown agent 'nobody'; Valid: aux_0, main_0" in text
    path = written(tmp_path, "seed: 1")
    assert "mine.yaml is a file" in refusal(capsys, *command, "--output", str(path))
    assert path.read_text() == "seed: 1"
