"""Paths of the installed packages that programs may import beside the standard library."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from importlib.metadata import (
    Distribution,
    PackageNotFoundError,
    distribution,
    packages_distributions,
)
from importlib.util import find_spec


def is_installed(module: str) -> bool:
    """Check whether a top-level module can be imported here, without importing it."""
    return find_spec(module) is not None


@lru_cache(maxsize=64)
def package_paths(modules: tuple[str, ...]) -> tuple[str, ...]:
    """Return the files and folders of some modules, and of all that their packages require.

    Args:
        modules: Names of top-level modules, such as `numpy`.

    Raises:
        ValueError: If no installed package has such a module.
    """
    owners = packages_distributions() if modules else {}
    unknown = [module for module in modules if module not in owners]
    if unknown:
        raise ValueError(f"no installed package has the modules {unknown}; install them first")
    packages: dict[str, Distribution] = {}
    pending = [name for module in modules for name in owners[module]]
    while pending:
        name = _normal(pending.pop())
        if name not in packages and (package := _distribution(name)) is not None:
            packages[name] = package
            pending += _required(package.requires or ())
    return tuple(sorted({path for package in packages.values() for path in _entries(package)}))


def _required(requirements: Iterable[str]) -> list[str]:
    """Return the names in requirements that no extra asks for."""
    plain = [text for text in requirements if "extra" not in text.partition(";")[2]]
    return [match[0] for text in plain if (match := re.match(r"[\w.-]+", text))]


def _distribution(name: str) -> Distribution | None:
    """Return an installed package; None where a requirement does not apply to this system."""
    try:
        return distribution(name)
    except PackageNotFoundError:
        return None


def _entries(package: Distribution) -> set[str]:
    """Return the top-level paths that a package installed: its modules, folders and libraries."""
    tops = {
        file.parts[0] for file in package.files or () if file.parts[0] not in ("..", "__pycache__")
    }
    return {str(package.locate_file(top)) for top in tops}


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
