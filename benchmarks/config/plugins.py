"""Names in a configuration that installed packages announce: stored with a run, and looked for when it is read."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from pathlib import Path

from llm_decpomdp import registry
from llm_decpomdp.agents.policy_kinds import KINDS
from llm_decpomdp.algorithms import ALGORITHMS
from llm_decpomdp.benchmarks.config.errors import ConfigError
from llm_decpomdp.benchmarks.config.schema import Config
from llm_decpomdp.benchmarks.config.trackers import TRACKERS
from llm_decpomdp.interfaces import MODES
from llm_decpomdp.plugins import plugin_origin
from llm_decpomdp.utils.storage import DamagedFile, RunFolder

logger = logging.getLogger(__name__)

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
            package = origin.partition(" ")[0]
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
