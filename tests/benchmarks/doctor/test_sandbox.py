"""The doctor tells the layers that are on from those that are off, by what a program could do."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from llm_decpomdp.benchmarks.doctor import sandbox as sandbox_doctor
from llm_decpomdp.benchmarks.doctor.sandbox import (
    FORGERIES,
    LAYERS,
    Attempt,
    Finding,
    examine_sandbox,
    forgeries,
    memory_limit,
    run_probes,
)
from llm_decpomdp.envs.sandbox import Sandbox
from llm_decpomdp.envs.sandbox.worker.confinement import kernel, landlock, seccomp
from tests.support.processes import ROOT

ALL = ("landlock", "namespaces", "seccomp")
NOBODY = 65534

pytestmark = pytest.mark.skipif(not kernel.LINUX, reason="the layers are those of Linux")


@pytest.fixture
def all_layers() -> None:
    """For what only a system with all layers shows."""
    missing = {name: why for name, why in Sandbox().layers().items() if why}
    if missing:
        pytest.skip(f"this system lacks layers: {missing}")


needs_layers = pytest.mark.usefixtures("all_layers")


@cache
def findings(without: tuple[str, ...] = ()) -> Sequence[Finding]:
    return tuple(examine_sandbox(Sandbox(cache_size=0, without=without)))


def about(found: Iterable[Finding], start: str) -> Finding:
    (finding,) = [one for one in found if one.message.startswith(f"sandbox: {start}")]
    return finding


def test_every_layer_is_described() -> None:
    assert LAYERS.keys() == Sandbox().layers().keys()


def test_every_attempt_that_a_layer_names_is_made() -> None:
    named = {name for layer in LAYERS.values() for name in (*layer.stops, *layer.shows)}
    assert named <= run_probes(Sandbox(cache_size=0)).attempts.keys()


@needs_layers
def test_with_all_layers_every_attempt_is_refused() -> None:
    found = findings()
    assert [f.message for f in found if not f.ok and "cgroup" not in f.message] == []
    names = ("socket", "connect", "fork", "exec", "chmod", "kill")
    calls = ", ".join(f"{name}() EPERM" for name in names)
    number = len(seccomp.allowed_calls("candidate", True, os.uname().machine))
    assert about(found, "seccomp").message == (
        f"sandbox: seccomp ({number} system calls allowed): {calls}"
    )
    shown = about(found, f"landlock (ABI {landlock.abi()})").message
    assert "/etc/passwd EACCES" in shown and "works" not in shown
    assert "writing in its folder works" in about(found, "private folder").message
    assert "1 GiB of memory MemoryError" in about(found, "limits").message
    assert about(found, "host-safe").message.startswith("sandbox: host-safe: yes")
    assert about(found, "reward-safe").message.startswith("sandbox: reward-safe: yes")


@needs_layers
@pytest.mark.parametrize(
    ("off", "attempt"), [("landlock", "/etc/passwd works"), ("seccomp", "socket() works")]
)
def test_without_a_layer_the_host_is_not_safe_and_the_reward_is(off: str, attempt: str) -> None:
    found = findings((off,))
    line = about(found, off)
    assert not line.ok and not line.core
    assert "left off on request. Lost: " in line.message and attempt in line.message
    assert line.remedy
    safe = about(found, "host-safe")
    assert (safe.ok, safe.core) == (False, False)
    assert safe.message == f"sandbox: host-safe: no (without {off})"
    assert about(found, "reward-safe").ok


@needs_layers
def test_without_namespaces_the_host_is_still_safe() -> None:
    found = findings(("namespaces",))
    assert not about(found, "namespaces").ok
    assert "needs namespaces and landlock" in about(found, "private folder").message
    assert about(found, "host-safe").ok


def test_without_any_layer_the_tests_are_still_out_of_reach() -> None:
    found = findings(ALL)
    assert about(found, "reward-safe").ok
    assert not about(found, "host-safe").ok
    assert "connect() works" in about(found, "namespaces").message


def test_the_forgeries_are_real() -> None:
    fooled = forgeries(Sandbox(cache_size=0), split=False)
    assert fooled == ["an object that equals everything", "a report of its own"]
    assert set(fooled) < FORGERIES.keys()


@needs_layers
def test_a_layer_that_does_not_hold_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    probe = run_probes(Sandbox(cache_size=0))
    probe.attempts["fork()"] = Attempt(False, "works")
    monkeypatch.setattr(sandbox_doctor, "run_probes", lambda sandbox: probe)
    found = list(examine_sandbox(Sandbox(cache_size=0)))
    line = about(found, "seccomp")
    assert line.core and not line.ok
    assert line.message.endswith("seems to be on, but a program succeeded at fork()")
    assert about(found, "host-safe").message.endswith("no (a layer does not hold)")


def test_a_forged_reward_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox_doctor, "forgeries", lambda sandbox: ["a report of its own"])
    line = about(examine_sandbox(Sandbox(cache_size=0)), "reward-safe")
    assert line.message == "sandbox: reward-safe: no (a report of its own)"
    assert line.core and not line.ok


@pytest.mark.skipif(os.geteuid() != 0, reason="this is an unprivileged user")
def test_root_is_told_what_it_means() -> None:
    assert about(findings(), "you are root; programs run as user 65534").ok
    bare = about(findings(ALL), "you are root; programs run as user 0")
    assert not bare.ok and "/etc/shadow" in bare.message
    assert bare.remedy == "run as an ordinary user"
    assert not about(findings(("namespaces",)), "you are root; programs run as user 0").ok


def test_memory_and_speed_are_figures_of_this_machine() -> None:
    workers = Sandbox().workers
    what = f"programs use at most {workers} workers x 0.5 GiB = {workers * 0.5:g} GiB"
    assert about(findings(), what).ok
    (speed,) = [one.message for one in findings() if "programs/s" in one.message]
    assert float(speed.split()[1]) > 1
    assert "trivial" in speed


def test_the_lowest_of_all_cgroups_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / "cgroup"
    (root / "user/scope").mkdir(parents=True)
    (root / "user/memory.max").write_text("4096\n")
    (root / "user/scope/memory.max").write_text("max\n")
    (tmp_path / "memory.max").write_text("1\n")  # outside
    membership = tmp_path / "membership"
    membership.write_text("3:cpuset:/\n0::/user/scope\n")
    monkeypatch.setattr(sandbox_doctor, "CGROUPS", (root, root / "unified"))
    assert memory_limit(membership) == 4096
    (root / "user/memory.max").write_text("max\n")
    assert memory_limit(membership) is None
    assert memory_limit(tmp_path / "none") is None


@pytest.mark.skipif(os.geteuid() != 0, reason="this is an unprivileged user")
@pytest.mark.parametrize("without", [(), ("landlock",)])
def test_an_unprivileged_user_gets_the_same_judgement(without: tuple[str, ...]) -> None:
    code = (
        "from llm_decpomdp.benchmarks.doctor.sandbox import *\n"
        f"for f in examine_sandbox(Sandbox(cache_size=0, without={without!r})): print(f.ok, f.message)"
    )
    command = [sys.executable, "-B", "-c", code]
    variables = {"HOME": "/nonexistent", "PYTHONPATH": os.environ.get("PYTHONPATH", "")}
    nobody: dict[str, Any] = {"user": NOBODY, "group": NOBODY, "extra_groups": []}
    try:
        done = subprocess.run(
            command, cwd=ROOT, env=variables, capture_output=True, text=True, **nobody
        )
    except PermissionError as error:
        pytest.skip(f"an unprivileged user cannot read the interpreter: {error}")
    if "ModuleNotFoundError" in done.stderr or "PermissionError" in done.stderr:
        pytest.skip("an unprivileged user cannot read the checkout")
    assert done.returncode == 0, done.stderr
    assert "True sandbox: reward-safe: yes" in done.stdout
    safe = about(findings(without), "host-safe").ok
    assert ("sandbox: host-safe: no" in done.stdout) != safe
    assert "you are root" not in done.stdout
