"""Suites, which are YAML files of arms for `llm-decpomdp bench`; docs/experiments.md.

```yaml
# Two small models, trained and not.
config: demo
seeds: [0, 1, 2]
samples: 4
arms:
  - {method: [untrained, train]}
  - {name: wide, method: train, override: [algorithm.group_size=16]}
  - {method: gold, seeds: [0]}
```

Keys above `arms` are the defaults of all arms; overrides add up. An entry with several configurations or methods
makes an arm for each combination.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import product
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from llm_decpomdp.algorithms import NAMES
from llm_decpomdp.benchmarks.config.errors import ConfigError
from llm_decpomdp.benchmarks.config.inputs import load_yaml
from llm_decpomdp.benchmarks.config.load import description, shipped
from llm_decpomdp.benchmarks.evaluation.baselines import BASELINES, OTHER_METHODS, is_baseline
from llm_decpomdp.plugins import entry_point_plugins, is_entry_point
from llm_decpomdp.validation import unknown

FOLDER = Path(__file__).parent

UNTRAINED, TRAIN, *_ = OTHER_METHODS
METHODS = (*OTHER_METHODS, *BASELINES)
"""Methods of an arm: the configuration's team untrained, or trained by its algorithm or a named one, or a
baseline. Installed packages may add algorithms and baselines."""

ARM_NAME = re.compile(r"[A-Za-z0-9_.+-]+")
"""Names of arms, which are also names of folders."""

LISTS = ("config", "method", "override", "seeds")


@dataclass(frozen=True, kw_only=True)
class EvalSize:
    """Training environment, evaluation and resources of each seed of an arm."""

    split: str | None = None
    """Split of the problems; null takes `dataset.eval_split`."""
    tasks: int | None = None
    """Number of the first problems; null takes all."""
    samples: int = 1
    """Episodes per problem and seed."""
    greedy: bool = False
    """Take the likeliest token in the evaluation."""
    at_a_time: int = 64
    """Episodes of the evaluation that are played together; fewer need less memory."""
    cores: int | None = 1
    """Processor cores of each job; null takes all cores of `bench`, so that the job runs alone."""
    gpus: float = 0
    """GPUs of each job, for `bench --engine ray`."""
    train_env: str | None = None
    """Environment of the training, such as one with another reward; null takes `env.id`."""
    initial_team: str | None = None
    """Earlier arm whose final team of the same seed is trained further, named as in `against`; null takes the
    configuration's team."""
    against: str | None = None
    """Name of the arm to compare with, or of its entry or method within the same configuration; null takes the
    untrained team."""


@dataclass(frozen=True, kw_only=True)
class ArmOptions(EvalSize):
    """The keys of arms in a suite's file: common to all, or of one entry."""

    config: list[str] = field(default_factory=list)
    """Names or paths of configurations; a path may be relative to the suite's file."""
    method: list[str] = field(default_factory=lambda: [UNTRAINED])
    """One or several of `METHODS`, or names from installed packages."""
    override: list[str] = field(default_factory=list)
    """Items such as `model.name=gpt2`; the items of the suite come first."""
    seeds: list[int] = field(default_factory=lambda: [0])
    """Seeds, each with a separate training and evaluation."""


@dataclass(frozen=True, kw_only=True)
class Arm(EvalSize):
    """A method with a configuration, measured with several seeds; one line of the leaderboard."""

    name: str
    config: str
    method: str
    override: tuple[str, ...]
    seeds: tuple[int, ...]

    @property
    def trains(self) -> bool:
        """True if a team is trained before the evaluation."""
        return self.method == TRAIN or is_algorithm(self.method)


@dataclass(frozen=True)
class Suite:
    """A list of arms."""

    name: str
    description: str
    path: Path
    arms: tuple[Arm, ...]


def is_algorithm(method: str) -> bool:
    """Check whether a method is an algorithm, here or in an installed package."""
    return method in NAMES or (method not in METHODS and is_entry_point("algorithm", method))


def shipped_suites() -> dict[str, Path]:
    """Return the suites that come with the package, by name."""
    return shipped(FOLDER)


