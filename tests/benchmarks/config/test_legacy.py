from __future__ import annotations

from typing import Any

import pytest

from llm_decpomdp.benchmarks.config.errors import ConfigError
from llm_decpomdp.benchmarks.config.legacy import (
    ALGORITHM_SECTIONS,
    FORMER,
    GONE,
    ROOT_KEYS,
    SECTION_KEYS,
    canonical,
    flat,
)
from llm_decpomdp.benchmarks.config.schema import KEYS, Config
from llm_decpomdp.benchmarks.runs.setup import load_config

NAMED = ("group_size", "train_batch_size", "rollout.rollout_batch_size")


def nested(key: str, value: Any = 1) -> dict[str, Any]:
    for part in reversed(key.split(".")):
        value = {part: value}
    assert isinstance(value, dict)
    return value


def test_every_key_that_the_tables_lead_to_exists_and_none_that_is_gone() -> None:
    assert {*SECTION_KEYS.values(), *ROOT_KEYS.values()} <= set(KEYS)
    assert not set(GONE) & set(KEYS)


def test_suites_and_older_folders_call_options_as_before() -> None:
    """Else a suite that goes on with a new version would refuse the folders of its jobs."""
    stored = flat(Config())
    assert not FORMER.keys() & stored["algorithm"].keys()
    values = canonical({"algorithm": dict.fromkeys(FORMER.values(), 3)})
    assert [values[f"algorithm.{key}"] for key in NAMED] == [3, 3, 3]
    assert load_config(flags=canonical(stored)) == load_config()


@pytest.mark.parametrize("section", ALGORITHM_SECTIONS)
@pytest.mark.parametrize(("old", "new"), SECTION_KEYS.items())
def test_an_algorithm_section_scatters_its_keys(section: str, old: str, new: str) -> None:
    assert canonical({section: {old: 7}})[new] == 7


@pytest.mark.parametrize(("section", "name"), ALGORITHM_SECTIONS.items())
def test_an_algorithm_section_names_the_algorithm(section: str, name: str) -> None:
    found = canonical({section: {"learning_rate": 1e-5}})
    assert found["algorithm.name"] == name
    assert found["algorithm.learning_rate"] == 1e-5
    assert found.get("env.num_agents") == (1 if name == "grpo" else None)


def test_an_empty_section_says_nothing_but_its_algorithm() -> None:
    assert canonical({"magrpo": None, "env": None}) == {"algorithm.name": "magrpo"}


@pytest.mark.parametrize(("old", "new"), ROOT_KEYS.items())
def test_other_spellings_are_translated(old: str, new: str) -> None:
    assert canonical(nested(old)) == {new: 1}


@pytest.mark.parametrize(
    ("dataset", "env_id"),
    [
        ({"name": "openai/openai_humaneval"}, "humaneval-v0"),
        ({"name": "LovelyBuggies/CoopHumaneval"}, "coophumaneval-v0"),
        ({"name": "OpenMLRL/CoopHumanEval", "type": "coophumaneval"}, "coophumaneval-v0"),
        ({"name": "my/problems", "type": "humaneval"}, "humaneval-v0"),
        ({"name": "google-research-datasets/mbpp", "type": "mbpp"}, "mbpp-v0"),
        ({"name": "FudanSELab/ClassEval", "type": "classeval"}, "classeval-v0"),
        ({"name": "trl-lib/tldr"}, "tldr-v0"),
        ({"name": "OpenMLRL/arXiv_abstract"}, "arxiv-v0"),
    ],
)
def test_a_data_set_means_an_environment(dataset: dict[str, str], env_id: str) -> None:
    assert canonical({"dataset": dataset}) == {"env.id": env_id}


def test_sampling_in_the_algorithm_section_wins_over_the_model_section() -> None:
    tree = {"magrpo": {"temperature": 0.8}, "model": {"temperature": 0.7}}
    assert canonical(tree)["model.temperature"] == 0.8


def test_an_override_for_another_algorithm_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"'magrpo' does not belong to the algorithm 'grpo'"):
        canonical({"magrpo": {"learning_rate": 1}}, current="grpo")
    with pytest.raises(ConfigError, match=r"'grpo' does not belong to the algorithm 'magrpo'"):
        canonical({"grpo": {"learning_rate": 1}}, current="magrpo")


