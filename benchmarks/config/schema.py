"""Schema of a configuration: its sections, their keys and defaults.

Options of environments, learners, trainers and models are declared where they are used; the sections here take
them over and add those of a run. An option that is declared there is a key here. `option` declares a field with
limits, and `option_of` takes one over from another class. The tables of dotted keys, such as
`algorithm.rollout.mode`, follow from these classes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import Field as DataclassField
from dataclasses import asdict, field, fields, replace
from typing import Any, ClassVar

import yaml

from llm_decpomdp.agents.inference.options import ModelOptions
from llm_decpomdp.agents.partner_pool import PartnerOptions
from llm_decpomdp.agents.remote.options import SamplerOptions
from llm_decpomdp.algorithms import LearnerOptions, RolloutOptions, TrainerOptions
from llm_decpomdp.algorithms.critics.options import CriticOptions
from llm_decpomdp.algorithms.learning.learner_options import (
    AggregationOptions,
    ImportanceSamplingOptions,
    KLOptions,
    ObjectiveOptions,
    StepOptions,
    TruncationOptions,
)
from llm_decpomdp.algorithms.learning.shard_options import ShardOptions
from llm_decpomdp.algorithms.preferences.options import STORED, PreferenceConfig, PreferenceOptions
from llm_decpomdp.algorithms.rollout_workers.options import ClusterOptions
from llm_decpomdp.algorithms.rollouts.rollout_options import (
    RewardScoreOptions,
    StorageOptions,
    check_scores,
)
from llm_decpomdp.algorithms.training.warm_start import WarmStartOptions
from llm_decpomdp.env import DecPOMDPEnv
from llm_decpomdp.envs.feedback.code_mode import CodeOptions
from llm_decpomdp.option_texts import type_in_words
from llm_decpomdp.options import (
    Options,
    default_of,
    names,
    option,
    option_of,
    refuse_changes,
    sections_of,
)
from llm_decpomdp.registry import accepts_argument, make_family

ENV_ID = "coophumaneval-v0"


class EnvConfig(Options):
    """Arguments of `llm_decpomdp.make`; those that are left out have the environment's own defaults."""

    former_names: ClassVar = {"centralised": "centralized"}
    id: str = ENV_ID
    """An id of `llm-decpomdp list`, or `module:id` for one that a module of yours registers."""
    num_agents: int = option_of(CodeOptions, "num_agents", ge=1)
    num_turns: int = option_of(CodeOptions, "num_turns")
    stop_when_solved: bool = option_of(CodeOptions, "stop_when_solved")
    discount: float = option_of(LearnerOptions, "discount", CodeOptions.discount)
    isolation: str = option_of(CodeOptions, "isolation")
    reward: str | None = None
    """A reward of your own in place of the environment's: `module:NAME` of a function from that one to yours, or
    the name of one that an installed package announces. An `external.mode` of your own is named likewise."""
    centralized: bool = False
    """Let one policy, `team_0`, read the prompts of all agents and write all their parts in one completion: an
    upper bound on what communication can achieve. `num_agents` counts the agents whose parts it writes."""
    channel: dict[str, Any] = field(default_factory=dict)
    """Let agents send each other messages before each turn: options of a channel (docs/wrappers.md), such as
    `{bandwidth: 40, price: 0.001}`. Empty: no channel."""
    order: list[Any] | str = "simultaneous"
    """Agents that act one after the other within each turn, and read the answers before theirs, such as
    `[aux_0, main_0]`; agents in a list of their own act at once. An agent that stands there twice drafts first.
    `simultaneous`: all act at once."""
    options: dict[str, Any] = field(default_factory=dict)
    """Further arguments of the environment, by their names there, as in `{exclude_known_issues: true}`; for
    `classeval-v0` also `allow_forgeable`: take classes whose tests a program could forge."""


