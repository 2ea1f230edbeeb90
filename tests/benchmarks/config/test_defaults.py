"""What is left out means the same in Python, in a configuration and on the command line."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from operator import attrgetter
from pathlib import Path
from typing import Any

import pytest

import llm_decpomdp
from llm_decpomdp.agents.loading import load_policy
from llm_decpomdp.benchmarks.analysis.credit_summary import credit_folder
from llm_decpomdp.benchmarks.analysis.crossplay import cross_play
from llm_decpomdp.benchmarks.audit.run import audit
from llm_decpomdp.benchmarks.cli import check, results
from llm_decpomdp.benchmarks.cli.evaluate import eval_
from llm_decpomdp.benchmarks.config.errors import ConfigError
from llm_decpomdp.benchmarks.config.inputs import find_config, shipped
from llm_decpomdp.benchmarks.config.load import ARGUMENTS, load_config, load_stored_config
from llm_decpomdp.benchmarks.config.schema import Config
from llm_decpomdp.benchmarks.evaluation.request import EvalRequest
from llm_decpomdp.benchmarks.evaluation.run import evaluate
from llm_decpomdp.benchmarks.export.write import export
from llm_decpomdp.benchmarks.report.document import report
from llm_decpomdp.registry import accepts_argument, defaults, registered_ids

DATA = {"split": "", "source": ""}


def named(env_id: str) -> list[str]:
    """Overrides that say no more than the environment and, as they must, its splits."""
    split = defaults(env_id).get("split")
    splits = [f"dataset.{which}_split={split}" for which in ("train", "eval") if split]
    alone = defaults(env_id).get("num_agents") == 1
    return [f"env.id={env_id}", *splits, *["algorithm.name=grpo"] * alone]


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


def test_sizes_of_another_environment_are_forgotten_and_wrong_ones_refused() -> None:
    assert load_config(find_config("demo"), ["env.id=probe-turns-v0"]).env.num_turns == 2
    with pytest.raises(ConfigError, match="probe-turns-v0 always has 2; drop it"):
        load_config(find_config("demo"), ["env.id=probe-turns-v0", "env.num_turns=1"])


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
        (results.crossplay, cross_play),
        (results.credit, credit_folder),
        (check.data, audit),
        (results.export, export),
        (results.report, report),
    ],
)
def test_a_command_does_what_its_function_does(
    command: Callable[..., Any], function: Callable[..., Any]
) -> None:
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
    elif "early_termination_threshold" in text:
        assert "\n  early_termination_weight:" in text


def test_files_in_an_older_spelling_keep_the_defaults_of_their_time(tmp_path: Path) -> None:
    old, new = tmp_path / "old.yaml", tmp_path / "new.yaml"
    old.write_text("magrpo: {num_generations: 3}\n")
    new.write_text("algorithm: {num_generations: 3}\n")
    found = load_config(old)
    assert (found.env.num_turns, found.model.temperature, found.model.top_p) == (1, 0.7, 0.9)
    found = load_config(new, ["magrpo.learning_rate=1e-5"])
    assert (found.env.num_turns, found.model.temperature, found.model.top_p) == (2, 1.0, 1.0)