def test_an_override_may_change_the_algorithm_with_its_section() -> None:
    tree = {"algorithm": {"name": "grpo"}, "grpo": {"num_generations": 3}}
    assert canonical(tree, current="magrpo")["algorithm.name"] == "grpo"


@pytest.mark.parametrize("gone", GONE)
def test_a_key_without_a_meaning_here_is_refused_with_advice(gone: str) -> None:
    with pytest.raises(ConfigError, match="drop"):
        canonical(nested(gone))
    if gone.startswith("algorithm."):
        with pytest.raises(ConfigError, match="drop"):
            canonical({"magrpo": {gone.removeprefix("algorithm."): 1}})


@pytest.mark.parametrize(
    ("tree", "expected"),
    [
        ({"algorithm": {"learning_rat": 1}}, "did you mean 'algorithm.learning_rate'"),
        ({"magrpo": {"learning_rat": 1}}, "^magrpo.learning_rat: .*'algorithm.learning_rate'"),
        ({"learning_rate": 1}, "or 'algorithm.learning_rate'"),
        ({"env": {"temperature": 1}}, "did you mean 'model.temperature'"),
        ({"algorithm": {"lr": 1}}, "'algorithm.lr'; did you mean 'algorithm.learning_rate'"),
        ({"algorithmus": {"handof": 1}}, "did you mean 'algorithm.rollout.branch_selection'"),
        ({"env": 3}, "'env' is a section: set env.id"),
        ({"magrpo": 3}, "unknown configuration key 'magrpo'"),
        ({"grpo": {"seed": 1}, "magrpo": {"learning_rate": 1}}, "'grpo' and 'magrpo'"),
        ({"trainer": {"name": "x"}}, r"'model\.name' or 'algorithm\.name' or 'output\.name'"),
        # Values of actions would make every advantage 0.
        (
            {"algorithm": {"critic_type": "q"}},
            "critic_type.*the advantage .* is 0 for every action",
        ),
        ({"dataset": {"name": "my/poems"}}, "my/poems.* yet: .*`llm-decpomdp list`, such as"),
        ({"dataset": {"name": "me/Minecraft"}}, "me/Minecraft.* yet: .*`llm-decpomdp list`"),
    ],
)
def test_unknown_keys_are_refused_with_the_remedy(tree: dict[str, Any], expected: str) -> None:
    with pytest.raises(ConfigError, match=expected):
        canonical(tree)


@pytest.mark.parametrize(
    ("old", "new"), [("align", "aligned"), ("crossed", "cross"), ("cross", "cross")]
)
def test_older_joint_modes_are_translated_with_their_plan(old: str, new: str) -> None:
    found = canonical({"magrpo": {"joint_mode": old, "discount": 0.9}})
    assert found == {
        "algorithm.name": "magrpo",
        "algorithm.rollout.mode": "tree",
        "algorithm.rollout.joint_mode": new,
        "env.discount": 0.9,
    }
    kept = {"algorithm": {"plan": "chain"}, "magrpo": {"joint_mode": old}}
    assert canonical(kept)["algorithm.rollout.mode"] == "chain"
    assert canonical({"algorithm": {"joint_mode": old}}) == {"algorithm.rollout.joint_mode": new}


def test_all_unknown_keys_are_told_at_once_and_a_section_once() -> None:
    tree = {
        "reward_processor": {"enabled": True, "scale_factor": 1},
        "model": {"type": "qwen", "nam": "x"},
        "iac": {"learning_rate": 1e-5, "value_loss_coef": 0.6},
    }
    with pytest.raises(ConfigError) as told:
        canonical(tree)
    text = str(told.value)
    assert text.count("; and ") == 3
    for part in (
        "'reward_processor'",
        "'model.type'",
        "did you mean 'model.name'",
        "'iac': a critic is set by algorithm.critic",
    ):
        assert part in text


def test_a_team_and_its_policies_are_values() -> None:
    tree = {"team": {"aux_0": "a"}, "policies": {"a": {"kind": "gold"}}}
    assert canonical(tree) == tree
