"""Code that comes with a model never runs."""

from __future__ import annotations

import ast
import json
import shutil
from pathlib import Path

import pytest

from llm_decpomdp.agents.loading import load_policy
from llm_decpomdp.agents.models.local_models import tiny_model
from tests.support.processes import ROOT


@pytest.mark.parametrize("file", ["config.json", "tokenizer_config.json"])
def test_code_in_the_folder_of_a_model_is_refused_without_a_question(
    tmp_path: Path, file: str
) -> None:
    folder, sign = tmp_path / "model", tmp_path / "ran"
    shutil.copytree(tiny_model(), folder)
    (folder / "theirs.py").write_text(f"open({str(sign)!r}, 'w')\n")
    settings = json.loads((folder / file).read_text())
    settings["auto_map"] = {
        "AutoConfig": "theirs.Config",
        "AutoModelForCausalLM": "theirs.Model",
        "AutoTokenizer": [None, "theirs.Tokenizer"],
    }
    settings |= {"model_type": "theirs"} if file == "config.json" else {"tokenizer_class": "Theirs"}
    (folder / file).write_text(json.dumps(settings))
    with pytest.raises((OSError, ValueError), match=r"custom code|theirs"):
        load_policy(folder)
    assert not sign.exists()


def test_every_loading_of_a_model_says_that_its_code_is_not_trusted() -> None:
    loaders = ("AutoModelForCausalLM", "AutoConfig", "AutoTokenizer", "kinds")
    calls = [
        (path, node)
        for path in [
            *(ROOT / "agents").rglob("*.py"),
            ROOT / "benchmarks" / "doctor" / "memory_plan.py",
        ]
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "from_pretrained"
        and getattr(node.func.value, "id", "") in loaders
    ]
    assert len(calls) >= 6
    for path, call in calls:
        given = {keyword.arg: keyword.value for keyword in call.keywords}
        trust = given.get("trust_remote_code")
        assert isinstance(trust, ast.Constant) and trust.value is False, (path, call.lineno)
