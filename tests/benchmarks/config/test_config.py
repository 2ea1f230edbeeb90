"""Layers of a configuration, their defaults, and refused values."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from operator import attrgetter
from pathlib import Path
from typing import Any

import pytest

import llm_decpomdp
from llm_decpomdp.agents.single_model import load_policy
from llm_decpomdp.algorithms import NAMES
from llm_decpomdp.algorithms.critics.options import CriticOptions
from llm_decpomdp.benchmarks.analysis.credit_summary import credit_folder
from llm_decpomdp.benchmarks.audit.run import audit
from llm_decpomdp.benchmarks.cli import check, publish, results
from llm_decpomdp.benchmarks.cli.evaluate import eval_
from llm_decpomdp.benchmarks.config.errors import ConfigError
from llm_decpomdp.benchmarks.config.load import find_config, shipped
from llm_decpomdp.benchmarks.config.schema import ARGUMENTS, Config
from llm_decpomdp.benchmarks.evaluation.request import EvalRequest
from llm_decpomdp.benchmarks.evaluation.run import evaluate
from llm_decpomdp.benchmarks.export.write import export
from llm_decpomdp.benchmarks.report.document import report
from llm_decpomdp.benchmarks.runs.setup import (
    learner_options,
    load_config,
    load_stored_config,
    team_spec,
)
from llm_decpomdp.benchmarks.runs.setup_checks import start_cost
from llm_decpomdp.branching import is_turn_based
from llm_decpomdp.registry import accepts_argument, defaults, registered_ids

LARGE_TREE = "algorithm.rollout.mode=tree & algorithm.joint_mode=cross & env.num_turns=3"


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str], Path]:
    def write(text: str) -> Path:
        path = tmp_path / "some.yaml"
        path.write_text(text)
        return path

    return write


def test_a_configuration_survives_its_file(write: Callable[[str], Path]) -> None:
    overrides = ["model.lora={r: 4}", "env.num_turns=2", "algorithm.turn_gradient_weights=[1,2]"]
    overrides += ["team={aux_0: a, main_0: b}", "policies={a: {lora: null}, b: {kind: gold}}"]
    config = load_config(None, [*overrides, "external.sandbox_slice=all", "output.name=x"])
    assert load_config(write(config.to_yaml())) == config


def test_the_comments_of_the_demo_are_the_defaults(write: Callable[[str], Path]) -> None:
    text = find_config("demo").read_text(encoding="utf-8")
    lines = re.findall(r"^ *# (\w+): ", text, re.MULTILINE)
    assert {"tokens_per_pass", "branch_selection", "stop"} <= {*lines}
    explicit = write(re.sub(r"^( *)# (?=\w+: )", r"\1", text, flags=re.MULTILINE))
    assert load_config(explicit) == load_config(find_config("demo"))


def test_later_layers_win(write: Callable[[str], Path]) -> None:
    path = write("algorithm: {learning_rate: 0.1, num_generations: 3}\nmodel: {name: file}\n")
    overrides = ["algorithm.learning_rate=0.2", "model.name=override"]
    defaults = {"algorithm.num_generations": 9, "algorithm.prompts_per_update": 5, "seed": 1}
    config = load_config(path, overrides, {"model.name": "flag"}, defaults)
    assert config.algorithm.train_batch_size == 5
    assert config.algorithm.group_size == 3
    assert config.algorithm.learning_rate == 0.2
    assert config.model.name == "flag"


def test_text_stays_as_it_is_written() -> None:
    items = ["output.name=007", "output.save_path=1e5", "model_name=2.50", "model.device=true"]
    config = load_config(None, items)
    assert (config.output.name, config.output.save_path) == ("007", "1e5")
    assert (config.model.name, config.model.device) == ("2.50", "true")
    assert load_config(None, ["output.name='none'"]).output.name == "none"
    assert load_config(None, ["output.name=run #3"]).output.name == "run #3"
    assert load_config(None, ["output.name=none"]).output.name is None


def test_more_arguments_of_environments_are_merged(write: Callable[[str], Path]) -> None:
    path = write("env: {id: bugfix-v0, options: {bugs: 3, spread: across}}")
    text = ["dataset.train_split=train", "dataset.eval_split=test", "env.options.bugs=2"]
    config = load_config(path, text)
    assert config.env.options == {"bugs": 2, "spread": "across"}
    arguments = config.make_env("train", "bundled").spec_kwargs
    assert (arguments["bugs"], arguments["spread"]) == (2, "across")


def test_a_mapping_of_an_item_replaces_that_of_the_file(write: Callable[[str], Path]) -> None:
    path = write("model: {lora: {r: 8, lora_alpha: 4}}\nteam: {aux_0: a, main_0: a}")
    assert load_config(path, ["model.lora={r: 2}"]).model.lora == {"r": 2}
    assert load_config(path, ["model.lora={}"]).model.lora == {}
    assert load_config(path, ["team={}"]).team == {}
    path = write("policies: {aux_0: {max_new_tokens: 40}, main_0: {max_new_tokens: 96}}")
    found = load_config(path, ["policies.aux_0={kind: random}", "policies.main_0.max_new_tokens=9"])
    assert found.policies == {"aux_0": {"kind": "random"}, "main_0": {"max_new_tokens": 9}}


def test_null_clears_an_optional_value(write: Callable[[str], Path]) -> None:
    path = write("model: {lora: {r: 8}}")
    assert load_config(path).model.lora == {"r": 8}
    assert load_config(path, ["model.lora.lora_alpha=4"]).model.lora == {"r": 8, "lora_alpha": 4}
    assert load_config(path, ["model.lora=null"]).model.lora is None


def test_null_turns_a_section_off(write: Callable[[str], Path]) -> None:
    path = write("algorithm: {critic: joint, objective: }\nmodel:")
    assert load_config(path).algorithm.critic is not None
    for null in ("algorithm.critic=null", "magrpo.critic=null"):
        assert load_config(path, [null]).algorithm.critic is None


@pytest.mark.parametrize(
    ("override", "expected"),
    {
        "seed=x": "seed must be .*'x'",
        "seed=-1": "seed must be at least 0",
        "env.stop_when_solved=2": "env.stop_when_solved must be true or false, got 2",
        "env.num_turns=two": "env.num_turns must .*'two'",
        "env.num_turns=0": "env.num_turns must be at least 1",
        "env.num_agents=0": "num_agents must be",
        "env.discount=1.1": "env.discount must be at most 1, got 1.1",
        "env.options={matching: word}": "coophumaneval-v0: unknown argument 'matching'",
        "env.options={num_turns: 3}": "env.options: 'num_turns' has a key of its own",
        "env.options=[a]": r"env.options must be a mapping .*, got \['a'\]",
        "env.id=coophuman-v0": "did you mean 'coophumaneval-v0'",
        "external.mode=pased": "did you mean 'passed'",
        "external.sandbox_slice=1.5": "sandbox_slice must be a whole number",
        "external.mode=expert_edits": "needs expert_model",
        "dataset.train_split=train": "unknown split 'train'",
        "dataset.eval_split=test[": "split must look like",
        "model.name=null": "model.name",
        "model.temperature=0": "model.temperature must be above 0",
        "model.top_p=0": "model.top_p must be above 0",
        "model.top_p=1.1": "model.top_p must be at most 1",
        "model.top_k=-1": "model.top_k must be at least 0",
        "model.max_new_tokens=0": "model.max_new_tokens must be at least 1",
        "model.max_prompt_tokens=0": "model.max_prompt_tokens must be at least 1",
        "model.on_long_prompt=cut": "unknown model.on_long_prompt 'cut'.*truncate_left",
        "model.compute_dtype=float16": "unknown model.compute_dtype 'float16'",
        "algorithm.name=grop": "did you mean 'grpo'",
        "algorithm.name=grpo": "grpo trains one agent, and the team has 2: .*num_agents=1",
        "algorithm.num_generations=0": "algorithm.group_size must be at least 1, got 0",
        "algorithm.num_generations=1": (
            "magrpo compares completions .* must be at least 2, got 1: raise it, or use iac"
        ),
        "algorithm.learning_rate=nan": "algorithm.learning_rate must be a finite number, got 'nan'",
        "algorithm.rollout.branch_selection=worst": "unknown algorithm.rollout.branch_selection 'worst'",
        "algorithm.rollout.mode=trees": "unknown algorithm.rollout.mode 'trees'; did you mean 'tree'",
        "algorithm.joint_mode=cros": "joint_mode 'cros'; did you mean 'cross'",
        "algorithm.num_partners=2": (
            "num_partners=2 means nothing with joint_mode=aligned: set joint_mode to common"
        ),
        "algorithm.loss=mean": "unknown algorithm.loss 'mean'",
        "algorithm.lr_schedule=cosin": "did you mean 'cosine'",
        "algorithm.truncation.mode=drop": "unknown algorithm.truncation.mode 'drop'",
        "algorithm.truncation.overlong_penalty=1": "truncation: overlong_penalty=1 means nothing with mode=train",
        "algorithm.truncation.mode=penalise": "algorithm.truncation: mode=penalise and",
        "algorithm.num_iterations=0": "algorithm.num_iterations must be at least 1",
        "algorithm.clip_range=0": "algorithm.objective.clip_range must be above 0",
        "algorithm.clip_range=1": "algorithm.objective.clip_range must be below 1, got 1",
        "algorithm.kl.coefficient=-1": "algorithm.kl.coefficient must be at least 0",
        "algorithm.kl=k3": "algorithm.kl.placement=k3 is refused: as a reward k3 has the gradient of another",
        "algorithm.objective=gspo": "objective.name=gspo means nothing with num_iterations=1",
        "algorithm.warmup_updates=-1": "algorithm.warmup_updates must be at least 0",
        "algorithm.weight_decay=-1": "algorithm.weight_decay must be at least 0",
        "algorithm.max_grad_norm=0": "algorithm.max_grad_norm must be above 0",
        "algorithm.turn_gradient_weights=[-1]": "must be at least 0",
        "algorithm.turn_gradient_weights=1.2": r"must be a list of numbers such as .*, got 1\.2",
        "algorithm.turn_gradient_weights=[a]": r"turn_gradient_weights\[0\] must be a number, got 'a'",
        "algorithm.learning_rate=true": "algorithm.learning_rate must be a number, got True",
        "algorithm.num_generations=4.5": "group_size must be a whole number, got 4.5",
        "seed=null": "seed must be a whole number, got None",
        "model.name=[a]": r"model.name must be text, got \['a'\]",
        "output.name=${model.nam}": "model.nam",
        "evaluation.num_tasks=-1": "evaluation.num_tasks must be at least 0",
        "evaluation.every=-1": "evaluation.every must be at least 0",
        "output.save_final_model=[1]": "output.save_final_model",
        "output.keep_checkpoints=0": "output.keep_checkpoints must be at least 1",
        "algorithm.name=mareinforce & algorithm.normalize_advantages=true": (
            "section algorithm: mareinforce .* set max_grad_norm"
        ),
        "env.num_turns=3 & algorithm.turn_gradient_weights=[1.2,0.8]": "one weight for each of num_turns=3",
        "algorithm.rollout.mode=tree & algorithm.rollout.branch_selection=best": (
            "branch_selection=best means nothing with mode=tree: set mode to chain"
        ),
        f"{LARGE_TREE} & algorithm.num_generations=16": "16,843,008 steps",
        "output.keep_best=true & evaluation.num_tasks=0": "keep_best needs evaluations",
        "algorithm.name=iac & algorithm.critic=joint": (
            r"iac has critic.scope=own, and critic.scope=joint is set: drop it, .* maac"
        ),
        "algorithm.name=iac & algorithm.rollout.mode=tree": "scope=own means nothing with rollout.mode=tree",
        "algorithm.name=iac & algorithm.normalize_advantages=true": (
            "iac does not center the returns .* set max_grad_norm"
        ),
        "algorithm.critic.td_lambda=0.5": (
            r"critic: td_lambda=0\.5 means nothing with scope=none: set scope to joint or own"
        ),
        "algorithm.name=rae & algorithm.options.decay=2": (
            r"algorithm\.options: decay must be below 1, got 2"
        ),
        "algorithm.options.decay=0.9": r"algorithm\.options: magrpo has no options of its own",
        "env.id=probe-turns-v0 & env.num_turns=1": "probe-turns-v0 always has 2; drop it",
    }.items(),
)
def test_a_bad_value_is_refused_by_its_key(override: str, expected: str) -> None:
    with pytest.raises(ConfigError, match=expected):
        load_config(None, override.split(" & "))


@pytest.mark.parametrize("text", ["- 1\n", "a: [\n", "a: ${b}\n"])
def test_a_file_without_configuration_is_named(write: Callable[[str], Path], text: str) -> None:
    with pytest.raises(ConfigError, match=r"some\.yaml"):
        load_config(write(text))


def test_an_environment_that_is_named_wins_over_a_data_sets_name() -> None:
    named = ["env.id=coophumaneval-v0", "dataset.name=openai/openai_humaneval"]
    assert load_config(None, named).env.id == "coophumaneval-v0"
    assert load_config(None, named[1:]).env.id == "humaneval-v0"


def test_refused_values_are_taken_where_they_make_sense() -> None:
    tree = load_config(None, [*LARGE_TREE.split(" & "), "algorithm.num_generations=4"])
    assert start_cost(tree).joint_samples == 4368
    bounded = ["algorithm.name=mareinforce", "algorithm.normalize_advantages=true"]
    assert load_config(None, [*bounded, "algorithm.max_grad_norm=1.0"])
    # A single turn ignores the weights of several.
    weights = "algorithm.turn_gradient_weights=[1.2,0.8]"
    assert load_config(None, ["env.num_turns=1", weights]).env.num_turns == 1
    single = ["algorithm.critic.td_lambda=0.5", "algorithm.num_generations=1"]
    critic = load_config(None, ["algorithm.name=maac", *single]).algorithm.critic
    assert critic == CriticOptions(td_lambda=0.5)
    decay = load_config(None, ["algorithm.name=rae", "algorithm.options={decay: 0.9}"])
    assert decay.algorithm.options == {"decay": 0.9}


def test_one_word_swaps_the_algorithm() -> None:
    assert len(NAMES) == len(set(NAMES)) > 5
    for name in NAMES:
        agents = 1 if name == "grpo" else 2
        config = load_config(None, [f"algorithm.name={name}", f"env.num_agents={agents}"])
        assert config.algorithm.name == name
    for name in set(NAMES) - {"grpo"}:
        load_config(None, [f"algorithm.name={name}", "env.num_agents=1"])


def test_the_fixed_length_is_that_of_the_longest_completion_that_is_trained() -> None:
    agents = ["aux_0", "main_0"]
    team = ["team={aux_0: a, main_0: b}", "model.max_new_tokens=40", "policies.a.max_new_tokens=60"]
    config = load_config(None, team)
    assert learner_options(config, 1, team_spec(config, agents)).fixed_length == 60
    frozen = load_config(None, [*team, "policies.a.trainable=false"])
    assert learner_options(frozen, 1, team_spec(frozen, agents)).fixed_length == 40


DATA = {"split": "", "source": ""}


def named(env_id: str) -> list[str]:
    """Overrides that say no more than the environment and, as they must, its splits and its kind of rollouts."""
    split = defaults(env_id).get("split")
    splits = [f"dataset.{which}_split={split}" for which in ("train", "eval") if split]
    alone = defaults(env_id).get("num_agents") == 1
    turns = ["algorithm.rollout.mode=episodes"] * is_turn_based(llm_decpomdp.make(env_id))
    return [f"env.id={env_id}", *splits, *["algorithm.name=grpo"] * alone, *turns]


@pytest.mark.parametrize("env_id", registered_ids())
def test_a_configuration_that_names_an_environment_plays_what_make_builds(env_id: str) -> None:
    config, own = load_config(None, named(env_id)), defaults(env_id)
    env, built = config.make_env(config.dataset.eval_split), llm_decpomdp.make(env_id)
    for key, argument in ARGUMENTS.items():
        if accepts_argument(env_id, argument):
            assert attrgetter(key)(config) == own[argument] == env.spec_kwargs[argument], key
    assert (env.num_turns, env.discount, env.stop_when_solved) == (
        built.num_turns,
        built.discount,
        built.stop_when_solved,
    )
    assert {**env.spec_kwargs, **DATA}.items() <= {**own, **DATA}.items()


def test_an_override_of_the_environment_brings_its_own_defaults(tmp_path: Path) -> None:
    for config in (
        load_config(find_config("demo"), ["env.id=classeval-v0", "env.num_turns=2"]),
        load_config(None, ["env.id=classeval-v0"]),
    ):
        assert config.external.mode == "code_feedback"
        assert config.make_env("test").mode.name == "code_feedback"  # type: ignore[attr-defined]
    chosen = load_config(None, ["env.id=classeval-v0", "external.mode=plain"])
    assert chosen.external.mode == "plain"
    stored = tmp_path / "config.yaml"
    stored.write_text(chosen.to_yaml())
    assert load_config(stored) == chosen


def test_a_null_is_what_it_is_in_python() -> None:
    env = load_config(None, ["external.sandbox_slice=null"]).make_env("test", "bundled")
    assert env.spec_kwargs["sandbox_slice"] is None
    assert env.mode.options.visible_tests("abc") == tuple("abc")  # type: ignore[attr-defined]
    with pytest.raises(ConfigError, match=r"env\.num_turns must be a whole number, got None"):
        load_config(None, ["env.num_turns=null"])


def test_sizes_of_another_environment_are_forgotten() -> None:
    assert load_config(find_config("demo"), ["env.id=probe-turns-v0"]).env.num_turns == 2


def test_models_are_loaded_alike() -> None:
    model = vars(Config().model)
    usual = {p.name: p.default for p in inspect.signature(load_policy).parameters.values()}
    common = usual.keys() & model.keys() - {"name"}
    assert common and {key: usual[key] for key in common} == {key: model[key] for key in common}


def same(value: Any) -> Any:
    """Nothing chosen, however it is written."""
    return None if value == () else value


@pytest.mark.parametrize(
    ("command", "function"),
    [
        (eval_, EvalRequest),
        (eval_, evaluate),
        (results.crossplay, EvalRequest),
        (results.crossplay, evaluate),
        (results.credit, credit_folder),
        (check.data, audit),
        (publish.export, export),
        (results.report, report),
    ],
)
def test_commands_are_functions(command: Callable[..., Any], function: Callable[..., Any]) -> None:
    options, arguments = (inspect.signature(each).parameters for each in (command, function))
    for name in options.keys() & arguments.keys():
        told = (options[name].default, arguments[name].default)
        if inspect.Parameter.empty not in told:
            assert same(told[0]) == same(told[1]), name


@pytest.mark.parametrize("path", shipped().values(), ids=shipped())
def test_a_shipped_configuration_says_itself_what_others_may_have_otherwise(path: Path) -> None:
    text = path.read_text()
    for key in ("num_agents", "num_turns", "temperature", "top_p", "max_new_tokens"):
        assert f"\n  {key}:" in text, key
    if load_stored_config(path).env.num_turns > 1:
        for key in ("mode", "original_prompt", "previous_response"):
            assert f"\n  {key}:" in text, key
    elif re.search(r"^ *early_termination_threshold", text, re.MULTILINE):  # no comment
        assert "\n  early_termination_weight:" in text


def test_files_in_an_older_spelling_keep_the_defaults_of_their_time(tmp_path: Path) -> None:
    old, new = tmp_path / "old.yaml", tmp_path / "new.yaml"
    old.write_text("magrpo: {num_generations: 3}\n")
    new.write_text("algorithm: {num_generations: 3}\n")
    found = load_config(old)
    assert (found.env.num_turns, found.model.temperature, found.model.top_p) == (1, 0.7, 0.9)
    found = load_config(new, ["magrpo.learning_rate=1e-5"])
    assert (found.env.num_turns, found.model.temperature, found.model.top_p) == (2, 1.0, 1.0)


def test_a_file_may_be_named_by_a_text(tmp_path: Path) -> None:
    path = tmp_path / "run.yaml"
    path.write_text("algorithm: {group_size: 1.5}\n")
    with pytest.raises(ConfigError, match=r"group_size must be a whole number, got 1\.5"):
        load_config(str(path))
