"""`--json` and `--quiet`: what scripts read."""

from __future__ import annotations

import json
import logging
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from llm_decpomdp.benchmarks.cli.console import give_result
from llm_decpomdp.benchmarks.cli.main import WITH_RESULTS, with_output_options
from llm_decpomdp.registry import registered_ids, spec
from llm_decpomdp.utils.storage import to_json
from tests.support.commands import call


def test_a_result_is_the_only_text_on_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    def command(name: str) -> None:
        print("for people")
        give_result({"name": name})
        raise SystemExit(3)

    run = with_output_options(command, has_result=True)
    with pytest.raises(SystemExit) as end:
        run("x", as_json=True, quiet=False)
    out, err = capsys.readouterr()
    assert end.value.code == 3, "the exit code stays"
    assert json.loads(out) == {"name": "x"} and err == "for people\n"
    with pytest.raises(SystemExit):
        run("x", as_json=True, quiet=True)
    out, err = capsys.readouterr()
    assert json.loads(out) == {"name": "x"} and not err
    with pytest.raises(SystemExit):
        run("x", quiet=False)
    assert capsys.readouterr().out == "for people\n"


def test_quiet_leaves_warnings_and_errors(caplog: pytest.LogCaptureFixture) -> None:
    logger = logging.getLogger("llm_decpomdp")
    before = logger.level
    try:
        with_output_options(lambda: None, has_result=False)(quiet=True)
        assert logger.level == logging.WARNING
    finally:
        logger.setLevel(before)


@dataclass
class Value:
    path: Path
    number: Any


def test_values_of_results_become_json() -> None:
    value = Value(Path("a/b"), {1: np.float64(0.5), "x": (math.nan, None, True)})
    assert to_json([value]) == [{"path": "a/b", "number": {"1": 0.5, "x": [None, None, True]}}]


def test_the_list_has_a_sentence_for_each_environment(capsys: pytest.CaptureFixture[str]) -> None:
    assert call("list", "--json", "--quiet") == 0
    found = json.loads(capsys.readouterr().out)
    # Other tests may have registered environments of their own in this process.
    named = {env_id: spec(env_id).entry_point for env_id in registered_ids()}
    ours = [of for of in found["environments"] if named[of["id"]].startswith("llm_decpomdp.envs.")]
    described = [of for of in ours if of["description"].endswith(".")]
    assert described == ours and len(ours) >= 34
    assert "demo" in [of["name"] for of in found["configurations"]]


def test_a_plan_is_data_also_where_it_does_not_fit(capsys: pytest.CaptureFixture[str]) -> None:
    # Of a model whose size is not known here, whatever is installed.
    size = ("--parameters", "1.35e8", "--assume", "memory=0.01", "--override", "model.name=a/b")
    assert call("plan", "demo", "--json", "--quiet", *size) == 2
    found = json.loads(capsys.readouterr().out)
    assert found["fits"] is False and found["gigabytes"] > found["usable_gigabytes"]
    assert set(found["parts"]) >= {"weights", "gradients"}


def test_every_command_with_a_result_takes_json() -> None:
    names = {function.__name__ for function in WITH_RESULTS}
    wanted = {"list_", "doctor", "plan", "train_", "eval_", "bench", "env", "data", "rewards"}
    wanted |= {"credit", "crossplay", "partners", "necessity", "report", "export"}
    assert names >= wanted | {"demonstrations", "reward_model"}
