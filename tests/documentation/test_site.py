"""What the site is made of: navigation, generated pages, links, `llms.txt`; `make docs` builds it strictly."""

from __future__ import annotations

import ast
import importlib
import json
import re
import sys
import types
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import yaml

from llm_decpomdp.registry import registered_ids, spec
from tests.support.processes import ROOT
from tools.site import content, gallery, sources

DOCS = ROOT / "docs"
PAGES = {path.name for path in DOCS.glob("*.md")}


def test_the_navigation_names_pages_that_exist() -> None:
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    named = re.findall(r"([\w/.]+\.md)$", text, re.MULTILINE)
    assert len(named) > 20 and len(named) == len(set(named))
    assert yaml.safe_load(text)["docs_dir"] == "docs"
    for name in named:
        assert sources.find_origin(name).exists() or sources.find_origin(name[:-3]).exists(), name


def test_llms_txt_names_every_page_and_no_other() -> None:
    text = (DOCS / "llms.txt").read_text(encoding="utf-8")
    named = re.findall(r"^- \[[^]]+\]\(([\w.]+)\): \S", text, re.MULTILINE)
    assert len(named) == text.count("\n- ")
    assert sorted(named) == sorted(PAGES - {"index.md"})


@pytest.mark.parametrize("env_id", ["probe-turns-v0", "tldr-v1"])
def test_a_page_of_the_gallery_has_facts_arguments_and_an_episode(env_id: str) -> None:
    page = gallery.page(env_id)
    assert page.startswith(f"# {env_id}\n")
    assert "| turns |" in page and "- `discount=1.0`" in page
    assert "===== turn 1 of" in page and "Args:" not in page


def test_an_environment_without_an_answer_for_each_agent_is_played_by_one() -> None:
    env = gallery.play_demo("humaneval-v0")
    assert env.possible_agents == ["main_0"] and env.render().count("reward 2.10")


def test_the_gallery_has_every_environment_of_this_package() -> None:
    table = (DOCS / "environments.md").read_text(encoding="utf-8")
    ours = [i for i in registered_ids() if spec(i).entry_point.startswith("llm_decpomdp.")]
    for env_id in ours:
        family = "probe-*-v0" if env_id.startswith("probe-") else env_id.replace("-v0", "")
        assert family in table or env_id in ("tldr-v0", "arxiv-v0"), env_id


@pytest.mark.parametrize("package", gallery.PACKAGES)
def test_the_reference_has_every_public_name(package: str) -> None:
    tree = ast.parse((ROOT / gallery.PACKAGES[package] / "__init__.py").read_text())
    names = [name for name, _ in gallery.public_names(package, tree)]
    public = set(importlib.import_module(package).__all__) - {"__version__"}
    assert set(names) == public and len(names) == len(public)


def test_links_to_the_checkout_lead_to_pages_of_their_own() -> None:
    text = "[a](../algorithms/grpo.py), [b](learners.md#x), [c](https://x.org), [d](../README.md#y)"
    assert sources.rewritten(text, "start.md") == (
        "[a](source/algorithms/grpo.py.md), [b](learners.md#x), [c](https://x.org), [d](source/README.md#y)"
    )
    back = sources.rewritten("[a](docs/learners.md), [b](CHANGELOG.md)", "source/README.md")
    assert back == "[a](../learners.md), [b](CHANGELOG.md)"


def test_linked_files_and_what_they_link_to_become_pages() -> None:
    pages = sources.source_pages([DOCS / "start.md", DOCS / "plugins.md"])
    assert "source/CITATION.cff.md" in pages  # from the README
    assert "````python\n" in pages["source/llm_decpomdp/interfaces.py.md"]
    assert "## `pyproject.toml`" in pages["source/examples/own_package.md"]


