from __future__ import annotations

import logging
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from llm_decpomdp.algorithms import (
    ALGORITHMS,
    LearnerOptions,
    SampledSource,
    Start,
    Trainer,
    TrainerOptions,
    add_wrappers,
)
from llm_decpomdp.algorithms.rollouts.collection import MAX_ROWS, sample_groups
from llm_decpomdp.algorithms.training import checkpoint
from llm_decpomdp.algorithms.training.callbacks import defer_signals
from llm_decpomdp.algorithms.training.trainer import OutOfMemory, memory_ran_out
from llm_decpomdp.policy import Completion
from llm_decpomdp.utils.storage import read_json_lines
from tests.algorithms.conftest import EchoEnv
from tests.algorithms.runs import BATCHES, EVAL_STARTS, Run, build, make_team, on_call, weights


def train_rows(trainer: Run) -> list[dict[str, Any]]:
    return [row for row in read_json_lines(trainer.folder.metrics) if row["kind"] == "train"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_are_held_back_until_the_end_of_the_block(number: signal.Signals) -> None:
    done = False
    previous = signal.signal(number, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt), defer_signals():
            signal.raise_signal(number)
            done = True
    finally:
        signal.signal(number, previous)
    assert done


def test_after_a_run_signals_do_what_they_did_before(tmp_path: Path) -> None:
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    build(tmp_path).run_updates()
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before


def test_evaluations_do_not_disturb_the_training(tmp_path: Path) -> None:
    often = build(tmp_path / "often", eval_every=1, keep_best=True)
    never = build(tmp_path / "never", eval_starts=[])
    often.run_updates()
    never.run_updates()
    for a, b in zip(weights(often), weights(never), strict=True):
        assert torch.equal(a, b)
    kinds = [(row["kind"], row["update"]) for row in read_json_lines(often.folder.metrics)]
    assert [update for kind, update in kinds if kind == "eval"] == [0, 1, 2, 3, 4]
    assert {row["kind"] for row in read_json_lines(never.folder.metrics)} == {"train"}


def test_evaluations_are_played_in_an_environment_of_their_own(tmp_path: Path) -> None:
    trainer = build(tmp_path, env=EchoEnv(1), eval_env=EchoEnv(3))
    trainer.run_updates()
    turns: dict[str, set[int]] = {"train": set(), "eval": set()}
    for row in read_json_lines(trainer.folder.episodes):
        turns[row["phase"]] |= {group["turn"] for group in row["groups"]}
    assert turns == {"train": {0}, "eval": {0, 1, 2}}
    assert trainer.evaluation.cost is not None
    assert trainer.evaluation.cost.groups == 3 * len(EVAL_STARTS) * 2  # before and after


def test_without_learning_all_evaluations_are_equal(tmp_path: Path) -> None:
    still = build(tmp_path, learner={"learning_rate": 0.0}, keep_best=True)
    summary = still.run_updates()
    assert summary["first_eval"]["reward_mean"] == summary["last_eval"]["reward_mean"]
    assert summary["first_eval"]["n"] == len(EVAL_STARTS)
    assert still.load_best()["update"] == 0  # the first of equal ones


def test_the_best_policies_are_kept_beside_checkpoints_and_can_be_loaded(tmp_path: Path) -> None:
    trainer = build(
        tmp_path,
        keep_best=True,
        eval_every=1,
        checkpoint_every=1,
        keep_checkpoints=1,
        learner={"learning_rate": 0.5},
    )
    seen: list[list[torch.Tensor]] = []
    evaluate = trainer.evaluation.evaluate

    def look_and_evaluate(*given: Any) -> Any:
        seen.append([weight.clone() for weight in weights(trainer)])
        return evaluate(*given)

    trainer.evaluation.evaluate = look_and_evaluate  # type: ignore[method-assign]
    trainer.run_updates()
    evaluated = [
        r["reward_mean"] for r in read_json_lines(tmp_path / "metrics.jsonl") if r["kind"] == "eval"
    ]
    best = evaluated.index(max(evaluated))
    assert max(evaluated) > min(evaluated)
    names = sorted(path.name for path in (tmp_path / "checkpoints").iterdir())
    assert names == [f"best-{best:06d}", "update-000004"]
    assert trainer.load_best() == {"update": best, "reward_mean": max(evaluated)}
    assert all(torch.equal(a, b) for a, b in zip(weights(trainer), seen[best], strict=True))


def test_there_is_no_best_where_none_was_kept(tmp_path: Path) -> None:
    trainer = build(tmp_path)
    trainer.run_updates()
    with pytest.raises(FileNotFoundError, match="keep_best was not set"):
        trainer.load_best()
    with pytest.raises(ValueError, match="no eval_starts"):
        build(tmp_path / "other", eval_starts=[], keep_best=True)


def test_the_run_folder_tells_what_happened(tmp_path: Path) -> None:
    trainer = build(tmp_path, checkpoint_every=1)
    trainer.run_updates()
    row = train_rows(trainer)[0]
    assert row["update"] == 1 and row["reward/letters"] == pytest.approx(row["reward_mean"])
    episodes = list(read_json_lines(tmp_path / "episodes.jsonl"))
    trained = [episode for episode in episodes if episode["phase"] == "train"]
    assert [episode["start"] for episode in trained] == [
        {"seed": start.seed, "task_id": None} for batch in BATCHES for start in batch
    ]
    first, second = next(e["groups"] for e in trained if len(e["groups"]) == 2)
    assert set(first["prompts"]) == set(first["completions"]) == {"x", "y"}
    assert len(first["completions"]["x"]) == len(first["rewards"]) == len(first["infos"]) == 3
    assert set(first["finish_reasons"]["y"]) <= {"stop", "length"}
    assert second["prompts"]["x"] == "".join(
        first["completions"][agent][first["chosen"]] for agent in ("x", "y")
    )
    saved = sorted(path.name for path in (tmp_path / "checkpoints").iterdir())
    assert saved == ["update-000003", "update-000004"]


def test_a_tree_is_grown_where_the_plan_says_so(tmp_path: Path) -> None:
    trainer = build(tmp_path, mode="tree", joint_mode="cross", group_size=2)
    trainer.run_updates()
    trained = [e for e in read_json_lines(tmp_path / "episodes.jsonl") if e["phase"] == "train"]
    assert {len(group["joint"]) for episode in trained for group in episode["groups"]} == {4}
    assert max(len(episode["groups"]) for episode in trained) > 2
    assert {group["chosen"] for episode in trained for group in episode["groups"]} == {None}


def test_the_cost_is_told_before_a_run(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    trainer = build(tmp_path, mode="tree", eval_every=2)
    cost, evaluations = trainer.source.cost, trainer.evaluation.cost
    assert cost is not None and evaluations is not None
    assert (cost.start.completions, cost.start.joint_samples) == (3 + 9, 3 + 9)
    assert (cost.update.completions, cost.training.completions) == (24, 96)
    assert evaluations.completions == 3 * len(EVAL_STARTS) * 2
    with caplog.at_level(logging.INFO, "llm_decpomdp"):
        trainer.run_updates()
    assert "12 completions of each agent and 12 joint samples" in caplog.records[0].message
    assert len(list(read_json_lines(trainer.folder.episodes))) > 0


def test_an_absurd_cost_is_refused_before_any_sampling(tmp_path: Path, make_env: Any) -> None:
    team = make_team()
    with pytest.raises(ValueError, match="more than 100,000 is refused"):
        build(tmp_path, env=make_env(12), team=team, mode="tree", group_size=4)
    assert team["x"].batches == []


def test_a_folder_with_a_run_is_not_written_over(tmp_path: Path) -> None:
    build(tmp_path).run_updates()
    with pytest.raises(FileExistsError, match="already holds a run"):
        build(tmp_path).run_updates()


def test_a_policy_without_a_seed_may_be_a_partner(tmp_path: Path) -> None:
    class Scripted:
        def generate(self, prompts: Sequence[str], num_samples: int = 1) -> Any:
            return [[Completion("a")] * num_samples for _ in prompts]

        def act(self, prompt: str) -> str:
            return "a"

    trainer = build(tmp_path, team={**make_team(), "y": Scripted()})
    trainer.run_updates()
    assert "loss/x" in train_rows(trainer)[0] and "loss/y" not in train_rows(trainer)[0]


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"group_size": 0}, "group_size must be at least 1"),
        ({"branch_selection": "bst"}, "did you mean 'best'"),
        ({"mode": "trees"}, "did you mean 'tree'"),
        ({"joint_mode": "crossed"}, "did you mean 'cross'"),
        (
            {"num_partners": 2},
            "num_partners=2 means nothing with joint_mode=aligned: set joint_mode to common",
        ),
        (
            {"branch_selection": "best", "mode": "tree"},
            "branch_selection=best means nothing with mode=tree: set mode to chain",
        ),
    ],
)
def test_bad_options_are_named(options: Any, match: str) -> None:
    with pytest.raises(ValueError, match=match):
        TrainerOptions(**options)


