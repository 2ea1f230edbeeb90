"""Whole runs with a tiny model that knows nothing."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from llm_decpomdp.agents import Gold, load_saved_team
from llm_decpomdp.algorithms import Learner
from llm_decpomdp.benchmarks import load_config, train
from llm_decpomdp.benchmarks.cli.scripts import main as script
from llm_decpomdp.benchmarks.config.errors import ConfigError, RunError
from llm_decpomdp.benchmarks.config.load import find_config
from llm_decpomdp.benchmarks.runs import SETTINGS
from llm_decpomdp.benchmarks.runs.data import load_envs, schedule
from llm_decpomdp.benchmarks.runs.resume import resume
from llm_decpomdp.policy import TrainablePolicy
from llm_decpomdp.utils.storage import read_json_lines
from tests.benchmarks.runs.conftest import Runs
from tests.support.commands import call
from tests.support.processes import ROOT


def episodes(folder: Path) -> list[dict[str, Any]]:
    return list(read_json_lines(folder / "episodes.jsonl"))


def test_the_magrpo_script_trains_a_team_and_leaves_a_run_folder(
    quick: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--config", str(ROOT / "benchmarks/configs/mt_magrpo_che_config.yaml")]
    script("magrpo", "mt_magrpo_he_config", [*arguments, "--override", *quick, "seed=3"])
    told, folder = capsys.readouterr().out, tmp_path / "run"
    assert "before training: mean reward 0.000 (n = 2, standard error 0.000)" in told
    assert "after training:" in told
    assert f"report: {folder / 'report.html'}" in told
    assert (folder / "report.html").is_file()
    assert load_config(folder / "config.yaml").seed == 3
    rows = episodes(folder)
    assert {row["phase"] for row in rows} == {"train", "eval"}
    assert all(len(row["groups"]) == 2 for row in rows)
    assert set(rows[0]["groups"][0]["prompts"]) == {"aux_0", "main_0"}


def test_the_manifest_tells_data_versions_and_seed(runs: Runs, quick: list[str]) -> None:
    overrides = [*quick, "output.report=false", "algorithm.max_updates=1", "evaluation.num_tasks=0"]
    config = load_config(find_config("magrpo_che_config"), overrides)
    result = train(config, "mine")
    manifest = runs.manifest()
    assert manifest["data"]["train"]["split"] == "test[16:]"
    assert manifest["data"]["eval"]["split"] == "test[:16]"
    assert manifest["data"]["train"]["stand_in"] is True
    assert len(manifest["data"]["train"]["fingerprint"]) == 16
    assert (manifest["seed"], manifest["config"]) == (0, "mine")
    assert manifest["packages"]["torch"] and manifest["python"] and manifest["platform"]
    assert manifest["threads"] == torch.get_num_threads()
    assert result.summary["first_eval"] is None


def test_a_run_that_learned_nothing_says_so_at_its_end_and_in_its_report(
    quick: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script("magrpo", "magrpo_che_config", ["--override", *quick])
    told = capsys.readouterr().out
    assert "equal: 2 of 2 groups; 2 of 2 updates taught nothing" in told
    assert "cut off at the token limit: 100% of the completions" in told
    page = (tmp_path / "run" / "report.html").read_text()
    assert re.search(r"groups with equal rewards \(no gradient\)</th><td>2 of 2<", page)
    assert re.search(r"completions truncated at the token limit</th><td>100%<", page)


def test_the_grpo_script_trains_and_saves_an_adapter(quick: list[str], tmp_path: Path) -> None:
    saved = tmp_path / "saved"
    more = ["model.lora={r: 2}", "output.save_final_model=true", f"output.save_path={saved}"]
    overrides = [*quick, *more, "algorithm.max_updates=1", "output.report=false"]
    script("grpo", "grpo_he_config", ["--override", *overrides])
    assert {path.name for path in saved.iterdir()} == {"team.json", "main_0"}
    assert (saved / "main_0" / "adapter_config.json").is_file()
    assert (saved / "main_0" / "tokenizer.json").is_file()


def test_runs_stopped_by_ctrl_c_continue_the_same(quick: list[str], tmp_path: Path) -> None:
    whole = [*quick, "algorithm.max_updates=25", "output.report=false"]
    command = [sys.executable, "-m", "llm_decpomdp.benchmarks", "train", "--config", "demo"]
    process = subprocess.Popen(
        [*command, "--override", *whole],
        cwd=ROOT,
        stderr=subprocess.PIPE,
        text=True,
        env=dict(os.environ),
    )
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith("update 1, train"):
            process.send_signal(signal.SIGINT)
            break
    told = process.stderr.read()
    process.stderr.close()
    assert process.wait() == 130, told
    assert f"llm-decpomdp train --resume {tmp_path / 'run'}" in told

    assert max(row["update"] for row in episodes(tmp_path / "run")) < 25
    resume(tmp_path / "run")
    train(load_config(find_config("demo"), [*whole, "output.name=other"]), "demo")
    assert episodes(tmp_path / "run") == episodes(tmp_path / "other")
    assert (tmp_path / "run" / "report.html").exists() is False


def test_a_folder_without_a_checkpoint_cannot_be_resumed(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("seed: 1\n")
    with pytest.raises(ConfigError, match="no checkpoint"):
        resume(tmp_path)


def test_a_finished_run_is_said_to_be_so(runs: Runs, tmp_path: Path) -> None:
    runs.train("output.report=false", config="demo")
    with pytest.raises(ConfigError, match="run is finished: there is no update left"):
        resume(tmp_path / "run")
    metrics = tmp_path / "run" / "metrics.jsonl"
    metrics.write_text("".join(f"{line}\n" for line in metrics.read_text().splitlines()[:2]))
    with pytest.raises(ConfigError, match="no checkpoint"):
        resume(tmp_path / "run")


def test_a_folder_that_holds_a_run_is_not_written_over(runs: Runs, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "config.yaml").write_text("seed: 1\n")
    with pytest.raises(ConfigError, match=r"already holds a run: choose another output\.name"):
        runs.train()


def test_an_epoch_plays_every_task_once_in_an_order_of_its_own() -> None:
    tasks = [f"task/{i}" for i in range(5)]
    overrides = ["algorithm.num_train_epochs=2", "algorithm.prompts_per_update=2"]
    batches = schedule(load_config(None, overrides), tasks)
    assert [len(batch) for batch in batches] == [2, 2, 1, 2, 2, 1]
    order = [start.task_id for batch in batches for start in batch]
    assert sorted(order[:5]) == sorted(order[5:]) == tasks
    assert order[:5] != order[5:]
    assert batches == schedule(load_config(None, overrides), tasks)
    assert batches != schedule(load_config(None, [*overrides, "seed=1"]), tasks)
    short = load_config(None, [*overrides, "algorithm.max_updates=4"])
    assert schedule(short, tasks) == batches[:4]


def test_both_splits_come_from_where_the_first_was_found(tmp_path: Path) -> None:
    config = load_config(None, ["env.id=humaneval-v0"])
    train_env, eval_env = load_envs(config)
    assert train_env.tasks.source == eval_env.tasks.source == "package"
    assert len(train_env.tasks) + len(eval_env.tasks) == 164


@pytest.mark.parametrize("name", ["marloo", "maremax", "mareinforce"])
def test_one_word_trains_with_another_algorithm(runs: Runs, quick: list[str], name: str) -> None:
    more = [f"algorithm.name={name}", "algorithm.max_updates=1", "output.report=false"]
    more += ["evaluation.num_tasks=0"]
    assert call("train", "--config", "demo", "--override", *quick, *more) == 0
    manifest = runs.manifest()
    assert manifest["algorithm"] == name
    assert len(runs.rows()) == 1


def test_declared_teams_learn_in_trees_and_are_saved(quick: list[str], tmp_path: Path) -> None:
    overrides = [
        *quick,
        "team={aux_0: helper, main_0: partner}",
        "policies={helper: {lora: {r: 2}}, partner: {kind: gold}}",
        *("env.num_turns=2", "env.discount=0.5", "env.stop_when_solved=false"),
        *("algorithm.name=marloo", "algorithm.rollout.mode=tree", "algorithm.joint_mode=cross"),
        *("algorithm.num_iterations=2", "algorithm.kl.coefficient=0.1"),
        *("algorithm.lr_schedule=cosine", "algorithm.max_updates=1"),
        *("output.save_final_model=true", "output.keep_best=true", "output.report=false"),
    ]
    train(load_config(find_config("demo"), overrides), "demo")
    rows = [row for row in episodes(tmp_path / "run") if row["phase"] == "train"]
    assert rows
    saved = tmp_path / "run" / "final_model"
    described = json.loads((saved / "team.json").read_text())
    assert described["agents"] == {"aux_0": "helper", "main_0": "partner"}
    assert described["policies"]["partner"] == {"kind": "gold"}
    team = load_saved_team(saved)
    assert isinstance(team["aux_0"], TrainablePolicy) and isinstance(team["main_0"], Gold)


def test_a_place_for_the_team_that_holds_something_else_is_refused_before_training(
    quick: list[str], tmp_path: Path
) -> None:
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "text").write_text("years of work")
    overrides = [*quick, "output.save_final_model=true", f"output.save_path={tmp_path / 'thesis'}"]
    with pytest.raises(ConfigError, match=r"output\.save_path: .*thesis holds something else"):
        train(load_config(find_config("demo"), overrides), "demo")
    assert not (tmp_path / "run").exists()


def test_a_discount_without_effect_is_told(runs: Runs, caplog: pytest.LogCaptureFixture) -> None:
    more = ["env.discount=0.5", "env.num_turns=2", "algorithm.max_updates=1"]
    more += ["evaluation.num_tasks=0", "output.report=false"]
    runs.train(*more, config="demo")
    assert "env.discount=0.5 has no effect" in caplog.text


def test_a_reward_that_raises_in_training_names_the_task_and_how_to_go_on(
    runs: Runs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from llm_decpomdp.envs.probes import parts

    grade, calls = parts.Points.__call__, []

    def broken(self: Any, task: Any, completions: Any) -> Any:
        calls.append(task.task_id)
        if len(calls) > 6:
            raise error
        return grade(self, task, completions)

    monkeypatch.setattr(parts.Points, "__call__", broken)
    own = ["env.id=probe-halves-v0", "env.num_turns=1", "output.checkpoint_every=1"]
    config = runs.config(*own, "algorithm.max_updates=9", "evaluation.num_tasks=null")
    error: Exception = ZeroDivisionError("as the test wants")
    with pytest.raises(ZeroDivisionError) as caught:
        train(config, "mine")
    raised, resumed = caught.value.__notes__
    assert raised == f"raised by the reward Points on the task {calls[-1]!r}"
    assert resumed.endswith(f"is saved; to continue from it: --resume {tmp_path / 'run'}")


def test_a_loss_that_is_not_finite_is_no_reason_to_resume_with_the_same_options(
    runs: Runs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    accumulate = Learner.accumulate

    def diverge(self: Any, rollouts: Any) -> Any:
        if self.updates:
            raise FloatingPointError("the loss is nan")
        return accumulate(self, rollouts)

    monkeypatch.setattr(Learner, "accumulate", diverge)
    own = ["env.id=probe-halves-v0", "env.num_turns=1", "algorithm.max_updates=3"]
    told = f"the loss is nan. Update 1 is saved; to begin a new run .*: --from {tmp_path / 'run'}"
    with pytest.raises(RunError, match=told):
        runs.train(*own)


CODE = """
import os, sys
sys.path.insert(0, sys.argv[1])
from llm_decpomdp.benchmarks.runs import SETTINGS, restart_with_settings
print("start", flush=True)
restart_with_settings()
print({name: os.environ.get(name) for name in SETTINGS} , sys.argv[2:])
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the settings are those of glibc")
def test_the_process_starts_anew_once_and_keeps_what_the_user_has_set(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(CODE)
    environment = {k: v for k, v in os.environ.items() if k not in SETTINGS}
    environment["MALLOC_TOP_PAD_"] = "12345"
    result = subprocess.run(
        [sys.executable, str(script), str(ROOT), "an argument", "--flag"],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    first, second, last = result.stdout.splitlines()
    assert first == second == "start"
    assert last == f"{ {**SETTINGS, 'MALLOC_TOP_PAD_': '12345'} } ['an argument', '--flag']"


@pytest.mark.parametrize(
    ("override", "what"),
    [
        ("algorithm.name=madpo", "algorithm madpo"),
        ("algorithm.name=maac", "a critic"),
        ("algorithm.critic=own", "a critic"),
        ("warm_start.source=gold", "a warm start"),
        ("algorithm.reward_model=model.json", "reward_model=.*model.json"),
    ],
)
def test_what_makes_other_passes_is_refused(runs: Runs, override: str, what: str) -> None:
    runs.config(override)
    with pytest.raises(ConfigError, match=f"{what} does not work with learner.fsdp_size"):
        runs.config(override, "learner.fsdp_size=2")


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["output.checkpoint_every=0"], r"set output\.checkpoint_every"),
        (["policies.aux_0.device=cuda:1"], r"'aux_0' has device=cuda:1.*drop device"),
        (
            ["sampler.engine=vllm", "sampler.python=/p", "model.top_p=1"],
            r"inference\.engine=vllm works with one",
        ),
        (
            ["learner.gather_for_generation=false", "model.static_cache=true"],
            r"static_cache=true.*gather_for_generation=true",
        ),
        (
            [
                "learner.gather_for_generation=false",
                "cluster.rollout_workers=1",
                "algorithm.rollout.rollout_batch_size=1",
            ],
            r"rollout_workers=0, or learner\.gather_for_generation=true",
        ),
    ],
)
def test_limits_of_several_processes(runs: Runs, overrides: list[str], message: str) -> None:
    shards = ["learner.fsdp_size=2", "output.checkpoint_every=1"]
    runs.config(*shards)
    with pytest.raises(ConfigError, match=message):
        runs.config(*shards, *overrides)


def test_a_run_has_as_many_processes_as_shards(runs: Runs, quick: list[str]) -> None:
    config = runs.config("learner.fsdp_size=2", "output.checkpoint_every=1")
    with pytest.raises(RunError, match=r"needs 2 processes, and the run has 1: .*torchrun"):
        train(config, "quick")
