"""Every key of a configuration arrives where it works: in an environment, policy, learner, trainer or folder.

A key without an entry in `ARRIVED`, and one whose value arrives as another, fail.
"""

from __future__ import annotations

import json
import shutil
import sys
from dataclasses import fields
from operator import attrgetter
from pathlib import Path
from typing import Any

import pytest
import torch

from llm_decpomdp.agents.inference.sampling import Sampling
from llm_decpomdp.algorithms.learning.options import LearnerOptions
from llm_decpomdp.algorithms.training.options import TrainerOptions
from llm_decpomdp.benchmarks.cli.console import tell
from llm_decpomdp.benchmarks.config.catalogue import shipped
from llm_decpomdp.benchmarks.config.load import load_config
from llm_decpomdp.benchmarks.config.schema import KEYS, Config
from llm_decpomdp.benchmarks.runs.train import train
from llm_decpomdp.registry import takes
from tests.benchmarks.destinations import ARRIVED, LEFT_BEHIND, build, check

# For each key another value than its default here and where it arrives, in few enough runs to stay quick.
CHAIN: dict[str, Any] = {
    "env.id": "mbpp-v0",
    "env.num_agents": 3,
    "env.num_turns": 3,
    "env.stop_when_solved": False,
    "env.discount": 0.5,
    "env.isolation": "require",
    "env.options": {"exclude_known_issues": True},
    "dataset.train_split": "all[:9]",
    "dataset.eval_split": "all[9:12]",
    "external.mode": "level_passed",
    "external.sandbox_slice": -2,
    "external.original_prompt": True,
    "external.previous_response": False,
    "external.exception_text": False,
    "model.temperature": 0.3,
    "model.top_p": 0.5,
    "model.top_k": 7,
    "model.max_new_tokens": 9,
    "model.max_prompt_tokens": 8,
    "model.on_long_prompt": "truncate_left",
    "model.compute_dtype": "bfloat16",
    "model.attn_implementation": "eager",
    "model.gradient_checkpointing": True,
    "model.lora": {"r": 3},
    "model.shared": True,
    "algorithm.name": "maremax",
    "algorithm.num_train_epochs": 3,
    "algorithm.prompts_per_update": 2,
    "algorithm.num_generations": 3,
    "algorithm.learning_rate": 0.5,
    "algorithm.lr_schedule": "cosine",
    "algorithm.warmup_updates": 3,
    "algorithm.weight_decay": 0.25,
    "algorithm.max_grad_norm": 2.0,
    "algorithm.loss": "fixed_length",
    "algorithm.normalize_advantages": True,
    "algorithm.updates_per_batch": 2,
    "algorithm.clip_range": 0.1,
    "algorithm.kl_coefficient": 0.05,
    "algorithm.truncated": "penalise",
    "algorithm.truncation_penalty": 0.5,
    "algorithm.turn_gradient_weights": [1.5, 0.5, 2.0],
    "algorithm.early_termination_threshold": 1.5,
    "algorithm.early_termination_weight": 3.0,
    "algorithm.handoff": "best",
    "evaluation.every": 5,
    "evaluation.num_tasks": 1,
    "output.base_dir": "somewhere",
    "output.name": "mine",
    "output.keep_best": True,
    "output.save_path": "there",
    "output.checkpoint_every": 4,
    "output.keep_checkpoints": 3,
    "output.record_tokens": True,
    "seed": 11,
}
TREE: dict[str, Any] = {
    "algorithm.plan": "tree",
    "algorithm.joint_mode": "cross",
    "algorithm.max_updates": 3,
    "team": {"aux_0": "one", "main_0": "two"},
    "policies": {"two": {"kind": "constant", "text": "hello"}},
    "model.device": "meta",
}
EXPERT: dict[str, Any] = {
    "external.mode": "expert_edits",
    "external.expert_model": "mine",
    "external.expert_base_url": "http://localhost:1/v1",
    "external.on_expert_failure": "continue",
}
TEMPLATE: dict[str, Any] = {
    "model.system_prompt": "Be brief.",
    "model.chat_template_kwargs": {"mood": "calm"},
}
ELSEWHERE = {"model.name", "dataset.source", "dataset.train_source", "dataset.eval_source"}
"""Keys whose other value is a file that a test writes."""


