"""Optional parts of the installation, and the errors where one is missing."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version

from llm_decpomdp.utils.extras import install_command

EXTRAS = {
    "train": ("torch", "transformers", "peft", "accelerate", "matplotlib"),
    "classeval": (
        *("pandas", "python-docx", "openpyxl", "beautifulsoup4", "lxml", "Pillow", "nltk"),
        *("PyPDF2", "reportlab", "gensim", "netifaces"),
    ),
    "expert": ("openai", "anthropic"),
    "cluster": ("ray",),
    "trl": ("trl",),
    "openenv": ("openenv",),
    "verifiers": ("verifiers",),
    "inspect": ("inspect-ai",),
    "reasoning-gym": ("reasoning-gym",),
    "textarena": ("textarena",),
}
"""Packages of each extra."""

LEARNERS = (3, 11)
"""Oldest Python that the packages of the extra `train` support."""

MODELS = ("torch", "transformers", "peft")
"""Packages that local language models need."""


def installed(package: str) -> str | None:
    """Return the version of an installed package, or `None`."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def missing_models() -> str | None:
    """Describe the packages that language models lack on this machine; `None` if they can run."""
    missing = [name for name in MODELS if installed(name) is None]
    return missing_packages(missing) if missing else None


def missing_packages(names: Sequence[str]) -> str | None:
    """Describe packages that are not installed; `None` if no extra has the first of them.

    Examples:
        >>> missing_packages(["torch"])
        "this needs torch, which is not installed: pip install 'torch>=2.6' ..."
    """
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
