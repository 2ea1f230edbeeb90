"""Files and items of configurations: names, hyperparameters, values of items, YAML and encodings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from llm_decpomdp.algorithms.learning.learner_options import KLOptions
from llm_decpomdp.benchmarks.config.errors import ConfigError
from llm_decpomdp.benchmarks.config.inputs import Whole, parse_overrides
from llm_decpomdp.benchmarks.config.legacy import DATA, OTHER_NAMES
from llm_decpomdp.benchmarks.config.load import (
    FOLDER,
    description,
    find_config,
    read_config,
    shipped,
)
from llm_decpomdp.benchmarks.runs.setup import load_config
from llm_decpomdp.benchmarks.suites.suite import load_suite
from tests.benchmarks.promises import require
from tests.support.commands import call

TREE = "env.num_turns=2 env.discount=0.9 algorithm.rollout.mode=tree algorithm.joint_mode=aligned"
CHAIN = "env.num_turns=1 env.discount=1.0 algorithm.rollout.mode=chain algorithm.joint_mode=aligned"
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
        "algorithm.num_generations=4 algorithm.prompts_per_update=1 algorithm.rollout.branch_selection=random "
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
    elif name in AUGUST:
        more.append("env.id=coophumaneval-v0" if "_che_" in name else "env.id=humaneval-v0")
    if name in AUGUST and name.startswith("mt_"):
        more.append("external.mode=expert_edits external.expert_model=claude-3-5-sonnet-20241022")
        more.append(
            "algorithm.rollout.branch_selection=best algorithm.turn_gradient_weights=[1.2,0.8]"
        )
        more.append("algorithm.early_termination_weight=2.0 algorithm.weight_decay=0.01")
    return " ".join([common, *own, *more])


def test_the_configurations_of_these_families_are_complete() -> None:
    families = ("_he_config", "_che_config", "_mbpp_config", "_classeval_config", "_bugfix_config")
    found = {name for name in shipped() if name.partition(".")[0].endswith((*families, "demo"))}
    assert found == {*SEEDS, *AUGUST, *JANUARY, *MBPP, *OTHERS, "demo", "cooperation_demo"}


@pytest.mark.parametrize("name", [name for rows, *_ in FAMILIES for name in rows])
def test_a_configuration_has_the_hyperparameters_of_its_authors(name: str) -> None:
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
    assert algorithm.rollout.mode == "chain" or algorithm.early_termination_weight == 1.0


FLAT = yaml.safe_load((Path(__file__).parent / "flat_configurations.yaml").read_text())


def test_every_shipped_configuration_has_a_flat_spelling() -> None:
    assert set(FLAT) == set(shipped())


@pytest.mark.parametrize("name", FLAT)
def test_a_flat_spelling_means_what_the_nested_one_does(name: str, tmp_path: Path) -> None:
    path = tmp_path / "flat.yaml"
    path.write_text(yaml.safe_dump(FLAT[name]))
    assert read_config(path) == read_config(find_config(name))


def test_the_earlier_key_of_rollout_batches_is_translated() -> None:
    config = read_config(None, ["algorithm.starts_per_bundle=2"])
    assert config.algorithm.rollout.rollout_batch_size == 2


# Paths as the READMEs spell them, and the files that are meant
SEPTEMBER = "LLM_Collaboration_with_MARL/configs"
AUGUST_FOLDER = "experiments/configs"
WRITING = tuple(
    f"{team}_{data}_config" for team in ("grpo", "magrpo") for data in ("arxiv", "tldr")
)
NAMED = {
    **{f"{SEPTEMBER}/{name}": name for name in SEEDS if not name.startswith("mt_grpo")},
    **{f"{AUGUST_FOLDER}/{name.removesuffix('.2025-08')}": name for name in AUGUST},
    **{
        f"{AUGUST_FOLDER}/magrpo_mt_{data}_config": f"mt_magrpo_{data}_config.2025-08"
        for data in ("he", "che")
    },
    **{f"{AUGUST_FOLDER}/{name}": name for name in WRITING},
}
GRID = [
    f"{family}_{data}_config"
    for name in ("grpo", "magrpo")
    for family in (name, f"mt_{name}", f"{name}_mt")
    for data in DATA
]
"""All families that the seeds name, for all data that they name."""


@pytest.fixture(autouse=True)
def a_key_for_the_expert(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "none")


@pytest.mark.parametrize(("spelled", "name"), NAMED.items())
def test_a_file_that_a_readme_names_is_found(spelled: str, name: str) -> None:
    for path in (spelled, f"{spelled}.yaml", f"/anywhere/{spelled}.yaml"):
        assert find_config(path) == shipped()[name]


@pytest.mark.parametrize("name", WRITING)
def test_a_configuration_of_writing_has_the_hyperparameters_of_its_authors(name: str) -> None:
    agents = 1 if name.startswith("grpo") else 2
    promise = f"env.num_agents={agents} env.num_turns=1 algorithm.num_train_epochs=1"
    require(load_config(find_config(name)), f"{promise} algorithm.learning_rate=5e-6")


@pytest.mark.parametrize("name", GRID)
def test_every_family_has_a_configuration_for_all_data(name: str) -> None:
    config = load_config(find_config(name))
    data = name.removesuffix("_config").rpartition("_")[2]
    known = {"he": "humaneval", "che": "coophumaneval"}
    assert config.env.id.rpartition("-")[0] == known.get(data, data)
    assert config.algorithm.name == ("magrpo" if "magrpo" in name else "grpo")
    if "mt" in name.split("_"):
        assert config.env.num_turns > 1


@pytest.mark.parametrize("name", OTHER_NAMES)
def test_another_name_is_no_copy(name: str) -> None:
    assert name not in shipped()
    assert find_config(name) in shipped().values()
    assert find_config(str(FOLDER / f"{name}.yaml")) == find_config(name)


def test_files_of_ones_own_win_over_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / AUGUST_FOLDER
    folder.mkdir(parents=True)
    own = folder / "grpo_he_config.yaml"
    own.write_text("seed: 7\n")
    monkeypatch.chdir(tmp_path)
    assert load_config(find_config(f"{AUGUST_FOLDER}/grpo_he_config.yaml")).seed == 7
    own.unlink()
    assert (
        find_config(f"{AUGUST_FOLDER}/grpo_he_config.yaml") == shipped()["grpo_he_config.2025-08"]
    )


@pytest.mark.parametrize(
    ("spelled", "expected"),
    {
        "magrpo_hee_config": "did you mean 'magrpo_he_config'",
        "magrpo_mt_tldrr_config": "did you mean 'magrpo_mt_tldr_config'",
        "elsewhere/magrpo_he_config.yaml": "no file .*elsewhere/.*own: --config magrpo_he_config",
        f"{AUGUST_FOLDER}/magrpo_hee_config.yaml": f"no file .*{AUGUST_FOLDER}/.*did you mean 'magrpo_he_config'",
    }.items(),
)
def test_missing_configurations_are_told_what_exists(spelled: str, expected: str) -> None:
    with pytest.raises(ConfigError, match=expected):
        find_config(spelled)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("false", False),
        ("False", False),
        ("True", True),
        ("None", None),
        ("null", None),
        ("NONE", None),
        ("~", None),
        ("", None),
        ("'None'", "None"),
        ('"null"', "null"),
        ("'true'", "true"),
        ('"1e-5"', "1e-5"),
        ("'it''s'", "it's"),
        ("it's", "it's"),
        ("yes", "yes"),
        ("off", "off"),
        ("0o7", "0o7"),
        ("2026-01-01", "2026-01-01"),
        ("nan", "nan"),
        ("1e-5", 1e-5),
        ("2E5", 2e5),
        (".5", 0.5),
        ("+3", 3),
        ("3", 3),
        ("-2", -2),
        ("[1.5,0.5]", [1.5, 0.5]),
        ("[None, 1]", [None, 1]),
        ("[]", []),
        ("(1.5, 0.5)", [1.5, 0.5]),
        ("['a b', \"None\", true]", ["a b", "None", True]),
        ("{'r': 8, target_modules: [q, v]}", {"r": 8, "target_modules": ["q", "v"]}),
        ("{r: 8, lora_alpha: 16}", {"r": 8, "lora_alpha": 16}),
        ("test[16:]", "test[16:]"),
        ("test[:16]", "test[:16]"),
        ("Qwen/Qwen2.5-Coder-7B", "Qwen/Qwen2.5-Coder-7B"),
        ("'level_feedback'", "level_feedback"),
        ("a=b", "a=b"),
    ],
)
def test_a_value_is_yaml_or_python(text: str, value: Any) -> None:
    parsed = parse_overrides([f"section.key={text}"])["section"]["key"]
    assert parsed == value
    assert type(parsed) is type(value) or isinstance(parsed, Whole)


def test_dotted_keys_nest_and_the_last_of_equal_keys_wins() -> None:
    assert parse_overrides(["a.b=1", "a.c=2", "d=3", "a.b=4"]) == {"a": {"b": 4, "c": 2}, "d": 3}
    assert parse_overrides(["a={r: 1}", "a=null"]) == {"a": None}
    assert parse_overrides(["a={r: 1}", "a.s=2"]) == {"a": {"r": 1, "s": 2}}


@pytest.mark.parametrize("item", ["foo", "=1", "a..b=1", ".a=1"])
def test_an_item_of_another_form_is_refused_by_name(item: str) -> None:
    with pytest.raises(ConfigError, match=r"section\.key=value, got"):
        parse_overrides([item])


@pytest.mark.parametrize(
    "items", [["a=2", "a.b=1"], ["a.b=1", "a=2"], ["a.b=1", "a.b.c=2"], ["a.b=1", "a={c: 2}"]]
)
def test_a_value_and_a_part_of_it_exclude_each_other(items: list[str]) -> None:
    with pytest.raises(ConfigError, match="exclude"):
        parse_overrides(items)


def test_text_is_not_read_where_a_key_holds_text() -> None:
    items = [f"{key}={value}" for key in "ab" for value in ("1e5", "true", "2.50")]
    for item in items:
        key, _, written = item.partition("=")
        found = parse_overrides([item], lambda name: name == "a")[key]
        assert (found == written) == (key == "a"), item
    for written in ("007", "12:30:45", "1_000"):
        assert parse_overrides([f"a={written}"], lambda name: True) == {"a": written}
        assert parse_overrides([f"a='{written}'"]) == {"a": written}
        with pytest.raises(ConfigError, match=f"^a={written}: {written} is the number"):
            parse_overrides([f"a={written}"])
    assert parse_overrides(["a='x y'"], lambda name: True) == {"a": "x y"}
    assert parse_overrides(["a=none"], lambda name: True) == {"a": None}


@pytest.mark.parametrize("text", ["!!python/name:os.system", "!!python/object/apply:os.getcwd []"])
def test_a_value_runs_nothing(text: str) -> None:
    with pytest.raises(ConfigError, match="cannot read the value"):
        parse_overrides([f"a={text}"])


def test_a_value_that_is_no_yaml_is_named() -> None:
    with pytest.raises(ConfigError, match=r"model\.name=\[a"):
        parse_overrides(["model.name=[a"])


MISLEADING = {"014": 12, "1:30": 90, "-014": -12, "0x1F": 31, "0b11": 3, "1_000": 1000}


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "c.yaml"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(("written", "meant"), MISLEADING.items())
def test_a_number_of_yaml_1_1_is_refused_with_what_it_would_have_meant(
    tmp_path: Path, written: str, meant: int
) -> None:
    told = rf"algorithm.max_updates: {written} is the number {meant} in YAML 1.1: write {meant}, or put"
    with pytest.raises(ConfigError, match=f"^{tmp_path}/c.yaml, line 3: {told}"):
        read_config(write(tmp_path, f"seed: 1\nalgorithm:\n  max_updates: {written}\n"))
    with pytest.raises(ConfigError, match=f"{written} is the number {meant} in YAML 1.1"):
        read_config(None, [f"algorithm.max_updates={written}"])
    with pytest.raises(ConfigError, match=f"r: {written} is the number {meant} in YAML 1.1"):
        read_config(None, [f"model.lora={{r: {written}}}"])


def test_it_is_refused_in_lists_floats_names_and_suites(tmp_path: Path) -> None:
    for text in (
        "algorithm: {turn_gradient_weights: [1, 012]}",
        "algorithm: {learning_rate: 1_0.5}",
        "algorithm: {learning_rate: 1:30.5}",
        "policies: {014: {kind: gold}}",
        "output: {name: 2026_01}",
    ):
        with pytest.raises(ConfigError, match=r"in YAML 1\.1"):
            read_config(write(tmp_path, text))
    with pytest.raises(ConfigError, match=r"tasks: 010 is the number 8 in YAML 1\.1"):
        load_suite(write(tmp_path, "cells: [{tasks: 010}]"))


def test_other_numbers_and_texts_mean_what_they_did(tmp_path: Path) -> None:
    text = """