class DatasetConfig(Options):
    """Source of the problems, and the split into those that train and those that test."""

    source: str = "auto"
    """`auto` (a local copy, the hub, or else stand-ins with a warning), `hub`, `hub@COMMIT`, `bundled`, or the
    path of a JSONL, JSON or Parquet file. A relative path starts at the folder of the file that it stands in, on a
    command line at the current one."""
    train_source: str | None = None
    """Source of the problems to train on, if not `source`: then all of them, unless `train_split` says which."""
    eval_source: str | None = None
    """Source of the held-out problems, if not `source`: then all of them, unless `eval_split` says which."""
    train_split: str = "test[16:]"
    """Problems to train on, such as `train`, `test[16:]`, `test[:50%]` or `train+validation`. In a file of your
    own, `train`, `test` and `all` each have all rows."""
    eval_split: str = "test[:16]"
    """Held-out problems."""


class ExternalConfig(Options):
    """Observations from the second turn on; keys that are left out have the environment's own defaults."""

    mode: str = option_of(CodeOptions, "external_mode")
    sandbox_slice: int | str | None = option_of(CodeOptions, "sandbox_slice")
    original_prompt: bool = option_of(CodeOptions, "original_prompt")
    previous_response: bool = option_of(CodeOptions, "previous_response")
    exception_text: bool = option_of(CodeOptions, "exception_text")
    expert_model: str | None = option_of(CodeOptions, "expert_model")
    expert_base_url: str | None = option_of(CodeOptions, "expert_base_url")
    on_expert_failure: str = option_of(CodeOptions, "on_expert_failure")


class ModelName(Options):
    """Name of the model: the key of `ModelConfig` that comes first."""

    name: str = "smollm2-135m-instruct"
    """`smollm2-135m-instruct` (needs no hub), `tiny-random` (random weights, for tests of a setup), a name or
    folder that transformers loads, or the path of a GGUF file."""


class ModelConfig(ModelOptions, ModelName):
    """The language model of every agent, and its sampling; `policies` may differ from it."""

    temperature: float = option_of(ModelOptions, "temperature", gt=0)  # equal samples teach nothing
    shared: bool = False
    """One set of weights for all agents, instead of one for each."""


class ScheduleConfig(Options):
    """Algorithm, and amount of training: the keys of `AlgorithmConfig` that come first."""

    name: str = "magrpo"
    """`grpo` (for one agent), `magrpo`, `marloo`, `maremax`, `mareinforce`, `rae`, `iac`, `maac`, `coma`, `madpo`,
    or `module:NAME` of your own. The latter is an `llm_decpomdp.algorithms.Algorithm`; for one that an installed
    package announces, its name is enough.

    `madpo` learns from pairs of joint samples. All but `madpo` differ by what a return is compared with: the mean
    of its group (`grpo`, `magrpo`), the mean of the others (`marloo`), the group's best (`maremax`), nothing
    (`mareinforce`), what the agent has earned on the task before (`rae`), the value of the situation to its agent
    (`iac`) or to the team (`maac`), that of the agent's other answers as a critic sees it (`coma`). Choose with
    open eyes: the first two baselines differ by the factor G / (G - 1) alone, which Adam all but removes; and had
    advantages a mean of 0 and a deviation of 1 (z-scores), all would be one algorithm. None here ever centres them
    again."""
    num_train_epochs: int = option(10, ge=1)
    """Passes over the training problems, each in an order of its own."""
    max_updates: int | None = option(None, ge=1)
    """Ends the run early; null runs all epochs."""
    train_batch_size: int = option(1, ge=1)
    """Problems of an update, each with a group or, over several turns, with several."""
    group_size: int = option_of(TrainerOptions, "group_size")