@pytest.mark.parametrize(
    "options",
    [{"max_resample_rounds": 1}, {"curriculum": "pass_rate"}, {"max_async_level": 1}],
)
def test_options_of_wrappers_need_the_wrappers(options: Any) -> None:
    env, team = EchoEnv(1), make_team()
    learner = ALGORITHMS["magrpo"].make_learner(team, LearnerOptions())
    trainer_options = TrainerOptions(**options)
    parts = (env, team, learner, trainer_options)
    source = SampledSource(*parts, BATCHES)
    ((name, value),) = options.items()
    text = rf"^{name}={value} needs a wrapper .* give the trainer add_wrappers\(source, env, team"
    with pytest.raises(ValueError, match=text):
        Trainer(env, team, learner, source, trainer_options)
    Trainer(env, team, learner, add_wrappers(source, *parts, problems=EVAL_STARTS), trainer_options)


@pytest.mark.parametrize(
    ("options", "callback"),
    [
        ({"checkpoint_every": 1}, "CheckpointManager"),
        ({"checkpoint_minutes": 1.0}, "CheckpointManager"),
        ({"record_tokens": True}, "RunLog"),
        ({"eval_every": 1}, "PeriodicEvaluation"),
    ],
)
def test_options_of_callbacks_need_the_callbacks(
    tmp_path: Path, options: Any, callback: str
) -> None:
    run = build(tmp_path, **options)
    (name,) = options
    parts = (run.env, run.team, run.learner, run.source, run.options)
    without = [part for part in run.callbacks if name not in part.option_names]
    text = (
        f"{name}=.* means nothing with these callbacks: add a {callback}, or name it in `option_n"
    )
    with pytest.raises(ValueError, match=text):
        Trainer(*parts, without[1:])
    Trainer(*parts, run.callbacks[1:])


