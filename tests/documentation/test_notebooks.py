"""The notebooks run, within seconds, and are kept without what they printed."""

from __future__ import annotations

import json
import sys
import types
from pathlib import Path

import pytest

from tests.support.processes import ROOT

NOTEBOOKS = sorted((ROOT / "examples" / "notebooks").glob("*.ipynb"))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(path: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("tempfile.mkdtemp", lambda: str(tmp_path))
    notebook = types.ModuleType("notebook")
    monkeypatch.setitem(sys.modules, "notebook", notebook)  # where its classes can be pickled from
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    assert len(code) >= 4
    for cell in code:
        exec(compile("".join(cell["source"]), path.name, "exec"), notebook.__dict__)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_kept_without_outputs(path: Path) -> None:
    content = json.loads(path.read_text(encoding="utf-8"))
    for cell in content["cells"]:
        assert not cell.get("outputs") and not cell.get("execution_count"), cell["source"]
    assert content["nbformat"] == 4
