"""Install commands work before this package is on an index."""

from __future__ import annotations

import pytest
import tomllib

from llm_decpomdp.utils import extras
from tests.support.processes import ROOT

PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *(ROOT / "examples").glob("*.*")]
SOURCES = [
    path
    for folder in ("llm_decpomdp", "envs", "agents", "algorithms", "integrations", "benchmarks")
    for path in (ROOT / folder).rglob("*.py")
]


@pytest.mark.parametrize("extra", ["train", "classeval", "expert", "cluster", "trl"])
def test_the_packages_of_an_extra_are_named_with_their_versions(extra: str) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    command = extras.install_command(extra)
    assert command.startswith("pip install ") and "llm-decpomdp" not in command
    for requirement in project["optional-dependencies"][extra]:
        assert requirement.partition(">")[0] in command
    assert ("'openai>=" in command) == (extra == "expert")


def test_uninstalled_it_is_installed_from_its_checkout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extras, "requires", lambda name: None)
    assert extras.install_command("trl") == f"pip install '{ROOT}[trl]'"


def test_nothing_recommends_an_index_that_does_not_have_this_package() -> None:
    for path in [*PAGES, *SOURCES]:
        if path.name != "CHANGELOG.md":
            text = path.read_text(encoding="utf-8")
            assert "llm-decpomdp[" not in text and "pip install llm-decpomdp" not in text, path
