"""Things that users and other packages add without editing this one, and their names.

Anything in a module that can be imported is named by its path, `module:NAME`. An installed package announces
shorter names by entry points of the group `llm_decpomdp`, each `KIND.NAME`:

```toml
[project.entry-points.llm_decpomdp]
"environment.couplet-v0" = "poets.family:couplet"
"algorithm.mamedian" = "poets.learning:MAMEDIAN"
```

Looking names up reads what pip has stored, and imports nothing; using one imports its module.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType
from typing import Any

from llm_decpomdp.utils.text import warn
from llm_decpomdp.validation import unknown

GROUP = "llm_decpomdp"

KINDS = ("environment", "algorithm", "policy", "reward", "mode", "tracker", "baseline")
"""Kinds of things that can be added."""


@dataclass(frozen=True)
class Plugin:
    """A name that a package announces."""

    kind: str
    """One of `KINDS`."""
    name: str
    path: str
    """Where it is: `module:NAME`."""
    package: str
    """The package as pip names it."""
    version: str

    @property
    def origin(self) -> str:
        """The package and its version, such as `poets 0.1.0`."""
        return f"{self.package} {self.version}"

    @property
    def full_name(self) -> str:
        """The name by which nothing else is meant: its path, and of an environment `module:id`."""
        return f"{self.module}:{self.name}" if self.kind == "environment" else self.path

    @property
    def module(self) -> str:
        """The module of the path."""
        return self.path.partition(":")[0]


@cache
def plugins() -> tuple[Plugin, ...]:
    """Return all names that installed packages announce, by kind and name; warn of those of no kind."""
    entry_point_plugins = []
    for entry in entry_points(group=GROUP):
        kind, _, name = entry.name.partition(".")
        package, version = (entry.dist.name, entry.dist.version) if entry.dist else ("?", "?")
        if kind not in KINDS or not name or ":" in name or ":" not in entry.value:
            warn(
                f"the package {package} announces {entry.name!r} = {entry.value!r}, which is left out: an entry "
                f"point of {GROUP} is KIND.NAME = 'module:NAME', and a kind one of {', '.join(KINDS)}"
            )
            continue
        entry_point_plugins.append(Plugin(kind, name, entry.value, package, version))
    return tuple(
        sorted(entry_point_plugins, key=lambda p: (KINDS.index(p.kind), p.name, p.package))
    )


def entry_point_plugins(kind: str) -> list[Plugin]:
    """Return the names of a kind that installed packages announce."""
    return [plugin for plugin in plugins() if plugin.kind == kind]


def is_added(kind: str, name: object) -> bool:
    """Check whether a name is the path of an object, or one that a package announces."""
    return isinstance(name, str) and (":" in name or is_entry_point(kind, name))


def is_entry_point(kind: str, name: str) -> bool:
    """Check whether an installed package announces a name."""
    return any(plugin.name == name for plugin in entry_point_plugins(kind))


def plugin_origin(kind: str, name: str, built_in: Collection[str] = ()) -> str | None:
    """Return the package that announces a name, and its version.

    It is `None` for the path of an object, and for a built-in name of this kind, whoever announces it.
    Environments have `llm_decpomdp.registry.origin`.
    """
    if ":" in name or name in built_in:
        return None
    return next(
        (plugin.origin for plugin in entry_point_plugins(kind) if plugin.name == name), None
    )


def find(
    kind: str,
    name: str,
    built_in: Iterable[str] = (),
    expected: Any = Callable,
    remedy: str = "define a function or a class of that name",
) -> Any:
    """Import what a name stands for.

    Args:
        kind: One of `KINDS`.
        name: `module:NAME`, or a name that a package announces.
        built_in: The names of this kind here, for errors.
        expected: Class of the object.
        remedy: The way to make one, for errors.

    Raises:
        KeyError: If there is no such name or object, or two packages announce it.
        ImportError: If its module cannot be imported; names the package.
    """
    path, origin = name, ""
    if ":" not in name:
        plugin = only(kind, name, built_in)
        path, origin = plugin.path, f"{kind} {name!r} of the package {plugin.origin}: "
    module, _, constant = path.rpartition(":")
    try:
        value = getattr(import_by_name(module, path), constant, None)
    except ImportError as error:
        if not origin:
            raise
        raise type(error)(f"{origin}{error}") from error
    if not isinstance(value, expected):
        raise KeyError(f"{origin or f'{name!r}: '}{module} has no {kind} {constant!r}: {remedy}")
    return value


def only(kind: str, name: str, built_in: Iterable[str] = ()) -> Plugin:
    """Return the one plug-in of a name; errors as of `find`."""
    matches = [plugin for plugin in entry_point_plugins(kind) if plugin.name == name]
    if not matches:
        names = [*built_in, *(plugin.name for plugin in entry_point_plugins(kind))]
        raise KeyError(f"{unknown(kind, name, names)}. One of your own is 'module:NAME'")
    if len(matches) > 1:
        rivals = " and ".join(f"{plugin.origin} ({plugin.full_name})" for plugin in matches)
        raise KeyError(f"the {kind} {name!r} is announced by {rivals}: name one by its path")
    return matches[0]


def import_by_name(module: str, id: str) -> ModuleType:
    """Import the module of a name such as `module:NAME`, also from the current folder, as `python -m` does.

    The folder is added to `sys.path` and stays there, since modules import more when they are used. It is the
    last entry, so that no file in it hides an installed module.

    Raises:
        ImportError: If there is no such module, or it fails; names the module and `id`.
    """
    if (folder := str(Path.cwd())) not in sys.path:
        # Last, so that a file in the folder that is called like an installed module does not hide it.
        sys.path.append(folder)
    missing = ModuleNotFoundError(
        f"{id!r}: there is no module {module!r}, neither installed nor in {folder}; name it as `import` does"
    )
    if not all(part.isidentifier() for part in module.split(".")):
        raise missing
    try:
        return importlib.import_module(module)
    except Exception as error:  # a module may do anything
        # The module itself is missing, not something that it imports: that is a wrong name, not a broken module.
        if isinstance(error, ModuleNotFoundError) and f"{module}.".startswith(f"{error.name}."):
            raise missing from None
        raise ImportError(
            f"{id!r}: importing {module!r} failed with {type(error).__name__}: {error}; "
            f"`python -c 'import {module}'` shows where"
        ) from error