def items(values: dict[str, Any]) -> list[str]:
    return [f"{key}={value}" for key, value in values.items()]


@pytest.fixture(autouse=True)
def a_key_for_experts(monkeypatch: pytest.MonkeyPatch) -> None:
    for provider in ("ANTHROPIC", "OPENAI"):
        monkeypatch.setenv(f"{provider}_API_KEY", "none")


def test_every_key_has_a_destination_and_another_value() -> None:
    assert {*ARRIVED, *LEFT_BEHIND} == set(KEYS)
    assert {*CHAIN, *TREE, *EXPERT, *TEMPLATE, *ELSEWHERE, *LEFT_BEHIND} == set(KEYS)
    for key, value in {**CHAIN, **TREE, **EXPERT, **TEMPLATE}.items():
        assert attrgetter(key)(Config()) != value, f"{key} is tested with its default"


def test_every_key_arrives(quick: list[str], tmp_path: Path) -> None:
    built = build([*quick, "algorithm.max_updates=null", *items(CHAIN)], tmp_path / "chain")
    for key, value in CHAIN.items():
        check(built, key, value)
    built = build([*quick, *items(TREE)], tmp_path / "tree")
    for key in TREE.keys() - {"team", "policies"}:
        check(built, key, TREE[key])
    assert built.names == {"aux_0": "aux_0", "main_0": "main_0"}
    assert built.team["main_0"].act("") == "hello"
    together = build([*quick, "team={aux_0: one, main_0: one}"], tmp_path / "together")
    assert together.names == {"aux_0": "aux_0", "main_0": "aux_0"}
    built = build([*quick, *items(EXPERT)], tmp_path / "expert")
    for key, value in EXPERT.items():
        check(built, key, value)


def test_what_a_chat_template_reads_arrives(
    quick: list[str], chat_model: str, tmp_path: Path
) -> None:
    built = build([*quick, f"model.name={chat_model}", *items(TEMPLATE)], tmp_path / "run")
    for key, value in TEMPLATE.items():
        check(built, key, value)


def test_another_model_and_other_data_arrive(
    quick: list[str], tiny_model: str, tmp_path: Path
) -> None:
    model, data = tmp_path / "model", tmp_path / "data.jsonl"
    shutil.copytree(tiny_model, model)
    test = "def check(candidate):\n    assert candidate() == 1\n"
    rows = (
        {"task_id": f"t/{number}", "prompt": "def f():\n", "entry_point": "f", "test": test}
        for number in range(20)
    )
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    built = build([*quick, f"model.name={model}", f"dataset.source={data}"], tmp_path / "run")
    assert ARRIVED["model.name"](built) == str(model)
    assert {built.train_env.tasks.source, built.eval_env.tasks.source} == {str(data)}
    held_out = tmp_path / "held_out.jsonl"
    held_out.write_text("".join(data.read_text().splitlines(keepends=True)[:3]))
    two = [f"dataset.train_source={data}", f"dataset.eval_source={held_out}"]
    built = build([*quick, *two], tmp_path / "two")
    for key, path in {"dataset.train_source": data, "dataset.eval_source": held_out}.items():
        check(built, key, str(path))
    assert (len(built.train_env.tasks), len(built.eval_env.tasks)) == (20, 3)


def test_the_seed_decides_the_order_of_problems_and_new_adapters(
    quick: list[str], tmp_path: Path
) -> None:
    def begin(seed: int) -> tuple[list[str | None], torch.Tensor]:
        built = build([*quick, "model.lora={r: 2}", f"seed={seed}"], tmp_path / str(seed))
        order = [start.task_id for batch in built.trainer.batches for start in batch]
        return order, next(weight.detach() for weight in built.model.parameters() if weight.any())

    orders, weights = zip(*map(begin, (0, 0, 1)), strict=True)
    assert orders[0] == orders[1] != orders[2]
    assert torch.equal(weights[0], weights[1]) and not torch.equal(weights[0], weights[2])


