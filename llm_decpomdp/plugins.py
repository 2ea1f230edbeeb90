"""Extensions in users' modules and other packages, and their names.

The path of any object in an importable module is `module:NAME`. An installed package provides shorter names by
entry points of the group `llm_decpomdp`, each `KIND.NAME`:

```toml
[project.entry-points.llm_decpomdp]
"environment.couplet-v0" = "poets.family:couplet"
"algorithm.mamedian" = "poets.learning:MAMEDIAN"
```

Listing names imports nothing. Using one imports its module.
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

from llm_decpomdp.env import DecPOMDPEnv
from llm_decpomdp.utils.text import warn
from llm_decpomdp.validation import unknown

GROUP = "llm_decpomdp"

KINDS = ("environment", "algorithm", "policy", "reward", "mode", "tracker", "baseline")
"""Kinds of extensions."""

PARTS = {"reward": ("components",), "mode": ("info_keys", "first", "secrets")}
"""Parts of an environment that can be replaced, and the attributes of each besides `__call__`."""


@dataclass(frozen=True)
class Plugin:
    """A name that an installed package provides."""

    kind: str
    """One of `KINDS`."""
    name: str
    path: str
    """`module:NAME`."""
    package: str
    """The package's name for pip."""
    version: str

    @property
    def origin(self) -> str:
        """The package and its version, such as `poets 0.1.0`."""
        return f"{self.package} {self.version}"

    @property
    def full_name(self) -> str:
        """An unambiguous name: the path, and for an environment `module:id`."""
        module = self.path.partition(":")[0]
        return f"{module}:{self.name}" if self.kind == "environment" else self.path


@cache
def plugins() -> tuple[Plugin, ...]:
    """Return all names that installed packages provide, by kind and name; warn of unknown kinds."""
    announcements = []
    for entry in entry_points(group=GROUP):
        kind, _, name = entry.name.partition(".")
        package, version = (entry.dist.name, entry.dist.version) if entry.dist else ("?", "?")
        if kind not in KINDS or not name or ":" in name or ":" not in entry.value:
            warn(
                f"the package {package} announces {entry.name!r} = {entry.value!r}, which is left out: an entry "
                f"point of {GROUP} is KIND.NAME = 'module:NAME', and a kind one of {', '.join(KINDS)}"
            )
            continue
        announcements.append(Plugin(kind, name, entry.value, package, version))
    return tuple(sorted(announcements, key=lambda p: (KINDS.index(p.kind), p.name, p.package)))


def entry_point_plugins(kind: str) -> list[Plugin]:
    """Return the names of a kind that installed packages provide."""
    return [plugin for plugin in plugins() if plugin.kind == kind]


def is_entry_point(kind: str, name: str) -> bool:
    """Check whether an installed package provides a name."""
    return any(plugin.name == name for plugin in entry_point_plugins(kind))


def is_added(kind: str, name: object) -> bool:
    """Check whether a name is the path of an object, or provided by a package."""
    return isinstance(name, str) and (":" in name or is_entry_point(kind, name))


def plugin_origin(kind: str, name: str, built_in: Collection[str] = ()) -> str | None:
    """Return the package that provides a name, with its version; `None` for paths of objects and built-in names.

    For environments use `llm_decpomdp.registry.origin`.
    """
    candidates = [] if ":" in name or name in built_in else entry_point_plugins(kind)
    return next((plugin.origin for plugin in candidates if plugin.name == name), None)


def find(
    kind: str,
    name: str,
    built_in: Iterable[str] = (),
    expected: Any = Callable,
    remedy: str = "define a function or a class of that name",
) -> Any:
    """Import the object of a name.

    Args:
        kind: One of `KINDS`.
        name: `module:NAME`, or a name that a package provides.
        built_in: The built-in names of this kind, for errors.
        expected: Class of the object.
        remedy: How to define one, for errors.

    Raises:
        KeyError: If there is no such name or object, or two packages provide it.
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
    """Return the only plug-in of a name; raises the same errors as `find`."""
    matches = [plugin for plugin in entry_point_plugins(kind) if plugin.name == name]
    if not matches:
        names = [*built_in, *(plugin.name for plugin in entry_point_plugins(kind))]
        raise KeyError(f"{unknown(kind, name, names)}. One of your own is 'module:NAME'")
    if len(matches) > 1:
        rivals = " and ".join(f"{plugin.origin} ({plugin.full_name})" for plugin in matches)
        raise KeyError(f"the {kind} {name!r} is announced by {rivals}: name one by its path")
    return matches[0]


def replace_part(env: Any, kind: str, name: str) -> None:
    """Replace the `reward` or the `mode` of an environment by the result of an extension's function.

    Raises:
        ImportError, KeyError: As `find`.
        TypeError: If the environment has no such part, or the function returns something else.
    """
    if not isinstance(env, DecPOMDPEnv):
        raise TypeError(f"{type(env).__name__} has no parts, so no {kind} {name!r} can replace one")
    part = find(kind, name)(getattr(env, kind))
    lacking = [attribute for attribute in PARTS[kind] if not hasattr(part, attribute)]
    if lacking or not callable(part):
        raise TypeError(
            f"{kind} {name!r}: the function returned a {type(part).__name__}, which is no {kind}: it lacks "
            f"{', '.join(lacking) or '__call__'} (llm_decpomdp/interfaces.py)"
        )
    setattr(env, kind, part)


def import_by_name(module: str, id: str) -> ModuleType:
    """Import the module of a name such as `module:NAME`, also from the current folder, as `python -m` does.

    The folder is appended to `sys.path` and stays there, since modules may import others later.

    Raises:
        ImportError: If there is no such module, or it fails; names the module and `id`.
    """
    if (folder := str(Path.cwd())) not in sys.path:
        # Last, so that no file in the folder hides an installed module of the same name.
        sys.path.append(folder)
    missing = ModuleNotFoundError(
        f"{id!r}: there is no module {module!r}, neither installed nor in {folder}; name it as `import` does"
    )
    if not all(part.isidentifier() for part in module.split(".")):
        raise missing
    try:
        return importlib.import_module(module)
    except Exception as error:  # a module may do anything
        # A missing module is a wrong name; a missing import of the module is a broken module.
        if isinstance(error, ModuleNotFoundError) and f"{module}.".startswith(f"{error.name}."):
            raise missing from None
        raise ImportError(
            f"{id!r}: importing {module!r} failed with {type(error).__name__}: {error}; "
            f"`python -c 'import {module}'` shows where"
        ) from error
