from __future__ import annotations

from pathlib import Path

import pytest

from llm_decpomdp.benchmarks.config import load_config
from llm_decpomdp.benchmarks.errors import ConfigError
from llm_decpomdp.benchmarks.shipped import FOLDER, description, find_config, shipped

# epochs, learning rate, temperature, top_p, threshold, compute dtype
SEEDS = {
    "grpo_he_config": (8, 1e-5, 0.8, 0.95, 2.1, "auto"),
    "grpo_che_config": (16, 1e-5, 0.8, 0.95, 2.1, "auto"),
    "magrpo_he_config": (8, 2e-5, 0.7, 0.9, 4.0, "auto"),
    "magrpo_che_config": (16, 2e-5, 0.8, 0.95, 4.0, "auto"),
    "mt_grpo_he_config": (6, 2e-5, 0.8, 0.95, 2.1, "bfloat16"),
    "mt_grpo_che_config": (8, 2e-5, 0.8, 0.95, 2.1, "bfloat16"),
    "mt_magrpo_he_config": (6, 2e-5, 0.7, 0.9, 4.0, "bfloat16"),
    "mt_magrpo_che_config": (8, 2e-5, 0.8, 0.95, 4.0, "bfloat16"),
}


MBPP = {
    "grpo_mbpp_config": (1, 1, 2.0),
    "magrpo_mbpp_config": (2, 1, 3.8),
    "mt_grpo_mbpp_config": (1, 2, 2.0),
    "mt_magrpo_mbpp_config": (2, 2, 3.8),
}
"""Agents, turns, threshold."""


# model, temperature, top_p, tokens, epochs, generations, learning rate, threshold, updates between evaluations
CLASSEVAL = ("Qwen/Qwen3-4B-Instruct-2507", 0.6, 0.6, 600, 13, 2, 1e-5, 5.8, 10)
BUGFIX = ("Qwen/Qwen2.5-Coder-3B", 0.8, 0.95, 512, 1, 4, 2e-5, 2.8, 20)
OTHERS = {
    "grpo_classeval_config": CLASSEVAL,
    "magrpo_classeval_config": CLASSEVAL,
    "grpo_bugfix_config": BUGFIX,
    "magrpo_bugfix_config": BUGFIX,
}


def test_the_configurations_of_these_families_are_complete() -> None:
    families = ("_he_config", "_che_config", "_mbpp_config", "_classeval_config", "_bugfix_config")
    found = {name for name in shipped() if name.endswith((*families, "demo"))}
    assert found == {*SEEDS, *MBPP, *OTHERS, "demo"}


@pytest.mark.parametrize("name", OTHERS)
def test_a_configuration_for_classes_and_repairs_trains_over_two_turns(name: str) -> None:
    config = load_config(find_config(name))
    algorithm, model, kind = config.algorithm, config.model, name.split("_")[1]
    found = (model.name, model.temperature, model.top_p, model.max_new_tokens)
    found += (algorithm.num_train_epochs, algorithm.num_generations, algorithm.learning_rate)
    found += (algorithm.early_termination_threshold, config.evaluation.every)
    assert found == OTHERS[name]
    alone = name.startswith("grpo")
    assert (config.env.id, config.env.num_agents) == (f"{kind}-v0", 1 if alone else 2)
    assert (config.env.num_turns, config.env.discount) == (2, 0.9)
    assert (algorithm.name, algorithm.plan) == ("grpo" if alone else "magrpo", "tree")
    train, evaluation = config.dataset.train_split, config.dataset.eval_split
    if kind == "classeval":
        assert (train, evaluation) == ("test[:66%]", "test[66%:82%]")  # of a hundred classes
    else:
        assert (train, evaluation) == ("train", "test")


