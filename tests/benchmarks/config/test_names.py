"""Every configuration that the seeds name is found by that name, and loads as what it says it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from llm_decpomdp.benchmarks.config.errors import ConfigError
from llm_decpomdp.benchmarks.config.inputs import (

    DATA,
    FOLDER,
    OTHER_NAMES,
    find_config,
    shipped,
)
from llm_decpomdp.benchmarks.config.load import load_config

# Path as the READMEs spell it, the file that is meant, its environment, agents, turns, epochs, learning rate
SEPTEMBER = "LLM_Collaboration_with_MARL/configs"
AUGUST = "experiments/configs"
NAMED = [
    (f"{SEPTEMBER}/grpo_he_config", "grpo_he_config", "humaneval-v0", 1, 1, 8, 1e-5),
    (f"{SEPTEMBER}/grpo_che_config", "grpo_che_config", "coophumaneval-v0", 1, 1, 16, 1e-5),
    (f"{SEPTEMBER}/magrpo_he_config", "magrpo_he_config", "humaneval-v0", 2, 1, 8, 2e-5),
    (f"{SEPTEMBER}/magrpo_che_config", "magrpo_che_config", "coophumaneval-v0", 2, 1, 16, 2e-5),
    (f"{SEPTEMBER}/mt_magrpo_he_config", "mt_magrpo_he_config", "humaneval-v0", 2, 2, 6, 2e-5),
    (f"{SEPTEMBER}/mt_magrpo_che_config", "mt_magrpo_che_config", "coophumaneval-v0", 2, 2, 8, 2e-5),
    (f"{AUGUST}/grpo_he_config", "grpo_he_config.2025-08", "humaneval-v0", 1, 1, 10, 1e-5),
    (f"{AUGUST}/grpo_che_config", "grpo_che_config.2025-08", "coophumaneval-v0", 1, 1, 20, 1e-5),
    (f"{AUGUST}/grpo_arxiv_config", "grpo_arxiv_config", "arxiv-v0", 1, 1, 1, 5e-6),
    (f"{AUGUST}/grpo_tldr_config", "grpo_tldr_config", "tldr-v0", 1, 1, 1, 5e-6),
    (f"{AUGUST}/magrpo_he_config", "magrpo_he_config.2025-08", "humaneval-v0", 2, 1, 10, 1e-5),
    (f"{AUGUST}/magrpo_che_config", "magrpo_che_config.2025-08", "coophumaneval-v0", 2, 1, 20, 1e-5),
    (f"{AUGUST}/magrpo_arxiv_config", "magrpo_arxiv_config", "arxiv-v0", 2, 1, 1, 5e-6),
    (f"{AUGUST}/magrpo_tldr_config", "magrpo_tldr_config", "tldr-v0", 2, 1, 1, 5e-6),
    (f"{AUGUST}/magrpo_mt_he_config", "mt_magrpo_he_config.2025-08", "humaneval-v0", 2, 2, 7, 1e-5),
    (f"{AUGUST}/magrpo_mt_che_config", "mt_magrpo_che_config.2025-08", "coophumaneval-v0", 2, 2, 10, 1e-5),
    (f"{AUGUST}/mt_magrpo_he_config", "mt_magrpo_he_config.2025-08", "humaneval-v0", 2, 2, 7, 1e-5),
    (f"{AUGUST}/mt_magrpo_che_config", "mt_magrpo_che_config.2025-08", "coophumaneval-v0", 2, 2, 10, 1e-5),
]  # fmt: skip
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


@pytest.mark.parametrize(
    ("spelled", "name", "env_id", "agents", "turns", "epochs", "rate"),
    NAMED,
    ids=[n[0] for n in NAMED],
)
def test_a_file_that_a_readme_names_is_found_and_loads(
    spelled: str, name: str, env_id: str, agents: int, turns: int, epochs: int, rate: float
) -> None:
    for path in (f"{spelled}.yaml", f"/anywhere/{spelled}.yaml"):
        assert find_config(path) == shipped()[name]
    config = load_config(find_config(spelled))
    assert (config.env.id, config.env.num_agents, config.env.num_turns) == (env_id, agents, turns)
    algorithm = config.algorithm
    assert algorithm.name == ("grpo" if agents == 1 else "magrpo")
    assert (algorithm.num_train_epochs, algorithm.learning_rate) == (epochs, rate)


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


def test_a_file_of_ones_own_wins_over_a_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / AUGUST
    folder.mkdir(parents=True)
    own = folder / "grpo_he_config.yaml"
    own.write_text("seed: 7\n")
    monkeypatch.chdir(tmp_path)
    assert load_config(find_config(f"{AUGUST}/grpo_he_config.yaml")).seed == 7
    own.unlink()
    assert find_config(f"{AUGUST}/grpo_he_config.yaml") == shipped()["grpo_he_config.2025-08"]


@pytest.mark.parametrize(
    ("spelled", "expected"),
    [
        ("magrpo_hee_config", "did you mean 'magrpo_he_config'"),
        ("magrpo_mt_tldrr_config", "did you mean 'magrpo_mt_tldr_config'"),
        ("elsewhere/magrpo_he_config.yaml", "no file .*elsewhere/.*own: --config magrpo_he_config"),
        (
            f"{AUGUST}/magrpo_hee_config.yaml",
            f"no file .*{AUGUST}/.*did you mean 'magrpo_he_config'",
        ),
    ],
)
def test_a_missing_configuration_is_an_error_that_says_what_exists(
    spelled: str, expected: str
) -> None:
    with pytest.raises(ConfigError, match=expected):
        find_config(spelled)
