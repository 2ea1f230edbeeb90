"""Every command line that the seeds' READMEs show means what they say, through the real parsers."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from llm_decpomdp.benchmarks.cli.scripts import parser, read
from llm_decpomdp.benchmarks.config.errors import ConfigError
from llm_decpomdp.benchmarks.config.schema import Config
from tests.benchmarks.promises import require
from tests.support.processes import ROOT

SCRIPTS = {
    "train_grpo.py": ("grpo", "grpo_he_config"),
    "train_magrpo.py": ("magrpo", "magrpo_he_config"),
    "train_mt_magrpo.py": ("magrpo", "mt_magrpo_he_config"),
}

COMMANDS = r"""
train_grpo.py --config CONFIGS/grpo_he_config.yaml
    algorithm.name=grpo env.id=humaneval-v0 env.num_agents=1
train_magrpo.py --config CONFIGS/magrpo_che_config.yaml
    algorithm.name=magrpo env.id=coophumaneval-v0 env.num_turns=1
train_magrpo.py --config CONFIGS/mt_magrpo_he_config.yaml
    env.id=humaneval-v0 env.num_turns=2
train_mt_magrpo.py --config CONFIGS/mt_magrpo_he_config.yaml
    env.id=humaneval-v0 env.num_turns=2 env.num_agents=2
train_mt_magrpo.py --config CONFIGS/magrpo_mt_che_config.yaml
    env.id=coophumaneval-v0 env.num_turns=2
train_magrpo.py --config CONFIGS/magrpo_he_config.yaml --override model_name='bigcode/starcoder2-3b'
    model.name=bigcode/starcoder2-3b
train_grpo.py --config LLM_Collaboration_with_MARL/configs/grpo_che_config.yaml --override grpo.num_train_epochs=20 grpo.learning_rate=3e-5
    env.id=coophumaneval-v0 algorithm.num_train_epochs=20 algorithm.learning_rate=3e-5
train_grpo.py --config experiments/configs/grpo_che_config.yaml --override grpo.num_train_epochs=20 grpo.learning_rate=5e-6
    dataset.eval_split=test[50:66] algorithm.num_train_epochs=20 algorithm.learning_rate=5e-6
train_magrpo.py --config CONFIGS/mt_magrpo_che_config.yaml --override dataset.train_split='test[16:]' dataset.eval_split='test[:16]' magrpo.num_turns=2 magrpo.turn_gradient_weights=[1.5,0.5]
    dataset.train_split=test[16:] dataset.eval_split=test[:16] env.num_turns=2 algorithm.turn_gradient_weights=[1.5,0.5]
train_mt_magrpo.py --config experiments/configs/mt_magrpo_che_config.yaml --override mt_magrpo.num_turns=2 mt_magrpo.turn_gradient_weights=[1.5,0.5]
    env.num_turns=2 algorithm.turn_gradient_weights=[1.5,0.5] algorithm.num_train_epochs=10 algorithm.learning_rate=1e-5
train_magrpo.py --config CONFIGS/magrpo_he_config.yaml --model_name Qwen/Qwen2.5-Coder-7B
    model.name=Qwen/Qwen2.5-Coder-7B
train_magrpo.py --config CONFIGS/mt_magrpo_he_config.yaml --num_epochs 10 --num_turns 2 --turn_gradient_weights 1.2 0.8
    algorithm.num_train_epochs=10 env.num_turns=2 algorithm.turn_gradient_weights=[1.2,0.8]
train_mt_magrpo.py --config experiments/configs/mt_magrpo_he_config.yaml --num_epochs 3 --turn_gradient_weights 1.2 0.8
    env.id=humaneval-v0 algorithm.num_train_epochs=3 algorithm.learning_rate=1e-5 algorithm.turn_gradient_weights=[1.2,0.8]
train_magrpo.py --config CONFIGS/mt_magrpo_he_config.yaml --override magrpo.external_original_prompt=True magrpo.external_previous_response=True
    external.original_prompt=true external.previous_response=true
