"""The configuration of a run: one schema, and how it is loaded and checked.

Later layers win: the defaults below, the YAML file, `--override k=v`, the flags of the training
scripts. `llm_decpomdp.benchmarks.legacy` translates older spellings before layers are merged.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import yaml
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from llm_decpomdp.algorithms import NAMES
from llm_decpomdp.algorithms.rollout import HANDOFFS
from llm_decpomdp.benchmarks.errors import ConfigError
from llm_decpomdp.benchmarks.legacy import canonical
from llm_decpomdp.benchmarks.overrides import parse_overrides
from llm_decpomdp.env import DecPOMDPEnv
from llm_decpomdp.naming import unknown
from llm_decpomdp.registry import make

COMPUTE_DTYPES = ("auto", "float32", "bfloat16")


@dataclass(frozen=True)
class EnvConfig:
    """The environment; `llm-decpomdp list` shows the ids."""

    id: str = "coophumaneval-v0"
    num_agents: int = 2
    num_turns: int = 1
    stop_when_solved: bool = True
    isolation: str = "best_effort"
    """`require` to refuse to run programs without the sandbox's layers of protection."""


@dataclass(frozen=True)
class DatasetConfig:
    """Where its problems come from, and which of them train and test."""

    source: str = "auto"
    """`auto`, `hub`, `bundled`, or the path of a JSONL, JSON or Parquet file."""
    train_split: str = "test[16:]"
    eval_split: str = "test[:16]"


@dataclass(frozen=True)
class ExternalConfig:
    """What the agents see from the second turn on."""

    mode: str = "level_feedback"
    sandbox_slice: Any = 1
    """Tests that feedback may show: n first, -n last; 0, null or `all` for all."""
    original_prompt: bool = False
    previous_response: bool = True
    expert_model: str | None = None
    """Asked by `expert_edits` alone, as the two below."""
    expert_base_url: str | None = None
    on_expert_failure: str = "raise"


@dataclass(frozen=True)
class ModelConfig:
    """The language model of every agent, and how it is sampled."""

    name: str = "smollm2-135m-instruct"
    """The offline model, or a name or folder that transformers loads."""
    temperature: float = 0.7
    top_p: float = 0.9
    top_k: int | None = None
    max_new_tokens: int = 256
    compute_dtype: str = "auto"
    """`auto`, `float32` or `bfloat16`."""
    shared: bool = False
    """One set of weights for all agents, instead of one for each."""
    lora: dict[str, Any] | None = None
    """Arguments of `peft.LoraConfig`, as in `{r: 16, lora_alpha: 32}`; null trains all weights."""


@dataclass(frozen=True)
class AlgorithmConfig:
    """How the team learns."""

    name: str = "magrpo"
    num_train_epochs: int = 10
    max_updates: int | None = None
    """Ends the run early; null runs all epochs."""
    prompts_per_update: int = 1
    num_generations: int = 4
    """Joint samples of each prompt (G)."""
    learning_rate: float = 1e-5
    weight_decay: float = 0.0
    max_grad_norm: float | None = None
    normalize_advantages: bool = False
    turn_gradient_weights: list[float] | None = None
    early_termination_threshold: float | None = None
    early_termination_weight: float = 2.0
    handoff: str = "random"


@dataclass(frozen=True)
class EvaluationConfig:
    """When held-out problems are played, one episode each."""

    every: int = 0
    """Updates between evaluations; 0 leaves those before the first and after the last update."""
    num_tasks: int | None = None
    """The first problems of the split; null for all, 0 for no evaluation."""


@dataclass(frozen=True)
class OutputConfig:
    """What a run leaves behind."""

    base_dir: str = "runs"
    name: str | None = None
    """Folder within `base_dir`; null takes the configuration's name and the time."""
    save_final_model: bool = False
    save_path: str | None = None
    """Where the final models go; null for `final_model` in the run's folder."""
    checkpoint_every: int = 0
    """Updates between checkpoints; 0 saves on Ctrl-C alone."""
    report: bool = True


@dataclass(frozen=True)
class Config:
    """A whole run."""

    env: EnvConfig = field(default_factory=EnvConfig)
    dataset: DatasetConfig = field(default_factory=DatasetConfig)
    external: ExternalConfig = field(default_factory=ExternalConfig)
    model: ModelConfig = field(default_factory=ModelConfig)
    algorithm: AlgorithmConfig = field(default_factory=AlgorithmConfig)
    evaluation: EvaluationConfig = field(default_factory=EvaluationConfig)
    output: OutputConfig = field(default_factory=OutputConfig)
    seed: int = 0

    def to_yaml(self) -> str:
        """The whole configuration, as `load_config` reads it."""
        return OmegaConf.to_yaml(OmegaConf.structured(self))

    def make_env(self, split: str, source: str | None = None) -> DecPOMDPEnv:
        """The environment on one split; `source` in place of the configuration's own."""
        external = asdict(self.external)
        arguments = {
            **asdict(self.env),
            "external_mode": external.pop("mode"),
            **external,
            "split": split,
            "source": source or self.dataset.source,
        }
        return make(arguments.pop("id"), **arguments)


