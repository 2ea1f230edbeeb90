"""Warnings name the user's line."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest

from llm_decpomdp.utils.text import warn
from tests.support.processes import ROOT, python
from tests.wrapper_cases import Greeting, words

LOOP = """
import llm_decpomdp
from pettingzoo.utils.wrappers import BaseParallelWrapper

env = BaseParallelWrapper(llm_decpomdp.make("coophumaneval-v0"))
env.reset(seed=7)  # the line
"""


def test_a_warning_in_the_depth_names_the_line_that_led_to_it(tmp_path: Path) -> None:
    """Without a hub the problems are stand-ins, which is found when they are loaded."""
    script = tmp_path / "loop.py"
    script.write_text(LOOP)
    environment = {"PYTHONPATH": str(ROOT), "HF_HUB_OFFLINE": "1", "PATH": ""}
    result = python(str(script), env=environment)
    line = LOOP.splitlines().index("env.reset(seed=7)  # the line") + 1
    assert f"{script}:{line}: UserWarning: the Hugging Face hub" in result.stderr


def test_a_call_through_a_wrapper_is_the_users(recwarn: pytest.WarningsRecorder) -> None:
    env = Greeting(words())
    env.reset(seed=0)
    env.render()
    assert recwarn.pop(UserWarning).filename == __file__


def test_lines_of_the_packages_between_are_passed_over() -> None:
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        for name in ("llm_decpomdp.depth", "llm_decpomdpish"):
            exec("warn('hello', RuntimeWarning)", {"warn": warn, "__name__": name})
    assert {str(one.message) for one in found} == {"hello"}
    assert [one.filename for one in found] == [__file__, "<string>"]
    assert found[0].category is RuntimeWarning
