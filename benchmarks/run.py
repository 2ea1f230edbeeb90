"""One training run, from a configuration to its folder."""

from __future__ import annotations

import importlib.util
import logging
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from llm_decpomdp.algorithms import ALGORITHMS
from llm_decpomdp.algorithms.rollout import Start, distinct_policies
from llm_decpomdp.benchmarks.config import Config, load_config
from llm_decpomdp.benchmarks.errors import ConfigError, RunError
from llm_decpomdp.benchmarks.manifest import manifest
from llm_decpomdp.benchmarks.splits import TwoSplits
from llm_decpomdp.env import DecPOMDPEnv
from llm_decpomdp.envs.experts import ExpertError
from llm_decpomdp.envs.sandbox import SandboxError
from llm_decpomdp.naming import unknown
from llm_decpomdp.policy import Policy, TrainablePolicy
from llm_decpomdp.seeding import stream
from llm_decpomdp.storage import RunFolder, write_atomically

if TYPE_CHECKING:
    from llm_decpomdp.agents.causal_lm import CausalLM
    from llm_decpomdp.algorithms.learner import LearnerOptions
    from llm_decpomdp.algorithms.trainer import Trainer, TrainerOptions

logger = logging.getLogger(__name__)

Team = dict[str, "CausalLM"]


@dataclass(frozen=True)
class Result:
    """What a finished run leaves."""

    folder: RunFolder
    summary: dict[str, Any]
    """As `Trainer.train` returns it."""
    report: Path | None
    """`None` where the configuration wants no report."""


def train(config: Config, name: str) -> Result:
    """Train a team in a new run folder.

    Args:
        config: What to do.
        name: The configuration's name.

    Raises:
        ConfigError: If the folder holds another run.
        RunError: If the data or the models cannot be loaded, a loss isn't finite, or the expert
            fails.
        Interrupted: On Ctrl-C, after a checkpoint was saved.
    """
    path = new_folder(config, name)
    train_env, eval_env = load_envs(config)
    team = load_team(config, train_env.possible_agents)
    folder = RunFolder(path)
    write_atomically(folder.config, config.to_yaml())
    folder.write_manifest(manifest(config, name, train_env, eval_env))
    trainer = make_trainer(config, train_env, eval_env, team, folder)
    return _finish(config, trainer, folder)


def resume(path: Path) -> Result:
    """Continue an interrupted run from its newest checkpoint, as if it had not stopped.

    Raises:
        ConfigError: If `path` holds no run with a checkpoint, or the data has changed.
        RunError: As `train`.
        Interrupted: As `train`.
    """
    from llm_decpomdp.algorithms import checkpoint

    if not (path / "config.yaml").is_file():
        raise ConfigError(f"{path} holds no run: there is no config.yaml in it")
    if checkpoint.latest(path / "checkpoints") is None:
        raise ConfigError(f"{path} holds no checkpoint, so there is nothing to continue from")
    config, folder = load_config(path / "config.yaml"), RunFolder(path)
    train_env, eval_env = load_envs(config)
    for split, env in (("train", train_env), ("eval", eval_env)):
        before, now = folder.read_manifest()["data"][split], env.metadata["data"]
        if before["fingerprint"] != now["fingerprint"]:
            raise ConfigError(f"{path} began with the {split} data {before}, but it is now {now}")
    team = load_team(config, train_env.possible_agents)
    trainer = make_trainer(config, train_env, eval_env, team, folder)
    logger.info("continuing after update %d", trainer.resume())
    return _finish(config, trainer, folder)


def _finish(config: Config, trainer: Trainer, folder: RunFolder) -> Result:
    try:
        summary = trainer.train()
    except (FloatingPointError, ExpertError, SandboxError, ValueError, OSError) as error:
        done = trainer.learner.updates
        hint = f" Update {done} is saved; to go on from it: --resume {folder.path}" if done else ""
        raise RunError(f"{error}{hint}") from error
    if config.output.save_final_model:
        save_team(trainer.team, Path(config.output.save_path or folder.path / "final_model"))
    report = None
    if config.output.report:
        from llm_decpomdp.benchmarks.report import write_report

        report = write_report(folder)
    return Result(folder, summary, report)


def new_folder(config: Config, name: str) -> Path:
    """Where a new run goes.

    Raises:
        ConfigError: If another run is there already.
    """
    chosen = config.output.name or f"{name}-{time.strftime('%Y%m%d-%H%M%S')}"
    path = Path(config.output.base_dir) / chosen
    if (path / "config.yaml").exists():
        raise ConfigError(
            f"{path} already holds a run: choose another output.name, or continue it with "
            f"--resume {path}"
        )
    return path


def load_envs(config: Config) -> tuple[DecPOMDPEnv, DecPOMDPEnv]:
    """The environments of training and evaluation, with their data loaded from the same source.

    Raises:
        RunError: If the data cannot be loaded.
    """
    try:
        train_env = config.make_env(config.dataset.train_split)
        found = train_env.tasks.source  # what `auto` has found holds for both
        source = "bundled" if found == "package" else found
        eval_env = config.make_env(config.dataset.eval_split, source)
        both = set(train_env.tasks.positions) & set(eval_env.tasks.positions)
    except (ValueError, OSError) as error:
        raise RunError(f"cannot load the data of {config.env.id}: {error}") from error
    if both:
        logger.warning("%d tasks are in both the train split and the eval split", len(both))
    return train_env, eval_env