def find_suite(name: str) -> Path:
    """Return the file of a name or a path; raise a `ConfigError` if there is none."""
    path = Path(name)
    if path.is_file():
        return path
    if name.removesuffix(".yaml") in shipped_suites():
        return shipped_suites()[name.removesuffix(".yaml")]
    if path.is_dir():
        raise ConfigError(f"{path} is a folder: name a suite, or a YAML file")
    raise ConfigError(f"{unknown('suite', name, [*shipped_suites()])}, or the path of a YAML file")


def load_suite(path: Path) -> Suite:
    """Load the suite of a file, without a check of its configurations.

    Raises:
        ConfigError: If a key or a value is wrong.
    """
    tree = load_yaml(path)
    if not isinstance(tree, dict):
        raise ConfigError(f"{path} must hold a mapping with `arms`, got a {type(tree).__name__}")
    common = {str(key): value for key, value in tree.items()}
    # Files of earlier versions have `cells`.
    entries = common.pop("arms", common.pop("cells", None))
    if not isinstance(entries, list) or not entries:
        raise ConfigError(f"{path}: `arms` must be a list of at least one arm, got {entries!r}")
    _check_keys(common, f"{path}", ("arms",))
    arms = [
        arm for i, entry in enumerate(entries) for arm in _arms(common, entry, f"{path}: arm {i}")
    ]
    names = [arm.name for arm in arms]
    for name, count in Counter(names).items():
        if count > 1:
            raise ConfigError(
                f"{path}: two arms are called {name!r}; give one of them another `name`"
            )
    named = [
        replace(
            arm,
            initial_team=_initial_team(arm, arms[:i], arms[i + 1 :], f"{path}: {arm.name}"),
            against=_against(arm, arms, f"{path}: {arm.name}"),
        )
        for i, arm in enumerate(arms)
    ]
    return Suite(path.stem, description(path), path, tuple(named))


def _initial_team(arm: Arm, above: Sequence[Arm], below: Sequence[Arm], where: str) -> str | None:
    """Return the full name of the arm whose team is trained further, which must train the same seeds before."""
    if arm.initial_team is None:
        return None
    if not arm.trains:
        raise ConfigError(f"{where}: {arm.method} does not train: drop `initial_team`")
    sources = {peer.name: peer for peer in above if peer.trains}
    fitting = _fitting_arms(arm.initial_team, arm, [*sources.values()])
    if not fitting and (later := _fitting_arms(arm.initial_team, arm, below)):
        raise ConfigError(
            f"{where}: initial_team: {later[0]!r} must stand above {arm.name!r}: move it there"
        )
    if not fitting and (other := _fitting_arms(arm.initial_team, arm, above)):
        raise ConfigError(
            f"{where}: initial_team: {other[0]!r} does not train: name an arm that does"
        )
    name = _find_arm("initial_team", arm.initial_team, arm, [*sources.values()], where)
    missing = [seed for seed in arm.seeds if seed not in sources[name].seeds]
    if missing:
        raise ConfigError(
            f"{where}: initial_team: {name} has no seed {missing[0]}: add it there, or drop it here"
        )
    return name


def _against(arm: Arm, arms: Sequence[Arm], where: str) -> str | None:
    """Return the full name of the arm to compare with."""
    rest = [peer for peer in arms if peer is not arm]
    return None if arm.against is None else _find_arm("against", arm.against, arm, rest, where)


def _find_arm(key: str, name: str, arm: Arm, peers: Sequence[Arm], where: str) -> str:
    """Return the full name of a peer, given by its name, by a part of it, or by its method."""
    fitting = _fitting_arms(name, arm, peers)
    if len(fitting) != 1:
        names = fitting or [peer.name for peer in peers]
        raise ConfigError(f"{where}: {key}: {unknown('arm', name, names)}")
    return fitting[0]


def _fitting_arms(name: str, arm: Arm, peers: Sequence[Arm]) -> list[str]:
    """Return the full names of the peers that a name, a part of it or a method may mean."""
    if name in [peer.name for peer in peers]:
        return [name]
    alike = [peer for peer in peers if peer.config == arm.config]
    fitting = [peer.name for peer in alike if f"-{name}-" in f"-{peer.name}-"]
    return fitting or [peer.name for peer in alike if peer.method == name]


