"""Settings of a sandbox: limits, layers of protection that it requires or leaves off, packages."""

from __future__ import annotations

import sys

import pytest

from llm_decpomdp.envs.sandbox import LAYERS, Limits, Program, Sandbox, SandboxError, instrument
from llm_decpomdp.envs.sandbox.worker_process import package_paths
from tests.envs.sandboxed import run, run_caller
from tests.support.programs import SQUARE

linux = pytest.mark.skipif(sys.platform != "linux", reason="layers of Linux")


@pytest.mark.parametrize(
    ("make", "name", "value", "message"),
    [
        (Sandbox, "workers", 0, "workers must be at least 1, got 0"),
        (Sandbox, "isolation", "maybe", "isolation must be one of best_effort, require, got 'maybe'"),
        (Sandbox, "without", ["chroot"], r"unknown layers \['chroot'\]; there are namespaces, landlock, seccomp"),
        (Sandbox, "packages", ["no_such_package_at_all"], "no_such_package_at_all"),
        (Limits, "test_seconds", 0, "test_seconds must be positive and finite, got 0"),
        (Limits, "memory_bytes", -1, "memory_bytes must be positive and finite, got -1"),
        (Limits, "load_seconds", float("nan"), "load_seconds must be positive and finite, got nan"),
        (Limits, "wall_factor", 0.5, "wall_factor must be at least 1, got 0.5"),
        (Limits, "program_seconds", float("inf"), "program_seconds must be positive and finite, got inf"),
        (Limits, "test_seconds", float("inf"), "test_seconds must be positive and finite, got inf"),
    ],
)  # fmt: skip
def test_bad_settings_are_refused(make, name, value, message):
    with pytest.raises(ValueError, match=message):
        make(**{name: value})


# Layers


@linux
def test_all_required_layers_are_here_or_nothing_runs():
    layers = Sandbox(isolation="require").layers()
    assert not any(layers[name] for name in ("no new privileges", "landlock", "seccomp", "limits"))
    for name in ("seccomp", "landlock"):
        with pytest.raises(SandboxError, match=f"lacks {name}: left off on request"):
            run(SQUARE, isolation="require", without=(name,))


@pytest.mark.parametrize("name", LAYERS)
def test_a_layer_that_is_left_off_is_reported(name):
    assert Sandbox(workers=1, without=(name,)).layers()[name] == "left off on request"


DENY = """
import ctypes, struct
from llm_decpomdp.envs.sandbox.worker.confinement import kernel, seccomp
def deny(call):
    code = [(seccomp.LOAD, 0, 0, seccomp.NUMBER), (seccomp.IF_EQUAL, 0, 1, call), *seccomp.DENY, *seccomp.ALLOW]
    code = b"".join(struct.pack("=HBBI", *each) for each in code)
    buffer = ctypes.create_string_buffer(code, len(code))
    header = struct.pack("@HP", len(code) // 8, ctypes.addressof(buffer))
    header = ctypes.create_string_buffer(header, len(header))
    kernel.no_new_privileges()
    kernel.prctl(kernel.PR_SET_SECCOMP, 2, ctypes.addressof(header))
LANDLOCK, UNSHARE = 444, {"x86_64": 272, "aarch64": 97}.get(os.uname().machine)
"""


@linux
def test_missing_layers_are_told_once_and_refused_where_they_are_required():
    output = run_caller(
        DENY
        + """
deny(LANDLOCK)
with warnings.catch_warnings(record=True) as found:
    warnings.simplefilter("always")
    for workers in (1, 2, 1):
        assert statuses(Sandbox(SHORT, workers=workers, cache_size=0)) == ["passed", "passed"]
for warning in found:
    print(warning.category.__name__, warning.message)
try:
    statuses(Sandbox(SHORT, isolation="require"))
except SandboxError as error:
    print(error)
"""
    )
    warning, error = output.splitlines()
    assert warning.startswith("RuntimeWarning the sandbox runs without private folder (")
    assert "; landlock (the kernel has no Landlock, or it is off" in warning
    assert error.startswith("isolation='require', but this system lacks landlock: the kernel has")


@linux
def test_namespaces_are_not_required():
    output = run_caller(
        DENY
        + """
if UNSHARE is not None:
    deny(UNSHARE)
    sandbox = Sandbox(SHORT, isolation="require", cache_size=0)
    assert "no namespaces: unshare: Operation not permitted" in sandbox.layers()["namespaces"]
    assert statuses(sandbox) == ["passed", "passed"]
print("done")
"""
    )
    assert output == "done\n"


# Packages that programs may import

USES_SUM = instrument("assert f() == 6", "f")
SUM = "import numpy\n\ndef f():\n    return int(numpy.arange(4).sum())\n"


def error(sandbox, code):
    execution = sandbox.run(Program((("x", code),), "f"), USES_SUM)
    return execution.error.message if execution.error else ""


def test_an_offered_package_can_be_imported():
    execution = Sandbox(packages=("numpy",), workers=1).run(Program((("x", SUM),), "f"), USES_SUM)
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


def test_results_with_and_without_a_package_are_not_mixed_up():
    plain = Sandbox(workers=1)
    offering = plain.copy_with_packages(("numpy",))
    assert error(plain, SUM) and not error(offering, SUM) and error(plain, SUM)
