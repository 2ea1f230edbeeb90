"""Loading and checks of the configuration of a run.

Later layers win: the defaults of `schema`, those of the environment, the YAML file, `--override k=v`, the flags of
the training scripts. `legacy` translates older spellings before layers are merged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from llm_decpomdp.agents.loading import PolicySpec
from llm_decpomdp.algorithms import ALGORITHMS
from llm_decpomdp.algorithms.learning.learner_options import LearnerOptions
from llm_decpomdp.algorithms.rollouts.cost import Cost, cost
from llm_decpomdp.algorithms.training.trainer_options import check_credit
from llm_decpomdp.benchmarks.config.errors import ConfigError, RunError, raise_config_errors
from llm_decpomdp.benchmarks.config.inputs import (
    load_yaml,
    make_paths_absolute,
    merged,
    parse_overrides,
    resolve_references,
)
from llm_decpomdp.benchmarks.config.legacy import (
    ALGORITHM_SECTIONS,
    OLDER_DEFAULTS,
    VALUES,
    canonical,
    renamed,
)
from llm_decpomdp.benchmarks.config.placement import check_placement, check_shards
from llm_decpomdp.benchmarks.config.plugins import require_origins
from llm_decpomdp.benchmarks.config.schema import (
    KEYS,
    OPTIONAL,
    OWNERS,
    SECTIONS,
    SIZES,
    Config,
    EnvConfig,
    ScheduleConfig,
    by_key,
    flatten,
    holds_text,
    type_of,
)
from llm_decpomdp.benchmarks.config.teams import TeamSpec, samples_elsewhere, team_spec
from llm_decpomdp.benchmarks.config.trackers import check_trackers
from llm_decpomdp.env import DecPOMDPEnv
from llm_decpomdp.options import from_text, pick
from llm_decpomdp.registry import accepts_argument, make
from llm_decpomdp.registry import defaults as arguments_of

ASKS_OUTSIDE = "expert_edits"
"""Mode whose prompts another model writes."""

# Looking at a stored run must not need the key of the expert's server.
NOBODY_ASKED = {
    "external.mode": "plain",
    "external.expert_model": None,
    "external.expert_base_url": None,
}


def load_config(
    path: Path | None = None,
    overrides: Sequence[str] = (),
    flags: Mapping[str, Any] | None = None,
    defaults: Mapping[str, Any] | None = None,
    folder: Path | None = None,
) -> Config:
    """Read a configuration and check it, without loading data or models; as `read_config` and `validate`."""
    return validate(read_config(path, overrides, flags, defaults, folder))


def read_config(
    path: Path | None = None,
    overrides: Sequence[str] = (),
    flags: Mapping[str, Any] | None = None,
    defaults: Mapping[str, Any] | None = None,
    folder: Path | None = None,
) -> Config:
    """Merge the layers of a configuration, and check each value; `validate` checks how they fit together.

    Args:
        path: A YAML file, in the schema or in an older spelling.
        overrides: Items such as `model.name=gpt2`.
        flags: Dotted keys and values that win over the overrides.
        defaults: Dotted keys and values that replace the schema's defaults.
        folder: Where relative paths in overrides and flags start; the current folder if none is given. Those of
            the file start at its folder.

    Raises:
        ConfigError: If a key is unknown, a value has the wrong type or range, or the configuration is of a run
            with names of a package that is missing.
    """
    if path and (manifest := path.with_name("manifest.json")).is_file():  # the file is of a run
        require_origins(manifest)
    base = {"algorithm.name": ScheduleConfig.name, **_rename_keys(defaults or {})}
    folder = folder or Path.cwd()
    tree = _read_tree(path) if path else {}
    older = OLDER_DEFAULTS if ALGORITHM_SECTIONS.keys() & tree.keys() else {}
    file = make_paths_absolute(_translate(tree), _start_of_paths(path) if path else folder)
    items = parse_overrides(overrides, lambda key: holds_text(_rename_key(key)))
    items = _translate(items, {**base, **file}["algorithm.name"])
    layers = [make_paths_absolute(layer, folder) for layer in (items, _rename_keys(flags or {}))]
    merged_layers = _merge(_add_env_defaults([base, older, file, *layers]))
    try:
        return from_text(Config, resolve_references(merged_layers, by_key(Config())))
    except ValueError as error:
        raise ConfigError(str(error).splitlines()[0]) from None


def _translate(tree: Mapping[str, Any], algorithm: str | None = None) -> dict[str, Any]:
    """Return the values of a tree by dotted keys, from the spellings of earlier versions where it has some."""
    values = dict(flatten(tree))
    has_old_value = any(values.get(key) == old for key, old in VALUES)
    if has_old_value or not values.keys() <= {*KEYS, *OPTIONAL}:
        return canonical(tree, algorithm)  # which also names unknown keys
    return values


def _rename_key(key: str, value: Any = "") -> str:
    return key if key in KEYS else renamed(key, value)


def _rename_keys(values: Mapping[str, Any]) -> dict[str, Any]:
    return {_rename_key(key, value): value for key, value in values.items()}


def _start_of_paths(path: Path) -> Path:
    """Return the start of relative paths: the folder of a file. Older versions stored those of a run as typed."""
    of_run = path.with_name("manifest.json").is_file()
    return Path.cwd() if of_run else path.absolute().parent


def load_stored_config(path: Path) -> Config:
    """Load the configuration of a run to look at its episodes: no expert is asked, and no key needed for one."""
    return load_config(path, flags=NOBODY_ASKED if asks_outside(path) else None)


def asks_outside(path: Path) -> bool:
    """Check whether another model wrote prompts of a run: those cannot be written again."""
    external = _read_tree(path).get("external")
    return isinstance(external, Mapping) and external.get("mode") == ASKS_OUTSIDE


def _read_tree(path: Path) -> dict[str, Any]:
    tree = load_yaml(path)
    if not isinstance(tree, dict):
        raise ConfigError(f"{path} must hold a mapping of sections, got a {type(tree).__name__}")
    if not tree:
        raise ConfigError(
            f"{path} is empty: name at least the environment in it, as in env: {{id: coophumaneval-v0}}"
        )
    return tree


def _merge(layers: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Merge dotted keys to a tree; mappings are merged with those of the layers below."""
    tree: dict[str, Any] = {}
    for layer in layers:
        for key, value in layer.items():
            *sections, last = key.split(".")
            node = tree
            for section in sections:
                node = node.setdefault(section, {})
            # A section of null is off: it holds no keys, unless a later layer sets some.
            node[last] = {} if value is None and key in SECTIONS else merged(node.get(last), value)
    return tree