@pytest.mark.parametrize("name", MBPP)
def test_a_configuration_for_mbpp_has_the_constants_of_its_authors(name: str) -> None:
    config = load_config(find_config(name))
    algorithm, model = config.algorithm, config.model
    agents, turns, threshold = MBPP[name]
    assert (config.env.id, config.env.num_agents, config.env.num_turns) == (
        "mbpp-v0",
        agents,
        turns,
    )
    assert algorithm.name == ("grpo" if agents == 1 else "magrpo")
    assert (algorithm.num_train_epochs, algorithm.learning_rate) == (8, 3e-5)
    assert (algorithm.num_generations, algorithm.early_termination_threshold) == (4, threshold)
    assert (model.temperature, model.top_p, model.top_k) == (0.8, 0.95, None)
    assert (config.dataset.train_split, config.dataset.eval_split) == ("test[15:65]", "test[:15]")
    assert (config.evaluation.every, config.evaluation.num_tasks) == (20, 15)
    several = (algorithm.plan, algorithm.joint_mode, config.env.discount)
    assert several == (("tree", "aligned", 0.9) if turns == 2 else ("chain", "aligned", 1.0))


@pytest.mark.parametrize("name", [*SEEDS, *MBPP, *OTHERS])
def test_a_configuration_builds_the_environments_of_both_its_splits(name: str) -> None:
    config = load_config(find_config(name))
    for split in (config.dataset.train_split, config.dataset.eval_split):
        env = config.make_env(split, "bundled")
        observations, _ = env.reset(seed=0)
        assert len(observations) == config.env.num_agents


@pytest.mark.parametrize("name", SEEDS)
def test_a_configuration_has_the_hyperparameters_of_the_seeds(name: str) -> None:
    config = load_config(find_config(name))
    algorithm, model, external = config.algorithm, config.model, config.external
    found = (algorithm.num_train_epochs, algorithm.learning_rate, model.temperature, model.top_p)
    found += (algorithm.early_termination_threshold, model.compute_dtype)
    assert found == SEEDS[name]
    several, alone, coop = name.startswith("mt_"), "magrpo" not in name, "che" in name
    assert config.env.id == ("coophumaneval-v0" if coop else "humaneval-v0")
    assert config.env.num_agents == (1 if alone else 2)
    assert config.env.num_turns == (2 if several else 1)
    assert algorithm.turn_gradient_weights == ([1.2, 0.8] if several else None)
    assert algorithm.name == ("grpo" if alone else "magrpo")
    assert (algorithm.num_generations, algorithm.prompts_per_update) == (4, 1)
    assert (algorithm.early_termination_weight, algorithm.handoff) == (2.0, "random")
    assert (model.name, model.max_new_tokens) == ("Qwen/Qwen2.5-Coder-3B", 256)
    assert (external.mode, external.sandbox_slice) == ("level_feedback", 1)
    assert (external.original_prompt, external.previous_response) == (True, True)
    splits = ("test[16:]", "test[:16]") if coop else ("test[33:163]", "test[:32]")
    assert (config.dataset.train_split, config.dataset.eval_split) == splits


def test_the_demo_trains_two_models_of_their_own_without_a_hub() -> None:
    config = load_config(find_config("demo"))
    assert config.model.name == "smollm2-135m-instruct"
    assert (config.env.num_agents, config.model.shared) == (2, False)


@pytest.mark.parametrize("path", shipped().values(), ids=shipped())
def test_a_configuration_says_what_it_is(path: Path) -> None:
    assert path.read_text().startswith("# ")
    assert description(path)[0].isupper()


@pytest.mark.parametrize("spelled", ["demo", "demo.yaml", str(FOLDER / "demo.yaml")])
def test_a_configuration_is_found_by_name_and_by_path(spelled: str) -> None:
    assert find_config(spelled).samefile(FOLDER / "demo.yaml")


@pytest.mark.parametrize(
    "spelled", ["magrpo_mt_he_config", str(FOLDER / "magrpo_mt_he_config.yaml")]
)
def test_the_other_names_of_the_multi_turn_files_work(spelled: str) -> None:
    assert find_config(spelled) == FOLDER / "mt_magrpo_he_config.yaml"


@pytest.mark.parametrize(
    ("spelled", "expected"),
    [
        ("magrpo_hee_config", "did you mean 'magrpo_he_config'"),
        ("elsewhere/magrpo_he_config.yaml", "no file 'elsewhere/magrpo_he_config.yaml'"),
        ("mt_magrpo_tldr_config.yaml", "did you mean 'magrpo_tldr_config'"),
    ],
)
def test_a_missing_configuration_is_an_error_that_says_what_exists(
    spelled: str, expected: str
) -> None:
    with pytest.raises(ConfigError, match=expected):
        find_config(spelled)
