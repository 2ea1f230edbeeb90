"""Packages that announce names, put where Python finds them as pip would, without building them."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
import tomllib

from llm_decpomdp import registry
from llm_decpomdp.plugins import GROUP, plugins
from tests.support.processes import ROOT

EXAMPLE = ROOT / "examples" / "own_package"


def same(part):
    """The reward or mode of the environment, as a function of one's own may give it back."""
    return part


def write_package(
    site: Path, name: str, entries: Mapping[str, str], version: str = "0.1.0"
) -> Path:
    """Write what pip keeps of a package that has nothing but entry points."""
    about = site / f"{name.replace('-', '_')}-{version}.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    lines = [f"[{GROUP}]", *(f"{entry} = {path}" for entry, path in entries.items())]
    (about / "entry_points.txt").write_text("\n".join(lines))
    return about


def write_example(site: Path) -> Path:
    """Put the example package into a folder; return what pip would keep of it."""
    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    about = write_package(site, project["name"], project["entry-points"][GROUP], project["version"])
    shutil.copy(EXAMPLE / "terse_agents.py", site)
    return about


@contextmanager
def looked_up_anew(site: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let Python find the packages in a folder, and forget them afterwards."""
    with monkeypatch.context() as patch:
        patch.syspath_prepend(str(site))
        patch.setattr(registry, "_registry", dict(registry._registry))
        plugins.cache_clear()
        yield
    plugins.cache_clear()
    sys.modules.pop("terse_agents", None)