def validate(config: Config) -> Config:
    """Check how sections fit together, loading nothing; return the configuration with its environment's sizes."""
    # Only the environment of training sees `train_split`, which it may refuse.
    build_env(config.make_train_env)
    return fit(config, build_env(config.make_eval_env)).config


def build_env(build: Callable[[], DecPOMDPEnv]) -> DecPOMDPEnv:
    """Build an environment of a configuration; raise a `ConfigError` where it refuses its arguments."""
    with raise_config_errors():
        return build()


def load_env(
    env_id: str, source: str = "auto", split: str | None = None, **arguments: Any
) -> DecPOMDPEnv:
    """Build an environment with the problems of a source and a split, and other arguments, and load the problems.

    Raises:
        ConfigError: If an argument is not valid.
        RunError: If the data cannot be loaded.
    """
    arguments |= {} if source == "auto" else {"source": source}
    arguments |= {"split": split} if split else {}
    try:
        with raise_config_errors():
            env = make(env_id, **arguments)
            len(env.tasks)
    except OSError as error:
        raise RunError(f"cannot load the data of {env_id}: {error}") from error
    return env


class Fitted(NamedTuple):
    """A configuration that fits its environment, with its team and learner as declared."""

    config: Config
    team: TeamSpec
    learner: LearnerOptions
    """For a single update, before the schedule is known."""


