"""Imports point down: from layer to layer, and from folder to folder within each."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from tests.support.processes import ROOT

CORE = "llm_decpomdp"

KNOWS = {
    CORE: {CORE},
    "envs": {CORE, "envs"},
    "agents": {CORE, "agents"},
    "algorithms": {CORE, "agents", "algorithms"},
    "integrations": {CORE, "integrations"},
    "benchmarks": {CORE, "envs", "agents", "algorithms", "integrations", "benchmarks"},
}
"""What each folder may import."""

HEAVY = {
    "torch": {"agents", "algorithms", "benchmarks"},
    "transformers": {"agents", "benchmarks"},
    "peft": {"agents", "benchmarks"},
}
"""Where each heavy library may be imported; the commands on top may look at anything."""

REGISTERS = {(Path(CORE, "__init__.py"), "envs"), (Path(CORE, "__main__.py"), "benchmarks")}
"""The exceptions: importing the package registers the environments' ids, and running it is the command line."""


def violations(root: Path) -> list[str]:
    """Every import under `root` that breaks the layers, as `path:line: what`."""
    found = []
    for room in KNOWS:
        for path in sorted((root / room).rglob("*.py")):
            tree = ast.parse(path.read_text(encoding="utf-8"))
            for line, name in _imports(tree):
                why = _objection(path.relative_to(root), room, name)
                if why:
                    found.append(f"{path.relative_to(root).as_posix()}:{line}: {why}")
    return found


def _imports(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and full dotted name of everything imported at run time; relative ones begin with a dot."""
    pending = [tree]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
            pending += node.orelse
            continue
        pending += ast.iter_child_nodes(node)
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            source = "." * node.level + (node.module or "")
            yield from ((node.lineno, f"{source}.{alias.name}") for alias in node.names)


def _objection(path: Path, room: str, name: str) -> str:
    top, _, rest = name.partition(".")
    if not top:
        return f"relative import {name}"
    if top in KNOWS and top != CORE:
        return f"imports {name}; the package's name is {CORE}.{top}"
    if top == CORE:
        target = rest.partition(".")[0]
        target = target if target in KNOWS else CORE
        if target not in KNOWS[room] and (path, target) not in REGISTERS:
            return f"{room} imports {target}"
    if top in ("tools", "studies"):  # not in the wheel
        return f"{room} imports {top}"
    if room not in HEAVY.get(top, {room}):
        return f"{room} imports {top}"
    return ""


def test_imports_point_down():
    assert violations(ROOT) == []


def packages(root: Path) -> dict[str, set[str]]:
    """For every folder, those of the same layer that its modules import at run time.

    What a layer's own `__init__` or `__main__` imports does not count: it offers names of the folders below it.
    """
    modules = {
        _name(root, path): path.parent.relative_to(root).as_posix()
        for room in KNOWS
        for path in (root / room).rglob("*.py")
    }
    found: dict[str, set[str]] = {folder: set() for folder in modules.values()}
    for room in KNOWS:
        for path in (root / room).rglob("*.py"):
            if path.parent.parent == root and path.stem in ("__init__", "__main__"):
                continue
            here = modules[_name(root, path)]
            for _, name in _imports(ast.parse(path.read_text(encoding="utf-8"))):
                there = modules.get(name) or modules.get(name.rpartition(".")[0], here)
                if there != here and there.partition("/")[0] == room:
                    found[here].add(there)
    return found


def _name(root: Path, path: Path) -> str:
    """The dotted name of a module, as others import it."""
    parts = path.relative_to(root).with_suffix("").parts
    return ".".join(part for part in (CORE, *parts[parts[0] == CORE :]) if part != "__init__")


def test_folders_of_a_layer_form_a_hierarchy():
    assert len(list(TopologicalSorter(packages(ROOT)).static_order())) > 30


def test_two_folders_that_import_each_other_are_found(tmp_path):
    for path, line in (
        ("envs/a/x.py", "from llm_decpomdp.envs.b import y"),
        ("envs/b/y.py", "def f():\n    from llm_decpomdp.envs.a.x import z"),
    ):
        (tmp_path / path).parent.mkdir(parents=True)
        (tmp_path / path).write_text(line, encoding="utf-8")
    with pytest.raises(CycleError):
        TopologicalSorter(packages(tmp_path)).prepare()


def test_every_room_is_looked_at():
    for room in KNOWS:
        assert list((ROOT / room).rglob("*.py")), room


CAUGHT = """
llm_decpomdp/env.py | from llm_decpomdp.envs.feedback.code_mode import code_mode | llm_decpomdp imports envs
llm_decpomdp/env.py | from llm_decpomdp import agents | llm_decpomdp imports agents
llm_decpomdp/__init__.py | import llm_decpomdp.agents | llm_decpomdp imports agents
llm_decpomdp/env.py | import torch.nn | llm_decpomdp imports torch
envs/a.py | import llm_decpomdp.agents.scripted as s | envs imports agents
envs/sandbox/a.py | from llm_decpomdp.benchmarks import x | envs imports benchmarks
envs/a.py | def f():\\n    import torch | envs imports torch
agents/a.py | from llm_decpomdp.envs.feedback import code_mode as modes | agents imports envs
agents/a.py | from llm_decpomdp.algorithms import x | agents imports algorithms
algorithms/a.py | from llm_decpomdp.envs.feedback import code_mode as modes | algorithms imports envs
algorithms/a.py | from transformers import AutoModel | algorithms imports transformers
algorithms/a.py | from peft import LoraConfig | algorithms imports peft
benchmarks/a.py | import studies.hypotheses.page | benchmarks imports studies
benchmarks/a.py | from tools.quality import x | benchmarks imports tools
envs/a.py | from .code import read | relative import .code.read
envs/a.py | from . import code | relative import ..code
benchmarks/a.py | from envs.code import read | imports envs.code.read; the package's name is
"""
"""Path, lines and objection."""

ALLOWED = """
llm_decpomdp/__init__.py | import llm_decpomdp.envs
llm_decpomdp/policy.py | from typing import TYPE_CHECKING\\nif TYPE_CHECKING:\\n    import torch
envs/a.py | from llm_decpomdp.interfaces import Turn; from llm_decpomdp.envs.source_code.completion import read
agents/a.py | import torch, transformers, peft; from llm_decpomdp import policy
algorithms/a.py | import torch; from llm_decpomdp.agents import scripted
benchmarks/a.py | from llm_decpomdp.envs.feedback import x; from llm_decpomdp.agents import scripted
"""


def planted(root: Path, entry: str) -> tuple[str, list[str]]:
    """Write a module, and return its path and the violations."""
    path, line, *_ = entry.split(" | ")
    (root / path).parent.mkdir(parents=True)
    (root / path).write_text(line.replace("\\n", "\n") + "\n", encoding="utf-8")
    return path, violations(root)


@pytest.mark.parametrize("entry", CAUGHT.strip().splitlines())
def test_a_planted_violation_is_caught(tmp_path, entry):
    path, (found,) = planted(tmp_path, entry)
    assert found.startswith(f"{path}:") and entry.split(" | ")[2] in found


@pytest.mark.parametrize("entry", ALLOWED.strip().splitlines())
def test_imports_that_point_down_are_allowed(tmp_path, entry):
    assert planted(tmp_path, entry)[1] == []