class AlgorithmConfig(StepOptions, ScheduleConfig):
    """Algorithm, rollouts, loss and steps of the team. Sections of features that are off are null."""

    objective: ObjectiveOptions | None = None
    importance_sampling: ImportanceSamplingOptions | None = None
    kl: KLOptions | None = None
    truncation: TruncationOptions | None = None
    joint_aggregation: AggregationOptions | None = None
    critic: CriticOptions | None = None
    preferences: PreferenceConfig | None = None
    rollout: RolloutOptions = field(default_factory=RolloutOptions)
    reward_model: RewardScoreOptions | None = None
    options: dict[str, Any] = field(default_factory=dict)
    """Options that only this algorithm has, as in `{decay: 0.9}` for `rae`."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for declared in fields(self):
            value = getattr(self, declared.name)
            # So that a section that sets defaults equals one that is absent, in `==` and in files.
            if declared.default is None and isinstance(value, Options) and value == type(value)():
                object.__setattr__(self, declared.name, None)  # off, as if it were not there
        if self.pairs_source is not None:
            refuse_changes(self.rollout, names(RolloutOptions), *STORED)
        if self.reward_model is not None:
            check_scores(self.reward_model, self.rollout)

    @property
    def pairs_source(self) -> str | None:
        """File of stored pairs to learn from, if the run samples none."""
        return None if self.preferences is None else self.preferences.source

    @property
    def named_opponent(self) -> str | None:
        """Folder of another team that pairs are made with, if there is one."""
        return None if self.preferences is None else self.preferences.named_opponent

    @property
    def own_options(self) -> dict[str, Any]:
        """The options that only this algorithm has, as `Algorithm.configure` takes them."""
        of_pairs = names(PreferenceOptions) if self.preferences else ()
        return {**{name: getattr(self.preferences, name) for name in of_pairs}, **self.options}


class EvaluationConfig(Options):
    """Evaluations on the held-out problems, one episode each."""

    every: int = option_of(TrainerOptions, "eval_every")
    num_tasks: int | None = option(None, ge=0)
    """Number of problems: the first of the split; null for all, 0 for no evaluation."""


class FolderConfig(Options):
    """Folders of a run: the keys of `OutputConfig` that come first."""

    base_dir: str = "runs"
    """The folder that holds the folders of runs."""
    name: str | None = None
    """Folder within `base_dir`; null takes the configuration's name and the time."""
    save_final_model: bool = False
    """Save the trained team, for transformers and peft to load."""
    save_path: str | None = None
    """Folder of the final team, if `save_final_model` saves it; null for `final_model` in the run's folder."""


class OutputConfig(StorageOptions, FolderConfig):
    """Results of a run."""

    trackers: dict[str, Any] = field(default_factory=dict)
    """Trackers of metrics besides `metrics.jsonl`: `tensorboard`, `wandb`, `trackio`, and classes of
    your own by `module:NAME`, each true, false or options; see `llm_decpomdp.benchmarks.config.trackers`."""
    report: bool = True
    """Write `report.html` at the end. The commands do; in Python, `llm_decpomdp.benchmarks.write_report`."""
    report_every: int = option(1, ge=0, unless=("report", False))
    """Evaluations after which the commands write `report.html` anew during training, from the first update on; 0
    writes it at the end alone. An evaluation is left out if the pages would take more than 5 % of the time."""