def fit(config: Config, env: DecPOMDPEnv) -> Fitted:
    """Check a configuration against its environment, and set the sizes that only the environment knows."""
    sizes: dict[str, Any] = {
        key: of(env) for key, of in SIZES.items() if not accepts_argument(config.env.id, key)
    }
    config = replace(config, env=replace(config.env, **sizes))
    if config.output.trackers:
        check_trackers(config.output.trackers)
    if config.output.keep_best and config.evaluation.num_tasks == 0:
        raise ConfigError("output.keep_best needs evaluations: set evaluation.num_tasks")
    # Bundles are the unit that workers share; one bundle would keep all but one waiting.
    workers = config.cluster.rollout_workers
    if workers and config.algorithm.rollout.starts_per_bundle is None:
        raise ConfigError(
            f"cluster.rollout_workers={workers}: workers share the rollout batches of an update, and without "
            "algorithm.rollout.rollout_batch_size there is one: set it, or drop cluster.rollout_workers"
        )
    team = team_spec(config, env.possible_agents)
    if samples_elsewhere(config, team.policies):
        check_placement(config, team.policies)
    try:
        algorithm = ALGORITHMS[config.algorithm.name]
        if config.algorithm.preferences is not None and not algorithm.supports_stored_pairs:
            raise ConfigError(
                f"section algorithm.preferences means nothing with {algorithm.name}, which makes no pairs: set "
                "name=madpo, or drop it"
            )
        algorithm = algorithm.configure(**config.algorithm.own_options)
    except (KeyError, ImportError) as error:
        raise ConfigError(f"algorithm.name: {error.args[0]}") from None
    except (ValueError, TypeError) as error:
        raise ConfigError(f"algorithm.options: {error}") from None
    try:
        updates, rollouts = config.algorithm.update_options, config.algorithm.rollout
        algorithm.check(env.possible_agents, updates)
        agents, size = env.possible_agents, config.algorithm.num_generations
        pairs = config.algorithm.preferences
        plays = pairs is None or pairs.pairs_source is None
        if plays:
            algorithm.check_rollouts(agents, updates, rollouts, size)
        elif config.warm_start.disjoint:
            raise ValueError(
                "pairs_source learns from stored pairs, of whatever problems: drop warm_start.disjoint"
            )
        complete = algorithm.complete_options(updates)
        check_credit(rollouts, complete)
        if plays:
            rollouts.check_turn_order(env, size, has_critic=complete.has_critic)
        # Its error names trees that are too large to grow.
        start_cost(config)
        # Schedules need a number of updates, which is known once the data is read.
        learner = learner_options(config, 1, team.policies.values())
        learner.check_horizon(config.horizon)
    except ValueError as error:
        raise ConfigError(f"section algorithm: {error}") from None
    if config.learner.shards > 1:
        check_shards(config, team.policies, algorithm, learner)
    return Fitted(config, team, learner)


def learner_options(
    config: Config, total_updates: int, policies: Iterable[PolicySpec]
) -> LearnerOptions:
    """Build the options of the learner."""
    # Frozen policies have no loss that could be divided by a length.
    lengths = [spec.max_new_tokens for spec in policies if spec.can_be_trained]
    weights = config.algorithm.turn_gradient_weights
    return pick(
        LearnerOptions,
        config.algorithm.update_options,
        discount=config.env.discount,
        total_updates=total_updates,
        fixed_length=max(lengths, default=1),
        # Configurations for several turns are also run with one, where nothing is weighed.
        turn_gradient_weights=weights if weights and config.horizon > 1 else None,
    )


def start_cost(config: Config) -> Cost:
    """Return the largest cost of the rollout from one start."""
    algorithm, env = config.algorithm, config.env
    agents = 1 if env.centralised else env.num_agents
    comparator = algorithm.named_comparator is not None
    return cost(
        algorithm.rollout, algorithm.num_generations, agents, config.horizon, comparator=comparator
    )


ARGUMENTS = {
    key: "external_mode" if key == "external.mode" else name
    for key, (_, name) in OWNERS.items()
    if key.startswith(("env.", "external.")) and key not in ("env.id", "env.options")
}
"""Keys that are arguments of the environment, and the arguments."""


def _add_env_defaults(layers: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Put layers above the defaults of their environment, which the last layer with an `env.id` names.

    Values for another environment or another source are dropped: sizes below that layer, where the environment
    lacks these arguments; and a split below the layer that gives it a source of its own, of which it then is the
    whole.
    """
    env_id = next((x["env.id"] for x in reversed(layers) if "env.id" in x), EnvConfig.id)
    if not isinstance(env_id, str):
        return [*layers]  # the check of values refuses it
    try:
        arguments = arguments_of(env_id)
    except (KeyError, ImportError) as error:  # other errors of a user's module keep their traceback
        raise ConfigError(str(error.args[0])) from None
    values = {
        key: arguments[name]
        for key, name in ARGUMENTS.items()
        # Keys that cannot be null keep their own default where the environment's is None.
        if name in arguments and (arguments[name] is not None or type_of(key).endswith("or null"))
    }
    sizes = [key for key in map("env.{}".format, SIZES) if key not in values]
    layers = _without_below("env.id", layers, sizes)
    for part in ("train", "eval"):
        source, split = f"dataset.{part}_source", f"dataset.{part}_split"
        if any(layer.get(source) for layer in layers):
            layers = _without_below(source, layers, [split])
            values[split] = "all"
    return [values, *layers]


def _without_below(
    key: str, layers: Sequence[Mapping[str, Any]], dropped: Sequence[str]
) -> list[Mapping[str, Any]]:
    """Remove the keys `dropped` from the layers below the last one that gives `key` a value."""
    last = max((number for number, layer in enumerate(layers) if layer.get(key)), default=0)
    below = [{k: v for k, v in layer.items() if k not in dropped} for layer in layers[:last]]
    return [*below, *layers[last:]]