seed: 14
algorithm: {learning_rate: 1e-5, kl_coefficient: .5}
output: {name: "014"}
dataset: {train_split: "test[1:30]"}
"""
    for overrides in ([], ["output.name=014", "algorithm.learning_rate=+1.0e-5", "seed=14"]):
        config = read_config(write(tmp_path, text), overrides)
        assert (config.seed, config.output.name, config.dataset.train_split) == (
            14,
            "014",
            "test[1:30]",
        )
        assert config.algorithm.learning_rate == 1e-5
        assert config.algorithm.kl == KLOptions(coefficient=0.5)


@pytest.mark.parametrize(
    ("encoding", "message"),
    [
        ("utf-16", "is in UTF-16: write the file in UTF-8, as with iconv -f utf-16 -t utf-8"),
        ("latin-1", ", line 2: the byte 0xfc is not UTF-8: .* iconv -f latin1 -t utf-8"),
    ],
)
def test_a_configuration_in_another_encoding_is_refused_as_data_are(
    tmp_path: Path, encoding: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "c.yaml"
    path.write_bytes("seed: 1\n# für\n".encode(encoding))
    for read in (read_config, load_suite):
        with pytest.raises(ConfigError, match=f"^{path}{' ' * (encoding == 'utf-16')}{message}"):
            read(path)
    assert call("train", "--config", str(path), "--dry-run") == 2
    assert f"error: {path}" in capsys.readouterr().err


def test_a_byte_order_mark_of_utf_8_does_no_harm(tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    path.write_bytes("seed: 3  # für\n".encode("utf-8-sig"))
    assert read_config(path).seed == 3
