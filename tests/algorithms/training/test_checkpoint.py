from __future__ import annotations

import json
import logging
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from pettingzoo import ParallelEnv
from transformers import AutoModelForCausalLM

from llm_decpomdp.agents.loading import PolicySpec, load_team
from llm_decpomdp.agents.models.pretrained import tiny_model
from llm_decpomdp.algorithms import LearnerOptions, Start, TrainerOptions
from llm_decpomdp.algorithms.training import checkpoint
from llm_decpomdp.algorithms.training.checkpoint_manager import require_same_models
from llm_decpomdp.options import flatten
from tests.algorithms.runs import Run, build


def save(folder: Path, update: int, keep: int = 2) -> Path:
    return checkpoint.save(folder, {"update": update}, {"w": torch.tensor([1.0 * update])}, keep)


def test_counters_of_earlier_versions_get_their_present_names() -> None:
    counters = checkpoint.translate_counters({"starts_per_bundle": 2, "update": 3})
    assert counters == {"rollout_batch_size": 2, "update": 3}
    earlier = {"plan": "tree", "critic": "own", "critic_lambda": 0.5, "reward_model": None}
    assert checkpoint.translate_counters(earlier) == {
        "mode": "tree",
        "critic.scope": "own",
        "critic.td_lambda": 0.5,
        "reward_model.path": None,
    }
    known = {**flatten(TrainerOptions()), **flatten(LearnerOptions())}
    assert {*checkpoint.RENAMED_KEYS.values()} <= known.keys()


def test_a_checkpoint_comes_back_as_it_was_saved(tmp_path: Path) -> None:
    path = save(tmp_path / "checkpoints", 12)
    assert path.name == "update-000012"
    counters, state = checkpoint.load(path)
    assert counters == {"update": 12} and state["w"].item() == 12.0


def test_only_the_newest_are_kept_and_the_latest_is_found(tmp_path: Path) -> None:
    for update in (1, 2, 10):
        save(tmp_path, update)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["update-000002", "update-000010"]
    found = checkpoint.latest(tmp_path)
    assert found is not None and found.name == "update-000010"


def test_a_million_updates_still_sort(tmp_path: Path) -> None:
    for update in (999_999, 1_000_000):
        save(tmp_path, update)
    found = checkpoint.latest(tmp_path)
    assert found is not None and found.name == "update-1000000"


def test_a_save_that_failed_leaves_no_checkpoint(tmp_path: Path) -> None:
    save(tmp_path, 1)
    with pytest.raises(AttributeError):
        checkpoint.save(tmp_path, {"update": 2}, {"bad": lambda: None})
    found = checkpoint.latest(tmp_path)
    assert found is not None and found.name == "update-000001"
    save(tmp_path, 2)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["update-000001", "update-000002"]


def test_there_is_no_latest_in_an_empty_or_missing_folder(tmp_path: Path) -> None:
    assert checkpoint.latest(tmp_path) is None
    assert checkpoint.latest(tmp_path / "none") is None


def test_files_of_a_killed_process_are_cleared_and_never_loaded(tmp_path: Path) -> None:
    for name in (".update-000007", ".old-update-000005"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "state.pt").write_bytes(b"PK")
    assert checkpoint.latest(tmp_path) is None
    save(tmp_path, 8)
    assert [path.name for path in tmp_path.iterdir()] == ["update-000008"]


def save_best(folder: Path, update: int, reward: float) -> Path:
    return checkpoint.save_best(
        folder, {"update": update, "reward_mean": reward}, {"w": torch.zeros(1)}
    )


def test_there_is_one_best_checkpoint_and_it_outlives_the_others(tmp_path: Path) -> None:
    assert checkpoint.best(tmp_path) is None
    save_best(tmp_path, 0, 0.1)
    for update in (1, 2, 3):
        save(tmp_path, update, keep=1)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["best-000000", "update-000003"]
    save_best(tmp_path, 3, 0.5)
    save_best(tmp_path, 2, 0.6)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["best-000002", "update-000003"]
    assert checkpoint.best(tmp_path) == tmp_path / "best-000002"
    save_best(tmp_path, 2, 0.7)
    best = checkpoint.best(tmp_path)
    assert best is not None and checkpoint.read_counters(best)["reward_mean"] == 0.7