def _arms(common: Mapping[str, Any], entry: Any, where: str) -> Iterator[Arm]:
    if not isinstance(entry, dict):
        raise ConfigError(f"{where} must be a mapping such as {{method: train}}, got {entry!r}")
    keys = dict(entry)
    name = keys.pop("name", None)
    _check_keys(keys, where, ("name",))
    settings = _settings(common, keys, where)
    _check_values(settings, where)
    for config, method in product(settings.config, settings.method):
        # The name of the entry, with the differences between the arms of the entry.
        parts = [] if name is None else [str(name)]
        if len(settings.config) > 1:
            parts.append(Path(config).stem.removesuffix("_config"))
        if len(settings.method) > 1 or not parts:
            parts.append(method)
        arm = "-".join(parts)
        if not ARM_NAME.fullmatch(arm):
            raise ConfigError(
                f"{where}: a name must be made of letters, digits, '_', '.', '+' and '-', got {arm!r}"
            )
        spec = Arm(
            name=arm,
            config=config,
            method=method,
            override=tuple(settings.override),
            seeds=tuple(settings.seeds),
            **{key.name: getattr(settings, key.name) for key in fields(EvalSize)},
        )
        if spec.trains or spec.train_env is None:
            yield spec
        elif "train_env" in keys:
            raise ConfigError(f"{where}: {method} does not train: drop `train_env`")
        else:  # the key stands above `arms`
            yield replace(spec, train_env=None)


def _check_keys(entry: Mapping[str, Any], where: str, others: Sequence[str]) -> None:
    valid = [*others, *(field.name for field in fields(ArmOptions))]
    for key in entry:
        if key not in valid:
            raise ConfigError(f"{where}: {unknown('key', key, valid)}")


def _settings(common: Mapping[str, Any], entry: Mapping[str, Any], where: str) -> ArmOptions:
    """Merge the settings of an entry with those of the suite and the defaults."""
    config = OmegaConf.structured(ArmOptions)
    # Structured configurations of frozen dataclasses are read-only.
    OmegaConf.set_readonly(config, False)
    layers: list[dict[str, Any]] = [
        {k: [v] if k in LISTS and not isinstance(v, list) else v for k, v in layer.items()}
        for layer in (common, entry)
    ]
    # Overrides of the suite come first, so that those of an arm win.
    override = [item for layer in layers for item in layer.get("override", [])]
    for key, value in {**layers[0], **layers[1], "override": override}.items():
        try:
            OmegaConf.update(config, key, value)
        except OmegaConfBaseException as error:
            raise ConfigError(f"{where}: {key}: {str(error).splitlines()[0]}") from None
    settings: ArmOptions = OmegaConf.to_object(config)  # type: ignore[assignment]
    return settings


def _check_values(settings: ArmOptions, where: str) -> None:
    if not settings.config:
        raise ConfigError(
            f"{where}: `config` is missing: name a configuration, here or above `arms`"
        )
    for method in settings.method:
        if not (method in METHODS or is_algorithm(method) or is_baseline(method)):
            plugins = (*entry_point_plugins("algorithm"), *entry_point_plugins("baseline"))
            names = [*METHODS, *(plugin.name for plugin in plugins)]
            raise ConfigError(f"{where}: {unknown('method', method, names)}")
        if is_algorithm(method) and is_baseline(method):
            raise ConfigError(
                f"{where}: installed packages have both an algorithm and a baseline named {method!r}: give the "
                "path of the algorithm, with `method: train` and `override: algorithm.name=module:NAME`"
            )
    if not settings.method or not settings.seeds or len(set(settings.seeds)) < len(settings.seeds):
        raise ConfigError(
            f"{where}: `method` and `seeds` need at least one value, and different ones, got "
            f"{settings.method} and {settings.seeds}"
        )
    if settings.greedy and settings.samples > 1:
        raise ConfigError(f"{where}: greedy samples are all equal: leave out `samples` or `greedy`")
    if settings.greedy and "random" in settings.method:
        raise ConfigError(
            f"{where}: random text has no likeliest token: leave out `greedy` or the method random"
        )
    for key, least in (("samples", 1), ("tasks", 1), ("at_a_time", 1), ("cores", 1), ("gpus", 0)):
        value = vars(settings)[key]
        if value is not None and value < least:
            raise ConfigError(f"{where}: {key} must be at least {least}, got {value}")
    if min(settings.seeds) < 0:
        raise ConfigError(f"{where}: seeds must be at least 0, got {settings.seeds}")
