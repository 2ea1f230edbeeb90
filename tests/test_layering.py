"""Imports point down: the core knows no room, environments and agents know nothing of each other."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
CORE = "llm_decpomdp"

KNOWS = {
    CORE: {CORE},
    "envs": {CORE, "envs"},
    "agents": {CORE, "agents"},
    "algorithms": {CORE, "agents", "algorithms"},
    "benchmarks": {CORE, "envs", "agents", "algorithms", "benchmarks"},
}
"""What each folder may import."""

HEAVY = {
    "torch": {"agents", "algorithms", "benchmarks"},
    "transformers": {"agents", "benchmarks"},
    "peft": {"agents", "benchmarks"},
}
"""Where each heavy library may be imported; the commands on top may look at anything."""

REGISTERS = {(Path(CORE, "__init__.py"), "envs")}
"""The exception: importing the package registers the environments' ids."""


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
    if room not in HEAVY.get(top, {room}):
        return f"{room} imports {top}"
    return ""


def test_imports_point_down():
    assert violations(ROOT) == []


def test_every_room_is_looked_at():
    for room in KNOWS:
        assert list((ROOT / room).rglob("*.py")), room


@pytest.mark.parametrize(
    ("path", "line", "why"),
    [
        (
            "llm_decpomdp/env.py",
            "from llm_decpomdp.envs.modes import code_mode",
            "llm_decpomdp imports envs",
        ),
        ("llm_decpomdp/env.py", "from llm_decpomdp import agents", "llm_decpomdp imports agents"),
        ("llm_decpomdp/__init__.py", "import llm_decpomdp.agents", "llm_decpomdp imports agents"),
        ("llm_decpomdp/env.py", "import torch.nn", "llm_decpomdp imports torch"),
        ("envs/a.py", "import llm_decpomdp.agents.scripted as s", "envs imports agents"),
        ("envs/sandbox/a.py", "from llm_decpomdp.benchmarks import x", "envs imports benchmarks"),
        ("envs/a.py", "def f():\n    import torch", "envs imports torch"),
        ("agents/a.py", "from llm_decpomdp.envs import modes", "agents imports envs"),
        ("agents/a.py", "from llm_decpomdp.algorithms import x", "agents imports algorithms"),
        ("algorithms/a.py", "from llm_decpomdp.envs import modes", "algorithms imports envs"),
        (
            "algorithms/a.py",
            "from transformers import AutoModel",
            "algorithms imports transformers",
        ),
        ("algorithms/a.py", "from peft import LoraConfig", "algorithms imports peft"),
        ("envs/a.py", "from .code import read", "relative import .code.read"),
        ("envs/a.py", "from . import code", "relative import ..code"),
        (
            "benchmarks/a.py",
            "from envs.code import read",
            "imports envs.code.read; the package's name is",
        ),
    ],
)
def test_a_planted_violation_is_caught(tmp_path, path, line, why):
    target = tmp_path / path
    target.parent.mkdir(parents=True)
    target.write_text(line + "\n", encoding="utf-8")
    (found,) = violations(tmp_path)
    assert found.startswith(f"{path}:") and why in found


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("llm_decpomdp/__init__.py", "import llm_decpomdp.envs"),
        (
            "llm_decpomdp/policy.py",
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import torch",
        ),
        (
            "envs/a.py",
            "from llm_decpomdp.episode import Turn\nfrom llm_decpomdp.envs.code import read",
        ),
        ("agents/a.py", "import torch, transformers, peft\nfrom llm_decpomdp import policy"),
        ("algorithms/a.py", "import torch\nfrom llm_decpomdp.agents import scripted"),
        (
            "benchmarks/a.py",
            "from llm_decpomdp.envs import modes\nfrom llm_decpomdp.agents import scripted",
        ),
    ],
)
def test_imports_that_point_down_are_allowed(tmp_path, path, line):
    target = tmp_path / path
    target.parent.mkdir(parents=True)
    target.write_text(line + "\n", encoding="utf-8")
    assert violations(tmp_path) == []
