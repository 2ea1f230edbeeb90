from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path

import pytest

from llm_decpomdp.benchmarks.config import KEYS, Config, load_config
from llm_decpomdp.benchmarks.errors import ConfigError

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str], Path]:
    def write(text: str) -> Path:
        path = tmp_path / "some.yaml"
        path.write_text(text)
        return path

    return write


def test_something_reads_every_key() -> None:
    trees = [ast.parse(path.read_text()) for path in BENCHMARKS.glob("*.py")]
    read = {n.attr for tree in trees for n in ast.walk(tree) if isinstance(n, ast.Attribute)}
    arguments = Config().make_env("test").spec_kwargs  # the env and external sections, as a whole
    for key in KEYS:
        section, _, name = key.rpartition(".")
        if section in ("env", "external"):
            known = {"env.id", "external.mode"}
            assert name in arguments or (key in known and name in read | {"mode"}), key
        else:
            assert name in read, key


def test_a_configuration_survives_its_file(write: Callable[[str], Path]) -> None:
    overrides = ["model.lora={r: 4}", "env.num_turns=2", "algorithm.turn_gradient_weights=[1,2]"]
    config = load_config(None, [*overrides, "external.sandbox_slice=all", "output.name=x"])
    assert load_config(write(config.to_yaml())) == config


def test_later_layers_win(write: Callable[[str], Path]) -> None:
    path = write("algorithm: {learning_rate: 0.1, num_generations: 3}\nmodel: {name: file}\n")
    overrides = ["algorithm.learning_rate=0.2", "model.name=override"]
    defaults = {"algorithm.num_generations": 9, "algorithm.prompts_per_update": 5, "seed": 1}
    config = load_config(path, overrides, {"model.name": "flag"}, defaults)
    assert config.algorithm.prompts_per_update == 5
    assert config.algorithm.num_generations == 3
    assert config.algorithm.learning_rate == 0.2
    assert config.model.name == "flag"


def test_a_number_without_a_point_is_a_number_in_a_file(write: Callable[[str], Path]) -> None:
    assert load_config(write("algorithm: {learning_rate: 1e-5}")).algorithm.learning_rate == 1e-5


def test_a_boolean_override_is_a_boolean(write: Callable[[str], Path]) -> None:
    path = write("output: {save_final_model: true}")
    assert load_config(path, ["output.save_final_model=false"]).output.save_final_model is False


def test_null_clears_an_optional_value(write: Callable[[str], Path]) -> None:
    path = write("model: {lora: {r: 8}}")
    assert load_config(path).model.lora == {"r": 8}
    assert load_config(path, ["model.lora.lora_alpha=4"]).model.lora == {"r": 8, "lora_alpha": 4}
    assert load_config(path, ["model.lora=null"]).model.lora is None


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ("seed=x", "seed: .*'x'"),
        ("seed=-1", "seed must be at least 0"),
        ("env.num_turns=two", "env.num_turns: .*'two'"),
        ("env.num_turns=0", "env.num_turns must be at least 1"),
        ("env.num_agents=3", "num_agents must be"),
        ("env.discount=0.9", "credited with its own reward"),
        ("env.id=coop-v0", "did you mean 'coophumaneval-v0'"),
        ("external.mode=pased", "did you mean 'passed'"),
        ("external.sandbox_slice=1.5", "sandbox_slice must be a whole number"),
        ("external.mode=expert_edits", "needs expert_model"),
        ("dataset.train_split=train", "unknown split 'train'"),
        ("dataset.eval_split=test[", "split must look like"),
        ("model.name=null", "model.name"),
        ("model.temperature=0", "model.temperature must be above 0"),
        ("model.top_p=1.1", "model.top_p must be at most 1"),
        ("model.top_k=0", "model.top_k must be at least 1"),
        ("model.compute_dtype=float16", "unknown model.compute_dtype 'float16'"),
        ("algorithm.name=grop", "did you mean 'grpo'"),
        ("algorithm.name=grpo", "grpo trains one agent, and env.num_agents is 2"),
        ("algorithm.num_generations=1", "algorithm.num_generations must be at least 2, got 1"),
        ("algorithm.learning_rate=nan", "algorithm.learning_rate must be at least 0"),
        ("algorithm.handoff=worst", "unknown algorithm.handoff 'worst'"),
        ("algorithm.turn_gradient_weights=[-1]", "must be at least 0"),
        ("evaluation.num_tasks=-1", "evaluation.num_tasks must be at least 0"),
        ("output.save_final_model=[1]", "output.save_final_model"),
    ],
)
def test_a_bad_value_is_refused_by_its_key(override: str, expected: str) -> None:
    with pytest.raises(ConfigError, match=expected):
        load_config(None, [override])


@pytest.mark.parametrize("text", ["- 1\n", "a: [\n", "a: ${b}\n"])
def test_a_file_that_holds_no_configuration_is_named(
    write: Callable[[str], Path], text: str
) -> None:
    with pytest.raises(ConfigError, match=r"some\.yaml"):
        load_config(write(text))


def test_turn_weights_need_one_for_each_turn_and_mean_nothing_for_a_single_one() -> None:
    weights = "algorithm.turn_gradient_weights=[1.2,0.8]"
    with pytest.raises(ConfigError, match=r"one weight for each of env\.num_turns=3"):
        load_config(None, ["env.num_turns=3", weights])
    assert load_config(None, ["env.num_turns=1", weights]).env.num_turns == 1


def test_an_environment_that_is_named_wins_over_a_data_sets_name() -> None:
    named = ["env.id=coophumaneval-v0", "dataset.name=openai/openai_humaneval"]
    assert load_config(None, named).env.id == "coophumaneval-v0"
    assert load_config(None, named[1:]).env.id == "humaneval-v0"
