"""Pages of the public names, which mkdocstrings fills from the docstrings; no module is imported."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from tools.site.sources import ROOT

PACKAGES = {
    "llm_decpomdp": "llm_decpomdp",
    "llm_decpomdp.envs": "envs",
    "llm_decpomdp.agents": "agents",
    "llm_decpomdp.algorithms": "algorithms",
    "llm_decpomdp.benchmarks": "benchmarks",
    "llm_decpomdp.integrations.trl": "integrations/trl",
    "llm_decpomdp.integrations.openenv": "integrations/openenv",
}
"""Public packages, and their folders in the checkout."""


def reference() -> dict[str, str]:
    """Return a page for each public package, as Markdown by the package's name."""
    return {package: _page(package, ROOT / folder) for package, folder in PACKAGES.items()}


def _page(package: str, folder: Path) -> str:
    tree = ast.parse((folder / "__init__.py").read_text(encoding="utf-8"))
    homes = sorted(public_names(package, tree))
    entries = (
        f"::: {home}.{name}\n    options:\n      heading: {name}\n      toc_label: {name}\n"
        for name, home in homes
    )
    return f"# {package}\n\n{ast.get_docstring(tree)}\n\n" + "\n".join(entries)


def public_names(package: str, tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Yield each public name of a package, and the module that defines it.

    They are those of `__all__` where it is a list, or else what the package imports for type checkers alone, and
    what it adds to `__all__`.

    Args:
        package: Name of the package.
        tree: Syntax tree of its `__init__.py`.
    """
    listed: set[str] = set()
    checked: list[ast.stmt] = []
    for node in tree.body:
        match node:
            case ast.Assign(targets=[ast.Name("__all__")], value=ast.List() as literal):
                listed = set(ast.literal_eval(literal))
            case ast.If(test=ast.Name("TYPE_CHECKING"), body=body, orelse=loaded):
                checked = body
                for statement in loaded:
                    if isinstance(statement, ast.AugAssign):
                        names = ast.literal_eval(statement.value)
                        yield from ((name, package) for name in names)
    for node in tree.body if listed else checked:
        if isinstance(node, ast.ImportFrom):
            names = {alias.name for alias in node.names}
            yield from ((name, str(node.module)) for name in (names & listed if listed else names))
