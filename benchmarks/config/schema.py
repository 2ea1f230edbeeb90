"""The schema of a configuration: its sections, their keys and defaults."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import Field, asdict, dataclass, field, fields
from typing import Any

from omegaconf import OmegaConf

from llm_decpomdp.agents.specs import PolicySpec
from llm_decpomdp.algorithms.learning.options import LearnerOptions
from llm_decpomdp.env import DecPOMDPEnv
from llm_decpomdp.registry import defaults, make, takes

ENV_ID = "coophumaneval-v0"

OWN = defaults(ENV_ID)
"""What stands in a configuration where neither it nor its environment says anything: `load_config` puts the
environment's own defaults above these."""


@dataclass(frozen=True)
class EnvConfig:
    """The environment: what `llm_decpomdp.make` is given. What is left out is as the environment has it."""

    id: str = ENV_ID
    """Which environment: an id of `llm-decpomdp list`, or `module:id` for one that a module of yours registers."""
    num_agents: int = OWN["num_agents"]
    """Agents of the team; who they are is up to the environment."""
    num_turns: int = OWN["num_turns"]
    """Turns of an episode, at most."""
    stop_when_solved: bool = OWN["stop_when_solved"]
    """Whether full marks end an episode before its last turn."""
    discount: float = OWN["discount"]
    """What a reward counts a turn later; only `algorithm.plan=tree` looks beyond a turn."""
    isolation: str = OWN["isolation"]
    """How programs are kept apart from the machine: `best_effort` warns of what the system lacks, `require`
    refuses to run them without all layers of protection."""
    options: dict[str, Any] = field(default_factory=dict)
    """Further arguments of the environment, by their names there, as in `{exclude_known_issues: true}`; for
    `classeval-v0` also `allow_forgeable`: whether to take classes whose tests a program could forge."""


@dataclass(frozen=True)
class DatasetConfig:
    """Where its problems come from, and which of them train and test."""

    source: str = "auto"
    """`auto` (a local copy, the hub, or else stand-ins with a warning), `hub`, `hub@COMMIT`, `bundled`, or the
    path of a JSONL, JSON or Parquet file. A relative path starts at the folder of the file that it stands in, on a
    command line at the current one."""
    train_source: str | None = None
    """Where the problems to train on come from, if not from `source`: then all of them, unless `train_split` says
    which."""
    eval_source: str | None = None
    """Where the held-out problems come from, if not from `source`: then all of them, unless `eval_split` says
    which."""
    train_split: str = "test[16:]"
    """The problems to train on, such as `train`, `test[16:]` or `test[:50%]`. A file of your own is `train`,
    `test` and `all`, each the whole of it."""
    eval_split: str = "test[:16]"
    """The problems that are held out."""


@dataclass(frozen=True)
class ExternalConfig:
    """What the agents see from the second turn on. What is left out is as the environment has it."""

    mode: str = OWN["external_mode"]
    """What they are told: `level_feedback` (diagnostics), `level_passed` (each level passed or not), `passed` (all
    levels or not), `plain` (nothing), `expert_edits` (edits by another model; not for writing), and for ClassEval
    `code_feedback` (diagnostics with all tests)."""
    sandbox_slice: Any = OWN["sandbox_slice"]
    """Tests whose outcome feedback may show: n the first n, -n the last n; 0, null or `all` for all. The reward
    counts every test in any case."""
    original_prompt: bool = OWN["original_prompt"]
    """Whether later prompts repeat the first one."""
    previous_response: bool = OWN["previous_response"]
    """Whether later prompts show the agent's own last answer."""
    exception_text: bool = OWN["exception_text"]
    """Whether feedback tells the text of exceptions, which is a line of the program's, or their type alone."""
    expert_model: str | None = OWN["expert_model"]
    """The model that `expert_edits` asks, such as `deepseek-coder`; its name decides whose key is needed, as in
    `ANTHROPIC_API_KEY`, `DEEPSEEK_API_KEY`, `DASHSCOPE_API_KEY` or `OPENAI_API_KEY`. Other modes ask nobody."""
    expert_base_url: str | None = OWN["expert_base_url"]
    """Address of an OpenAI-compatible endpoint that serves it, with the key `OPENAI_API_KEY`."""
    on_expert_failure: str = OWN["on_expert_failure"]
    """If it does not answer: `raise` ends the run, `continue` goes on without edits and counts it."""


