"""The models below adapters in the manifest of a run, and when it goes on."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM

from llm_decpomdp.agents.models.local_models import tiny_model
from llm_decpomdp.benchmarks.config.errors import RunError
from llm_decpomdp.benchmarks.config.inputs import find_config
from llm_decpomdp.benchmarks.config.load import load_config
from llm_decpomdp.benchmarks.config.schema import Config
from llm_decpomdp.benchmarks.runs.resume import _find_changes, resume
from llm_decpomdp.benchmarks.runs.train import train

KEPT = ["output.checkpoint_every=1", "output.report=false", "evaluation.num_tasks=1"]


def test_the_models_below_are_in_the_manifest_and_may_move_but_not_change(
    quick: list[str], tmp_path: Path
) -> None:
    base, other = (shutil.copytree(tiny_model(), tmp_path / name) for name in ("base", "elsewhere"))
    lora = "model.lora={r: 2, target_modules: [q_proj]}"
    overrides = [f"model.name={base}", lora, "algorithm.kl_coefficient=0.1"]
    train(load_config(find_config("demo"), [*quick, *KEPT, *overrides]), "demo")
    manifest = json.loads((tmp_path / "run" / "manifest.json").read_text())
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
    assert list(_find_changes(before, after)) == ["policies.x"]
