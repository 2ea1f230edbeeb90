"""Programs may import the packages that they are offered, and no others."""

from __future__ import annotations

import pytest

from llm_decpomdp.envs.sandbox import Program, Sandbox, instrument
from llm_decpomdp.envs.sandbox.worker_process import is_installed, package_paths

TESTS = instrument("assert f() == 6", "f")
SUM = "import numpy\n\ndef f():\n    return int(numpy.arange(4).sum())\n"


def error(sandbox, code):
    execution = sandbox.run(Program((("x", code),), "f"), TESTS)
    return execution.error.message if execution.error else ""


def test_an_offered_package_can_be_imported():
    execution = Sandbox(packages=("numpy",), workers=1).run(Program((("x", SUM),), "f"), TESTS)
    assert execution.error is None and execution.tests[0].passed


def test_nothing_can_be_imported_that_is_not_offered():
    assert error(Sandbox(workers=1), SUM).startswith("ModuleNotFoundError")
    offering = Sandbox(packages=("numpy",), workers=1)
    assert error(offering, SUM.replace("numpy", "gymnasium")).startswith("ModuleNotFoundError")


def test_what_lies_beside_an_offered_package_cannot_be_read():
    sandbox = Sandbox(packages=("numpy",), workers=1)
    if sandbox.layers()["landlock"]:
        pytest.skip("without Landlock programs can read what their user can")
    code = "import os, numpy\nos.listdir(os.path.dirname(os.path.dirname(numpy.__file__)))\n"
    assert error(sandbox, code).startswith("PermissionError")


def test_a_package_comes_with_what_it_requires_and_nothing_else():
    names = {path.rpartition("/")[2] for path in package_paths(("gymnasium",))}
    assert {"gymnasium", "numpy", "cloudpickle"} <= names
    assert not {"pip", "llm_decpomdp", "pytest"} & names
    assert package_paths(()) == ()


def test_a_package_that_is_not_installed_is_refused():
    assert is_installed("numpy") and not is_installed("no_such_package_at_all")
    with pytest.raises(ValueError, match="no_such_package_at_all"):
        Sandbox(packages=("no_such_package_at_all",))


def test_verdicts_with_and_without_a_package_are_not_mixed_up():
    plain = Sandbox(workers=1)
    assert (
        error(plain, SUM)
        and not error(plain.copy_with_packages(("numpy",)), SUM)
        and error(plain, SUM)
    )