@dataclass(frozen=True)
class ModelConfig:
    """The language model of every agent, and how it is sampled; `policies` may differ from it."""

    name: str = "smollm2-135m-instruct"
    """The offline model, or a name or folder that transformers loads."""
    temperature: float = PolicySpec.temperature
    """Divides the logits: the higher, the more various the completions."""
    top_p: float = PolicySpec.top_p
    """Draw among the likeliest tokens that hold this share of the probability; 1 draws among all."""
    top_k: int | None = None
    """Draw among this many likeliest tokens; null draws among all."""
    max_new_tokens: int = 256
    """Longest completion, in tokens."""
    system_prompt: str | None = None
    """The system message of the model's chat template; null sends none, and the template may have its own. The
    agent's prompt is the user message."""
    chat_template_kwargs: dict[str, Any] | None = None
    """Further variables of the chat template, as in `{enable_thinking: false}`."""
    max_prompt_tokens: int | None = None
    """Most tokens of a prompt as the model sees it; never more than its context less `max_new_tokens`."""
    on_long_prompt: str = "raise"
    """What happens to longer ones: `raise` ends the run, before the first update if it is a first prompt. `skip`
    lets the agent say nothing in that turn, and trains on no problem that begins so. `truncate_left` cuts their
    beginning off."""
    compute_dtype: str = "auto"
    """What is computed with; `auto` is bfloat16 where the device is fast with it. Weights that are trained are
    float32 in any case."""
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
    """Passes over the training problems, each in an order of its own."""
    max_updates: int | None = None
    """Ends the run early; null runs all epochs."""
    prompts_per_update: int = 1
    """Problems of an update, each with a group or, over several turns, with several."""
    num_generations: int = 4
    """Completions of each agent in a group (G)."""
    learning_rate: float = 1e-5
    """Of AdamW, after the warm-up."""
    lr_schedule: str = "constant"
    """How the learning rate falls after the warm-up, to 0 with the last update, or not at all."""
    warmup_updates: int = 0
    """Updates over which the learning rate rises."""
    weight_decay: float = 0.0
    """AdamW's decay of matrices; biases and norms never decay."""
    max_grad_norm: float | None = None
    """Largest norm of the gradient of a policy; a longer one is shortened, null shortens none."""
    loss: str = "sequence_sum"
    """How the loss adds up tokens: `sequence_sum`, `token_mean`, or `fixed_length`: the sum over
    the largest `max_new_tokens` of the policies that are trained."""
    normalize_advantages: bool = False
    """Divide advantages by the standard deviation of their group's returns.

    Problems whose returns hardly differ then weigh as much as others. It makes `mean` and
    `leave_one_out` equal; `max` and `none` still differ by their shift, as nothing is centred again, and
    `none` then needs `max_grad_norm`."""
    updates_per_batch: int = 1
    """Steps with one batch of rollouts; from the second on ratios are clipped to 1 +- `clip_range`."""
    clip_range: float = 0.2
    """How far from 1 the ratio of a token's probabilities counts."""
    kl_coefficient: float = 0.0
    """Pull towards the reference: the weights before training, or the model without its adapter; 0 keeps none."""
    truncated: str = "train"
    """What to do with completions that hit the token limit: `train`, `mask` or `penalise`."""
    truncation_penalty: float = 0.0
    """What `penalise` takes off, in the units of the reward."""
    turn_gradient_weights: list[float] | None = None
    """Factor of each turn's loss, as in `[1.2, 0.8]`, each at least 0; null means 1. With a single turn it has no
    effect."""
    early_termination_threshold: float | None = None
    """Mean reward of a group from which on nothing follows it; null stops nothing."""
    early_termination_weight: float = LearnerOptions.early_termination_weight
    """Factor of the loss of groups that ended so before the last turn."""
    handoff: str = "random"
    """In a chain, which joint sample goes on: `random` or `best`."""


@dataclass(frozen=True)
class EvaluationConfig:
    """When held-out problems are played, one episode each."""

    every: int = 0
    """Updates between evaluations; 0 leaves those before the first and after the last update."""
    num_tasks: int | None = None
    """How many: the first problems of the split; null for all, 0 for no evaluation."""


