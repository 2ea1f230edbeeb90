"""Where the keys of a configuration arrive: what is read off the objects that a run is made of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers.modeling_layers import GradientCheckpointingLayer

from llm_decpomdp.agents.models.causal_lm import CausalLM
from llm_decpomdp.agents.models.precision import resolve_compute_dtype
from llm_decpomdp.algorithms.training.trainer import Trainer
from llm_decpomdp.benchmarks.config.load import load_config
from llm_decpomdp.benchmarks.config.schema import Config
from llm_decpomdp.benchmarks.runs.resolved import resolve
from llm_decpomdp.benchmarks.runs.train import final_folder, load_team, make_trainer, new_folder
from llm_decpomdp.env import DecPOMDPEnv
from llm_decpomdp.envs.bugfix.reward import RepairReward
from llm_decpomdp.envs.modes.code_mode import parse_slice
from llm_decpomdp.envs.writing.feedback import WritingMode
from llm_decpomdp.policy import Policy
from llm_decpomdp.utils.storage import RunFolder

DATA = {"split": "", "source": ""}
"""What the environments of training and evaluation differ by."""


@dataclass(frozen=True)
class Built:
    """What a run is made of."""

    config: Config
    train_env: DecPOMDPEnv
    eval_env: DecPOMDPEnv
    team: dict[str, Policy]
    trainer: Trainer

    @property
    def env(self) -> DecPOMDPEnv:
        """That of training, which is made as that of held-out problems is."""
        assert {**self.train_env.spec_kwargs, **DATA} == {**self.eval_env.spec_kwargs, **DATA}
        return self.train_env

    @property
    def model(self) -> CausalLM:
        """The first policy that learns."""
        return next(policy for policy in self.team.values() if isinstance(policy, CausalLM))

    @property
    def names(self) -> dict[str, str]:
        """Agents by the first of those that they share a policy with."""
        first: dict[int, str] = {}
        return {agent: first.setdefault(id(policy), agent) for agent, policy in self.team.items()}


def build(overrides: list[str], folder: Path, path: Path | None = None) -> Built:
    config = load_config(path, overrides)
    run = resolve(config)
    team = load_team(run)
    trainer = make_trainer(run, team, RunFolder(folder))
    return Built(run.config, run.train_env, run.eval_env, team, trainer)


def learner(name: str) -> Callable[[Built], Any]:
    return lambda built: vars(built.trainer.learner.options)[name]


def trainer(name: str) -> Callable[[Built], Any]:
    return lambda built: vars(built.trainer.options)[name]


def prompting(name: str) -> Callable[[Built], Any]:
    return lambda built: vars(built.model.encoder.prompting)[name]


def feedback(name: str) -> Callable[[Built], Any]:
    """Look up an option of the mode; that of writing holds its options itself."""

    def arrived(built: Built) -> Any:
        mode: Any = built.env.mode
        value = vars(mode if isinstance(mode, WritingMode) else mode.options)[name]
        return parse_slice(value) if name == "sandbox_slice" else value

    return arrived


def mode_of(built: Built) -> str:
    return str(vars(built.env.mode)["name"])


def isolation(built: Built) -> str:
    reward: Any = built.env.reward
    owner = reward.runner if isinstance(reward, RepairReward) else reward
    return str(owner.sandbox.isolation)


def computes_twice(built: Built) -> bool:
    layers = [m for m in built.model.model.modules() if isinstance(m, GradientCheckpointingLayer)]
    return all(layer.gradient_checkpointing for layer in layers)


def epochs(built: Built) -> float:
    starts = sum(map(len, built.trainer.batches))
    return starts / len(built.train_env.tasks)


ARRIVED: dict[str, Callable[[Built], Any]] = {
    "env.id": lambda built: {built.train_env.spec_id, built.eval_env.spec_id},
    "env.num_agents": lambda built: len(built.env.possible_agents),
    "env.num_turns": lambda built: built.env.num_turns,
    "env.stop_when_solved": lambda built: built.env.stop_when_solved,
    "env.discount": lambda built: {built.env.discount, built.trainer.learner.options.discount},
    "env.isolation": isolation,
    "env.options": lambda built: built.env.spec_kwargs.get("exclude_known_issues"),
    "dataset.source": lambda built: built.env.tasks.source,
    "dataset.train_source": lambda built: built.train_env.tasks.source,
    "dataset.eval_source": lambda built: built.eval_env.tasks.source,
    "dataset.train_split": lambda built: built.train_env.tasks.split,
    "dataset.eval_split": lambda built: built.eval_env.tasks.split,
    "external.mode": mode_of,
    "external.sandbox_slice": feedback("sandbox_slice"),
    "external.original_prompt": feedback("original_prompt"),
    "external.previous_response": feedback("previous_response"),
    "external.exception_text": feedback("exception_text"),
    "external.expert_model": lambda built: built.env.mode.expert.model,
    "external.expert_base_url": lambda built: built.env.mode.expert.base_url,
    "external.on_expert_failure": feedback("on_expert_failure"),
    "model.name": lambda built: built.model.model.config.name_or_path,
    "model.temperature": lambda built: built.model.sampling.temperature,
    "model.top_p": lambda built: built.model.sampling.top_p,
    "model.top_k": lambda built: built.model.sampling.top_k,
    "model.max_new_tokens": lambda built: (
        max(
            one.sampling.max_new_tokens for one in built.team.values() if isinstance(one, CausalLM)
        ),
        built.trainer.learner.options.fixed_length,
    ),
    "model.system_prompt": prompting("system_prompt"),
    "model.chat_template_kwargs": prompting("chat_template_kwargs"),
    "model.max_prompt_tokens": prompting("max_prompt_tokens"),
    "model.on_long_prompt": prompting("on_long_prompt"),
    "model.compute_dtype": lambda built: str(built.model.compute_dtype).removeprefix("torch."),
    "model.device": lambda built: built.model.model.device.type,
    "model.attn_implementation": lambda built: built.model.model.config._attn_implementation,
    "model.gradient_checkpointing": computes_twice,
    "model.shared": lambda built: len(set(built.names.values())) == 1,
    "model.lora": lambda built: built.model.adapter and built.model.model.peft_config["default"].r,
    "team": lambda built: built.names,
    "policies": lambda built: built.team[built.env.possible_agents[-1]],
    "algorithm.name": lambda built: built.trainer.learner.algorithm.name,
    "algorithm.plan": trainer("plan"),
    "algorithm.joint_mode": trainer("joint_mode"),
    "algorithm.num_train_epochs": epochs,
    "algorithm.max_updates": lambda built: len(built.trainer.batches),
    "algorithm.prompts_per_update": lambda built: len(built.trainer.batches[0]),
    "algorithm.num_generations": trainer("group_size"),
    "algorithm.learning_rate": learner("learning_rate"),
    "algorithm.lr_schedule": learner("lr_schedule"),
    "algorithm.warmup_updates": learner("warmup_updates"),
    "algorithm.weight_decay": learner("weight_decay"),
    "algorithm.max_grad_norm": learner("max_grad_norm"),
    "algorithm.loss": learner("loss"),
    "algorithm.normalize_advantages": learner("normalize_advantages"),
    "algorithm.updates_per_batch": learner("updates_per_batch"),
    "algorithm.clip_range": learner("clip_range"),
    "algorithm.kl_coefficient": learner("kl_coefficient"),
    "algorithm.truncated": learner("truncated"),
    "algorithm.truncation_penalty": learner("truncation_penalty"),
    "algorithm.turn_gradient_weights": learner("turn_gradient_weights"),
    "algorithm.early_termination_threshold": trainer("early_termination_threshold"),
    "algorithm.early_termination_weight": learner("early_termination_weight"),
    "algorithm.handoff": trainer("handoff"),
    "evaluation.every": trainer("eval_every"),
    "evaluation.num_tasks": lambda built: len(built.trainer.eval_starts),
    "output.base_dir": lambda built: str(new_folder(built.config, "x").parent),
    "output.name": lambda built: new_folder(built.config, "x").name,
    "output.keep_best": trainer("keep_best"),
    "output.save_path": lambda built: str(final_folder(built.config, Path("run"))),
    "output.checkpoint_every": trainer("checkpoint_every"),
    "output.keep_checkpoints": trainer("keep_checkpoints"),
    "output.record_tokens": trainer("record_tokens"),
    "seed": trainer("seed"),
}
LEFT_BEHIND = {"output.save_final_model", "output.trackers", "output.report"}
"""Keys that are seen in the folder of a whole run, below."""


def expected(key: str, value: Any, built: Built) -> Any:
    """How a value looks where it arrives, if it looks different there."""
    match key:
        case "env.id" | "env.discount":
            return {value}
        case "env.options":
            return value.get("exclude_known_issues")
        case "external.sandbox_slice":
            return parse_slice(value)
        case "model.top_k":
            return value or 0
        case "model.chat_template_kwargs":
            return value or {}
        case "model.max_new_tokens":
            return (value, value)
        case "model.compute_dtype":
            return str(resolve_compute_dtype(value, built.model.model.device)).split(".")[1]
        case "model.device" if value == "auto":
            return "cuda" if torch.cuda.is_available() else "cpu"
        case "model.shared":
            return value or built.config.env.num_agents == 1
        case "model.lora":
            return value and value["r"]
        case "algorithm.turn_gradient_weights":
            return value and tuple(value)
        case "evaluation.num_tasks":
            return min(value, len(built.eval_env.tasks))
        case "output.save_path":
            return value or str(Path("run", "final_model"))
    return value


def check(built: Built, key: str, value: Any) -> None:
    assert ARRIVED[key](built) == expected(key, value, built), key
