"""Runs that go on for longer, with other checkpoints, and with nothing else changed."""

from __future__ import annotations

import json
import logging
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import SafetensorError
from torch.utils._pytree import tree_leaves
from transformers import AutoModelForCausalLM

from llm_decpomdp.agents.inference import compiled
from llm_decpomdp.agents.models.pretrained import tiny_model
from llm_decpomdp.algorithms.training import checkpoint
from llm_decpomdp.benchmarks.analysis.credit_summary import credit_folder
from llm_decpomdp.benchmarks.analysis.replay import open_episodes, regrade
from llm_decpomdp.benchmarks.config.errors import ConfigError, RunError
from llm_decpomdp.benchmarks.config.load import find_config
from llm_decpomdp.benchmarks.config.schema import KEYS, Config
from llm_decpomdp.benchmarks.evaluation.request import EvalRequest, evaluate_team
from llm_decpomdp.benchmarks.runs import checkpoints as kept_teams
from llm_decpomdp.benchmarks.runs.data import load_envs
from llm_decpomdp.benchmarks.runs.resume import CHANGEABLE, refuse_other_changes, resume
from llm_decpomdp.benchmarks.runs.setup import load_config, load_stored_config
from llm_decpomdp.benchmarks.runs.train import train
from llm_decpomdp.envs.datasets import loading as sources
from llm_decpomdp.utils.storage import RunFolder
from tests.algorithms.runs import rows
from tests.benchmarks.runs.conftest import Runs
from tests.support.commands import call
from tests.support.locks import holder

LOUD = ["algorithm.name=mareinforce", "algorithm.truncation.mode=penalise"]
LOUD += ["algorithm.truncation.overlong_penalty=1", "algorithm.normalize_advantages=false"]
KEPT = ["output.checkpoint_every=1", "output.report=false", "evaluation.num_tasks=1"]


def begin(runs: Runs, *more: str) -> None:
    runs.copy(*KEPT, *LOUD, *more, config="demo")


def test_a_finished_run_goes_on_longer_as_if_meant_to(runs: Runs, tmp_path: Path) -> None:
    begin(runs, "output.name=straight", "algorithm.max_updates=4")
    begin(runs)
    longer = ["--override", "algorithm.max_updates=4", "output.keep_checkpoints=1"]
    assert call("train", "--resume", str(tmp_path / "run"), *longer) == 0
    for name in ("metrics.jsonl", "episodes.jsonl"):
        assert rows(tmp_path / "run" / name) == rows(tmp_path / "straight" / name)
    states = []
    for run in ("run", "straight"):
        found = checkpoint.latest(tmp_path / run / "checkpoints")
        assert found is not None and found.name == "update-000004"
        states.append(checkpoint.load(found)[1]["policies"]["aux_0"]["weights"])
    assert all(states[0][name].equal(weight) for name, weight in states[1].items())
    assert len(list((tmp_path / "run" / "checkpoints").iterdir())) == 1
    stored = load_config(tmp_path / "run" / "config.yaml")
    assert (stored.algorithm.max_updates, stored.output.keep_checkpoints) == (4, 1)
    manifest = runs.manifest()
    assert manifest["resumed"] == [{"after": 2, "overrides": longer[1:]}]


