from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from llm_decpomdp.benchmarks.config.inputs import FOLDER, description, find_config, shipped
from llm_decpomdp.benchmarks.config.load import load_config, read_config
from tests.benchmarks.promises import require

TREE = "env.num_turns=2 env.discount=0.9 algorithm.plan=tree algorithm.joint_mode=aligned"
CHAIN = "env.num_turns=1 env.discount=1.0 algorithm.plan=chain algorithm.joint_mode=aligned"
HE = "env.id=humaneval-v0 dataset.train_split=test[33:163] dataset.eval_split=test[:32]"
CHE = "env.id=coophumaneval-v0 dataset.train_split=test[16:] dataset.eval_split=test[:16]"
EPOCHS = "algorithm.num_train_epochs"
PACE = f"{EPOCHS} algorithm.learning_rate model.temperature model.top_p algorithm.early_termination_threshold"
SPLITS = "dataset.train_split dataset.eval_split"

SEEDS = {
    "grpo_he_config": "8 1e-5 0.8 0.95 2.1 auto",
    "grpo_che_config": "16 1e-5 0.8 0.95 2.1 auto",
    "magrpo_he_config": "8 2e-5 0.7 0.9 4.0 auto",
    "magrpo_che_config": "16 2e-5 0.8 0.95 4.0 auto",
    "mt_grpo_he_config": "6 2e-5 0.8 0.95 2.1 bfloat16",
    "mt_grpo_che_config": "8 2e-5 0.8 0.95 2.1 bfloat16",
    "mt_magrpo_he_config": "6 2e-5 0.7 0.9 4.0 bfloat16",
    "mt_magrpo_che_config": "8 2e-5 0.8 0.95 4.0 bfloat16",
}
AUGUST = {
    "grpo_he_config.2025-08": "10 0.8 0.95 2.1 test[33:133] test[:32] 1",
    "grpo_che_config.2025-08": "20 0.8 0.95 2.1 test[:50] test[50:66] 1",
    "magrpo_he_config.2025-08": "10 0.7 0.9 4.0 test[33:133] test[:32] 1",
    "magrpo_che_config.2025-08": "20 0.8 0.95 4.0 test[:50] test[50:66] 1",
    "mt_magrpo_he_config.2025-08": "7 0.7 0.9 4.0 test[33:133] test[:32] 2",
    "mt_magrpo_che_config.2025-08": "10 0.8 0.95 4.0 test[:50] test[50:66] 2",
}
JANUARY = {
    "magrpo_che_config.2026-01": "8 2e-5 0.6 0.6 3.8 16 test[16:] test[:16] 42",
    "magrpo_he_config.2026-01": "6 2e-5 0.6 0.6 3.8 32 test[33:163] test[:32] 42",
    "grpo_che_config.2026-01": "20 2e-5 0.8 0.95 2.0 16 test[16:] test[:16] 0",
    "grpo_he_config.2026-01": "6 2e-5 0.6 0.6 2.0 32 test[33:163] test[:32] 0",
}
MBPP = {
    "grpo_mbpp_config": f"2.0 0 {CHAIN}",
    "magrpo_mbpp_config": f"3.8 42 {CHAIN}",
    "mt_grpo_mbpp_config": f"2.0 0 {TREE}",
    "mt_magrpo_mbpp_config": f"3.8 42 {TREE}",
}
CLASSES = (
    "classeval-v0 Qwen/Qwen3-4B-Instruct-2507 600 13 1e-5 0.6 0.6 5.8 2 10 test[:66%] test[66%:82%]"
)
REPAIRS = "bugfix-v0 Qwen/Qwen2.5-Coder-3B 512 1 2e-5 0.8 0.95 2.8 4 20 train test"
OTHERS = {
    "grpo_classeval_config": CLASSES,
    "magrpo_classeval_config": CLASSES,
    "grpo_bugfix_config": REPAIRS,
    "magrpo_bugfix_config": REPAIRS,
}

