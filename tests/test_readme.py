"""What the README and the pages name exists; `tests/documentation` runs their code."""

from __future__ import annotations

import re

from llm_decpomdp.algorithms import NAMES
from tests.support.processes import ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_files_that_the_readme_links_to_exist() -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", README):
        assert (ROOT / target).exists(), target


def test_the_files_and_folders_of_the_page_on_architecture_exist() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    paths = {path for path in re.findall(r"`([\w./]+)`", page) if "/" in path}
    assert len(paths) > 40
    assert [path for path in sorted(paths) if not (ROOT / path).exists()] == []


def test_the_call_trees_of_the_page_on_architecture_name_functions_that_exist() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    folders: list[str] = []
    calls = re.findall(r"^( *)([\w./]+)\.py:([\w.]+)(?:  # .+)?$", page, re.MULTILINE)
    assert len(calls) > 90
    for indent, path, name in calls:
        depth = len(indent) // 2
        folder, _, file = path.rpartition("/")
        folders[depth:] = [folder or folders[depth - 1]]
        text = (ROOT / folders[depth] / f"{file}.py").read_text(encoding="utf-8")
        for part in name.split("."):
            assert re.search(rf"\b(def|class) {part}\b", text), f"{path}.py:{name}"


def test_the_pages_link_to_files_that_exist() -> None:
    for page in (ROOT / "docs").glob("*.md"):
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_the_files_that_the_source_names_exist() -> None:
    folders = ("llm_decpomdp", "envs", "agents", "algorithms", "integrations", "benchmarks")
    files = [path for folder in folders for path in (ROOT / folder).rglob("*.py")]
    ends = [f"/{path.relative_to(ROOT).as_posix()}" for path in [*files, *ROOT.glob("*/*.py")]]
    for path in files:
        for name in re.findall(r"`([\w/]+\.py)`", path.read_text(encoding="utf-8")):
            assert any(end.endswith(f"/{name}") for end in ends), f"{path}: {name}"


def test_the_page_on_learners_has_a_row_for_each_algorithm() -> None:
    page = (ROOT / "docs" / "learners.md").read_text(encoding="utf-8")
    rows = re.findall(
        r"^\| `(\w+)` \|.*\[`\1\.py`\]\(\.\./algorithms/\1\.py\) \|$", page, re.MULTILINE
    )
    assert sorted(rows) == sorted(NAMES)


def test_every_make_target_that_the_readme_names_exists() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in set(re.findall(r"\bmake ([a-z]+)\b", README)):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target
