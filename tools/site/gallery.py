"""Generated pages of the site: environments with an example episode, and public names."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import llm_decpomdp
from llm_decpomdp.env import DecPOMDPEnv
from llm_decpomdp.registry import accepts_argument, registered_ids, spec
from tools.site.sources import ROOT

SECTION = re.compile(r"^(Args|Raises|Options):$", re.MULTILINE)
"""Title of a section of a docstring."""

SEED = 0
"""Seed of the episodes."""


def gallery() -> dict[str, str]:
    """Return a page for each registered environment, as Markdown by its id."""
    return {env_id: page(env_id) for env_id in registered_ids()}


def page(env_id: str) -> str:
    """Return the page of an environment: the docstring of its function, its facts, and an episode.

    Args:
        env_id: A registered id.
    """
    env = play_demo(env_id)
    about, arguments = _documentation(env_id)
    first, _, rest = about.partition("\n\n")
    return "\n\n".join(
        [
            f"# {env_id}",
            first,
            _facts(env),
            rest,
            *([f"## Arguments\n\n{arguments}"] if arguments else []),
            f"## An episode\n\n{_introduction(env)}\n\n~~~~~text\n{env.render()}\n~~~~~\n",
        ]
    )


def play_demo(env_id: str) -> DecPOMDPEnv:
    """Play an episode with the references, on data that need no network.

    If the references are for one agent, a single agent plays.
    """
    options: dict[str, Any] = {"source": "bundled"} if _has_bundled(env_id) else {}
    sizes: tuple[dict[str, Any], ...] = ({}, {"num_agents": 1})
    for size in sizes:
        env = llm_decpomdp.make(env_id, render_mode="ansi", **options, **size)
        env.reset(seed=SEED)
        if set(llm_decpomdp.answers(env).references) >= set(env.agents):
            break
    while env.agents:
        references = llm_decpomdp.answers(env).references
        env.step({agent: references[agent] for agent in env.agents})
    env.close()
    return env


def _has_bundled(env_id: str) -> bool:
    return (
        accepts_argument(env_id, "source") and env_id != "humaneval-v0"
    )  # which has a package of its own


def _documentation(env_id: str) -> tuple[str, str]:
    """Return the docstring of the function of an environment, and its arguments as a list."""
    module, _, name = spec(env_id).entry_point.partition(":")
    build = getattr(__import__(module, fromlist=[name]), name)
    parts = SECTION.split(inspect.getdoc(build.func if isinstance(build, partial) else build) or "")
    sections = dict(zip(parts[1::2], parts[2::2], strict=True))
    rest = [text for text in sections.values() if "\n## " in text]
    about = parts[0] + "".join(text[text.index("\n## ") :] for text in rest)
    taken = inspect.signature(build).parameters
    meanings = {**_items(sections.get("Args", "")), **_items(sections.get("Options", ""))}
    rows = [
        f"- `{name}={value.default!r}`{f': {meanings[name]}' if name in meanings else ''}"
        for name, value in taken.items()
        if value.default is not value.empty
    ]
    return about.strip(), "\n".join(rows)


def _items(section: str) -> dict[str, str]:
    """Return the texts of a section of a docstring by name."""
    indented = re.split(r"\n(?=\S)", section)[0] if section.startswith("\n ") else ""
    items = re.findall(r"^    (\w+): (.*(?:\n     .*)*)", indented, re.MULTILINE)
    return {name: " ".join(text.split()) for name, text in items}


def _facts(env: DecPOMDPEnv) -> str:
    about = env.metadata
    data: Mapping[str, Any] = about["data"]
    origin = "bundled stand-in" if data["stand_in"] else data["source"]
    maximum = about["reward"]["maximum"]
    rows = {
        "agents in the episode below": ", ".join(f"`{agent}`" for agent in env.possible_agents),
        "turns": str(env.num_turns),
        "maximum reward of a turn": "unknown" if maximum is None else f"{maximum:g}",
        "data in the episode below": f"{data['name']}, {data['rows']} tasks ({origin})",
    }
    table = "".join(f"| {name} | {value} |\n" for name, value in rows.items())
    components = "".join(
        f"| `{name}` | {part['text'] or '—'} | {'yes' if part['form'] else 'no'} |\n"
        for name, part in about["reward"]["components"].items()
    )
    return (
        f"| property | value |\n|---|---|\n{table}\n"
        f"| component of the reward | meaning | form only |\n|---|---|---|\n{components}"
    )


def _introduction(env: DecPOMDPEnv) -> str:
    arguments = {**env.spec_kwargs}
    arguments.pop("render_mode")
    options = "".join(f", {name}={value!r}" for name, value in arguments.items())
    return (
        f"An episode of the references in `llm_decpomdp.make({env.spec_id!r}{options})` with seed {SEED}, "
        "generated with this page."
    )


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
    return {package: _package_page(package, ROOT / folder) for package, folder in PACKAGES.items()}


def _package_page(package: str, folder: Path) -> str:
    tree = ast.parse((folder / "__init__.py").read_text(encoding="utf-8"))
    homes = sorted(public_names(package, tree))
    entries = (
        f"::: {home}.{name}\n    options:\n      heading: {name}\n      toc_label: {name}\n"
        for name, home in homes
    )
    return f"# {package}\n\n{ast.get_docstring(tree)}\n\n" + "\n".join(entries)


def public_names(package: str, tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Yield each public name of a package, and the module that defines it.

    These are the names in `__all__`, if it is a list. Otherwise they are the imports for type checkers, and the
    names that the package adds to `__all__`.

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