FAMILIES = [
    (
        SEEDS,
        f"{PACE} model.compute_dtype",
        "algorithm.num_generations=4 algorithm.prompts_per_update=1 algorithm.handoff=random "
        "algorithm.early_termination_weight=2.0 model.name=Qwen/Qwen2.5-Coder-3B model.max_new_tokens=256 "
        "external.mode=level_feedback external.sandbox_slice=1 external.original_prompt=true "
        "external.previous_response=true",
    ),
    (
        AUGUST,
        f"{EPOCHS} model.temperature model.top_p algorithm.early_termination_threshold {SPLITS} env.num_turns",
        "algorithm.learning_rate=1e-5 algorithm.num_generations=4 output.save_final_model=true",
    ),
    (
        JANUARY,
        f"{PACE} evaluation.num_tasks {SPLITS} seed",
        f"{TREE} algorithm.num_generations=4 model.top_k=null model.max_new_tokens=256 evaluation.every=20 "
        "algorithm.weight_decay=0.01 algorithm.prompts_per_update=1",
    ),
    (
        MBPP,
        "algorithm.early_termination_threshold seed",
        "env.id=mbpp-v0 algorithm.num_train_epochs=8 algorithm.learning_rate=3e-5 algorithm.num_generations=4 "
        "model.temperature=0.8 model.top_p=0.95 model.top_k=null dataset.train_split=test[15:65] "
        "dataset.eval_split=test[:15] evaluation.every=20 evaluation.num_tasks=15 algorithm.weight_decay=0.01",
    ),
    (
        OTHERS,
        f"env.id model.name model.max_new_tokens {PACE} algorithm.num_generations evaluation.every {SPLITS}",
        TREE,
    ),
]
"""Configurations with the values of their own keys, those keys, and what all of them hold."""


def promised(name: str) -> str:
    """What a configuration holds, as its authors say."""
    rows, keys, common = next(family for family in FAMILIES if name in family[0])
    values = rows[name].split()
    assert len(values) >= len(keys.split())
    own = [f"{key}={value}" for key, value in zip(keys.split(), values, strict=False)]
    more = values[len(own) :]
    team = "algorithm.name=magrpo env.num_agents=2"
    more.append(team if "magrpo" in name else "algorithm.name=grpo env.num_agents=1")
    if name in SEEDS:
        more.append(CHE if "_che_" in name else HE)
        several = "env.num_turns=2 algorithm.turn_gradient_weights=[1.2,0.8]"
        one = "env.num_turns=1 algorithm.turn_gradient_weights=null"
        more.append(several if name.startswith("mt_") else one)
    elif name in AUGUST and name.startswith("mt_"):
        more.append("external.mode=expert_edits external.expert_model=claude-3-5-sonnet-20241022")
        more.append("algorithm.handoff=best algorithm.turn_gradient_weights=[1.2,0.8]")
        more.append("algorithm.early_termination_weight=2.0 algorithm.weight_decay=0.01")
    return " ".join([common, *own, *more])


def test_the_configurations_of_these_families_are_complete() -> None:
    families = ("_he_config", "_che_config", "_mbpp_config", "_classeval_config", "_bugfix_config")
    found = {name for name in shipped() if name.partition(".")[0].endswith((*families, "demo"))}
    assert found == {*SEEDS, *AUGUST, *JANUARY, *MBPP, *OTHERS, "demo", "cooperation_demo"}


@pytest.mark.parametrize("name", [name for rows, *_ in FAMILIES for name in rows])
def test_a_configuration_has_the_hyperparameters_of_its_authors(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "none")
    require(load_config(find_config(name)), promised(name))


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
    assert algorithm.rollout.plan == "chain" or algorithm.early_termination_weight == 1.0


FLAT = yaml.safe_load((Path(__file__).parent / "flat_configurations.yaml").read_text())


def test_every_shipped_configuration_has_a_flat_spelling() -> None:
    assert set(FLAT) == set(shipped())


@pytest.mark.parametrize("name", FLAT)
def test_a_flat_spelling_means_what_the_nested_one_does(name: str, tmp_path: Path) -> None:
    path = tmp_path / "flat.yaml"
    path.write_text(yaml.safe_dump(FLAT[name]))
    assert read_config(path) == read_config(find_config(name))
