"""Values of a configuration in the objects of a run; what sections inherit arrives by construction."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import pytest
from transformers.modeling_layers import GradientCheckpointingLayer

from llm_decpomdp.agents import CausalLM, Prompting, Sampling
from llm_decpomdp.algorithms import LearnerOptions, TrainerOptions
from llm_decpomdp.algorithms.critics.options import CriticOptions
from llm_decpomdp.algorithms.learning.learner_options import (
    ImportanceSamplingOptions,
    KLOptions,
    ObjectiveOptions,
    TruncationOptions,
)
from llm_decpomdp.algorithms.preferences.options import PreferenceOptions
from llm_decpomdp.benchmarks import load_config, train
from llm_decpomdp.benchmarks.config.legacy import renamed
from llm_decpomdp.benchmarks.config.schema import ARGUMENTS, Config, value_of
from llm_decpomdp.benchmarks.runs.setup import (
    learner_options,
    load_policies,
    team_spec,
    trainer_options,
)
from llm_decpomdp.options import pick
from llm_decpomdp.registry import OLD_ARGUMENTS
from llm_decpomdp.wrappers.channel import ChannelEnv, ChannelOptions

ENV: dict[str, Any] = {
    "env.num_agents": 3,
    "env.num_turns": 3,
    "env.stop_when_solved": False,
    "env.discount": 0.5,
    "env.isolation": "require",
    "env.reward": "tests.support.packages:same",
    "env.centralized": True,
    "external.mode": "expert_edits",
    "external.sandbox_slice": -2,
    "external.original_prompt": True,
    "external.previous_response": False,
    "external.exception_text": False,
    "external.expert_model": "mine",
    "external.expert_base_url": "http://localhost:1/v1",
    "external.on_expert_failure": "continue",
}
MODEL: dict[str, Any] = {
    "model.temperature": 0.3,
    "model.top_p": 0.5,
    "model.top_k": 7,
    "model.max_new_tokens": 9,
    "model.stop": ["a", "b"],
    "model.prefill": "go",
    "model.prefill_after": "begin",
    "model.system_prompt": "Be brief.",
    "model.chat_template_kwargs": {"mood": "calm"},
    "model.history": "chat",
    "model.max_prompt_tokens": 80,
    "model.on_long_prompt": "truncate_left",
    "model.compute_dtype": "bfloat16",
    "model.device": "cpu",
    "model.attn_implementation": "eager",
    "model.gradient_checkpointing": True,
    "model.fused_kernels": True,
    "model.compile": True,
    "model.prefix_cache": 0.0,
    "model.static_cache": True,
    "model.lora": {"r": 3},
    "model.shared": True,
}
RUN: dict[str, Any] = {
    "algorithm.lr_schedule": "cosine",
    "algorithm.warmup_updates": 3,
    "algorithm.max_grad_norm": 2.0,
    "algorithm.loss": "fixed_length",
    "algorithm.normalize_advantages": True,
    "algorithm.num_iterations": 2,
    "algorithm.objective.name": "dapo",
    "algorithm.objective.clip_range": 0.1,
    "algorithm.objective.clip_range_high": 0.5,
    "algorithm.kl.coefficient": 0.05,
    "algorithm.kl.placement": "reward",
    "algorithm.truncation.mode": "penalise",
    "algorithm.truncation.overlong_penalty": 0.5,
    "algorithm.truncation.overlong_buffer_len": 2,
    "algorithm.importance_sampling.mode": "truncate",
    "algorithm.importance_sampling.cap": 3.0,
    "algorithm.rollout.max_resample_rounds": 1,
    "algorithm.curriculum": "pass_rate",
    "algorithm.turn_gradient_weights": [1.5, 0.5, 2.0],
    "algorithm.early_termination_threshold": 0,
    "env.num_turns": 3,
    "evaluation.every": 5,
    "output.keep_best": True,
    "output.checkpoint_every": 1,
}

CRITIC: dict[str, Any] = {
    "algorithm.critic.scope": "joint",
    "algorithm.critic.input": "history",
    "algorithm.critic.part_length": 100,
    "algorithm.critic.td_lambda": 0.5,
    "algorithm.critic.learning_rate": 0.01,
    "algorithm.critic.epochs": 1,
    "algorithm.critic.gate": False,
    "env.num_turns": 2,
    "env.stop_when_solved": False,
}

PAIRS: dict[str, Any] = {
    "algorithm.name": "madpo",
    "algorithm.pair_kind": "single",
    "algorithm.joint_mode": "cross",
    "algorithm.pair_selection": "random",
    "algorithm.pair_min_gap": 0.1,
    "algorithm.pairs_per_group": 2,
    "algorithm.pairs_per_start": 3,
    "algorithm.dpo_beta": 0.3,
    "algorithm.nll_coefficient": 0.1,
}

COMPARED: dict[str, Any] = {
    "algorithm.name": "madpo",
    "algorithm.preferences.opponent": "history",
    "algorithm.preferences.opponent_lag": 2,
}

EPISODES: dict[str, Any] = {
    "algorithm.rollout.mode": "episodes",
    "algorithm.step_advantage_weight": 0.5,
    "env.num_turns": 2,
}

PASSES: dict[str, Any] = {
    "warm_start.source": "passes",
    "warm_start.samples": 30,
    "warm_start.rounds": 2,
    "warm_start.min_reward": 0.0,
}


def items(values: dict[str, Any]) -> list[str]:
    return [f"{key}={value}" for key, value in values.items()]


def test_arguments_of_an_environment_arrive(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    assert {*ENV, "env.channel", "env.order"} == set(ARGUMENTS)
    more = ["env.id=mbpp-v0", "env.options={exclude_known_issues: true}", "dataset.source=bundled"]
    config = load_config(None, [*items(ENV), *more, "dataset.train_split=all[:9]"])
    env = config.make_train_env()
    for key, value in ENV.items():
        assert value_of(Config(), renamed(key)) != value, f"{key} is tested with its default"
        argument = OLD_ARGUMENTS.get(ARGUMENTS[key], ARGUMENTS[key])
        assert env.spec_kwargs[argument] == value, key
    assert env.spec_id == "mbpp-v0" and env.spec_kwargs["exclude_known_issues"]
    assert len(env.tasks) == 9


def test_an_order_arrives_and_multiplies_the_horizon() -> None:
    order = [["aux_0", "main_0"], "main_0"]
    overrides = [f"env.order={order}", "env.num_turns=2", "algorithm.rollout.mode=episodes"]
    config = load_config(None, ["dataset.source=bundled", *overrides])
    env = config.make_train_env()
    assert env.num_turns == config.horizon == 4
    assert env.spec_kwargs["order"] == order
    assert "order" not in load_config(None, ["dataset.source=bundled"]).make_train_env().spec_kwargs


def test_a_channel_arrives_and_doubles_the_horizon() -> None:
    overrides = ["env.id=compose-v0", "dataset.train_split=train", "dataset.eval_split=test"]
    config = load_config(None, [*overrides, "env.channel={bandwidth: 9}", "env.channel.loss=0.5"])
    env = config.make_train_env()
    assert isinstance(env, ChannelEnv) and env.options == ChannelOptions(bandwidth=9, loss=0.5)
    assert config.horizon == env.num_turns == 2 and load_config(None, overrides).horizon == 1


def test_options_of_a_model_arrive(quick: list[str], chat_model: str) -> None:
    # Quantization is tested where its package is; a static cache takes no further rows.
    further = {"model.name", "model.quantization", "model.continuous_batching"}
    assert {*MODEL, *further} == {f"model.{name}" for name in asdict(Config().model)}
    config = load_config(None, [*quick, f"model.name={chat_model}", *items(MODEL)])
    team = load_policies(config, [config.make_eval_env()])
    assert len({id(policy) for policy in team.values()}) == 1
    (policy, *_) = team.values()
    assert isinstance(policy, CausalLM)
    for key, value in MODEL.items():
        assert value_of(Config(), renamed(key)) != value or key == "model.device", key
    assert policy.sampling == pick(Sampling, config.model)
    assert policy.encoder.prompting == pick(Prompting, config.model)
    assert str(policy.compute_dtype) == "torch.bfloat16"
    assert policy.model.device.type == "cpu"
    assert policy.model.config._attn_implementation == "eager"
    assert policy.model.peft_config["default"].r == 3
    assert policy.engine.prefix_cache == 0 and policy.engine.caching.static_cache
    layers = [m for m in policy.model.modules() if isinstance(m, GradientCheckpointingLayer)]
    assert layers and all(layer.gradient_checkpointing for layer in layers)
    assert policy.engine.kernels.fuses


def test_memory_of_prefixes_and_rows_of_batches_arrive(quick: list[str], chat_model: str) -> None:
    """A static cache takes neither."""
    overrides = [
        f"model.name={chat_model}",
        "model.continuous_batching=5",
        "model.prefix_cache=0.5",
    ]
    config = load_config(None, [*quick, *overrides])
    for policy in load_policies(config, [config.make_eval_env()]).values():
        assert isinstance(policy, CausalLM) and policy.engine.prefix_cache == 0.5
        assert policy.engine.caching.continuous_batching == 5


WARM_START: dict[str, Any] = {
    "warm_start.source": "gold",
    "warm_start.epochs": 3,
    "warm_start.learning_rate": 0.25,
    "warm_start.share": 0.2,
    "warm_start.batch_size": 2,
    "warm_start.disjoint": False,
}


def test_options_of_a_warm_start_arrive(quick: list[str], tmp_path: Path) -> None:
    keys = {f"warm_start.{name}" for name in asdict(Config().warm_start)}
    assert set(WARM_START) | set(PASSES) == keys
    halves = ["env.id=probe-halves-v0", "dataset.source=auto", "warm_start.share=0.4"]
    train(load_config(None, [*quick, *items(WARM_START), *halves]), "warm")
    rows = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").open()]
    steps = [row for row in rows if row["kind"] == "warm_start"]
    assert [row["step"] for row in steps] == [1, 2, 3]  # 2 of 3 problems, all in one step
    assert {row["lessons"] for row in steps} == {2}
    assert {row["learning_rate"] for row in steps} == {0.25}
    own = [*items({**WARM_START, **PASSES}), "output.name=own", "model.max_new_tokens=40"]
    train(load_config(None, [*quick, *halves, *own]), "warm")
    rows = [json.loads(line) for line in (tmp_path / "own" / "metrics.jsonl").open()]
    steps = [row for row in rows if row["kind"] == "warm_start"]
    assert {row["round"] for row in steps} == {1, 2}
    assert {(row["sampled_episodes"], row["pass_rate"]) for row in steps} == {(30, 1.0)}


def test_options_under_another_name_arrive() -> None:
    names = ["algorithm.num_generations=3", "evaluation.every=5", "seed=11", "env.discount=0.5"]
    config = load_config(None, [*names, "model.max_new_tokens=9"])
    trainer = trainer_options(config)
    assert (trainer.group_size, trainer.eval_every, trainer.seed) == (3, 5, 11)
    learner = learner_options(config, 7, team_spec(config, ["aux_0", "main_0"]))
    assert (learner.discount, learner.total_updates, learner.fixed_length) == (0.5, 7, 9)


def test_a_run_leaves_the_files_behind_that_are_asked_for(quick: list[str], tmp_path: Path) -> None:
    short = [*quick, "algorithm.max_updates=1", "evaluation.num_tasks=1"]
    everything = ["output.name=all", "output.save_final_model=true"]
    everything += ["output.trackers={tensorboard: true}", "output.record_tokens=true"]
    train(load_config(None, [*short, *everything]), "all")
    train(load_config(None, [*short, "output.name=little", "output.report=false"]), "little")
    extra = {"final_model", "tensorboard"}
    assert {path.name for path in (tmp_path / "all").iterdir()} >= extra
    assert not {path.name for path in (tmp_path / "little").iterdir()} & extra


SECTIONS = (
    CriticOptions,
    ImportanceSamplingOptions,
    KLOptions,
    ObjectiveOptions,
    TruncationOptions,
)

CHECKS = {"__post_init__", "is_changed", "flatten", "__eq__", "__hash__", "__repr__"}
"""Functions that read every field, with or without a use for it."""


def spy(kind: type, monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Collect the fields of a dataclass's instances that code outside it reads, from now on."""
    reads: set[str] = set()
    names = {field.name for field in fields(kind)}

    def read(self: object, name: str) -> Any:
        caller = sys._getframe(1).f_code
        if (
            name in names
            and caller.co_name not in CHECKS
            and "dataclasses" not in caller.co_filename
        ):
            reads.add(name)
        return object.__getattribute__(self, name)

    monkeypatch.setattr(kind, "__getattribute__", read)
    return reads


