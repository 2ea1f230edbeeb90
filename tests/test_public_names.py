"""The packages offer their public names without loading what they don't need yet."""

from __future__ import annotations

import ast
import importlib
import pickle
import re
import subprocess
import sys
import textwrap
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("agents", "algorithms", "benchmarks", "envs")
HEAVY = ("torch", "transformers", "peft", "datasets", "omegaconf", "typer", "matplotlib")
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


def python(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=120
    )


def declared(package: str) -> dict[str, str]:
    """Module of every name that type checkers see, by name."""
    tree = ast.parse((ROOT / package / "__init__.py").read_text(encoding="utf-8"))
    (block,) = (
        n for n in tree.body if isinstance(n, ast.If) and ast.unparse(n.test) == "TYPE_CHECKING"
    )
    imports = [node for node in block.body if isinstance(node, ast.ImportFrom)]
    return {alias.asname or "": str(node.module) for node in imports for alias in node.names}


@pytest.mark.parametrize("package", PACKAGES)
def test_every_public_name_is_what_type_checkers_see(package: str) -> None:
    module = importlib.import_module(f"llm_decpomdp.{package}")
    homes = declared(package)
    assert set(module.__all__) - {"ALGORITHMS"} == set(homes)
    assert set(module.__all__) <= set(dir(module))
    for name, home in homes.items():
        assert getattr(module, name) is getattr(importlib.import_module(home), name), name


def test_importing_the_packages_loads_nothing_heavy() -> None:
    packages = ", ".join(f"llm_decpomdp.{package}" for package in PACKAGES)
    code = f"import sys, {packages}; dir(llm_decpomdp.algorithms); print(*sys.modules)"
    loaded = python(code).stdout.split()
    assert "llm_decpomdp.algorithms" in loaded
    assert not set(HEAVY) & set(loaded)


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    from llm_decpomdp import agents

    with pytest.raises(
        AttributeError, match=r"module 'llm_decpomdp.agents' has no attribute 'Agent'"
    ):
        agents.Agent  # noqa: B018
    assert not hasattr(agents, "_private")


def test_names_pickle_as_those_of_their_modules() -> None:
    from llm_decpomdp.algorithms import LearnerOptions, Start

    assert Start.__module__ == "llm_decpomdp.algorithms.rollouts.rollout"
    for value in (Start(seed=3), LearnerOptions(0.1)):
        assert pickle.loads(pickle.dumps(value)) == value


@pytest.mark.parametrize(
    "modules",
    [
        "agents agents.scripted agents.loading",
        "algorithms algorithms.rollouts.rollout algorithms.learning.advantages algorithms.training.metrics",
        "algorithms.learning.learner_options algorithms.rollouts.rollout_options benchmarks.runs.setup",
    ],
)
def test_importing_what_no_model_needs_loads_no_torch(modules: str) -> None:
    names = [f"llm_decpomdp.{module}" for module in modules.split()]
    loaded = {*python(f"import sys, {', '.join(names)}; print(*sys.modules)").stdout.split()}
    assert {*names} <= loaded and not {"torch", "transformers"} & loaded


@pytest.mark.parametrize("name", ["training_loop.py", "own_environment.py"])
def test_an_example_without_torch_says_what_to_install(name: str) -> None:
    hide = "import runpy, sys; sys.modules.update(dict.fromkeys(['torch', 'transformers', 'peft']))"
    result = python(f"{hide}; runpy.run_path({str(ROOT / 'examples' / name)!r})")
    assert result.returncode == 1
    last = result.stderr.splitlines()[-1]
    assert "needs torch: pip install 'torch>=" in last, result.stderr


def imports(code: str) -> list[str]:
    """Modules of this package that a program imports from."""
    nodes = list(ast.walk(ast.parse(code)))
    names = [alias.name for n in nodes if isinstance(n, ast.Import) for alias in n.names]
    names += [str(n.module) for n in nodes if isinstance(n, ast.ImportFrom)]
    return [name for name in names if name.split(".")[0] == "llm_decpomdp"]


def programs() -> list[tuple[str, str]]:
    blocks = [
        (page.name, textwrap.dedent(code))
        for page in PAGES
        for code in re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    ]
    return [*blocks, *((path.name, path.read_text(encoding="utf-8")) for path in EXAMPLES)]


def test_documentation_and_examples_import_from_the_packages() -> None:
    modules = {(name, module) for name, code in programs() for module in imports(code)}
    assert len({name for name, _ in modules}) >= 6
    assert [pair for pair in sorted(modules) if pair[1].count(".") > 1] == []


def test_the_documentation_names_public_names_that_exist() -> None:
    for name, code in programs():
        for node in ast.walk(ast.parse(code)):
            if isinstance(node, ast.ImportFrom) and str(node.module).startswith("llm_decpomdp"):
                module = importlib.import_module(str(node.module))
                for alias in node.names:
                    module_of_its_own = f"{module.__name__}.{alias.name}"
                    assert hasattr(module, alias.name) or find_spec(module_of_its_own), (
                        name,
                        alias,
                    )


IMPORT = re.compile(r"^[\s\"']*from (llm_decpomdp[\w.]*) import ([\w, ]+)", re.MULTILINE)


def test_programs_in_texts_of_tests_import_names_that_exist() -> None:
    """Such programs run in processes of slow tests, where no type checker and no import of a test reads them."""
    wrong, names = [], dict[str, set[str]]()
    for path in sorted((ROOT / "tests").rglob("*.py")):
        if path.name == "test_layering.py":  # it imports what does not exist
            continue
        for module, imported in IMPORT.findall(path.read_text(encoding="utf-8")):
            if module not in names:
                names[module] = bound_names(module)
            asked = {part.partition(" as ")[0].strip() for part in imported.split(",")} - {""}
            wrong += [f"{path.name}: {module}.{name}" for name in sorted(asked - names[module])]
    assert wrong == []


def bound_names(module: str) -> set[str]:
    """Names that a module binds, and modules below it."""
    place = ROOT.joinpath(*module.split("."))
    below = {path.stem for path in place.glob("*")}
    file = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
    if not file.is_file():
        return below
    bound = set(below)
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            bound.add(node.name)
        elif isinstance(node, ast.alias):
            bound.add(node.asname or node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            bound.add(node.id)
    return bound