def test_of_two_that_a_killed_process_left_the_better_is_the_best(tmp_path: Path) -> None:
    better = save_best(tmp_path, 4, 0.9)
    better.rename(tmp_path / "aside")
    save_best(tmp_path, 8, 0.8)
    (tmp_path / "aside").rename(better)
    assert checkpoint.best(tmp_path) == better


def spoil(path: Path, damage: str) -> None:
    state = path / "state.pt"
    match damage:
        case "truncated":
            state.write_bytes(state.read_bytes()[:-40])
        case "empty":
            state.write_bytes(b"")
        case "missing":
            state.unlink()
        case "bits":  # of the tensor, which torch.load does not notice
            content = bytearray(state.read_bytes())
            place = content.find(torch.tensor([1.0 * 2]).numpy().tobytes())
            assert place > 0
            content[place + 2] ^= 1
            state.write_bytes(content)
        case "counters":
            (path / "counters.json").write_text("")
        case "no counters":
            (path / "counters.json").unlink()


DAMAGES = ["truncated", "empty", "missing", "bits", "counters", "no counters"]


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_checkpoint_is_passed_over_with_a_warning_and_set_aside(
    tmp_path: Path, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    for update in (1, 2):
        save(tmp_path, update)
    spoil(tmp_path / "update-000002", damage)
    assert checkpoint.latest(tmp_path) == tmp_path / "update-000001"
    assert f"the checkpoint {tmp_path}/update-000002 is damaged" in caplog.text
    checkpoint.set_damaged_aside(tmp_path)
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["damaged-update-000002", "update-000001"]
    again = save(tmp_path, 2)
    assert checkpoint.latest(tmp_path) == again and checkpoint.load(again)[1]["w"].item() == 2.0


def test_without_a_complete_checkpoint_there_is_no_latest(tmp_path: Path) -> None:
    spoil(save(tmp_path, 2), "truncated")
    assert checkpoint.latest(tmp_path) is None


def test_a_damaged_best_is_left_out(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    spoil(save_best(tmp_path, 2, 0.5), "counters")
    assert checkpoint.best(tmp_path) is None
    assert "is damaged" in caplog.text
    assert checkpoint.best(tmp_path) is None
    save_best(tmp_path, 1, 0.1)
    assert checkpoint.best(tmp_path) == tmp_path / "best-000001"


def test_a_checkpoint_that_cannot_be_written_leaves_nothing_and_is_an_os_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise RuntimeError("[enforce fail at inline_container.cc:672] . unexpected pos 576 vs 534")

    monkeypatch.setattr(torch, "save", full)  # as torch does on a full disk
    with pytest.raises(
        OSError, match=f"cannot write {tmp_path}/update-000001, perhaps the disk is"
    ):
        save(tmp_path, 1)
    assert list(tmp_path.iterdir()) == []


LORA = {"r": 4, "target_modules": ["q_proj"]}


class Env(ParallelEnv[str, str, str]):
    possible_agents = ["x"]  # noqa: RUF012
    num_turns = 1

    def reset(self, seed: int | None = None, options: Any = None) -> Any:
        self.agents = ["x"]
        return {"x": "say a"}, {"x": {}}

    def step(self, actions: dict[str, str]) -> Any:
        self.agents = []
        return {"x": ""}, {"x": float("a" in actions["x"])}, {"x": True}, {"x": False}, {"x": {}}


def build_model_run(
    base: Path, folder: Path, updates: int, lora: dict[str, Any] | None, **learner: Any
) -> Run:
    spec = PolicySpec(name=str(base), lora=lora, max_new_tokens=4, compute_dtype="float32")
    team, batches = load_team({"x": "p"}, {"p": spec}), [[Start(seed=n)] for n in range(updates)]
    options: dict[str, Any] = {"env": Env(), "team": team, "algorithm": "grpo", "eval_starts": []}
    options |= {"learner": {"learning_rate": 0.01, **learner}, "group_size": 4}
    return build(folder, batches, checkpoint_every=1, **options)


@pytest.fixture
def base(tmp_path: Path) -> Path:
    return Path(shutil.copytree(tiny_model(), tmp_path / "base"))


def change_weights(base: Path) -> None:
    model = AutoModelForCausalLM.from_pretrained(base)
    with torch.no_grad():
        for weight in model.parameters():
            weight.normal_(0, 0.2)
    model.save_pretrained(base)


@pytest.mark.parametrize(("lora", "kl"), [(LORA, 0.0), (LORA, 0.1), (None, 0.1)])
def test_another_model_below_an_adapter_or_as_reference_is_refused(
    tmp_path: Path, base: Path, lora: dict[str, Any] | None, kl: float
) -> None:
    build_model_run(base, tmp_path / "run", 1, lora, kl={"coefficient": kl}).run_updates()
    change_weights(base)
    again = build_model_run(base, tmp_path / "run", 2, lora, kl={"coefficient": kl})
    with pytest.raises(
        ValueError, match=r"base' below the policy of x has other weights.*restore its"
    ):
        again.resume()


def test_a_model_at_another_place_is_the_same(tmp_path: Path, base: Path) -> None:
    build_model_run(base, tmp_path / "run", 1, LORA).run_updates()
    base = base.rename(tmp_path / "moved")
    again = build_model_run(base, tmp_path / "run", 2, LORA)
    assert again.resume() == 1 and again.run_updates()["updates"] == 2


def test_weights_that_are_all_trained_come_from_the_checkpoint(tmp_path: Path, base: Path) -> None:
    build_model_run(base, tmp_path / "run", 1, None).run_updates()
    change_weights(base)
    assert build_model_run(base, tmp_path / "run", 2, None).resume() == 1


def test_a_checkpoint_without_models_is_not_compared(
    tmp_path: Path, base: Path, caplog: pytest.LogCaptureFixture
) -> None:
    build_model_run(base, tmp_path / "run", 1, LORA).run_updates()
    path = tmp_path / "run" / "checkpoints" / "update-000001" / "counters.json"
    counters = json.loads(path.read_text())
    del counters["base_models"]
    path.write_text(json.dumps(counters))
    with caplog.at_level(logging.WARNING):
        assert build_model_run(base, tmp_path / "run", 2, LORA).resume() == 1
    assert "has no digests of its frozen models" in caplog.text


def test_a_revision_of_the_hub_is_named_with_the_command_that_gives_it() -> None:
    old = {"name": "owner/model", "weights": "1" * 64, "revision": "abc"}
    new = {**old, "weights": "2" * 64, "revision": "def"}
    with pytest.raises(ValueError, match=r"\(def\).*hf download owner/model --revision abc"):
        require_same_models({"x": old}, {"x": new}, Path("run"))
    require_same_models({"x": old}, {"x": {**new, "weights": "1" * 64}}, Path("run"))


@pytest.mark.parametrize(
    ("lora", "words"), [(LORA, "without adapters"), (None, "as it was loaded")]
)
def test_the_kl_reference_is_named(
    tmp_path: Path,
    base: Path,
    lora: dict[str, Any] | None,
    words: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.INFO, "llm_decpomdp"):
        trainer = build_model_run(base, tmp_path / "run", 1, lora, kl={"coefficient": 0.1})
    assert trainer.learner.references == {"x": f"{base} {words}"}
    assert f"the KL reference of x is {base} {words}" in caplog.text
    caplog.clear()
    without = build_model_run(base, tmp_path / "other", 1, lora)
    assert not without.learner.references and "KL reference" not in caplog.text
