"""Suites: experiments as data. A suite is a YAML file of arms, run by `llm-decpomdp bench`; docs/evaluation.md.

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

What stands above `arms` holds for all of them unless an arm says otherwise; overrides add up. An arm with several
configurations or methods stands for one arm of each combination.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import product
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from llm_decpomdp.algorithms import NAMES
from llm_decpomdp.benchmarks.config.errors import ConfigError
from llm_decpomdp.benchmarks.config.inputs import description, load_yaml, shipped
from llm_decpomdp.benchmarks.evaluation.baselines import BASELINES, OTHER_METHODS, is_baseline
from llm_decpomdp.plugins import entry_point_plugins, is_entry_point
from llm_decpomdp.validation import unknown

FOLDER = Path(__file__).parent

UNTRAINED, TRAIN, *_ = OTHER_METHODS
METHODS = (*OTHER_METHODS, *BASELINES)
"""Methods of an arm: the configuration's team untrained, the same trained by the configuration's algorithm
or by a named one, or a baseline; installed packages announce more algorithms and baselines."""

ARM_NAME = re.compile(r"[A-Za-z0-9_.+-]+")
"""Names of arms are those of folders too."""

LISTS = ("config", "method", "override", "seeds")
"""Keys that take a list, or a single value of it."""


@dataclass(frozen=True, kw_only=True)
class EvalSize:
    """What is measured of each seed of an arm, and with how many cores."""

    split: str | None = None
    """The problems that are played; null takes `dataset.eval_split`."""
    tasks: int | None = None
    """Number of problems, from the first on; null takes all."""
    samples: int = 1
    """Episodes of each problem and seed."""
    greedy: bool = False
    """Take the likeliest token, when it is measured."""
    cores: int | None = 1
    """Processor cores of each training or evaluation; null takes all that `bench` may use: it runs alone."""
    gpus: float = 0
    """GPUs that `bench --engine ray` keeps for each."""
    against: str | None = None
    """Name of the arm that it is compared with, or of its entry or method where the configuration is the same;
    null takes the untrained one."""


@dataclass(frozen=True, kw_only=True)
class ArmOptions(EvalSize):
    """The keys of arms in a suite's file: common to all, or of one entry."""

    config: list[str] = field(default_factory=list)
    """Names or paths of configurations; a path may be relative to the suite's file."""
    method: list[str] = field(default_factory=lambda: [UNTRAINED])
    """One or several of `METHODS`, or of the names that installed packages announce."""
    override: list[str] = field(default_factory=list)
    """Items such as `model.name=gpt2`; those of the suite come first."""
    seeds: list[int] = field(default_factory=lambda: [0])
    """One training and evaluation, or only evaluation, for each."""


@dataclass(frozen=True, kw_only=True)
class Arm(EvalSize):
    """One line of the result: a method with a configuration, measured with several seeds."""

    name: str
    config: str
    method: str
    override: tuple[str, ...]
    seeds: tuple[int, ...]

    @property
    def trains(self) -> bool:
        """True if a team is trained before it is measured."""
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
    """Return the file that a name or a path means.

    Raises:
        ConfigError: If there is none; the text names the nearest one.
    """
    path = Path(name)
    if path.is_file():
        return path
    if name.removesuffix(".yaml") in shipped_suites():
        return shipped_suites()[name.removesuffix(".yaml")]
    if path.is_dir():
        raise ConfigError(f"{path} is a folder: name a suite, or a YAML file")
    raise ConfigError(f"{unknown('suite', name, [*shipped_suites()])}, or the path of a YAML file")


def load_suite(path: Path) -> Suite:
    """Load the suite of a file; its configurations are not checked yet.

    Raises:
        ConfigError: If a key or a value is wrong; names the arm.
    """
    tree = load_yaml(path)
    if not isinstance(tree, dict):
        raise ConfigError(f"{path} must hold a mapping with `arms`, got a {type(tree).__name__}")
    common = {str(key): value for key, value in tree.items()}
    # Files of earlier versions say `cells`.
    entries = common.pop("arms", common.pop("cells", None))
    if not isinstance(entries, list) or not entries:
        raise ConfigError(f"{path}: `arms` must be a list of at least one arm, got {entries!r}")
    _check_keys(common, f"{path}", ("arms",))
    arms = [
        arm for i, entry in enumerate(entries) for arm in _arms(common, entry, f"{path}: arm {i}")
    ]
    names = [arm.name for arm in arms]
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(
                f"{path}: two arms are called {name!r}; give one of them another `name`"
            )
    compared = [replace(arm, against=_against(arm, arms, f"{path}: {arm.name}")) for arm in arms]
    return Suite(path.stem, description(path), path, tuple(compared))


