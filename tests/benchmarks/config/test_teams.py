from __future__ import annotations

from pathlib import Path

import pytest

from llm_decpomdp.agents.loading import KINDS, PolicySpec
from llm_decpomdp.benchmarks.config.errors import ConfigError, RunError
from llm_decpomdp.benchmarks.config.load import load_config
from llm_decpomdp.benchmarks.config.schema import Config, ModelConfig
from llm_decpomdp.benchmarks.config.teams import agents_of, check_lora, load, policies_of, team_spec
from llm_decpomdp.benchmarks.runs.setup import load_envs
from llm_decpomdp.benchmarks.runs.train import train
from llm_decpomdp.policy import Policy, TrainablePolicy

AGENTS = ["aux_0", "main_0"]
TWO = ["team={aux_0: helper, main_0: partner}"]


def specs(*overrides: str) -> dict[str, PolicySpec]:
    config = load_config(None, overrides)
    return policies_of(config, agents_of(config, AGENTS))


def loaded(config: Config) -> dict[str, Policy]:
    return load(config, load_envs(config))


def test_agents_have_policies_of_their_own_unless_they_share() -> None:
    assert agents_of(load_config(), AGENTS) == {"aux_0": "aux_0", "main_0": "main_0"}
    together = agents_of(load_config(None, ["model.shared=true"]), AGENTS)
    assert len(set(together.values())) == 1
    declared = load_config(None, ["team.main_0=one", "team.aux_0=one"])
    assert agents_of(declared, AGENTS) == {"aux_0": "one", "main_0": "one"}


def test_a_policy_is_as_the_model_section_says_where_it_says_nothing_itself() -> None:
    found = specs(
        *TWO, "model.name=a", "model.top_k=5", "model.temperature=0.3", "model.lora={r: 2}",
        "policies.partner={name: b, lora: null, top_k: null, trainable: false}",
    )  # fmt: skip
    assert found["helper"] == PolicySpec(
        name="a", temperature=0.3, top_k=5, lora={"r": 2}, max_new_tokens=256
    )
    assert found["partner"] == PolicySpec(
        name="b", temperature=0.3, trainable=False, max_new_tokens=256
    )


def test_every_key_of_the_model_but_shared_is_one_of_a_policy() -> None:
    assert set(ModelConfig.__dataclass_fields__) - {"shared"} == set(KINDS["model"]) - {
        *("trainable", "sample_on")
    }


def test_kinds_take_what_they_read_alone() -> None:
    found = specs(
        *TWO, "policies.partner={kind: endpoint, name: big, base_url: 'http://localhost:8000/v1'}",
        "model.temperature=0.7",
    )  # fmt: skip
    assert found["partner"].base_url == "http://localhost:8000/v1"
    assert found["partner"].temperature == 0.7
    assert specs(*TWO, "policies.partner.kind=gold")["partner"] == PolicySpec("gold")
    assert specs(*TWO, "policies.partner={kind: replay, texts: [a, b]}")["partner"].texts == [
        "a",
        "b",
    ]


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        (["team.aux=a"], "unknown agent in `team` 'aux'; did you mean 'aux_0'"),
        (["team.aux_0=a"], "`team` names no policy for main_0"),
        ([*TWO, "model.shared=true"], "drop model.shared"),
        ([*TWO, "policies.helpr.kind=gold"], "no agent plays the policy 'helpr'"),
        ([*TWO, "policies.helper.kind=golden"], r"policies\.helper: unknown kind .*'gold'"),
        ([*TWO, "policies.helper=gold"], r"policies\.helper must be a mapping such as"),
        ([*TWO, "policies.helper.temprature=1"], r"policies\.helper \(model\).*'temperature'"),
        (
            [*TWO, "policies.helper={kind: gold, text: a}"],
            r"unknown key of policies\.helper \(gold\)",
        ),
        (
            [*TWO, "policies.helper.kind=constant"],
            r"policies\.helper: a constant policy needs text",
        ),
        (
            [*TWO, "policies.helper.temperature=hot"],
            r"policies\.helper\.temperature must be .*'hot'",
        ),
        ([*TWO, "policies.helper.temperature=0"], r"policies\.helper\.temperature must be above 0"),
        ([*TWO, "policies.helper.top_p=2"], r"policies\.helper\.top_p must be at most 1"),
        ([*TWO, "policies.helper.top_k=-1"], r"policies\.helper\.top_k must be at least 0"),
        ([*TWO, "policies.helper.compute_dtype=half"], r"policies\.helper\.compute_dtype 'half'"),
        ([*TWO, "policies.helper={lora: {r: 2}, trainable: false}"], "does nothing"),
        (["team={aux_0: a/b, main_0: c}"], "letters, digits"),
        (["team=3"], "team"),
    ],
)
def test_a_wrong_declaration_is_refused_by_its_key(overrides: list[str], expected: str) -> None:
    with pytest.raises(ConfigError, match=expected):
        load_config(None, overrides)


