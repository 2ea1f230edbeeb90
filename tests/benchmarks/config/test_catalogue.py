from __future__ import annotations

from pathlib import Path

import pytest

from llm_decpomdp.benchmarks.config.catalogue import FOLDER, description, find_config, shipped
from llm_decpomdp.benchmarks.config.load import load_config

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


# epochs, temperature, top_p, train split, eval split, turns
AUGUST = {
    "grpo_he_config.2025-08": (10, 0.8, 0.95, "test[33:133]", "test[:32]", 1),
    "grpo_che_config.2025-08": (20, 0.8, 0.95, "test[:50]", "test[50:66]", 1),
    "magrpo_he_config.2025-08": (10, 0.7, 0.9, "test[33:133]", "test[:32]", 1),
    "magrpo_che_config.2025-08": (20, 0.8, 0.95, "test[:50]", "test[50:66]", 1),
    "mt_magrpo_he_config.2025-08": (7, 0.7, 0.9, "test[33:133]", "test[:32]", 2),
    "mt_magrpo_che_config.2025-08": (10, 0.8, 0.95, "test[:50]", "test[50:66]", 2),
}

# epochs, learning rate, temperature, top_p, threshold, held-out problems, train split, eval split, seed
JANUARY = {
    "magrpo_che_config.2026-01": (8, 2e-5, 0.6, 0.6, 3.8, 16, "test[16:]", "test[:16]", 42),
    "magrpo_he_config.2026-01": (6, 2e-5, 0.6, 0.6, 3.8, 32, "test[33:163]", "test[:32]", 42),
    "grpo_che_config.2026-01": (20, 2e-5, 0.8, 0.95, 2.0, 16, "test[16:]", "test[:16]", 0),
    "grpo_he_config.2026-01": (6, 2e-5, 0.6, 0.6, 2.0, 32, "test[33:163]", "test[:32]", 0),
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
    found = {name for name in shipped() if name.partition(".")[0].endswith((*families, "demo"))}
    assert found == {*SEEDS, *AUGUST, *JANUARY, *MBPP, *OTHERS, "demo"}


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
    assert (algorithm.weight_decay, config.seed) == (0.01, 42 if agents == 2 else 0)
    several = (algorithm.plan, algorithm.joint_mode, config.env.discount)
    assert several == (("tree", "aligned", 0.9) if turns == 2 else ("chain", "aligned", 1.0))


@pytest.mark.parametrize("name", AUGUST)
def test_a_configuration_of_august_has_the_hyperparameters_of_that_time(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "none")
    config = load_config(find_config(name))
    algorithm, model, external = config.algorithm, config.model, config.external
    found = (algorithm.num_train_epochs, model.temperature, model.top_p)
    found += (config.dataset.train_split, config.dataset.eval_split, config.env.num_turns)
    assert found == AUGUST[name]
    assert (algorithm.learning_rate, algorithm.num_generations) == (1e-5, 4)
    assert config.output.save_final_model
    assert algorithm.early_termination_threshold == (4.0 if "magrpo" in name else 2.1)
    if config.env.num_turns == 2:
        asked = (external.mode, external.expert_model, algorithm.handoff)
        assert asked == ("expert_edits", "claude-3-5-sonnet-20241022", "best")
        assert algorithm.turn_gradient_weights == (1.2, 0.8)
        assert (algorithm.early_termination_weight, algorithm.weight_decay) == (2.0, 0.01)


@pytest.mark.parametrize("name", JANUARY)
def test_a_configuration_of_january_has_the_hyperparameters_of_that_time(name: str) -> None:
    config = load_config(find_config(name))
    algorithm, model = config.algorithm, config.model
    found = (algorithm.num_train_epochs, algorithm.learning_rate, model.temperature, model.top_p)
    found += (algorithm.early_termination_threshold, config.evaluation.num_tasks)
    found += (config.dataset.train_split, config.dataset.eval_split, config.seed)
    assert found == JANUARY[name]
    assert (config.env.num_turns, config.env.discount, algorithm.plan) == (2, 0.9, "tree")
    assert (algorithm.joint_mode, algorithm.num_generations) == ("aligned", 4)
    assert (model.top_k, model.max_new_tokens, config.evaluation.every) == (None, 256, 20)
    assert (algorithm.weight_decay, algorithm.prompts_per_update) == (0.01, 1)


@pytest.mark.parametrize("name", [*SEEDS, *MBPP, *OTHERS])
def test_a_configuration_builds_the_environments_of_both_its_splits(name: str) -> None:
    config = load_config(find_config(name))
    played = []
    for split in (config.dataset.train_split, config.dataset.eval_split):
        env = config.make_env(split, "bundled")
        observations, _ = env.reset(seed=0)
        assert len(observations) == config.env.num_agents
        played.append({task.task_id for task in env.tasks.tasks})
    assert all(played) and not played[0] & played[1]


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
    assert algorithm.turn_gradient_weights == ((1.2, 0.8) if several else None)
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


@pytest.mark.parametrize("name", [n for n in shipped() if ".2025-08" not in n])
def test_trees_give_groups_that_stop_early_no_other_weight(name: str) -> None:
    algorithm = load_config(find_config(name)).algorithm
    assert algorithm.plan == "chain" or algorithm.early_termination_weight == 1.0
