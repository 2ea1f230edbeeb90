"""Install commands of the optional parts of this package."""

from __future__ import annotations

import re
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path

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