def test_an_update_without_a_start_is_refused(tmp_path: Path) -> None:
    for batches in ([], [[Start()], []]):
        with pytest.raises(ValueError, match="at least one start"):
            build(tmp_path, batches)


def test_no_terminal_no_progress_bar(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    build(tmp_path).run_updates()
    assert capfd.readouterr() == ("", "")


def test_memory_that_runs_out_is_told_with_what_to_change(tmp_path: Path) -> None:
    trainer = build(tmp_path)
    policy: Any = trainer.team["y"]
    policy.log_probs = on_call(9, policy.log_probs, lambda *_: torch.empty(2**60))
    with pytest.raises(OutOfMemory, match="can't allocate memory") as caught:
        trainer.run_updates()
    text = str(caught.value)
    assert "group_size=3 and 2 prompts per update" in text
    for remedy in ("train_batch_size", "max_new_tokens", "gradient_checkpointing", "lora"):
        assert remedy in text
    newest = checkpoint.latest(trainer.folder.checkpoints)
    assert trainer.saved and newest is not None and newest.name == f"update-{trainer.saved:06d}"


def test_a_full_disk_is_told_before_the_run_and_before_each_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    free = 10**6

    class Usage:
        def __init__(self, path: Path) -> None:
            self.free = free

    monkeypatch.setattr("shutil.disk_usage", Usage)
    trainer = build(tmp_path, checkpoint_every=1)
    free = 0
    needed = r"the run with its checkpoints needs 34.8 kB, and 0 bytes are free .* lower keep_checkpoints"
    with pytest.raises(OSError, match=needed):
        trainer.run_updates()
    assert not trainer.folder.metrics.exists()
    free = 10**6
    policy: Any = trainer.team["y"]

    def fill(*arguments: Any) -> Any:
        nonlocal free
        free = 1000
        return make_team()["y"].generate(*arguments)

    policy.generate = on_call(12, policy.generate, fill)
    with pytest.raises(OSError, match=r"a checkpoint needs .* kB, and 1.0 kB are free on the disk"):
        trainer.run_updates()
    newest = checkpoint.latest(trainer.folder.checkpoints)
    assert newest is not None and newest.name == f"update-{trainer.saved:06d}"


@pytest.mark.parametrize("group_size", [1, 100, MAX_ROWS + 1])
def test_many_prompts_are_sampled_in_fitting_batches(make_env: Any, group_size: int) -> None:
    team, states = make_team(), 3 * MAX_ROWS // group_size or 2
    prompts = [dict.fromkeys("xy", "ab"[state % 2]) for state in range(states)]
    found = sample_groups(team, [make_env()] * states, prompts, group_size)
    batches = team["x"].batches
    assert [prompt for batch in batches for prompt in batch] == [state["x"] for state in prompts]
    assert max(map(len, batches)) == max(1, MAX_ROWS // group_size)
    assert len(found) == states and all(len(one["y"]) == group_size for one in found)


def raised(work: object) -> BaseException:
    with pytest.raises(BaseException) as caught:
        work()  # type: ignore[operator]
    return caught.value


def test_all_ways_to_run_out_of_memory_are_known() -> None:
    assert memory_ran_out(raised(lambda: torch.empty(2**60)))
    assert memory_ran_out(raised(lambda: np.empty(2**55)))
    assert memory_ran_out(raised(lambda: bytearray(2**60)))
    assert memory_ran_out(torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 MiB"))
    assert memory_ran_out(
        RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling cublasCreate")
    )


def test_other_failures_are_not_taken_for_it() -> None:
    assert not memory_ran_out(raised(lambda: torch.zeros(2) @ torch.zeros(3)))
    assert not memory_ran_out(ValueError("out of memory"))
    assert not memory_ran_out(KeyboardInterrupt())