def test_a_prefill_with_a_channel_is_refused() -> None:
    prefill, channel = "policies.aux_0.prefill=def", "env.channel={bandwidth: 8}"
    with pytest.raises(ConfigError, match="prefill 'def' of 'aux_0' would begin every message"):
        specs(prefill, channel)
    assert specs(prefill)["aux_0"].prefill == "def" and specs(channel)["aux_0"].prefill is None


def test_a_team_without_a_trainable_policy_is_played_but_not_trained(
    quick: list[str], tmp_path: Path
) -> None:
    scripted = "policies={helper: {kind: gold}, partner: {kind: random}}"
    config = load_config(None, [*quick, *TWO, scripted, f"output.base_dir={tmp_path}"])
    assert set(loaded(config)) == {"aux_0", "main_0"}
    expected = r"no policy .* can be trained \(helper: gold, partner: random\)"
    with pytest.raises(ConfigError, match=expected):
        train(config, "scripted")
    assert not any(tmp_path.iterdir())


def test_agents_have_weights_of_their_own_unless_shared(quick: list[str]) -> None:
    apart = loaded(load_config(None, quick))
    assert apart["aux_0"] is not apart["main_0"]
    together = loaded(load_config(None, [*quick, "model.shared=true"]))
    assert together["aux_0"] is together["main_0"]


def test_a_partner_that_is_no_model_is_loaded_beside_one(quick: list[str]) -> None:
    team = loaded(load_config(None, [*quick, *TWO, "policies.partner={kind: constant, text: hi}"]))
    assert isinstance(team["aux_0"], TrainablePolicy)
    assert team["main_0"].act("") == "hi"


def test_a_missing_model_is_told_by_name(quick: list[str]) -> None:
    with pytest.raises(RunError, match="cannot load the model 'no/folder'"):
        loaded(load_config(None, [*quick, "model.name=no/folder"]))


def test_a_device_that_is_not_there_is_refused_by_its_key(quick: list[str], tmp_path: Path) -> None:
    absent = [*quick, "model.device=cuda:99"]
    with pytest.raises(ConfigError, match=r"^model\.device: .* 'cuda:99': use auto or cpu"):
        train(load_config(None, absent), "mine")
    assert not (tmp_path / "run").exists()
    own = [*quick, *TWO, "policies.partner.device=bogus"]
    with pytest.raises(ConfigError, match=r"^policies\.partner\.device: .* 'bogus'"):
        loaded(load_config(None, own))


def test_gold_is_refused_where_the_data_has_no_answers(quick: list[str]) -> None:
    gold = [*quick, *TWO, "policies.helper.kind=gold"]
    loaded(load_config(None, gold))
    with pytest.raises(ConfigError, match=r"'aux_0' cannot play gold: .*task 'HumanEval/"):
        loaded(load_config(None, [*gold, "env.id=humaneval-v0"]))


def test_an_unknown_key_of_the_adapter_is_refused_with_the_nearest() -> None:
    with pytest.raises(ConfigError, match="did you mean 'lora_alpha'"):
        check_lora({"r": 8, "lora_alfa": 16})


def test_the_manifest_names_the_models_of_the_team() -> None:
    config = load_config(None, [*TWO, "model.name=a", "policies.partner.kind=gold"])
    assert team_spec(config, AGENTS).models == "a, gold"
    assert team_spec(load_config(None, ["model.name=a"]), AGENTS).models == "a"


def test_the_usual_names_of_adapters_arguments_are_told_in_peft_s_words() -> None:
    with pytest.raises(ConfigError, match="unknown key of lora 'rank'; peft calls it 'r'"):
        check_lora({"rank": 8})