COMPILED = ["model.compile=true", "model.static_cache=true", "model.max_new_tokens=12"]
COMPILED += ["algorithm.num_train_epochs=4", "algorithm.normalize_advantages=false"]
# The offset of the reward is what a critic learns, and an advantage until it has.
COMPILED += ["env.id=probe-delayed-v0", "env.options.offset=1", "algorithm.num_generations=4"]
ADAPTERS = "model.lora={r: 2, target_modules: all-linear}"


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        ["algorithm.name=iac", "algorithm.critic.trunk=lora", ADAPTERS],
        ["algorithm.name=maac"],
        ["algorithm.name=coma", "model.fused_kernels=true"],
    ],
    ids=lambda options: options[0],
)
def test_a_run_with_compiled_layers_and_critics_resumes_exactly(
    runs: Runs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: list[str]
) -> None:
    # Inductor takes a minute for each of the three runs, and its own tests are in test_compiled.py.
    monkeypatch.setattr(compiled, "BACKEND", "aot_eager")
    overrides = [*KEPT, *COMPILED, *options]
    runs.train(*overrides, "output.name=straight", "algorithm.max_updates=4", config="demo")
    runs.train(*overrides, config="demo")
    # As in another process, nothing is compiled yet.
    torch._dynamo.reset()
    resume(tmp_path / "run", ["algorithm.max_updates=4"])
    folders = [tmp_path / name for name in ("straight", "run")]
    for name in ("metrics.jsonl", "episodes.jsonl"):
        straight, resumed = (rows(folder / name) for folder in folders)
        assert straight == resumed and straight
    states = []
    for folder in folders:
        found = checkpoint.latest(folder / "checkpoints")
        assert found is not None and found.name == "update-000004"
        states.append(tree_leaves(checkpoint.load(found)[1]))
    tensors = [[leaf for leaf in state if isinstance(leaf, torch.Tensor)] for state in states]
    assert all(torch.equal(a, b) for a, b in zip(*tensors, strict=True))
    for update in runs.rows("train")[1::2]:  # on both sides of the interruption
        assert update["grad_norm/player_0"] > 0 and "critic/loss" in update


