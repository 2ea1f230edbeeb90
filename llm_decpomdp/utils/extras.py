"""Optional packages: their install commands, and public names that load their modules late (PEP 562)."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Callable, Sequence
from functools import cache
from importlib import import_module
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from pkgutil import get_data
from typing import Any

DISTRIBUTION = "llm-decpomdp"

EXTRAS = {
    "train": ("torch", "transformers", "peft", "accelerate", "matplotlib"),
    "classeval": (
        *("pandas", "python-docx", "openpyxl", "beautifulsoup4", "lxml", "Pillow", "nltk"),
        *("PyPDF2", "reportlab", "gensim", "netifaces"),
    ),
    "expert": ("openai", "anthropic"),
    "cluster": ("ray",),
    "quantized": ("bitsandbytes",),
    "trl": ("trl",),
    "openenv": ("openenv",),
    "verifiers": ("verifiers",),
    "inspect": ("inspect-ai",),
    "reasoning-gym": ("reasoning-gym",),
    "textarena": ("textarena",),
    "openspiel": ("open-spiel",),
}
"""Packages of each extra."""

LEARNERS = (3, 11)
"""Oldest Python that the packages of the extra `train` support."""

MODEL_PACKAGES = ("torch", "transformers", "peft")
"""Packages of the extra `train` that language models and learners need."""


def install_command(extra: str) -> str:
    """Return the command that installs the packages of an extra, with the versions that this package requires.

    The command names the packages themselves, because this package is on no index. Where it runs uninstalled, the
    command installs it from its checkout.
    """
    packages = requirements(extra)
    if not packages:
        return f"pip install '{Path(__file__).resolve().parents[2]}[{extra}]'"
    quoted = (name if re.fullmatch(r"[\w.-]+", name) else f"'{name}'" for name in packages)
    return f"pip install {' '.join(quoted)}"


def requirements(extra: str) -> list[str]:
    """Return the packages of an extra with the required versions; empty where this package is not installed."""
    try:
        declared = requires(DISTRIBUTION) or []
    except PackageNotFoundError:
        return []
    # In the metadata of a package the extra is a condition, as in `torch>=2.6; extra == "train"`.
    marker = re.compile(rf"""\bextra\s*==\s*["']{re.escape(extra)}["']""")
    pairs = [requirement.partition(";") for requirement in declared]
    return [name.strip() for name, _, condition in pairs if marker.search(condition)]


def installed(package: str) -> str | None:
    """Return the version of an installed package, or `None`."""
    try:
        return _version(package)
    except PackageNotFoundError:
        return None


# Versions are read from files, and a run asks for each of a dozen several times. A missing package may still come.
_version = cache(version)


def missing_models() -> str | None:
    """Describe the packages that language models lack on this machine; `None` if they can run."""
    missing = [name for name in MODEL_PACKAGES if installed(name) is None]
    return missing_packages(missing) if missing else None


def missing_packages(names: Sequence[str]) -> str | None:
    """Describe packages that are not installed; `None` if no extra has the first of them."""
    for extra, packages in EXTRAS.items():
        if names[0] in packages:
            verb = "is" if len(names) == 1 else "are"
            return f"this needs {', '.join(names)}, which {verb} not installed: {how_to_get(extra)}"
    return None


def how_to_get(extra: str) -> str:
    """Return the command that installs an extra, or its requirement of Python."""
    if extra == "train" and sys.version_info < LEARNERS:
        return f"learners need Python {'.'.join(map(str, LEARNERS))} or newer"
    return install_command(extra)


def lazy_names(package: str) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Make `__getattr__`, `__dir__` and `__all__` of a package from the imports in its block `if TYPE_CHECKING`.

    Type checkers read this block; otherwise each import is executed when its name is first used.
    """
    source = (get_data(package, "__init__.py") or b"").decode("utf-8")
    block = next(node for node in ast.parse(source).body if isinstance(node, ast.If))
    imports = [node for node in block.body if isinstance(node, ast.ImportFrom)]
    home_of = {alias.name: str(node.module) for node in imports for alias in node.names}

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
        setattr(sys.modules[package], name, value)  # Python then asks no more
        return value

    return load, lambda: sorted({*vars(sys.modules[package]), *home_of}), sorted(home_of)
