from __future__ import annotations

import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from llm_decpomdp.algorithms import ALGORITHMS, checkpoint
from llm_decpomdp.algorithms.interruption import Interrupted, uninterrupted
from llm_decpomdp.algorithms.options import LearnerOptions
from llm_decpomdp.algorithms.rollout import Start
from llm_decpomdp.algorithms.trainer import Trainer, TrainerOptions
from llm_decpomdp.policy import Completion
from llm_decpomdp.storage import RunFolder, append_json_line, read_json_lines

BATCHES = [[Start(seed=n), Start(seed=n + 1)] for n in range(4)]
EVAL_STARTS = [Start(seed=n) for n in range(20)]


@pytest.fixture
def make_trainer(make_env: Any, make_policy: Any) -> Any:
    """Build a trainer of two tiny policies, the same ones each time."""

    def build(
        folder: Path, batches: Sequence[Sequence[Start]] = BATCHES, **options: Any
    ) -> Trainer:
        policies = {"x": make_policy(seed=1), "y": make_policy(seed=2)}
        team = options.pop("team", policies)
        eval_starts = options.pop("eval_starts", EVAL_STARTS)
        learning_rate = options.pop("learning_rate", 0.05)
        return Trainer(
            make_env(2),
            team,
            ALGORITHMS["magrpo"],
            LearnerOptions(learning_rate=learning_rate),
            TrainerOptions(**{"group_size": 3, **options}),
            batches,
            eval_starts,
            RunFolder(folder),
        )

    return build


def weights(trainer: Trainer) -> list[torch.Tensor]:
    return [p for policy in trainer.learner.policies.values() for p in policy.parameters()]


def rows_without_times(path: Path) -> list[dict[str, Any]]:
    timed = ("_seconds", "_per_second")
    return [{k: v for k, v in r.items() if not k.endswith(timed)} for r in read_json_lines(path)]


def require_equal_runs(one: Trainer, other: Trainer) -> None:
    for name in ("metrics", "episodes"):
        rows = [rows_without_times(getattr(trainer.folder, name)) for trainer in (one, other)]
        assert rows[0] == rows[1]
    for a, b in zip(weights(one), weights(other), strict=True):
        assert torch.equal(a, b)
    states = [
        trainer.learner.state_dict()["optimizers"]["x"]["adamw"]["state"]
        for trainer in (one, other)
    ]
    for a, b in zip(states[0].values(), states[1].values(), strict=True):
        assert all(torch.equal(a[key], b[key]) for key in a)


def test_two_updates_a_checkpoint_and_two_more_equal_four_updates(
    make_trainer: Any, tmp_path: Path
) -> None:
    straight = make_trainer(tmp_path / "straight", eval_every=1)
    straight.train()
    first = make_trainer(tmp_path / "parts", BATCHES[:2], eval_every=1, checkpoint_every=2)
    first.train()
    second = make_trainer(tmp_path / "parts", eval_every=1, checkpoint_every=2)
    assert second.resume() == 2
    summary = second.train()
    assert summary["updates"] == 4
    require_equal_runs(straight, second)


def test_rows_written_after_the_checkpoint_are_dropped_on_resuming(
    make_trainer: Any, tmp_path: Path
) -> None:
    straight = make_trainer(tmp_path / "straight", checkpoint_every=3)
    straight.train()
    killed = make_trainer(tmp_path / "killed", checkpoint_every=2)
    killed.train()
    newest = checkpoint.latest(killed.folder.checkpoints)
    assert newest is not None
    newest.rename(tmp_path / "lost")
    append_json_line(killed.folder.metrics, {"update": 5, "kind": "train"})
    again = make_trainer(tmp_path / "killed")
    assert again.resume() == 2
    again.train()
    require_equal_runs(straight, again)


@pytest.mark.parametrize("call", [0, 3, 7, 12])
def test_ctrl_c_while_sampling_saves_the_last_update_and_resumes_exactly(
    make_trainer: Any, tmp_path: Path, call: int
) -> None:
    straight = make_trainer(tmp_path / "straight", eval_every=2)
    straight.train()
    stopped = make_trainer(tmp_path / "stopped", eval_every=2)
    policy, calls = stopped.team["y"], iter(range(100))
    generate = policy.generate

    def interrupted_generate(*arguments: Any) -> Any:
        if next(calls) == call:
            signal.raise_signal(signal.SIGINT)
        return generate(*arguments)

    policy.generate = interrupted_generate
    with pytest.raises(Interrupted, match=r"after update \d of 4.*resume the run") as caught:
        stopped.train()
    assert caught.value.folder == tmp_path / "stopped"
    again = make_trainer(tmp_path / "stopped", eval_every=2)
    assert again.resume() == caught.value.update
    again.train()
    require_equal_runs(straight, again)


def test_ctrl_c_between_the_steps_of_two_policies_finishes_the_update(
    make_trainer: Any, tmp_path: Path
) -> None:
    straight = make_trainer(tmp_path / "straight")
    straight.train()
    stopped = make_trainer(tmp_path / "stopped")
    optimizer = stopped.learner._optimizers["x"]
    optimizer.register_step_post_hook(lambda *arguments: signal.raise_signal(signal.SIGINT))
    with pytest.raises(Interrupted, match="after update 1 of 4"):
        stopped.train()
    again = make_trainer(tmp_path / "stopped")
    assert again.resume() == 1
    again.train()
    require_equal_runs(straight, again)


def test_ctrl_c_is_held_back_until_the_end_of_the_block() -> None:
    done = False
    with pytest.raises(KeyboardInterrupt), uninterrupted():
        signal.raise_signal(signal.SIGINT)
        done = True
    assert done


