"""Runs whose partners are drawn from a pool: what they load, learn, save, and refuse."""

from __future__ import annotations

import logging
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from llm_decpomdp.agents.partner_pool import PartnerPool
from llm_decpomdp.agents.saved_team import load_saved_team
from llm_decpomdp.benchmarks.config.errors import ConfigError
from llm_decpomdp.benchmarks.doctor.device_plan import estimate_devices, plan_lines
from llm_decpomdp.benchmarks.runs.resume import resume
from llm_decpomdp.benchmarks.runs.setup import load_config, load_policies, resolve
from llm_decpomdp.policy import distinct_policies
from llm_decpomdp.utils.storage import read_json_lines
from tests.benchmarks.conftest import quick_overrides
from tests.benchmarks.runs.conftest import Runs

AUX, MAIN = "summarizer_0", "elaborator_0"
ADAPTERS = "model.lora={r: 2}"
LOUD = ["env.id=tldr-v1", "dataset.train_split=test[2:]", "dataset.eval_split=test[:2]"]
LOUD += ["model.max_new_tokens=40", "algorithm.learning_rate=0.02", "output.report=false"]
LOUD += ["algorithm.prompts_per_update=4"]
KEPT = ["output.save_final_model=true", "output.checkpoint_every=1", "output.record_tokens=true"]
ROLLOUT_BATCHES = ["algorithm.rollout.rollout_batch_size=2"]