def test_a_run_with_a_lag_warns_where_it_is_to_last_longer_than_it_sampled_for(
    runs: Runs, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    begin(
        runs,
        "algorithm.rollout.max_async_level=1",
        "algorithm.importance_sampling.mode=mask",
        "algorithm.max_updates=2",
    )
    with caplog.at_level(logging.WARNING):
        resume(tmp_path / "run", ["algorithm.max_updates=4"])
    (message,) = [
        record.message for record in caplog.records if "max_async_level" in record.message
    ]
    assert "was to end after update 2: the next updates learn from current weights" in message
    trained = [row for row in rows(tmp_path / "run" / "metrics.jsonl") if row["kind"] == "train"]
    assert [row["lag"] for row in trained] == [0, 1, 0, 1]
    assert all(row["ratio/aux_0"] > 0 for row in trained)


def test_other_changes_are_refused_and_the_safe_ones_named(runs: Runs, tmp_path: Path) -> None:
    begin(runs)
    before = (tmp_path / "run" / "config.yaml").read_text()
    for override, message in (
        ("algorithm.learning_rate=0.5", "keeps its algorithm.learning_rate; it may change"),
        ("policies={aux_0: {temperature: 0.1}}", "keeps its policies.aux_0; it may change"),
        ("seed=4", "--from FOLDER"),
        ("algorithm.max_updates=10000", "num_train_epochs=[0-9]+: raise that too"),
        ("algorithm.max_update=9", "did you mean 'algorithm.max_updates'"),
    ):
        with pytest.raises(ConfigError, match=message) as error:
            resume(tmp_path / "run", [override])
        if "may change" in message:
            assert all(key in str(error.value) for key in CHANGEABLE)
        assert (tmp_path / "run" / "config.yaml").read_text() == before
    assert {*CHANGEABLE} < {*KEYS}


def test_a_budget_below_the_complete_updates_is_refused_before_models_are_loaded(
    runs: Runs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin(runs)
    module = "llm_decpomdp.benchmarks.runs.resume.load_policies"
    monkeypatch.setattr(module, lambda *_: pytest.fail("models were loaded"))
    with pytest.raises(ConfigError, match="2 updates are done, and the new budget is 1: raise"):
        resume(tmp_path / "run", ["algorithm.max_updates=1"])


def test_a_limit_that_leaves_out_other_problems_is_refused(runs: Runs, tmp_path: Path) -> None:
    begin(runs, "model.on_long_prompt=truncate_left")
    with pytest.raises(ConfigError, match="2 updates are done: keep the limit of prompts"):
        short = ["model.max_prompt_tokens=900", "model.on_long_prompt=skip"]
        resume(tmp_path / "run", short)


def test_what_happens_to_long_prompts_may_change_for_one_policy(runs: Runs, tmp_path: Path) -> None:
    begin(runs)
    more = ["policies={aux_0: {on_long_prompt: truncate_left}}", "algorithm.max_updates=3"]
    assert resume(tmp_path / "run", more).summary["updates"] == 3


def test_a_falling_learning_rate_is_said_to_fall_to_another_end(
    runs: Runs, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    begin(runs, "algorithm.lr_schedule=linear")
    with caplog.at_level(logging.WARNING, "llm_decpomdp"):
        resume(tmp_path / "run", ["algorithm.max_updates=3"])
    assert "algorithm.lr_schedule=linear now falls to the end of 3 updates" in caplog.text


def test_two_resumes_of_one_run_do_not_train_side_by_side(
    runs: Runs, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    begin(runs)
    run = tmp_path / "run"
    longer = ["--override", "algorithm.max_updates=3"]
    with holder(run) as process:
        before = {path.name: path.read_bytes() for path in run.iterdir() if path.is_file()}
        assert call("train", "--resume", str(run), *longer) == 1
        after = {path.name: path.read_bytes() for path in run.iterdir() if path.is_file()}
        assert before == after
        told = capsys.readouterr().err
        assert f"error: process {process.pid} on " in told and f"is writing to {run}: wait" in told
        assert call("report", str(run)) == 0  # a reader
    assert call("train", "--resume", str(run), *longer) == 0
    assert not (run / "lock.json").exists()


@pytest.mark.parametrize("content", ["{", pytest.param(None, marks=pytest.mark.slow)])
def test_a_run_without_its_manifest_goes_on_with_a_warning(
    runs: Runs, tmp_path: Path, content: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    begin(runs, "output.name=straight", "algorithm.max_updates=3")
    begin(runs)
    manifest = tmp_path / "run" / "manifest.json"
    before = json.loads(manifest.read_text())
    if content is None:
        manifest.unlink()
    else:
        manifest.write_text(content)
    resume(tmp_path / "run", ["algorithm.max_updates=3"])
    assert "manifest.json is damaged" in caplog.text and "not known whether" in caplog.text
    assert rows(tmp_path / "run" / "metrics.jsonl") == rows(tmp_path / "straight" / "metrics.jsonl")
    now = json.loads(manifest.read_text())
    assert {key: now[key] for key in ("data", "packages", "model")} == {
        key: before[key] for key in ("data", "packages", "model")
    }
    assert now["restored_after"] == 2


def test_a_run_of_another_version_goes_on_and_says_so(
    runs: Runs, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    begin(runs)
    path = tmp_path / "run" / "manifest.json"
    manifest = json.loads(path.read_text())
    now, manifest["packages"]["llm-decpomdp"] = manifest["packages"]["llm-decpomdp"], "0.0.3"
    path.write_text(json.dumps(manifest))
    resume(tmp_path / "run")
    assert "the run goes on with other versions" in caplog.text
    assert f": llm-decpomdp was 0.0.3 and is {now}" in caplog.text
    (entry,) = json.loads(path.read_text())["resumed"]
    assert entry["after"] == 2 and entry["packages"]["llm-decpomdp"] == now
    caplog.clear()
    resume(tmp_path / "run")  # again with the same one
    assert "other versions" not in caplog.text


def test_a_run_whose_newest_checkpoint_is_damaged_goes_on(
    runs: Runs, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    begin(runs)
    before = rows(tmp_path / "run" / "metrics.jsonl")
    state = tmp_path / "run" / "checkpoints" / "update-000002" / "state.pt"
    state.write_bytes(b"")
    assert resume(tmp_path / "run").summary["updates"] == 2
    assert f"the checkpoint {state.parent} is damaged" in caplog.text
    assert rows(tmp_path / "run" / "metrics.jsonl") == before


def test_a_run_that_ended_before_its_first_update_is_started_again(
    runs: Runs, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    begin(runs)
    run = tmp_path / "run"
    whole = rows(run / "episodes.jsonl")
    for name in ("checkpoints", "final_model"):
        shutil.rmtree(run / name)
    for name in ("metrics.jsonl", "episodes.jsonl"):
        kept = (run / name).read_text().splitlines(keepends=True)[:1]  # of the first evaluation
        (run / name).write_text("".join(kept))
    assert call("train", "--resume", str(run)) == 2
    assert "since the run ended before its first update: start it again" in capsys.readouterr().err
    begin(runs)
    assert rows(run / "episodes.jsonl") == whole


def test_a_team_that_cannot_be_saved_is_no_loss(
    quick: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def full(*_: object) -> None:
        raise SafetensorError("Error while serializing: I/O error: No space left on device")

    more = ["output.save_final_model=true", "output.checkpoint_every=0"]
    with monkeypatch.context() as context:
        context.setattr(kept_teams, "save_team", full)
        assert call("train", "--config", "demo", "--override", *quick, *LOUD, *more) == 1
    told = capsys.readouterr().err
    assert f"the trained team cannot be saved in {tmp_path}/run/final_model: " in told
    assert f"Update 2 is saved. Free some space, then: --resume {tmp_path}/run" in told
    assert call("train", "--resume", str(tmp_path / "run")) == 0
    assert (tmp_path / "run" / "final_model" / "team.json").is_file()


def test_a_folder_or_a_device_that_cannot_be_used_is_told_before_models_are_loaded(
    runs: Runs, quick: list[str], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    (tmp_path / "file").write_text("")
    demo = find_config("demo")
    for wrong, message in {
        f"output.base_dir={tmp_path}/file": f"{tmp_path}/file is a file",
        "model.device=cuda:7": "model.device",
        f"sampler.python={tmp_path}/file": f"inference.python: {tmp_path}/file cannot be executed",
        f"sampler.python={tmp_path}/no": f"inference.python: {tmp_path}/no does not exist",
    }.items():
        engine = ["sampler.engine=vllm"] if "sampler" in wrong else []
        with pytest.raises(ConfigError, match=message):
            train(load_config(demo, [*quick, wrong, *engine]), "demo")
    assert not (tmp_path / "run").exists()
    with pytest.raises(ConfigError, match=f"{tmp_path}/file is a file"):
        evaluate_team(EvalRequest("demo", quick, output=tmp_path / "file"))
    begin(runs)
    with pytest.raises(ConfigError, match="holds a run"):
        caplog.clear()
        evaluate_team(EvalRequest("demo", quick, output=tmp_path / "run"))
    assert "loading" not in caplog.text
    begin(runs, "output.name=other")
    assert f"loading {quick[0].partition('=')[2]}" in caplog.text


def test_models_below_are_in_the_manifest_and_may_only_move(runs: Runs, tmp_path: Path) -> None:
    base, other = (shutil.copytree(tiny_model(), tmp_path / name) for name in ("base", "elsewhere"))
    lora = "model.lora={r: 2, target_modules: [q_proj]}"
    overrides = [f"model.name={base}", lora, "algorithm.kl.coefficient=0.1"]
    runs.train(*KEPT, *overrides, config="demo")
    manifest = runs.manifest()
    reference = f"{base} without adapters"
    assert manifest["kl_reference"] == {"aux_0": reference, "main_0": reference}
    described = manifest["base_models"]["aux_0"]
    assert described["name"] == str(base) and len(described["weights"]) == 64
    shutil.rmtree(base)
    resume(tmp_path / "run", ["algorithm.max_updates=3", f"model.name={other}"])
    model = AutoModelForCausalLM.from_pretrained(other)
    with torch.no_grad():
        model.lm_head.weight.add_(0.1)
    model.save_pretrained(other)
    with pytest.raises(RunError, match=r"elsewhere' below the policy of aux_0 has other weights"):
        resume(tmp_path / "run", ["algorithm.max_updates=4"])


def test_the_name_of_a_served_partner_stays() -> None:
    before = Config(policies={"x": {"kind": "endpoint", "name": "a"}, "y": {"name": "a"}})
    after = Config(policies={"x": {"kind": "endpoint", "name": "b"}, "y": {"name": "b"}})
    with pytest.raises(ConfigError, match=r"a resumed run keeps its policies\.x; it may"):
        refuse_other_changes(before, after)


OLD, NEW = "a" * 40, "b" * 40


def hub_rows(number: int, added: int) -> list[dict[str, str]]:
    return [
        {
            "task_id": f"own/{index}",
            "prompt": f'def f{index}(x):\n    """Add {added}."""\n',
            "test": f"def check(candidate):\n    assert candidate(1) == {added + 1}\n",
            "entry_point": f"f{index}",
        }
        for index in range(number)
    ]


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """A hub whose branch `main` moves on; remembers what it was asked for."""
    state: dict[str, Any] = {"main": OLD, "asked": []}

    def give(
        repository: str, config: str | None, split: str, revision: str
    ) -> tuple[list[dict[str, str]], str]:
        state["asked"].append(revision)
        commit = state["main"] if revision == "main" else revision
        return hub_rows(4, 1 if commit == OLD else 2), commit

    monkeypatch.setattr(sources, "hub_has", lambda repository: True)
    monkeypatch.setattr(sources, "hub_rows", give)
    return state


@pytest.fixture
def run(runs: Runs, hub: dict[str, Any]) -> Path:
    """A run on the hub's data, before the hub moved on."""
    items = ["dataset.source=auto", "dataset.train_split=test[2:]", "dataset.eval_split=test[:2]"]
    items += ["env.num_turns=1", "output.checkpoint_every=1", "output.report=false"]
    path = runs.train(*items).folder.path
    hub["main"] = NEW
    return path


def test_a_manifest_has_the_commit_of_both_splits(run: Path, hub: dict[str, Any]) -> None:
    data = RunFolder(run).read_manifest()["data"]
    for part in ("train", "eval"):
        assert (data[part]["source"], data[part]["revision"]) == ("hub", OLD)
    assert hub["asked"] == ["main", OLD]


def test_a_run_keeps_the_commit_that_it_began_with(run: Path, hub: dict[str, Any]) -> None:
    del hub["asked"][:]
    before = RunFolder(run).read_manifest()["data"]
    for env in load_envs(load_stored_config(run / "config.yaml"), before):
        assert env.tasks.revision == OLD
    resume(run)
    assert regrade(run).lines()[1:] == [
        "all agree: rewards, components, numbers, tests and prompts"
    ]
    credit_folder(run)
    assert set(hub["asked"]) == {OLD}


def test_an_evaluation_is_graded_again_with_the_commit_it_was_played_on(
    hub: dict[str, Any], quick: list[str], tmp_path: Path
) -> None:
    items = ["dataset.source=hub", "dataset.eval_split=test[:2]", "env.num_turns=1"]
    folder = tmp_path / "e"
    evaluate_team(EvalRequest(overrides=[*quick, *items], baseline="random", output=folder))
    hub["main"] = NEW
    assert open_episodes(folder).changes_of_data() == []
    assert not regrade(folder).differences


def test_a_team_that_plays_other_data_than_its_run_did_is_warned_of(
    run: Path, hub: dict[str, Any], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    evaluate_team(EvalRequest(team=run, output=tmp_path / "now"))
    (told,) = [one.getMessage() for one in caplog.records if "differ" in one.getMessage()]
    for part in (OLD, NEW, f"dataset.source=hub@{OLD} takes the earlier data", str(run)):
        assert part in told
    caplog.clear()
    pinned = EvalRequest(
        team=run, overrides=[f"dataset.source=hub@{OLD}"], output=tmp_path / "then"
    )
    evaluate_team(pinned)
    evaluate_team(EvalRequest(team=run, split="test[:1]", output=tmp_path / "other"))
    assert not [one for one in caplog.records if "differ" in one.getMessage()]


def test_a_file_that_was_changed_is_told_of(runs: Runs, tmp_path: Path) -> None:
    path = tmp_path / "own.jsonl"
    write = lambda added: path.write_text("\n".join(map(json.dumps, hub_rows(4, added))))  # noqa: E731
    write(1)
    items = [f"dataset.source={path}", "dataset.train_split=all[2:]", "dataset.eval_split=all[:2]"]
    items += ["env.num_turns=1", "output.checkpoint_every=1", "output.report=false"]
    run = runs.train(*items).folder.path
    write(2)
    with pytest.raises(ConfigError, match=r"cannot go on: the train data differ: 2 rows of coop"):
        resume(run)
    changes = regrade(run).data
    assert [change.partition(":")[0] for change in changes] == [
        "the train data differ",
        "the eval data differ",
    ]
    assert str(path) in changes[0]