train_magrpo.py --config CONFIGS/mt_magrpo_he_config.yaml --override magrpo.external_original_prompt=False
    external.original_prompt=false
train_magrpo.py --config CONFIGS/mt_magrpo_he_config.yaml --override external.mode='level_feedback'
    external.mode=level_feedback
train_magrpo.py --config CONFIGS/mt_magrpo_che_config.yaml --override external.mode='level_feedback' external.sandbox_slice=-2
    external.mode=level_feedback external.sandbox_slice=-2
train_magrpo.py --config CONFIGS/mt_magrpo_che_config.yaml --override external.sandbox_slice=None
    external.sandbox_slice=null
train_magrpo.py --config CONFIGS/mt_magrpo_che_config.yaml --override external.sandbox_slice='all'
    external.sandbox_slice=all
train_magrpo.py --config CONFIGS/mt_magrpo_he_config.yaml --override external.mode='plain' magrpo.handoff='best'
    external.mode=plain algorithm.handoff=best
train_grpo.py --config CONFIGS/mt_grpo_he_config.yaml --override grpo.handoff=best
    algorithm.handoff=best env.num_agents=1
train_grpo.py
    algorithm.name=grpo env.id=humaneval-v0
train_magrpo.py
    env.num_turns=1 env.id=humaneval-v0
train_mt_magrpo.py --output_base_dir here
    env.num_turns=2 output.base_dir=here
"""  # noqa: E501
"""Command lines, and below each what it promises."""


@pytest.fixture(autouse=True)
def a_key_for_the_expert(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "none")


def effective(command: str) -> Config:
    script, *arguments = shlex.split(command.replace("CONFIGS", str(ROOT / "benchmarks/configs")))
    algorithm, default = SCRIPTS[script]
    return read(algorithm, default, parser(default).parse_args(arguments))[0]


LINES = COMMANDS.strip().splitlines()


@pytest.mark.parametrize(
    ("command", "promised"), list(zip(LINES[::2], LINES[1::2], strict=True)), ids=LINES[::2]
)
def test_a_command_means_what_the_readme_says(command: str, promised: str) -> None:
    require(effective(command), promised)


def test_a_flag_wins_over_an_override() -> None:
    config = effective("train_magrpo.py --model_name flag --override model_name=override")
    assert config.model.name == "flag"


def test_several_override_flags_add_up() -> None:
    command = "train_magrpo.py --override magrpo.num_turns=2 --override magrpo.handoff=best seed=3"
    config = effective(command)
    assert (config.env.num_turns, config.algorithm.rollout.branch_selection, config.seed) == (
        2,
        "best",
        3,
    )


def test_the_splits_of_a_writing_configuration_can_be_overridden() -> None:
    command = (
        "train_magrpo.py --config experiments/configs/magrpo_tldr_config.yaml "
        "--override dataset.train_split='train[:1000]' dataset.eval_split='test[:100]'"
    )
    config = effective(command)
    assert (config.env.id, config.dataset.eval_split) == ("tldr-v0", "test[:100]")
    assert config.algorithm.learning_rate == 5e-6


@pytest.mark.parametrize(
    ("config", "override", "name"),
    [("grpo_he_config", "", "grpo"), ("magrpo_he_config", "algorithm.name=marloo", "marloo")],
)
def test_scripts_refuse_other_algorithms_by_command(config: str, override: str, name: str) -> None:
    remedy = f"use llm-decpomdp train --config {config} --override algorithm.name={name}"
    with pytest.raises(ConfigError, match=re.escape(remedy)):
        effective(f"train_magrpo.py --config {config} --override seed=1 {override}")


def test_a_users_file_without_an_algorithm_takes_that_of_the_script(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("model: {name: mine}\ndataset: {name: openai_humaneval}\n")
    config = effective(f"train_grpo.py --config {path}")
    assert (config.algorithm.name, config.env.num_agents) == ("grpo", 1)


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_script_names_its_own_configuration(script: str) -> None:
    assert (
        f'main("{SCRIPTS[script][0]}", "{SCRIPTS[script][1]}")'
        in (ROOT / "benchmarks" / script).read_text()
    )