def test_a_run_reads_every_option(
    quick: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads = {
        kind: spy(kind, monkeypatch)
        for kind in (*SECTIONS, LearnerOptions, PreferenceOptions, TrainerOptions, Sampling)
    }
    short = [*quick, "algorithm.max_updates=1", "evaluation.num_tasks=1", "output.report=false"]
    train(load_config(None, [*short, *items(RUN), "output.name=chain"]), "chain")
    tree = ["algorithm.rollout.mode=tree", "algorithm.joint_mode=cross", "algorithm.max_updates=2"]
    train(load_config(None, [*short, *tree, "output.name=tree"]), "tree")
    train(load_config(None, [*short, *items(EPISODES), "output.name=episodes"]), "episodes")
    train(load_config(None, [*short, *items(CRITIC), "output.name=critic"]), "critic")
    train(load_config(None, [*short, *items(PAIRS), "output.name=pairs"]), "pairs")
    trunk = ["algorithm.critic.trunk=lora", "model.lora={r: 2}", "output.name=trunk"]
    train(load_config(None, [*short, *items(CRITIC), *trunk]), "trunk")
    train(load_config(None, [*short, *items(COMPARED), "output.name=compared"]), "compared")
    for kind, read in reads.items():
        assert read == {field.name for field in fields(kind)}, kind
