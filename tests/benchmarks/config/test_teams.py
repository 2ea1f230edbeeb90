"""Teams of configurations: declarations, adapters, and GPUs that policies are sampled on."""

from __future__ import annotations

from pathlib import Path

import pytest

from llm_decpomdp.agents.loading import PolicySpec
from llm_decpomdp.agents.policy_kinds import KINDS, bases
from llm_decpomdp.benchmarks import load_config, train
from llm_decpomdp.benchmarks.config.errors import ConfigError, RunError
from llm_decpomdp.benchmarks.config.placement import check_room, in_worker, served
from llm_decpomdp.benchmarks.config.schema import Config, ModelConfig
from llm_decpomdp.benchmarks.config.teams import agents_of, check_devices, check_lora, policies_of
from llm_decpomdp.benchmarks.runs.data import load_envs
from llm_decpomdp.benchmarks.runs.setup import load_policies, team_spec
from llm_decpomdp.policy import Policy, TrainablePolicy

AGENTS = ["aux_0", "main_0"]
TWO = ["team={aux_0: helper, main_0: partner}"]
SERVED = ["sampler.engine=vllm", "sampler.python=/a/python", "model.top_p=1"]
RAY = ["cluster.engine=ray", "cluster.rollout_workers=2", "algorithm.rollout.rollout_batch_size=1"]
LOCAL = RAY[1:]
APART = ["policies.aux_0.sample_on=[1]", "policies.main_0.sample_on=[2]", "model.device=cuda:0"]


def items(text: str) -> list[str]:
    """Overrides that a text joins by ` & `, with names of lists above among them."""
    lists = {"TWO": TWO, "SERVED": SERVED, "RAY": RAY, "LOCAL": LOCAL, "APART": APART}
    return [item for part in text.split(" & ") for item in lists.get(part, [part])]


def specs(*overrides: str) -> dict[str, PolicySpec]:
    config = load_config(None, overrides)
    return policies_of(config, agents_of(config, AGENTS))


def loaded(config: Config) -> dict[str, Policy]:
    return load_policies(config, load_envs(config))


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
    {
        "team.aux=a": "unknown agent in `team` 'aux'; did you mean 'aux_0'",
        "team.aux_0=a": "`team` names no policy for main_0",
        "TWO & model.shared=true": "drop model.shared",
        "TWO & policies.helpr.kind=gold": "no agent plays the policy 'helpr'",
        "TWO & policies.helper.kind=golden": r"policies\.helper: unknown kind .*'gold'",
        "TWO & policies.helper=gold": r"policies\.helper must be a mapping such as",
        "TWO & policies.helper.temprature=1": r"policies\.helper \(model\).*'temperature'",
        "TWO & policies.helper={kind: gold, text: a}": r"unknown key of policies\.helper \(gold\)",
        "TWO & policies.helper.kind=constant": r"policies\.helper: a constant policy needs text",
        "TWO & policies.helper.temperature=hot": r"policies\.helper\.temperature must be .*'hot'",
        "TWO & policies.helper.temperature=0": r"policies\.helper\.temperature must be above 0",
        "TWO & policies.helper.top_p=2": r"policies\.helper\.top_p must be at most 1",
        "TWO & policies.helper.top_k=-1": r"policies\.helper\.top_k must be at least 0",
        "TWO & policies.helper.compute_dtype=half": r"policies\.helper\.compute_dtype 'half'",
        "TWO & policies.helper={lora: {r: 2}, trainable: false}": "does nothing",
        "team={aux_0: a/b, main_0: c}": "letters, digits",
        "team=3": "team",
        "policies.aux_0.prefill=def & env.channel={bandwidth: 8}": (
            "prefill 'def' of 'aux_0' would begin every message"
        ),
    }.items(),
)
def test_a_wrong_declaration_is_refused_by_its_key(overrides: str, expected: str) -> None:
    with pytest.raises(ConfigError, match=expected):
        load_config(None, items(overrides))


def test_a_prefill_or_a_channel_alone_is_taken() -> None:
    assert specs("policies.aux_0.prefill=def")["aux_0"].prefill == "def"
    assert specs("policies.aux_0.prefill_after=x")["aux_0"].prefill_after == "x"
    assert specs("env.channel={bandwidth: 8}")["aux_0"].prefill is None


