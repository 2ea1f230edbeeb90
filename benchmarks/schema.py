"""The schema of a configuration: its sections, their keys and defaults."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from omegaconf import OmegaConf

from llm_decpomdp.env import DecPOMDPEnv
from llm_decpomdp.registry import make, takes


@dataclass(frozen=True)
class EnvConfig:
    """The environment; `llm-decpomdp list` shows the ids."""

    id: str = "coophumaneval-v0"
    num_agents: int = 2
    num_turns: int = 1
    stop_when_solved: bool = True
    discount: float = 1.0
    """What a reward counts a turn later, in [0, 1]; only `algorithm.plan=tree` looks beyond a turn."""
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
    """The language model of every agent, and how it is sampled; `policies` may differ from it."""

    name: str = "smollm2-135m-instruct"
    """The offline model, or a name or folder that transformers loads."""
    temperature: float = 0.7
    top_p: float = 0.9
    top_k: int | None = None
    max_new_tokens: int = 256
    compute_dtype: str = "auto"
    """`auto`, `float32` or `bfloat16`."""
    device: str = "auto"
    """`auto` (a GPU where there is one), or a torch device such as `cpu` or `cuda:1`."""
    attn_implementation: str | None = None
    """How transformers computes attention, such as `sdpa`; null leaves it the choice."""
    gradient_checkpointing: bool = False
    """Compute activations twice instead of keeping them: less memory, more time."""
    shared: bool = False
    """One set of weights for all agents, instead of one for each."""
    lora: dict[str, Any] | None = None
    """Arguments of `peft.LoraConfig`, as in `{r: 16, lora_alpha: 32}`; null trains all weights. Agents
    with adapters of their own share one frozen base."""


@dataclass(frozen=True)
class AlgorithmConfig:
    """How the team learns."""

    name: str = "magrpo"
    """`grpo`, for one agent; for any number `magrpo`, `marloo`, `maremax`, `mareinforce`.

    They differ by what a return is compared with: the mean of its group (the first two), the mean of
    the others, the group's best, nothing. Choose with open eyes: `mean` and `leave_one_out` differ by
    the factor G / (G - 1) alone, which Adam all but removes; and had advantages a mean of 0 and a
    deviation of 1 (z-scores), all five would be one algorithm. None here ever centres them again."""
    plan: str = "chain"
    """`chain`: G joint samples a turn, of which one goes on. `tree`: all go on, at G^turns cost."""
    joint_mode: str = "aligned"
    """In a tree, which completions are played together: the g-th of all agents (`aligned`), or each
    with each (`cross`)."""
    num_train_epochs: int = 10
    max_updates: int | None = None
    """Ends the run early; null runs all epochs."""
    prompts_per_update: int = 1
    num_generations: int = 4
    """Completions of each agent in a group (G)."""
    learning_rate: float = 1e-5
    lr_schedule: str = "constant"
    """`constant`, `linear` or `cosine`: how the learning rate falls after the warm-up."""
    warmup_updates: int = 0
    weight_decay: float = 0.0
    max_grad_norm: float | None = None
    loss: str = "sequence_sum"
    """How the loss adds up tokens: `sequence_sum`, `token_mean`, or `fixed_length`: the sum over
    `model.max_new_tokens`."""
    normalize_advantages: bool = False
    """Divide advantages by the standard deviation of their group's returns.

    Problems whose returns hardly differ then weigh as much as others. It makes `mean` and
    `leave_one_out` equal; `max` and `none` still differ by their shift, as nothing is centred again."""
    updates_per_batch: int = 1
    """Steps with one batch of rollouts; from the second on ratios are clipped to 1 +- `clip_range`."""
    clip_range: float = 0.2
    kl_coefficient: float = 0.0
    """Pull towards the policies as they were before training; 0 keeps no reference."""
    truncated: str = "train"
    """What to do with completions that met the token limit: `train`, `mask` or `penalise`."""
    truncation_penalty: float = 0.0
    """What `penalise` takes off, in the units of the reward."""
    turn_gradient_weights: list[float] | None = None
    early_termination_threshold: float | None = None
    """Mean reward of a group from which on nothing follows it."""
    early_termination_weight: float = 2.0
    handoff: str = "random"
    """In a chain, which joint sample goes on: `random` or `best`."""


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
    keep_best: bool = False
    """Keep the team of the evaluation with the highest mean reward, and make it the final one."""
    save_path: str | None = None
    """Where the final team goes; null for `final_model` in the run's folder."""
    checkpoint_every: int = 0
    """Updates between checkpoints; 0 saves on Ctrl-C alone."""
    keep_checkpoints: int = 2
    """How many of the newest ones to keep."""
    record_tokens: bool = False
    """Write the token ids and log-probabilities of every completion to `episodes.jsonl` too."""
    trackers: dict[str, Any] = field(default_factory=dict)
    """Where metrics go besides `metrics.jsonl`: `tensorboard`, `wandb` and `trackio`, each true, false or options;
    see `llm_decpomdp.benchmarks.trackers`."""
    report: bool = True


@dataclass(frozen=True)
class Config:
    """A whole run."""

    env: EnvConfig = field(default_factory=EnvConfig)
    dataset: DatasetConfig = field(default_factory=DatasetConfig)
    external: ExternalConfig = field(default_factory=ExternalConfig)
    model: ModelConfig = field(default_factory=ModelConfig)
    team: dict[str, str] = field(default_factory=dict)
    """The name of each agent's policy, by agent id; equal names share one set of weights. Empty: each
    agent its own, or one for all if `model.shared`."""
    policies: dict[str, Any] = field(default_factory=dict)
    """What the team's policies are, by name; see `llm_decpomdp.benchmarks.teams`."""
    algorithm: AlgorithmConfig = field(default_factory=AlgorithmConfig)
    evaluation: EvaluationConfig = field(default_factory=EvaluationConfig)
    output: OutputConfig = field(default_factory=OutputConfig)
    seed: int = 0

    def to_yaml(self) -> str:
        """The whole configuration, as `load_config` reads it."""
        return OmegaConf.to_yaml(OmegaConf.structured(self))

    def make_env(self, split: str, source: str | None = None) -> DecPOMDPEnv:
        """The environment on one split; `source` in place of the configuration's own.

        Keys that stand at their defaults are left out where the environment has no such argument: a family
        without programs has no isolation. Others it refuses.
        """
        defaults = Config()._settings()
        given = {
            key: value
            for key, value in self._settings().items()
            if takes(self.env.id, key) or value != defaults[key]
        }
        return make(self.env.id, **given, split=split, source=source or self.dataset.source)

    def _settings(self) -> dict[str, Any]:
        """The arguments of the environment, but for its data."""
        env, external = asdict(self.env), asdict(self.external)
        del env["id"]
        return {**env, "external_mode": external.pop("mode"), **external}


ROOT_KEYS = ("team", "policies", "seed")
"""The keys that stand in no section."""

SECTIONS = tuple(name for name in Config.__dataclass_fields__ if name not in ROOT_KEYS)
KEYS = (*ROOT_KEYS, *(f"{s}.{key}" for s in SECTIONS for key in asdict(Config())[s]))