def test_evaluations_do_not_disturb_the_training(make_trainer: Any, tmp_path: Path) -> None:
    often = make_trainer(tmp_path / "often", eval_every=1)
    never = make_trainer(tmp_path / "never", eval_starts=[])
    often.train()
    never.train()
    for a, b in zip(weights(often), weights(never), strict=True):
        assert torch.equal(a, b)
    kinds = [(row["kind"], row["update"]) for row in read_json_lines(often.folder.metrics)]
    assert [update for kind, update in kinds if kind == "eval"] == [0, 1, 2, 3, 4]
    assert {row["kind"] for row in read_json_lines(never.folder.metrics)} == {"train"}


def test_without_learning_all_evaluations_are_equal(make_trainer: Any, tmp_path: Path) -> None:
    still = make_trainer(tmp_path, learning_rate=0.0)
    summary = still.train()
    assert summary["first_eval"]["reward_mean"] == summary["last_eval"]["reward_mean"]
    assert summary["first_eval"]["n"] == len(EVAL_STARTS)


def test_the_run_folder_tells_what_happened(make_trainer: Any, tmp_path: Path) -> None:
    make_trainer(tmp_path, checkpoint_every=1).train()
    row = next(r for r in read_json_lines(tmp_path / "metrics.jsonl") if r["kind"] == "train")
    assert {
        "update",
        "reward_mean",
        "reward_std",
        "turn_1/reward_mean",
        "turn_2/reward_mean",
    } <= set(row)
    assert {"last/reward_mean", "reward/letters", "turn_1/solved", "stopped_early"} <= set(row)
    assert {"tokens", "tokens_per_second", "sampling_seconds", "stepping_seconds"} <= set(row)
    assert {"learning_seconds", "loss/x", "grad_norm/y", "groups", "completion_tokens"} <= set(row)
    assert row["reward/letters"] == pytest.approx(row["reward_mean"])
    episodes = list(read_json_lines(tmp_path / "episodes.jsonl"))
    assert [e["phase"] for e in episodes].count("train") == 8
    trained = next(episode for episode in episodes if episode["phase"] == "train")
    assert trained["start"] == {"seed": 0, "task_id": None}
    turn = trained["groups"][0]
    assert set(turn["prompts"]) == set(turn["completions"]) == {"x", "y"}
    assert len(turn["completions"]["x"]) == len(turn["rewards"]) == len(turn["infos"]) == 3
    assert set(turn["finish_reasons"]["y"]) <= {"stop", "length"}
    assert trained["groups"][1]["prompts"]["x"] == "".join(
        turn["completions"][agent][turn["chosen"]] for agent in ("x", "y")
    )
    saved = sorted(path.name for path in (tmp_path / "checkpoints").iterdir())
    assert saved == ["update-000003", "update-000004"]


def test_a_folder_with_a_run_is_not_written_over(make_trainer: Any, tmp_path: Path) -> None:
    make_trainer(tmp_path).train()
    with pytest.raises(FileExistsError, match="already holds a run"):
        make_trainer(tmp_path).train()


def test_resuming_needs_a_checkpoint_of_this_run(make_trainer: Any, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no checkpoint"):
        make_trainer(tmp_path).resume()
    make_trainer(tmp_path, checkpoint_every=4).train()
    with pytest.raises(ValueError, match="is of another run"):
        make_trainer(tmp_path, seed=1).resume()


def test_a_policy_without_a_seed_may_be_a_partner(
    make_trainer: Any, make_policy: Any, tmp_path: Path
) -> None:
    class Scripted:
        def generate(self, prompts: Sequence[str], num_samples: int = 1) -> Any:
            return [[Completion("a")] * num_samples for _ in prompts]

        def act(self, prompt: str) -> str:
            return "a"

    make_trainer(tmp_path, team={"x": make_policy(), "y": Scripted()}).train()
    row = next(r for r in read_json_lines(tmp_path / "metrics.jsonl") if r["kind"] == "train")
    assert "loss/x" in row and "loss/y" not in row


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"group_size": 1}, "group_size must be at least 2"),
        ({"handoff": "bst"}, "did you mean 'best'"),
        ({"eval_every": -1}, "eval_every must be at least 0, got -1"),
        ({"keep_checkpoints": 0}, "keep_checkpoints"),
    ],
)
def test_bad_options_are_named(options: Any, match: str) -> None:
    with pytest.raises(ValueError, match=match):
        TrainerOptions(**options)


def test_an_update_without_a_start_is_refused(make_trainer: Any, tmp_path: Path) -> None:
    for batches in ([], [[Start()], []]):
        with pytest.raises(ValueError, match="at least one start"):
            make_trainer(tmp_path, batches)


def test_the_progress_bar_is_quiet_without_a_terminal(
    make_trainer: Any, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    make_trainer(tmp_path).train()
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(("call", "saved"), [(12, True), (0, False)])
def test_a_failure_saves_the_complete_updates_and_is_told(
    make_trainer: Any, tmp_path: Path, call: int, saved: bool
) -> None:
    straight = make_trainer(tmp_path / "straight", eval_every=2)
    straight.train()
    failing = make_trainer(tmp_path / "failing", eval_every=2)
    policy, calls = failing.team["y"], iter(range(100))
    generate = policy.generate

    def failing_generate(*arguments: Any) -> Any:
        if next(calls) == call:
            raise RuntimeError("no room on the disk")
        return generate(*arguments)

    policy.generate = failing_generate
    with pytest.raises(RuntimeError, match="no room on the disk"):
        failing.train()
    newest = checkpoint.latest(failing.folder.checkpoints)
    if not saved:
        assert newest is None
        return
    again = make_trainer(tmp_path / "failing", eval_every=2)
    assert newest is not None and again.resume() >= 1
    again.train()
    require_equal_runs(straight, again)
