"""Files of configurations by name or path, and the layers of a configuration, merged to one: `read_config`.

Later layers win: the defaults of `schema`, those of the environment, the YAML file, `--override k=v`, the flags of
the training scripts. `legacy` translates older spellings before layers are merged.

Names that installed packages announce are stored with a run, and looked for when it is read.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from llm_decpomdp import registry
from llm_decpomdp.agents.policy_kinds import KINDS
from llm_decpomdp.algorithms import ALGORITHMS
from llm_decpomdp.benchmarks.config.errors import ConfigError
from llm_decpomdp.benchmarks.config.inputs import (
    Whole,
    load_yaml,
    make_paths_absolute,
    parse_overrides,
    resolve_references,
)
from llm_decpomdp.benchmarks.config.legacy import (
    ALGORITHM_SECTIONS,
    ERAS,
    OLDER_DEFAULTS,
    OTHER_NAMES,
    VALUES,
    canonical,
    renamed,
)
from llm_decpomdp.benchmarks.config.schema import (
    ARGUMENTS,
    KEYS,
    OPTIONAL,
    SECTIONS,
    SIZES,
    Config,
    EnvConfig,
    ScheduleConfig,
    flatten,
    holds_text,
    type_of,
)
from llm_decpomdp.benchmarks.config.trackers import TRACKERS
from llm_decpomdp.interfaces import MODES
from llm_decpomdp.options import from_text
from llm_decpomdp.plugins import plugin_origin
from llm_decpomdp.registry import defaults as arguments_of
from llm_decpomdp.utils.storage import DamagedFile, RunFolder
from llm_decpomdp.validation import unknown

FOLDER = Path(__file__).parents[1] / "configs"

logger = logging.getLogger(__name__)


def read_config(
    path: Path | str | None = None,
    overrides: Sequence[str] = (),
    flags: Mapping[str, Any] | None = None,
    defaults: Mapping[str, Any] | None = None,
    folder: Path | None = None,
) -> Config:
    """Merge the layers of a configuration, and check each value; `validate` checks how they fit.

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
    path = Path(path) if path else None
    if path and (manifest := path.with_name("manifest.json")).is_file():  # the file is of a run
        require_origins(manifest)
    base = {"algorithm.name": ScheduleConfig.name, **_rename_keys(defaults or {})}
    folder = folder or Path.cwd()
    tree = read_tree(path) if path else {}
    older = OLDER_DEFAULTS if ALGORITHM_SECTIONS.keys() & tree.keys() else {}
    file = make_paths_absolute(_translate(tree), _start_of_paths(path) if path else folder)
    items = parse_overrides(overrides, lambda key: holds_text(_rename_key(key)))
    items = _translate(items, {**base, **file}["algorithm.name"])
    layers = [make_paths_absolute(layer, folder) for layer in (items, _rename_keys(flags or {}))]
    merged_layers = _merge(_add_env_defaults([base, older, file, *layers]))
    try:
        return from_text(Config, resolve_references(merged_layers, asdict(Config())))
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


def read_tree(path: Path) -> dict[str, Any]:
    """Read a YAML file of sections."""
    tree = load_yaml(path)
    if not isinstance(tree, dict):
        raise ConfigError(f"{path} must hold a mapping of sections, got a {type(tree).__name__}")
    if all(section is None for section in tree.values()):
        raise ConfigError(
            f"{path} is empty: name at least the environment in it, as in env: {{id: coophumaneval-v0}}"
        )
    return tree


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
    # Without such a layer all stay as they are.
    last = max((number for number, layer in enumerate(layers) if layer.get(key)), default=0)
    below = [{k: v for k, v in layer.items() if k not in dropped} for layer in layers[:last]]
    return [*below, *layers[last:]]


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


def merged(below: Any, value: Any) -> Any:
    """Return a value on top of the one below it: mappings are merged, but for those that replace the one below."""
    if not isinstance(value, dict):
        return value
    kept = below if isinstance(below, dict) and not isinstance(value, Whole) else {}
    return {**kept, **{key: merged(kept.get(key), part) for key, part in value.items()}}


# Files