def load_team(config: Config, agents: Sequence[str]) -> Team:
    """A policy for each agent: one for all if `model.shared`, else one each.

    Raises:
        ConfigError: If `model.lora` has a key that peft does not know.
        RunError: If the model cannot be loaded.
    """
    for name in (
        "torch",
        "transformers",
        "peft",
        *(["matplotlib"] if config.output.report else []),
    ):
        if importlib.util.find_spec(name) is None:
            raise RunError(f"training needs {name}: pip install 'llm-decpomdp[train]'")
    check_lora(config.model.lora or {})
    try:
        if config.model.shared:
            return dict.fromkeys(agents, _load_policy(config, 0))
        return {agent: _load_policy(config, index) for index, agent in enumerate(agents)}
    except (OSError, ImportError, ValueError, TypeError) as error:
        raise RunError(f"cannot load the model: {error}") from error


def check_lora(arguments: Mapping[str, Any]) -> None:
    """Raise a `ConfigError` for arguments that `peft.LoraConfig` does not take, or that would do nothing."""
    from peft import LoraConfig

    if arguments.get("lora_dropout"):
        raise ConfigError(
            "model.lora.lora_dropout has no effect: models never use dropout here; drop it"
        )
    if "task_type" in arguments:
        raise ConfigError("model.lora.task_type is always CAUSAL_LM; drop it")
    for key in arguments:
        if key not in LoraConfig.__dataclass_fields__:
            raise ConfigError(unknown("key of model.lora", key, LoraConfig.__dataclass_fields__))


def _load_policy(config: Config, index: int) -> CausalLM:
    from transformers.utils import logging as transformers_logging

    from llm_decpomdp.agents.loading import load_policy
    from llm_decpomdp.agents.sampling import Sampling

    if not sys.stderr.isatty():
        transformers_logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    model = config.model
    return load_policy(
        model.name,
        Sampling(model.temperature, model.top_p, model.top_k or 0, model.max_new_tokens),
        lora=model.lora,
        compute_dtype=model.compute_dtype,
        seed=int(stream(config.seed, "policy", index).integers(2**32)),
    )


def make_trainer(
    config: Config, train_env: DecPOMDPEnv, eval_env: DecPOMDPEnv, team: Team, folder: RunFolder
) -> Trainer:
    """The trainer that a configuration describes."""
    from llm_decpomdp.algorithms.trainer import Trainer

    tasks = [task.task_id for task in train_env.tasks.tasks]
    held_out = eval_env.tasks.tasks[: config.evaluation.num_tasks]
    return Trainer(
        TwoSplits(train_env, eval_env),
        team,
        ALGORITHMS[config.algorithm.name],
        learner_options(config),
        trainer_options(config),
        batches=schedule(config, tasks),
        eval_starts=[Start(task_id=task.task_id) for task in held_out],
        folder=folder,
    )


def learner_options(config: Config) -> LearnerOptions:
    """How the policies step."""
    from llm_decpomdp.algorithms.learner import LearnerOptions

    algorithm = config.algorithm
    weights = algorithm.turn_gradient_weights
    return LearnerOptions(
        learning_rate=algorithm.learning_rate,
        weight_decay=algorithm.weight_decay,
        max_grad_norm=algorithm.max_grad_norm,
        turn_gradient_weights=tuple(weights) if weights and config.env.num_turns > 1 else None,
        early_termination_weight=algorithm.early_termination_weight,
        normalize_advantages=algorithm.normalize_advantages,
    )


def trainer_options(config: Config) -> TrainerOptions:
    """How the run samples, evaluates and saves."""
    from llm_decpomdp.algorithms.trainer import TrainerOptions

    return TrainerOptions(
        group_size=config.algorithm.num_generations,
        handoff=config.algorithm.handoff,
        early_termination_threshold=config.algorithm.early_termination_threshold,
        eval_every=config.evaluation.every,
        checkpoint_every=config.output.checkpoint_every,
        seed=config.seed,
    )


def schedule(config: Config, tasks: Sequence[str]) -> list[list[Start]]:
    """The starts of each update: every task once an epoch, in an order that the seed decides.

    The last update of an epoch takes what is left.
    """
    size, batches = config.algorithm.prompts_per_update, []
    for epoch in range(config.algorithm.num_train_epochs):
        order = stream(config.seed, "schedule", epoch).permutation(len(tasks))
        starts = [Start(task_id=tasks[position]) for position in order]
        batches += [starts[first : first + size] for first in range(0, len(starts), size)]
    return batches[: config.algorithm.max_updates]


def save_team(team: Mapping[str, Policy], folder: Path) -> None:
    """Write each agent's model and tokenizer to `folder/agent_<i>`, in the order of the agents."""
    for index, policy in enumerate(team.values()):
        assert isinstance(policy, TrainablePolicy), policy
        policy.save(folder / f"agent_{index}")
    logger.info("saved %d models to %s", len(distinct_policies(team)), folder)