def test_names_in_code_link_to_their_pages() -> None:
    targets = {"seed-v0": "environments/seed-v0.html", "algorithm.kl": "#algorithmkl"}
    kl = '<a href="#algorithmkl"><code>algorithm.kl=1</code></a>'
    text = "<h2><code>seed-v0</code></h2> <code>algorithm.kl=1</code> <code>other</code>"
    assert content.link_names(text, targets) == text.replace("<code>algorithm.kl=1</code>", kl)
    linked = '<p><a href="x"><code>seed-v0</code></a> <pre><code>seed-v0</code></pre></p>'
    assert content.link_names(linked, targets) == linked


def test_cells_of_a_table_know_the_title_of_their_column() -> None:
    head = "<tr><th>key</th><th><code>a&lt;b</code></th></tr>"
    row = '<tr><td>1</td><td style="text-align: right;">2</td></tr>'
    assert content.title_cells(f"<table>{head}{row}</table>") == (
        f'<table data-columns="2">{head}<tr><td data-title="key">1</td>'
        '<td data-title="a&lt;b" style="text-align: right;">2</td></tr></table>'
    )


# The notebooks run, within seconds


NOTEBOOKS = sorted((ROOT / "examples" / "notebooks").glob("*.ipynb"))
WITH_OUTPUTS = "cooperation"
"""The notebook that is read with its figures, which no other page has."""


def code_cells(path: Path) -> list[dict[str, Any]]:
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return [cell for cell in cells if cell["cell_type"] == "code"]


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, marks=[pytest.mark.slow] if path.stem == WITH_OUTPUTS else [])
        for path in NOTEBOOKS
    ],
    ids=lambda path: path.stem,
)
def test_a_notebook_runs(path: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("tempfile.mkdtemp", lambda: str(tmp_path))
    monkeypatch.setenv("MPLBACKEND", "Agg")
    monkeypatch.chdir(path.parent)
    notebook = types.ModuleType("notebook")
    monkeypatch.setitem(sys.modules, "notebook", notebook)  # where its classes can be pickled from
    code = code_cells(path)
    assert len(code) >= 4
    for cell in code:
        with redirect_stdout(StringIO()) as printed:
            exec(compile("".join(cell["source"]), path.name, "exec"), notebook.__dict__)
        if path.stem == WITH_OUTPUTS:
            stored = [out["text"] for out in cell["outputs"] if out["output_type"] == "stream"]
            assert printed.getvalue() == "".join(line for text in stored for line in text)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_what_a_notebook_imports_is_there(path: Path) -> None:
    """The notebook that is read with its figures runs in the slow tests alone."""
    text = "\n".join("".join(cell["source"]) for cell in code_cells(path))
    found = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.ImportFrom)]
    own = [node for node in found if (node.module or "").startswith("llm_decpomdp")]
    assert all(hasattr(importlib.import_module(n.module), a.name) for n in own for a in n.names)  # type: ignore[arg-type]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_kept_without_outputs_unless_it_is_read_with_figures(path: Path) -> None:
    code = code_cells(path)
    assert not any(cell.get("execution_count") for cell in code)
    figures = [
        out for cell in code for out in cell["outputs"] if "image/png" in out.get("data", {})
    ]
    assert len(figures) == (4 if path.stem == WITH_OUTPUTS else 0)
    if path.stem != WITH_OUTPUTS:
        assert not any(cell["outputs"] for cell in code)


def test_the_page_of_a_notebook_has_its_outputs() -> None:
    outputs = [
        {"output_type": "stream", "name": "stdout", "text": ["1\n", "2\n"]},
        {"output_type": "display_data", "data": {"image/png": "QUJD\n"}},
    ]
    cell = {"cell_type": "code", "source": ["print(1)"], "outputs": outputs}
    page = sources.notebook({"cells": [{"cell_type": "markdown", "source": "# A"}, cell]})
    assert page == (
        "# A\n\n```python\nprint(1)\n```\n\n```text\n1\n2\n```\n\n"
        '<img alt="Figure of the cell above" src="data:image/png;base64,QUJD">'
    )