def shipped(folder: Path = FOLDER) -> dict[str, Path]:
    """Return the files of a folder by name."""
    return {path.stem: path for path in sorted(folder.glob("*.yaml"))}


def description(path: Path) -> str:
    """Return the first line of a configuration, a comment that describes it."""
    return path.read_text(encoding="utf-8").partition("\n")[0].lstrip("# ")


def find_config(name: str) -> Path:
    """Find the file of a name (with or without `.yaml`) or a path."""
    path = Path(name)
    if path.is_file():
        return path
    files = shipped()
    stem = path.name.removesuffix(".yaml")
    while stem in OTHER_NAMES:  # an alias may stand for another one
        stem = OTHER_NAMES[stem]
    # A path elsewhere never means a shipped file, except in the folders of `ERAS`.
    in_package = path.parent == Path() or path.parent.resolve() == FOLDER.resolve()
    # A plain name is looked up, so its error does not speak of files.
    is_path = name != path.name or path.suffix in (".yaml", ".yml")
    where = f"there is no file {path.absolute()}; " if is_path else ""
    if stem not in files and path.is_dir():
        inside = sorted(file.name for file in path.glob("*.y*ml"))[:1]
        example = f", such as {path / inside[0]}" if inside else "; it holds none"
        raise ConfigError(f"{path} is a folder: name a YAML file in it{example}")
    if stem not in files:
        names, listing = [*files, *OTHER_NAMES], "`llm-decpomdp list` shows all"
        raise ConfigError(where + unknown("configuration", stem, names, listing))
    if in_package:
        return files[stem]
    ending = ERAS.get("/".join(path.parts[-3:-1]))
    if ending is None:
        raise ConfigError(f"{where}for the package's own: --config {stem}")
    file = files.get(stem + ending, files[stem])
    logger.info("there is no file %r: the package's own %s is used", name, file.stem)
    return file


BUILT_IN = {"mode": MODES, "algorithm": ALGORITHMS, "policy": KINDS, "tracker": TRACKERS}
"""Names of this package, by kind; environments are registered."""


def origins(config: Config) -> dict[str, str]:
    """Return the packages of the names in a configuration, by `KIND.NAME`; empty where all are of this one.

    Examples:
        >>> origins(Config())
        {}
    """
    return origins_of(_names(config))


def origins_of(names: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return the packages of some names, each after its kind, by `KIND.NAME`, without those of this one."""
    packages = {f"{kind}.{name}": _origin(kind, name) for kind, name in names}
    return {name: package for name, package in packages.items() if package is not None}


def _origin(kind: str, name: str) -> str | None:
    """Return the installed package that a name is of, and its version; `None` for a path."""
    if kind == "environment" and name in registry.registered_ids():
        return registry.origin(name)
    return plugin_origin(kind, name, BUILT_IN.get(kind, ()))


def _names(config: Config) -> Iterator[tuple[str, str]]:
    yield "environment", config.env.id
    if config.env.reward is not None:
        yield "reward", config.env.reward
    yield "mode", config.external.mode
    yield "algorithm", config.algorithm.name
    yield from (("policy", (p or {}).get("kind", "model")) for p in config.policies.values())
    trackers = config.output.trackers.items()
    yield from (("tracker", name) for name, options in trackers if options is not False)


def require_origins(manifest: Path) -> None:
    """Check that the packages are installed whose names a stored run uses; warn of other versions."""
    try:
        before = RunFolder(manifest.parent).read_manifest().get("plugins", {})
    except DamagedFile:  # which those name that need it
        return
    for name, origin in before.items():
        kind, _, announced = name.partition(".")
        now = _origin(kind, announced)
        # Without the package the name is unknown, and that error would not say who had it.
        if now is None:
            package = origin.partition(" ")[0]  # without the version
            raise ConfigError(
                f"{manifest.parent} was made with the {kind} {announced!r} of the package {origin}, which is not "
                f"installed here: pip install {package}"
            )
        if now != origin:
            logger.warning(
                "%s was made with the %s %r of %s, and here it is of %s",
                manifest.parent,
                kind,
                announced,
                origin,
                now,
            )