SECTIONS = tuple(name for name in Config.__dataclass_fields__ if name != "seed")
KEYS = ("seed", *(f"{s}.{key}" for s in SECTIONS for key in asdict(Config())[s]))

AT_LEAST = {
    "env.num_turns": 1,
    "model.max_new_tokens": 1,
    "model.top_k": 1,
    "algorithm.num_train_epochs": 1,
    "algorithm.max_updates": 1,
    "algorithm.prompts_per_update": 1,
    "algorithm.num_generations": 2,
    "algorithm.learning_rate": 0,
    "algorithm.weight_decay": 0,
    "algorithm.early_termination_weight": 0,
    "evaluation.every": 0,
    "evaluation.num_tasks": 0,
    "output.checkpoint_every": 0,
    "seed": 0,
}
ABOVE_ZERO = ("model.temperature", "model.top_p", "algorithm.max_grad_norm")
CHOICES: Mapping[str, Iterable[str]] = {
    "algorithm.name": NAMES,
    "algorithm.handoff": HANDOFFS,
    "model.compute_dtype": COMPUTE_DTYPES,
}


def schema() -> DictConfig:
    """The defaults, as a typed mapping that only takes values of the right type."""
    root: DictConfig = OmegaConf.structured(Config)
    for section in SECTIONS:  # frozen dataclasses begin read-only
        OmegaConf.set_readonly(root[section], False)
    OmegaConf.set_readonly(root, False)
    return root


def load_config(
    path: Path | None = None,
    overrides: Sequence[str] = (),
    flags: Mapping[str, Any] | None = None,
    defaults: Mapping[str, Any] | None = None,
) -> Config:
    """The effective configuration of a run.

    Args:
        path: A YAML file, in the schema above or in an older spelling.
        overrides: Items such as `model.name=gpt2`.
        flags: Dotted keys and values that win over the overrides.
        defaults: Dotted keys and values that replace the schema's defaults.

    Raises:
        ConfigError: If a key is unknown, or a value has the wrong type or range.
    """
    layers = [dict(defaults or {}), canonical(_read(path), KEYS) if path else {}]
    current = _merge(layers).algorithm.name
    layers += [canonical(parse_overrides(overrides), KEYS, current), dict(flags or {})]
    config: Config = OmegaConf.to_object(_merge(layers))  # type: ignore[assignment]
    validate(config)
    return config


def _read(path: Path) -> dict[str, Any]:
    try:
        tree = OmegaConf.to_container(OmegaConf.load(path), resolve=True)
    except (OSError, yaml.YAMLError, OmegaConfBaseException) as error:
        raise ConfigError(f"cannot read {path}: {error}") from None
    if not isinstance(tree, dict):
        raise ConfigError(f"{path} must hold a mapping of sections, got a {type(tree).__name__}")
    return tree  # type: ignore[return-value]  # keys are checked by name


def _merge(layers: Sequence[Mapping[str, Any]]) -> DictConfig:
    merged = schema()
    for layer in layers:
        for key, value in layer.items():
            try:
                OmegaConf.update(merged, key, value)
            except OmegaConfBaseException as error:
                raise ConfigError(f"{key}: {str(error).splitlines()[0]}") from None
    return merged


def validate(config: Config) -> None:
    """Check ranges and names, without loading data or models.

    Raises:
        ConfigError: If a value is out of range, or two values don't fit together.
    """
    flat = OmegaConf.structured(config)
    for key, least in AT_LEAST.items():
        value = OmegaConf.select(flat, key)
        if value is not None and not (math.isfinite(value) and value >= least):
            raise ConfigError(f"{key} must be at least {least}, got {value}")
    for key in ABOVE_ZERO:
        value = OmegaConf.select(flat, key)
        if value is not None and not (math.isfinite(value) and value > 0):
            raise ConfigError(f"{key} must be above 0, got {value}")
    if config.model.top_p > 1:
        raise ConfigError(f"model.top_p must be at most 1, got {config.model.top_p}")
    for key, names in CHOICES.items():
        if OmegaConf.select(flat, key) not in names:
            raise ConfigError(unknown(key, OmegaConf.select(flat, key), names))
    _check_team(config)
    _check_env(config)


def _check_team(config: Config) -> None:
    algorithm, env = config.algorithm, config.env
    if algorithm.name == "grpo" and env.num_agents != 1:
        raise ConfigError(
            f"grpo trains one agent, and env.num_agents is {env.num_agents}: set env.num_agents=1, "
            "or algorithm.name=magrpo"
        )
    weights = algorithm.turn_gradient_weights
    if weights is not None:
        if env.num_turns > 1 and len(weights) != env.num_turns:  # one turn has nothing to weigh
            raise ConfigError(
                f"algorithm.turn_gradient_weights needs one weight for each of env.num_turns="
                f"{env.num_turns} turns, got {list(weights)}"
            )
        if not all(math.isfinite(weight) and weight >= 0 for weight in weights):
            raise ConfigError(f"algorithm.turn_gradient_weights must be at least 0, got {weights}")


def _check_env(config: Config) -> None:
    for split in (config.dataset.train_split, config.dataset.eval_split):
        try:
            config.make_env(split)
        except (ValueError, TypeError, KeyError, ImportError) as error:
            raise ConfigError(str(error.args[0])) from None