OPEN = {"model.attn_implementation", "algorithm.max_updates", "evaluation.num_tasks", "output.name"}
"""Keys whose null leaves the choice to others."""


def unread(key: str, config: Config) -> bool:
    """Whether nothing of the configuration's run has a use for a key."""
    section, _, name = key.rpartition(".")
    if key.startswith("external.expert") or key == "external.on_expert_failure":
        return config.external.mode != "expert_edits"
    if key == "algorithm.num_train_epochs":
        return config.algorithm.max_updates is not None
    argument = "external_mode" if key == "external.mode" else name
    known = key in ("env.id", "env.options") or takes(config.env.id, argument)
    return section in ("env", "external") and not known


@pytest.mark.parametrize("path", shipped().values(), ids=shipped())
def test_every_key_of_every_configuration_arrives(
    path: Path, tiny_model: str, tmp_path: Path
) -> None:
    built = build([f"model.name={tiny_model}", "dataset.source=bundled"], tmp_path, path)
    sources = {"dataset.source", "dataset.train_source", "dataset.eval_source"}
    for key in ARRIVED.keys() - {"team", "policies", *sources}:
        value = attrgetter(key)(built.config)
        if unread(key, built.config):
            default = attrgetter(key)(Config())
            assert value == default or key == "algorithm.num_train_epochs", key
        elif value is not None or key not in OPEN:
            check(built, key, value)


def test_what_a_run_leaves_behind_is_as_wanted(quick: list[str], tmp_path: Path) -> None:
    short = [*quick, "algorithm.max_updates=1", "evaluation.num_tasks=1"]
    wanted = ["output.name=all", "output.save_final_model=true", "output.report=true"]
    wanted += ["output.trackers={tensorboard: true}", "output.record_tokens=true"]
    tell(train(load_config(None, [*short, *wanted]), "all"))
    tell(train(load_config(None, [*short, "output.name=little", "output.report=false"]), "little"))
    extra = {"final_model", "report.html", "tensorboard"}
    assert {path.name for path in (tmp_path / "all").iterdir()} >= extra
    assert not {path.name for path in (tmp_path / "little").iterdir()} & extra


# Beyond the options: what learner, trainer and sampler are told, some code of theirs looks at in a run.

CHECKS = {"__post_init__", "_check_numbers", "__eq__", "__hash__", "__repr__"}
"""Methods that look at every field, whether anything else does or not."""


def spy(kind: type, monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The fields of a dataclass's instances that code outside it looks at, from now on."""
    seen: set[str] = set()
    names = {field.name for field in fields(kind)}

    def look(self: object, name: str) -> Any:
        caller = sys._getframe(1).f_code
        if (
            name in names
            and caller.co_name not in CHECKS
            and "dataclasses" not in caller.co_filename
        ):
            seen.add(name)
        return object.__getattribute__(self, name)

    monkeypatch.setattr(kind, "__getattribute__", look)
    return seen


def test_a_run_looks_at_every_option(
    quick: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = {kind: spy(kind, monkeypatch) for kind in (LearnerOptions, TrainerOptions, Sampling)}
    every = {key: value for key, value in CHAIN.items() if key.startswith(("algorithm", "model"))}
    del every["model.gradient_checkpointing"], every["model.lora"]
    more = ["env.num_turns=3", "algorithm.early_termination_threshold=0", "output.keep_best=true"]
    more += ["algorithm.max_updates=1", "output.checkpoint_every=1", "evaluation.num_tasks=1"]
    build([*quick, *items(every), *more], tmp_path / "chain").trainer.train()
    tree = [*items(TREE), "model.device=cpu", "algorithm.max_updates=2", "evaluation.num_tasks=0"]
    build([*quick, *tree], tmp_path / "tree").trainer.train()
    for kind, seen in found.items():
        assert seen == {field.name for field in fields(kind)}, kind