class Config(Options):
    """A whole run."""

    env: EnvConfig = field(default_factory=EnvConfig)
    dataset: DatasetConfig = field(default_factory=DatasetConfig)
    external: ExternalConfig = field(default_factory=ExternalConfig)
    model: ModelConfig = field(default_factory=ModelConfig)
    team: dict[str, str] = field(default_factory=dict)
    """Name of each agent's policy, by agent id; equal names share one set of weights. Empty: each
    agent its own, or one for all if `model.shared`."""
    policies: dict[str, Any] = field(default_factory=dict)
    """Declarations of the team's policies, by name; see `llm_decpomdp.benchmarks.config.teams`."""
    partners: PartnerOptions = field(default_factory=PartnerOptions)
    warm_start: WarmStartOptions = field(default_factory=WarmStartOptions)
    algorithm: AlgorithmConfig = field(default_factory=AlgorithmConfig)
    learner: ShardOptions = field(default_factory=ShardOptions)
    cluster: ClusterOptions = field(default_factory=ClusterOptions)
    inference: SamplerOptions = field(default_factory=SamplerOptions)
    evaluation: EvaluationConfig = field(default_factory=EvaluationConfig)
    output: OutputConfig = field(default_factory=OutputConfig)
    seed: int = option_of(TrainerOptions, "seed")

    def to_yaml(self) -> str:
        """Write the whole configuration, as `load_config` reads it."""
        # Unicode stays readable in prompts and names of folders.
        return str(yaml.safe_dump(plain(asdict(self)), sort_keys=False, allow_unicode=True))

    def with_sizes(self, env: DecPOMDPEnv) -> Config:
        """Return the configuration with the sizes that only its environment knows."""
        sizes: dict[str, Any] = {
            key: of(env) for key, of in SIZES.items() if not accepts_argument(self.env.id, key)
        }
        return replace(self, env=replace(self.env, **sizes))

    @property
    def horizon(self) -> int:
        """Turns of an episode, those of messages included, once the configuration fits its environment."""
        if not accepts_argument(self.env.id, "num_turns"):
            return self.env.num_turns
        ordered = 1 if isinstance(self.env.order, str) else len(self.env.order)
        return self.env.num_turns * ordered * (2 if self.env.channel else 1)

    def make_env(self, split: str, source: str | None = None, **wrappers: Any) -> DecPOMDPEnv:
        """Build the environment on one split; `source` in place of the configuration's own.

        Where the environment has no such argument, keys that stand at their defaults are left out: a family
        without programs has no isolation, one with a few problems no splits. Others it refuses.

        Raises:
            ImportError: If the module of the environment's id cannot be imported.
            KeyError: If there is no such environment.
            ValueError: If `env.options` names an argument that has a key of its own, or a value is bad.
            TypeError: If the environment has no such argument, or no tasks, roles, reward and mode.
        """
        settings, defaults = self._settings(), Config()._settings()
        # Two places for one argument would leave open which of them wins.
        for key in self.env.options:
            if key in (*settings, "split", "source"):
                raise ValueError(f"env.options: {key!r} has a key of its own; set that")
        fixed = {key: settings.pop(key) for key in SIZES if not accepts_argument(self.env.id, key)}
        arguments = {
            key: value
            for key, value in settings.items()
            if accepts_argument(self.env.id, key) or value != defaults[key]
        }  # `centralized`, an argument of `make`, among them
        data = self._data(split, source or self.dataset.source)
        env = make_family(self.env.id, **arguments, **self.env.options, **data, **wrappers)
        for key, value in fixed.items():
            # The default of the section counts as not set.
            if value not in (defaults[key], true := SIZES[key](env)):
                raise ValueError(f"env.{key}={value}: {self.env.id} always has {true}; drop it")
        return env

    def make_train_env(self, source: str | None = None) -> DecPOMDPEnv:
        """Build the environment to train in; arguments and errors as of `make_env`."""
        data = self.dataset
        # Evaluations show the words as they are: only while it trains must a team not rely on them.
        wrappers = {"other_play": True} if self.partners.other_play else {}
        return self.make_env(data.train_split, source or data.train_source, **wrappers)

    def make_eval_env(self, source: str | None = None) -> DecPOMDPEnv:
        """Build the environment on the held-out problems; arguments and errors as of `make_env`."""
        return self.make_env(self.dataset.eval_split, source or self.dataset.eval_source)

    def _data(self, split: str, source: str) -> dict[str, Any]:
        """Return the arguments that choose problems; refuse those that the environment does not take."""
        data = self.dataset
        sources = (data.source, data.train_source, data.eval_source)
        for key, value in [*(("source", name) for name in sources), ("split", split)]:
            if value not in NO_CHOICE and not accepts_argument(self.env.id, key):
                raise ValueError(
                    f"{self.env.id} takes no {key}, got {value!r}: keep the defaults of `dataset`"
                )
        choice = {"split": split, "source": source}
        return {key: value for key, value in choice.items() if accepts_argument(self.env.id, key)}

    def _settings(self) -> dict[str, Any]:
        """Return the arguments of the environment that have keys of their own, but for its data."""
        env, external = asdict(self.env), asdict(self.external)
        del env["id"], env["options"]
        return {**env, "external_mode": external.pop("mode"), **external}