def test_untrainable_teams_are_played_but_not_trained(quick: list[str], tmp_path: Path) -> None:
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


def test_no_fixed_gpu_for_many_processes(quick: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)
    config = load_config(None, [*quick, "model.device=cuda:1"])
    specs = policies_of(config, agents_of(config, ["aux_0", "main_0"]))
    check_devices(config, specs)
    with pytest.raises(
        ConfigError, match=r"^model\.device: cuda:1 .* all 2 processes .* cuda or auto"
    ):
        check_devices(config, specs, 2)


def test_gold_is_refused_where_the_data_has_no_answers(quick: list[str]) -> None:
    gold = [*quick, *TWO, "policies.helper.kind=gold"]
    loaded(load_config(None, gold))
    with pytest.raises(ConfigError, match=r"'aux_0' cannot play gold: .*task 'HumanEval/"):
        loaded(load_config(None, [*gold, "env.id=humaneval-v0"]))


def test_an_unknown_key_of_the_adapter_is_refused_with_the_nearest_or_with_peft_s_name() -> None:
    with pytest.raises(ConfigError, match="did you mean 'lora_alpha'"):
        check_lora({"r": 8, "lora_alfa": 16})
    with pytest.raises(ConfigError, match="unknown key of lora 'rank'; peft calls it 'r'"):
        check_lora({"rank": 8})
    for rank in (0, "two"):
        with pytest.raises(ConfigError, match=f"lora.r must be a whole number .*, got {rank!r}"):
            check_lora({"r": rank})


def test_the_manifest_names_the_models_of_the_team() -> None:
    config = load_config(None, [*TWO, "model.name=a", "policies.partner.kind=gold"])
    assert team_spec(config, AGENTS).models == "a, gold"
    assert team_spec(load_config(None, ["model.name=a"]), AGENTS).models == "a"


def room(gpus: int | None, quick: list[str], *overrides: str) -> None:
    config = load_config(None, [*quick, *overrides])
    check_room(config, policies_of(config, agents_of(config, ["aux_0", "main_0"])), gpus)


@pytest.mark.parametrize("items", [[], ["policies.aux_0.device=cpu"], ["model.lora=null"]])
def test_workers_share_what_their_learner_shares(quick: list[str], items: list[str]) -> None:
    values = [*quick, *SERVED, *LOCAL, "sampler.exact=false", "model.lora={r: 2}", *items]
    config = load_config(None, values)
    policies = policies_of(config, agents_of(config, ["aux_0", "main_0"]))
    hollow = in_worker(config, policies)
    assert all(spec.device.startswith("meta") for spec in hollow.values())
    assert bases(hollow) == bases(policies) and len(bases(policies)) == 1 + bool(items)