def _against(arm: Arm, arms: Sequence[Arm], where: str) -> str | None:
    """Return the name of the arm that another one means by a full name, or by a part in its own configuration.

    Raises:
        ConfigError: If it means none, several, or itself.
    """
    name = arm.against
    rest = [peer for peer in arms if peer is not arm]
    names = [peer.name for peer in rest]
    if name is None or name in names:
        return name
    alike = [peer for peer in rest if peer.config == arm.config]
    fitting = [peer.name for peer in alike if f"-{name}-" in f"-{peer.name}-"]
    fitting = fitting or [peer.name for peer in alike if peer.method == name]
    if len(fitting) != 1:
        raise ConfigError(f"{where}: against: {unknown('arm', name, fitting or names)}")
    return fitting[0]


def _arms(common: Mapping[str, Any], entry: Any, where: str) -> Iterator[Arm]:
    """Yield the arms of one entry of the list."""
    if not isinstance(entry, dict):
        raise ConfigError(f"{where} must be a mapping such as {{method: train}}, got {entry!r}")
    keys = dict(entry)
    name = keys.pop("name", None)
    _check_keys(keys, where, ("name",))
    settings = _settings(common, keys, where)
    _check_values(settings, where)
    for config, method in product(settings.config, settings.method):
        arm = _name(name, config, method, settings)
        if not ARM_NAME.fullmatch(arm):
            raise ConfigError(
                f"{where}: a name must be made of letters, digits, '_', '.', '+' and '-', got {arm!r}"
            )
        yield Arm(
            name=arm,
            config=config,
            method=method,
            override=tuple(settings.override),
            seeds=tuple(settings.seeds),
            **{key.name: getattr(settings, key.name) for key in fields(EvalSize)},
        )


def _name(name: object, config: str, method: str, settings: ArmOptions) -> str:
    """Return the name of an arm: that of its entry, and all in which the arms of the entry differ."""
    parts = [] if name is None else [str(name)]
    if len(settings.config) > 1:
        parts.append(Path(config).stem.removesuffix("_config"))
    if len(settings.method) > 1 or not parts:
        parts.append(method)
    return "-".join(parts)


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
    layers = [_to_lists(common), _to_lists(entry)]
    # Overrides of the suite come first, so that those of an arm win.
    override = [item for layer in layers for item in layer.get("override", [])]
    for key, value in {**layers[0], **layers[1], "override": override}.items():
        try:
            OmegaConf.update(config, key, value)
        except OmegaConfBaseException as error:
            raise ConfigError(f"{where}: {key}: {str(error).splitlines()[0]}") from None
    settings: ArmOptions = OmegaConf.to_object(config)  # type: ignore[assignment]
    return settings


def _to_lists(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Replace single values by lists of one, where a key takes a list."""
    return {
        key: [value] if key in LISTS and not isinstance(value, list) else value
        for key, value in entry.items()
    }


def _check_values(settings: ArmOptions, where: str) -> None:
    if not settings.config:
        raise ConfigError(
            f"{where}: `config` is missing: name a configuration, here or above `arms`"
        )
    for method in settings.method:
        if not (method in METHODS or is_algorithm(method) or is_baseline(method)):
            names = [
                *METHODS,
                *(
                    p.name
                    for p in (*entry_point_plugins("algorithm"), *entry_point_plugins("baseline"))
                ),
            ]
            raise ConfigError(f"{where}: {unknown('method', method, names)}")
        if is_algorithm(method) and is_baseline(method):
            raise ConfigError(
                f"{where}: installed packages announce {method!r} as an algorithm and as a baseline: name an "
                "algorithm by its path, with `method: train` and `override: algorithm.name=module:NAME`"
            )
    if not settings.method or not settings.seeds or len(set(settings.seeds)) < len(settings.seeds):
        raise ConfigError(
            f"{where}: `method` and `seeds` need at least one value, and different ones, got "
            f"{settings.method} and {settings.seeds}"
        )
    if settings.greedy and settings.samples > 1:
        raise ConfigError(
            f"{where}: greedy answers are all the same: leave out `samples` or `greedy`"
        )
    if settings.greedy and "random" in settings.method:
        raise ConfigError(
            f"{where}: of random text none is the likeliest: leave out `greedy` or the method random"
        )
    for key, least in (("samples", 1), ("tasks", 1), ("cores", 1), ("gpus", 0)):
        value = vars(settings)[key]
        if value is not None and value < least:
            raise ConfigError(f"{where}: {key} must be at least {least}, got {value}")
    if min(settings.seeds) < 0:
        raise ConfigError(f"{where}: seeds must be at least 0, got {settings.seeds}")