@dataclass(frozen=True)
class OutputConfig:
    """What a run leaves behind."""

    base_dir: str = "runs"
    """The folder that holds the folders of runs."""
    name: str | None = None
    """Folder within `base_dir`; null takes the configuration's name and the time."""
    save_final_model: bool = False
    """Save the trained team, for transformers and peft to load."""
    keep_best: bool = False
    """Keep the team of the evaluation with the highest mean reward, and make it the final one."""
    save_path: str | None = None
    """Where the final team goes, if `save_final_model` saves it; null for `final_model` in the run's folder."""
    checkpoint_every: int = 0
    """Updates between checkpoints; 0 saves only when the run is stopped or fails."""
    keep_checkpoints: int = 2
    """How many of the newest ones to keep."""
    record_tokens: bool = False
    """Write the token ids and log-probabilities of every completion to `episodes.jsonl` too."""
    trackers: dict[str, Any] = field(default_factory=dict)
    """Where metrics go besides `metrics.jsonl`: `tensorboard`, `wandb` and `trackio`, each true, false or options;
    see `llm_decpomdp.benchmarks.runs.trackers`."""
    report: bool = True
    """Write `report.html` at the end."""


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
    """What the team's policies are, by name; see `llm_decpomdp.benchmarks.config.teams`."""
    algorithm: AlgorithmConfig = field(default_factory=AlgorithmConfig)
    evaluation: EvaluationConfig = field(default_factory=EvaluationConfig)
    output: OutputConfig = field(default_factory=OutputConfig)
    seed: int = 0
    """Decides all that is drawn at random: the order of problems, new adapters' weights, and every sample."""

    def to_yaml(self) -> str:
        """The whole configuration, as `load_config` reads it."""
        return OmegaConf.to_yaml(OmegaConf.structured(self))

    def make_env(self, split: str, source: str | None = None) -> DecPOMDPEnv:
        """The environment on one split; `source` in place of the configuration's own.

        Where the environment has no such argument, keys that stand at their defaults are left out: a family
        without programs has no isolation, one with a few problems no splits. Others it refuses.

        Raises:
            ImportError: If the module of the environment's id cannot be imported.
            KeyError: If there is no such environment.
            ValueError: If `env.options` names an argument that has a key of its own, or a value is bad.
            TypeError: If the environment has no such argument.
        """
        settings, defaults = self._settings(), Config()._settings()
        for key in self.env.options:
            if key in (*settings, "split", "source"):
                raise ValueError(f"env.options: {key!r} has a key of its own; set that")
        fixed = {key: settings.pop(key) for key in SIZES if not takes(self.env.id, key)}
        given = {
            key: value
            for key, value in settings.items()
            if takes(self.env.id, key) or value != defaults[key]
        }
        data = self._data(split, source or self.dataset.source)
        env = make(self.env.id, **given, **self.env.options, **data)
        for key, value in fixed.items():
            if value not in (defaults[key], true := SIZES[key](env)):
                raise ValueError(f"env.{key}={value}: {self.env.id} always has {true}; drop it")
        return env

    def make_train_env(self, source: str | None = None) -> DecPOMDPEnv:
        """The environment to train in; arguments and errors as of `make_env`."""
        return self.make_env(self.dataset.train_split, source or self.dataset.train_source)

    def make_eval_env(self, source: str | None = None) -> DecPOMDPEnv:
        """The environment on the held-out problems; arguments and errors as of `make_env`."""
        return self.make_env(self.dataset.eval_split, source or self.dataset.eval_source)

    def _data(self, split: str, source: str) -> dict[str, str]:
        """The arguments that choose problems; refuses a choice where the environment has no such argument."""
        data = self.dataset
        sources = (data.source, data.train_source, data.eval_source)
        for key, value in [*(("source", one) for one in sources), ("split", split)]:
            if value not in NO_CHOICE and not takes(self.env.id, key):
                raise ValueError(
                    f"{self.env.id} takes no {key}, got {value!r}: keep the defaults of `dataset`"
                )
        chosen = {"split": split, "source": source}
        return {key: value for key, value in chosen.items() if takes(self.env.id, key)}

    def _settings(self) -> dict[str, Any]:
        """The arguments of the environment that have keys of their own, but for its data."""
        env, external = asdict(self.env), asdict(self.external)
        del env["id"], env["options"]
        return {**env, "external_mode": external.pop("mode"), **external}


SIZES: dict[str, Callable[[DecPOMDPEnv], int]] = {
    "num_agents": lambda env: len(env.possible_agents),
    "num_turns": lambda env: env.num_turns,
}
"""What an environment is, whether or not it has an argument for it."""

NO_CHOICE = (None, "auto", "bundled", DatasetConfig.train_split, DatasetConfig.eval_split)
"""What an environment with one set of problems is right for."""

ROOT_KEYS = ("team", "policies", "seed")
"""The keys that stand in no section."""

SECTIONS = tuple(name for name in Config.__dataclass_fields__ if name not in ROOT_KEYS)


def _fields() -> Iterator[tuple[str, Field[Any]]]:
    for part in fields(Config):
        if part.name in ROOT_KEYS:
            yield part.name, part
        else:
            section: Any = part.default_factory
            yield from ((f"{part.name}.{found.name}", found) for found in fields(section))


FIELDS: dict[str, Field[Any]] = dict(_fields())
"""What each dotted key is declared as."""

KEYS = tuple(FIELDS)