@pytest.mark.parametrize(
    ("values", "message"),
    {
        "SERVED & policies.aux_0.sample_on=[0,0]": r"different GPUs.*got \[0, 0\]",
        "SERVED & policies.aux_0.sample_on=[]": "must name different GPUs",
        "SERVED & policies.aux_0.sample_on=[-1]": "must name different GPUs",
        "SERVED & policies.aux_0.sample_on=[first]": r"policies\.aux_0\.sample_on",
        "policies.aux_0.sample_on=[1]": r"samples: set policies\.aux_0\.device to cuda:1",
        "policies.aux_0={kind: gold, sample_on: [1]}": r"unknown key of policies\.aux_0",
        "SERVED & policies.aux_0.sample_on=[1]": r"policies\.main_0\.sample_on is missing",
        "SERVED & APART & model.lora={r: 2}": "aux_0, main_0 have adapters on one base",
        "SERVED & APART & policies.main_0.trainable=false": (
            r"has no server; it is sampled on policies\.main_0\.device"
        ),
        "SERVED & APART & sampler.flags={tensor_parallel_size: 2}": (
            r"aux_0\.sample_on=\[1\] names 1 GPUs, and inference.flags spread each server over 2"
        ),
        "SERVED & APART & sampler.flags={data-parallel-size: all}": "above 0, got 'all'",
        "sampler.engine=vllm & model.top_p=1 & sampler.urls=[http://a:1,http://b:1] & APART": (
            "inference.urls names ones that run: drop either"
        ),
        "sampler.urls=[http://a:1]": "means nothing with engine=transformers",
        "sampler.flags={seed: 1}": "means nothing with engine=transformers",
        "LOCAL & policies.aux_0.sample_on=[0,1]": "one GPU; name one",
        "RAY & policies.aux_0.sample_on=[1] & cluster.worker_gpus=1": (
            r"sees the cluster.worker_gpus=1 .* raise that to 2"
        ),
        "policies.aux_0.learn_on=[1]": r"set policies\.aux_0\.device, as in cuda:2",
    }.items(),
)
def test_a_place_that_means_nothing_or_contradicts_another_is_refused(
    quick: list[str], values: str, message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        load_config(None, [*quick, *items(values)])


@pytest.mark.parametrize(
    ("gpus", "values", "message"),
    [
        (2, "SERVED & APART", r"policies\.main_0\.sample_on=\[2\]: there are 2 GPUs, counted"),
        (0, "LOCAL & policies.aux_0.sample_on=[0]", "there are 0 GPUs$"),
        (
            3,
            "SERVED & APART & policies.main_0.sample_on=[1,2]",
            r"GPU 1 is promised to 2 servers \(of aux_0; main_0\).* to at most 0\.5",
        ),
        (
            2,
            "SERVED & APART & policies.main_0.device=auto & policies.main_0.sample_on=[0]",
            r"GPU 0 is promised to a server \(of main_0\).* holds aux_0, main_0 as well",
        ),
        (1, "RAY", r"worker_gpus=0 .* aux_0, main_0 would .* set cluster\.worker_gpus to 1"),
    ],
)
def test_gpus_that_are_missing_or_promised_twice_are_refused(
    quick: list[str], gpus: int, values: str, message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        room(gpus, quick, *items(values))


def test_what_adds_up_is_taken(quick: list[str]) -> None:
    room(3, quick, *SERVED, *APART)
    room(0, quick)  # nothing is placed
    room(1, quick, *items("RAY & cluster.worker_gpus=0.5"))
    room(1, quick, *items("RAY & model.device=cpu"))
    shared = [*SERVED, "policies.aux_0.sample_on=[0]", "policies.main_0.sample_on=[0]"]
    room(1, quick, *shared, "sampler.flags={gpu_memory_utilization: 0.3}")
    parts = "sampler.flags={tensor-parallel-size: 2, pipeline_parallel_size: 2}"
    same = [f"policies.{name}.sample_on=[1,2,3,4]" for name in ("aux_0", "main_0")]
    room(5, quick, *SERVED, *same, "model.lora={r: 2}", parts)
    room(2, quick, *LOCAL, "policies.aux_0.sample_on=[1]")
    far = ["policies.aux_0.sample_on=[1]", "cluster.worker_gpus=2"]
    room(0, quick, *RAY, *far)  # of nodes that this machine knows nothing of
    with pytest.raises(ConfigError, match="there are 2 GPUs"):  # of servers here
        room(2, quick, *RAY, *SERVED, "sampler.exact=false", *APART)


def test_a_run_counts_gpus_before_it_loads_or_writes(
    quick: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: object
) -> None:
    config = load_config(None, [*quick, *SERVED, *APART[:2]])
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)
    with pytest.raises(ConfigError, match="there are 2 GPUs"):
        train(config, "placed")


def test_policies_are_served_by_base() -> None:
    def groups(*overrides: str) -> list[list[str]]:
        config = load_config(None, ["model.name=tiny-random", *overrides])
        return served(policies_of(config, agents_of(config, ["aux_0", "main_0"])))

    assert groups() == [["aux_0"], ["main_0"]]
    assert groups("model.lora={r: 2}") == [["aux_0", "main_0"]]
    assert groups("model.lora={r: 2}", "policies.main_0.device=cpu") == [["aux_0"], ["main_0"]]
    assert groups("policies.aux_0.trainable=false") == [["main_0"]]