@pytest.fixture(scope="module")
def partners(tiny_model: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of two short runs of different seeds."""
    folder = tmp_path_factory.mktemp("partners")
    for seed in (1, 2):
        given = [*LOUD, *KEPT, ADAPTERS, f"seed={seed}", f"output.name=seed-{seed}"]
        Runs(quick_overrides(tiny_model, folder), folder, folder).train(*given)
    return folder


@pytest.fixture
def pool(partners: Path, tmp_path: Path) -> str:
    """Copies of the two runs, as the value of `partners.pool`."""
    shutil.copytree(partners, tmp_path, dirs_exist_ok=True)
    return f"[{tmp_path}/seed-1,{tmp_path}/seed-2]"


def weights(team: Any, agent: str) -> list[torch.Tensor]:
    return [tensor.detach().clone() for tensor in team[agent].parameters()]


def equal(one: list[torch.Tensor], other: list[torch.Tensor]) -> bool:
    return all(map(torch.equal, one, other))


def stored(team: Any) -> dict[str, bytes]:
    files = sorted(Path(team).rglob("*.safetensors"))
    return {str(path.relative_to(team)): path.read_bytes() for path in files}


def test_partners_share_the_base_and_only_the_others_learn(
    runs: Runs, pool: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    given = [*LOUD, *KEPT, ADAPTERS, f"partners.pool={pool}"]
    with caplog.at_level(logging.INFO):
        result = runs.train(*given)
    cost = "2 partners play summarizer_0: 2 adapters on the base of the team, 0 further models"
    assert cost in caplog.text
    assert caplog.text.index(cost) < caplog.text.index("update 1, train")
    config = runs.config(*given, "output.name=plan")
    lines = plan_lines(config, estimate_devices(config, "cpu", {}))
    assert any(cost in line for line in lines)
    saved = stored(result.team)
    assert set(saved) == {
        f"{AUX}/adapter_model.safetensors",
        f"{MAIN}/adapter_model.safetensors",
    }
    first = stored(tmp_path / "seed-1" / "final_model")[f"{AUX}/adapter_model.safetensors"]
    assert saved[f"{AUX}/adapter_model.safetensors"] == first, "the first partner, unchanged"
    metrics = runs.rows("train")
    assert all(f"grad_norm/{MAIN}" in row and f"grad_norm/{AUX}" not in row for row in metrics)
    assert len(runs.manifest()["partners"]) == 2
    assert set(load_saved_team(result.team)) == {AUX, MAIN}


def test_each_start_is_played_with_the_partner_that_was_drawn(runs: Runs, pool: str) -> None:
    config = runs.config(*LOUD, ADAPTERS, f"partners.pool={pool}")
    run = resolve(config)
    team = load_policies(config, [run.train_env], run.team)
    players = team[AUX]
    assert isinstance(players, PartnerPool) and len(players.members) == 2
    engines = {id(policy.engine) for policy in (*players.members, team[MAIN])}  # type: ignore[attr-defined]
    assert len(engines) == 1
    assert not [p for m in players.members for p in m.parameters() if p.requires_grad]  # type: ignore[attr-defined]
    assert list(distinct_policies(team)) == [AUX, MAIN]


def test_checkpoints_are_partners_on_the_same_base(runs: Runs, pool: str, tmp_path: Path) -> None:
    checkpoint = tmp_path / "seed-1" / "checkpoints" / "update-000002"
    config = runs.config(*LOUD, ADAPTERS, f"partners.pool=[{tmp_path}/seed-1,{checkpoint}]")
    run = resolve(config)
    with torch.no_grad():
        members = load_policies(config, [run.train_env], run.team)[AUX].members  # type: ignore[attr-defined]
    assert members[0].engine is members[1].engine
    one, other = (
        [w for name, w in m.model.named_parameters() if m.adapter in name.split(".")]
        for m in members
    )
    assert equal(one, other) and any(bool(weight.any()) for weight in one)


def test_a_run_with_a_pool_goes_on_like_unstopped(runs: Runs, pool: str, tmp_path: Path) -> None:
    given = [*LOUD, *KEPT, ADAPTERS, f"partners.pool={pool}", "algorithm.max_updates=3"]
    straight = runs.train(*given, "output.name=straight")
    runs.train(*given, "output.name=again", "algorithm.max_updates=1")
    again = resume(tmp_path / "again", ["algorithm.max_updates=3"])
    assert stored(again.team) == stored(straight.team)
    episodes = [
        [row for row in read_json_lines(result.folder.episodes) if row["phase"] == "train"]
        for result in (straight, again)
    ]
    assert episodes[0] == episodes[1] and len(episodes[0]) == 12
    shutil.copy(
        tmp_path / "seed-2/final_model/team.json", tmp_path / "seed-1/final_model/extra.json"
    )
    with pytest.raises(ConfigError, match="the partners of its configuration have changed"):
        resume(tmp_path / "again", ["algorithm.max_updates=4"])


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["local", "ray"])
def test_workers_play_equal_partners(runs: Runs, pool: str, tmp_path: Path, engine: str) -> None:
    if engine == "ray":
        pytest.importorskip("ray")
    given = [*LOUD, *KEPT, *ROLLOUT_BATCHES, ADAPTERS, f"partners.pool={pool}"]
    alone = runs.train(*given, "output.name=alone")
    workers = ["cluster.rollout_workers=2", f"cluster.engine={engine}", "output.name=workers"]
    shared = runs.train(*given, *workers)
    assert stored(alone.team) == stored(shared.team)
    rows = [
        [row for row in read_json_lines(r.folder.episodes) if row["phase"] == "train"]
        for r in (alone, shared)
    ]
    assert rows[0] == rows[1] and len(rows[0]) == 8


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["partners.pool=[nowhere]"], "nowhere is no run .config.yaml., no saved team"),
        (["partners.pool=[a,b,a]"], "partners.pool names one of these twice: a, b, a"),
        (["partners.agents=[aux_1]"], "unknown agent in partners.agents 'aux_1'"),
        (["partners.agents=[aux_0,main_0]"], "leave at least one that learns"),
        (["env.centralized=true"], "partners.pool plays nobody of team_0"),
        (["policies.aux_0.temperature=0.5"], "or set policies.aux_0=null"),
        (["model.shared=true"], "main_0 shares the policy 'shared' with an agent that"),
        (["policies.aux_0.kind=pool"], "the section partners declares pools"),
        (["inference.engine=vllm"], "not supported with inference.engine=vllm"),
        (["learner.fsdp_size=2", "model.lora=null"], "not supported with learner.fsdp_size=2"),
        (
            ["algorithm.name=madpo", "algorithm.preferences.source=pairs.jsonl"],
            "not supported with algorithm.preferences.source",
        ),
    ],
)
def test_pool_misfits_named(runs: Runs, tmp_path: Path, overrides: list[str], message: str) -> None:
    folder = tmp_path / "partner"
    folder.mkdir()
    with pytest.raises(ConfigError, match=message):
        resolve(runs.config(f"partners.pool=[{folder}]", *overrides))


def test_a_stored_run_is_read_without_its_pool(runs: Runs, pool: str, tmp_path: Path) -> None:
    runs.train(*LOUD, ADAPTERS, f"partners.pool={pool}", "algorithm.max_updates=1")
    shutil.rmtree(tmp_path / "seed-1")
    config = load_config(tmp_path / "run" / "config.yaml")
    assert config.partners.pool[0] == str(tmp_path / "seed-1")


def test_evaluations_show_the_words_that_training_renames(runs: Runs) -> None:
    compose = ["env.id=compose-v0", "env.options={convention: name, types: numbers}"]
    config = runs.config(*compose, "dataset.train_split=train", "partners.other_play=true")
    assert config.make_train_env().spec_kwargs["other_play"] is True
    assert "other_play" not in config.make_eval_env().spec_kwargs
    with pytest.raises(ConfigError, match="declares none: leave out other_play"):
        runs.config("partners.other_play=true")
