"""Optional packages: their install commands, and public names that load their modules late (PEP 562)."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path
from typing import Any

DISTRIBUTION = "llm-decpomdp"


def install_command(extra: str) -> str:
    """Return the command that installs the packages of an extra, with the versions that this package requires.

    The command names the packages themselves, because this package is on no index. Where it runs uninstalled, the
    command installs it from its checkout.

    Examples:
        >>> install_command("reasoning-gym").startswith("pip install 'reasoning-gym")
        True
    """
    try:
        requirements = requires(DISTRIBUTION) or []
    except PackageNotFoundError:
        requirements = []
    marker = re.compile(rf"""\bextra\s*==\s*["']{re.escape(extra)}["']""")
    pairs = [requirement.partition(";") for requirement in requirements]
    packages = [name.strip() for name, _, condition in pairs if marker.search(condition)]
    if not packages:
        return f"pip install '{Path(__file__).resolve().parents[2]}[{extra}]'"
    quoted = (name if re.fullmatch(r"[\w.-]+", name) else f"'{name}'" for name in packages)
    return f"pip install {' '.join(quoted)}"


# Public names of a package that load their modules on first use (PEP 562)


MODEL_PACKAGES = ("torch", "transformers", "peft")
"""Packages of the extra `train` that language models and learners need."""


def lazy_names(
    package: str, homes: Mapping[str, Sequence[str]]
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Make `__getattr__`, `__dir__` and `__all__` of a package; type checkers read its imports instead.

    Args:
        package: Name of the package.
        homes: Names by the module that defines them.
    """
    home_of = {name: module for module, names in homes.items() for name in names}

    def load(name: str) -> Any:
        if name not in home_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        try:
            value = getattr(import_module(home_of[name]), name)
        except ModuleNotFoundError as error:
            if error.name not in MODEL_PACKAGES:
                raise
            raise ModuleNotFoundError(
                f"{package}.{name} needs {error.name}: {install_command('train')}, from Python 3.11 on",
                name=error.name,
            ) from error
        setattr(sys.modules[package], name, value)
        return value

    return load, lambda: sorted({*vars(sys.modules[package]), *home_of}), sorted(home_of)
