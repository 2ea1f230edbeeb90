"""A run goes on only with the frozen weights that it began with."""

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
from llm_decpomdp.agents.models.local_models import tiny_model
from llm_decpomdp.algorithms.learning.learner_options import LearnerOptions
from llm_decpomdp.algorithms.rollouts.rollout import Start
from llm_decpomdp.algorithms.training.checkpoint_manager import require_same_models
from llm_decpomdp.algorithms.training.trainer_options import TrainerOptions
from tests.algorithms.runs import Run

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


def build(
    base: Path, folder: Path, updates: int, lora: dict[str, Any] | None, **learner: Any
) -> Run:
    spec = PolicySpec(name=str(base), lora=lora, max_new_tokens=4, compute_dtype="float32")
    return Run(
        folder,
        [[Start(seed=n)] for n in range(updates)],
        LearnerOptions(learning_rate=0.01, **learner),
        TrainerOptions(group_size=4, checkpoint_every=1),
        env=Env(),
        team=load_team({"x": "p"}, {"p": spec}),
        algorithm="grpo",
        eval_starts=[],
    )


@pytest.fixture
def base(tmp_path: Path) -> Path:
    return Path(shutil.copytree(tiny_model(), tmp_path / "base"))


def change(base: Path) -> None:
    model = AutoModelForCausalLM.from_pretrained(base)
    with torch.no_grad():
        for weight in model.parameters():
            weight.normal_(0, 0.2)
    model.save_pretrained(base)


@pytest.mark.parametrize(("lora", "kl"), [(LORA, 0.0), (LORA, 0.1), (None, 0.1)])
def test_another_model_below_an_adapter_or_as_reference_is_refused(
    tmp_path: Path, base: Path, lora: dict[str, Any] | None, kl: float
) -> None:
    build(base, tmp_path / "run", 1, lora, kl_coefficient=kl).run_updates()
    change(base)
    again = build(base, tmp_path / "run", 2, lora, kl_coefficient=kl)
    with pytest.raises(
        ValueError, match=r"base' below the policy of x has other weights.*restore its"
    ):
        again.resume()


def test_a_model_at_another_place_is_the_same(tmp_path: Path, base: Path) -> None:
    build(base, tmp_path / "run", 1, LORA).run_updates()
    base = base.rename(tmp_path / "moved")
    again = build(base, tmp_path / "run", 2, LORA)
    assert again.resume() == 1 and again.run_updates()["updates"] == 2


def test_weights_that_are_all_trained_come_from_the_checkpoint(tmp_path: Path, base: Path) -> None:
    build(base, tmp_path / "run", 1, None).run_updates()
    change(base)
    assert build(base, tmp_path / "run", 2, None).resume() == 1


def test_a_checkpoint_without_models_is_not_compared(
    tmp_path: Path, base: Path, caplog: pytest.LogCaptureFixture
) -> None:
    build(base, tmp_path / "run", 1, LORA).run_updates()
    path = tmp_path / "run" / "checkpoints" / "update-000001" / "counters.json"
    counters = json.loads(path.read_text())
    del counters["base_models"]
    path.write_text(json.dumps(counters))
    with caplog.at_level(logging.WARNING):
        assert build(base, tmp_path / "run", 2, LORA).resume() == 1
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
        trainer = build(base, tmp_path / "run", 1, lora, kl_coefficient=0.1)
    assert trainer.learner.references == {"x": f"{base} {words}"}
    assert f"the KL reference of x is {base} {words}" in caplog.text
    caplog.clear()
    without = build(base, tmp_path / "other", 1, lora)
    assert not without.learner.references and "KL reference" not in caplog.text