SIZES: dict[str, Callable[[DecPOMDPEnv], int]] = {
    "num_agents": lambda env: len(env.authors),
    "num_turns": lambda env: env.num_turns,
}
"""Sizes of an environment, with or without an argument for them."""

NO_CHOICE = (None, "auto", "bundled", DatasetConfig.train_split, DatasetConfig.eval_split)
"""Choices of problems that fit an environment with one set of them."""


def plain(value: Any) -> Any:
    """Return a value with lists in place of tuples, as YAML knows them."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, list | tuple) else value


def _owners(
    owner: type[Options] = Config, prefix: str = ""
) -> Iterator[tuple[str, tuple[type[Options], str]]]:
    for name in names(owner):
        sections = sections_of(owner, name)
        for section in sections:
            yield from _owners(section, f"{prefix}{name}.")
        if not sections:
            yield prefix + name, (owner, name)


OWNERS = dict(_owners())
"""Class and name of the option behind each dotted key."""

FIELDS: dict[str, DataclassField[Any]] = {
    key: owner.__dataclass_fields__[name] for key, (owner, name) in OWNERS.items()
}
"""Declaration of each dotted key."""

KEYS = tuple(FIELDS)

SECTIONS = tuple(dict.fromkeys(key.rpartition(".")[0] for key in KEYS if "." in key))
"""Dotted names of all sections."""


OPTIONAL = tuple(
    f"algorithm.{declared.name}"
    for declared in fields(AlgorithmConfig)
    if declared.default is None and sections_of(AlgorithmConfig, declared.name)
)
"""Sections of features, which null turns off."""

SWITCHES = {
    section: key
    for key, (owner, name) in OWNERS.items()
    if (section := key.rpartition(".")[0]) and owner.switch == name
} | {"algorithm.kl": "algorithm.kl.placement"}
"""Keys that the bare values of sections set, as in `objective: gspo`; `kl: reward` is of earlier versions."""


def flatten(tree: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the values of nested mappings by dotted keys; the bare value of a section is that of its switch."""
    for name, value in tree.items():
        key = f"{prefix}{name}"
        if key in SECTIONS and isinstance(value, Mapping):
            yield from flatten(value, f"{key}.")
        elif value is not None:
            yield SWITCHES.get(key, key), value
        elif key in OPTIONAL or key not in SECTIONS:  # an empty section of a file says nothing
            yield key, None


def value_of(config: Config, key: str) -> Any:
    """Return the value of a dotted key; that of a section that is off is its default."""
    *sections, name = key.split(".")
    node: Any = config
    for section in sections:
        node = node and getattr(node, section)
    return default_of(FIELDS[key]) if node is None else getattr(node, name)


def type_of(key: str) -> str:
    """Return the type of a key's value in words."""
    return type_in_words(*OWNERS[key])


def holds_text(key: str) -> bool:
    """Check whether a key's value is text, or perhaps null."""
    # Annotations are texts, as their evaluation is postponed.
    return key in FIELDS and str(FIELDS[key].type).partition(" | ")[0] == "str"


ARGUMENTS = {
    key: "external_mode" if key == "external.mode" else name
    for key, (_, name) in OWNERS.items()
    if key.startswith(("env.", "external.")) and key not in ("env.id", "env.options")
}
"""Keys that are arguments of the environment, and the arguments."""
